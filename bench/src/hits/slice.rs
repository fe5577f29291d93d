//! The loop that is measured, the same for all caches.

use super::ways::Way;
use crate::content::{self, PAGE_WORDS};
use std::fs;
use std::hint::black_box;
use std::sync::Barrier;
use std::thread;
use std::time::{Duration, Instant};

/// What says which page is the next.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Next {
    /// A random number: the processor may begin with it before it has this one's bytes, as with a list of pages.
    Drawn,
    /// The eight bytes that were read, as in a tree.
    Read,
    /// As `Drawn`, and the eight bytes are anywhere in the page, another place each time.
    Anywhere,
}

impl Next {
    pub(super) const ALL: [Next; 3] = [Next::Drawn, Next::Read, Next::Anywhere];

    pub(super) fn title(self) -> &'static str {
        match self {
            Next::Drawn => "the next page is known before this one is read",
            Next::Anywhere => {
                "the next page is known before this one is read; the eight bytes are anywhere in it"
            }
            Next::Read => "the next page depends on what was read from this one, as in a tree",
        }
    }
}

/// What a slice has found.
#[derive(Clone, Copy, Default, Debug)]
pub(super) struct Measured {
    /// The mean of the threads.
    pub(super) ns_per_hit: f64,
    /// Pages that were not there.
    pub(super) misses: u64,
    /// Bits that were not as they should be.
    pub(super) wrong: u64,
    /// Whether something else ran on the processor meanwhile, or the threads not at the same time: the time says nothing.
    pub(super) disturbed: bool,
}

/// What one thread has found.
struct OnThread {
    began: Instant,
    elapsed: Duration,
    misses: u64,
    wrong: u64,
    switches: u64,
}

/// A way with its own copy of the loop, so that nothing of it is called through a pointer.
pub(super) trait Slice {
    fn name(&self) -> String;
    fn settings(&self) -> String;
    fn run(&self, pages: u64, hits: u64, seed: u64, threads: usize, next: Next) -> Measured;
}

impl<W: Way> Slice for W {
    fn name(&self) -> String {
        Way::name(self)
    }

    fn settings(&self) -> String {
        Way::settings(self)
    }

    fn run(&self, pages: u64, hits: u64, seed: u64, threads: usize, next: Next) -> Measured {
        let barrier = Barrier::new(threads);
        let on_thread = |n: usize| {
            let seed = seed << 8 | n as u64;
            let before = switches();
            barrier.wait();
            let mut done = match next {
                Next::Drawn => hit::<W, false, false>(self, pages, hits, seed),
                Next::Read => hit::<W, true, false>(self, pages, hits, seed),
                Next::Anywhere => hit::<W, false, true>(self, pages, hits, seed),
            };
            done.switches = switches() - before;
            done
        };
        let on_thread = &on_thread;
        let done: Vec<OnThread> = thread::scope(|scope| {
            let others: Vec<_> = (1..threads).map(|n| scope.spawn(move || on_thread(n))).collect();
            let own = on_thread(0);
            let others = others.into_iter().filter_map(|thread| thread.join().ok());
            [own].into_iter().chain(others).collect()
        });
        let ns: u128 = done.iter().map(|done| done.elapsed.as_nanos()).sum();
        let longest = done.iter().map(|done| done.elapsed).max().unwrap_or_default();
        let began = || done.iter().map(|done| done.began);
        let apart = began().max().zip(began().min()).map(|(last, first)| last - first);
        Measured {
            ns_per_hit: ns as f64 / done.len() as f64 / hits as f64,
            misses: done.iter().map(|done| done.misses).sum(),
            wrong: done.iter().fold(0, |wrong, done| wrong | done.wrong),
            disturbed: done.iter().any(|done| done.switches > 0)
                || apart.is_some_and(|apart| apart > longest / 8),
        }
    }
}

/// How often the kernel has given this thread's processor to something else, which the thread did not ask for.
fn switches() -> u64 {
    let status = fs::read_to_string("/proc/thread-self/status").unwrap_or_default();
    let field = status
        .lines()
        .find_map(|line| line.strip_prefix("nonvoluntary_ctxt_switches:"));
    field.and_then(|field| field.trim().parse().ok()).unwrap_or(0)
}

#[inline(never)]
fn hit<W: Way, const CHAINED: bool, const ANYWHERE: bool>(
    way: &W,
    pages: u64,
    hits: u64,
    seed: u64,
) -> OnThread {
    let (mut random, mut chain, mut misses, mut wrong) = (seed, 0, 0, 0);
    let began = Instant::now();
    for _ in 0..hits {
        // A linear congruential generator (Knuth's MMIX): a nanosecond. Its upper half says which page.
        random = (random ^ chain)
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        let page = ((random >> 32) * pages) >> 32;
        // The same in a page each time, and another one in each page, as the words that a search looks at first; or anywhere.
        let of_place = if ANYWHERE {
            random >> 20
        } else {
            content::word(page) >> 32
        };
        let place = of_place as usize % PAGE_WORDS;
        match way.word(page, place) {
            Some(word) => {
                // Zero; but the next page can't be known before the word is.
                let difference = word ^ content::word(page);
                wrong |= difference;
                if CHAINED {
                    chain = difference;
                }
            }
            None => misses += 1,
        }
    }
    OnThread {
        began,
        elapsed: began.elapsed(),
        misses: black_box(misses),
        wrong: black_box(wrong),
        switches: 0,
    }
}
