//! A cache over a device that knows what a crash could leave, its files, and what a program does with them.

use super::images::crashes;
use crate::history::{Op, Seen, Sizes, Story, content};
use crate::support::{Draw, Kind, Place, until};
use millpond::device::{Access, DeviceFile, FileIdentity};
use millpond::{Error, File, MapOptions, Mapping, OpenOptions, PageCache};
use millpond_testing::{Crashing, Fault, FaultRule, FaultTarget, Faulty};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::Ordering;

const MIN_FRAMES: u64 = 64;

pub(crate) struct Pond {
    /// By one of its two names.
    pub(crate) path: PathBuf,
    handles: Vec<File>,
    /// To be stored to, of all that the file can ever be; some have none.
    mapping: Option<Mapping>,
    pub(crate) story: Story,
}

pub(crate) struct World {
    _folder: tempfile::TempDir,
    device: Arc<Crashing>,
    faulty: Arc<Faulty>,
    cache: PageCache,
    ponds: Vec<Pond>,
    sizes: Sizes,
    pub(crate) draw: Draw,
    seen: Seen,
    pub(crate) log: Vec<String>,
}

impl World {
    pub(crate) fn new(seed: u64) -> Option<World> {
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
        let memory = least + draw.below(3) * 8 * page;
        let build = |more, mappings| {
            PageCache::builder()
                .memory(memory + more)
                .page_size(page)
                .device(device.clone())
                .calibrate(false)
                .mappings(mappings)
                .build()
        };
        let cache = match build(32 << 10, page == 4096 && draw.below(2) == 0) {
            // No userfaultfd here: no file is mapped.
            Err(Error::Setup { .. }) => build(0, false).unwrap(),
            built => built.unwrap(),
        };
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
                mapping: None,
                story: Story::new(base),
            });
            world.open(n as usize);
        }
        Some(world)
    }

    fn open(&mut self, file: usize) {
        let options = OpenOptions::new().write(true);
        let handle = self.cache.open(&self.ponds[file].path, options).unwrap();
        let pond = &mut self.ponds[file];
        if pond.mapping.is_none() {
            let options = MapOptions::new().writable(true);
            let mapped = handle.map(..self.sizes.len_max + 100_000, &options);
            pond.mapping = match mapped {
                Err(Error::Setup { .. }) => None,
                mapped => Some(mapped.unwrap()),
            };
        }
        pond.handles.push(handle);
    }

    fn handle(&self, file: usize) -> &File {
        self.ponds[file].handles.last().unwrap()
    }

    pub(crate) fn step(&mut self) {
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
                pond.mapping = None;
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
        let Pond {
            handles,
            mapping,
            story,
            ..
        } = pond;
        let (handle, mapping) = (&handles[0], mapping.as_ref());
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
                // It waits for the write.
                (0..1000).for_each(|_| std::thread::yield_now());
                faulty.release().unwrap();
                cutting.join().unwrap();
                story.end(device.position());
            } else {
                change(device, (handle, mapping), story, second, size);
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
    pub(crate) fn end(mut self) -> Seen {
        for pond in &mut self.ponds {
            pond.mapping = None;
            pond.handles.clear();
        }
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
        let by = (&self.handles[handle], self.mapping.as_ref());
        change(device, by, &mut self.story, op, page_size)
    }
}

/// The same of the bytes that are in one word with the first, if there is a mapping: what is stored at once.
fn as_store(op: Op, mapping: Option<&Mapping>) -> (Op, Option<&Mapping>) {
    match op {
        Op::Change { page, from, to, seed } if mapping.is_some() && seed % 2 == 0 => {
            let to = to.min((from / 8 + 1) * 8);
            (Op::Change { page, from, to, seed }, mapping)
        }
        op => (op, None),
    }
}

fn change(
    device: &Crashing,
    (handle, mapping): (&File, Option<&Mapping>),
    story: &mut Story,
    op: Op,
    page_size: u64,
) -> &'static str {
    let before = story.len();
    let (op, mapping) = as_store(op, mapping);
    let bytes = op.change(story.bytes(), page_size).unwrap();
    let by_write = matches!(op, Op::Write { .. });
    story.begin(device.position(), bytes, by_write);
    let what = match op {
        Op::Write { at, len, seed } => {
            handle.write_at(&content(len as usize, seed), at).unwrap();
            "call write"
        }
        Op::Change { page, from, to, seed } => match mapping {
            Some(mapping) => {
                let word = &mapping.words()[(page * page_size) as usize / 8 + from / 8];
                let mut bytes = word.load(Ordering::Relaxed).to_ne_bytes();
                bytes[from % 8..from % 8 + to - from].copy_from_slice(&content(to - from, seed));
                word.store(u64::from_ne_bytes(bytes), Ordering::Relaxed);
                "call store"
            }
            None => {
                let mut guard = handle.page_mut(page).unwrap();
                guard[from..to].copy_from_slice(&content(to - from, seed));
                "call change"
            }
        },
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

pub(crate) fn device_identity(path: &Path) -> FileIdentity {
    DeviceFile::open(path, Access::Read).unwrap().identity()
}
