//! Which pages are written to swap together, and in which order pages leave.

use super::*;
use crate::lru::List;
use core::ops::Range;

/// A pond without bimodal insertion, so that pages leave in the order in which they came.
fn in_order(frames: u64, slots: u64) -> Pond {
    let mut pond = Pond::with(quiet(), frames, slots);
    pond.w.manager.lru.admit_none();
    pond
}

impl Pond {
    fn pages_of(&self, frames: &[FrameNo]) -> BTreeSet<u64> {
        let page = |frame: &FrameNo| self.w.frames.keys[frame.index()].index().0;
        frames.iter().map(page).collect()
    }

    fn in_memory(&self, pages: Range<u64>) -> usize {
        pages.filter(|&page| self.frame(page).is_some()).count()
    }
}

/// Every second page of a region that is twice memory, until the first of them are written: the others are younger, and two of
/// them are where accesses are not tracked.
fn every_second_page(unseen: [u64; 2]) -> (Pond, BTreeSet<u64>) {
    let mut pond = in_order(2048, 4096);
    for page in (0..200).map(|n| 2 * n) {
        pond.touch(page);
    }
    for page in (0..200).map(|n| 2 * n + 1) {
        pond.touch(page);
    }
    for page in unseen {
        let frame = pond.frame(page).unwrap();
        pond.w.frames.unseen.insert(frame);
    }
    for page in 1000.. {
        pond.touch(page);
        if let Some((_, _, frames)) = pond.swapped.first() {
            let written = pond.pages_of(frames);
            return (pond, written);
        }
    }
    unreachable!("memory is full some time")
}

#[test]
fn dirty_neighbours_that_nobody_uses_are_written_with_a_page_and_stay() {
    let (mut pond, written) = every_second_page([41, 43]);
    let odd = written.iter().filter(|&page| page % 2 == 1).count();
    assert!(odd >= 20, "{written:?}");
    assert!(!written.contains(&41), "in use, as far as anybody knows");
    pond.is_checked = true;
    pond.end_writes(Ok(()));
    pond.step(Event::Reclaim);
    let gone = |page: &&u64| pond.frame(**page).is_none();
    let (even_gone, odd_gone): (Vec<u64>, Vec<u64>) =
        written.iter().filter(gone).partition(|page| *page % 2 == 0);
    assert!(even_gone.len() >= 10, "{even_gone:?}");
    assert_eq!(
        odd_gone, [0; 0],
        "they were written beside others, it is not their turn"
    );
    let kept = written.iter().find(|&page| page % 2 == 1).unwrap();
    let frame = pond.frame(*kept).unwrap();
    assert_eq!(pond.w.manager.phase(frame), Phase::Clean);
    assert!(pond.w.manager.has_slot(REGION, PageIndex(*kept)));
}

#[test]
fn a_page_beside_one_that_leaves_is_written_once_and_leaves_clean_when_its_turn_comes() {
    let (mut pond, written) = every_second_page([41, 43]);
    let odd: Vec<u64> = written.iter().copied().filter(|page| page % 2 == 1).collect();
    for page in 2000..4000 {
        pond.end_writes(Ok(()));
        pond.touch(page);
    }
    pond.end_writes(Ok(()));
    assert!(odd.iter().all(|&page| pond.frame(page).is_none()));
    let stats = *pond.w.manager.stats();
    let touched = 400 + 2000 + pond.in_memory(1000..2000) as u64;
    assert!(stats.pswpout <= touched, "{} of {touched} pages", stats.pswpout);
}

/// Once a third of what one thread had filled was among the pages in use, in no order, because enough of it was on its way
/// to swap when it was met.
#[test]
fn what_is_met_while_enough_is_on_its_way_is_next_and_not_in_use() {
    let mut pond = in_order(2048, 8192);
    let mut next = 0;
    while pond.w.waits.is_empty() {
        pond.touch(next);
        next += 1;
    }
    for _ in 0..50 {
        pond.fault(next);
        pond.step(Event::Reclaim);
    }
    let active = pond.w.manager.lru.active().0;
    let writing: usize = pond.swapped.iter().map(|(_, _, frames)| frames.len()).sum();
    assert!(
        active <= writing as u64,
        "{active} pages in use, {writing} being written"
    );
    for page in next..next + 1000 {
        pond.touch(page);
        pond.end_writes(Ok(()));
    }
    // Up to a batch that goes together.
    let first = (0..).find(|&page| pond.frame(page).is_some()).unwrap();
    let later_gone = (first..first + 1000)
        .filter(|&page| pond.frame(page).is_none())
        .count();
    assert!(
        later_gone <= 32,
        "{later_gone} of the 1000 behind page {first} have gone"
    );
}

/// What records were torn by: pages that were written since they were read are met as clean ones; while enough was on its way to
/// swap those that had changed began another trip along the list, behind pages that came later.
#[test]
fn pages_that_turn_out_to_have_changed_are_next_although_enough_is_on_its_way() {
    let mut pond = in_order(2048, 8192);
    for page in 0..2600 {
        pond.touch(page);
        pond.end_writes(Ok(()));
    }
    let back: Vec<u64> = (0..2600)
        .filter(|&page| pond.frame(page).is_none())
        .take(300)
        .collect();
    for &page in &back {
        assert!(pond.touch(page));
        pond.end_writes(Ok(()));
    }
    let changed: Vec<FrameNo> = back.iter().map(|&page| pond.frame(page).unwrap()).collect();
    pond.w.frames.dirty.extend(&changed);
    pond.step(Event::Changed { frames: &changed });
    let is_leaving = |frame: &FrameNo| pond.w.manager.pool[*frame].free_on_clean;
    let stay: Vec<FrameNo> = changed
        .iter()
        .copied()
        .filter(|frame| !is_leaving(frame))
        .collect();
    assert!(stay.len() >= 50, "{} of {}", stay.len(), changed.len());
    let coldest: Vec<FrameNo> = pond.w.manager.lru.iter_from_cold(List::Inactive).collect();
    let at = coldest.iter().position(|frame| *frame == stay[0]).unwrap();
    assert_eq!(coldest[at..at + stay.len()], stay[..], "in their order");
    assert!(at < 70, "{at} pages are to go before them");
}
