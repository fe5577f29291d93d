//! Passes of the pageout daemon: when it goes on at once, when it sleeps, when a process must die (`vm_pageout`).
//!
//! ```text
//!   enough?  yes: pass 0 (1 after a later one), sleep until woken, at most 5 s for statistics
//!            no:  pass + 1; from the second on half a second's sleep before the next
//! ```

use millpond_core::units::Nanos;

/// The longest sleep of the daemon when it is not woken.
pub const STATISTICS: Nanos = Nanos::from_secs(5);
/// And between passes that were not enough.
pub const BETWEEN_PASSES: Nanos = Nanos::from_millis(500);

/// The daemon's next step.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Next {
    /// Another scan.
    Scan,
    /// A scan after this time, or when a thread that waits for memory wakes it.
    ScanAfter(Nanos),
    /// It waits until there is too little again.
    Sleep,
}

/// A scan has ended. Answers the pass of the next one, and when that begins.
pub fn after_scan(pass: u32, is_enough: bool) -> (u32, Next) {
    if is_enough {
        return (u32::from(pass > 1), Next::Sleep);
    }
    match pass + 1 {
        1 => (1, Next::Scan),
        pass => (pass, Next::ScanAfter(BETWEEN_PASSES)),
    }
}

/// Whether the largest process is killed: passes have failed, too little is free even for threads that wait, and what is
/// dirty has nowhere to go.
pub fn kills(pass: u32, is_below_min: bool, is_swap_full: bool) -> bool {
    pass > 0 && is_below_min && is_swap_full
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_daemon_that_fails_tries_once_more_at_once_and_then_every_half_second() {
        let (pass, next) = after_scan(0, false);
        assert_eq!((pass, next), (1, Next::Scan));
        assert_eq!(after_scan(1, false), (2, Next::ScanAfter(BETWEEN_PASSES)));
        assert_eq!(after_scan(2, false), (3, Next::ScanAfter(BETWEEN_PASSES)));
        assert_eq!(after_scan(3, true), (1, Next::Sleep));
        assert_eq!(after_scan(1, true), (0, Next::Sleep));
    }

    #[test]
    fn no_process_is_killed_while_pages_can_be_written() {
        assert!(kills(1, true, true));
        assert!(!kills(0, true, true) && !kills(1, false, true) && !kills(1, true, false));
    }
}
