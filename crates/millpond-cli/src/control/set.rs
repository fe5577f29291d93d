//! `millpond set`: other settings for a running cache, all of them or none.

use super::{Which, count, list, text};
use crate::failure::Failure;
use millpond::internal::quantity::size;
use millpond_core::units::Bytes;
use serde_json::Value;
use std::io::{self, Write};
use std::process::ExitCode;

const HELP: &str = "\
Examples:
  millpond set memory=1G
  millpond set dirty.background=64M dirty.hard=20%
  millpond set admission.read_latency=10ms --cache 4711
  millpond set admission.read_latency=measure         back to what reads of the idle disk take
  millpond set admission=bytes admission.high=2M      another form, and a setting of it
  millpond set dirty.hard=default

`millpond inspect options` lists all settings with their values and ranges. Sizes take K, M, G, T (powers of 1024) or
KB, MB, GB, TB (powers of 1000), times us, ms, s, min; shares are 20%, 0.8% or 1/256. Several settings apply from left
to right, all of them or none. A change takes effect at once and lasts until the cache ends.
Exit codes: 0 set, or already set, 1 the cache does not answer, 2 a bad setting: nothing is changed.";

#[derive(clap::Args)]
#[command(after_help = HELP)]
pub(crate) struct SetArgs {
    /// What to set, such as dirty.background=64M.
    #[arg(required = true, value_name = "NAME=VALUE", add = super::complete::settings())]
    settings: Vec<String>,
    #[command(flatten)]
    which: Which,
    /// Print what has changed as JSON instead of text.
    #[arg(long)]
    json: bool,
}

pub(crate) fn set(args: &SetArgs) -> Result<ExitCode, Failure> {
    for setting in &args.settings {
        millpond::settings::pair(setting).map_err(|e| Failure::bad_usage(e.to_string()))?;
        if setting.contains(char::is_whitespace) {
            let message = format!("{setting:?}: a setting has no blanks, such as dirty.background=64M");
            return Err(Failure::bad_usage(message));
        }
    }
    let (line, change) = args
        .which
        .find()?
        .ask(&format!("set {}", args.settings.join(" ")))?;
    let mut stdout = io::stdout().lock();
    match args.json {
        true => writeln!(stdout, "{line}")?,
        false => print(&change, &mut stdout)?,
    }
    Ok(ExitCode::SUCCESS)
}

fn print(change: &Value, to: &mut dyn Write) -> io::Result<()> {
    let notes: Vec<_> = list(change, "notes").iter().filter_map(Value::as_str).collect();
    if list(change, "settings").is_empty() && notes.is_empty() {
        return writeln!(to, "all of this is already set: nothing has changed");
    }
    settings(change, "", to)?;
    if !list(change, "limits").is_empty() {
        writeln!(to, "limits that follow:")?;
    }
    limits(change, "  ", to)?;
    for note in notes {
        writeln!(to, "note: {note}")?;
    }
    Ok(())
}

/// The settings of a change, a line each.
pub(super) fn settings(change: &Value, indent: &str, to: &mut dyn Write) -> io::Result<()> {
    for setting in list(change, "settings") {
        let none = "(not there)";
        let (old, new) = (&setting["old"], &setting["new"]);
        writeln!(
            to,
            "{indent}{:24} {} -> {}",
            text(setting, "name"),
            old.as_str().unwrap_or(none),
            new.as_str().unwrap_or(none)
        )?;
    }
    Ok(())
}

/// The changes of limits, a line each.
pub(super) fn limits(change: &Value, indent: &str, to: &mut dyn Write) -> io::Result<()> {
    for limit in list(change, "limits") {
        writeln!(
            to,
            "{indent}{:22} {} -> {} pages ({} -> {})",
            text(limit, "name"),
            count(limit, "old_pages"),
            count(limit, "new_pages"),
            size(Bytes(count(limit, "old_bytes"))),
            size(Bytes(count(limit, "new_bytes")))
        )?;
    }
    Ok(())
}
