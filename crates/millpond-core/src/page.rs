//! The life of a page in memory, as a transition table.
//!
//! ```text
//!            grant          filled         changed
//!    Free ──────────► Loading ──────► Clean ──────► Dirty
//!     ▲  ◄──────────────┘ failed       │ ▲ ▲          │ write starts
//!     │                                │ │ │ written  ▼
//!     └──────────── evicted ◄──────────┘ │ └────── Writing ── changed ──► Redirtied
//!     ▲                                  │            │ write failed         │ written, or failed
//!     └─ discarded: Clean, Dirty         │            ▼                      ▼
//!                                        │          Dirty ◄──────────────────┘
//! ```
//!
//! [`Phase::after`] is the only place that says which transition exists. The manager applies it to every
//! event and asserts that the answer is not `None`: an illegal transition is a bug, found at once.

/// What a page is a copy of.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
pub enum PageKind {
    /// A page of a file: when it is clean, the file has it.
    File,
    /// Anonymous memory: nothing has it but this frame, until it is written to swap.
    Anonymous,
}

impl PageKind {
    /// Both, in the order of counters by kind.
    pub const ALL: [PageKind; 2] = [PageKind::File, PageKind::Anonymous];
}

/// What a frame holds.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
pub enum Phase {
    /// Nothing.
    Free,
    /// A page that is being read, or that a writer is about to fill.
    Loading,
    /// A page equal to the device's copy.
    Clean,
    /// A page that the device does not have yet.
    Dirty,
    /// A page that is on its way to the device and has not changed since.
    Writing,
    /// A page that has changed since its write began.
    Redirtied,
}

/// What can happen to a page.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum PageEvent {
    /// The frame was given to a page.
    Granted,
    /// The content is there.
    Filled,
    /// The read failed: there is no content.
    ReadFailed,
    /// The page was changed, which was clean or being written.
    Changed,
    /// A write of the page begins.
    WriteStarted,
    /// The write ended well.
    Written,
    /// The write failed; the device's copy is not to be trusted.
    WriteFailed,
    /// Reclaim took the frame.
    Evicted,
    /// The page is no more: truncated, or given up by its owner.
    Discarded,
}

impl Phase {
    /// The phase that follows, or `None` if that can't happen to a page in this one.
    #[inline]
    pub fn after(self, event: PageEvent) -> Option<Phase> {
        use PageEvent as E;
        use Phase as P;
        Some(match (self, event) {
            (P::Free, E::Granted) => P::Loading,
            (P::Loading, E::Filled) => P::Clean,
            (P::Loading, E::ReadFailed) => P::Free,
            (P::Clean, E::Changed) => P::Dirty,
            (P::Writing, E::Changed) => P::Redirtied,
            // The word of a change may arrive after that of the failed write that made the page dirty again.
            (P::Dirty, E::Changed) => P::Dirty,
            (P::Redirtied, E::Changed) => P::Redirtied,
            (P::Dirty, E::WriteStarted) => P::Writing,
            (P::Writing, E::Written) => P::Clean,
            (P::Writing, E::WriteFailed) => P::Dirty,
            (P::Redirtied, E::Written | E::WriteFailed) => P::Dirty,
            (P::Clean, E::Evicted) => P::Free,
            (P::Clean | P::Dirty, E::Discarded) => P::Free,
            _ => return None,
        })
    }

    /// Whether the device lacks something that this page holds.
    #[inline]
    pub fn is_dirty(self) -> bool {
        matches!(self, Phase::Dirty | Phase::Redirtied)
    }

    /// Whether a write of this page is on its way.
    #[inline]
    pub fn is_writing(self) -> bool {
        matches!(self, Phase::Writing | Phase::Redirtied)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use PageEvent::*;
    use Phase::*;

    #[test]
    fn only_a_clean_page_can_be_evicted() {
        for phase in [Free, Loading, Dirty, Writing, Redirtied] {
            assert_eq!(phase.after(Evicted), None, "{phase:?}");
        }
        assert_eq!(Clean.after(Evicted), Some(Free));
    }

    #[test]
    fn a_failed_write_leaves_the_page_dirty() {
        assert_eq!(Writing.after(WriteFailed), Some(Dirty));
        assert_eq!(Redirtied.after(WriteFailed), Some(Dirty));
    }

    #[test]
    fn a_change_during_a_write_is_not_lost_when_the_write_ends() {
        assert_eq!(Writing.after(Changed), Some(Redirtied));
        assert_eq!(Redirtied.after(Written), Some(Dirty));
    }

    #[test]
    fn a_page_under_write_cannot_be_discarded() {
        assert_eq!(Writing.after(Discarded), None);
        assert_eq!(Redirtied.after(Discarded), None);
    }
}
