//! The state of a machine in virtual time at one moment, for drawing. Nothing here makes a decision.
//!
//! Every machine has the same parts: lists of pages from the warm end to the cold one, a disk, threads and what they
//! wait for, limits. A list is cut into parts, because a picture has no room for a hundred thousand pages.

use millpond_core::io::Reason;
use millpond_core::units::Instant;

/// The state of a page.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
pub enum Shade {
    /// Clean, and not used since the last scan.
    Clean,
    /// The same, and used since.
    Used,
    /// Changed: the disk's copy is older, or there is none.
    Dirty,
    /// Dirty, and a scan has met it before: on its second lap, or to be freed when its write ends.
    Tagged,
    /// Being written.
    Writing,
    /// Being read.
    Loading,
}

impl Shade {
    /// Their number.
    pub const COUNT: usize = 6;
}

/// A list of pages.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Strip {
    /// Its name.
    pub name: &'static str,
    /// Its pages.
    pub pages: u64,
    /// From the warm end to the cold one, in parts of about equal length: pages of each [`Shade`].
    pub parts: Vec<[u32; Shade::COUNT]>,
}

impl Strip {
    /// A list of `pages` pages in at most `parts` parts; `from_cold` says what each is like, the next victim first.
    pub fn of(name: &'static str, pages: u64, parts: usize, from_cold: impl Iterator<Item = Shade>) -> Strip {
        let parts = (parts as u64).min(pages) as usize;
        let mut counts = vec![[0; Shade::COUNT]; parts];
        for (n, shade) in (0..pages).zip(from_cold) {
            let part = n * parts as u64 / pages;
            counts[parts - 1 - part as usize][shade as usize] += 1;
        }
        Strip {
            name,
            pages,
            parts: counts,
        }
    }
}

/// A disk.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct DiskLook {
    /// The byte that the head of a disk is over or moving to, if it has one.
    pub head: Option<u64>,
    /// Bytes of the disk.
    pub capacity: u64,
    /// Its present request: `Some(true)` a write, `Some(false)` a read.
    pub works_on_write: Option<bool>,
    /// Reads that wait inside it.
    pub reads: u64,
    /// Writes that wait inside it.
    pub writes: u64,
    /// Channels at work, of a disk that has channels, and how many there are.
    pub channels: (u32, u32),
    /// Writes that wait in front of it.
    pub queued_writes: u64,
    /// Reads that wait in front of it.
    pub queued_reads: u64,
}

/// A thread or a process.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ThreadLook {
    /// Its name.
    pub name: String,
    /// The number of such tasks in this state.
    pub count: u64,
    /// Its activity, or what it waits for.
    pub does: &'static str,
    /// Whether that is an unwanted wait.
    pub is_held_up: bool,
    /// Since when, if that is known.
    pub since: Option<Instant>,
}

/// A machine.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Look {
    /// Its lists.
    pub strips: Vec<Strip>,
    /// Frames that hold nothing.
    pub free: u64,
    /// All frames.
    pub frames: u64,
    /// Dirty pages.
    pub dirty: u64,
    /// Pages on their way to the disk.
    pub writing: u64,
    /// Bytes of writes in transit, and how many may be, if that is limited.
    pub in_transit: Option<(u64, Option<u64>)>,
    /// The disk that its files are on.
    pub disk: DiskLook,
    /// Its threads.
    pub threads: Vec<ThreadLook>,
    /// Limits in force, in pages.
    pub limits: Vec<(&'static str, u64)>,
}

/// What a held-back write waits for, in words.
pub fn next_write(reason: Reason) -> String {
    let why = match reason {
        Reason::Fault => "for a caller that waits for the page",
        Reason::ReadAhead => "ahead of a reader",
        Reason::Background => "in the background",
        Reason::DirtierBlocked => "for a paused writer",
        Reason::Reclaim => "for reclaim",
        Reason::Sync => "for a sync",
        Reason::Swap => "to swap",
    };
    format!("the next write, {why}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_strip_begins_at_the_warm_end_and_loses_no_page() {
        let shades = (0..10).map(|n| if n < 4 { Shade::Dirty } else { Shade::Clean });
        let strip = Strip::of("inactive", 10, 4, shades);
        let dirty: Vec<u32> = strip
            .parts
            .iter()
            .map(|part| part[Shade::Dirty as usize])
            .collect();
        assert_eq!(dirty, [0, 0, 1, 3], "the cold end is last");
        let all: u32 = strip.parts.iter().flatten().sum();
        assert_eq!(all, 10);
    }

    #[test]
    fn a_list_of_a_few_pages_has_a_part_for_each_and_an_empty_one_none() {
        let of = |pages| Strip::of("active", pages, 100, std::iter::repeat(Shade::Used));
        assert_eq!(of(3).parts.len(), 3);
        assert!(of(0).parts.is_empty());
    }
}
