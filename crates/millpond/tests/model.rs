//! The engine against a naive model: a vector of bytes for each file.
//!
//! Operations are drawn with indexes into what exists at that moment (a file, a handle, a page, a place relative to the
//! length), so that shrinking keeps them meaningful. After every operation all files are read through the cache
//! and compared; after a sync, and after a file's last handle is gone, with what the file system has.

#![allow(
    clippy::unwrap_used,
    clippy::print_stdout,
    reason = "a test fails by panicking, and prints where it was"
)]

mod support;

use Op::*;
use millpond::{Advice, File, OpenOptions, PageCache, Preset};
use proptest::prelude::*;
use proptest::test_runner::{Config, TestRunner};
use std::path::PathBuf;
use support::{Draw, Kind, Place, bounded};

/// Where in a file.
#[derive(Clone, Copy, Debug)]
enum At {
    /// So many parts of 65536 of its length from the start.
    Share(u16),
    /// At the start of the page of so many parts.
    PageOf(u16),
    /// At the end, or so many bytes before it.
    Tail(u16),
    /// Behind the end, by so many bytes and pages.
    Beyond(u16, u8),
}

#[derive(Clone, Copy, Debug)]
enum Op {
    Read {
        handle: u8,
        at: At,
        len: u32,
    },
    Write {
        handle: u8,
        at: At,
        len: u32,
        seed: u8,
    },
    Page {
        handle: u8,
        page: u16,
    },
    PageMut {
        handle: u8,
        page: u16,
        from: u16,
        seed: u8,
    },
    /// Holds one page for reading and one for changing while a third is written and read.
    Guards {
        handle: u8,
        pages: [u16; 3],
        seed: u8,
    },
    SetLen {
        handle: u8,
        at: At,
    },
    Sync {
        handle: u8,
    },
    SyncAll,
    Open {
        file: u8,
        write: bool,
        other_name: bool,
    },
    Close {
        handle: u8,
    },
    Prefetch {
        handle: u8,
        at: At,
        len: u32,
    },
    Advise {
        handle: u8,
        advice: u8,
    },
    SetMemory {
        eighths: u8,
    },
    SetOptions {
        preset: u8,
    },
    NewCache {
        page_shift: u8,
        preset: u8,
        eighths: u8,
    },
}

struct Model {
    paths: [PathBuf; 2],
    bytes: Vec<u8>,
}

struct World {
    _folder: tempfile::TempDir,
    kind: Kind,
    page_size: u64,
    cache: PageCache,
    files: Vec<Model>,
    /// The file's number, and whether the handle writes.
    handles: Vec<(usize, bool, File)>,
    buf: Vec<u8>,
    checks: u64,
}

const MIN_FRAMES: u64 = 64;

/// From the least that is possible up to some 3 MiB of 4 KiB pages.
fn memory(page_size: u64, eighths: u8) -> u64 {
    let least = (512 << 10) + MIN_FRAMES * (page_size + 63);
    least + u64::from(eighths % 9) * 80 * page_size
}

fn build(kind: Kind, page_size: u64, preset: u8, eighths: u8) -> Option<PageCache> {
    Some(
        PageCache::builder()
            .memory(memory(page_size, eighths))
            .page_size(page_size)
            .options(Preset::ALL[usize::from(preset) % 3].options())
            .device(kind.device()?)
            .build()
            .unwrap(),
    )
}

impl World {
    fn new(kind: Kind, place: Place, files: usize, page_shift: u8, preset: u8) -> Option<World> {
        let page_size = 4096 << (page_shift % 5);
        let folder = place.folder();
        let files = (0..files)
            .map(|n| {
                let path = |name: &str| folder.path().join(format!("{name} {n}"));
                std::fs::write(path("file"), []).unwrap();
                std::fs::hard_link(path("file"), path("link")).unwrap();
                Model {
                    paths: [path("file"), path("link")],
                    bytes: Vec::new(),
                }
            })
            .collect();
        let mut world = World {
            _folder: folder,
            kind,
            page_size,
            cache: build(kind, page_size, preset, 0)?,
            files,
            handles: Vec::new(),
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

    fn apply(&mut self, op: Op) {
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
                let file = self.handles[n].0;
                let Some(page) = self.page(file, page) else { return };
                let mut guard = self.handles[n].2.page_mut(page).unwrap();
                self.check_page(n, page, &guard);
                let from = usize::from(from) % guard.len();
                let start = (page * self.page_size) as usize;
                let content = content(guard.len() - from, seed);
                guard[from..].copy_from_slice(&content);
                let end = start + guard.len();
                drop(guard);
                self.files[file].bytes[start + from..end].copy_from_slice(&content);
            }
            Guards { handle, pages, seed } => self.guards(handle, pages, seed),
            SetLen { handle, at } => {
                let Some(n) = self.writer(handle) else { return };
                let file = self.handles[n].0;
                let len = self.place(file, at);
                self.handles[n].2.set_len(len).unwrap();
                self.files[file].bytes.resize(len as usize, 0);
            }
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
                if self.handles.iter().all(|h| h.0 != file) {
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
            SetMemory { eighths } => self.cache.set_memory(memory(self.page_size, eighths)).unwrap(),
            SetOptions { preset } => {
                let options = Preset::ALL[usize::from(preset) % 3].options();
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
                self.handles.clear();
                assert!(self.cache.take_lost().is_empty());
                self.page_size = 4096 << (page_shift % 5);
                self.cache = build(self.kind, self.page_size, preset, eighths).unwrap();
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
    fn check(&mut self) {
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
    }

    /// Everything is closed, so everything is in the files.
    fn end(mut self) {
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
    }
}

fn content(len: usize, seed: u8) -> Vec<u8> {
    let mut draw = Draw(u64::from(seed) << 32 | len as u64);
    let mut bytes = vec![0; len];
    for part in bytes.chunks_mut(8) {
        part.copy_from_slice(&draw.bits().to_le_bytes()[..part.len()]);
    }
    bytes
}

fn same(expected: &[u8], seen: &[u8], what: &str) {
    if expected == seen {
        return;
    }
    let at = expected.iter().zip(seen).position(|(a, b)| a != b);
    let (left, right) = (expected.len(), seen.len());
    match at {
        Some(at) => panic!(
            "{what}: byte {at} (page {} of 4 KiB) of {left} is {} and should be {}",
            at / 4096,
            seen[at],
            expected[at]
        ),
        None => panic!("{what}: {right} bytes instead of {left}"),
    }
}

fn at() -> impl Strategy<Value = At> {
    prop_oneof![
        4 => any::<u16>().prop_map(At::Share),
        3 => any::<u16>().prop_map(At::PageOf),
        2 => (0..9_000_u16).prop_map(At::Tail),
        1 => Just(At::Tail(0)),
        2 => ((0..9_000_u16), (0..40_u8)).prop_map(|(bytes, pages)| At::Beyond(bytes, pages)),
    ]
}

fn len() -> impl Strategy<Value = u32> {
    prop_oneof![
        Just(0_u32),
        1..100_u32,
        Just(4096),
        1..20_000_u32,
        Just(65_536),
        20_000..400_000_u32
    ]
}

fn op() -> impl Strategy<Value = Op> {
    let handle = any::<u8>;
    prop_oneof![
        6 => (handle(), at(), len()).prop_map(|(handle, at, len)| Read { handle, at, len }),
        20 => (handle(), at(), len(), any::<u8>())
            .prop_map(|(handle, at, len, seed)| Write { handle, at, len, seed }),
        4 => (handle(), any::<u16>()).prop_map(|(handle, page)| Page { handle, page }),
        8 => (handle(), any::<u16>(), any::<u16>(), any::<u8>())
            .prop_map(|(handle, page, from, seed)| PageMut { handle, page, from, seed }),
        3 => (handle(), any::<[u16; 3]>(), any::<u8>())
            .prop_map(|(handle, pages, seed)| Guards { handle, pages, seed }),
        8 => (handle(), at()).prop_map(|(handle, at)| SetLen { handle, at }),
        4 => handle().prop_map(|handle| Sync { handle }),
        1 => Just(SyncAll),
        3 => (any::<u8>(), any::<bool>(), any::<bool>())
            .prop_map(|(file, write, other_name)| Open { file, write, other_name }),
        3 => handle().prop_map(|handle| Close { handle }),
        3 => (handle(), at(), len()).prop_map(|(handle, at, len)| Prefetch { handle, at, len }),
        2 => (handle(), any::<u8>()).prop_map(|(handle, advice)| Advise { handle, advice }),
        2 => any::<u8>().prop_map(|eighths| SetMemory { eighths }),
        2 => any::<u8>().prop_map(|preset| SetOptions { preset }),
        1 => (any::<u8>(), any::<u8>(), any::<u8>())
            .prop_map(|(page_shift, preset, eighths)| NewCache { page_shift, preset, eighths }),
    ]
}

fn run(kind: Kind, place: Place, files: usize, page_shift: u8, preset: u8, ops: &[Op]) {
    let Some(mut world) = World::new(kind, place, files, page_shift, preset) else {
        return;
    };
    for (n, &op) in ops.iter().enumerate() {
        let step = std::panic::AssertUnwindSafe(|| {
            world.apply(op);
            world.check();
        });
        if let Err(panic) = std::panic::catch_unwind(step) {
            println!("operation {n} of {}: {op:?}", ops.len());
            std::panic::resume_unwind(panic);
        }
    }
    world.end();
}

/// `MILLPOND_CASES=n` runs n cases on each device and place.
fn cases() -> u32 {
    std::env::var("MILLPOND_CASES").map_or(24, |n| n.parse().unwrap())
}

fn property(kind: Kind, place: Place) {
    let config = Config {
        cases: cases(),
        failure_persistence: None,
        max_shrink_iters: 2_000,
        max_shrink_time: 60_000,
        ..Config::default()
    };
    let world = (1..=3_usize, 0..5_u8, 0..3_u8);
    let ops = proptest::collection::vec(op(), 1..60);
    let result = TestRunner::new(config).run(&(world, ops), |((files, page_shift, preset), ops)| {
        bounded(move || run(kind, place, files, page_shift, preset, &ops));
        Ok(())
    });
    if let Err(failure) = result {
        panic!("{kind:?} on {place:?}: {failure}");
    }
}

#[test]
fn files_are_as_the_model_says_by_the_ring_on_disk() {
    property(Kind::Ring, Place::Disk);
}

#[test]
fn files_are_as_the_model_says_by_the_ring_in_memory() {
    property(Kind::Ring, Place::Memory);
}

#[test]
fn files_are_as_the_model_says_by_threads_on_disk() {
    property(Kind::Pool, Place::Disk);
}

#[test]
fn files_are_as_the_model_says_by_threads_in_memory() {
    property(Kind::Pool, Place::Memory);
}
