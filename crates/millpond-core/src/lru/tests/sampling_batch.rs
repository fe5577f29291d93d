//! Sampling batches: neighbors are put together, and take the place of other pages.

use super::millpond::{options, pond_with_active_by, recent};
use super::*;

/// Pages 0 to 90 are active, the odd ones colder than the even ones; their accesses are not tracked.
fn pond_of_a_region(options: MillpondOptions) -> Pond {
    let mut pond = pond_with_active_by(options);
    for n in (1..90).step_by(2).chain((0..90).step_by(2)) {
        pond.lru
            .lruvec
            .pages
            .move_to_warm(FrameNo(n), List::Active, List::Active);
    }
    pond.frames.unseen = (0..90).map(FrameNo).collect();
    pond
}

#[test]
fn neighbours_are_sampled_in_a_batch_and_go_on_side_by_side() {
    let mut pond = pond_of_a_region(options());
    // Not those whose uses are seen, nor those that are not active.
    pond.frames.unseen.retain(|&frame| frame != FrameNo(6));
    pond.lru
        .lruvec
        .pages
        .move_to_warm(FrameNo(8), List::Active, List::Inactive);
    let other = FrameNo(pond.list(List::Inactive)[0]);
    pond.lru
        .lruvec
        .pages
        .move_to_warm(other, List::Inactive, List::Active);
    let scanned = pond.isolate(1);
    assert_eq!(
        (scanned.refilled, scanned.rotated, scanned.deactivated),
        (62, 62, 0)
    );
    let others = [6, 8];
    let block: Vec<u32> = (0..64).filter(|n| !others.contains(n)).collect();
    let active = pond.list(List::Active);
    assert!(active.ends_with(&block), "{active:?}");
    let seen = |n: &u32| !pond.frames.unseen.contains(&FrameNo(*n));
    assert!(block.iter().all(seen), "a lap in which their uses are seen");
    assert!(
        !(64..90).any(|n| seen(&n)),
        "those of another block have their own turn"
    );
}

#[test]
fn of_a_sampling_batch_each_page_has_its_own_usage_count() {
    let options = MillpondOptions {
        region_usage_count_max: 8,
        accessed_bit_weight: 4,
        skip_scan_threshold: 5,
        ..options()
    };
    let mut pond = pond_of_a_region(options);
    pond.frames.uses[2] = 1;
    pond.lru.lruvec.pages.page(FrameNo(4)).usage_count = 7;
    pond.isolate(1);
    let counts = [1, 2, 3, 4].map(|n| pond.lru.lruvec.pages.page(FrameNo(n)).usage_count);
    assert_eq!(counts, [0, 4, 0, 6]);
}

/// Else the active list would go round faster the more its pages are neighbors.
#[test]
fn a_batch_that_looked_at_more_than_its_probe_may_puts_off_the_next_batch() {
    let mut pond = pond_of_a_region(options());
    let mut refilled = Vec::new();
    for n in 200..234 {
        let before = pond.lru.statistics().pgrefill;
        pond.insert_as(n, recent(), false);
        refilled.push(pond.lru.statistics().pgrefill - before);
    }
    // A block of 64, of which 62 are made up for by 31 probes; the 26 of the next; then one that was seen not to be used.
    assert_eq!(refilled[0], 64);
    assert_eq!(refilled[1..32], [0; 31]);
    assert_eq!(refilled[32..], [26, 1]);
}

/// Up to 63 probes after a batch looked at nothing, so that no page got onto the active list though unused ones were there.
#[test]
fn a_page_whose_uses_are_seen_is_looked_at_right_after_a_batch() {
    let mut pond = pond_of_a_region(options());
    pond.frames.unseen.retain(|frame| frame.0 < 64);
    pond.insert_as(200, recent(), false);
    let active = |pond: &Pond, n| pond.lru.list_of(FrameNo(n)) == Some(List::Active);
    assert!(!active(&pond, 200), "a batch of 64, which all stay");
    pond.insert_as(201, recent(), false);
    assert!(active(&pond, 201), "instead of a page of the next block");
}

/// Frames of pages that are moved out as soon as replacement has asked whether their uses are seen.
struct Taken(TestFrames, core::cell::Cell<bool>);

impl FrameTable for Taken {
    fn key(&self, frame: FrameNo) -> PageKey {
        self.0.key(frame)
    }

    fn lookup(&self, key: PageKey) -> Option<FrameNo> {
        self.0.lookup(key)
    }

    fn test_and_clear_accessed(&mut self, frame: FrameNo) -> u8 {
        self.0.test_and_clear_accessed(frame)
    }

    fn tracks_accesses(&self, _: FrameNo) -> bool {
        self.1.replace(true)
    }

    fn evict(&mut self, frames: &mut Vec<FrameNo>) {
        self.0.evict(frames);
    }

    fn begin_write(&mut self, frame: FrameNo) -> BeginWrite {
        self.0.begin_write(frame)
    }
}

/// Other threads move pages of regions while replacement looks at them. A look that counts nothing would be made again and again.
#[test]
fn a_page_that_is_taken_in_hand_while_it_is_looked_at_has_been_looked_at() {
    let mut pond = pond_of_a_region(options());
    let mut taken = Taken(pond.frames, core::cell::Cell::new(false));
    let scanned = pond.lru.isolate(0, 1, &mut taken, &mut pond.victims);
    assert_eq!((scanned.refilled, scanned.rotated), (1, 1));
}
