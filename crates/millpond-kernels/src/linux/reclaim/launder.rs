//! Linux' rules for a page at the cold end of an inactive list, from 3.0 to 7.0 (`shrink_page_list`).
//!
//! In this order, which matters for the counters:
//!
//! ```text
//!   1  being written            keep; since 3.11 tag it too, since 4.11 activate it
//!   2  in use                   activate, keep, or free only if clean            (reference.rs)
//!   3  anonymous, not in swap   gets a slot and so is dirty
//!   4  dirty file page          by the rule: may this caller write it at this priority? if not: count, tag, keep
//!   5  dirty                    free only if clean → keep; else ask the file system, or write to swap
//!   6  clean                    free
//! ```
//!
//! Gorman 2011's patches are fields: 1 `direct_writes_files`, 2 `kswapd_writes_files`, 3 `throttle`, 4 `tag`, 5
//! `flag_files`. Patches 4 and 5 are as they were meant; as they were posted, the page left the lists for good
//! ([`Tag::LeakV1`]).

use crate::linux::reference::Reference;
use millpond_core::page::PageKind;
use millpond_core::reclaim::launder::{PRIORITY_DEFAULT, PRIORITY_TROUBLE};
use millpond_core::reclaim::trace::{Caller, Outcome};

/// When the background reclaimer may write a file page.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum KswapdWrites {
    /// Whenever it meets a dirty one: Linux to 3.1.
    Always,
    /// Only below priority 10: Gorman 2011's patch 2, Linux 3.2 to 3.10.
    InTrouble,
    /// Only a page that an earlier scan has tagged, while the node counts as full of dirty pages: Linux 4.11 to 6.x.
    MetAgain,
    /// Never: the second version's patch 8, and Linux 7.0.
    Never,
}

/// The treatment of a dirty file page that may not be written.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Tag {
    /// It is counted as skipped and goes round.
    Skip,
    /// It is tagged, and becomes the next victim when its write ends: patch 4 as meant, Linux 3.2 and later.
    OnClean,
    /// It leaves the lists until its write ends, and is free then: what patch 4 did as posted, by mistake, but for the
    /// frame that was lost for good.
    LeakV1,
}

/// When a scan that meets unclean pages waits.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Throttle {
    /// Never after a batch.
    Off,
    /// When enough of the batch is dirty: patch 3.
    Dirty,
    /// When enough of the batch is being written: Linux 3.2.
    Writeback,
    /// By the state of the whole node: Linux 3.11 and later.
    NodeFlags,
}

/// Reclaim's rules for dirty pages.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct LinuxRules {
    /// Whether an allocating task may write file pages; patch 1 says no.
    pub direct_writes_files: bool,
    /// When kswapd may.
    pub kswapd_writes_files: KswapdWrites,
    /// When a scan waits.
    pub throttle: Throttle,
    /// The treatment of a dirty file page that may not be written.
    pub tag: Tag,
    /// Whether the file of such a page is written first: patch 5.
    pub flag_files: bool,
    /// Whether scanned unclean pages go to the active list, so they aren't scanned again at once: Linux 4.11.
    pub unclean_activated: bool,
}

/// Linux 3.0-rc6.
pub const LINUX_3_0: LinuxRules = LinuxRules {
    direct_writes_files: true,
    kswapd_writes_files: KswapdWrites::Always,
    throttle: Throttle::Off,
    tag: Tag::Skip,
    flag_files: false,
    unclean_activated: false,
};

/// A page that a scan has met.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Met {
    /// The owner of its content.
    pub kind: PageKind,
    /// Its copy is older than it.
    pub is_dirty: bool,
    /// It is on its way to the device.
    pub is_writing: bool,
    /// An earlier scan has tagged it.
    pub is_tagged: bool,
    /// An anonymous page that has a slot in swap.
    pub has_slot: bool,
    /// Whether it is in use.
    pub reference: Reference,
}

/// The scan that meets it, and the state of the node.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Scan {
    /// The scanning thread.
    pub caller: Caller,
    /// 12 down to 0.
    pub priority: u32,
    /// Whether it may write at all (`may_writepage`; no swap-out either).
    pub may_write: bool,
    /// The device's queue is congested, and the caller may not wait for it: kswapd may (`PF_SWAPWRITE`).
    pub congested: bool,
    /// The last scans met nothing but dirty pages that are not being written (3.11 to 6.x).
    pub node_dirty: bool,
    /// The last scans met nothing but pages being written (3.11 and later).
    pub node_writeback: bool,
}

/// Why a page stays.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
pub enum Kept {
    /// It is being written.
    Writing,
    /// It is being written, tagged, and the node is full of such: the scan is ahead of the device.
    WritingMetAgain,
    /// It is in use.
    InUse,
    /// It was used once since it was met last, and only a clean one would have gone.
    UsedOnce,
    /// The rule allows no write here.
    NotAllowed,
    /// The device's queue is full.
    Congested,
    /// No scan may write at present.
    NoWrites,
}

/// What to do with the page.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Verdict {
    /// Its frame is free.
    Free,
    /// To the warm end of the active list of its kind: it is in use.
    Activate,
    /// It stays.
    Keep {
        /// Why.
        why: Kept,
        /// To be tagged: it is the next victim when its write ends.
        tag: bool,
        /// To the active list in the meantime.
        activate: bool,
        /// The flusher is to take its file first.
        flag_file: bool,
    },
    /// It leaves the lists until its write ends ([`Tag::LeakV1`]).
    Leak {
        /// The flusher is to take its file first.
        flag_file: bool,
    },
    /// Mark it clean and tagged, and ask its file system or swap to write it.
    PageOut,
}

impl Verdict {
    /// Its outcome in the trace, before a file system is asked.
    pub fn outcome(self) -> Outcome {
        match self {
            Verdict::Free => Outcome::Freed,
            Verdict::Activate => Outcome::Activated,
            Verdict::Leak { .. } => Outcome::Leaked,
            Verdict::PageOut => Outcome::WriteStarted,
            Verdict::Keep { why, tag, .. } => match why {
                Kept::InUse => Outcome::KeptInUse,
                Kept::UsedOnce => Outcome::KeptUsedOnce,
                Kept::Writing => Outcome::KeptWriting,
                Kept::WritingMetAgain => Outcome::KeptWritingAgain,
                Kept::NotAllowed if tag => Outcome::Tagged,
                Kept::NotAllowed => Outcome::Skipped,
                Kept::Congested => Outcome::KeptCongested,
                Kept::NoWrites => Outcome::KeptNoWrites,
            },
        }
    }
}

const fn keep(why: Kept) -> Verdict {
    Verdict::Keep {
        why,
        tag: false,
        activate: false,
        flag_file: false,
    }
}

/// Whether `rules` let this scan write a dirty file page, which `is_tagged` or not.
pub fn may_write_file(rules: &LinuxRules, scan: &Scan, is_tagged: bool) -> bool {
    match (scan.caller, rules.kswapd_writes_files) {
        (Caller::Direct, _) => rules.direct_writes_files,
        (Caller::Kswapd, KswapdWrites::Always) => true,
        (Caller::Kswapd, KswapdWrites::InTrouble) => scan.priority < PRIORITY_TROUBLE,
        (Caller::Kswapd, KswapdWrites::MetAgain) => is_tagged && scan.node_dirty,
        (Caller::Kswapd, KswapdWrites::Never) => false,
    }
}

/// Decides for a page at the cold end of an inactive list.
pub fn at_cold_end(rules: &LinuxRules, met: &Met, scan: &Scan) -> Verdict {
    debug_assert!(scan.priority <= PRIORITY_DEFAULT);
    if met.is_writing {
        return being_written(rules, met, scan);
    }
    match met.reference {
        Reference::Activate => return Verdict::Activate,
        Reference::Keep => return keep(Kept::InUse),
        Reference::Reclaim | Reference::ReclaimClean => {}
    }
    let needs_slot = met.kind == PageKind::Anonymous && !met.has_slot;
    if !met.is_dirty && !needs_slot {
        return Verdict::Free;
    }
    if met.kind == PageKind::File && !may_write_file(rules, scan, met.is_tagged) {
        return not_allowed(rules);
    }
    if met.reference == Reference::ReclaimClean {
        return keep(Kept::UsedOnce);
    }
    if !scan.may_write {
        return keep(Kept::NoWrites);
    }
    if scan.congested {
        return keep(Kept::Congested);
    }
    Verdict::PageOut
}

fn being_written(rules: &LinuxRules, met: &Met, scan: &Scan) -> Verdict {
    if rules.throttle != Throttle::NodeFlags {
        return keep(Kept::Writing);
    }
    let is_ahead = scan.caller == Caller::Kswapd && met.is_tagged && scan.node_writeback;
    Verdict::Keep {
        why: if is_ahead {
            Kept::WritingMetAgain
        } else {
            Kept::Writing
        },
        tag: true,
        activate: rules.unclean_activated,
        flag_file: false,
    }
}

fn not_allowed(rules: &LinuxRules) -> Verdict {
    match rules.tag {
        Tag::Skip => keep(Kept::NotAllowed),
        Tag::OnClean => Verdict::Keep {
            why: Kept::NotAllowed,
            tag: true,
            activate: rules.unclean_activated,
            flag_file: rules.flag_files,
        },
        Tag::LeakV1 => Verdict::Leak {
            flag_file: rules.flag_files,
        },
    }
}

#[cfg(test)]
mod tests;
