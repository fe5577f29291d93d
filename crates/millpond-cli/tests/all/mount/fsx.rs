//! One file at the mount, and anything that can be done with it, beside a vector of bytes: as fsx does with file systems.
//!
//! Reads and writes by descriptors, with `O_DIRECT` and without, and through shared memory maps (by a child in Python, as the house has no unsafe code
//! here), appends, cuts, growth, holes, zeros, copies within the file, syncs, closing and opening; at the end what the
//! source has. `MILLPOND_SEED=n` replays one history, `MILLPOND_FSX=n` plays n.

use super::{TestMount, folders, skip};
use rustix::fs::FallocateFlags;
use rustix::process::Signal;
use std::fs::{self, File, OpenOptions};
use std::io::{BufRead, BufReader, Write};
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

/// Histories by default, and how long each is.
const HISTORIES: u64 = 4;
const OPERATIONS: u64 = 400;

/// No file is longer.
const LEN_MAX: u64 = 300_000;

/// `w offset length byte` writes through a map, `r offset length` says what is there.
const MAPPER: &str = "
import mmap, os, sys
f = os.open(sys.argv[1], os.O_RDWR)
for line in sys.stdin:
    what, at, n, *byte = line.split()
    at, n = int(at), int(n)
    m = mmap.mmap(f, os.fstat(f).st_size)
    if what == 'w':
        m[at:at + n] = bytes([int(byte[0])]) * n
        print('done', flush=True)
    else:
        print(m[at:at + n].hex(), flush=True)
    m.close()
";

/// A child that maps the file.
struct Mapper {
    child: Child,
    to: ChildStdin,
    from: BufReader<ChildStdout>,
}

impl Mapper {
    fn start(path: &Path) -> Option<Mapper> {
        let mut child = Command::new("python3")
            .args(["-c", MAPPER])
            .arg(path)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .ok()?;
        Some(Mapper {
            to: child.stdin.take()?,
            from: BufReader::new(child.stdout.take()?),
            child,
        })
    }

    fn ask(&mut self, what: &str) -> String {
        writeln!(self.to, "{what}").unwrap();
        let mut line = String::new();
        self.from.read_line(&mut line).unwrap();
        assert!(
            !line.is_empty(),
            "the child that maps the file has died of {what}"
        );
        line.trim().to_owned()
    }
}

impl Drop for Mapper {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

struct World {
    path: PathBuf,
    file: File,
    /// The same file, opened with `O_DIRECT`.
    direct: File,
    model: Vec<u8>,
    draw: fastrand::Rng,
    mapper: Option<Mapper>,
}

fn open(path: &Path, flags: i32) -> File {
    let mut options = OpenOptions::new();
    options.read(true).write(true).create(true).truncate(false);
    options.custom_flags(flags).open(path).unwrap()
}

impl World {
    fn below(&mut self, n: u64) -> u64 {
        self.draw.u64(0..n.max(1))
    }

    /// A place and a length, inside the file or beyond.
    fn range(&mut self, inside: bool) -> (u64, u64) {
        let len = match inside {
            true => self.model.len() as u64,
            false => LEN_MAX - 70_000,
        };
        let most = [100, 5_000, 70_000][self.draw.usize(0..3)];
        let (at, wanted) = (self.below(len), 1 + self.below(most));
        (at, if inside { wanted.min(len - at) } else { wanted })
    }

    fn either(&mut self) -> (&File, &'static str) {
        match self.draw.bool() {
            true => (&self.file, "cached"),
            false => (&self.direct, "direct"),
        }
    }

    fn put(&mut self, at: u64, bytes: &[u8]) {
        let end = at as usize + bytes.len();
        if self.model.len() < end {
            self.model.resize(end, 0);
        }
        self.model[at as usize..end].copy_from_slice(bytes);
    }

    fn zero(&mut self, at: u64, len: u64) {
        let end = ((at + len) as usize).min(self.model.len());
        if (at as usize) < end {
            self.model[at as usize..end].fill(0);
        }
    }

    fn step(&mut self) -> String {
        let is_empty = self.model.is_empty();
        let byte = self.draw.u8(1..);
        match self.draw.u32(0..16) {
            0..=2 => {
                let (at, len) = self.range(false);
                let (file, how) = self.either();
                file.write_all_at(&vec![byte; len as usize], at).unwrap();
                self.put(at, &vec![byte; len as usize]);
                format!("write {how} {at} {len}")
            }
            3..=4 => {
                let (at, len) = self.range(false);
                let mut bytes = vec![0; len as usize];
                let (file, how) = self.either();
                let read = file.read_at(&mut bytes, at).unwrap();
                let end = (at + len).min(self.model.len() as u64).max(at);
                assert_eq!(read as u64, end - at, "read at {at}");
                assert!(
                    bytes[..read] == self.model[(at as usize).min(self.model.len())..][..read],
                    "read {how} {at} {len}"
                );
                format!("read {how} {at} {len}")
            }
            5 => {
                let len = self.below(LEN_MAX);
                self.file.set_len(len).unwrap();
                self.model.resize(len as usize, 0);
                format!("cut to {len}")
            }
            6 => {
                let len = 1 + self.below(9_000);
                if self.model.len() as u64 + len < LEN_MAX {
                    let mut file = OpenOptions::new().append(true).open(&self.path).unwrap();
                    file.write_all(&vec![byte; len as usize]).unwrap();
                    self.put(self.model.len() as u64, &vec![byte; len as usize]);
                }
                format!("append {len}")
            }
            7 => {
                let (at, len) = self.range(false);
                let flags = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
                rustix::fs::fallocate(&self.file, flags, at, len).unwrap();
                self.zero(at, len);
                format!("punch {at} {len}")
            }
            8 => {
                let (at, len) = self.range(false);
                // Some file systems can't (tmpfs).
                if rustix::fs::fallocate(&self.file, FallocateFlags::ZERO_RANGE, at, len).is_ok() {
                    self.zero(at, len);
                    let end = self.model.len().max((at + len) as usize);
                    self.model.resize(end, 0);
                }
                format!("zero {at} {len}")
            }
            9 => {
                let (at, len) = self.range(false);
                rustix::fs::fallocate(&self.file, FallocateFlags::empty(), at, len).unwrap();
                let end = self.model.len().max((at + len) as usize);
                self.model.resize(end, 0);
                format!("allocate {at} {len}")
            }
            10 if !is_empty => {
                let (mut from, len) = self.range(true);
                let (mut to, _) = self.range(false);
                if from.abs_diff(to) < len {
                    return "no copy".into();
                }
                let bytes = self.model[from as usize..(from + len) as usize].to_vec();
                let (at, mut left) = (to, len as usize);
                while left > 0 {
                    let file = &self.file;
                    left -= rustix::fs::copy_file_range(file, Some(&mut from), file, Some(&mut to), left)
                        .unwrap();
                }
                self.put(at, &bytes);
                format!("copy to {at} {len}")
            }
            11 => {
                match self.draw.bool() {
                    true => self.file.sync_all().unwrap(),
                    false => self.file.sync_data().unwrap(),
                }
                "sync".into()
            }
            12 => {
                self.file = open(&self.path, 0);
                self.direct = open(&self.path, libc::O_DIRECT);
                "open again".into()
            }
            13..=14 if !is_empty => {
                let (at, len) = self.range(true);
                let Some(mapper) = &mut self.mapper else {
                    return "no map".into();
                };
                mapper.ask(&format!("w {at} {len} {byte}"));
                self.put(at, &vec![byte; len as usize]);
                format!("write through a map {at} {len}")
            }
            15 if !is_empty => {
                let (at, len) = self.range(true);
                let Some(mapper) = &mut self.mapper else {
                    return "no map".into();
                };
                let seen = mapper.ask(&format!("r {at} {len}"));
                let expected: String = self.model[at as usize..(at + len) as usize]
                    .iter()
                    .map(|byte| format!("{byte:02x}"))
                    .collect();
                assert!(seen == expected, "read through a map {at} {len}");
                format!("read through a map {at} {len}")
            }
            _ => "nothing".into(),
        }
    }

    fn check(&self) {
        let bytes = fs::read(&self.path).unwrap();
        assert_eq!(bytes.len(), self.model.len());
        let differs = bytes.iter().zip(&self.model).position(|(a, b)| a != b);
        assert_eq!(differs, None);
    }
}

fn history(folder: &Path, seed: u64) -> bool {
    // The least memory: pages come and go all the time.
    let Some(mut mounted) = TestMount::start(folder, &["--memory", "2M"]) else {
        return false;
    };
    let path = mounted.at().join("file");
    let file = open(&path, 0);
    let mut world = World {
        mapper: Mapper::start(&path),
        direct: open(&path, libc::O_DIRECT),
        path,
        file,
        model: Vec::new(),
        draw: fastrand::Rng::with_seed(seed),
    };
    if world.mapper.is_none() {
        skip("maps of the file need python3");
    }
    let mut done = Vec::new();
    for n in 0..OPERATIONS {
        let step = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| world.step()));
        match step {
            Ok(step) => done.push(step),
            Err(panic) => {
                eprintln!(
                    "MILLPOND_SEED={seed}, operation {n}; before it: {:?}",
                    &done[done.len().saturating_sub(12)..]
                );
                std::panic::resume_unwind(panic);
            }
        }
        if n % 50 == 0 {
            world.check();
        }
    }
    world.check();
    let model = std::mem::take(&mut world.model);
    drop(world);
    let (said, code) = mounted.end(Signal::TERM);
    assert_eq!(code, Some(0), "{said}");
    assert!(
        fs::read(mounted.source().join("file")).unwrap() == model,
        "seed {seed}"
    );
    true
}

#[test]
fn a_long_history_at_the_mount_leaves_the_file_as_it_should_be() {
    let number = |name: &str| {
        std::env::var(name)
            .ok()
            .map(|value| value.parse::<u64>().unwrap())
    };
    let seeds = match number("MILLPOND_SEED") {
        Some(seed) => seed..seed + 1,
        None => {
            let first = number("MILLPOND_FIRST_SEED").unwrap_or(0);
            first..first + number("MILLPOND_FSX").unwrap_or(HISTORIES)
        }
    };
    for folder in folders() {
        for seed in seeds.clone() {
            if !history(&folder, seed) {
                return;
            }
        }
    }
}
