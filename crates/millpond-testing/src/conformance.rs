//! Tests a [`Device`] of your own against what every device promises.
//!
//! ```
//! use millpond::device::Threads;
//! use millpond_testing::conformance;
//! conformance::check(|| Threads::new("an example"));
//! ```
//!
//! | promise | in short |
//! |---|---|
//! | bytes | reads return what was written, at odd offsets and lengths, with memory in pieces, for direct, buffered and in-memory files |
//! | length | a write extends the file, every later transfer sees [`Device::set_len`], a read ends with the file |
//! | completions | each request completes once, with its token, whichever thread submitted it |
//! | waiting | [`Device::wake`] ends the current or the next [`Device::wait`]; so does a timeout |
//! | errors | they carry their errno, and only the failed transfer has one |
//! | the end | a device may be dropped while busy; memory and files outlive that |

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    reason = "a promise that is broken is a panic: the caller is a test"
)]

use millpond::device::{Access, Buffer, Completion, Device, DeviceFile, Memory, Op, Request, Segments};
use millpond::internal::without_direct;
use rustix::io::Errno;
use std::io;
use std::path::Path;
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

/// So long that only a lost wake-up takes it.
const FOREVER: Duration = Duration::from_secs(60);
const PAGE: usize = 4096;

/// Tests every promise of a device, each on a new device from `device`, with files in the temporary folder. Takes less
/// than a second if the device adds no time of its own.
///
/// # Panics
/// If a promise is broken. The first message, on a thread named after the promise, says what was expected. The last one
/// names the device and the promise. A lost wake-up, or a request that never completes, is reported after a minute.
pub fn check<D: Device + 'static>(device: impl Fn() -> D) {
    for promise in PROMISES {
        let bench = Bench::new(Arc::new(device()));
        let name = bench.device.name().to_owned();
        let trial = thread::Builder::new().name(promise.name.into());
        let trial = trial.spawn(move || (promise.holds)(&bench)).unwrap();
        assert!(trial.join().is_ok(), "{name} breaks a promise: {}", promise.name);
    }
}

struct Promise {
    name: &'static str,
    /// Panics if the promise is broken.
    holds: fn(&Bench),
}

macro_rules! promises {
    ($($name:ident)*) => {
        &[$(Promise { name: stringify!($name), holds: $name }),*]
    };
}

const PROMISES: &[Promise] = promises![
    reads_what_was_written
    odd_ends_and_offsets_are_whole
    length_is_set_for_every_transfer_after_it
    read_ends_with_the_file
    frames_anywhere_in_memory_meet_the_file_in_order
    many_at_a_time_are_each_completed_once
    threads_submit_and_end_while_one_reaps
    wake_ends_the_present_or_the_next_wait
    wait_ends_when_its_time_is_over
    errors_carry_their_errno
    an_empty_transfer_does_nothing
    file_without_direct_io_works_like_any
    file_in_memory_works_like_any
    device_may_be_dropped_at_work
];

struct Bench {
    device: Arc<dyn Device>,
    folder: tempfile::TempDir,
}

impl Bench {
    fn new(device: Arc<dyn Device>) -> Bench {
        Bench {
            device,
            folder: tempfile::tempdir().unwrap(),
        }
    }

    fn file(&self) -> Arc<DeviceFile> {
        Arc::new(DeviceFile::open(&self.folder.path().join("file"), Access::Create).unwrap())
    }

    /// Submits the requests and waits for all of them. Returns the completions in token order.
    fn finish(&self, mut requests: Vec<Request>) -> Vec<Completion> {
        let count = requests.len();
        self.device.submit(&mut requests).unwrap();
        assert!(requests.is_empty());
        let mut done = self.reap(count);
        done.sort_by_key(|done| done.token);
        done
    }

    fn reap(&self, count: usize) -> Vec<Completion> {
        let (mut done, deadline) = (Vec::new(), Instant::now() + FOREVER);
        while done.len() < count {
            self.device.wait(&mut done, Some(FOREVER)).unwrap();
            assert!(
                Instant::now() < deadline,
                "{} of {count} completed by {:?}",
                done.len(),
                self.device
            );
        }
        assert_eq!(done.len(), count, "more completions than requests");
        done
    }

    /// Both ways of making one request.
    fn both(&self, request: impl Fn() -> Request) -> [io::Result<usize>; 2] {
        let here = self.device.transfer(&request());
        let submitted = self.finish(vec![request()]).remove(0);
        assert_eq!(submitted.token, request().token);
        [here, submitted.result]
    }
}

fn buffer_of(bytes: &[u8]) -> Arc<Buffer> {
    let mut buffer = Buffer::new(bytes.len());
    Buffer::bytes(&mut buffer).unwrap().copy_from_slice(bytes);
    buffer
}

fn noise(len: usize, seed: u64) -> Vec<u8> {
    (0..len as u64)
        .map(|n| ((n + seed * 7919).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 56) as u8)
        .collect()
}

fn request(token: u64, op: Op, file: &Arc<DeviceFile>, offset: u64, segments: Segments) -> Request {
    Request {
        token,
        op,
        reason: None,
        file: file.clone(),
        offset,
        segments,
    }
}

fn whole(buffer: &Arc<Buffer>) -> Segments {
    let len = Memory::range(&**buffer).len();
    Segments::of(buffer.clone(), 0, len)
}

fn content(buffer: &mut Arc<Buffer>) -> &mut [u8] {
    Buffer::bytes(buffer).expect("the device has let go of the memory")
}

fn reads_what_was_written(bench: &Bench) {
    let file = bench.file();
    for (n, len) in [PAGE, 64 * PAGE, 1 << 20].into_iter().enumerate() {
        let written = noise(len, n as u64);
        let source = buffer_of(&written);
        for result in bench.both(|| request(1, Op::Write, &file, 0, whole(&source))) {
            assert_eq!(result.unwrap(), len);
        }
        bench.device.sync(&file).unwrap();
        let mut target = Buffer::new(len);
        assert_eq!(
            bench
                .device
                .transfer(&request(2, Op::Read, &file, 0, whole(&target)))
                .unwrap(),
            len
        );
        assert!(content(&mut target) == written);
        content(&mut target).fill(0);
        assert_eq!(
            bench.finish(vec![request(3, Op::Read, &file, 0, whole(&target))])[0]
                .result
                .as_ref()
                .unwrap(),
            &len
        );
        assert!(content(&mut target) == written);
    }
}

fn odd_ends_and_offsets_are_whole(bench: &Bench) {
    let file = bench.file();
    for (offset, len) in [
        (0, 100),
        (0, 2 * PAGE + 100),
        (PAGE, 3 * PAGE + 1),
        (513, 5000),
        (7, 1),
    ] {
        file.set_len(0).unwrap();
        let written = noise(len, offset as u64);
        let source = buffer_of(&written);
        for result in bench.both(|| request(1, Op::Write, &file, offset as u64, whole(&source))) {
            assert_eq!(result.unwrap(), len, "{len} bytes at {offset}");
        }
        assert_eq!(file.len().unwrap(), (offset + len) as u64);
        let mut target = Buffer::new(len);
        for result in bench.both(|| request(1, Op::Read, &file, offset as u64, whole(&target))) {
            assert_eq!(result.unwrap(), len);
        }
        assert!(content(&mut target) == written, "{len} bytes at {offset}");
        // The odd end is written again as whole blocks, past what the page cache holds of it.
        let again = buffer_of(&noise(4 * PAGE, 99));
        bench
            .device
            .transfer(&request(1, Op::Write, &file, 0, whole(&again)))
            .unwrap();
        let mut all = Buffer::new(4 * PAGE);
        bench
            .device
            .transfer(&request(1, Op::Read, &file, 0, whole(&all)))
            .unwrap();
        assert!(content(&mut all) == noise(4 * PAGE, 99));
    }
}

fn length_is_set_for_every_transfer_after_it(bench: &Bench) {
    let file = bench.file();
    let source = buffer_of(&noise(2 * PAGE, 8));
    bench.finish(vec![request(1, Op::Write, &file, 0, whole(&source))]);
    for len in [2 * PAGE - 5, 3 * PAGE + 1] {
        bench.device.set_len(&file, len as u64).unwrap();
        assert_eq!(file.len().unwrap(), len as u64);
        let mut target = Buffer::new(4 * PAGE);
        for result in bench.both(|| request(1, Op::Read, &file, 0, whole(&target))) {
            assert_eq!(result.unwrap(), len);
        }
        // What was cut off is gone, also when the file is longer again.
        let kept = 2 * PAGE - 5;
        assert!(content(&mut target)[..kept] == noise(2 * PAGE, 8)[..kept]);
        assert!(content(&mut target)[kept..].iter().all(|&byte| byte == 0));
    }
}

fn read_ends_with_the_file(bench: &Bench) {
    let file = bench.file();
    for len in [0, 1, PAGE, PAGE + 1, 3 * PAGE - 1] {
        file.set_len(0).unwrap();
        file.set_len(len as u64).unwrap();
        let target = Buffer::new(4 * PAGE);
        for result in bench.both(|| request(1, Op::Read, &file, 0, whole(&target))) {
            assert_eq!(result.unwrap(), len);
        }
        for result in bench.both(|| request(1, Op::Read, &file, 1 << 40, whole(&target))) {
            assert_eq!(result.unwrap(), 0, "beyond the end");
        }
    }
}

fn frames_anywhere_in_memory_meet_the_file_in_order(bench: &Bench) {
    let file = bench.file();
    // 600 frames in a shuffled order: more than any ring has slots, and with neighbors here and there.
    let frames: Vec<usize> = (0..600).map(|n| n * 7 % 600).collect();
    let written = noise(600 * PAGE, 3);
    let mut source = Segments::new(buffer_of(&written));
    frames.iter().for_each(|frame| source.push(frame * PAGE, PAGE));
    for result in bench.both(|| request(1, Op::Write, &file, 0, source.clone())) {
        assert_eq!(result.unwrap(), 600 * PAGE);
    }
    let mut plain = Buffer::new(600 * PAGE);
    bench.finish(vec![request(1, Op::Read, &file, 0, whole(&plain))]);
    for (n, frame) in frames.iter().enumerate() {
        assert!(
            content(&mut plain)[n * PAGE..][..PAGE] == written[frame * PAGE..][..PAGE],
            "page {n}"
        );
    }
    let mut target = Buffer::new(600 * PAGE);
    let mut scattered = Segments::new(target.clone());
    frames.iter().for_each(|frame| scattered.push(frame * PAGE, PAGE));
    bench.finish(vec![request(1, Op::Read, &file, 0, scattered)]);
    assert!(content(&mut target) == written);
}

fn many_at_a_time_are_each_completed_once(bench: &Bench) {
    let file = bench.file();
    let count = 1000;
    let buffers: Vec<_> = (0..count).map(|n| buffer_of(&noise(PAGE, n))).collect();
    let all = |op, buffers: &[Arc<Buffer>]| -> Vec<Request> {
        let each = (0_u64..).zip(buffers);
        each.map(|(n, buffer)| request(n, op, &file, n * PAGE as u64, whole(buffer)))
            .collect()
    };
    let check = |done: Vec<Completion>| {
        let tokens: Vec<_> = done.iter().map(|done| done.token).collect();
        assert!(tokens == (0..count).collect::<Vec<_>>());
        assert!(
            done.iter()
                .all(|done| done.result.as_ref().is_ok_and(|&bytes| bytes == PAGE))
        );
    };
    check(bench.finish(all(Op::Write, &buffers)));
    let mut targets: Vec<_> = (0..count).map(|_| Buffer::new(PAGE)).collect();
    check(bench.finish(all(Op::Read, &targets)));
    for (n, target) in targets.iter_mut().enumerate() {
        assert!(content(target) == noise(PAGE, n as u64), "page {n}");
    }
}

fn threads_submit_and_end_while_one_reaps(bench: &Bench) {
    let file = bench.file();
    file.set_len(256 * PAGE as u64).unwrap();
    std::thread::scope(|scope| {
        for thread in 0..8 {
            let (device, file) = (&bench.device, &file);
            scope.spawn(move || {
                for n in 0..32 {
                    let page = thread * 32 + n;
                    let read = request(
                        page,
                        Op::Read,
                        file,
                        page * PAGE as u64,
                        whole(&Buffer::new(PAGE)),
                    );
                    device.submit(&mut vec![read]).unwrap();
                }
            });
        }
        let mut done = bench.reap(256);
        done.sort_by_key(|done| done.token);
        assert!(done.iter().map(|done| done.token).eq(0..256));
        assert!(
            done.iter()
                .all(|done| done.result.as_ref().is_ok_and(|&bytes| bytes == PAGE))
        );
    });
}

fn wake_ends_the_present_or_the_next_wait(bench: &Bench) {
    let started = Instant::now();
    bench.device.wake();
    bench.device.wait(&mut Vec::new(), Some(FOREVER)).unwrap();
    for _ in 0..50 {
        std::thread::scope(|scope| {
            let reaper = scope.spawn(|| bench.device.wait(&mut Vec::new(), Some(FOREVER)));
            bench.device.wake();
            reaper.join().unwrap().unwrap();
        });
    }
    assert!(started.elapsed() < FOREVER, "a wake-up was lost");
}

fn wait_ends_when_its_time_is_over(bench: &Bench) {
    let mut done = Vec::new();
    bench.device.wait(&mut done, Some(Duration::ZERO)).unwrap();
    bench
        .device
        .wait(&mut done, Some(Duration::from_millis(1)))
        .unwrap();
    assert!(done.is_empty());
}

fn errors_carry_their_errno(bench: &Bench) {
    drop(bench.file());
    let path = bench.folder.path().join("file");
    let buffer = Buffer::new(PAGE);
    let read_only = Arc::new(DeviceFile::open(&path, Access::Read).unwrap());
    for result in bench.both(|| request(9, Op::Write, &read_only, 0, whole(&buffer))) {
        assert_eq!(
            Errno::from_io_error(&result.unwrap_err()),
            Some(Errno::BADF),
            "not open for writing"
        );
    }
    let file = bench.file();
    for result in bench.both(|| request(9, Op::Write, &file, (i64::MAX as u64) - 4095, whole(&buffer))) {
        let errno = Errno::from_io_error(&result.unwrap_err());
        assert!(
            matches!(errno, Some(Errno::INVAL | Errno::FBIG | Errno::OVERFLOW)),
            "{errno:?}"
        );
    }
    if Path::new("/dev/full").exists() {
        let refused = DeviceFile::open(Path::new("/dev/full"), Access::ReadWrite);
        assert_eq!(refused.unwrap_err().kind(), io::ErrorKind::InvalidInput);
    }
    let mut bad = vec![request(0, Op::Write, &read_only, 0, whole(&buffer))];
    bad.extend((1..4).map(|n| request(n, Op::Write, &file, 0, whole(&buffer))));
    let done = bench.finish(bad);
    assert!(
        done[0].result.is_err() && done[1..].iter().all(|done| done.result.is_ok()),
        "{done:?}"
    );
}

fn an_empty_transfer_does_nothing(bench: &Bench) {
    let file = bench.file();
    let buffer = Buffer::new(PAGE);
    for op in [Op::Read, Op::Write] {
        for result in bench.both(|| request(1, op, &file, 0, Segments::new(buffer.clone()))) {
            assert_eq!(result.unwrap(), 0);
        }
    }
    bench.device.submit(&mut Vec::new()).unwrap();
}

fn file_without_direct_io_works_like_any(bench: &Bench) {
    let path = bench.folder.path().join("file");
    for by_flag in [true, false] {
        let file = Arc::new(without_direct(
            DeviceFile::open(&path, Access::Create).unwrap(),
            by_flag,
        ));
        file.set_len(0).unwrap();
        let written = noise(300 * PAGE + 77, 5);
        let source = buffer_of(&written);
        for result in bench.both(|| request(1, Op::Write, &file, 5, whole(&source))) {
            assert_eq!(result.unwrap(), written.len(), "{file:?}");
        }
        bench.device.sync(&file).unwrap();
        let mut target = Buffer::new(written.len());
        for result in bench.both(|| request(1, Op::Read, &file, 5, whole(&target))) {
            assert_eq!(result.unwrap(), written.len(), "{file:?}");
        }
        assert!(content(&mut target) == written);
    }
}

fn file_in_memory_works_like_any(bench: &Bench) {
    let file = Arc::new(DeviceFile::memory("pond", 0).unwrap());
    let written = noise(10 * PAGE + 5, 1);
    let source = buffer_of(&written);
    bench.finish(vec![request(1, Op::Write, &file, 0, whole(&source))]);
    bench.device.sync(&file).unwrap();
    let mut target = Buffer::new(written.len());
    assert_eq!(
        bench
            .device
            .transfer(&request(1, Op::Read, &file, 0, whole(&target)))
            .unwrap(),
        written.len()
    );
    assert!(content(&mut target) == written);
}

/// Drops the device while it is busy: memory and files must outlive its work.
fn device_may_be_dropped_at_work(bench: &Bench) {
    let file = bench.file();
    file.set_len(64 << 20).unwrap();
    let reads = (0..300).map(|n| request(n, Op::Read, &file, n * 65536, whole(&Buffer::new(65536))));
    bench.device.submit(&mut reads.collect()).unwrap();
    bench.device.wait(&mut Vec::new(), Some(FOREVER)).unwrap();
}
