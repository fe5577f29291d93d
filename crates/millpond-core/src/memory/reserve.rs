//! The I/O reserve: frames that only I/O may take, so that cleaning memory never waits for memory.
//!
//! Dillon 2000: I/O must always progress. Allocations by the I/O subsystem may use up the reserve; all others wait
//! until reclaim has freed something. The rule is one pure function, [`may_take`]. The simulator's checkers test every
//! allocation against it.

use crate::mutation::{self, Mutation};
use crate::units::PageCount;

/// The purpose for which a frame is taken.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum AllocationClass {
    /// A fault: a caller needs the page, or is walking through a region's record and is about to. Stops at the reserve.
    Ordinary,
    /// Read-ahead: the page is not needed yet. Stops at the `min` watermark and never reclaims.
    ReadAhead,
    /// What an I/O in progress needs to complete. May use the last frame of the reserve.
    Io,
}

/// Whether `class` may take one more frame when `free` frames are free.
#[inline]
pub fn may_take(class: AllocationClass, free: PageCount, min: PageCount, reserve: PageCount) -> bool {
    free.0
        > match class {
            AllocationClass::Ordinary if mutation::is(Mutation::ReserveForAll) => 0,
            AllocationClass::Ordinary => reserve.0,
            AllocationClass::ReadAhead => reserve.0.max(min.0),
            AllocationClass::Io => 0,
        }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_io_may_use_the_reserve() {
        let (min, reserve) = (PageCount(30), PageCount(10));
        let may = |class, free| may_take(class, PageCount(free), min, reserve);
        assert!(may(AllocationClass::Ordinary, 11) && !may(AllocationClass::Ordinary, 10));
        assert!(may(AllocationClass::ReadAhead, 31) && !may(AllocationClass::ReadAhead, 30));
        assert!(may(AllocationClass::Io, 1) && !may(AllocationClass::Io, 0));
    }
}
