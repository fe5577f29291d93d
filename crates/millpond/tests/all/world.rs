//! The engine beside a naive model, a vector of bytes for each file: operations, and what they have to come to.
//!
//! Operations name what exists at that moment by an index (a file, a handle, a page, a place relative to the length), so
//! that any of them can be left out. What is read is compared at once; after a sync, and after a file's last handle is
//! gone, so is what the file system has; [`World::check`] reads all of all files through the cache.

#![allow(
    dead_code,
    clippy::unwrap_used,
    reason = "each test uses its part of it; a test fails by panicking"
)]

#[path = "world/bytes.rs"]
mod bytes;
#[path = "world/mapped.rs"]
mod mapped;
#[path = "world/op.rs"]
mod op;
#[path = "world/ranges.rs"]
mod ranges;

use crate::support::{Draw, Kind};
use Op::*;
use bytes::{content, same};
use millpond::{Advice, Error, File, Mapping, OpenOptions, PageCache, Preset};
use millpond_testing::Faulty;
pub(crate) use op::{At, Op};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// A file as it has to be.
pub(crate) struct Model {
    pub(crate) paths: [PathBuf; 2],
    pub(crate) bytes: Vec<u8>,
}

pub(crate) struct World {
    kind: Kind,
    page_size: u64,
    cache: PageCache,
    device: Arc<Faulty>,
    files: Vec<Model>,
    /// The file's number, and whether the handle writes.
    handles: Vec<(usize, bool, File)>,
    /// The file's number, and a mapping of all that it can ever be.
    mappings: Vec<(usize, Mapping)>,
    buf: Vec<u8>,
    checks: u64,
}

const MIN_FRAMES: u64 = 64;

/// From the minimum up to some 3 MiB of 4 KiB pages.
fn memory(page_size: u64, eighths: u8) -> u64 {
    let least = (512 << 10) + MIN_FRAMES * (page_size + 63);
    // Where files can be mapped, that takes some.
    least + (32 << 10) + u64::from(eighths % 9) * 80 * page_size
}

fn build(kind: Kind, page_size: u64, preset: u8, eighths: u8) -> Option<(PageCache, Arc<Faulty>)> {
    let device = Arc::new(Faulty::new(kind.device()?, 1));
    let with = |mappings| {
        PageCache::builder()
            .memory(memory(page_size, eighths))
            .page_size(page_size)
            .options(Preset::ALL[usize::from(preset) % Preset::ALL.len()].options())
            .device(device.clone())
            .mappings(mappings)
            .build()
    };
    let cache = match with(page_size == 4096) {
        // No userfaultfd here: no file is mapped.
        Err(Error::Setup { .. }) => with(false),
        built => built,
    };
    Some((cache.unwrap(), device))
}

impl World {
    /// A world whose files are in `folder`, which is empty; `None` if the system does not allow the device.
    pub(crate) fn new(kind: Kind, folder: &Path, files: usize, page_shift: u8, preset: u8) -> Option<World> {
        let page_size = 4096 << (page_shift % 5);
        let files = (0..files)
            .map(|n| {
                let path = |name: &str| folder.join(format!("{name} {n}"));
                std::fs::write(path("file"), []).unwrap();
                std::fs::hard_link(path("file"), path("link")).unwrap();
                Model {
                    paths: [path("file"), path("link")],
                    bytes: Vec::new(),
                }
            })
            .collect();
        let (cache, device) = build(kind, page_size, preset, 0)?;
        let mut world = World {
            kind,
            page_size,
            cache,
            device,
            files,
            handles: Vec::new(),
            mappings: Vec::new(),
            buf: Vec::new(),
            checks: 0,
        };
        for file in 0..world.files.len() {
            world.open(file, true, false);
        }
        Some(world)
    }

    /// No file becomes longer: twice the pool at its least, so that a check reads it past the pool.
    fn len_max(&self) -> u64 {
        2 * MIN_FRAMES * self.page_size + 5_000
    }

    fn open(&mut self, file: usize, write: bool, other_name: bool) {
        let options = OpenOptions::new().write(write);
        let path = &self.files[file].paths[usize::from(other_name)];
        let handle = self.cache.open(path, options).unwrap();
        self.handles.push((file, write, handle));
    }

    fn len(&self, file: usize) -> u64 {
        self.files[file].bytes.len() as u64
    }

    fn place(&self, file: usize, at: At) -> u64 {
        let len = self.len(file);
        let share = |n: u16| (len * u64::from(n)) >> 16;
        match at {
            At::Share(n) => share(n),
            At::PageOf(n) => share(n) / self.page_size * self.page_size,
            At::Tail(n) => len.saturating_sub(u64::from(n)),
            At::Beyond(bytes, pages) => {
                (len + u64::from(bytes) + u64::from(pages) * self.page_size).min(self.len_max())
            }
        }
    }

    fn page(&self, file: usize, page: u16) -> Option<u64> {
        let pages = self.len(file).div_ceil(self.page_size);
        (pages > 0).then(|| u64::from(page) % pages)
    }

    /// The handle, by an index into those that there are.
    fn handle(&self, index: u8) -> Option<usize> {
        let count = self.handles.len();
        (count > 0).then(|| usize::from(index) % count)
    }

    /// A handle that writes.
    fn writer(&self, index: u8) -> Option<usize> {
        let first = self.handle(index)?;
        let around = (first..self.handles.len()).chain(0..first);
        around.into_iter().find(|&n| self.handles[n].1)
    }

    pub(crate) fn apply(&mut self, op: Op) {
        match op {
            Read { handle, at, len } => {
                let Some(n) = self.handle(handle) else { return };
                let (file, _, handle) = &self.handles[n];
                let at = self.place(*file, at);
                let mut buf = vec![0xee; len as usize];
                let read = handle.read_at(&mut buf, at).unwrap();
                let bytes = &self.files[*file].bytes;
                let from = (at as usize).min(bytes.len());
                let expected = &bytes[from..bytes.len().min(from + buf.len())];
                assert!(buf[..read] == *expected, "{read} bytes read at {at}");
            }
            Write {
                handle,
                at,
                len,
                seed,
            } => {
                let Some(n) = self.writer(handle) else { return };
                let at = self.place(self.handles[n].0, at);
                self.write(n, at, u64::from(len).min(self.len_max().saturating_sub(at)), seed);
            }
            Page { handle, page } => {
                let Some(n) = self.handle(handle) else { return };
                let (file, _, handle) = &self.handles[n];
                let Some(page) = self.page(*file, page) else {
                    assert!(handle.page(0).is_err());
                    return;
                };
                self.check_page(n, page, &handle.page(page).unwrap());
                assert!(handle.page(page + self.len(*file)).is_err());
            }
            PageMut {
                handle,
                page,
                from,
                seed,
            } => {
                let Some(n) = self.writer(handle) else { return };
                let Some(page) = self.page(self.handles[n].0, page) else {
                    return;
                };
                self.change(n, page, false, from, seed);
            }
            Guards { handle, pages, seed } => self.guards(handle, pages, seed),
            Append { handle, len, seed } => {
                let Some(n) = self.writer(handle) else { return };
                let file = self.handles[n].0;
                let old = self.len(file);
                let content = content(
                    u64::from(len).min(self.len_max().saturating_sub(old)) as usize,
                    seed,
                );
                assert_eq!(self.handles[n].2.append(&content).unwrap(), old);
                self.files[file].bytes.extend(content);
            }
            Grow {
                handle,
                page,
                from,
                seed,
            } => {
                let Some(n) = self.writer(handle) else { return };
                let file = self.handles[n].0;
                let size = self.page_size;
                let pages = self.len(file) / size + 3;
                let page = (u64::from(page) % pages).min(self.len_max() / size - 1);
                let bytes = &mut self.files[file].bytes;
                bytes.resize(bytes.len().max(((page + 1) * size) as usize), 0);
                self.change(n, page, true, from, seed);
            }
            Invalidate { handle, at, len } => {
                let Some(n) = self.handle(handle) else { return };
                let (file, _, handle) = &self.handles[n];
                let at = self.place(*file, at);
                // From before: writes end at any time, also between the call and a look after it.
                let before = self.cache.stats().occupancy;
                let left = handle.invalidate(at..at + u64::from(len)).unwrap();
                assert!(left <= before.dirty.0 + before.writing.0, "{left} of {before:?}");
            }
            SetLen { .. } | Punch { .. } | Allocate { .. } => self.apply_range(op),
            Sync { handle } => {
                let Some(n) = self.handle(handle) else { return };
                self.handles[n].2.sync_data().unwrap();
                self.check_on_disk(self.handles[n].0);
            }
            SyncAll => {
                self.cache.sync_all().unwrap();
                (0..self.files.len()).for_each(|file| self.check_on_disk(file));
            }
            Open {
                file,
                write,
                other_name,
            } => {
                if self.handles.len() < 8 {
                    self.open(usize::from(file) % self.files.len(), write, other_name);
                }
            }
            Close { handle } => {
                let Some(n) = self.handle(handle) else { return };
                let (file, _, handle) = self.handles.swap_remove(n);
                drop(handle);
                let is_open = self.handles.iter().any(|h| h.0 == file);
                if !is_open && self.mappings.iter().all(|m| m.0 != file) {
                    self.check_on_disk(file);
                }
            }
            Prefetch { handle, at, len } => {
                let Some(n) = self.handle(handle) else { return };
                let (file, _, handle) = &self.handles[n];
                handle.prefetch(self.place(*file, at), u64::from(len)).unwrap();
            }
            Advise { handle, advice } => {
                let Some(n) = self.handle(handle) else { return };
                let all = [Advice::Normal, Advice::Random, Advice::Sequential];
                self.handles[n].2.advise(all[usize::from(advice) % 3]).unwrap();
            }
            Map { .. }
            | Unmap { .. }
            | ReadMapped { .. }
            | Store { .. }
            | SyncMapped { .. }
            | DontNeed { .. } => {
                self.apply_mapped(op);
            }
            SetMemory { eighths } => self.cache.set_memory(memory(self.page_size, eighths)).unwrap(),
            SetOptions { preset } => {
                let options = Preset::ALL[usize::from(preset) % Preset::ALL.len()].options();
                self.cache.set_options(options).unwrap();
            }
            NewCache {
                page_shift,
                preset,
                eighths,
            } => {
                let names: Vec<_> = self
                    .handles
                    .iter()
                    .map(|&(file, write, _)| (file, write))
                    .collect();
                self.mappings.clear();
                self.handles.clear();
                assert!(self.cache.take_lost().is_empty());
                self.page_size = 4096 << (page_shift % 5);
                (self.cache, self.device) = build(self.kind, self.page_size, preset, eighths).unwrap();
                for (file, write) in names {
                    self.open(file, write, false);
                }
            }
        }
    }

    fn write(&mut self, handle: usize, at: u64, len: u64, seed: u8) {
        let (file, _, handle) = &self.handles[handle];
        let content = content(len as usize, seed);
        handle.write_at(&content, at).unwrap();
        let (start, end) = (at as usize, (at + len) as usize);
        let bytes = &mut self.files[*file].bytes;
        if len > 0 {
            bytes.resize(bytes.len().max(end), 0);
            bytes[start..end].copy_from_slice(&content);
        }
    }

    /// Changes a page from some byte to its end. With `grows` it may be past the end of the file.
    fn change(&mut self, handle: usize, page: u64, grows: bool, from: u16, seed: u8) {
        let (file, _, writer) = &self.handles[handle];
        let guard = match grows {
            true => writer.page_mut_or_grow(page),
            false => writer.page_mut(page),
        };
        let mut guard = guard.unwrap();
        self.check_page(handle, page, &guard);
        let from = usize::from(from) % guard.len();
        let content = content(guard.len() - from, seed);
        guard[from..].copy_from_slice(&content);
        drop(guard);
        let start = (page * self.page_size) as usize + from;
        self.files[*file].bytes[start..start + content.len()].copy_from_slice(&content);
    }

    fn guards(&mut self, handle: u8, pages: [u16; 3], seed: u8) {
        let Some(n) = self.writer(handle) else { return };
        let file = self.handles[n].0;
        let Some([held, changed, written]) = pages
            .map(|page| self.page(file, page))
            .into_iter()
            .collect::<Option<Vec<_>>>()
            .and_then(|pages| <[u64; 3]>::try_from(pages).ok())
        else {
            return;
        };
        if held == changed || held == written || changed == written {
            return;
        }
        let path = self.files[file].paths[1].clone();
        let other = self.cache.open(path, OpenOptions::new().write(true)).unwrap();
        let guard = other.page(held).unwrap();
        let mut change = other.page_mut(changed).unwrap();
        let new = content(change.len(), seed);
        change.copy_from_slice(&new);
        let start = (changed * self.page_size) as usize;
        self.files[file].bytes[start..start + new.len()].copy_from_slice(&new);
        let len = self.page_size.min(self.len(file) - written * self.page_size);
        self.write(n, written * self.page_size, len, !seed);
        self.check_page(n, held, &guard);
        self.check_page(n, written, &self.handles[n].2.page(written).unwrap());
        drop((guard, change));
    }

    fn check_page(&self, handle: usize, page: u64, seen: &[u8]) {
        let bytes = &self.files[self.handles[handle].0].bytes;
        let start = (page * self.page_size) as usize;
        let expected = &bytes[start..bytes.len().min(start + self.page_size as usize)];
        same(expected, seen, &format!("page {page}"));
    }

    fn check_on_disk(&self, file: usize) {
        let Model { bytes, paths } = &self.files[file];
        same(bytes, &std::fs::read(&paths[0]).unwrap(), "the file itself");
    }

    /// Reads everything through the cache, in one of several ways, and compares.
    pub(crate) fn check(&mut self) {
        self.checks += 1;
        for (file, _, handle) in &self.handles {
            let bytes = &self.files[*file].bytes;
            assert_eq!(handle.len(), bytes.len() as u64);
            self.buf.resize(bytes.len() + 1, 0xee);
            match self.checks % 3 {
                0 => {
                    let read = handle.read_at(&mut self.buf, 0).unwrap();
                    assert_eq!(read, bytes.len());
                }
                1 => {
                    // From the end, in pieces that fit no page.
                    let mut end = bytes.len();
                    while end > 0 {
                        let start = end.saturating_sub(37_777);
                        let read = handle.read_at(&mut self.buf[start..end], start as u64);
                        assert_eq!(read.unwrap(), end - start);
                        end = start;
                    }
                }
                _ => {
                    for (page, part) in self.buf[..bytes.len()]
                        .chunks_mut(self.page_size as usize)
                        .enumerate()
                    {
                        part.copy_from_slice(&handle.page(page as u64).unwrap());
                    }
                }
            }
            same(bytes, &self.buf[..bytes.len()], "the file through the cache");
        }
        for (file, mapping) in &self.mappings {
            let bytes = &self.files[*file].bytes;
            for (n, part) in bytes.chunks(37_777).enumerate() {
                let start = n * 37_777;
                let check = |seen: &[u8]| same(part, seen, "a part of the mapped file");
                mapping.try_read(start..start + part.len(), check).unwrap();
            }
        }
    }

    /// Everything is closed, so everything is in the files: how they are.
    pub(crate) fn end(mut self) -> Vec<Model> {
        self.mappings.clear();
        self.handles.clear();
        assert!(self.cache.take_lost().is_empty());
        let occupancy = self.cache.stats().occupancy;
        assert_eq!((occupancy.dirty.0, occupancy.writing.0), (0, 0));
        assert_eq!(
            (occupancy.active.0, occupancy.inactive.0),
            (0, 0),
            "no file is open"
        );
        (0..self.files.len()).for_each(|file| self.check_on_disk(file));
        self.files
    }
}

/// Performs this many operations drawn from `seed` on one file, with whole checks in between, and leaves it in
/// `folder`.
/// `None`: the system does not allow the device.
pub(crate) fn history(kind: Kind, folder: &Path, seed: u64, operations: u64) -> Option<Vec<Model>> {
    let mut draw = Draw(seed);
    let mut world = World::new(kind, folder, 1, draw.bits() as u8, draw.bits() as u8)?;
    for n in 0..operations {
        let op = Op::draw(&mut draw);
        let step = std::panic::AssertUnwindSafe(|| {
            if world.handle(0).is_none() {
                world.open(0, true, n % 2 == 0);
            }
            world.apply(op);
            if n % 16 == 0 {
                world.check();
            }
        });
        if let Err(panic) = std::panic::catch_unwind(step) {
            eprintln!("seed {seed}, {kind:?}, operation {n} of {operations}: {op:?}");
            std::panic::resume_unwind(panic);
        }
    }
    world.check();
    Some(world.end())
}
