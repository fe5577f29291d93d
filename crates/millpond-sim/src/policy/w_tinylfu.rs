//! W-TinyLFU (Einziger, Friedman, Manes, TOS 2017): a window before a filter by frequency.
//!
//! ```text
//!   new ──► window, LRU, 1 % ──► more often used than main's victim? ──► main: probation 20 %, protected 80 %, both LRU
//!                                 └ no: gone                               used in probation: protected
//! ```
//!
//! A sketch estimates how often pages were recently used: four rows of 4-bit counters, of which the smallest counts
//! (count-min, conservative update). All counters are halved after ten times as many uses as memory has pages.

use super::Policy;
use super::lists::Lists;

const WINDOW: usize = 0;
const PROBATION: usize = 1;
const PROTECTED: usize = 2;

/// One page of memory in this many is the window.
const WINDOW_ONE_IN: u32 = 100;
/// Counters are halved after this many uses for each page of memory.
const SAMPLE_TIMES: u64 = 10;

pub(super) struct WTinyLfu {
    window_max: u32,
    main_max: u32,
    protected_max: u32,
    lists: Lists<3>,
    sketch: Sketch,
}

impl WTinyLfu {
    pub(super) fn new(pages: u32, frames: u32) -> WTinyLfu {
        let window_max = (frames / WINDOW_ONE_IN).max(1);
        let main_max = frames - window_max;
        WTinyLfu {
            window_max,
            main_max,
            protected_max: (u64::from(main_max) * 4 / 5) as u32,
            lists: Lists::new(pages),
            sketch: Sketch::new(frames),
        }
    }

    fn protect(&mut self, page: u32) {
        self.lists.push(PROTECTED, page);
        if self.lists.len(PROTECTED) > self.protected_max
            && let Some(old) = self.lists.oldest(PROTECTED)
        {
            self.lists.push(PROBATION, old);
        }
    }

    /// The oldest page of the window goes to main, or one of the two goes.
    fn leave_window(&mut self) {
        let Some(candidate) = self.lists.pop(WINDOW) else {
            return;
        };
        if self.lists.len(PROBATION) + self.lists.len(PROTECTED) == self.main_max {
            let victim = self.lists.oldest(PROBATION).or(self.lists.oldest(PROTECTED));
            match victim {
                Some(victim) if self.sketch.estimate(candidate) > self.sketch.estimate(victim) => {
                    self.lists.remove(victim);
                }
                _ => return,
            }
        }
        self.lists.push(PROBATION, candidate);
    }
}

impl Policy for WTinyLfu {
    fn access(&mut self, page: u32) -> bool {
        self.sketch.add(page);
        match self.lists.list_of(page) {
            Some(PROBATION | PROTECTED) => self.protect(page),
            Some(_) => self.lists.push(WINDOW, page),
            None => {
                self.lists.push(WINDOW, page);
                if self.lists.len(WINDOW) > self.window_max {
                    self.leave_window();
                }
                return false;
            }
        }
        true
    }
}

/// The most that a counter holds: 4 bits.
const COUNTER_MAX: u8 = 15;
const ROWS: usize = 4;
/// Columns for each page of memory, at least: 16 counters in all, as Caffeine has them.
const COUNTERS_A_PAGE: usize = 4;

struct Sketch {
    /// `ROWS` rows, one after the other.
    counters: Vec<u8>,
    /// A power of two.
    width: usize,
    uses: u64,
    sample: u64,
}

impl Sketch {
    fn new(frames: u32) -> Sketch {
        let width = (COUNTERS_A_PAGE * frames as usize).next_power_of_two();
        Sketch {
            counters: vec![0; ROWS * width],
            width,
            uses: 0,
            sample: SAMPLE_TIMES * u64::from(frames),
        }
    }

    /// The positions of a page's counters.
    fn places(&self, page: u32) -> [usize; ROWS] {
        // The finalizer of splitmix64.
        let mut hash = u64::from(page).wrapping_add(0x9e37_79b9_7f4a_7c15);
        hash = (hash ^ (hash >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        hash = (hash ^ (hash >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        hash ^= hash >> 31;
        let (one, other) = (hash as u32, (hash >> 32) as u32 | 1);
        std::array::from_fn(|row| {
            let column = one.wrapping_add(other.wrapping_mul(row as u32)) as usize & (self.width - 1);
            row * self.width + column
        })
    }

    fn estimate(&self, page: u32) -> u8 {
        let counters = self.places(page).map(|place| self.counters[place]);
        counters.into_iter().fold(COUNTER_MAX, u8::min)
    }

    fn add(&mut self, page: u32) {
        let least = self.estimate(page);
        if least < COUNTER_MAX {
            for place in self.places(page) {
                let counter = &mut self.counters[place];
                *counter += u8::from(*counter == least);
            }
        }
        self.uses += 1;
        if self.uses == self.sample {
            self.uses /= 2;
            self.counters.iter_mut().for_each(|counter| *counter /= 2);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counters_never_tell_too_little_and_are_halved_after_a_sample() {
        let mut sketch = Sketch::new(64);
        for page in 0..32 {
            (0..=page % 8).for_each(|_| sketch.add(page));
        }
        for page in 0..32 {
            assert!(u32::from(sketch.estimate(page)) > page % 8, "{page}");
        }
        let before = sketch.estimate(7);
        (sketch.uses..sketch.sample).for_each(|_| sketch.add(31));
        assert_eq!(sketch.estimate(7), before / 2);
        assert!(sketch.estimate(31) <= COUNTER_MAX);
    }
}
