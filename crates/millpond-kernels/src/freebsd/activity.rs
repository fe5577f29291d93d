//! How much a page is used: `act_count`, from 0 to 64.
//!
//! ```text
//!   enters active                              at least 5
//!   found in use on the inactive queue         + 3 + so many mappings that used it (+ 1 if `read` or `write` did)
//!   active scan finds it in use                + 3 + the same, and to the warm end
//!   active scan finds it unused                - 1; at 0 it becomes inactive
//! ```
//!
//! Mapped pages tell of their use by bits in page tables, which the scan reads and clears (`pmap_ts_referenced`).

/// The decrease for an unused page.
pub const DECLINE: u8 = 1;
/// The increase for a used page, in addition to its mappings' uses.
pub const ADVANCE: u8 = 3;
/// The minimum for a page that becomes active.
pub const INITIAL: u8 = 5;
/// The most.
pub const MAX: u8 = 64;

/// What the active scan does with a page.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Visit {
    /// To the warm end, with this count.
    Keep(u8),
    /// To the inactive queue.
    Deactivate,
}

/// The count of a page that was met in use on the inactive queue and becomes active. `references`: how many mappings have
/// used it; `flagged`: a call has.
pub fn reactivated(count: u8, references: u8, flagged: bool) -> u8 {
    let count = count.max(INITIAL) + ADVANCE + references + u8::from(flagged);
    count.min(MAX)
}

/// The active scan meets a page. It leaves at `floor` or below: 0, but for the system of mid-2000, which raises it while it
/// is short (`vm_pageout_actcmp`).
pub fn visited(count: u8, references: u8, floor: u32) -> Visit {
    if references > 0 {
        return Visit::Keep((count + ADVANCE + references).min(MAX));
    }
    let count = count - count.min(DECLINE);
    if u32::from(count) <= floor {
        Visit::Deactivate
    } else {
        Visit::Keep(count)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_page_that_came_in_and_is_not_used_survives_four_visits() {
        let mut count = INITIAL;
        for left in [4, 3, 2, 1] {
            assert_eq!(visited(count, 0, 0), Visit::Keep(left));
            count = left;
        }
        assert_eq!(visited(count, 0, 0), Visit::Deactivate);
    }

    #[test]
    fn use_goes_up_faster_than_time_takes_away() {
        assert_eq!(visited(4, 1, 0), Visit::Keep(8));
        assert_eq!(visited(63, 1, 0), Visit::Keep(MAX));
        assert_eq!(reactivated(0, 1, false), 9);
        assert_eq!(reactivated(0, 1, true), 10);
        assert_eq!(reactivated(MAX, 1, true), MAX);
    }

    #[test]
    fn while_mid_2000_is_short_pages_leave_earlier() {
        assert_eq!(visited(4, 0, 3), Visit::Deactivate);
        assert_eq!(visited(5, 0, 3), Visit::Keep(4));
    }
}
