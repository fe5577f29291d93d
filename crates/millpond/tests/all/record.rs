//! What a recording contains of a cache's calls, and what it leaves out.

#![allow(
    clippy::unwrap_used,
    clippy::print_stdout,
    reason = "a test fails by panicking, and says why it was skipped"
)]

use millpond::trace::{Access, Ended, Trace, TraceError, What};
use millpond::{Error, File, OpenOptions, PageCache};
use proptest::prelude::*;
use std::fs;
use std::path::PathBuf;
use tempfile::TempDir;

struct Pond {
    folder: TempDir,
    cache: PageCache,
}

const PAGE: u64 = 4096;

impl Pond {
    fn new() -> Pond {
        let folder = tempfile::tempdir().unwrap();
        let builder = PageCache::builder().memory(4 << 20);
        let cache = builder.control_at(folder.path().join("sock")).build().unwrap();
        Pond { folder, cache }
    }

    fn file(&self, name: &str, pages: u64) -> File {
        let file = self.cache.open(self.path(name), OpenOptions::new().create(true));
        let file = file.unwrap();
        file.set_len(pages * PAGE).unwrap();
        file
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// The accesses that `calls` leave in a trace.
    fn recorded(&self, calls: impl FnOnce()) -> Trace {
        let path = self.path("trace");
        let _ = fs::remove_file(&path);
        let recording = self.cache.record(&path).unwrap();
        calls();
        let recorded = recording.stop().unwrap();
        let trace = Trace::read(&path).unwrap();
        assert_eq!(trace.torn, None);
        assert_eq!(trace.accesses.len() as u64, recorded.accesses);
        assert_eq!(recorded.bytes, fs::metadata(&path).unwrap().len());
        assert_eq!((trace.lost, recorded.ended), (0, Ended::Asked));
        trace
    }
}

/// File, first page, pages, what.
fn all(trace: &Trace) -> Vec<(u32, u64, u32, What)> {
    let short = |a: &Access| (a.file, a.page, a.pages, a.what);
    trace.accesses.iter().map(short).collect()
}

const WHOLE: What = What::Write {
    keeps_first: false,
    keeps_last: false,
};

/// Refused, and recorded all the same, with a page that no trace can have: the rest of the trace could not be read.
#[test]
fn a_write_beyond_what_a_file_can_have_spoils_no_trace_and_a_trace_is_for_its_owner_alone() {
    use std::os::unix::fs::PermissionsExt;
    let pond = Pond::new();
    let file = pond.file("a", 2);
    let trace = pond.recorded(|| {
        assert!(file.write_at(&[1], (1 << 52) + 5).is_err());
        assert!(file.write_at(&[1], u64::MAX).is_err());
        assert_eq!(file.read_at(&mut [0; 4], u64::MAX - 2).unwrap(), 0);
        file.write_at(&[1; PAGE as usize], 0).unwrap();
    });
    assert_eq!(all(&trace), [(all(&trace)[0].0, 0, 1, WHOLE)]);
    let mode = fs::metadata(pond.path("trace")).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
}

#[test]
fn every_call_is_recorded_hits_and_misses_alike() {
    let pond = Pond::new();
    let file = pond.file("a", 100);
    let trace = pond.recorded(|| {
        let mut buffer = vec![0; 3 * PAGE as usize];
        file.read_at(&mut buffer, 10 * PAGE + 1).unwrap();
        file.read_at(&mut buffer[..1], 10 * PAGE).unwrap();
        drop(file.page(10).unwrap());
        drop(file.page_mut(11).unwrap());
        file.write_at(&buffer, 20 * PAGE).unwrap();
        file.write_at(&buffer[..PAGE as usize], 30 * PAGE + 5).unwrap();
        file.write_at(&[1], 40 * PAGE).unwrap();
        file.sync_data().unwrap();
        file.prefetch(50 * PAGE, 8 * PAGE).unwrap();
        file.set_len(60 * PAGE + 1).unwrap();
        file.read_at(&mut buffer, 70 * PAGE).unwrap();
    });
    let keeps = |keeps_first, keeps_last| What::Write {
        keeps_first,
        keeps_last,
    };
    let expected = [
        (0, 10, 4, What::Read),
        (0, 10, 1, What::Read),
        (0, 10, 1, What::Read),
        (0, 11, 1, keeps(true, false)),
        (0, 20, 3, WHOLE),
        (0, 30, 2, keeps(true, true)),
        (0, 40, 1, keeps(true, false)),
        (0, 0, 0, What::Sync),
        (0, 50, 8, What::Prefetch),
        // Nothing of the last read was there.
        (0, 61, 0, What::Cut),
    ];
    assert_eq!(all(&trace), expected);
    assert_eq!(trace.files[0].path, pond.path("a"));
    assert_eq!(trace.files[0].pages, 100);
    assert_eq!(trace.distinct(), 4 + 3 + 2 + 1);
    assert!(trace.accesses.is_sorted_by_key(|access| access.at));
}

#[test]
fn a_file_keeps_its_number_when_it_is_opened_again_and_another_gets_another() {
    let pond = Pond::new();
    drop(pond.file("b", 2));
    let trace = pond.recorded(|| {
        // All three have the same number in the cache, one after the other.
        for name in ["a", "b", "a"] {
            let file = pond.file(name, 2);
            drop(file.page(1).unwrap());
        }
    });
    let read = |file| (file, 1, 1, What::Read);
    let close = |file| (file, 0, 0, What::Close);
    assert_eq!(
        all(&trace),
        [read(0), close(0), read(1), close(1), read(0), close(0)]
    );
    let names: Vec<_> = trace.files.iter().map(|file| file.path.clone()).collect();
    assert_eq!(names, [pond.path("a"), pond.path("b")]);
}

#[test]
fn threads_are_told_apart_and_none_of_their_calls_is_lost_on_the_way() {
    let pond = Pond::new();
    let file = pond.file("a", 64);
    let trace = pond.recorded(|| {
        std::thread::scope(|scope| {
            for thread in 0..4 {
                let file = &file;
                scope.spawn(move || {
                    for n in 0..5000 {
                        drop(file.page(thread * 16 + n % 16).unwrap());
                    }
                });
            }
        });
    });
    assert_eq!(trace.accesses.len(), 20_000);
    let mut threads: Vec<_> = trace.accesses.iter().map(|a| (a.thread, a.page / 16)).collect();
    threads.sort_unstable();
    threads.dedup();
    assert_eq!(threads.len(), 4, "{threads:?}");
}

#[test]
fn calls_before_and_after_a_recording_are_not_in_it() {
    let pond = Pond::new();
    let file = pond.file("a", 4);
    drop(file.page(0).unwrap());
    let first = pond.recorded(|| drop(file.page(1).unwrap()));
    drop(file.page(2).unwrap());
    let second = pond.recorded(|| drop(file.page(3).unwrap()));
    assert_eq!(all(&first), [(0, 1, 1, What::Read)]);
    assert_eq!(all(&second), [(0, 3, 1, What::Read)]);
}

#[test]
fn it_ends_when_the_trace_has_its_size_and_says_so() {
    let pond = Pond::new();
    let file = pond.file("a", 64);
    let mut client = millpond::control::Client::connect(pond.cache.control_path().unwrap()).unwrap();
    let path = pond.path("a name  with blanks");
    let line = format!("record start 65536 {}", path.display());
    assert!(!client.ask(&line).unwrap().contains("error"));
    let state = |client: &mut millpond::control::Client, line: &str| -> serde_json::Value {
        serde_json::from_str(&client.ask(line).unwrap()).unwrap()
    };
    while state(&mut client, "record state")["ended"].is_null() {
        (0..64).for_each(|page| drop(file.page(page).unwrap()));
    }
    let ended = state(&mut client, "record stop");
    assert_eq!(ended["ended"], "size", "{ended}");
    let len = fs::metadata(&path).unwrap().len();
    // There is room for the end, 1 KiB, and the buffer that had no room was of 1024 accesses: of more bytes where calls
    // took longer, but of less than 16 each.
    assert!((65_536 - 1024 - 16 * 1024..=65_536).contains(&len), "{len} bytes");
    let trace = Trace::read(&path).unwrap();
    assert_eq!(trace.torn, None);
    assert_eq!(trace.end.unwrap()["why"], "size");
    assert_eq!(trace.accesses.len() as u64, ended["accesses"].as_u64().unwrap());
}

#[test]
fn an_existing_file_is_not_overwritten_and_only_one_recording_runs_at_a_time() {
    let pond = Pond::new();
    let path = pond.path("trace");
    fs::write(&path, "mine").unwrap();
    let there = pond.cache.record(&path).unwrap_err();
    assert!(matches!(&there, Error::Trace { .. }), "{there}");
    assert!(there.to_string().contains("File exists"), "{there}");
    assert_eq!(fs::read(&path).unwrap(), b"mine");
    let recording = pond.cache.record(pond.path("one")).unwrap();
    let second = pond.cache.record(pond.path("two")).unwrap_err().to_string();
    assert!(second.contains("one is under way: end it first"), "{second}");
    assert!(!pond.path("two").exists());
    recording.stop().unwrap();
    drop(pond.cache.record(pond.path("two")).unwrap());
}

#[test]
fn a_trace_that_was_cut_off_is_read_up_to_there() {
    let pond = Pond::new();
    let file = pond.file("a", 64);
    let trace = pond.recorded(|| {
        for n in 0..20_000 {
            drop(file.page(n % 64).unwrap());
        }
    });
    let bytes = fs::read(pond.path("trace")).unwrap();
    let mut whole = 0;
    for cut in (0..bytes.len()).step_by(997) {
        match Trace::parse(&bytes[..cut]) {
            Ok(part) => {
                assert!(part.torn.is_some(), "cut at {cut}");
                assert!(part.accesses.len() >= whole, "more bytes, fewer accesses");
                whole = part.accesses.len();
            }
            Err(TraceError::NotATrace | TraceError::NoBeginning) => assert_eq!(whole, 0),
            Err(other) => panic!("{other}"),
        }
    }
    assert!((10_000..=20_000).contains(&whole), "{whole}");
    assert_eq!(trace.accesses.len(), 20_000);
}

/// On a file system of 64 KiB in memory, for which the test needs root.
#[test]
fn a_full_disk_ends_it_and_what_was_written_can_be_read() {
    use rustix::mount::{MountFlags, UnmountFlags, mount, unmount};
    let pond = Pond::new();
    let disk = pond.path("disk");
    fs::create_dir(&disk).unwrap();
    let options = std::ffi::CString::new("size=64k").unwrap();
    if let Err(error) = mount("none", &disk, "tmpfs", MountFlags::empty(), &*options) {
        return println!("skipped: can't mount a small file system: {error}");
    }
    let path = disk.join("trace");
    let file = pond.file("a", 64);
    let recording = pond.cache.record(&path).unwrap();
    for n in 0..50_000 {
        drop(file.page(n % 64).unwrap());
    }
    let stopped = recording.stop();
    let trace = Trace::read(&path);
    unmount(&disk, UnmountFlags::DETACH).unwrap();
    let error = stopped.unwrap_err();
    assert!(matches!(error, Error::Trace { .. }), "{error}");
    assert!(error.to_string().contains("No space left"), "{error}");
    let trace = trace.unwrap();
    assert!(trace.accesses.len() > 5_000, "{}", trace.accesses.len());
    let why = trace.end.map_or("no end".into(), |end| end["why"].to_string());
    assert!(trace.torn.is_some() || why.contains("No space left"), "{why}");
    // The cache is as it was.
    drop(file.page(1).unwrap());
}

#[test]
fn the_end_of_the_cache_ends_the_recording() {
    let pond = Pond::new();
    let path = pond.path("trace");
    let socket = pond.cache.control_path().unwrap().to_owned();
    let mut client = millpond::control::Client::connect(&socket).unwrap();
    client
        .ask(&format!("record start 1000000 {}", path.display()))
        .unwrap();
    drop(pond.file("a", 1).page(0).unwrap());
    let Pond { folder, cache } = pond;
    drop(cache);
    let trace = Trace::read(&path).unwrap();
    assert_eq!((trace.torn, trace.accesses.len()), (None, 2));
    drop(folder);
}

#[test]
fn a_trace_of_another_version_says_so() {
    let pond = Pond::new();
    pond.recorded(|| ());
    let mut bytes = fs::read(pond.path("trace")).unwrap();
    bytes[7] = 2;
    assert!(matches!(Trace::parse(&bytes), Err(TraceError::Version(2))));
    assert!(matches!(Trace::parse(b"hello"), Err(TraceError::NotATrace)));
}

proptest! {
    #[test]
    fn any_bytes_are_a_trace_or_an_error(bytes: Vec<u8>, at in 0..4000_usize, with in any::<[u8; 3]>()) {
        let _ = Trace::parse(&bytes);
        let _ = Trace::parse(&[b"MPTRACE\x01".as_slice(), &bytes].concat());
        thread_local! {
            static WHOLE: Vec<u8> = {
                let pond = Pond::new();
                let file = pond.file("a", 8);
                pond.recorded(|| (0..300).for_each(|n| drop(file.page(n % 8).unwrap())));
                fs::read(pond.path("trace")).unwrap()
            };
        }
        let mut damaged = WHOLE.with(Clone::clone);
        let at = at % damaged.len();
        for (byte, with) in damaged[at..].iter_mut().zip(with) {
            *byte ^= with;
        }
        match Trace::parse(&damaged) {
            Ok(trace) => prop_assert!(trace.torn.is_some() || damaged == WHOLE.with(Clone::clone)),
            Err(_) => prop_assert!(damaged != WHOLE.with(Clone::clone)),
        }
    }
}
