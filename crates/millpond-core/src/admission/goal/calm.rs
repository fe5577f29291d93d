//! What reads take while no write is in transit: below that no goal is of use.
//!
//! The tail of some reads is what one of them took, and on a busy machine that is now and then three times what it is
//! otherwise: a goal of 500 us became 960 us so, for seconds. So it is the middle of the last three.

use super::window::{WINDOW_READS_P99, Window};
use crate::units::{Instant, Nanos};

/// So many reads have a tail.
const READS: u32 = WINDOW_READS_P99;
/// Fewer do after so long.
const READS_MIN: u32 = 20;
const SPAN: Nanos = Nanos::from_secs(2);

/// Reads during which no write was in transit.
#[derive(Clone, Debug)]
pub(super) struct Calm {
    reads: Window,
    /// The last tails, oldest first; 0 before there were any.
    tails: [Nanos; 3],
}

impl Calm {
    pub(super) fn new() -> Calm {
        Calm {
            reads: Window::new(Instant(0)),
            tails: [Nanos::ZERO; 3],
        }
    }

    pub(super) fn add(&mut self, now: Instant, latency: Nanos) {
        self.reads.add(latency);
        let is_long = now.since(self.reads.since) >= SPAN;
        if self.reads.reads() >= READS || (is_long && self.reads.reads() >= READS_MIN) {
            let [_, second, third] = self.tails;
            self.tails = match third {
                Nanos::ZERO => [self.reads.tail(); 3],
                _ => [second, third, self.reads.tail()],
            };
            self.reads = Window::new(now);
        }
    }

    /// The middle of the last three; 0 before there were enough reads.
    pub(super) fn tail(&self) -> Nanos {
        let mut tails = self.tails;
        tails.sort_unstable();
        tails[1]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tail_of(calm: &mut Calm, us: u64) -> Nanos {
        for _ in 0..READS {
            calm.add(Instant(0), Nanos::from_micros(us));
        }
        calm.tail()
    }

    #[test]
    fn one_tail_out_of_the_usual_changes_nothing_and_two_do() {
        let mut calm = Calm::new();
        assert_eq!(calm.tail(), Nanos::ZERO);
        let usual = tail_of(&mut calm, 100);
        assert!(usual >= Nanos::from_micros(100));
        assert_eq!(tail_of(&mut calm, 400), usual);
        assert_eq!(tail_of(&mut calm, 100), usual);
        assert_eq!(tail_of(&mut calm, 100), usual);
        assert_eq!(tail_of(&mut calm, 400), usual);
        assert!(tail_of(&mut calm, 400) >= Nanos::from_micros(400));
    }
}
