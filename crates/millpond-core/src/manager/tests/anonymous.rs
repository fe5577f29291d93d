//! Pages of regions: granted, swapped out behind reclaim, read again, given up.

use super::*;
use crate::readahead::ReadAheadOptions;
use crate::swap::SlotNo;
use alloc::collections::BTreeSet;

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
    // It is tried again when somebody needs its memory.
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

/// A pond with a region four times as large, all of it in swap but what was touched last.
fn filled() -> Pond {
    let mut options = quiet();
    options.readahead = ReadAheadOptions::default();
    let mut pond = Pond::with(options, 2048, 8192);
    pond.is_checked = false;
    for page in 0..8192 {
        pond.touch(page);
        pond.end_writes(Ok(()));
    }
    pond.is_checked = true;
    assert_eq!(
        pond.w.manager.stats().swap_ra,
        0,
        "nothing was read ahead of first touches"
    );
    pond
}

#[test]
fn who_goes_through_a_region_finds_it_read_ahead_with_a_read_for_each_run_of_slots() {
    let mut pond = filled();
    let is_away = |first: &u64| (*first..first + 400).all(|page| pond.frame(page).is_none());
    let first = (1..).find(is_away).unwrap();
    pond.touch(first);
    assert_eq!(pond.ahead.len(), 0, "one fault is no stream");
    pond.touch(first + 1);
    assert_eq!(pond.ahead.len(), 1, "written together, read together");
    let faults = pond.w.manager.stats().pgmajfault;
    for page in first + 2..first + 300 {
        // A use of the first page of a window asks for the next; what memory has no room for is read when it is touched.
        if pond.marks.remove(&page) {
            let (file, at) = (REGION, PageIndex(page));
            pond.step(Event::ReadAheadDue { file, at });
        }
        for (io, ..) in core::mem::take(&mut pond.read) {
            pond.step(Event::ReadDone { io, result: Ok(()) });
        }
        assert!(pond.touch(page), "page {page}");
        pond.end_writes(Ok(()));
    }
    let stats = pond.w.manager.stats();
    let (faults, reads) = (stats.pgmajfault - faults, pond.ahead.len());
    let pages: usize = pond.ahead.iter().sum();
    // What left at different times has slots in different places.
    assert!(faults < 30 && pages >= 270, "{faults} faults, {:?}", pond.ahead);
    assert!(
        reads <= pages / 2 && pond.ahead.iter().all(|&pages| pages <= 64),
        "{:?}",
        pond.ahead
    );
    assert_eq!(stats.swap_ra, pages as u64);
}

/// Goes through a record, one page after the other. How many faults it had, and how many pages were read.
fn copy(pond: &mut Pond, (record, length): (u64, u64)) -> (u64, u64) {
    pond.ahead.clear();
    let before = *pond.w.manager.stats();
    for page in record * length..(record + 1) * length {
        if pond.marks.remove(&page) {
            let (file, at) = (REGION, PageIndex(page));
            pond.step(Event::ReadAheadDue { file, at });
        }
        for (io, ..) in core::mem::take(&mut pond.read) {
            pond.step(Event::ReadDone { io, result: Ok(()) });
        }
        assert!(pond.touch(page), "page {page}");
        pond.end_writes(Ok(()));
    }
    let stats = pond.w.manager.stats();
    let faults = stats.pgmajfault - before.pgmajfault;
    (faults, stats.pswpin - before.pswpin)
}

#[test]
fn a_record_like_those_before_it_is_read_at_its_first_fault_and_nothing_behind_it() {
    const RECORD: u64 = 32;
    let mut pond = filled();
    pond.is_checked = false;
    let records: Vec<u64> = (1..150).map(|n| n * 37 % 150).collect();
    let (learning, known) = records.split_at(20);
    learning.iter().for_each(|&record| {
        copy(&mut pond, (record, RECORD));
    });
    let counts: Vec<_> = known
        .iter()
        .map(|&record| copy(&mut pond, (record, RECORD)))
        .collect();
    // What was left of it in memory is not read.
    let is_whole = |count: &&(u64, u64)| count.0 == 1 && count.1 <= RECORD;
    let whole = counts.iter().filter(is_whole).count();
    assert!(
        whole * 10 > known.len() * 9,
        "{whole} of {}: {counts:?}",
        known.len()
    );
}

/// With eight threads (ebizzy of 1536 MB) most records were given up half-read for want of free frames, and what was left
/// of them read in pieces: three times as many reads, a fifth fewer records a second.
#[test]
fn records_of_several_threads_are_read_whole_though_the_reclaimer_has_not_come_yet() {
    const RECORD: u64 = 64;
    let mut pond = filled();
    pond.is_checked = false;
    // Each of them twice: what is in memory then is in swap as well.
    let order: Vec<u64> = (0..256).map(|n| n * 37 % 128).collect();
    for &record in &order {
        copy(&mut pond, (record, RECORD));
    }
    pond.ahead.clear();
    pond.reclaimer_is_late = true;
    let free = pond.w.manager.free.len().0;
    let before = pond.w.manager.stats().readahead_dropped_pages;
    // Not behind one that was copied lately: that would be the same reader, who goes on.
    let away = |record: u64| {
        let pages = record * RECORD..(record + 1) * RECORD;
        let is_first_away = pond.frame(pages.start).is_none() && !order[224..].contains(&(record - 1));
        pages.filter(|&page| pond.frame(page).is_none()).count() * usize::from(is_first_away)
    };
    let records = (1..128).map(|record| (record, away(record)));
    let records: Vec<_> = records
        .filter(|(_, away)| *away > 48)
        .step_by(2)
        .take(2)
        .collect();
    assert!(
        records.iter().map(|(_, away)| away).sum::<usize>() as u64 > free,
        "{free}: {records:?}"
    );
    for (record, away) in records {
        pond.ahead.clear();
        pond.fault(record * RECORD);
        let dropped = pond.w.manager.stats().readahead_dropped_pages - before;
        assert_eq!(dropped, 0, "record {record}, {free} pages were free");
        assert_eq!(pond.ahead.iter().sum::<usize>(), away - 1, "record {record}");
    }
}

#[test]
fn random_faults_read_nothing_ahead_and_a_slot_that_could_not_be_read_is_left_alone() {
    let mut pond = filled();
    for n in 1..200 {
        pond.touch(n * 79 % 6_000 + 1);
        pond.end_writes(Ok(()));
    }
    assert_eq!(pond.w.manager.stats().swap_ra, 0);
    let lost = (2000..).find(|&page| pond.frame(page).is_none()).unwrap();
    pond.fault(lost);
    let (io, ..) = pond.read.pop().unwrap();
    let frame = pond.frame(lost).unwrap();
    pond.w.frames.map.remove(&PageKey::new(REGION, PageIndex(lost)));
    pond.w.frames.dirty.remove(&frame);
    pond.step(Event::ReadDone {
        io,
        result: Err(IoError(5)),
    });
    pond.fault(lost - 2);
    pond.fault(lost - 1);
    assert!(!pond.ahead.is_empty());
    assert_eq!(pond.frame(lost), None);
    assert!(pond.frame(lost + 1).is_some());
}
