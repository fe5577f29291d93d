//! Processes that write through Millpond and are killed: what they had been promised is in the files.
//!
//! The test runs itself again as a child, which does calls drawn from a seed and tells its parent through a pipe before
//! each call and after each sync. What the parent can read from the pipe the child had said before it died. The parent
//! draws the same calls, so it knows what the files may hold.
//!
//! `MILLPOND_KILLS=n cargo test -p millpond --test all kill::` kills n of them; `MILLPOND_SEED=n` only the one of that seed. A
//! seed gives the same calls, not the same moment of death. `MILLPOND_FOLDERS=a:b` has files in these folders as well, on
//! other file systems.

#![allow(
    clippy::unwrap_used,
    clippy::print_stdout,
    reason = "a test fails by panicking, and prints what it has seen"
)]

use crate::history::{Op, Seen, Sizes, Story, Taken, content};
use crate::support::{Draw, Kind, Place, bounded, seeds};
use millpond::{File, OpenOptions, PageCache};
use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// Kills by default: two or three seconds.
const KILLS: u64 = 10;
/// Where a device cuts a write. Some have larger sectors; then it can cut at fewer places.
const SECTOR: usize = 512;

/// The child's orders: its seed and folder.
const SEED: &str = "MILLPOND_KILL_CHILD_SEED";
const FOLDER: &str = "MILLPOND_KILL_CHILD_FOLDER";

/// The result of a seed.
struct Plan {
    kind: Kind,
    files: u64,
    /// Handles of each file, by one of its two names.
    handles: u64,
    sizes: Sizes,
}

impl Plan {
    fn new(seed: u64) -> Plan {
        let mut draw = Draw(seed ^ 0x6b69_6c6c);
        let page = 4096 << [0, 0, 0, 1, 2, 4][draw.below(6) as usize];
        let files = 1 + draw.below(4);
        Plan {
            kind: [Kind::Ring, Kind::Pool][(seed % 2) as usize],
            files,
            handles: 1 + draw.below(3),
            sizes: Sizes {
                page,
                // More than fits into memory, all files together.
                len_max: 120 / files * page + draw.below(page),
                write_pages_max: 36,
            },
        }
    }

    /// The least that is possible: 64 frames.
    fn memory(&self) -> u64 {
        (512 << 10) + 64 * (self.sizes.page + 66)
    }

    fn base(&self, seed: u64, file: u64) -> Vec<u8> {
        let mut draw = Draw(seed ^ (file + 1));
        let len = draw.below(2) * draw.below(self.sizes.len_max);
        content(len as usize, draw.bits())
    }

    /// The next call: which file, and what.
    fn next(&self, draw: &mut Draw, len: impl Fn(u64) -> u64) -> (u64, Op) {
        let file = draw.below(self.files);
        (file, Op::draw(draw, len(file), self.sizes))
    }
}

/// The first or the second name of a file.
fn path(folder: &Path, file: u64, name: u64) -> PathBuf {
    folder.join(format!("pond {file}{}", ["", " again"][name as usize % 2]))
}

/// The location of a seed's files, and a word for it.
fn place(seed: u64) -> (tempfile::TempDir, String) {
    let named = std::env::var("MILLPOND_FOLDERS").unwrap_or_default();
    let named: Vec<_> = named.split(':').filter(|folder| !folder.is_empty()).collect();
    match (seed / 2) as usize % (named.len() + 2) {
        0 => (Place::Disk.folder(), "on the disk".into()),
        1 => (Place::Memory.folder(), "in memory".into()),
        n => (
            tempfile::tempdir_in(named[n - 2]).unwrap(),
            format!("in {}", named[n - 2]),
        ),
    }
}

/// Not a test: what the children do.
#[test]
fn the_child_goes_on_until_it_is_killed() {
    let (Ok(seed), Ok(folder)) = (std::env::var(SEED), std::env::var(FOLDER)) else {
        return;
    };
    let seed: u64 = seed.parse().unwrap();
    let plan = Plan::new(seed);
    let Some(device) = plan.kind.device().or_else(|| Kind::Pool.device()) else {
        return;
    };
    let cache = PageCache::builder()
        .memory(plan.memory())
        .page_size(plan.sizes.page)
        .device(device)
        .calibrate(false)
        // Dropped, since the parent reads this output as reports on the calls.
        .on_notice(|_| {})
        .on_warning(|_| {})
        .build()
        .unwrap();
    let folder = PathBuf::from(folder);
    let open = |file, name| {
        let options = OpenOptions::new().write(true);
        cache.open(path(&folder, file, name), options).unwrap()
    };
    let open_all = |file| -> Vec<File> { (0..plan.handles).map(|name| open(file, name)).collect() };
    let mut handles: Vec<Vec<File>> = (0..plan.files).map(open_all).collect();
    let mut which = Draw(seed + 1);
    // Not buffered, and whole lines: less than a pipe takes at once. When the parent is gone this fails, and so ends it.
    let tell = |what: &str| std::io::stderr().write_all(what.as_bytes()).unwrap();
    let mut draw = Draw(seed);
    for n in 0_u64.. {
        let (file, op) = plan.next(&mut draw, |file| handles[file as usize][0].len());
        tell(&format!("begin {n}\n"));
        let name = which.below(plan.handles);
        let handle = &handles[file as usize][name as usize];
        match op {
            Op::Write { at, len, seed } => handle.write_at(&content(len as usize, seed), at).unwrap(),
            Op::Change { page, from, to, seed } => {
                handle.page_mut(page).unwrap()[from..to].copy_from_slice(&content(to - from, seed));
            }
            Op::SetLen { len } => handle.set_len(len).unwrap(),
            Op::Read { at, len } => {
                handle.read_at(&mut vec![0; len as usize], at).unwrap();
            }
            Op::Prefetch { at, len } => handle.prefetch(at, len).unwrap(),
            Op::Sync => handle.sync_data().unwrap(),
            Op::SyncAll => cache.sync_all().unwrap(),
            Op::Close => {
                // One more, so that the file is not forgotten.
                open(file, name).close().unwrap();
            }
            Op::Drop | Op::Open => {
                // First all that there are, so that the file is closed.
                handles[file as usize].clear();
                handles[file as usize] = open_all(file);
            }
        }
        if is_promise(op) {
            tell(&format!("synced {n}\n"));
        }
    }
}

fn is_promise(op: Op) -> bool {
    matches!(op, Op::Sync | Op::SyncAll | Op::Close)
}

/// A child that does not outlive its parent's interest.
struct Killable(Child);

impl Killable {
    fn new(seed: u64, folder: &Path) -> Killable {
        let child = Command::new(std::env::current_exe().unwrap())
            .args([
                "--exact",
                "kill::the_child_goes_on_until_it_is_killed",
                "--nocapture",
            ])
            .env(SEED, seed.to_string())
            .env(FOLDER, folder)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .spawn();
        Killable(child.unwrap())
    }
}

impl Drop for Killable {
    fn drop(&mut self) {
        // SIGKILL. It is dead already if the test goes well.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// The possible content of a file: the last promise, and the versions since.
struct Pond {
    promised: Vec<u8>,
    since: Vec<(Vec<u8>, bool)>,
}

impl Pond {
    fn bytes(&self) -> &[u8] {
        self.since.last().map_or(&self.promised, |(bytes, _)| bytes)
    }

    fn promise(&mut self) {
        if let Some((bytes, _)) = self.since.pop() {
            self.promised = bytes;
            self.since.clear();
        }
    }
}

/// One child, from its birth to what it leaves.
fn run(seed: u64) -> Seen {
    let mut seen = Seen::default();
    let (folder, place) = place(seed);
    let plan = Plan::new(seed);
    println!(
        "seed {seed}: {:?}, {place}, {} files of up to {} bytes, {} handles each, pages of {}",
        plan.kind, plan.files, plan.sizes.len_max, plan.handles, plan.sizes.page
    );
    let mut ponds: Vec<Pond> = Vec::new();
    for file in 0..plan.files {
        let promised = plan.base(seed, file);
        let name = path(folder.path(), file, 0);
        std::fs::write(&name, &promised).unwrap();
        std::fs::hard_link(&name, path(folder.path(), file, 1)).unwrap();
        ponds.push(Pond {
            promised,
            since: Vec::new(),
        });
    }
    // When, counted in what it says, and then a moment more.
    let mut chance = Draw(!seed);
    let (lines_before, moment) = (1 + chance.below(600), Duration::from_micros(chance.below(1500)));
    let mut child = Killable::new(seed, folder.path());
    let mut lines = BufReader::new(child.0.stderr.take().unwrap()).lines();
    let (mut draw, mut last) = (Draw(seed), None);
    let mut said = 0;
    // All that it has said, also what it said before it died and we read afterwards.
    while let Some(line) = lines.next() {
        let line = line.unwrap();
        said += 1;
        if said == lines_before {
            let began = Instant::now();
            while began.elapsed() < moment {
                std::thread::yield_now();
            }
            child.0.kill().unwrap();
        }
        match (line.split_once(' '), last) {
            (Some(("begin", _)), _) => {
                let (file, op) = plan.next(&mut draw, |file| ponds[file as usize].bytes().len() as u64);
                let pond = &mut ponds[file as usize];
                if let Some(bytes) = op.change(pond.bytes(), plan.sizes.page) {
                    pond.since.push((bytes, matches!(op, Op::Write { .. })));
                    seen.add("changes", 1);
                }
                last = Some((file, op));
            }
            (Some(("synced", _)), Some((file, op))) => {
                match op {
                    Op::SyncAll => ponds.iter_mut().for_each(Pond::promise),
                    _ => ponds[file as usize].promise(),
                }
                seen.add("syncs", 1);
                last = None;
            }
            _ => panic!(
                "the child said: {line}\n{}",
                lines.map_while(Result::ok).collect::<Vec<_>>().join("\n")
            ),
        }
    }
    assert!(said >= lines_before, "it ended by itself after {said} lines");
    child.0.wait().unwrap();
    seen.add("kills", 1);
    seen.add(
        match plan.sizes.page {
            4096 => "kills with pages of 4 KiB",
            _ => "kills with larger pages",
        },
        1,
    );
    seen.add("kills with several handles", u64::from(plan.handles > 1));
    let in_sync = last.is_some_and(|(_, op)| is_promise(op));
    seen.add("kills in a sync", u64::from(in_sync));
    for (file, pond) in (0..).zip(ponds) {
        let image = std::fs::read(path(folder.path(), file, 0)).unwrap();
        let mut story = Story::new(pond.promised);
        seen.add("versions not promised", pond.since.len() as u64);
        for (bytes, by_write) in pond.since {
            story.begin(0, bytes, by_write);
        }
        seen.add("files not as promised last", u64::from(image != story.first()));
        let anywhere = Taken {
            bytes: 0..u64::MAX,
            positions: 0..=usize::MAX,
        };
        match story.check(&image, usize::MAX, SECTOR, &[anywhere]) {
            Ok(mixed) => seen.add("sectors mixed in memory", mixed),
            Err(why) => panic!("file {file}: {why}"),
        }
        seen.add("sectors checked", image.len().div_ceil(SECTOR) as u64);
    }
    seen
}

#[test]
fn synced_data_survives_a_kill_of_the_process() {
    let seeds = seeds("MILLPOND_KILLS", KILLS);
    let mut seen = Seen::default();
    for seed in seeds.clone() {
        println!("replay: MILLPOND_SEED={seed} cargo test -p millpond --test all kill:: -- --nocapture");
        seen.merge(bounded(move || run(seed)));
    }
    println!("{}", seen.line());
    if seeds.end - seeds.start >= KILLS {
        seen.assert_all(&[
            "changes",
            "syncs",
            "kills",
            "kills with pages of 4 KiB",
            "kills with larger pages",
            "kills with several handles",
            "versions not promised",
            "sectors checked",
        ]);
    }
}
