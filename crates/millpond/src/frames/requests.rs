//! How many pages calls have asked for, counted without a line of memory that two threads write.
//!
//! Each thread counts in a line of its own, which it finds by the number of its hazard record: while it has the record no
//! other thread adds there, and the next owner sees what was added (H6). So an addition is a load and a store. Threads
//! without a record, of which there are none before 4096 have one, share a count.

use crate::frames::hazard;
use crate::frames::sync::{AtomicU64, Ordering, RECORDS_MAX, Reserved};
use std::io;

/// Counts to a line of 64 bytes.
const STRIDE: usize = 8;

/// One request in so many stands for all of a file that has many: [`Requests::found`].
pub(crate) const SAMPLED_ONE_IN: u64 = 256;

/// 2^64 by the golden ratio. The products of numbers that follow one another fall evenly between 0 and 2^64, also of every
/// second or hundredth of them: a loop is sampled at all its places alike.
const GOLDEN: u64 = 0x9e37_79b9_7f4a_7c15;

/// Pages asked for, of all files of a cache.
pub(crate) struct Requests {
    own: Reserved<AtomicU64>,
    others: AtomicU64,
}

impl Requests {
    /// None yet.
    ///
    /// # Errors
    /// If the kernel gives no addresses (256 KiB, of which one page is touched for each 64 threads).
    pub(crate) fn new() -> io::Result<Requests> {
        Ok(Requests {
            own: Reserved::new(RECORDS_MAX * STRIDE)?,
            others: AtomicU64::new(0),
        })
    }

    /// A page was asked for and found. Whether it is the one in [`SAMPLED_ONE_IN`] that stands for the others.
    #[inline]
    pub(crate) fn found(&self) -> bool {
        self.add(1).wrapping_mul(GOLDEN) < u64::MAX / SAMPLED_ONE_IN
    }

    /// So many pages were asked for. How many this thread has by now, or all threads without a record.
    #[inline]
    pub(crate) fn add(&self, pages: u64) -> u64 {
        let own = hazard::thread_record().and_then(|record| self.own.get(record * STRIDE));
        let Some(own) = own else {
            return self.others.fetch_add(pages, Ordering::Relaxed) + pages;
        };
        let count = own.load(Ordering::Relaxed).wrapping_add(pages);
        own.store(count, Ordering::Relaxed);
        count
    }

    /// All of them.
    pub(crate) fn total(&self) -> u64 {
        let own = self.own.iter().step_by(STRIDE).take(hazard::records_used());
        own.chain([&self.others])
            .map(|count| count.load(Ordering::Relaxed))
            .fold(0, u64::wrapping_add)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_threads_ask_for_adds_up_also_when_they_have_ended() {
        let requests = Requests::new().unwrap();
        for _ in 0..3 {
            std::thread::scope(|scope| {
                for _ in 0..4 {
                    scope.spawn(|| (0..1000).for_each(|_| _ = requests.found()));
                }
            });
        }
        requests.add(7);
        assert_eq!(requests.total(), 12_007);
    }

    #[test]
    fn each_place_of_a_loop_is_sampled_alike() {
        for places in [2, 61, 64, 256, 610] {
            let requests = Requests::new().unwrap();
            let mut samples = vec![0; places];
            for n in 0..places * 100_000 {
                samples[n % places] += u64::from(requests.found());
            }
            let expected = 100_000 / SAMPLED_ONE_IN;
            let is_near = |&count: &u64| count.abs_diff(expected) <= expected / 10;
            assert!(samples.iter().all(is_near), "{places}: {samples:?}");
        }
    }
}
