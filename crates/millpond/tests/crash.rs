//! Crashes at every boundary of the device's journal, in histories drawn from seeds.
//!
//! `MILLPOND_SEED=n cargo test -p millpond --test crash` replays one history; `MILLPOND_HISTORIES=n` runs n of them. A
//! seed gives the same calls; how the threads of the engine meet is up to the machine.

#![allow(
    clippy::unwrap_used,
    clippy::print_stdout,
    reason = "a test fails by panicking, and prints what it has seen"
)]

#[path = "support/history.rs"]
mod history;
mod support;

use history::{Op, Seen, Sizes, Story, Taken, content};
use millpond::device::{
    AfterCrash, Crashing, Fate, Fault, FaultRule, FaultTarget, Faulty, Happened, Journal,
};
use millpond::{File, OpenOptions, PageCache};
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::path::PathBuf;
use std::sync::Arc;
use support::{Draw, Kind, Place, bounded, until};

/// Histories by default: some seconds without optimisation.
const HISTORIES: u64 = 200;
const MIN_FRAMES: u64 = 64;

/// What must have come about in a run of [`HISTORIES`].
const ALL: &[&str] = &[
    "call write",
    "call change",
    "call set_len longer",
    "call set_len shorter",
    "call sync",
    "call sync_all",
    "call close",
    "call drop",
    "call open",
    "call read",
    "call prefetch",
    "call guard held",
    "page changed while it was written",
    "file cut while it was written",
    "sync beside writers",
    "sync failed",
    "device write begun",
    "device write done",
    "device write failed",
    "device longer",
    "device shorter",
    "device synced",
    "crash write kept",
    "crash write lost",
    "crash write torn",
    "crash write reordered",
    "crash write in transit",
    "crash length kept",
    "crash length lost",
    "pages evicted",
    "dirtier paused",
];

struct Pond {
    /// By one of its two names.
    path: PathBuf,
    handles: Vec<File>,
    story: Story,
}

struct World {
    _folder: tempfile::TempDir,
    device: Arc<Crashing>,
    faulty: Arc<Faulty>,
    cache: PageCache,
    ponds: Vec<Pond>,
    sizes: Sizes,
    draw: Draw,
    seen: Seen,
    log: Vec<String>,
}

impl World {
    fn new(seed: u64) -> Option<World> {
        let mut draw = Draw(seed);
        let kind = if draw.below(2) == 0 {
            Kind::Ring
        } else {
            Kind::Pool
        };
        // On a disk a sync takes its time.
        let place = if draw.below(16) == 0 {
            Place::Disk
        } else {
            Place::Memory
        };
        let sector = if draw.below(2) == 0 { 512 } else { 4096 };
        let page = if draw.below(8) == 0 { 8192 } else { 4096 };
        let files = 1 + draw.below(3);
        // One in four has more than fits into memory.
        let pages = if draw.below(4) == 0 { 150 / files } else { 12 };
        let faulty = Arc::new(Faulty::new(kind.device()?, draw.bits()));
        let device = Arc::new(Crashing::new(faulty.clone(), sector));
        let least = (512 << 10) + MIN_FRAMES * (page + 66);
        let cache = PageCache::builder()
            .memory(least + draw.below(3) * 8 * page)
            .page_size(page)
            .device(device.clone())
            .calibrate(false)
            .build()
            .unwrap();
        let folder = place.folder();
        let mut world = World {
            device,
            faulty,
            cache,
            ponds: Vec::new(),
            sizes: Sizes {
                page,
                len_max: pages * page + 1000,
                write_pages_max: 40.min(pages),
            },
            draw,
            seen: Seen::default(),
            log: vec![format!(
                "{kind:?} on {place:?}, sectors of {sector}, pages of {page}, {files} files of {pages} pages"
            )],
            _folder: folder,
        };
        for n in 0..files {
            let path = world._folder.path().join(format!("pond {n}"));
            let len = world.draw.below(2) * world.draw.below(world.sizes.len_max);
            let base = content(len as usize, world.draw.bits());
            std::fs::write(&path, &base).unwrap();
            world.ponds.push(Pond {
                path,
                handles: Vec::new(),
                story: Story::new(base),
            });
            world.open(n as usize);
        }
        Some(world)
    }

    fn open(&mut self, file: usize) {
        let options = OpenOptions::new().write(true);
        let handle = self.cache.open(&self.ponds[file].path, options).unwrap();
        self.ponds[file].handles.push(handle);
    }

    fn handle(&self, file: usize) -> &File {
        self.ponds[file].handles.last().unwrap()
    }

    fn step(&mut self) {
        let file = self.draw.below(self.ponds.len() as u64) as usize;
        let len = self.ponds[file].story.len();
        match self.draw.below(16) {
            0 if len > 0 => self.overtaken(file),
            1 if len > 0 => self.sync_fails(file),
            2 => self.beside_writers(),
            3 if len > 0 => self.guard_held(file),
            _ => {
                let op = Op::draw(&mut self.draw, len, self.sizes);
                self.log.push(format!("file {file}: {op:?}"));
                self.apply(file, op);
            }
        }
    }

    fn apply(&mut self, file: usize, op: Op) {
        let (seen, pond) = (&mut self.seen, &mut self.ponds[file]);
        // Any of the handles does.
        let which = self.draw.below(pond.handles.len() as u64) as usize;
        let version = pond.story.version();
        match op {
            Op::Write { .. } | Op::Change { .. } | Op::SetLen { .. } => {
                seen.add(pond.change(&self.device, which, op, self.sizes.page), 1);
            }
            Op::Read { at, len } => {
                let mut buf = vec![0xee; len as usize];
                let read = pond.handles[which].read_at(&mut buf, at).unwrap();
                let bytes = pond.story.bytes();
                let from = bytes.len().min(at as usize);
                assert!(buf[..read] == bytes[from..bytes.len().min(from + buf.len())]);
                seen.add("call read", 1);
            }
            Op::Prefetch { at, len } => {
                pond.handles[which].prefetch(at, len).unwrap();
                seen.add("call prefetch", 1);
            }
            Op::Sync => {
                pond.handles[which].sync_data().unwrap();
                pond.story.promise(self.device.position(), version);
                seen.add("call sync", 1);
            }
            Op::SyncAll => {
                self.cache.sync_all().unwrap();
                let position = self.device.position();
                for pond in &mut self.ponds {
                    let version = pond.story.version();
                    pond.story.promise(position, version);
                }
                self.seen.add("call sync_all", 1);
            }
            Op::Close => {
                pond.handles.swap_remove(which).close().unwrap();
                pond.story.promise(self.device.position(), version);
                seen.add("call close", 1);
                if pond.handles.is_empty() {
                    self.open(file);
                }
            }
            Op::Drop => {
                pond.handles.clear();
                seen.add("call drop", 1);
                self.open(file);
            }
            Op::Open => {
                seen.add("call open", 1);
                if pond.handles.len() < 3 {
                    self.open(file);
                }
            }
        }
    }

    fn a_change(&mut self, file: usize, page: u64) -> Op {
        let len = self.ponds[file].story.len();
        let bytes = self.sizes.page.min(len - page * self.sizes.page);
        let from = self.draw.below(bytes);
        Op::Change {
            page,
            from: from as usize,
            to: (from + 1 + self.draw.below(bytes - from)) as usize,
            seed: self.draw.bits(),
        }
    }

    fn a_page(&mut self, file: usize) -> u64 {
        let len = self.ponds[file].story.len();
        self.draw.below(len.div_ceil(self.sizes.page))
    }

    /// A page is changed, or cut off, while its write is held.
    fn overtaken(&mut self, file: usize) {
        let page = self.a_page(file);
        let (first, second) = (self.a_change(file, page), self.a_change(file, page));
        let len = self.draw.below(self.ponds[file].story.len());
        let cut = self.draw.below(3) == 0;
        let second = if cut { Op::SetLen { len } } else { second };
        self.log.push(format!(
            "file {file}: {first:?}, and while it is written, {second:?}"
        ));
        let (device, faulty, size) = (&*self.device, &*self.faulty, self.sizes.page);
        let pond = &mut self.ponds[file];
        self.seen.add(pond.change(device, 0, first, size), 1);
        let version = pond.story.version();
        let identity = device_identity(&pond.path);
        faulty.add(FaultRule {
            file: Some(identity),
            offsets: page * size..(page + 1) * size,
            times: 1,
            ..FaultRule::always(FaultTarget::Writes, Fault::Hold)
        });
        let Pond { handles, story, .. } = pond;
        let handle = &handles[0];
        let (position, was_held) = std::thread::scope(|scope| {
            let syncing = scope.spawn(|| {
                handle.sync_data().unwrap();
                device.position()
            });
            until("the write", || faulty.held() > 0 || syncing.is_finished());
            let was_held = faulty.held() > 0;
            if cut {
                let bytes = second.change(story.bytes(), size).unwrap();
                story.begin(device.position(), bytes, false);
                let cutting = scope.spawn(|| handle.set_len(len).unwrap());
                until("the cut", || handle.len() == len);
                (0..100).for_each(|_| std::thread::yield_now());
                faulty.release().unwrap();
                cutting.join().unwrap();
                story.end(device.position());
            } else {
                change(device, handle, story, second, size);
                faulty.release().unwrap();
            }
            (syncing.join().unwrap(), was_held)
        });
        story.promise(position, version);
        faulty.clear();
        if was_held {
            let what = if cut {
                "file cut while it was written"
            } else {
                "page changed while it was written"
            };
            self.seen.add(what, 1);
        }
        if self.draw.below(2) == 0 {
            self.apply(file, Op::Sync);
        }
    }

    /// Some of the writes of a sync fail, or come a part of the way; then they don't.
    fn sync_fails(&mut self, file: usize) {
        let page = self.a_page(file);
        let op = self.a_change(file, page);
        // Sectors are written whole.
        let fault = match self.draw.below(2) {
            0 => Fault::Fail(5),
            _ => Fault::Cut(4096 * self.draw.below(3) as usize),
        };
        self.log.push(format!("file {file}: {op:?}, {fault:?} at sync"));
        let identity = device_identity(&self.ponds[file].path);
        self.apply(file, op);
        self.faulty.add(FaultRule {
            file: Some(identity),
            times: 1 + self.draw.below(3),
            ..FaultRule::always(FaultTarget::Writes, fault)
        });
        let (version, result) = (self.ponds[file].story.version(), self.handle(file).sync_data());
        let position = self.device.position();
        self.faulty.clear();
        match result {
            Ok(()) => self.ponds[file].story.promise(position, version),
            Err(_) => {
                self.seen.add("sync failed", 1);
                // A write that the background has begun before may still fail; each sync tries again what did.
                let handle = self.handle(file);
                let ok = (0..4).any(|_| handle.sync_data().is_ok());
                assert!(ok, "the device is whole again, and the sync fails");
                let position = self.device.position();
                self.ponds[file].story.promise(position, version);
            }
        }
    }

    /// All files are written to by a thread each, while all of them are synced.
    fn beside_writers(&mut self) {
        self.log.push(String::from("a sync of all beside writers"));
        let versions: Vec<_> = self.ponds.iter().map(|pond| pond.story.version()).collect();
        let (cache, device, sizes) = (&self.cache, &self.device, self.sizes);
        let draw = &mut self.draw;
        let position = std::thread::scope(|scope| {
            for pond in &mut self.ponds {
                let mut draw = Draw(draw.bits());
                scope.spawn(move || {
                    for _ in 0..1 + draw.below(4) {
                        let op = Op::draw(&mut draw, pond.story.len(), sizes);
                        if matches!(op, Op::Write { .. } | Op::Change { .. } | Op::SetLen { .. }) {
                            pond.change(device, 0, op, sizes.page);
                        }
                    }
                });
            }
            cache.sync_all().unwrap();
            device.position()
        });
        for (pond, version) in self.ponds.iter_mut().zip(versions) {
            pond.story.promise(position, version);
        }
        self.seen.add("sync beside writers", 1);
    }

    /// One page is held for changing while others are written: half of the change comes before, half after.
    fn guard_held(&mut self, file: usize) {
        let page = self.a_page(file);
        let Op::Change { from, to, seed, .. } = self.a_change(file, page) else {
            return;
        };
        let op = Op::Change { page, from, to, seed };
        self.log.push(format!("file {file}: {op:?}, held"));
        let other = (file + 1) % self.ponds.len();
        let device = self.device.clone();
        let (path, options) = (self.ponds[file].path.clone(), OpenOptions::new().write(true));
        let handle = self.cache.open(path, options).unwrap();
        let bytes = op
            .change(self.ponds[file].story.bytes(), self.sizes.page)
            .unwrap();
        let new = content(to - from, seed);
        let half = new.len() / 2;
        self.ponds[file].story.begin(device.position(), bytes, false);
        let mut guard = handle.page_mut(page).unwrap();
        guard[from..from + half].copy_from_slice(&new[..half]);
        if other != file {
            let len = self.ponds[other].story.len();
            let at = self.draw.below(len + 1).min(self.sizes.len_max - 500);
            let seed = self.draw.bits();
            self.apply(other, Op::Write { at, len: 500, seed });
            self.apply(other, Op::Sync);
        }
        guard[from + half..to].copy_from_slice(&new[half..]);
        drop(guard);
        self.ponds[file].story.end(device.position());
        self.seen.add("call guard held", 1);
    }

    /// Closes everything and looks at every crash that there could have been.
    fn end(mut self) -> Seen {
        self.ponds.iter_mut().for_each(|pond| pond.handles.clear());
        assert!(self.cache.take_lost().is_empty());
        let stats = self.cache.stats();
        self.seen.add(
            "pages evicted",
            stats.counters.pgsteal_kswapd + stats.counters.pgsteal_direct,
        );
        self.seen
            .add("dirtier paused", stats.counters.balance_dirty_pauses);
        let journal = self.device.journal();
        self.seen.add("boundaries", self.device.position() as u64);
        for (n, pond) in self.ponds.iter().enumerate() {
            let on_disk = std::fs::read(&pond.path).unwrap();
            assert!(on_disk == pond.story.bytes(), "file {n} has not what was written");
            let draw = Draw(self.draw.bits());
            crashes(
                &journal,
                pond,
                &on_disk,
                draw,
                self.device.position(),
                &mut self.seen,
            );
        }
        self.seen
    }
}

impl Pond {
    /// Carries out a change by one of the handles; what it was.
    fn change(&mut self, device: &Crashing, handle: usize, op: Op, page_size: u64) -> &'static str {
        change(device, &self.handles[handle], &mut self.story, op, page_size)
    }
}

fn change(device: &Crashing, handle: &File, story: &mut Story, op: Op, page_size: u64) -> &'static str {
    let before = story.len();
    let bytes = op.change(story.bytes(), page_size).unwrap();
    let by_write = matches!(op, Op::Write { .. });
    story.begin(device.position(), bytes, by_write);
    let what = match op {
        Op::Write { at, len, seed } => {
            handle.write_at(&content(len as usize, seed), at).unwrap();
            "call write"
        }
        Op::Change { page, from, to, seed } => {
            let mut guard = handle.page_mut(page).unwrap();
            guard[from..to].copy_from_slice(&content(to - from, seed));
            "call change"
        }
        Op::SetLen { len } => {
            handle.set_len(len).unwrap();
            if len < before {
                "call set_len shorter"
            } else {
                "call set_len longer"
            }
        }
        _ => unreachable!("{op:?} changes nothing"),
    };
    story.end(device.position());
    what
}

fn device_identity(path: &std::path::Path) -> millpond::device::FileIdentity {
    use millpond::device::{Access, DeviceFile};
    DeviceFile::open(path, Access::Read).unwrap().identity()
}

/// The crashes of one file.
fn crashes(journal: &Journal, pond: &Pond, on_disk: &[u8], mut draw: Draw, end: usize, seen: &mut Seen) {
    let Some(mut crash) = journal.file(device_identity(&pond.path)) else {
        // It was never written, cut or synced.
        return;
    };
    let mut turns: Vec<usize> = pond.story.turns().collect();
    turns.sort_unstable();
    turns.dedup();
    let (mut position, mut taken) = (0, Vec::new());
    let mut journal = Vec::new();
    loop {
        // Until the next entry the same images are possible; what is promised may change in between.
        let until = crash.until().min(end);
        let between = turns
            .iter()
            .copied()
            .filter(|&turn| position < turn && turn <= until);
        for position in std::iter::once(position).chain(between) {
            if let Err(why) = look(&crash, pond, position, &taken, &mut draw, seen) {
                println!("{}\n{}", pond.story.told(), journal.join("\n"));
                panic!("{}: crash before entry {position}: {why}", pond.path.display());
            }
        }
        let happened = crash.advance();
        journal.push(format!("{until}: {happened:?}"));
        match happened {
            None => break,
            Some(Happened::Begun { bytes, since }) => {
                taken.push(Taken {
                    bytes,
                    positions: since..=until + 1,
                });
                seen.add("device write begun", 1);
            }
            Some(Happened::Done { failed, extended, .. }) => {
                seen.add(
                    if failed {
                        "device write failed"
                    } else {
                        "device write done"
                    },
                    1,
                );
                seen.add("device write extended", u64::from(extended));
            }
            Some(Happened::Length { from, to }) => {
                seen.add("device longer", u64::from(from < to));
                seen.add("device shorter", u64::from(to < from));
            }
            Some(Happened::Synced { .. }) => seen.add("device synced", 1),
        }
        position = until + 1;
    }
    assert!(on_disk == crash.live(), "the journal has not what the file has");
}

/// Some of the images of a crash at `position`.
fn look(
    crash: &AfterCrash<'_>,
    pond: &Pond,
    position: usize,
    taken: &[Taken],
    draw: &mut Draw,
    seen: &mut Seen,
) -> Result<(), String> {
    let fates = [
        Fate::Lost,
        Fate::Kept,
        Fate::Drawn(draw.bits()),
        Fate::Drawn(draw.bits()),
    ];
    seen.add("crash points", 1);
    for fate in fates {
        let (image, survived) = crash.image(fate);
        match pond.story.check(&image, position, crash.sector_bytes(), taken) {
            Ok(mixed) => seen.add("sectors mixed in memory", mixed),
            Err(why) => return Err(format!("{fate:?}: {why}")),
        }
        seen.add("images", 1);
        seen.add("crash write kept", survived.kept);
        seen.add("crash write lost", survived.lost);
        seen.add("crash write torn", survived.torn);
        seen.add("crash write reordered", survived.reordered);
        seen.add("crash write in transit", survived.in_transit);
        seen.add("crash length kept", survived.lengths_kept);
        seen.add("crash length lost", survived.lengths_lost);
        seen.add("crash length torn", survived.lengths_torn);
    }
    Ok(())
}

/// One history; `None` where its device is not to be had.
fn run(seed: u64) -> Option<Seen> {
    let mut world = World::new(seed)?;
    let steps = 10 + world.draw.below(50);
    let told = catch_unwind(AssertUnwindSafe(|| (0..steps).for_each(|_| world.step())));
    let log = world.log.clone();
    let seen = told.and_then(|()| catch_unwind(AssertUnwindSafe(|| world.end())));
    match seen {
        Ok(seen) => Some(seen),
        Err(panic) => {
            println!("{}", log.join("\n"));
            println!("replay: MILLPOND_SEED={seed} cargo test -p millpond --test crash -- --nocapture");
            resume_unwind(panic);
        }
    }
}

fn number(name: &str) -> Option<u64> {
    let value = std::env::var(name).ok()?;
    Some(
        value
            .parse()
            .unwrap_or_else(|_| panic!("{name} is {value}: a number is needed")),
    )
}

#[test]
fn what_a_sync_has_promised_is_there_after_a_crash_at_any_moment() {
    if let Some(seed) = number("MILLPOND_SEED") {
        let seen = bounded(move || run(seed));
        println!("{}", seen.unwrap_or_default().line());
        return;
    }
    let histories = number("MILLPOND_HISTORIES").unwrap_or(HISTORIES);
    let mut seen = Seen::default();
    for seed in 0..histories {
        if let Some(one) = bounded(move || run(seed)) {
            seen.merge(one);
            seen.add("histories", 1);
        }
    }
    println!("{}", seen.line());
    if histories >= HISTORIES {
        seen.assert_all(ALL);
    }
}
