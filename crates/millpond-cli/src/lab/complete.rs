//! Names that shells complete: experiments, their variants and workloads, devices, policies.

use crate::complete::words;
use clap_complete::engine::{ArgValueCandidates, CompletionCandidate as Candidate};
use millpond_lab::backend::BACKENDS;
use millpond_lab::experiment::{EXPERIMENTS, Experiment};
use millpond_lab::{disk_model, replay};
use millpond_sim::traces::Format;

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
        let candidates = BACKENDS.iter();
        candidates
            .map(|t| Candidate::new(t.name).help(Some(t.about.into())))
            .collect()
    })
}

/// The variants of the experiment named before, or of all experiments.
pub(crate) fn variants() -> ArgValueCandidates {
    ArgValueCandidates::new(|| of_experiments(&words(), |e| e.variants))
}

/// The workloads, likewise.
pub(crate) fn workloads() -> ArgValueCandidates {
    ArgValueCandidates::new(|| of_experiments(&words(), |e| e.workloads))
}

/// The modelled disks.
pub(crate) fn disks() -> ArgValueCandidates {
    from_list(disk_model::NAMES)
}

/// The same, and the real one.
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

/// The formats of traces.
pub(crate) fn formats() -> ArgValueCandidates {
    let candidate = |format: Format| Candidate::new(format.name());
    ArgValueCandidates::new(move || Format::ALL.into_iter().map(candidate).collect())
}

fn of_experiments(words: &[String], of: impl Fn(&Experiment) -> &'static [&'static str]) -> Vec<Candidate> {
    let named = |e: &&Experiment| words.iter().any(|word| word == e.name);
    let is_any_named = EXPERIMENTS.iter().any(|e| named(&e));
    let mut names: Vec<_> = EXPERIMENTS
        .iter()
        .filter(|e| !is_any_named || named(e))
        .flat_map(&of)
        // A pattern is not a name.
        .filter(|name| !name.contains("-MB-"))
        .collect();
    names.sort_unstable();
    names.dedup();
    names.into_iter().map(Candidate::new).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::complete::offered;

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
}
