//! What a shell offers behind TAB: commands and options, and the names that only this program knows.
//!
//! ```text
//!   millpond completions bash ──► a script for the shell ──► TAB: MILLPOND_COMPLETE=bash millpond -- the words so far
//!                                                                                        │
//!        experiments, their variants and workloads, settings, running caches, mounts ◄───┘
//! ```
//!
//! The program is asked at each TAB, so that what is offered is what it takes, and caches are those that run now.

use crate::control::{count, running};
use crate::{Cli, Failure};
use clap::CommandFactory;
use clap_complete::CompleteEnv;
use clap_complete::engine::{ArgValueCandidates, ArgValueCompleter, CompletionCandidate as Candidate};
use clap_complete::env::{Bash, Elvish, EnvCompleter, Fish, Powershell, Zsh};
use millpond::settings::{Kind, SETTINGS};
use millpond_lab::backend::TARGETS;
use millpond_lab::experiment::{EXPERIMENTS, Experiment};
use millpond_lab::{disk_model, replay};
use std::ffi::OsStr;
use std::io::Write;
use std::path::Path;

/// The shell's name is in it where a shell asks.
const VARIABLE: &str = "MILLPOND_COMPLETE";

/// For which shells there are scripts.
#[derive(Clone, Copy, clap::ValueEnum)]
pub(crate) enum Shell {
    Bash,
    Elvish,
    Fish,
    Powershell,
    Zsh,
}

/// Answers and ends if it is a shell that has started this program to ask. Before anything else is written.
pub(crate) fn answer_if_a_shell_asks() {
    CompleteEnv::with_factory(Cli::command).var(VARIABLE).complete();
}

/// Writes the script that makes the shell ask.
pub(crate) fn write_script(shell: Shell, to: &mut dyn Write) -> Result<(), Failure> {
    let shell: &dyn EnvCompleter = match shell {
        Shell::Bash => &Bash,
        Shell::Elvish => &Elvish,
        Shell::Fish => &Fish,
        Shell::Powershell => &Powershell,
        Shell::Zsh => &Zsh,
    };
    // As it was called: by its name from the PATH, or this very file.
    let called = std::env::args_os().next().unwrap_or_default();
    let is_path = Path::new(&called).components().count() > 1;
    let program = match is_path {
        true => std::env::current_exe()?,
        false => called.into(),
    };
    let program = program.to_string_lossy();
    Ok(shell.write_registration(VARIABLE, "millpond", "millpond", &program, to)?)
}

fn from_list(list: &'static str) -> ArgValueCandidates {
    ArgValueCandidates::new(move || list.split(", ").map(Candidate::new).collect())
}

/// The experiments.
pub(crate) fn experiments() -> ArgValueCandidates {
    let candidate = |e: &Experiment| Candidate::new(e.name).help(Some(e.shows.into()));
    ArgValueCandidates::new(move || EXPERIMENTS.iter().map(candidate).collect())
}

/// The targets.
pub(crate) fn targets() -> ArgValueCandidates {
    ArgValueCandidates::new(|| {
        let candidates = TARGETS.iter();
        candidates
            .map(|t| Candidate::new(t.name).help(Some(t.about.into())))
            .collect()
    })
}

/// The variants of the experiment that is named before, of all of them if none is.
pub(crate) fn variants() -> ArgValueCandidates {
    ArgValueCandidates::new(|| of_experiments(&words(), |e| e.variants))
}

/// And the workloads.
pub(crate) fn workloads() -> ArgValueCandidates {
    ArgValueCandidates::new(|| of_experiments(&words(), |e| e.workloads))
}

/// The modelled disks.
pub(crate) fn disks() -> ArgValueCandidates {
    from_list(disk_model::NAMES)
}

/// The same, or the real one.
pub(crate) fn devices() -> ArgValueCandidates {
    ArgValueCandidates::new(|| {
        let names = disk_model::NAMES.split(", ");
        ["real"].into_iter().chain(names).map(Candidate::new).collect()
    })
}

/// The policies of `replay`.
pub(crate) fn policies() -> ArgValueCandidates {
    from_list(replay::POLICIES)
}

/// Settings as `NAME=VALUE`: first the names, behind the `=` what may stand there.
pub(crate) fn settings() -> ArgValueCompleter {
    ArgValueCompleter::new(|current: &OsStr| settings_for(&words(), &current.to_string_lossy()))
}

/// Settings by their names.
pub(crate) fn setting_names() -> ArgValueCandidates {
    ArgValueCandidates::new(|| {
        let settings = SETTINGS.iter();
        settings
            .map(|s| Candidate::new(s.name).help(Some(s.about.into())))
            .collect()
    })
}

/// The caches that run now, by the numbers of their processes and by their names.
pub(crate) fn caches() -> ArgValueCandidates {
    ArgValueCandidates::new(|| {
        let mut candidates = Vec::new();
        for (_, about) in running() {
            let pid = count(&about, "pid").to_string();
            let name = about["name"].as_str();
            let program = about["program"].as_str().unwrap_or_default();
            let help = format!("{program} {}", name.unwrap_or_default());
            candidates.push(Candidate::new(&pid).help(Some(help.trim().to_owned().into())));
            candidates
                .extend(name.map(|name| Candidate::new(name).help(Some(format!("process {pid}").into()))));
        }
        candidates
    })
}

/// Where something is mounted.
pub(crate) fn mounts() -> ArgValueCandidates {
    ArgValueCandidates::new(|| {
        let names = running().into_iter().filter_map(|(_, about)| {
            let name = about["name"].as_str()?;
            name.starts_with('/').then(|| Candidate::new(name))
        });
        names.collect()
    })
}

/// The words up to the one that is completed, without the program's own.
fn words() -> Vec<String> {
    let words = std::env::args_os().skip_while(|word| word != "--").skip(2);
    let mut words: Vec<_> = words.map(|word| word.to_string_lossy().into_owned()).collect();
    // Where a shell tells of what stands behind the cursor, too, it says at which word that is.
    let at = std::env::var("_CLAP_COMPLETE_INDEX")
        .ok()
        .and_then(|at| at.parse().ok());
    words.truncate(at.unwrap_or(usize::MAX));
    words
}

fn of_experiments(words: &[String], of: impl Fn(&Experiment) -> &'static [&'static str]) -> Vec<Candidate> {
    let named = |e: &&Experiment| words.iter().any(|word| word == e.name);
    let is_any_named = EXPERIMENTS.iter().any(|e| named(&e));
    let mut names: Vec<_> = EXPERIMENTS
        .iter()
        .filter(|e| !is_any_named || named(e))
        .flat_map(&of)
        // A pattern is no name.
        .filter(|name| !name.contains("-MB-"))
        .collect();
    names.sort_unstable();
    names.dedup();
    names.into_iter().map(Candidate::new).collect()
}

fn settings_for(words: &[String], current: &str) -> Vec<Candidate> {
    if let Some((name, value)) = current.split_once('=') {
        let values = values_of(name).into_iter().filter(|v| v.starts_with(value));
        return values
            .map(|value| Candidate::new(format!("{name}={value}")))
            .collect();
    }
    // bash takes words apart at `=`, and asks for what stands behind it.
    let before = words.len().checked_sub(2).map(|at| &words[..=at]);
    let name = match before {
        Some([.., name, equals]) if equals == "=" => Some(name),
        Some([.., name]) => Some(name),
        _ => None,
    };
    if let Some(name) = name.filter(|name| SETTINGS.iter().any(|s| s.name == *name)) {
        let values = values_of(name).into_iter().filter(|v| v.starts_with(current));
        return values.map(Candidate::new).collect();
    }
    let names = SETTINGS.iter().filter(|s| s.name.starts_with(current));
    names
        .map(|s| Candidate::new(format!("{}=", s.name)).help(Some(s.about.into())))
        .collect()
}

/// What can stand behind `name=`: all of it where that is a few words, else the default.
fn values_of(name: &str) -> Vec<String> {
    let Some(setting) = SETTINGS.iter().find(|s| s.name == name) else {
        return Vec::new();
    };
    let mut values: Vec<String> = match setting.kind {
        Kind::Word(words) => words.iter().map(|word| (*word).to_owned()).collect(),
        Kind::Switch => vec!["on".into(), "off".into()],
        Kind::Memory => vec!["auto".into()],
        _ => setting
            .default_value()
            .map(|value| value.to_string())
            .into_iter()
            .collect(),
    };
    if setting.default_value().is_some() {
        values.push("default".into());
    }
    values
}

#[cfg(test)]
mod tests {
    use super::*;

    fn offered(candidates: Vec<Candidate>) -> Vec<String> {
        let value = |c: Candidate| c.get_value().to_string_lossy().into_owned();
        candidates.into_iter().map(value).collect()
    }

    fn line(words: &str) -> Vec<String> {
        words.split(' ').map(str::to_owned).collect()
    }

    #[test]
    fn variants_and_workloads_are_those_of_the_experiment_that_is_named() {
        let of = |words| offered(of_experiments(&line(words), |e| e.variants));
        assert_eq!(
            of("lab run hills2015 --variant "),
            ["bug404", "fixed", "millpond"]
        );
        let all = of("lab run --variant ");
        assert!(all.contains(&"goal".into()) && all.contains(&"two-laps".into()));
        let workloads = offered(of_experiments(&line("lab run kim2020 --workload "), |e| {
            e.workloads
        }));
        assert!(workloads.contains(&"hot-cold".into()), "{workloads:?}");
        assert!(!workloads.iter().any(|name| name.contains("MB")), "{workloads:?}");
    }

    #[test]
    fn settings_are_offered_by_name_and_behind_the_equals_sign_by_value() {
        let of = |words, current| offered(settings_for(&line(words), current));
        let dirty = ["dirty.background=", "dirty.hard=", "dirty.failed="];
        assert_eq!(of("set dirty.", "dirty."), dirty);
        assert_eq!(of("set a=b ", "").len(), SETTINGS.len());
        let forms = [
            "admission=goal",
            "admission=bytes",
            "admission=off",
            "admission=default",
        ];
        assert_eq!(of("set admission=", "admission="), forms);
        // As bash cuts it: in the middle of a value, and before one.
        assert_eq!(of("set admission = g", "g"), ["goal"]);
        assert_eq!(of("set flusher.write_behind ", ""), ["on", "off", "default"]);
        assert_eq!(of("set dirty.hard=2", "dirty.hard=2"), ["dirty.hard=20%"]);
        assert!(of("set nothing=", "nothing=").is_empty());
    }
}
