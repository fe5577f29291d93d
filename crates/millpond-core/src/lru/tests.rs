//! The smallest example of each rule. Behavior common to all rules is here; each rule's own is in its own file.

mod bimodal;
mod cost;
mod linux;
mod millpond;
mod no_reuse;
mod sampling_batch;

use super::lists::Past;
use super::*;
use crate::frame::{ACCESSES_MAX, BeginWrite};
use crate::units::{FileId, PageIndex, PageSize, Ratio};

/// Frames of which page `n` is in frame `n`, so that tests can name both by one number.
pub(super) struct TestFrames {
    pub(super) uses: Vec<u8>,
    /// Frames of pages that are in their regions, where no use of them is seen.
    pub(super) unseen: Vec<FrameNo>,
}

impl FrameTable for TestFrames {
    fn key(&self, frame: FrameNo) -> PageKey {
        key(frame.0)
    }

    fn lookup(&self, key: PageKey) -> Option<FrameNo> {
        Some(FrameNo((key.file().0 - 1) * OTHER + key.index().0 as u32))
    }

    fn test_and_clear_accessed(&mut self, frame: FrameNo) -> u8 {
        self.unseen.retain(|&unseen| unseen != frame);
        core::mem::take(&mut self.uses[frame.index()])
    }

    fn tracks_accesses(&self, frame: FrameNo) -> bool {
        !self.unseen.contains(&frame)
    }

    fn evict(&mut self, _: &mut Vec<FrameNo>) {
        unreachable!("replacement evicts nothing itself")
    }

    fn begin_write(&mut self, _: FrameNo) -> BeginWrite {
        unreachable!("replacement writes nothing")
    }
}

/// Pages from here on are of another file.
const OTHER: u32 = 8_000;

pub(super) fn key(n: u32) -> PageKey {
    PageKey::new(FileId(1 + n / OTHER), PageIndex(n.into()))
}

/// Page `n` lives in frame `n`: there are more frames than memory, so that a name always finds its own.
struct Pond {
    lru: Lru,
    frames: TestFrames,
    victims: Vec<FrameNo>,
}

impl Pond {
    fn new(replacement: Replacement, memory: u64) -> Pond {
        const FRAMES: u64 = 10_000;
        let mut lru = Lru::new(replacement, PageCount(FRAMES));
        lru.set_memory(PageCount(memory));
        Pond {
            lru,
            frames: TestFrames {
                uses: alloc::vec![0; FRAMES as usize],
                unseen: Vec::new(),
            },
            victims: Vec::new(),
        }
    }

    fn linux(options: LinuxOptions, memory: u64) -> Pond {
        Pond::new(Replacement::Linux(options), memory)
    }

    fn millpond(memory: u64) -> Pond {
        Pond::new(Replacement::default(), memory)
    }

    /// A target of 2 inactive pages, so that nearly everything is above it, and no bimodal insertion.
    fn millpond_small() -> Pond {
        let mut pond = Pond::millpond(20);
        pond.lru.millpond_mut().bimodal.share = 0;
        pond
    }

    fn insert_as(&mut self, n: u32, refault: Refault, first_use: bool) {
        self.lru
            .insert(FrameNo(n), key(n), refault, first_use, &mut self.frames);
    }

    /// As new memory, so that it is not drawn by bimodal insertion.
    fn insert(&mut self, n: u32) {
        self.insert_as(n, Refault::NEW.of_new_memory(), true);
    }

    fn insert_all(&mut self, pages: core::ops::Range<u32>) {
        pages.for_each(|n| self.insert(n));
    }

    fn use_page(&mut self, n: u32) {
        let uses = &mut self.frames.uses[n as usize];
        *uses = (*uses + 1).min(ACCESSES_MAX);
        self.lru.mark_accessed(FrameNo(n));
    }

    fn isolate(&mut self, batch: usize) -> Scanned {
        self.lru.isolate(0, batch, &mut self.frames, &mut self.victims)
    }

    /// A page of the file was refaulted that a little longer list would have kept.
    fn ghost_hit(&mut self, file: FileId) {
        let kind = self.lru.lruvec.kind(file);
        let most = MillpondOptions::default().scan_balance_max_per_mille;
        self.lru.millpond_mut().cost.ghost_hit(kind, most.into());
    }

    /// A page that is active, as after a recent refault.
    fn insert_active(&mut self, n: u32) {
        self.lru.lruvec.pages.admit(FrameNo(n), List::Active, false, 0);
    }

    fn evict_one(&mut self) -> u32 {
        while self.victims.is_empty() {
            let scanned = self.isolate(1);
            assert!(scanned.scanned + scanned.refilled > 0, "nothing to evict");
        }
        let victim = self.victims.remove(0);
        self.lru.evicted(victim, key(victim.0));
        victim.0
    }

    fn resident(&self) -> u64 {
        self.lru.active().0 + self.lru.inactive().0
    }

    /// Reads a page, one out for one in; answers whether it was missing.
    fn read(&mut self, n: u32, first_use: bool) -> bool {
        if self.lru.list_of(FrameNo(n)).is_some() {
            self.use_page(n);
            return false;
        }
        let refault = self.lru.refault(key(n));
        while self.resident() >= self.lru.lruvec.memory.0 {
            self.evict_one();
        }
        self.frames.uses[n as usize] = 0;
        if first_use && !refault.is_recent() && self.lru.detect_no_reuse(key(n).file()) {
            self.lru.insert_no_reuse(FrameNo(n), key(n), &mut self.frames)
        } else {
            self.insert_as(n, refault, first_use)
        }
        true
    }

    fn list(&self, list: List) -> Vec<u32> {
        self.lru.validate();
        self.lru.iter_from_cold(list).map(|f| f.0).collect()
    }

    fn take_victims(&mut self) -> Vec<u32> {
        self.victims.drain(..).map(|f| f.0).collect()
    }
}

const LINUX: LinuxOptions = LinuxOptions {
    promotion: Promotion::Lazy,
    inactive_ratio: InactiveRatio::Equal,
    detection: Detection::Linux4_19,
    refaults_deactivate: true,
};

#[test]
fn metadata_is_28_bytes_a_frame() {
    let lru = Lru::new(Replacement::default(), PageCount(8_000));
    assert_eq!(lru.metadata_bytes(), 28 * 8_000);
}

#[test]
fn a_page_whose_write_ended_is_the_next_victim_unless_it_is_isolated() {
    let mut pond = Pond::millpond_small();
    pond.insert_all(0..6);
    pond.use_page(0);
    pond.isolate(1);
    assert!(pond.lru.rotate_to_cold(FrameNo(3)));
    assert!(
        pond.lru.rotate_to_cold(FrameNo(5)),
        "a page in its window as well"
    );
    assert_eq!(pond.list(List::Inactive), [5, 3, 1, 2, 4]);
    assert!(
        pond.lru.rotate_to_cold(FrameNo(0)),
        "an active page: the scan put it there while it was written"
    );
    assert_eq!(pond.evict_one(), 0);
    pond.isolate(1);
    assert!(!pond.lru.rotate_to_cold(FrameNo(5)), "isolated");
    assert_eq!(pond.lru.statistics().pgrotated, 3);
}

#[test]
fn isolated_pages_go_back_where_they_are_put() {
    let mut pond = Pond::linux(LINUX, 100);
    pond.insert_all(0..6);
    pond.isolate(3);
    assert_eq!(pond.lru.isolated(), PageCount(3));
    pond.lru.put_back(FrameNo(0), PutBack::WarmInactive);
    pond.lru.put_back(FrameNo(1), PutBack::ColdInactive);
    pond.lru.put_back(FrameNo(2), PutBack::Active);
    assert_eq!(pond.list(List::Inactive), [1, 3, 4, 5, 0]);
    assert_eq!(pond.list(List::Active), [2]);
    assert_eq!(pond.lru.isolated(), PageCount(0));
}

#[test]
fn a_removed_page_leaves_no_shadow_wherever_it_was() {
    let mut pond = Pond::linux(LINUX, 100);
    pond.insert_all(0..3);
    pond.insert_active(3);
    pond.isolate(1);
    (0..4).for_each(|n| pond.lru.remove(FrameNo(n)));
    pond.lru.validate();
    assert_eq!(pond.resident() + pond.lru.isolated().0, 0);
    assert_eq!(pond.lru.shadows(), PageCount(0));
}

#[test]
fn another_rule_takes_over_the_pages_in_their_order() {
    let mut pond = Pond::millpond_small();
    pond.insert_all(0..8);
    pond.use_page(0);
    pond.isolate(2);
    assert_eq!(pond.take_victims(), [1]);
    pond.lru.put_back(FrameNo(1), PutBack::ColdInactive);
    assert_eq!(pond.list(List::Window), [7]);
    assert_eq!(pond.list(List::Inactive), [1, 2, 3, 4, 5, 6]);
    pond.lru
        .set_replacement(Replacement::Linux(LinuxOptions::default()));
    for _ in 0..2 {
        assert_eq!(pond.list(List::Window), []);
        assert_eq!(pond.list(List::Inactive), [1, 2, 3, 4, 5, 6, 7]);
        assert_eq!(pond.list(List::Active), [0]);
        pond.lru.set_replacement(Replacement::default());
    }
    assert_eq!(pond.lru.inactive_target(), Some(PageCount(2)));
}

#[test]
fn memory_changed_there_and_back_has_the_same_limits_and_pages() {
    let mut lru = Lru::new(Replacement::default(), PageCount(1_000));
    let mut frames = TestFrames {
        uses: alloc::vec![0; 4_000],
        unseen: Vec::new(),
    };
    for n in 0..1_000 {
        lru.insert(FrameNo(n), key(n), Refault::NEW, true, &mut frames);
    }
    let in_window: Vec<_> = lru.iter_from_cold(List::Window).collect();
    assert_eq!(in_window.len(), 11);
    lru.resize(PageCount(4_000));
    assert_eq!(lru.inactive_target(), Some(PageCount(400)));
    lru.insert(FrameNo(3_999), key(3_999), Refault::NEW, true, &mut frames);
    lru.remove(FrameNo(3_999));
    lru.resize(PageCount(1_000));
    lru.validate();
    assert_eq!(lru.inactive_target(), Some(PageCount(100)));
    assert_eq!(lru.iter_from_cold(List::Window).collect::<Vec<_>>(), in_window);
    assert_eq!(lru.inactive() + lru.active(), PageCount(1_000));
}

#[test]
fn the_kernels_ratio_comes_from_the_page_size() {
    let options = LinuxOptions::default();
    assert_eq!(options.inactive_ratio, InactiveRatio::SquareRoot(PageSize::KIB_4));
}

#[test]
#[should_panic = "f3 is not isolated"]
fn evicting_a_page_that_is_not_isolated_is_a_mistake() {
    let mut pond = Pond::millpond(100);
    pond.insert(3);
    pond.lru.evicted(FrameNo(3), key(3));
}
