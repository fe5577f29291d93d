//! The size of the cache's budget while it follows the host: the rule behind `memory=auto:MIN..MAX`.
//!
//! ```text
//!   a place: the machine, or a control group with a limit; free = its limit - what is held there and can't be dropped
//!   margin = 1/8 of the limit; 64 MiB where that is less, but 1/4 at most
//!            and what others take in a second (`takers`), up to 1/2 of the limit in all
//!
//!   free   0 ..... margin / 2 ......... margin ................................. the limit
//!            lowered at │ left as it is   │ raised, while that leaves the margin free, the cache is full, and nothing
//!            once to the│                 │ was short for 10 s: by 1/64 of MAX a second; doubled a second before the
//!            margin     │                 │ first lack, by half of what is free beyond the margin at most
//!
//!   some avg10 >= 10 %, where less than 2 margins are free: lowered by 1/8; once more when it has risen, or after 10 s
//! ```
//!
//! A new cache begins with the minimum and grows as it is filled: a budget that is not filled yet would be
//! counted as free by others, and a cache that takes all at once, empty as it is, leaves nothing to the next
//! program.
//!
//! A function of the range, the pool, the places and the time: it reads nothing and waits for nothing. The place that has
//! least decides. Memory that the pool has yet to give back counts as given, so that a budget is not lowered twice for
//! the same lack. The gap of half a margin is four of the largest steps up, if the limit is no less than the maximum: one
//! step doesn't undo one down.

use crate::host::{MemoryGroup, Stalls};
use crate::settings::MemoryRange;
use millpond_core::units::{Bytes, Instant, Nanos};
use std::time::Duration;

/// The margin is this part of the limit. Ours; Linux' own reserves (`min_free_kbytes`, 4.6) are smaller by far, but below a
/// control group's limit the kernel has none.
const MARGIN: u64 = 8;
/// And no less than this: what a program takes at its start does not shrink with its group. Ours: an interpreter with its
/// modules, or a compiler, takes some tens of MiB at once.
const MARGIN_MIN: Bytes = Bytes::from_mib(64);
/// But never more than this part, so that a cache in a tiny group has something. Ours.
const MARGIN_MAX: u64 = 4;
/// With what others take in a second, no more than this part. Ours.
const MARGIN_TAKEN_MAX: u64 = 2;
/// Others may begin to take this much a second at any time, and must be noticed before half of the margin is gone: the
/// rate of a program that touches new memory as fast as a slow machine can clear it. Ours.
const TAKEN_A_SECOND: u64 = 512 << 20;
/// Between two readings, where little is free and where much is. The kernel's averages of stalls move every 2 s
/// (`PSI_FREQ`, Linux 4.20). A reading takes 0.1 to 0.2 ms.
const LOOK_MIN: Duration = Duration::from_millis(50);
const LOOK_MAX: Duration = Duration::from_secs(1);
/// Between two steps up.
const STEP_EVERY: Nanos = Nanos::from_secs(1);
/// A step up is this part of the maximum, once something was short: all of it takes a minute. Ours: a quarter of what is
/// short, if the limit is no less than the maximum.
const STEP: u64 = 64;
/// Stalls take this part of the budget at a time. Ours.
const STALL_STEP: u64 = 8;
/// Stalls of a tenth of the time lower the budget.
const STALLS_HIGH: Stalls = Stalls::HIGH;
/// And below a hundredth it may be raised again. Ours: a tenth of that.
const STALLS_LOW: Stalls = Stalls(100);
/// The window of the kernel's `avg10`: what is done about stalls shows there by then.
const CALM: Nanos = Nanos::from_secs(10);

impl MemoryGroup {
    /// The memory that should be free there.
    fn margin(&self) -> u64 {
        let usual = (self.limit.0 / MARGIN).max(MARGIN_MIN.0.min(self.limit.0 / MARGIN_MAX));
        let most = (self.limit.0 / MARGIN_TAKEN_MAX).max(usual);
        usual.saturating_add(self.taken_a_second.0).min(most)
    }

    fn free(&self, leaving: Bytes) -> Bytes {
        Bytes((self.limit.0 + leaving.0).saturating_sub(self.held.0))
    }

    /// The memory to give back so that enough is free, if there is a shortage.
    fn lack(&self, leaving: Bytes) -> Option<u64> {
        let is_short = self.free(leaving).0 < self.margin() / 2;
        // Not by what is free, which is nothing at the least: the limit may be far below what is held.
        is_short.then(|| (self.held.0 + self.margin()).saturating_sub(self.limit.0 + leaving.0))
    }

    fn room(&self, leaving: Bytes) -> u64 {
        self.free(leaving).0.saturating_sub(self.margin())
    }

    fn counting_stalls(&self, leaving: Bytes) -> Stalls {
        // Elsewhere the limit of another makes them.
        let counts = self.free(leaving).0 < self.margin() * 2;
        self.stalls.filter(|_| counts).unwrap_or_default()
    }

    /// As a part of a sentence.
    fn told(&self, leaving: Bytes) -> String {
        let (free, limit) = (mib(self.free(leaving)), mib(self.limit));
        match &self.group {
            None => format!("{free} of {limit} free in the machine"),
            Some(group) => format!("{free} of {limit} free in the control group {}", group.display()),
        }
    }
}

fn mib(bytes: Bytes) -> String {
    format!("{} MiB", bytes.0 >> 20)
}

/// The cache's memory.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Pool {
    pub(crate) budget: Bytes,
    /// Memory above the budget, which goes as pages leave.
    pub(crate) leaving: Bytes,
    /// Whether it would use more: a pool that is not full needs none.
    pub(crate) is_full: bool,
}

/// When the host was short last, and what stalls there were then.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub(crate) struct Last {
    at: Option<Instant>,
    stalls: Stalls,
    /// When the budget was raised last.
    raised: Option<Instant>,
}

/// The new budget, and the reason.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Next {
    pub(crate) budget: Bytes,
    pub(crate) last: Last,
    /// A sentence without its end.
    pub(crate) why: String,
}

/// The budget for a new cache: the minimum, from which it grows; the maximum where nothing says how much there is.
pub(crate) fn first(range: MemoryRange, places: &[MemoryGroup]) -> Bytes {
    match places.is_empty() {
        true => range.max,
        false => range.min,
    }
}

/// When to look again: before others, who may take as much as is likely at the most, have taken half of the margin; and when
/// the next step up may be due.
pub(crate) fn look_after(places: &[MemoryGroup], leaving: Bytes, last: Last, now: Instant) -> Duration {
    let step = last.raised.map(|at| STEP_EVERY.0.saturating_sub(now.since(at).0));
    let step = step.filter(|&step| step > 0).map(Duration::from_nanos);
    let least = places.iter().map(|place| {
        let left = place.free(leaving).0.saturating_sub(place.margin() / 2);
        Duration::from_millis(left / (TAKEN_A_SECOND / 1_000))
    });
    let soonest = least.chain(step).min().unwrap_or(LOOK_MAX);
    soonest.clamp(LOOK_MIN, LOOK_MAX)
}

/// The next budget. Asked once a second or more often.
pub(crate) fn next(range: MemoryRange, pool: Pool, places: &[MemoryGroup], last: Last, now: Instant) -> Next {
    let leaving = pool.leaving;
    let answer = |budget: u64, last: Last, why: String| {
        let budget = range.clamp(Bytes(budget));
        Next { budget, last, why }
    };
    let as_it_is = |why: String| answer(pool.budget.0, last, why);
    let stalled = places.iter().max_by_key(|place| place.counting_stalls(leaving));
    let stalls = stalled
        .map(|place| place.counting_stalls(leaving))
        .unwrap_or_default();
    let at_now = Last {
        at: Some(now),
        stalls,
        raised: last.raised,
    };
    let lack = |place: &MemoryGroup| place.lack(leaving);
    if let Some((lack, place)) = places
        .iter()
        .filter_map(|p| Some((lack(p)?, p)))
        .max_by_key(|(lack, _)| *lack)
    {
        let why = format!("short, {}", place.told(leaving));
        return answer(pool.budget.0.saturating_sub(lack), at_now, why);
    }
    let is_calm = last.at.is_none_or(|at| now.since(at) >= CALM);
    if let Some(place) = stalled.filter(|_| stalls >= STALLS_HIGH) {
        let why = format!(
            "programs wait for memory {stalls} of the time, {}",
            place.told(leaving)
        );
        return match is_calm || stalls > last.stalls {
            true => answer(pool.budget.0 - pool.budget.0 / STALL_STEP, at_now, why),
            false => as_it_is(why),
        };
    }
    let Some(least) = places.iter().min_by_key(|place| place.room(leaving)) else {
        return as_it_is("the host's memory is unknown".into());
    };
    let room = least.room(leaving);
    // Before anything was short it is unknown how much is too much, and a new cache is to get to its size in
    // seconds.
    let fast = match last.at {
        None => pool.budget.0.min(room / 2),
        Some(_) => 0,
    };
    let step = (range.max.0 / STEP).max(fast);
    let step = step.min(range.max.0.saturating_sub(pool.budget.0));
    let why = least.told(leaving);
    if step == 0 {
        as_it_is(format!("the maximum, {why}"))
    } else if !is_calm || stalls >= STALLS_LOW {
        as_it_is(format!("not calm for {} s yet, {why}", CALM.0 / 1_000_000_000))
    } else if !pool.is_full {
        as_it_is(format!("the cache has pages to spare, {why}"))
    } else if room < step {
        as_it_is(format!("no room for more, {why}"))
    } else if last.raised.is_some_and(|at| now.since(at) < STEP_EVERY) {
        as_it_is(format!("room for more, {why}"))
    } else {
        let last = Last {
            raised: Some(now),
            ..last
        };
        answer(pool.budget.0 + step, last, format!("room for more, {why}"))
    }
}

#[cfg(test)]
mod tests;
