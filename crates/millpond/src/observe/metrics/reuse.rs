//! Whether memory is large enough: how pages leave and come back, of files and of regions. By file there is none, as no
//! path is told here.

use super::text::Kind::{self, Counter, Gauge};
use super::text::Text;
use crate::Stats;
use millpond_core::reuse::ReuseFigures;
use millpond_core::units::Nanos;

pub(super) fn families(stats: &Stats, text: &mut Text) {
    text.one(
        "millpond_page_requests_total",
        Counter,
        "Pages of files that calls asked for, in memory or not.",
        stats.page_requests as f64,
    );
    type Value = fn(&ReuseFigures) -> f64;
    let families: [(&str, Kind, &str, Value); 6] = [
        ("evicted_pages_total", Counter, "Pages that were evicted.", |r| {
            r.evicted as f64
        }),
        (
            "refaults_total",
            Counter,
            "Missing pages that had been in memory and left a shadow.",
            |r| r.refaults as f64,
        ),
        (
            "refaults_kept_by_double_total",
            Counter,
            "Of those, pages that twice the memory would have kept.",
            |r| r.refaults_kept_by_double as f64,
        ),
        (
            "refaults_forgotten_total",
            Counter,
            "Lower bound for misses of pages evicted too long ago to be remembered.",
            |r| r.refaults_forgotten as f64,
        ),
        (
            "eviction_age_seconds",
            Gauge,
            "How long recently evicted pages were in memory.",
            |r| age(r.eviction_age),
        ),
        (
            "refault_age_seconds",
            Gauge,
            "Age of pages that came back recently, from when they first came into memory.",
            |r| age(r.refault_age()),
        ),
    ];
    for (name, kind, help, value) in families {
        let mut family = text.family(&format!("millpond_{name}"), kind, help);
        for (of, reuse) in [
            ("file", &stats.reuse_of_files),
            ("region", &stats.reuse_of_regions),
        ] {
            family.sample("", &[("kind", of)], value(reuse));
        }
    }
}

/// In seconds; `NaN`, as the format has it, if there was none.
fn age(age: Option<Nanos>) -> f64 {
    age.map_or(f64::NAN, |Nanos(ns)| super::families::seconds(ns))
}
