//! Times from the model, bytes from the device below.

use super::*;
use millpond::device::{Access, Buffer, Segments, Threads};
use millpond_sim::disk::HddParameters;
use rustix::io::Errno;

fn disk(parameters: HddParameters) -> Modelled {
    Modelled::new(Arc::new(Threads::new("a test")), Model::hdd(parameters).unwrap()).unwrap()
}

fn request(token: u64, op: Op, file: &Arc<DeviceFile>, offset: u64, len: usize) -> Request {
    Request {
        token,
        op,
        reason: None,
        file: file.clone(),
        offset,
        segments: Segments::of(Buffer::new(len), 0, len),
    }
}

#[test]
fn no_answer_is_early_and_both_ways_share_one_queue() {
    let disk = disk(HddParameters::default());
    let file = Arc::new(DeviceFile::memory("file", 1 << 30).unwrap());
    let started = Clock::now();
    let mut writes = (0..4)
        .map(|n| request(n, Op::Write, &file, n << 20, 1 << 20))
        .collect();
    disk.submit(&mut writes).unwrap();
    assert_eq!(
        disk.transfer(&request(9, Op::Read, &file, 512 << 20, 4096))
            .unwrap(),
        4096
    );
    // 1 MiB at 120 MB/s. The read came while the first write was under way.
    let write = Duration::from_nanos((1 << 20) * 1000 / 120);
    assert!(started.elapsed() > write, "{:?}", started.elapsed());
    let mut done = Vec::new();
    while done.len() < 4 {
        disk.wait(&mut done, None).unwrap();
    }
    assert!(
        started.elapsed() > 4 * write,
        "{:?} for four writes",
        started.elapsed()
    );
    let seen = disk.statistics();
    assert_eq!((seen.writes, seen.reads), (4, 1));
    assert!((1..=5).contains(&seen.queue_depth_max), "{seen:?}");
    assert_eq!(disk.lateness().answers, 5);
    assert!(disk.lateness().mean <= disk.lateness().max);
    disk.reset_statistics();
    assert_eq!(
        (disk.lateness(), disk.statistics().writes),
        (Lateness::default(), 0)
    );
}

#[test]
fn sync_waits_for_the_modelled_write_cache() {
    let mib = 1 << 20;
    let disk = disk(HddParameters {
        write_cache: millpond::units::Bytes(64 * mib),
        ..HddParameters::default()
    });
    let file = Arc::new(DeviceFile::memory("file", 64 * mib).unwrap());
    assert!(disk.facts(&file).write_cache);
    let started = Clock::now();
    for n in 0..3 {
        disk.transfer(&request(0, Op::Write, &file, n * 10 * mib, mib as usize))
            .unwrap();
    }
    disk.sync(&file).unwrap();
    assert!(
        started.elapsed() > Duration::from_millis(24),
        "3 MiB take 26 ms: {:?}",
        started.elapsed()
    );
    assert_eq!(disk.statistics().flushes, 1);
}

#[test]
fn error_of_the_inner_device_comes_through() {
    let disk = disk(HddParameters::default());
    let file = Arc::new(DeviceFile::open("/proc/self/exe".as_ref(), Access::Read).unwrap());
    let error = disk.transfer(&request(1, Op::Write, &file, 0, 4096)).unwrap_err();
    assert_eq!(Errno::from_io_error(&error), Some(Errno::BADF));
    assert!(disk.name().starts_with("modelled hdd over thread pool"));
}
