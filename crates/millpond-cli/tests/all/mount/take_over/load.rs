//! Programs that use a mount all the time, and know what they have written.

use std::fs::{self, File, OpenOptions};
use std::io::{BufRead, BufReader, Write};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdout, Command, Stdio};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};

pub(super) const BLOCK: usize = 4096;
const BLOCKS: u64 = 256;

pub(super) fn block(number: u64) -> Vec<u8> {
    number.to_le_bytes().repeat(BLOCK / 8)
}

/// Programs that use a mount until they are told to stop, and what they have met.
pub(super) struct Load {
    stops: Arc<AtomicBool>,
    failed: Arc<Mutex<Vec<String>>>,
    /// The longest call, in microseconds.
    pub(super) longest_us: Arc<AtomicU64>,
    pub(super) calls: Arc<AtomicU64>,
    threads: Vec<thread::JoinHandle<()>>,
}

impl Load {
    pub(super) fn new() -> Load {
        Load {
            stops: Arc::default(),
            failed: Arc::default(),
            longest_us: Arc::default(),
            calls: Arc::default(),
            threads: Vec::new(),
        }
    }

    /// Calls `step` all the time.
    fn add(&mut self, mut step: impl FnMut() -> Result<(), String> + Send + 'static) {
        let (stops, failed) = (self.stops.clone(), self.failed.clone());
        let (longest, calls) = (self.longest_us.clone(), self.calls.clone());
        self.threads.push(thread::spawn(move || {
            while !stops.load(Ordering::SeqCst) {
                let began = Instant::now();
                if let Err(why) = step() {
                    failed.lock().unwrap().push(why);
                    return;
                }
                longest.fetch_max(began.elapsed().as_micros() as u64, Ordering::SeqCst);
                calls.fetch_add(1, Ordering::SeqCst);
            }
        }));
    }

    /// A program that changes blocks of a file that it has open, and looks at some; syncs now and then.
    pub(super) fn add_writer(&mut self, path: PathBuf, seed: u64) {
        let mut options = OpenOptions::new();
        let file = options.read(true).write(true).create(true).truncate(true);
        let file = file.open(&path).unwrap();
        let (mut draw, mut next) = (fastrand::Rng::with_seed(seed), 1);
        let mut known = vec![0; BLOCKS as usize];
        self.add(move || {
            let at = draw.u64(0..BLOCKS);
            let failed = |what: &str, error| format!("{what} of {}: {error}", path.display());
            match draw.u32(0..20) {
                0 => file.sync_data().map_err(|error| failed("sync", error)),
                1..8 => {
                    let mut bytes = vec![0; BLOCK];
                    match file.read_at(&mut bytes, at * BLOCK as u64) {
                        Ok(0) if known[at as usize] == 0 => Ok(()),
                        Ok(_) if bytes == block(known[at as usize]) => Ok(()),
                        Ok(len) => Err(format!(
                            "{}: block {at} is another, of {len} bytes",
                            path.display()
                        )),
                        Err(error) => Err(failed("read", error)),
                    }
                }
                _ => {
                    next += 1;
                    known[at as usize] = next;
                    let written = file.write_all_at(&block(next), at * BLOCK as u64);
                    written.map_err(|error| failed("write", error))
                }
            }
        });
    }

    /// A program that opens a file that nobody changes, and reads some of it.
    pub(super) fn add_reader(&mut self, path: PathBuf, seed: u64) {
        let mut draw = fastrand::Rng::with_seed(seed);
        self.add(move || {
            let at = draw.u64(0..BLOCKS);
            let mut bytes = vec![0; BLOCK];
            let file = File::open(&path);
            let read = file.and_then(|file| file.read_exact_at(&mut bytes, at * BLOCK as u64));
            read.map_err(|error| format!("read of {}: {error}", path.display()))?;
            match bytes == block(at) {
                true => Ok(()),
                false => Err(format!("{}: block {at} is another", path.display())),
            }
        });
    }

    /// A program that makes files, writes, renames, links, lists and removes them.
    pub(super) fn add_names(&mut self, folder: PathBuf) {
        fs::create_dir(&folder).unwrap();
        let mut n = 0;
        self.add(move || {
            n += 1;
            let path = |name: &str| folder.join(name);
            let text = format!("text {n}");
            let step = || {
                fs::write(path("new"), &text)?;
                fs::rename(path("new"), path("old"))?;
                fs::hard_link(path("old"), path(&format!("link-{n}")))?;
                let found = fs::read_to_string(path(&format!("link-{n}")))?;
                let count = fs::read_dir(&folder)?.count();
                if n > 3 {
                    fs::remove_file(path(&format!("link-{}", n - 3)))?;
                }
                Ok((found, count))
            };
            let (found, count) = step().map_err(|error: std::io::Error| format!("names: {error}"))?;
            match found == text && count == 1 + n.min(4) {
                true => Ok(()),
                false => Err(format!("names: {count} files, {found} instead of {text}")),
            }
        });
    }

    /// The calls, and the longest.
    pub(super) fn stop(mut self) -> (u64, Duration) {
        self.stops.store(true, Ordering::SeqCst);
        self.threads.drain(..).for_each(|thread| thread.join().unwrap());
        let failed = self.failed.lock().unwrap();
        assert!(failed.is_empty(), "{failed:?}");
        let longest = Duration::from_micros(self.longest_us.load(Ordering::SeqCst));
        (self.calls.load(Ordering::SeqCst), longest)
    }

    pub(super) fn is_well(&self) {
        let failed = self.failed.lock().unwrap();
        assert!(failed.is_empty(), "{failed:?}");
    }
}

pub(super) fn pattern(path: &Path) {
    let bytes: Vec<_> = (0..BLOCKS).flat_map(block).collect();
    fs::write(path, bytes).unwrap();
}

/// `sqlite3` with a database that it keeps open.
pub(super) struct Sqlite {
    program: Child,
    answers: BufReader<ChildStdout>,
}

impl Sqlite {
    pub(super) fn open(path: &Path) -> Option<Sqlite> {
        let mut program = Command::new("sqlite3");
        program.arg("-bail").arg(path);
        program
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::inherit());
        let mut program = program.spawn().ok()?;
        let answers = BufReader::new(program.stdout.take().unwrap());
        Some(Sqlite { program, answers })
    }

    /// One that has a result of one line.
    pub(super) fn ask(&mut self, sql: &str) -> String {
        let stdin = self.program.stdin.as_mut().unwrap();
        writeln!(stdin, "{sql}").unwrap();
        stdin.flush().unwrap();
        let mut line = String::new();
        self.answers.read_line(&mut line).unwrap();
        line.trim_end().to_owned()
    }
}

impl Drop for Sqlite {
    fn drop(&mut self) {
        drop(self.program.stdin.take());
        let _ = self.program.wait();
    }
}
