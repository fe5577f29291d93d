//! Pages of regions: granted, swapped out after reclaim tagged them, read again, given up.

use super::*;
use crate::swap::SlotNo;
use alloc::collections::BTreeSet;

mod ahead;
mod out;

const REGION: FileId = FileId(1);

/// A world with a region as large as its swap file.
struct Pond {
    w: World,
    swapped: Vec<(IoId, SlotNo, Vec<FrameNo>)>,
    read: Vec<(IoId, PageIndex, SlotNo)>,
    /// Pages read ahead: of each read how many.
    ahead: Vec<usize>,
    marks: BTreeSet<u64>,
    /// Everything is derived anew after each step.
    is_checked: bool,
    /// The reclaimer's thread does not get a processor.
    reclaimer_is_late: bool,
    granted: u64,
}

impl Pond {
    fn new(frames: u64, slots: u64) -> Pond {
        Pond::with(quiet(), frames, slots)
    }

    fn with(mut options: Options, frames: u64, slots: u64) -> Pond {
        options.admission = AdmissionOptions::Off;
        let mut pond = Pond {
            w: World::new(options, frames),
            swapped: vec![],
            read: vec![],
            ahead: vec![],
            marks: BTreeSet::new(),
            is_checked: true,
            reclaimer_is_late: false,
            granted: 0,
        };
        let pages = PageCount(slots);
        pond.step(Event::SwapAdded {
            slots: pages,
            priority: 0,
            device: DeviceNo(0),
        });
        pond.step(Event::RegionOpened { file: REGION, pages });
        pond
    }

    /// A step, and what a driver with regions does in answer; then the reclaimer's, for as long as it wants.
    fn step(&mut self, event: Event<'_>) {
        let w = &mut self.w;
        w.now = w.now + Nanos::from_micros(10);
        w.manager.step(w.now, event, &mut w.frames, &mut w.effects);
        let effects = core::mem::take(&mut w.effects);
        for effect in &effects.list {
            match effect {
                Effect::Grant { file, first, frames } => {
                    w.enter(*file, *first, effects.frames(frames));
                    w.frames.dirty.extend(effects.frames(frames));
                    self.granted += 1;
                }
                Effect::MarkReadAhead { at, .. } => {
                    self.marks.insert(at.0);
                }
                Effect::SwapIn {
                    io,
                    reason,
                    file,
                    page,
                    slot,
                    frames,
                } => {
                    w.enter(*file, *page, effects.frames(frames));
                    self.read.push((*io, *page, *slot));
                    if *reason == Reason::ReadAhead {
                        self.ahead.push(frames.len());
                    }
                }
                Effect::SwapOut { io, first, frames } => {
                    self.swapped.push((*io, *first, effects.frames(frames).to_vec()));
                }
                Effect::Wait { reason, .. } => w.waits.push(*reason),
                _ => {}
            }
        }
        if self.is_checked {
            w.manager.validate(&w.frames);
        }
        let wants = [Effect::WakeReclaimer, Effect::ReclaimMore];
        let more = wants.iter().any(|effect| effects.list.contains(effect));
        w.effects = effects;
        if more && !self.reclaimer_is_late {
            self.step(Event::Reclaim);
        }
    }

    fn fault(&mut self, page: u64) {
        self.step(Event::Fault {
            file: REGION,
            first: PageIndex(page),
            count: 1,
            intent: Intent::Read,
        });
    }

    /// Touches a page, and lets all that is on its way end. Whether it was there, or came.
    fn touch(&mut self, page: u64) -> bool {
        if self.frame(page).is_none() {
            self.fault(page);
            for (io, ..) in core::mem::take(&mut self.read) {
                self.step(Event::ReadDone { io, result: Ok(()) });
            }
        }
        self.frame(page).is_some()
    }

    fn frame(&self, page: u64) -> Option<FrameNo> {
        self.w.frames.lookup(PageKey::new(REGION, PageIndex(page)))
    }

    fn end_writes(&mut self, result: Result<(), IoError>) {
        for (io, _, frames) in core::mem::take(&mut self.swapped) {
            if result.is_err() {
                self.w.frames.dirty.extend(frames);
            }
            self.step(Event::WriteDone { io, result });
        }
    }

    fn taken(&self) -> u64 {
        self.w.manager.swap_slots().unwrap().0.0
    }

    /// Touches pages until the first one has left memory.
    fn fill(&mut self) -> u64 {
        let mut next = 0;
        while next == 0 || self.frame(0).is_some() {
            self.touch(next);
            self.end_writes(Ok(()));
            next += 1;
        }
        next
    }
}

#[test]
fn a_page_never_touched_is_granted_empty_and_comes_back_from_its_slot() {
    let mut pond = Pond::new(256, 1024);
    pond.fault(7);
    assert_eq!((pond.granted, pond.read.len()), (1, 0));
    pond.fill();
    assert!(pond.w.manager.stats().pswpout > 0);
    pond.fault(0);
    let (_, page, slot) = pond.read[0];
    assert_eq!(page, PageIndex(0));
    assert!(u64::from(slot.0) < 1024);
    assert_eq!(pond.w.manager.stats().pswpin, 1);
}

#[test]
fn victims_are_written_together_in_slots_that_follow_one_another() {
    let mut pond = Pond::new(2048, 8192);
    let mut page = 0;
    while pond.swapped.len() < 2 {
        pond.touch(page);
        page += 1;
    }
    let (_, first, frames) = &pond.swapped[0];
    assert!(
        first.0 == 0 && frames.len() >= 64,
        "{first:?}, {} pages",
        frames.len()
    );
    for ((_, slot, frames), (_, next, _)) in pond.swapped.iter().zip(&pond.swapped[1..]) {
        assert_eq!(slot.0 + frames.len() as u32, next.0);
    }
}

#[test]
fn reclaim_swaps_no_more_than_fills_free_memory_up_to_the_high_mark() {
    let mut pond = Pond::new(2048, 8192);
    let marks = pond.w.manager.derived().watermarks;
    let high = marks.high.0.max(marks.low.0 + 64);
    let mut page = 0;
    while pond.w.waits.is_empty() {
        pond.touch(page);
        page += 1;
    }
    let writing: u64 = pond
        .swapped
        .iter()
        .map(|(_, _, frames)| frames.len() as u64)
        .sum();
    let free = pond.w.manager.occupancy(pond.w.now).free.0;
    assert!(
        free + writing >= high,
        "{free} free, {writing} being written, {high}"
    );
    // The marks have risen by a sixteenth of the pool at most, and a batch is tagged as a whole.
    assert!(
        free + writing < high + 2048 / 16 + 32,
        "{free} free, {writing} being written, {high}"
    );
    pond.end_writes(Ok(()));
    assert!(pond.touch(page), "there is memory now");
}

#[test]
fn a_page_that_did_not_change_leaves_without_a_write() {
    let mut pond = Pond::new(256, 1024);
    let next = pond.fill();
    // All that was ever touched is in its slot, and in memory again.
    for _ in 0..3 {
        for page in 0..next {
            pond.touch(page);
            pond.end_writes(Ok(()));
        }
    }
    let (written, read) = (pond.w.manager.stats().pswpout, pond.w.manager.stats().pswpin);
    for page in (0..next).chain(0..next) {
        pond.touch(page);
    }
    assert!(pond.w.manager.stats().pswpin > read);
    let still_dirty = (0..next).filter(|&page| {
        let frame = pond.frame(page);
        frame.is_some_and(|frame| pond.w.manager.phase(frame) == Phase::Dirty)
    });
    let again = pond.w.manager.stats().pswpout - written;
    assert!(
        again as usize + still_dirty.count() < next as usize / 2,
        "{again} of {next}"
    );
}

#[test]
fn a_page_that_has_changed_gives_its_slot_up_and_is_written_to_another() {
    let mut pond = Pond::new(256, 1024);
    pond.fill();
    pond.touch(0);
    let frame = pond.frame(0).unwrap();
    let (taken, written) = (pond.taken(), pond.w.manager.stats().pswpout);
    pond.w.frames.dirty.insert(frame);
    pond.step(Event::Changed { frames: &[frame] });
    // It was met at the cold end, so it is written at once if memory is short, or when it is.
    assert!(pond.taken() == taken - 1 || pond.w.manager.stats().pswpout > written);
    assert_ne!(pond.w.manager.phase(frame), Phase::Clean);
}

#[test]
fn a_write_to_swap_that_fails_leaves_the_page_in_memory_without_a_slot() {
    let mut pond = Pond::new(256, 1024);
    let mut page = 0;
    while pond.swapped.is_empty() {
        pond.touch(page);
        page += 1;
    }
    let (_, _, frames) = pond.swapped[0].clone();
    let all: u64 = pond
        .swapped
        .iter()
        .map(|(_, _, frames)| frames.len() as u64)
        .sum();
    assert_eq!(pond.taken(), all);
    pond.end_writes(Err(IoError(5)));
    assert_eq!(pond.w.manager.phase(frames[0]), Phase::Dirty);
    assert_eq!(
        pond.taken(),
        pond.swapped.iter().map(|(_, _, f)| f.len() as u64).sum()
    );
    assert_eq!(pond.w.manager.stats().pswpout_failed, all);
    // It is tried again when its memory is needed.
    for page in page..page + 300 {
        pond.touch(page);
        pond.end_writes(Ok(()));
    }
    assert!(pond.w.manager.stats().pswpout > all);
}

#[test]
fn a_page_in_use_when_its_write_is_to_begin_stays() {
    let mut pond = Pond::new(256, 1024);
    for page in 0..100 {
        pond.touch(page);
    }
    let pinned = pond.frame(3).unwrap();
    pond.w.frames.pinned.insert(pinned);
    for page in 100..400 {
        pond.touch(page);
        pond.end_writes(Ok(()));
    }
    assert_eq!(pond.w.manager.phase(pinned), Phase::Dirty);
    assert_eq!(pond.frame(3), Some(pinned));
}

#[test]
fn pages_that_are_given_up_give_back_frames_and_slots_and_are_empty_again() {
    let mut pond = Pond::new(256, 1024);
    let next = pond.fill();
    let held: Vec<_> = (0..next)
        .filter_map(|page| Some((PageIndex(page), pond.frame(page)?)))
        .collect();
    for (page, frame) in &held {
        pond.w.frames.map.remove(&PageKey::new(REGION, *page));
        pond.w.frames.dirty.remove(frame);
    }
    pond.step(Event::Discarded {
        file: REGION,
        pages: &held,
    });
    pond.step(Event::Forgotten {
        file: REGION,
        pages: 0..next,
    });
    assert_eq!(pond.taken(), 0);
    let occupancy = pond.w.manager.occupancy(pond.w.now);
    assert_eq!(occupancy.free, occupancy.frames);
    let granted = pond.granted;
    pond.fault(0);
    assert_eq!(pond.granted, granted + 1, "as if it had never been touched");
}

#[test]
fn files_and_regions_share_one_pool_and_the_coldest_leaves_whatever_it_is() {
    let mut pond = Pond::new(256, 1024);
    for page in 0..200 {
        pond.w.read(page);
    }
    for page in 0..200 {
        pond.touch(page);
        pond.end_writes(Ok(()));
    }
    let files = (0..200).filter(|&n| pond.w.frames.map.contains_key(&PageKey::new(FILE, PageIndex(n))));
    let regions = (0..200).filter(|&n| pond.frame(n).is_some());
    let (files, regions) = (files.count(), regions.count());
    assert!(
        files + regions <= 256 && files > 0 && regions > 100,
        "{files} of the file, {regions}"
    );
    assert_eq!(pond.w.manager.stats().nr_vmscan_write, 0);
}
