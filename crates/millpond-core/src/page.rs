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
//! [`Phase::after`] alone defines which transitions exist. The manager applies it to every event and asserts that the
//! result is not `None`, so an illegal transition is found at once.

/// What a page is a copy of.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
pub enum PageKind {
    /// A page of a file. When it is clean, the file has the same content.
    File,
    /// Anonymous memory: only this frame has the content, until it is written to swap.
    Anonymous,
}

impl PageKind {
    /// Both, in the order of the counters by kind.
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
    /// A page identical to the device's copy.
    Clean,
    /// A page whose content the device does not have yet.
    Dirty,
    /// A page being written and unchanged since its write began.
    Writing,
    /// A page being written and changed since its write began.
    Redirtied,
}

/// What can happen to a page.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum PageEvent {
    /// The frame was given to a page.
    Granted,
    /// The content has arrived.
    Filled,
    /// The read failed: there is no content.
    ReadFailed,
    /// The page, clean or being written, was changed.
    Changed,
    /// A write of the page begins.
    WriteStarted,
    /// The write succeeded.
    Written,
    /// The write failed; the device's copy can't be trusted.
    WriteFailed,
    /// Reclaim took the frame.
    Evicted,
    /// The page was truncated, or given up by its owner.
    Discarded,
}

impl Phase {
    /// The next phase, or `None` if the event is impossible in this one.
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

    /// Whether this page holds content that the device lacks.
    #[inline]
    pub fn is_dirty(self) -> bool {
        matches!(self, Phase::Dirty | Phase::Redirtied)
    }

    /// Whether this page is being written.
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
