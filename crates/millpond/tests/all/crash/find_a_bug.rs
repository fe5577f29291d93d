//! The example of `docs/TESTING.md` finds what was planted, and nothing else.

#[allow(
    dead_code,
    unreachable_pub,
    reason = "the example as it is, with a main that nobody calls here"
)]
#[path = "../../../examples/find_a_bug.rs"]
mod example;

use crate::support::{Place, bounded};
use example::Planted;
use std::path::Path;

type Test = fn(&Path, Planted) -> Result<String, Box<dyn std::error::Error>>;

fn found(test: Test, planted: Planted) -> String {
    let folder = Place::Memory.folder();
    test(folder.path(), planted).unwrap()
}

#[test]
fn crashes_at_every_moment_find_a_forgotten_sync_and_a_missing_sum() {
    bounded(|| {
        let test = example::crash_everywhere;
        let nothing = found(test, Planted::Nothing);
        assert!(nothing.starts_with("nothing, in "), "{nothing}");
        let no_sync = found(test, Planted::NoSync);
        assert!(no_sync.contains("records were acknowledged"), "{no_sync}");
        let no_sum = found(test, Planted::NoSum);
        assert!(no_sum.ends_with("is not what was appended"), "{no_sum}");
    });
}

#[test]
fn a_full_disk_and_a_trace_find_a_forgotten_sync() {
    bounded(|| {
        for planted in [Planted::Nothing, Planted::NoSum] {
            assert_eq!(found(example::fill_the_disk, planted), "nothing");
            assert_eq!(found(example::look_at_the_calls, planted), "nothing");
        }
        let full = found(example::fill_the_disk, Planted::NoSync);
        assert!(full.starts_with("a record was acknowledged"), "{full}");
        let calls = found(example::look_at_the_calls, Planted::NoSync);
        assert_eq!(calls, "16 appends without a sync");
    });
}

/// Code in the page that stands nowhere else would be wrong one day.
#[test]
fn the_page_shows_the_examples_as_they_are() {
    // However it is broken into lines.
    let code = |text: &str| -> String { text.split_whitespace().collect() };
    let examples = [
        code(include_str!("../../../examples/find_a_bug.rs")),
        code(include_str!("../../../examples/kv.rs")),
    ];
    let page = include_str!("../../../../../docs/TESTING.md");
    let shown = page.split("```rust\n").skip(1);
    let shown: Vec<_> = shown.filter_map(|rest| rest.split("```").next()).collect();
    assert!(shown.len() >= 6, "{} pieces of code", shown.len());
    for piece in shown {
        let is_there = examples.iter().any(|example| example.contains(&code(piece)));
        assert!(is_there, "not in the examples:\n{piece}");
    }
}
