//! Random and sequential writes and reads, word by word.

use super::{MIB, cache, folder, in_thread};
use crate::refuse::{Refusal, always, request, where_refused};
use crate::support::{Draw, bounded, number};
use millpond::RegionOptions;
use std::thread;

/// The content of word `n` after it was written `times` times.
fn word(n: usize, times: u8) -> u64 {
    match times {
        0 => 0,
        _ => (n as u64 ^ u64::from(times) << 48).wrapping_mul(0x9e37_79b9_7f4a_7c15),
    }
}

/// Runs, as of a program that goes through an array, and single words, each known by its count of writes.
fn work(words: &mut [u64], seed: u64, rounds: u64) {
    let mut draw = Draw(seed);
    let mut times = vec![0_u8; words.len()];
    for _ in 0..rounds {
        let at = draw.below(words.len() as u64) as usize;
        let count = [1, 3, 700][draw.below(3) as usize];
        for at in at..words.len().min(at + count) {
            assert_eq!(words[at], word(at, times[at]), "seed {seed}, word {at}");
            if draw.below(3) > 0 {
                times[at] = times[at].wrapping_add(1).max(1);
                words[at] = word(at, times[at]);
            }
        }
    }
    for (at, &times) in times.iter().enumerate() {
        assert_eq!(words[at], word(at, times), "seed {seed}, word {at}, in the end");
    }
}

/// Four threads work on parts of a region that is `ratio` times the budget.
fn write_and_read(memory: u64, ratio: u64, rounds: u64, options: &RegionOptions) {
    let folder = folder();
    let len = memory * ratio;
    let Some(cache) = cache(folder.path(), memory, len) else {
        return;
    };
    let mut region = cache.region_with(len as usize, options).unwrap();
    let words = region.as_mut_slice_of::<u64>();
    let part = words.len() / 4;
    thread::scope(|scope| {
        for (n, words) in words.chunks_mut(part).enumerate() {
            scope.spawn(move || work(words, n as u64 + 1, rounds));
        }
    });
    let stats = cache.stats();
    assert!(stats.counters.pswpin > 0 && stats.counters.pswpout > 0, "{stats}");
}

#[test]
fn words_of_a_region_four_times_the_budget_are_what_was_written() {
    let rounds = number("MILLPOND_ROUNDS").unwrap_or(2_000);
    bounded(move || write_and_read(8 * MIB, 4, rounds, &RegionOptions::new()));
}

#[test]
fn words_of_a_region_eight_times_the_budget_are_what_was_written() {
    let rounds = number("MILLPOND_ROUNDS").unwrap_or(2_000);
    bounded(move || write_and_read(4 * MIB, 8, rounds, &RegionOptions::new()));
}

#[test]
fn words_of_a_region_whose_threads_serve_their_faults_are_what_was_written() {
    let rounds = number("MILLPOND_ROUNDS").unwrap_or(2_000);
    bounded(move || write_and_read(4 * MIB, 8, rounds, &in_thread::options()));
}

/// Pages that come to be read, are written afterwards, and leave; far from one another, so that each comes by itself.
fn write_after_reading(options: &RegionOptions) {
    const PAGES: usize = 4096;
    const WORDS: usize = 512;
    let folder = folder();
    let Some(cache) = cache(folder.path(), 4 * MIB, 16 * MIB) else {
        return;
    };
    let mut region = cache.region_with(PAGES * 4096, options).unwrap();
    let words = region.as_mut_slice_of::<u64>();
    let some = |n: usize| (n * 1031 + 17) % PAGES;
    (0..PAGES).for_each(|page| words[page * WORDS] = word(page, 1));
    for page in (0..200).map(some) {
        let there = std::hint::black_box(words[page * WORDS]);
        assert_eq!(there, word(page, 1));
        words[page * WORDS] = word(page, 2);
    }
    for n in 200..PAGES {
        assert_eq!(words[some(n) * WORDS], word(some(n), 1));
    }
    for page in (0..200).map(some) {
        assert_eq!(words[page * WORDS], word(page, 2), "page {page}");
    }
}

#[test]
fn a_write_after_a_read_is_kept() {
    bounded(|| write_after_reading(&RegionOptions::new()));
    bounded(|| write_after_reading(&in_thread::options()));
}

/// `UFFDIO_COPY`.
const COPY: u64 = 0xC028_AA03;

fn write_and_read_where_refused(refusal: Refusal) {
    bounded(move || {
        where_refused(&[refusal], || {
            write_and_read(4 * MIB, 4, 500, &RegionOptions::new());
            write_and_read(4 * MIB, 4, 500, &in_thread::options());
        });
    });
}

#[test]
fn words_are_what_was_written_where_the_kernel_has_no_memory_for_copies() {
    write_and_read_where_refused(request(COPY));
}

#[test]
fn words_are_what_was_written_where_pages_are_given_back_one_by_one() {
    write_and_read_where_refused(always(libc::SYS_process_madvise, libc::EPERM));
}

#[test]
fn several_regions_at_a_time_don_t_mix_with_the_smallest_budget() {
    bounded(|| {
        let folder = folder();
        let Some(cache) = cache(folder.path(), MIB, 16 * MIB) else {
            return;
        };
        thread::scope(|scope| {
            for n in 0..4 {
                let cache = &cache;
                scope.spawn(move || {
                    for round in 0..3 {
                        let options = match n % 2 {
                            0 => RegionOptions::new(),
                            _ => in_thread::options(),
                        };
                        let mut region = cache.region_with(2 * MIB as usize, &options).unwrap();
                        work(region.as_mut_slice_of(), n * 10 + round, 200);
                    }
                });
            }
        });
        assert_eq!(cache.stats().swap_used.0, 0);
        let occupancy = cache.stats().occupancy;
        assert_eq!(occupancy.free, occupancy.frames);
    });
}
