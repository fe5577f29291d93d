//! How fast other programs take memory in each place, while `memory=auto`: the margin must last until the budget is
//! lowered.
//!
//! ```text
//!   held there, look by look ── less what the cache took itself ──► what others hold, until the cache gives some back
//!   the most that it rose in any half second ──► taken a second; halved each 10 s without more
//! ```
//!
//! What the cache gives back is not added to what others took: the kernel may count it for long (a huge page, until the last
//! of it has left, or the limit is reached), and what is not seen to fall would be a rise by others, which lowers the budget,
//! which gives back more. So others are seen by rises alone, between two times that the cache gives back.
//!
//! A mild neighbour, 80 MiB a second up to 176, had a cache killed in a group of 512 MiB: the margin was 64.

use super::auto::Pool;
use crate::host::MemoryGroup;
use millpond_core::units::{Bytes, Instant, Nanos};
use std::collections::VecDeque;
use std::path::PathBuf;

/// Growth is measured over this time, so that one allocation does not look like a stream of them. Ours.
const WINDOW: Nanos = Nanos::from_millis(500);
/// After this long without growth, half as much is expected. Ours.
const HALVED_AFTER: Nanos = Nanos::from_secs(10);

/// A place, as it was at the looks of the last half second.
#[derive(Debug, Default)]
struct Seen {
    group: Option<PathBuf>,
    held: u64,
    /// Growth of the budget that has not shown up in the pool yet: it comes at once, or as the pool fills.
    own_to_come: u64,
    /// What others hold, from an arbitrary start; less what the cache has given back.
    others: VecDeque<(Instant, i64)>,
    taken: u64,
    since: Instant,
}

/// All places.
#[derive(Debug, Default)]
pub(super) struct Takers {
    places: Vec<Seen>,
    /// The budget with what is leaving.
    own: Option<u64>,
}

impl Takers {
    /// A look: says of each place what others take of it in a second.
    pub(super) fn look(&mut self, places: &mut [MemoryGroup], pool: Pool, now: Instant) {
        let own = pool.budget.0 + pool.leaving.0;
        let before = self.own.replace(own).unwrap_or(own);
        self.places
            .retain(|seen| places.iter().any(|place| place.group == seen.group));
        for place in places {
            let known = self.places.iter().position(|seen| seen.group == place.group);
            let at = known.unwrap_or_else(|| {
                self.places.push(Seen {
                    group: place.group.clone(),
                    held: place.held.0,
                    since: now,
                    ..Seen::default()
                });
                self.places.len() - 1
            });
            place.taken_a_second = self.places[at].look(place.held.0, (before, own), now);
        }
    }
}

impl Seen {
    fn look(&mut self, held: u64, (before, own): (u64, u64), now: Instant) -> Bytes {
        // What leaves is first what was never filled.
        self.own_to_come = (self.own_to_come + own).saturating_sub(before).min(own);
        let grown = held as i64 - self.held as i64;
        let took = grown.clamp(0, self.own_to_come as i64);
        self.own_to_come -= took as u64;
        self.held = held;
        let others = self.others.back().map_or(0, |&(_, others)| others) + grown - took;
        // One that is older is kept: looks may be further apart.
        while self.others.get(1).is_some_and(|&(at, _)| now.since(at) >= WINDOW) {
            self.others.pop_front();
        }
        self.others.push_back((now, others));
        let least = self.others.iter().min_by_key(|&&(_, others)| others);
        let &(at, least) = least.unwrap_or(&(now, others));
        let span = now.since(at).max(WINDOW).0;
        let taken = (others - least).max(0) as u128 * 1_000_000_000 / u128::from(span);
        let taken = u64::try_from(taken).unwrap_or(u64::MAX);
        if taken >= self.taken {
            (self.taken, self.since) = (taken, now);
        } else if now.since(self.since) >= HALVED_AFTER {
            (self.taken, self.since) = (self.taken / 2, now);
        }
        Bytes(self.taken)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pool(budget: u64) -> Pool {
        Pool {
            budget: Bytes::from_mib(budget),
            leaving: Bytes(0),
            is_full: true,
        }
    }

    /// MiB a second after a reading this many tenths of a second later.
    fn look(takers: &mut Takers, pool: Pool, held: u64, tenth: u64) -> u64 {
        let mut places = [MemoryGroup {
            group: None,
            limit: Bytes::from_mib(1024),
            held: Bytes::from_mib(held),
            stalls: None,
            taken_a_second: Bytes(0),
        }];
        takers.look(&mut places, pool, Instant(tenth * 100_000_000));
        places[0].taken_a_second.0 >> 20
    }

    #[test]
    fn growth_of_others_is_seen_within_half_a_second_and_forgotten_by_halves() {
        let mut takers = Takers::default();
        let taken: Vec<u64> = (0..8)
            .map(|n| look(&mut takers, pool(100), 200 + 8 * n, n))
            .collect();
        assert_eq!(taken, [0, 16, 32, 48, 64, 80, 80, 80], "80 MiB a second");
        assert_eq!(look(&mut takers, pool(100), 256, 100), 80);
        assert_eq!(look(&mut takers, pool(100), 256, 107), 40);
        assert_eq!(look(&mut takers, pool(100), 256, 207), 20);
        assert_eq!(look(&mut takers, pool(100), 296, 217), 40, "looks a second apart");
    }

    #[test]
    fn the_cache_s_own_changes_are_not_others_growth() {
        let mut takers = Takers::default();
        look(&mut takers, pool(100), 200, 0);
        assert_eq!(look(&mut takers, pool(140), 200, 1), 0, "a step up");
        assert_eq!(look(&mut takers, pool(140), 230, 2), 0, "it is filled");
        assert_eq!(look(&mut takers, pool(140), 240, 3), 0);
        assert_eq!(look(&mut takers, pool(140), 245, 4), 10, "by others");
        // It has given back 40: the kernel counts it until later.
        assert_eq!(look(&mut takers, pool(100), 245, 5), 10);
        assert_eq!(look(&mut takers, pool(100), 205, 6), 10);
        assert_eq!(look(&mut takers, pool(100), 215, 7), 20, "by others, since");
        // A step up that was taken back before it was filled.
        look(&mut takers, pool(140), 215, 8);
        look(&mut takers, pool(100), 215, 9);
        assert_eq!(look(&mut takers, pool(100), 235, 10), 60);
    }
}
