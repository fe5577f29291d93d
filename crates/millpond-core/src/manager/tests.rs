use super::*;
use crate::event::{DirtierId, Effect, Intent, IoError, IoId, Reason, SyncTicket, WaitReason};
use crate::units::{Bytes, PageIndex, Ratio};
use alloc::collections::BTreeSet;
use alloc::vec;

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
}

#[derive(Default)]
struct Frames {
    keys: Vec<PageKey>,
    map: BTreeMap<PageKey, FrameNo>,
    uses: BTreeMap<FrameNo, u8>,
    pinned: BTreeSet<FrameNo>,
    dirty: BTreeSet<FrameNo>,
}

impl FrameTable for Frames {
    fn key(&self, frame: FrameNo) -> PageKey {
        self.keys[frame.index()]
    }
    fn lookup(&self, key: PageKey) -> Option<FrameNo> {
        self.map.get(&key).copied()
    }
    fn take_uses(&mut self, frame: FrameNo) -> u8 {
        self.uses.remove(&frame).unwrap_or(0)
    }
    fn evict(&mut self, frames: &mut Vec<FrameNo>) {
        frames.retain(|f| !self.pinned.contains(f) && !self.dirty.contains(f));
        for f in frames {
            self.map.remove(&self.keys[f.index()]);
        }
    }
    fn begin_write(&mut self, frame: FrameNo) -> bool {
        !self.pinned.contains(&frame) && self.dirty.remove(&frame)
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
        };
        world.step(Event::Opened {
            file: FILE,
            pages: PageCount(100_000),
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
                    // Whoever asked owns the pages and is about to change them.
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
                Effect::Synced { ticket, result } => self.synced.push((ticket.0, *result)),
                Effect::Pause { .. } => self.paused = true,
                Effect::Wait { reason, .. } => self.waits.push(*reason),
                _ => {}
            }
        }
        let more =
            effects.list.contains(&Effect::WakeReclaimer) || effects.list.contains(&Effect::ReclaimMore);
        self.effects = effects;
        self.manager.validate(&self.frames);
        if more {
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
fn reclaim_takes_clean_pages_and_never_writes() {
    let mut w = World::new(quiet(), 256);
    for page in 0..2_000 {
        w.read(page);
    }
    assert!(w.manager.stats().pgsteal() > 1_000);
    assert!(w.writes.is_empty());
    assert!(w.manager.occupancy(w.now).free >= w.manager.derived().watermarks.low);
}

#[test]
fn dirty_pages_at_the_cold_end_are_tagged_and_their_file_is_flagged() {
    let mut options = quiet();
    options.dirty.background = crate::dirty::limits::DirtyLimit::Share(Ratio::percent(90));
    options.dirty.hard = crate::dirty::limits::DirtyLimit::Share(Ratio::percent(93));
    let mut w = World::new(options, 256);
    for page in 0..200 {
        w.write(page);
    }
    assert!(w.writes.is_empty(), "below the background limit");
    for page in 1_000..2_000 {
        w.read(page);
    }
    assert!(w.manager.stats().nr_vmscan_immediate_reclaim > 0);
    assert!(w.manager.stats().flusher_flagged_files > 0);
    assert!(!w.writes.is_empty(), "the flusher was told");
    assert_eq!(w.manager.stats().nr_vmscan_write, 0);
}

#[test]
fn with_nothing_but_dirty_pages_an_allocation_waits_for_a_write_and_then_succeeds() {
    let mut options = quiet();
    options.dirty.hard = crate::dirty::limits::DirtyLimit::Share(Ratio::percent(100));
    options.dirty.background = crate::dirty::limits::DirtyLimit::Share(Ratio::percent(99));
    let mut w = World::new(options, 64);
    let mut page = 0;
    while w.waits.is_empty() {
        w.fault(page, 1, Intent::Overwrite);
        let Some(frame) = w.frames.lookup(PageKey::new(FILE, PageIndex(page))) else {
            break;
        };
        w.frames.dirty.insert(frame);
        w.step(Event::Dirtied {
            file: FILE,
            first: PageIndex(page),
            frames: &[frame],
            dirtier: DIRTIER,
        });
        page += 1;
        assert!(page < 100);
    }
    assert_eq!(w.waits, [WaitReason::Writeback]);
    assert_eq!(
        w.manager.occupancy(w.now).free,
        w.manager.derived().reserve,
        "the reserve was not touched"
    );
    assert!(!w.writes.is_empty(), "what is in the way is being written");
    w.finish_writes(Ok(()));
    w.fault(page, 1, Intent::Overwrite);
    assert_eq!(w.waits.len(), 1, "no second wait");
}

#[test]
fn a_dirtier_pauses_above_the_limit_and_is_woken_when_writes_end() {
    let mut w = World::new(quiet(), 1024);
    let mut page = 0;
    while !w.paused {
        w.write(page);
        page += 1;
        assert!(page < 1024);
    }
    let t = w.manager.derived().dirty;
    assert!(
        page > t.free_run.0 && page <= t.hard.0 + 1,
        "paused after {page} of {t:?}"
    );
    assert!(!w.writes.is_empty(), "background writeback runs");
    let mut woken = false;
    while let Some((io, ..)) = w.writes.pop() {
        w.step(Event::WriteDone { io, result: Ok(()) });
        woken |= w.effects.list.contains(&Effect::Wake(Waiters::Dirtiers));
    }
    assert!(woken);
    w.paused = false;
    w.step(Event::Resume { dirtier: DIRTIER });
    assert!(!w.paused);
}

/// A dirtier may not come back: it had dirtied its last page, or was told an error. It counted as one that waits for
/// ever, writes were made in its name, and each thread that ended so left an entry behind.
#[test]
fn a_dirtier_that_was_woken_waits_no_more_even_if_it_never_comes_back() {
    let mut w = World::new(quiet(), 1024);
    for page in 0.. {
        w.write(page);
        if w.paused {
            break;
        }
    }
    assert_eq!(w.manager.occupancy(w.now).dirtiers_blocked, 1);
    w.step(Event::Sync {
        file: FILE,
        ticket: SyncTicket(1),
    });
    w.finish_writes(Ok(()));
    assert_eq!(w.manager.unclean(), PageCount(0));
    assert_eq!(w.manager.occupancy(w.now).dirtiers_blocked, 0);
}

#[test]
fn a_failed_write_leaves_the_page_dirty_and_the_sync_reports_it() {
    let mut w = World::new(quiet(), 256);
    w.write(3);
    w.step(Event::Sync {
        file: FILE,
        ticket: SyncTicket(1),
    });
    w.finish_writes(Err(IoError(28)));
    assert_eq!(w.synced, [(1, Err(IoError(28)))]);
    assert_eq!(w.manager.occupancy(w.now).dirty, PageCount(1));
    w.step(Event::Sync {
        file: FILE,
        ticket: SyncTicket(2),
    });
    w.finish_writes(Ok(()));
    assert_eq!(w.synced[1], (2, Ok(())));
    assert_eq!(w.manager.occupancy(w.now).dirty, PageCount(0));
}

#[test]
fn a_page_in_other_hands_holds_up_a_sync_until_a_tick() {
    let mut w = World::new(quiet(), 256);
    w.write(3);
    let frame = w.frames.lookup(PageKey::new(FILE, PageIndex(3))).unwrap();
    w.frames.pinned.insert(frame);
    w.step(Event::Sync {
        file: FILE,
        ticket: SyncTicket(1),
    });
    assert!(w.writes.is_empty() && w.effects.next_tick.is_some());
    w.frames.pinned.clear();
    w.step(Event::Tick);
    w.finish_writes(Ok(()));
    assert_eq!(w.synced, [(1, Ok(()))]);
}

/// Without being told the sync would wait for the next write of the file. No test had noticed when it was not told.
#[test]
fn a_sync_ends_when_the_last_pages_that_it_waits_for_are_cut_off() {
    let mut w = World::new(quiet(), 256);
    w.write(3);
    let frame = w.frames.lookup(PageKey::new(FILE, PageIndex(3))).unwrap();
    w.frames.pinned.insert(frame);
    w.step(Event::Sync {
        file: FILE,
        ticket: SyncTicket(1),
    });
    assert!(w.writes.is_empty() && w.synced.is_empty());
    w.frames.pinned.clear();
    w.step(Event::Discarded {
        file: FILE,
        pages: &[(PageIndex(3), frame)],
    });
    assert_eq!(w.synced, [(1, Ok(()))]);
}

#[test]
fn contiguous_dirty_pages_leave_in_one_write_whatever_their_order() {
    let mut w = World::new(quiet(), 1024);
    for n in 0..100 {
        w.write(n * 37 % 100);
    }
    w.step(Event::Sync {
        file: FILE,
        ticket: SyncTicket(1),
    });
    let sizes: Vec<_> = w
        .writes
        .iter()
        .map(|(_, _, first, frames)| (first.0, frames.len()))
        .collect();
    assert_eq!(sizes, [(0, 100)]);
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

#[test]
fn retuning_leaves_only_the_last_setting() {
    let mut w = World::new(quiet(), 1024);
    let first = *w.manager.derived();
    let mut other = quiet();
    other.dirty.hard = crate::dirty::limits::DirtyLimit::Share(Ratio::percent(50));
    w.step(Event::Retuned(alloc::boxed::Box::new(other)));
    assert_ne!(*w.manager.derived(), first);
    w.step(Event::Retuned(alloc::boxed::Box::new(quiet())));
    assert_eq!(*w.manager.derived(), first);
}

#[test]
fn memory_shrinks_and_grows_while_pages_are_in_it() {
    let mut w = World::new(quiet(), 1024);
    for page in 0..1_024 {
        w.read(page);
    }
    w.step(Event::MemoryChanged {
        frames: PageCount(256),
    });
    let held = w.frames.map.len() as u64;
    assert!(held <= 256, "{held} pages are left");
    w.step(Event::MemoryChanged {
        frames: PageCount(2048),
    });
    for page in 2_000..4_000 {
        w.read(page);
    }
    assert!(w.frames.map.len() > 1_900);
}

#[test]
#[should_panic(expected = "can't be")]
fn an_end_that_was_not_begun_is_found_at_once() {
    let mut w = World::new(quiet(), 256);
    w.read(1);
    let frame = w.frames.lookup(PageKey::new(FILE, PageIndex(1))).unwrap();
    w.manager.transition(frame, PageEvent::Written);
}

#[test]
fn reasons_are_counted() {
    let mut w = World::new(quiet(), 256);
    w.read(1);
    w.write(9);
    w.step(Event::Sync {
        file: FILE,
        ticket: SyncTicket(1),
    });
    let requests = w.manager.stats().io_requests;
    assert_eq!(
        (requests[Reason::Fault as usize], requests[Reason::Sync as usize]),
        (1, 1)
    );
}

/// Whoever held the pages of one list starved everybody: the scan went round that list and never came to the clean pages
/// of the other. 72 guards of 165 frames were enough for allocations to fail after 30 s. Found by the crowded worlds.
#[test]
fn pages_in_use_do_not_hide_clean_ones_from_reclaim() {
    use crate::lru::{LinuxOptions, List, Replacement};
    for replacement in [quiet().replacement, Replacement::Linux(LinuxOptions::default())] {
        let mut w = World::new(
            Options {
                replacement,
                ..quiet()
            },
            256,
        );
        // A hot half that fills the active list, and others that pass by.
        for round in 0..40 {
            for page in 0..100 {
                w.read(page);
                let frame = w.frames.lookup(PageKey::new(FILE, PageIndex(page))).unwrap();
                w.frames.uses.insert(frame, 3);
            }
            (0..20).for_each(|n| w.read(1_000 + round * 20 + n));
        }
        let lru = &w.manager.lru;
        let inactive = lru
            .iter_from_cold(List::Inactive)
            .chain(lru.iter_from_cold(List::Fresh));
        w.frames.pinned = inactive.collect();
        let active = lru.active().0;
        assert!(active > 50, "{active} active pages with {replacement:?}");
        for page in 0..active - 8 {
            w.read(5_000 + page);
            assert_eq!(w.waits, [], "at page {page} of {active} with {replacement:?}");
            let frame = w.frames.lookup(PageKey::new(FILE, PageIndex(5_000 + page)));
            w.frames.pinned.extend(frame);
        }
    }
}

/// The reclaimer had gone to sleep when all pages were held, and when they were let go nobody woke it: the cache stayed
/// over its budget until somebody asked for memory.
#[test]
fn a_pool_gets_its_new_size_though_nobody_does_anything_any_more() {
    let mut w = World::new(quiet(), 256);
    (0..200).for_each(|page| w.read(page));
    w.frames.pinned = w.frames.map.values().copied().collect();
    w.step(Event::MemoryChanged {
        frames: PageCount(64),
    });
    let pool = |w: &World| 256 - w.manager.free.withdrawn().0;
    assert!(pool(&w) >= 200, "all pages are held");
    w.frames.pinned.clear();
    for _ in 0..1_000 {
        let Some(at) = w.effects.next_tick else { break };
        w.now = w.now.max(at);
        w.step(Event::Tick);
    }
    assert_eq!(pool(&w), 64);
}
