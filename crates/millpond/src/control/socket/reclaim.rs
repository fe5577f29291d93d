//! What reclaim has scanned at the cold end of memory, and what it did there, for clients that ask.

use super::answer::seconds;
use crate::control::cache::Cache;
use millpond_core::page::PageKind;
use millpond_core::reclaim::trace::{Caller, Outcome, Record, SAMPLED_ONE_IN, Trace};
use millpond_core::units::{FileId, PageKey};
use serde_json::{Value, json};
use std::path::PathBuf;

/// Samples in an answer: the last ones.
const SAMPLES: usize = 32;

/// `reclaim`. The trace is copied under the core's lock, as are the paths of the files that are named.
pub(super) fn reclaim(cache: &Cache) -> Value {
    let now = cache.engine.clock.now();
    let (trace, paths) = {
        let core = cache.engine.core();
        let trace = core.manager.trace().clone();
        let path = |file: FileId| -> Option<PathBuf> {
            let file = core.files.get(file.0 as usize)?.as_ref()?;
            (!core.manager.is_anonymous(file.id)).then(|| file.path.clone())
        };
        let paths: Vec<_> = last(&trace).map(|record| path(record.key.file())).collect();
        (trace, paths)
    };
    let samples = last(&trace).zip(paths).map(|(record, path)| {
        json!({
            "ago_s": now.since(record.at).0 as f64 / 1e9,
            "by": caller(record.caller),
            "kind": kind(record.kind),
            "path": path.map(|path| path.display().to_string()),
            "page": record.key.index().0,
            "priority": record.priority,
            "outcome": record.outcome.name(),
        })
    });
    json!({
        "age_s": seconds(cache.engine.age()),
        "outcomes": Outcome::ALL.map(|outcome| of(&trace, outcome)),
        "sampled_one_in": SAMPLED_ONE_IN,
        "samples": samples.collect::<Vec<_>>(),
    })
}

/// Those of pages: a frame that was granted in the same step has none yet.
fn last(trace: &Trace) -> impl Iterator<Item = &Record> {
    let of_pages = || trace.records().filter(|record| record.key != PageKey::NONE);
    of_pages().skip(of_pages().count().saturating_sub(SAMPLES))
}

fn of(trace: &Trace, outcome: Outcome) -> Value {
    let count = |by, kind| trace.count(by, kind, outcome);
    json!({
        "outcome": outcome.name(),
        "background_file": count(Caller::Kswapd, PageKind::File),
        "background_region": count(Caller::Kswapd, PageKind::Anonymous),
        "direct_file": count(Caller::Direct, PageKind::File),
        "direct_region": count(Caller::Direct, PageKind::Anonymous),
    })
}

fn caller(caller: Caller) -> &'static str {
    match caller {
        Caller::Kswapd => "background",
        Caller::Direct => "direct",
    }
}

fn kind(kind: PageKind) -> &'static str {
    match kind {
        PageKind::File => "file",
        PageKind::Anonymous => "region",
    }
}
