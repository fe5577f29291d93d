//! `millpond inspect`: why the limits of a running cache are what they are, its settings, and who has changed them.

use super::set::{limits, settings};
use super::{Cache, Which, ago, count, list, text};
use crate::failure::Failure;
use clap::ValueEnum;
use millpond::internal::quantity::size;
use millpond_core::units::Bytes;
use serde_json::Value;
use std::io::{self, Write};
use std::process::ExitCode;

const HELP: &str = "\
Examples:
  millpond inspect limits
  millpond inspect limits dirty.hard dirty.background
  millpond inspect options --all --cache 4711
  millpond inspect history --json

Every number in a formula is a setting (`inspect options`), another limit, or a constant that docs/CONTROL.md explains;
the bounds follow a comma. Divisions are rounded down.
Exit codes: 0, 1 the cache does not answer, 2 bad command line.";

#[derive(Clone, Copy, ValueEnum)]
enum What {
    /// Every value derived from settings and memory: its formula, its inputs, and what was set, when and by whom.
    Limits,
    /// Every setting, as `millpond set` takes it, and its range.
    Options,
    /// The last changes of settings: when, by whom, and the resulting limits.
    History,
}

#[derive(clap::Args)]
#[command(after_help = HELP)]
pub(crate) struct InspectArgs {
    /// What to show.
    what: What,
    /// Only these limits or settings, by name or the beginning of it; limits also by a setting that they depend
    /// on. Default: all.
    #[arg(value_name = "NAME", add = super::complete::setting_names())]
    names: Vec<String>,
    #[command(flatten)]
    which: Which,
    /// Include settings of forms that are not chosen.
    #[arg(long)]
    all: bool,
    /// Print the answer as JSON instead of text.
    #[arg(long)]
    json: bool,
}

impl InspectArgs {
    fn wants(&self, of: &Value) -> bool {
        let name = text(of, "name");
        self.names.is_empty() || self.names.iter().any(|wanted| name.starts_with(wanted.as_str()))
    }

    /// Names that are no limit's but perhaps a setting's, as `millpond set` knows it: they stand for the limits that
    /// depend on it.
    fn settings_of<'a>(&'a self, limits: &[&Value]) -> Vec<&'a str> {
        let is_limit = |wanted: &str| limits.iter().any(|limit| text(limit, "name").starts_with(wanted));
        let names = self.names.iter().map(String::as_str);
        names.filter(|wanted| !is_limit(wanted)).collect()
    }

    /// The goal is listed with the limits, and is not in pages.
    fn wants_goal(&self, goal: &Value) -> bool {
        goal.is_object()
            && (self.wants(goal) || self.names.iter().any(|name| name == "admission.read_latency"))
    }

    /// The error for a name that nothing has, with the names that exist.
    fn none(&self, cache: &mut Cache, all: &[&str]) -> Failure {
        let names = self.names.join(", ");
        let (other, list_name, what) = match self.what {
            What::Options => ("limits", "limits", "a limit"),
            _ => ("options", "options", "a setting that no limit depends on"),
        };
        let answer = cache.ask(&format!("inspect {other}")).map(|(_, answer)| answer);
        let is_there = answer.is_ok_and(|answer| {
            let goal = text(&answer["goal"], "name").to_owned();
            let named = |name: &str| self.names.iter().any(|wanted| name.starts_with(wanted.as_str()));
            list(&answer, list_name).iter().any(|of| named(text(of, "name"))) || named(&goal)
        });
        Failure::bad_usage(match is_there {
            true => format!(
                "{names} is {what}: ask `millpond inspect {other} {}`",
                self.names.join(" ")
            ),
            false => format!("there is no {names}; the names are: {}", all.join(", ")),
        })
    }
}

pub(crate) fn inspect(args: &InspectArgs) -> Result<ExitCode, Failure> {
    let (line, list_name) = match args.what {
        What::Limits => ("inspect limits", "limits"),
        What::Options => ("inspect options", "options"),
        What::History => ("inspect history", "changes"),
    };
    let mut cache = args.which.find()?;
    let (_, answer) = cache.ask(line)?;
    let mut stdout = io::stdout().lock();
    let found: Vec<_> = list(&answer, list_name).iter().collect();
    let wanted: Vec<_> = match args.what {
        What::History => found,
        What::Limits => {
            let settings = args.settings_of(&found);
            let depends = |of: &Value| {
                list(of, "settings")
                    .iter()
                    .any(|s| settings.iter().any(|name| s == name))
            };
            found
                .iter()
                .copied()
                .filter(|of| args.wants(of) || depends(of))
                .collect()
        }
        What::Options => found.iter().copied().filter(|of| args.wants(of)).collect(),
    };
    let has_goal = args.wants_goal(&answer["goal"]);
    if wanted.is_empty() && !has_goal && !args.names.is_empty() {
        let mut all: Vec<_> = list(&answer, list_name)
            .iter()
            .map(|of| text(of, "name"))
            .collect();
        all.extend(answer["goal"]["name"].as_str());
        return Err(args.none(&mut cache, &all));
    }
    if args.json {
        let mut answer = answer.clone();
        if !has_goal && !args.names.is_empty() {
            answer["goal"] = Value::Null;
        }
        answer[list_name] = wanted.into_iter().cloned().collect();
        writeln!(stdout, "{answer}")?;
        return Ok(ExitCode::SUCCESS);
    }
    let age = answer["age_s"].as_f64().unwrap_or(0.0);
    match args.what {
        What::Limits => {
            for limit in wanted {
                print_limit(limit, &mut stdout)?;
            }
            if has_goal {
                print_goal(&answer["goal"], &mut stdout)?;
            }
        }
        What::Options => {
            for option in wanted {
                if args.all || !option["value"].is_null() {
                    print_option(option, &mut stdout)?;
                }
            }
        }
        What::History => print_history(&answer, &wanted, age, &mut stdout)?,
    }
    Ok(ExitCode::SUCCESS)
}

fn print_limit(limit: &Value, to: &mut dyn Write) -> io::Result<()> {
    writeln!(
        to,
        "{} = {} pages, {}",
        text(limit, "name"),
        count(limit, "pages"),
        size(Bytes(count(limit, "bytes")))
    )?;
    writeln!(to, "    = {}", text(limit, "formula"))?;
    let settings: Vec<_> = list(limit, "settings")
        .iter()
        .filter_map(|name| name.as_str())
        .collect();
    write!(to, "    set: {}", text(limit, "setting"))?;
    if settings.len() > 1 {
        write!(to, "; depends on {}", settings.join(", "))?;
    }
    let when = ago(limit["set_ago_s"].as_f64().unwrap_or(0.0));
    match limit["set_last"].as_str() {
        None => writeln!(to, "; none has changed since the cache was made {when} ago"),
        Some(last) => {
            let by = limit["set_by"].as_str();
            let by = by.map(|by| format!(" by {by}")).unwrap_or_default();
            writeln!(to, "; last changed: {last}, {when} ago{by}")
        }
    }
}

/// The goal moves with the device.
fn print_goal(goal: &Value, to: &mut dyn Write) -> io::Result<()> {
    writeln!(
        to,
        "{} = {} us now",
        text(goal, "name"),
        count(goal, "ns").div_ceil(1_000)
    )?;
    writeln!(to, "    = {}", text(goal, "formula"))?;
    write!(to, "    set: {}", text(goal, "setting"))?;
    if let Some(source) = goal["source"].as_str().filter(|source| *source != "set") {
        write!(to, " ({source})")?;
    }
    let when = ago(goal["set_ago_s"].as_f64().unwrap_or(0.0));
    match goal["set_by"].as_str() {
        None => writeln!(to, "; not changed since the cache was made {when} ago"),
        Some(by) => writeln!(to, "; last changed: admission.read_latency, {when} ago by {by}"),
    }
}

fn print_option(option: &Value, to: &mut dyn Write) -> io::Result<()> {
    let (name, value, default) = (
        text(option, "name"),
        option["value"].as_str(),
        option["default"].as_str(),
    );
    let is_other = value.is_some() && default.is_some() && value != default;
    let pair = match value {
        Some(value) => format!("{name}={value}"),
        None => format!("({name}: only with {})", text(option, "belongs_to")),
    };
    write!(
        to,
        "{pair:36} {}; allowed: {}",
        text(option, "about"),
        text(option, "allowed")
    )?;
    match default {
        Some(default) if is_other => writeln!(to, "; default: {default}"),
        _ => writeln!(to),
    }
}

fn print_history(answer: &Value, changes: &[&Value], age: f64, to: &mut dyn Write) -> io::Result<()> {
    if changes.is_empty() {
        return writeln!(
            to,
            "no setting has changed since the cache was made {} ago",
            ago(age)
        );
    }
    let forgotten = count(answer, "forgotten");
    if forgotten > 0 {
        writeln!(to, "{forgotten} earlier changes are forgotten")?;
    }
    for change in changes {
        let since = age - change["age_s"].as_f64().unwrap_or(0.0);
        writeln!(
            to,
            "{}  {} ago by {}",
            count(change, "number"),
            ago(since.max(0.0)),
            text(change, "by")
        )?;
        settings(change, "   ", to)?;
        limits(change, "     ", to)?;
    }
    Ok(())
}
