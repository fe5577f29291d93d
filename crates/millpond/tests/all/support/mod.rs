//! What the tests of the engine share: devices to watch and to break, places for files, and a bound on waiting.

#![allow(
    dead_code,
    clippy::unwrap_used,
    clippy::print_stdout,
    reason = "each test uses its part of it; a test fails by panicking and prints why it was skipped"
)]

use millpond::device::{
    Completion, Device, DeviceFacts, DeviceFile, FileIdentity, Op, Request, Threads, Uring,
};
use std::fmt;
use std::io;
use std::ops::Range;
use std::path::PathBuf;
use std::process::Command;
use std::sync::Arc;
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::time::{Duration, Instant};

/// Seconds, longer than anything here takes on a day on which everything is slow, the engine's own patience of 30 s
/// included. Counted one by one, so that a process that was stopped for minutes has lost one of them.
const BOUND: u32 = 120;

/// Runs `test` and fails if it has not ended within [`BOUND`]: a hang is a failure, not a test that never ends.
pub(crate) fn bounded<T: Send + 'static>(test: impl FnOnce() -> T + Send + 'static) -> T {
    let (ended, end) = channel();
    let thread = std::thread::spawn(move || {
        let result = test();
        let _ = ended.send(());
        result
    });
    let is_over = |_| end.recv_timeout(Duration::from_secs(1)) != Err(RecvTimeoutError::Timeout);
    assert!((0..BOUND).any(is_over), "hangs: not over after {BOUND} s");
    // It has panicked if it has sent nothing; joining says with what.
    match thread.join() {
        Ok(result) => result,
        Err(panic) => std::panic::resume_unwind(panic),
    }
}

/// Runs the test of this name, of this program, once more in a process of its own, which `prepare` may change: it must pass
/// there. A program that is asked for a test which it does not have has nothing to do, and says that all is well.
pub(crate) fn in_a_child(test: &str, prepare: impl FnOnce(&mut Command)) {
    let mut command = Command::new(std::env::current_exe().unwrap());
    prepare(command.args(["--exact", test, "--nocapture"]));
    let ran = command.output().unwrap();
    let [said, complaint] = [&ran.stdout, &ran.stderr].map(|bytes| String::from_utf8_lossy(bytes));
    print!("{said}");
    assert!(
        ran.status.success() && said.contains(" 1 passed"),
        "{test}: {}\n{said}\n{complaint}",
        ran.status
    );
}

/// Says that a test can't run here, and why. `.ci/run` counts these lines.
pub(crate) fn skip(why: impl fmt::Display) {
    println!("skipped: {why}");
}

/// A number that is set in the environment.
pub(crate) fn number(name: &str) -> Option<u64> {
    let value = std::env::var(name).ok()?;
    let number = value.parse();
    Some(number.unwrap_or_else(|_| panic!("{name} is {value}: a number is needed")))
}

/// Which histories are played: the one of `MILLPOND_SEED`, or as many as `name` says, or `otherwise`, from
/// `MILLPOND_FIRST_SEED` on, or from 0.
pub(crate) fn seeds(name: &str, otherwise: u64) -> Range<u64> {
    match number("MILLPOND_SEED") {
        Some(seed) => seed..seed + 1,
        None => {
            let first = number("MILLPOND_FIRST_SEED").unwrap_or(0);
            first..first + number(name).unwrap_or(otherwise)
        }
    }
}

/// Yields until `is_so`; what it waits for is caused by other threads, so it ends when they get their turn.
pub(crate) fn until(what: &str, is_so: impl Fn() -> bool) {
    for _ in 0..BOUND {
        let began = Instant::now();
        while began.elapsed() < Duration::from_secs(1) {
            if is_so() {
                return;
            }
            std::thread::yield_now();
        }
    }
    panic!("{what} does not come about");
}

/// Gives others the processor until `is_over` or a while has passed in which a call that need not wait is
/// over.
pub(crate) fn linger(is_over: impl Fn() -> bool) {
    let began = Instant::now();
    while !is_over() && began.elapsed() < Duration::from_millis(50) {
        std::thread::yield_now();
    }
}

/// The devices that a test is run over.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Kind {
    Ring,
    Pool,
}

impl Kind {
    /// The device, or `None` where the system does not allow it: the test says so and is skipped.
    pub(crate) fn device(self) -> Option<Arc<dyn Device>> {
        match self {
            Kind::Pool => Some(Arc::new(Threads::new("a test"))),
            Kind::Ring => match Uring::new() {
                Ok(ring) => Some(Arc::new(ring)),
                Err(refusal) => {
                    skip(refusal);
                    None
                }
            },
        }
    }
}

/// Where files lie.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Place {
    /// In the folder for temporary files: a disk, most often.
    Disk,
    /// In memory, where direct I/O behaves otherwise or is refused.
    Memory,
}

impl Place {
    /// A folder there.
    pub(crate) fn folder(self) -> tempfile::TempDir {
        let memory = PathBuf::from("/dev/shm");
        match self {
            Place::Memory if memory.is_dir() => tempfile::tempdir_in(memory).unwrap(),
            Place::Memory => {
                skip("no /dev/shm: what was to be in memory is on the disk");
                tempfile::tempdir().unwrap()
            }
            Place::Disk => tempfile::tempdir().unwrap(),
        }
    }
}

/// Numbers from a seed (splitmix64).
#[derive(Clone, Debug)]
pub(crate) struct Draw(pub(crate) u64);

impl Draw {
    pub(crate) fn bits(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let z = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    pub(crate) fn below(&mut self, n: u64) -> u64 {
        ((u128::from(self.bits()) * u128::from(n)) >> 64) as u64
    }
}

/// The next call of a [`Hooked`] device.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Call {
    pub(crate) what: What,
    pub(crate) file: Option<FileIdentity>,
    pub(crate) offset: u64,
    pub(crate) bytes: usize,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum What {
    /// A read on the thread that needs it.
    OwnRead,
    /// A read or write that is handed over.
    Submit(Op),
    Wait,
    Sync,
    SetLen,
}

/// A device that tells a hook of every call before it is made. The hook may count, wait or panic.
pub(crate) struct Hooked<F> {
    inner: Arc<dyn Device>,
    hook: F,
}

impl<F: Fn(Call) + Send + Sync> Hooked<F> {
    pub(crate) fn new(inner: Arc<dyn Device>, hook: F) -> Arc<Hooked<F>> {
        Arc::new(Hooked { inner, hook })
    }
}

impl<F> fmt::Debug for Hooked<F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "hooked {:?}", self.inner)
    }
}

fn call(what: What, request: &Request) -> Call {
    Call {
        what,
        file: Some(request.file.identity()),
        offset: request.offset,
        bytes: request.segments.bytes(),
    }
}

impl<F: Fn(Call) + Send + Sync> Device for Hooked<F> {
    fn transfer(&self, request: &Request) -> io::Result<usize> {
        (self.hook)(call(What::OwnRead, request));
        self.inner.transfer(request)
    }

    fn submit(&self, requests: &mut Vec<Request>) -> io::Result<()> {
        for request in requests.iter() {
            (self.hook)(call(What::Submit(request.op), request));
        }
        self.inner.submit(requests)
    }

    fn wait(&self, done: &mut Vec<Completion>, timeout: Option<Duration>) -> io::Result<()> {
        (self.hook)(Call {
            what: What::Wait,
            file: None,
            offset: 0,
            bytes: 0,
        });
        self.inner.wait(done, timeout)
    }

    fn wake(&self) {
        self.inner.wake();
    }

    fn sync(&self, file: &DeviceFile) -> io::Result<()> {
        (self.hook)(Call {
            what: What::Sync,
            file: Some(file.identity()),
            offset: 0,
            bytes: 0,
        });
        self.inner.sync(file)
    }

    fn set_len(&self, file: &DeviceFile, len: u64) -> io::Result<()> {
        (self.hook)(Call {
            what: What::SetLen,
            file: Some(file.identity()),
            offset: len,
            bytes: 0,
        });
        self.inner.set_len(file, len)
    }

    fn facts(&self, file: &DeviceFile) -> DeviceFacts {
        self.inner.facts(file)
    }

    fn name(&self) -> &str {
        "hooked"
    }
}
