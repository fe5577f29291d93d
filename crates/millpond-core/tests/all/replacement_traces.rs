//! Miss ratios on recorded traces: what was published of Linux's rule, what Millpond's is for, and exact counts.
//!
//! `cargo test -p millpond-core --test all replacement_traces:: -- --nocapture` prints the table of the trace that comes with
//! the repository; with `MILLPOND_TRACES=folder` that of ten others too.

use crate::support::{Case, LINUX, mean, millpond, misses, orders, recorded};

/// Trace, pages of memory, misses of Linux's and of Millpond's rule.
type Row<'a> = (&'a str, u32, u64, u64);

#[rustfmt::skip]
const GOLDEN: &[Row] = &[
    ("cloudPhysicsIO", 490, 94809, 94666),
    ("cloudPhysicsIO", 4897, 89458, 84692),
    ("cloudPhysicsIO", 12244, 76973, 72051),
    ("lirs_2_pools", 99, 67749, 52495),
    ("lirs_2_pools", 994, 45661, 45652),
    ("lirs_2_pools", 2485, 38410, 38523),
    ("lirs_cpp", 12, 8659, 7954),
    ("lirs_cpp", 122, 1998, 1905),
    ("lirs_cpp", 306, 1345, 1343),
    ("lirs_cs", 14, 6658, 6662),
    ("lirs_cs", 141, 6657, 6267),
    ("lirs_cs", 352, 6657, 5359),
    ("lirs_gli", 25, 5934, 5949),
    ("lirs_gli", 253, 5932, 5383),
    ("lirs_gli", 632, 5930, 4201),
    ("lirs_multi1", 26, 15366, 13557),
    ("lirs_multi1", 261, 8356, 8072),
    ("lirs_multi1", 652, 8000, 6528),
    ("lirs_multi2", 57, 24376, 22401),
    ("lirs_multi2", 568, 15879, 13126),
    ("lirs_multi2", 1421, 12935, 10041),
    ("lirs_multi3", 75, 26970, 24785),
    ("lirs_multi3", 745, 18733, 15988),
    ("lirs_multi3", 1864, 16137, 12927),
    ("lirs_ps", 31, 9481, 9189),
    ("lirs_ps", 308, 8693, 5122),
    ("lirs_ps", 771, 4953, 4164),
    ("lirs_sprite", 71, 110066, 104333),
    ("lirs_sprite", 708, 19145, 18353),
    ("lirs_sprite", 1769, 9722, 9619),
];

/// Miss ratios of "two lists as Linux reads" that were published with these traces, at a tenth of the distinct pages,
/// and how near ours must be. The published model is not ours to read. With one page out for one in, hits that only
/// count, and the reference bit set by the read that brings a page in, four of five agree to 0.004; with the bit set
/// later, or uses as of mapped pages, two of the four are further off. cloudPhysicsIO is 0.014 better than published
/// by any variant that agrees on the others: hits told at once, no refault detection, another order of the scan.
const PUBLISHED: &[(&str, u32, f64, f64)] = &[
    ("cloudPhysicsIO", 4897, 0.7991, 0.016),
    ("lirs_sprite", 708, 0.1400, 0.004),
    ("lirs_multi2", 568, 0.6040, 0.001),
    ("lirs_gli", 253, 0.9862, 0.001),
    ("lirs_cpp", 122, 0.2242, 0.005),
];

/// Of the trace that comes with the repository: pages of memory, misses of the optimum, of LRU, of Linux's and of Millpond's
/// rule.
#[rustfmt::skip]
const ORDERS: &[(u32, u64, u64, u64, u64)] = &[
    (21, 17984, 24189, 25583, 23259),
    (205, 7870, 13484, 13676, 10420),
    (513, 4735, 8477, 8252, 6993),
];

#[test]
fn orders_of_a_shop_miss_less_than_with_lru() {
    let trace = orders();
    println!(
        "| orders, {} uses, pages | OPT | LRU | linux | millpond |",
        trace.len()
    );
    println!("|---|---|---|---|---|");
    let (mut rows, mut gaps) = (Vec::new(), Vec::new());
    for per_mille in [10, 100, 250] {
        let case = Case::new("orders", &trace, per_mille);
        let (linux, ours) = (
            misses(LINUX, &trace, case.pages),
            misses(millpond(), &trace, case.pages),
        );
        let [opt, lru, of_linux, of_ours] = [case.opt, case.lru, linux, ours].map(|n| case.ratio(n));
        println!(
            "| {} | {opt:.4} | {lru:.4} | {of_linux:.4} | {of_ours:.4} |",
            case.pages
        );
        assert!(ours <= case.lru, "{} pages: {ours}, LRU {}", case.pages, case.lru);
        gaps.extend(case.gap_left(linux).zip(case.gap_left(ours)));
        rows.push((case.pages, case.opt, case.lru, linux, ours));
    }
    let linux = mean(gaps.iter().map(|&(linux, _)| linux));
    let ours = mean(gaps.iter().map(|&(_, ours)| ours));
    println!(
        "misses above the optimum, of LRU's, mean of {}: linux {linux:.3}, millpond {ours:.3}",
        gaps.len()
    );
    let printed: String = rows.iter().map(|row| format!("    {row:?},\n")).collect();
    assert!(
        rows == ORDERS,
        "miss counts have changed; if they should have, say so in decision 0002 and paste:\n{printed}"
    );
}

#[test]
fn rules_do_on_recorded_traces_what_they_are_for() {
    let traces = recorded();
    if traces.is_empty() {
        return;
    }
    let mut rows = Vec::new();
    let mut gaps = Vec::new();
    println!("| trace | pages | OPT | LRU | linux | millpond |");
    println!("|---|---|---|---|---|---|");
    for (name, trace) in &traces {
        for per_mille in [10, 100, 250] {
            let case = Case::new(name, trace, per_mille);
            let linux = misses(LINUX, trace, case.pages);
            let ours = misses(millpond(), trace, case.pages);
            let [opt, lru, of_linux, of_ours] = [case.opt, case.lru, linux, ours].map(|n| case.ratio(n));
            println!(
                "| {name} | {} | {opt:.4} | {lru:.4} | {of_linux:.4} | {of_ours:.4} |",
                case.pages
            );
            for &(published_name, pages, published, near) in PUBLISHED {
                if (published_name, pages) == (name, case.pages) {
                    assert!(
                        (of_linux - published).abs() <= near,
                        "linux on {name} with {pages} pages: {of_linux:.4}, published {published:.4}"
                    );
                }
            }
            // Where last use is the right order, ours may lose some of it, but on the known traces not much.
            assert!(
                !is_known(name) || of_ours <= lru * 1.1,
                "{name} with {} pages: {of_ours:.4}, LRU {lru:.4}",
                case.pages
            );
            gaps.extend(case.gap_left(linux).zip(case.gap_left(ours)));
            rows.push((name.as_str(), case.pages, linux, ours));
        }
    }
    let linux = mean(gaps.iter().map(|&(linux, _)| linux));
    let ours = mean(gaps.iter().map(|&(_, ours)| ours));
    println!(
        "gap left, mean of {}: linux {linux:.3}, millpond {ours:.3}",
        gaps.len()
    );

    let printed: String = rows.iter().map(|row| format!("    {row:?},\n")).collect();
    if !rows
        .iter()
        .all(|row| GOLDEN.iter().any(|golden| golden.0 == row.0))
    {
        println!("counts not compared, there are traces that are not known:\n{printed}");
        return;
    }
    assert!(
        rows == GOLDEN,
        "miss counts have changed; if they should have, say so in decision 0002 and paste:\n{printed}"
    );
    assert!((0.84..0.94).contains(&linux), "gap left by linux: {linux:.3}");
    assert!(ours < 0.65, "gap left by millpond: {ours:.3}");
}

fn is_known(trace: &str) -> bool {
    GOLDEN.iter().any(|golden| golden.0 == trace)
}
