//! The smallest example of each rule, in the simplest possible world.

mod anonymous;
mod devices;
mod reclaim;
mod reuse;
mod write;

use super::*;
use crate::admission::AdmissionOptions;
use crate::dirty::DirtierId;
use crate::dirty::limits::DirtyLimit;
use crate::event::{Effect, Effects, Event, Intent};
use crate::frame::{BeginWrite, FrameTable};
use crate::io::{IoError, IoId, Reason};
use crate::page::PageEvent;
use crate::reclaim::stall::WaitReason;
use crate::units::{Bytes, DeviceNo, PageIndex, Ratio};
use crate::writeback::SyncTicket;
use alloc::collections::{BTreeMap, BTreeSet};
use alloc::vec;
use alloc::vec::Vec;

/// A world as simple as can be: what it holds, what is in transit, and what it was told.
struct World {
    manager: Manager,
    effects: Effects,
    frames: Frames,
    now: Instant,
    reads: Vec<(IoId, PageIndex, Vec<FrameNo>)>,
    writes: Vec<(IoId, FileId, PageIndex, Vec<FrameNo>)>,
    synced: Vec<(u64, Result<(), IoError>)>,
    paused: bool,
    waits: Vec<WaitReason>,
    /// Background reclaim is not carried out.
    reclaimer_is_away: bool,
}

#[derive(Default)]
pub(super) struct Frames {
    keys: Vec<PageKey>,
    map: BTreeMap<PageKey, FrameNo>,
    uses: BTreeMap<FrameNo, u8>,
    pinned: BTreeSet<FrameNo>,
    dirty: BTreeSet<FrameNo>,
    held: BTreeSet<FrameNo>,
    /// Pages that are not written now, and how often that was asked.
    shut: core::ops::Range<u64>,
    asked_of_shut: u64,
    /// Where they are accesses are not tracked.
    unseen: BTreeSet<FrameNo>,
}

impl FrameTable for Frames {
    fn key(&self, frame: FrameNo) -> PageKey {
        self.keys[frame.index()]
    }
    fn lookup(&self, key: PageKey) -> Option<FrameNo> {
        self.map.get(&key).copied()
    }
    fn test_and_clear_accessed(&mut self, frame: FrameNo) -> u8 {
        self.uses.remove(&frame).unwrap_or(0)
    }
    fn tracks_accesses(&self, frame: FrameNo) -> bool {
        !self.unseen.contains(&frame)
    }
    fn evict(&mut self, frames: &mut Vec<FrameNo>) {
        frames.retain(|f| !self.pinned.contains(f) && !self.dirty.contains(f));
        for f in frames {
            self.map.remove(&self.keys[f.index()]);
        }
    }
    fn begin_write(&mut self, frame: FrameNo) -> BeginWrite {
        let page = self.keys[frame.index()].index().0;
        if self.shut.contains(&page) {
            self.asked_of_shut += 1;
            return BeginWrite::BusyRun(self.shut.end - page);
        }
        if self.held.contains(&frame) {
            return BeginWrite::LogBlocked;
        }
        if !self.pinned.contains(&frame) && self.dirty.remove(&frame) {
            BeginWrite::Begun
        } else {
            BeginWrite::Busy
        }
    }
}

const FILE: FileId = FileId(0);
const DIRTIER: DirtierId = DirtierId(1);

impl World {
    fn new(options: Options, frames: u64) -> World {
        let mut world = World {
            manager: Manager::new(options, PageCount(frames)).unwrap(),
            effects: Effects::default(),
            frames: Frames {
                keys: vec![PageKey::NONE; 4096],
                ..Frames::default()
            },
            now: Instant(0),
            reads: vec![],
            writes: vec![],
            synced: vec![],
            paused: false,
            waits: vec![],
            reclaimer_is_away: false,
        };
        world.step(Event::Opened {
            file: FILE,
            pages: PageCount(100_000),
            device: DeviceNo(0),
        });
        world
    }

    fn step(&mut self, event: Event<'_>) {
        self.now = self.now + Nanos::from_micros(10);
        self.manager
            .step(self.now, event, &mut self.frames, &mut self.effects);
        let effects = core::mem::take(&mut self.effects);
        for effect in &effects.list {
            match effect {
                Effect::Read {
                    io,
                    file,
                    first,
                    frames,
                    ..
                } => {
                    let frames = effects.frames(frames).to_vec();
                    self.enter(*file, *first, &frames);
                    self.reads.push((*io, *first, frames));
                }
                Effect::Grant { file, first, frames } => {
                    // The caller owns the pages and is about to change them.
                    self.enter(*file, *first, effects.frames(frames));
                    self.frames.dirty.extend(effects.frames(frames));
                }
                Effect::Write {
                    io,
                    file,
                    first,
                    frames,
                    ..
                } => {
                    self.writes
                        .push((*io, *file, *first, effects.frames(frames).to_vec()));
                }
                Effect::Synced { ticket, result, .. } => self.synced.push((ticket.0, *result)),
                Effect::Pause { .. } => self.paused = true,
                Effect::Wait { reason, .. } => self.waits.push(*reason),
                _ => {}
            }
        }
        let more =
            effects.list.contains(&Effect::WakeReclaimer) || effects.list.contains(&Effect::ReclaimMore);
        self.effects = effects;
        self.manager.validate(&self.frames);
        if more && !self.reclaimer_is_away {
            self.step(Event::Reclaim);
        }
    }

    fn enter(&mut self, file: FileId, first: PageIndex, frames: &[FrameNo]) {
        for (n, &frame) in frames.iter().enumerate() {
            let key = PageKey::new(file, first.after(n as u64));
            self.frames.keys[frame.index()] = key;
            assert_eq!(self.frames.map.insert(key, frame), None);
        }
    }

    fn fault(&mut self, page: u64, count: u32, intent: Intent) {
        self.step(Event::Fault {
            file: FILE,
            first: PageIndex(page),
            count,
            intent,
        });
    }

    /// Makes the page resident and reads it from the device if it must.
    fn read(&mut self, page: u64) {
        if self.frames.lookup(PageKey::new(FILE, PageIndex(page))).is_none() {
            self.fault(page, 1, Intent::Read);
            self.finish_reads();
        }
    }

    fn write(&mut self, page: u64) {
        let key = PageKey::new(FILE, PageIndex(page));
        let granted = self.frames.lookup(key).is_none();
        if granted {
            self.fault(page, 1, Intent::Overwrite);
        }
        let Some(frame) = self.frames.lookup(key) else {
            return;
        };
        if self.frames.dirty.insert(frame) || granted {
            let first = PageIndex(page);
            self.step(Event::Dirtied {
                file: FILE,
                first,
                frames: &[frame],
                dirtier: DIRTIER,
            });
        }
    }

    fn sync(&mut self, ticket: u64) {
        self.step(Event::Sync {
            file: FILE,
            ticket: SyncTicket(ticket),
        });
    }

    /// The frame of a page that is in memory.
    fn frame(&self, page: u64) -> FrameNo {
        self.frames.lookup(PageKey::new(FILE, PageIndex(page))).unwrap()
    }

    /// A page of which the world has changes and which is in use, so that a sync can't write it.
    fn held_from_a_sync(&mut self, page: u64) -> FrameNo {
        self.write(page);
        let frame = self.frame(page);
        self.frames.pinned.insert(frame);
        self.sync(1);
        assert!(self.writes.is_empty() && self.synced.is_empty());
        frame
    }

    fn finish_reads(&mut self) {
        for (io, ..) in core::mem::take(&mut self.reads) {
            self.step(Event::ReadDone { io, result: Ok(()) });
        }
    }

    fn finish_writes(&mut self, result: Result<(), IoError>) {
        for (io, _, _, frames) in core::mem::take(&mut self.writes) {
            if result.is_err() {
                self.frames.dirty.extend(frames);
            }
            self.step(Event::WriteDone { io, result });
        }
    }
}

fn quiet() -> Options {
    // Nothing leaves unless the test asks for it.
    let mut options = Options::default();
    options.flusher.write_behind = false;
    options.readahead.max = Bytes(0);
    options
}

#[test]
fn a_miss_is_read_and_its_frame_is_clean_afterwards() {
    let mut w = World::new(quiet(), 256);
    w.fault(7, 1, Intent::Read);
    let (io, first, frames) = w.reads.pop().unwrap();
    assert_eq!(
        (first, w.manager.phase(frames[0])),
        (PageIndex(7), Phase::Loading)
    );
    w.step(Event::ReadDone { io, result: Ok(()) });
    assert_eq!(w.manager.phase(frames[0]), Phase::Clean);
}

#[test]
fn a_failed_read_leaves_no_page_behind() {
    let mut w = World::new(quiet(), 256);
    w.fault(7, 2, Intent::Read);
    let (io, _, frames) = w.reads.pop().unwrap();
    w.frames.map.clear();
    w.step(Event::ReadDone {
        io,
        result: Err(IoError(5)),
    });
    assert_eq!(w.manager.phase(frames[0]), Phase::Free);
    assert_eq!(w.manager.occupancy(w.now).free, PageCount(256));
}

#[test]
fn sequential_misses_read_ahead_and_marks_ask_for_more() {
    let mut w = World::new(Options::default(), 1024);
    w.fault(0, 1, Intent::Read);
    assert_eq!(
        w.reads.iter().map(|(_, p, f)| (p.0, f.len())).collect::<Vec<_>>(),
        [(0, 1), (1, 32)]
    );
    assert!(w.effects.list.contains(&Effect::MarkReadAhead {
        file: FILE,
        at: PageIndex(1)
    }));
    w.reads.clear();
    w.step(Event::ReadAheadDue {
        file: FILE,
        at: PageIndex(1),
    });
    assert_eq!(
        w.reads.iter().map(|(_, p, f)| (p.0, f.len())).collect::<Vec<_>>(),
        [(33, 64)]
    );
}

/// A reader in order waits for what was read ahead of him, and nothing else: writes overtook him for a quarter of a second.
#[test]
fn who_waits_for_what_was_read_ahead_waits_for_the_device_from_then_on() {
    let mut w = World::new(Options::default(), 1024);
    w.fault(0, 1, Intent::Read);
    let waits = |w: &World| w.manager.devices.get(DeviceNo(0)).admission.in_transit().waits();
    assert_eq!(waits(&w), 1, "for the page itself");
    let page = PageIndex(7);
    for _ in 0..2 {
        w.step(Event::Awaited { file: FILE, page });
        assert_eq!(waits(&w), 2);
    }
    let page = PageIndex(500);
    w.step(Event::Awaited { file: FILE, page });
    assert_eq!(waits(&w), 2, "that page is not being read");
    for (io, _, _) in core::mem::take(&mut w.reads) {
        w.step(Event::ReadDone { io, result: Ok(()) });
    }
    assert_eq!(waits(&w), 0);
    assert_eq!(
        w.manager.stats().io_requests[Reason::ReadAhead as usize],
        1,
        "it counts as what it was"
    );
}

#[test]
fn what_a_background_task_reads_no_caller_waits_for_unless_one_comes_to_it() {
    let mut w = World::new(Options::default(), 1024);
    w.fault(0, 1, Intent::Background);
    let ahead = w.manager.derived().frames.0 / 256;
    let reads: Vec<_> = w.reads.iter().map(|(_, p, f)| (p.0, f.len() as u64)).collect();
    assert_eq!(reads, [(0, 1), (1, ahead)]);
    assert!(!(w.effects.list.iter()).any(|effect| matches!(effect, Effect::MarkReadAhead { .. })));
    assert!(!w.manager.is_device_awaited(FILE));
    let page = PageIndex(2);
    w.step(Event::Awaited { file: FILE, page });
    assert!(w.manager.is_device_awaited(FILE));
    for (io, _, _) in core::mem::take(&mut w.reads) {
        w.step(Event::ReadDone { io, result: Ok(()) });
    }
    assert!(!w.manager.is_device_awaited(FILE));
    // It goes on where the window ends, with a larger one.
    w.fault(1 + ahead, 1, Intent::Background);
    assert_eq!(w.reads[1].1, PageIndex(2 + ahead));
}

#[test]
fn retuning_leaves_only_the_last_setting() {
    let mut w = World::new(quiet(), 1024);
    let first = *w.manager.derived();
    let mut other = quiet();
    other.dirty.hard = DirtyLimit::Share(Ratio::percent(50));
    w.step(Event::Retuned(alloc::boxed::Box::new(other)));
    assert_ne!(*w.manager.derived(), first);
    w.step(Event::Retuned(alloc::boxed::Box::new(quiet())));
    assert_eq!(*w.manager.derived(), first);
}

#[test]
#[should_panic(expected = "can't be")]
fn an_end_that_was_not_begun_is_found_at_once() {
    let mut w = World::new(quiet(), 256);
    w.read(1);
    let frame = w.frame(1);
    w.manager.pool.transition(frame, PageEvent::Written);
}

#[test]
fn reasons_are_counted() {
    let mut w = World::new(quiet(), 256);
    w.read(1);
    w.write(9);
    w.sync(1);
    let requests = w.manager.stats().io_requests;
    assert_eq!(
        (requests[Reason::Fault as usize], requests[Reason::Sync as usize]),
        (1, 1)
    );
}
