//! The worth of each option of Millpond's rule: the part of decision 0002's table that needs no build of its own.
//!
//! `MILLPOND_TRACES=folder cargo test -p millpond-core --test all replacement_variants:: -- --ignored --nocapture`

use crate::support::{Case, LINUX, LINUX_IMMEDIATE, mean, misses, recorded, synthetic};
use millpond_core::lru::{MillpondOptions, Replacement};
use millpond_core::units::Ratio;

#[test]
#[ignore = "prints tables, asserts nothing"]
fn variants() {
    let with = |change: fn(&mut MillpondOptions)| {
        let mut options = MillpondOptions::default();
        change(&mut options);
        Replacement::Millpond(options)
    };
    let variants: &[(&str, Replacement)] = &[
        ("linux", LINUX),
        ("linux, hits told at once", LINUX_IMMEDIATE),
        ("millpond", with(|_| ())),
        ("probe 1", with(|o| o.probe_pages = 1)),
        ("probe 2", with(|o| o.probe_pages = 2)),
        ("probe 8", with(|o| o.probe_pages = 8)),
        ("probe 32", with(|o| o.probe_pages = 32)),
        (
            "ghost window 0 %",
            with(|o| o.ghost_window = Ratio { num: 0, den: 1 }),
        ),
        ("ghost window 2 %", with(|o| o.ghost_window = Ratio::percent(2))),
        ("ghost window 10 %", with(|o| o.ghost_window = Ratio::percent(10))),
        ("target from 2 %", with(|o| o.inactive_start_per_mille = 20)),
        ("target from 20 %", with(|o| o.inactive_start_per_mille = 200)),
        ("window 0 %", with(|o| o.window = Ratio::percent(0))),
        ("window 2 %", with(|o| o.window = Ratio::percent(2))),
        ("usage count to 1", with(|o| o.usage_count_max = 1)),
        ("usage count to 2", with(|o| o.usage_count_max = 2)),
    ];
    let recorded = recorded();
    let synthetic = synthetic();
    let cases = |traces: &mut dyn Iterator<Item = (&'static str, &'static [u32])>| -> Vec<Case<'static>> {
        traces
            .flat_map(|(name, trace)| {
                [3, 10, 30, 50, 100, 250, 600].map(|per_mille| Case::new(name, trace, per_mille))
            })
            .collect()
    };
    // The traces live as long as the test program.
    let recorded: &'static Vec<_> = Box::leak(Box::new(recorded));
    let synthetic: &'static Vec<_> = Box::leak(Box::new(synthetic));
    let groups = [
        cases(&mut recorded.iter().map(|(n, t)| (n.as_str(), t.as_slice()))),
        cases(&mut synthetic.iter().map(|(n, t)| (*n, t.as_slice()))),
    ];
    println!(
        "| variant | recorded: gap left | worst against LRU | synthetic: gap left | worst against LRU |"
    );
    println!("|---|---|---|---|---|");
    for (name, replacement) in variants {
        print!("| {name} |");
        for cases in &groups {
            let counts: Vec<u64> = cases
                .iter()
                .map(|case| misses(*replacement, case.trace, case.pages))
                .collect();
            let pairs = || cases.iter().zip(&counts);
            let gap = mean(pairs().filter_map(|(case, &n)| case.gap_left(n)));
            let worst = pairs()
                .map(|(case, &n)| n as f64 / case.lru as f64)
                .fold(0.0, f64::max);
            print!(" {gap:.3} | {worst:.3} |");
        }
        println!();
    }
}
