//! The smallest example of each rule, and properties of all of them.

use super::*;

/// Which uses hit, as a text: `.` a miss, `x` a hit.
fn seen(model: Model, frames: u64, pages: &[u32]) -> String {
    let misses_up_to = |n: usize| misses(model, frames, &pages[..n]);
    (0..pages.len())
        .map(|n| match misses_up_to(n + 1) - misses_up_to(n) {
            0 => 'x',
            _ => '.',
        })
        .collect()
}

fn misses(model: Model, frames: u64, pages: &[u32]) -> u64 {
    let uses: Vec<Use> = pages.iter().map(|&page| (page, true)).collect();
    counted(model, frames, &uses)
}

fn counted(model: Model, frames: u64, uses: &[Use]) -> u64 {
    let result: Result<u64, ()> = model.misses(uses, frames, &mut |_| Ok(()));
    result.unwrap()
}

#[test]
fn opt_keeps_what_is_used_sooner() {
    // With room for two: 3 takes the place of 2, as 1 is used sooner.
    assert_eq!(misses(Model::Opt, 2, &[1, 2, 3, 1, 2]), 4);
    // 0 1 2 come in, 3 takes 2's place; from then on every third use misses.
    let pages: Vec<u32> = (0..100).map(|n| n % 4).collect();
    assert_eq!(misses(Model::Opt, 3, &pages), 4 + 96 / 3);
}

#[test]
fn lru_misses_every_use_of_a_loop_longer_than_memory() {
    let pages: Vec<u32> = (0..100).map(|n| n % 4).collect();
    assert_eq!(misses(Model::Lru, 3, &pages), 100);
    assert_eq!(misses(Model::Lru, 4, &pages), 4);
    assert_eq!(seen(Model::Lru, 2, &[1, 2, 1, 3, 1, 2]), "..x.x.");
}

#[test]
fn clock_gives_a_used_page_a_second_chance_and_no_third() {
    // 1 was used: 2 goes for 3. Then 1, whose bit is clear, goes for 4.
    assert_eq!(seen(Model::Clock, 2, &[1, 2, 1, 3, 1]), "..x.x");
    assert_eq!(seen(Model::Clock, 2, &[1, 2, 1, 3, 4, 1]), "..x...");
}

#[test]
fn sieve_leaves_a_used_page_where_it_is() {
    // The hand passes 1, takes 2 for 4, 3 for 5 and 4 for 6. CLOCK has moved 1 in front of 4, and takes 1 for 6.
    let pages = [1, 2, 3, 1, 4, 5, 6, 1];
    assert_eq!(seen(Model::Sieve, 3, &pages), "...x...x");
    assert_eq!(seen(Model::Clock, 3, &pages), "...x....");
}

#[test]
fn arc_lengthens_the_list_whose_ghosts_come_back() {
    // 1 is in T2; 2 leaves T1 for 3 and is a ghost; it comes back, raises the aim for T1, and goes to T2.
    assert_eq!(seen(Model::Arc, 2, &[1, 1, 2, 3, 2, 1]), ".x....");
    // A page that is used twice outlives a scan.
    assert_eq!(seen(Model::Arc, 3, &[1, 1, 2, 3, 4, 5, 6, 7, 1]), ".x......x");
}

#[test]
fn lirs_keeps_pages_of_short_distance_through_a_loop() {
    // Two LIR pages stay; of a loop of four over three pages of memory half of the uses hit.
    let pages: Vec<u32> = (0..40).map(|n| n % 4).collect();
    assert_eq!(misses(Model::Lirs, 3, &pages), 4 + 36 / 2);
    // 3 comes while memory is full, is used again while it is on the stack, and changes roles with 1.
    assert_eq!(seen(Model::Lirs, 3, &[1, 2, 3, 3, 1, 4, 3, 2]), "...xx.xx");
}

#[test]
fn s3_fifo_moves_what_was_used_twice_to_main() {
    // Ten frames, one of them small; 0 to 8 fill main while memory fills.
    let fill: Vec<u32> = (0..10).collect();
    let twice = [&fill[..], &[0, 0, 20, 21, 0]].concat();
    assert!(seen(Model::S3Fifo, 10, &twice).ends_with("xx..x"));
    let once = [&fill[..], &[0, 20, 21, 0]].concat();
    assert!(seen(Model::S3Fifo, 10, &once).ends_with("x..."));
    // What comes back from the ghosts goes to main.
    let ghost = [&fill[..], &[0, 0, 20, 21, 20, 22, 23, 20]].concat();
    assert!(seen(Model::S3Fifo, 10, &ghost).ends_with("xx.....x"));
}

#[test]
fn clock2q_plus_ignores_uses_within_the_window() {
    // Forty frames, four of them small, the window two insertions long.
    let mut fill: Vec<u32> = (0..40).collect();
    fill.extend([100, 101, 102, 103]);
    let use_late = [&fill[..], &[100, 104, 105, 106, 107, 100]].concat();
    assert!(seen(Model::Clock2QPlus, 40, &use_late).ends_with("x....x"));
    let use_soon = [&fill[..], &[103, 104, 105, 106, 107, 103]].concat();
    assert!(seen(Model::Clock2QPlus, 40, &use_soon).ends_with("x....."));
}

#[test]
fn w_tinylfu_admits_what_is_used_more_often_than_what_it_would_replace() {
    // Main is full of pages that were used twice: a scan of pages that are used once takes none of their places.
    let mut pages: Vec<u32> = (0..20).flat_map(|page| [page, page]).collect();
    pages.extend(100..110);
    pages.extend(0..19);
    assert!(seen(Model::WTinyLfu, 20, &pages).ends_with(&"x".repeat(19)));
}

#[test]
fn linux_and_millpond_are_the_cores_own() {
    // Pages that are used twice stay while a scan of twice the memory passes.
    let mut pages: Vec<u32> = (0..40).collect();
    pages.extend(0..10);
    pages.extend(0..10);
    pages.extend(100..300);
    for model in [Model::TwoLists, Model::Millpond] {
        let hot = [&pages[..], &(0..10).collect::<Vec<_>>()].concat();
        let missed = misses(model, 100, &hot) - misses(model, 100, &pages);
        assert_eq!(missed, 0, "{model:?}");
    }
}

#[test]
fn a_page_that_is_overwritten_whole_is_no_miss() {
    let uses = [(0, false), (0, true), (1, true), (0, true)];
    for model in [Model::Lru, Model::Opt] {
        assert_eq!(
            [1, 2].map(|frames| counted(model, frames, &uses)),
            [2, 1],
            "{model:?}"
        );
    }
}

#[test]
fn no_policy_beats_the_optimum_and_none_misses_what_fits() {
    for name in synthetic::NAMES {
        let uses = synthetic::load(name, 0.03, 7).unwrap();
        let distinct = uses.iter().collect::<std::collections::HashSet<_>>().len() as u64;
        for frames in [1, 2, 3, 9, 10, 11, 40, 100, 199, 300] {
            let least = counted(Model::Opt, frames, &uses);
            for model in Model::ALL {
                let misses = counted(model, frames, &uses);
                assert!(
                    misses >= least && misses <= uses.len() as u64,
                    "{name}, {model:?} with {frames} frames: {misses}, OPT {least}"
                );
            }
        }
        for model in Model::ALL {
            assert_eq!(
                counted(model, distinct, &uses),
                distinct,
                "{name}, {model:?}: memory for all"
            );
        }
    }
}

#[test]
fn a_run_ends_when_it_is_told_to() {
    let uses = synthetic::load("zipf", 3.0, 1).unwrap();
    let mut heard = 0;
    let mut at = |_| {
        heard += 1;
        if heard == 2 { Err("stop") } else { Ok(()) }
    };
    assert_eq!(Model::Lru.misses(&uses, 10, &mut at), Err("stop"));
    assert_eq!(heard, 2);
}

#[test]
fn names_are_read_back_and_unknown_ones_get_the_list() {
    for model in Model::ALL {
        assert_eq!(model.name().parse::<Model>().unwrap(), model);
    }
    let error = "mru".parse::<Model>().unwrap_err().to_string();
    assert!(
        error.starts_with("unknown policy `mru`; allowed: opt, lru, clock"),
        "{error}"
    );
}
