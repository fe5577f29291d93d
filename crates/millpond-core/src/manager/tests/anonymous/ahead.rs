//! Pages of regions that are read before they are touched.

use super::*;
use crate::readahead::ReadAheadOptions;
use core::ops::Range;

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

/// Touches the next page of a walk: what was read ahead has come by then. A use of the first page of a window asks for the
/// next; what memory has no room for is read when it is touched.
fn go_to(pond: &mut Pond, page: u64) {
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

#[test]
fn who_goes_through_a_region_finds_it_read_ahead_with_a_read_for_each_run_of_slots() {
    let mut pond = filled();
    // All but a few that bimodal insertion has activated.
    let away = |pages: Range<u64>| pages.filter(|&page| pond.frame(page).is_none()).count();
    let is_away = |first: &u64| away(*first..first + 8) == 8 && away(*first..first + 400) >= 385;
    let first = (1..7700).find(is_away).unwrap();
    pond.touch(first);
    assert_eq!(pond.ahead.len(), 0, "one fault is no stream");
    pond.touch(first + 1);
    assert_eq!(pond.ahead.len(), 1, "written together, read together");
    let faults = pond.w.manager.stats().pgmajfault;
    for page in first + 2..first + 300 {
        go_to(&mut pond, page);
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
        go_to(pond, page);
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
    let free = pond.w.manager.pool.free.len().0;
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
