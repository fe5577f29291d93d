//! Punches, cuts and growth that the device takes, delays or refuses, beside readers: what a thread may see at each moment.
//!
//! One thread changes a file and publishes, page by page, what was there before its call and what will be afterwards. Readers
//! find, by every way of reading, one of the two; once one of them has found the second, no read that begins afterwards finds
//! the first; and of a call that is refused nobody finds the second at all. Each page consists of a number, so that a mixture
//! is seen too.

#![allow(
    clippy::unwrap_used,
    clippy::print_stdout,
    reason = "a test fails by panicking, and prints why it was skipped"
)]

use crate::support::{Draw, Kind, Place, bounded, seeds};
use millpond::units::Ratio;
use millpond::{Error, File, MapOptions, Mapping, OpenOptions, PageCache};
use millpond_testing::{Fault, FaultRule, FaultTarget, Faulty};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

const PAGE: u64 = 4096;
const PAGES: u64 = 400;

/// A page's content: its number up to some byte, zeros from there on, and how much of it the file has.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct State {
    number: u32,
    zeros_from: u64,
    len: u64,
}

impl State {
    fn bits(self) -> u64 {
        u64::from(self.number) << 32 | self.zeros_from << 16 | self.len
    }

    fn of(bits: u64) -> State {
        State {
            number: (bits >> 32) as u32,
            zeros_from: bits >> 16 & 0xffff,
            len: bits & 0xffff,
        }
    }

    /// For a file that ends `len` bytes after the start of the page.
    fn cut(self, len: u64) -> State {
        let len = len.min(PAGE);
        let zeros_from = self.zeros_from.min(len);
        State {
            zeros_from,
            len,
            ..self
        }
        .plain()
    }

    /// For a file that has grown: the new part is zeros.
    fn grown(self, len: u64) -> State {
        let len = len.min(PAGE);
        let zeros_from = self.zeros_from.min(self.len);
        State {
            zeros_from,
            len,
            ..self
        }
        .plain()
    }

    fn punched(self) -> State {
        State {
            zeros_from: 0,
            ..self
        }
        .plain()
    }

    fn plain(self) -> State {
        let number = if self.zeros_from == 0 { 0 } else { self.number };
        State { number, ..self }
    }

    fn is(self, seen: &[u8]) -> bool {
        let (numbers, zeros) = seen.split_at(seen.len().min(self.zeros_from as usize));
        seen.len() as u64 == self.len
            && numbers.chunks(4).all(|part| part == self.number.to_le_bytes())
            && zeros.iter().all(|&byte| byte == 0)
    }
}

/// The known state of a page.
#[derive(Default)]
struct Known {
    before: AtomicU64,
    after: AtomicU64,
    /// The call during which a reader found what is there afterwards.
    seen: AtomicU64,
}

struct Stage {
    file: File,
    mapping: Option<Mapping>,
    pages: Vec<Known>,
    /// Odd while a call is under way.
    call: AtomicU64,
    is_over: AtomicBool,
}

impl Stage {
    fn state(&self, page: u64) -> State {
        State::of(self.pages[page as usize].before.load(Ordering::SeqCst))
    }

    /// The published length of the file.
    fn len(&self) -> u64 {
        let with_bytes = (0..PAGES).rfind(|&page| self.state(page).len > 0);
        with_bytes.map_or(0, |page| page * PAGE + self.state(page).len)
    }

    /// Makes a call, of which each page is published as `to` gives it. `Err`: nothing has changed.
    fn call<T>(
        &self,
        what: &str,
        to: impl Fn(u64, State) -> State,
        call: impl FnOnce() -> millpond::Result<T>,
    ) -> millpond::Result<T> {
        for (page, known) in (0..).zip(&self.pages) {
            let after = to(page, self.state(page)).bits();
            known.after.store(after, Ordering::SeqCst);
        }
        let number = self.call.fetch_add(1, Ordering::SeqCst) + 1;
        let result = call();
        if result.is_ok() {
            for known in &self.pages {
                let after = known.after.load(Ordering::SeqCst);
                known.before.store(after, Ordering::SeqCst);
            }
        }
        self.call.fetch_add(1, Ordering::SeqCst);
        if let Err(error) = &result {
            let is_seen = |known: &Known| known.seen.load(Ordering::SeqCst) == number;
            let page = self.pages.iter().position(is_seen);
            assert_eq!(page, None, "{what} was seen, and then refused: {error}");
        }
        result
    }

    /// The result of reading the page in one of the ways; `None` if it is not available.
    fn read(&self, way: u64, page: u64) -> Option<Vec<u8>> {
        let (at, size) = (page * PAGE, PAGE as usize);
        let behind = |error: Error| match error {
            Error::OutOfRange { .. } => Some(Vec::new()),
            Error::Read { .. } => None,
            other => panic!("{other}"),
        };
        match way {
            0 => {
                let mut bytes = vec![9; size];
                let read = self.file.read_at(&mut bytes, at).ok()?;
                bytes.truncate(read);
                Some(bytes)
            }
            1 => {
                let first = page.saturating_sub(3);
                let mut bytes = vec![9; 8 * size];
                let read = self.file.read_at(&mut bytes, first * PAGE).ok()?;
                let from = ((page - first) as usize * size).min(read);
                Some(bytes[from..read.min(from + size)].to_vec())
            }
            2 => self
                .file
                .page(page)
                .map_or_else(behind, |page| Some(page.to_vec())),
            3 => self
                .file
                .try_page(page)
                .map_or_else(behind, |page| page.map(|page| page.to_vec())),
            _ => {
                let at = at as usize;
                self.mapping
                    .as_ref()?
                    .try_read(at..at + size, <[u8]>::to_vec)
                    .ok()
            }
        }
    }

    fn look(&self, way: u64, page: u64) {
        let known = &self.pages[page as usize];
        let call = self.call.load(Ordering::SeqCst);
        let (before, after) = (self.state(page), State::of(known.after.load(Ordering::SeqCst)));
        let was_seen = known.seen.load(Ordering::SeqCst) == call;
        let Some(seen) = self.read(way, page) else { return };
        if self.call.load(Ordering::SeqCst) != call || before == after && !call.is_multiple_of(2) {
            return;
        }
        let head = &seen[..seen.len().min(8)];
        let said = || {
            format!(
                "way {way}, page {page}, call {call}: {head:?} of {} bytes, {before:?} to {after:?}",
                seen.len()
            )
        };
        if call.is_multiple_of(2) {
            // What was published is there, and no call is under way.
            assert!(before.is(&seen), "{}", said());
            return;
        }
        if before.is(&seen) {
            assert!(!was_seen, "what was there before is back: {}", said());
            return;
        }
        // Zeros in what goes, while it is going.
        let is_going = after.len < before.len && seen.len() as u64 == before.len;
        let going = after.grown(before.len);
        // A read that began before the file became longer ends where it ended, with what a write put there meanwhile.
        let is_coming = after.len > before.len && seen.len() as u64 == before.len;
        let coming = after.cut(before.len);
        assert!(
            after.is(&seen) || is_going && going.is(&seen) || is_coming && coming.is(&seen),
            "{}",
            said()
        );
        known.seen.store(call, Ordering::SeqCst);
    }
}

/// A chance of one in this many, for a rule.
fn rule(target: FaultTarget, fault: Fault, one_in: u32) -> FaultRule {
    FaultRule {
        chance: Ratio::percent(100 / one_in),
        ..FaultRule::always(target, fault)
    }
}

fn draw_faults(draw: &mut Draw, device: &Faulty) {
    device.clear();
    let refusal = [libc::EOPNOTSUPP, libc::EIO, libc::ENOSPC][draw.below(3) as usize];
    let delay = Fault::Delay(Duration::from_micros(draw.below(800)));
    for target in [FaultTarget::Punches, FaultTarget::Lengths] {
        device.add(rule(target, Fault::Fail(refusal), 2));
        device.add(FaultRule::always(target, delay));
    }
    match draw.below(4) {
        0 => device.add(rule(FaultTarget::Writes, Fault::Fail(refusal), 3)),
        1 => device.add(rule(FaultTarget::Reads, Fault::Fail(libc::EIO), 10)),
        2 => device.add(rule(FaultTarget::Reads, delay, 3)),
        _ => device.add(rule(FaultTarget::Writes, delay, 3)),
    }
}

/// Does what may fail in part until it has succeeded: without faults at last.
fn surely(stage: &Stage, device: &Faulty, call: impl Fn() -> millpond::Result<()>) {
    if call().is_err() {
        device.clear();
        // What can't be written is tried again.
        stage.file.sync_data().unwrap();
        call().unwrap();
    }
}

fn change(stage: &Stage, device: &Faulty, draw: &mut Draw, number: u32) {
    let len = stage.len();
    // A thread that reads the device's length beside the calls finds the one that the calls set.
    assert_eq!(stage.file.len(), len, "the length, before call {number}");
    let (first, count) = (draw.below(PAGES), 1 + draw.below(20));
    let pages = first..(first + count).min(PAGES);
    let inside = |page: u64| pages.contains(&page);
    let resized = |new: u64| {
        move |page: u64, state: State| {
            let inside = new.saturating_sub(page * PAGE);
            match new < len {
                true => state.cut(inside),
                false => state.grown(inside),
            }
        }
    };
    let (at, bytes) = (pages.start * PAGE, (pages.end - pages.start) * PAGE);
    match draw.below(10) {
        0..=4 => {
            let end = at + bytes;
            let to = |page: u64, state: State| match inside(page) {
                true => State {
                    number,
                    zeros_from: PAGE,
                    len: PAGE,
                },
                false if end > len => state.grown(end.saturating_sub(page * PAGE)),
                false => state,
            };
            let content = number.to_le_bytes().repeat(bytes as usize / 4);
            let write = || {
                surely(stage, device, || stage.file.write_at(&content, at));
                Ok(())
            };
            stage.call("a write", to, write).unwrap();
        }
        5..=7 => {
            let to = |page: u64, state: State| if inside(page) { state.punched() } else { state };
            let _ = stage.call("a punch", to, || stage.file.punch(at, bytes));
        }
        8 => {
            let to = if draw.below(2) == 0 {
                at
            } else {
                at + 4 * draw.below(PAGE / 4)
            };
            let _ = stage.call("a length", resized(to), || stage.file.set_len(to));
        }
        _ => {
            let to = PAGES * PAGE;
            let _ = stage.call("growth", resized(to), || stage.file.set_len(to));
        }
    }
}

fn play(kind: Kind, seed: u64, calls: u32) {
    let Some(device) = kind.device() else { return };
    let folder = Place::Disk.folder();
    let path = folder.path().join("data");
    let device = Arc::new(Faulty::new(device, seed));
    let build = |mappings| {
        let builder = PageCache::builder().memory(2 << 20).device(device.clone());
        builder.mappings(mappings).build()
    };
    // No userfaultfd here: no file is mapped.
    let cache = build(true).or_else(|_| build(false)).unwrap();
    let file = cache.open(&path, OpenOptions::new().create(true)).unwrap();
    let stage = Stage {
        mapping: file.map(..PAGES * PAGE, &MapOptions::new()).ok(),
        file,
        pages: (0..PAGES).map(|_| Known::default()).collect(),
        call: AtomicU64::new(0),
        is_over: AtomicBool::new(false),
    };
    let mut draw = Draw(seed);
    std::thread::scope(|scope| {
        for reader in 0..3_u64 {
            let (stage, mut draw) = (&stage, Draw(seed << 8 | reader));
            scope.spawn(move || {
                while !stage.is_over.load(Ordering::SeqCst) {
                    // Again and again the same one: what was there before must not come back.
                    let (page, way) = (draw.below(PAGES), draw.below(5));
                    (0..draw.below(6)).for_each(|_| stage.look(way, page));
                }
            });
        }
        scope.spawn(|| {
            while !stage.is_over.load(Ordering::SeqCst) {
                let _ = stage.file.sync_data();
                let _ = stage.file.invalidate(..);
            }
        });
        let played = std::panic::AssertUnwindSafe(|| {
            for number in 1..=calls {
                draw_faults(&mut draw, &device);
                change(&stage, &device, &mut draw, number);
            }
        });
        let played = std::panic::catch_unwind(played);
        stage.is_over.store(true, Ordering::SeqCst);
        if let Err(panic) = played {
            println!("seed {seed}, {kind:?}");
            std::panic::resume_unwind(panic);
        }
    });
    device.clear();
    stage.file.sync_data().unwrap();
    let bytes = std::fs::read(&path).unwrap();
    assert_eq!(bytes.len() as u64, stage.file.len(), "seed {seed}");
    for page in 0..PAGES {
        let at = (page as usize * PAGE as usize).min(bytes.len());
        let seen = &bytes[at..bytes.len().min(at + PAGE as usize)];
        assert!(
            stage.state(page).is(seen),
            "seed {seed}, page {page} of the file itself"
        );
    }
    drop(stage);
    assert!(cache.take_lost().is_empty());
}

/// `MILLPOND_REFUSALS=n` plays this many histories with each device.
fn histories(kind: Kind) {
    for seed in seeds("MILLPOND_REFUSALS", 12) {
        bounded(move || play(kind, seed, 400));
    }
}

#[test]
fn readers_find_what_was_or_what_will_be_and_nothing_of_what_is_refused_by_the_ring() {
    histories(Kind::Ring);
}

#[test]
fn readers_find_what_was_or_what_will_be_and_nothing_of_what_is_refused_by_threads() {
    histories(Kind::Pool);
}
