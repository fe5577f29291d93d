//! Names that shells complete: settings and their values, running caches, mounts.

use super::{count, running};
use crate::complete::words;
use clap_complete::engine::{ArgValueCandidates, ArgValueCompleter, CompletionCandidate as Candidate};
use millpond::settings::{Kind, SETTINGS};
use std::ffi::OsStr;

/// Settings as `NAME=VALUE`: first the names, and after the `=` the possible values.
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

/// The running caches, by process id and by name.
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

/// Mount points.
pub(crate) fn mounts() -> ArgValueCandidates {
    ArgValueCandidates::new(|| {
        let names = running().into_iter().filter_map(|(_, about)| {
            let name = about["name"].as_str()?;
            name.starts_with('/').then(|| Candidate::new(name))
        });
        names.collect()
    })
}

fn settings_for(words: &[String], current: &str) -> Vec<Candidate> {
    if let Some((name, value)) = current.split_once('=') {
        let values = values_of(name).into_iter().filter(|v| v.starts_with(value));
        return values
            .map(|value| Candidate::new(format!("{name}={value}")))
            .collect();
    }
    // bash splits words at `=`, and asks for the part after it.
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

/// The possible values after `name=`: all where they are a few words, else the default.
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
    use crate::complete::offered;

    fn line(words: &str) -> Vec<String> {
        words.split(' ').map(str::to_owned).collect()
    }

    #[test]
    fn settings_are_offered_by_name_and_after_the_equals_sign_by_value() {
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
        // As bash splits it: in the middle of a value, and before one.
        assert_eq!(of("set admission = g", "g"), ["goal"]);
        assert_eq!(of("set flusher.write_behind ", ""), ["on", "off", "default"]);
        assert_eq!(of("set dirty.hard=2", "dirty.hard=2"), ["dirty.hard=20%"]);
        assert!(of("set nothing=", "nothing=").is_empty());
    }
}
