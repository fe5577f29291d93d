//! The machine's counters, with the kernel's names where it has them.

/// Counters since the start. In pages, unless said otherwise.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Counters {
    /// Pages read from swap.
    pub pswpin: u64,
    /// Pages written to swap.
    pub pswpout: u64,
    /// Requests that read from swap.
    pub swap_reads: u64,
    /// Pages of files that were read.
    pub file_reads: u64,
    /// Pages that came back with a shadow, by `PageKind`.
    pub workingset_refault: [u64; 2],
    /// Of those, pages that became active at once.
    pub workingset_activate: [u64; 2],
    /// Of those, pages that had been active before.
    pub workingset_restore: [u64; 2],
    /// Pages that became active otherwise.
    pub pgactivate: u64,
    /// Pages that went from an active list to an inactive one.
    pub pgdeactivate: u64,
    /// Pages scanned on inactive lists.
    pub pgscan: u64,
    /// Pages freed by reclaim, by `PageKind`.
    pub pgsteal: [u64; 2],
    /// Uses of pages, faults among them.
    pub touches: u64,
    /// Runs of direct reclaim.
    pub direct_reclaims: u64,
    /// Shadows that were dropped because there were too many nodes of them.
    pub shadows_dropped: u64,
}

impl Counters {
    /// The growth since `earlier`.
    pub fn since(&self, earlier: &Counters) -> Counters {
        let pair = |a: [u64; 2], b: [u64; 2]| [a[0] - b[0], a[1] - b[1]];
        Counters {
            pswpin: self.pswpin - earlier.pswpin,
            pswpout: self.pswpout - earlier.pswpout,
            swap_reads: self.swap_reads - earlier.swap_reads,
            file_reads: self.file_reads - earlier.file_reads,
            workingset_refault: pair(self.workingset_refault, earlier.workingset_refault),
            workingset_activate: pair(self.workingset_activate, earlier.workingset_activate),
            workingset_restore: pair(self.workingset_restore, earlier.workingset_restore),
            pgactivate: self.pgactivate - earlier.pgactivate,
            pgdeactivate: self.pgdeactivate - earlier.pgdeactivate,
            pgscan: self.pgscan - earlier.pgscan,
            pgsteal: pair(self.pgsteal, earlier.pgsteal),
            touches: self.touches - earlier.touches,
            direct_reclaims: self.direct_reclaims - earlier.direct_reclaims,
            shadows_dropped: self.shadows_dropped - earlier.shadows_dropped,
        }
    }
}
