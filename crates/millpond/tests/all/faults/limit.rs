//! `ulimit -f`: the kernel ends a process whose thread goes beyond it; `-v` and `-d`. The limit is of a process, so each
//! test is run once more in one of its own.

use super::{PAGE, is_write_error, open, prepared};
use crate::support::{Kind, bounded, in_a_child};
use millpond::{Error, OpenOptions, PageCache, SwapFile};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use std::path::PathBuf;

const FOLDER: &str = "MILLPOND_LIMITED";

/// Runs the test in a child, where it finds a folder.
fn limited(name: &str, test: fn(PathBuf)) {
    if let Ok(folder) = std::env::var(FOLDER) {
        return bounded(move || test(folder.into()));
    }
    let folder = crate::support::Place::Disk.folder();
    in_a_child(&format!("faults::limit::{name}"), |child| {
        child.env(FOLDER, folder.path());
    });
}

/// It ran nothing when a test had got another name, and succeeded.
#[test]
#[should_panic(expected = "0 passed")]
fn a_child_that_is_asked_for_a_test_that_is_not_there_is_a_failure() {
    in_a_child("faults::limit::a_test_that_was_renamed", |_| {});
}

fn limit(bytes: Option<u64>) {
    let Rlimit { maximum, .. } = getrlimit(Resource::Fsize);
    let current = bytes.or(maximum);
    setrlimit(Resource::Fsize, Rlimit { current, maximum }).unwrap();
}

fn is_too_long<T: std::fmt::Debug>(result: Result<T, Error>) {
    let error = result.unwrap_err();
    let is_so = matches!(error, Error::TooLong { .. }) && error.errno() == libc::EFBIG;
    assert!(is_so && error.to_string().contains("ulimit -f"), "{error}");
}

/// The write was taken, and the process ended when the cache's thread made it.
#[test]
fn a_write_beyond_the_limit_is_refused_before_it_is_taken_and_nothing_else_is_lost() {
    const NAME: &str = "a_write_beyond_the_limit_is_refused_before_it_is_taken_and_nothing_else_is_lost";
    limited(NAME, |folder| {
        for kind in [Kind::Ring, Kind::Pool] {
            let Some(device) = kind.device() else { continue };
            let folder = tempfile::tempdir_in(&folder).unwrap();
            let path = |name: &str| folder.path().join(name);
            prepared(&path("longer"), 300);
            limit(Some(256 * PAGE));
            let cache = PageCache::builder()
                .memory(2 << 20)
                .device(device)
                .build()
                .unwrap();
            let (file, other) = (open(&cache, &path("file")), open(&cache, &path("other")));
            other.write_at(&[1; 10_000], 0).unwrap();
            file.write_at(&[2; 256 * PAGE as usize], 0).unwrap();
            is_too_long(file.append(b"x"));
            is_too_long(file.write_at(&[3; 2], 256 * PAGE - 1));
            is_too_long(file.set_len(256 * PAGE + 1));
            is_too_long(file.page_mut_or_grow(256).map(drop));
            assert_eq!(file.len(), 256 * PAGE);
            // What is there already may not be written either.
            let longer = open(&cache, &path("longer"));
            is_too_long(longer.write_at(b"x", 256 * PAGE));
            is_too_long(longer.page_mut(256).map(drop));
            longer.write_at(&[4; PAGE as usize], 255 * PAGE).unwrap();
            cache.sync_all().unwrap();
            assert!(std::fs::read(path("file")).unwrap() == [2; 256 * PAGE as usize]);
            assert!(std::fs::read(path("other")).unwrap() == [1; 10_000]);
            limit(None);
        }
    });
}

/// It can be lowered at any time; what was taken before can't be written then, and is there when it can.
#[test]
fn a_limit_that_is_lowered_later_is_an_error_of_the_sync_and_ends_no_process() {
    const NAME: &str = "a_limit_that_is_lowered_later_is_an_error_of_the_sync_and_ends_no_process";
    limited(NAME, |folder| {
        for kind in [Kind::Ring, Kind::Pool] {
            let Some(device) = kind.device() else { continue };
            let path = tempfile::tempdir_in(&folder).unwrap().keep().join("file");
            let cache = PageCache::builder()
                .memory(2 << 20)
                .device(device)
                .build()
                .unwrap();
            let file = open(&cache, &path);
            file.write_at(&[1; 10 * PAGE as usize], 0).unwrap();
            limit(Some(5 * PAGE));
            is_write_error(file.sync_data(), libc::EFBIG);
            is_too_long(file.append(b"x"));
            limit(None);
            file.sync_data().unwrap();
            assert!(std::fs::read(&path).unwrap() == [1; 10 * PAGE as usize]);
        }
    });
}

/// Writes to what the file has already were refused until a file was made longer or opened.
#[test]
fn a_limit_that_is_raised_later_is_seen_by_the_next_write() {
    limited(
        "a_limit_that_is_raised_later_is_seen_by_the_next_write",
        |folder| {
            let path = folder.join("file");
            prepared(&path, 20);
            limit(Some(10 * PAGE));
            let cache = PageCache::builder().memory(2 << 20).build().unwrap();
            let file = open(&cache, &path);
            is_too_long(file.write_at(b"x", 15 * PAGE));
            limit(None);
            file.write_at(b"x", 15 * PAGE).unwrap();
            file.page_mut(16).map(drop).unwrap();
            file.sync_data().unwrap();
        },
    );
}

/// The program that opens a file has nothing to do with the reader of standard error.
#[test]
fn a_notice_on_a_closed_terminal_is_no_panic() {
    if std::env::var(FOLDER).is_ok() {
        let (path, why) = (PathBuf::from("file"), String::from("a test"));
        return millpond::host::to_stderr(&millpond::Notice::NoDirect { path, why });
    }
    let (reader, writer) = std::io::pipe().unwrap();
    drop(reader);
    in_a_child(
        "faults::limit::a_notice_on_a_closed_terminal_is_no_panic",
        |child| {
            child.env(FOLDER, "").stderr(writer);
        },
    );
}

#[test]
fn a_swap_file_and_a_recording_beyond_the_limit_are_errors() {
    limited(
        "a_swap_file_and_a_recording_beyond_the_limit_are_errors",
        |folder| {
            // With none at all the first byte ended the process.
            for bytes in [0, PAGE] {
                limit(Some(bytes));
                let cache = PageCache::builder().memory(2 << 20);
                let cache = cache.swap(SwapFile::new(folder.join("swap"), 4 << 20)).build();
                let error = cache.unwrap_err();
                assert!(
                    matches!(error, Error::Swap { .. }) && error.errno() == libc::EFBIG,
                    "{error}"
                );
                assert!(error.to_string().contains("`ulimit -f`"), "{error}");
                assert!(!folder.join("swap").exists());
            }
            let cache = PageCache::builder().memory(2 << 20).build().unwrap();
            limit(Some(10));
            let error = cache.record(folder.join("trace")).map(drop).unwrap_err();
            assert!(
                matches!(error, Error::Trace { .. }) && error.errno() == libc::EFBIG,
                "{error}"
            );
            limit(None);
        },
    );
}

/// What a cache could have and the file system can't was taken, could never be written, and kept every sync failing.
#[test]
fn a_length_that_the_file_system_does_not_have_is_refused_before_anything_is_written() {
    let folder = crate::support::Place::Disk.folder();
    let path = folder.path().join("data");
    let far = (1 << 52) - 4096;
    if std::fs::File::create(&path).unwrap().set_len(far).is_ok() {
        println!("skipped: this file system has files of {far} bytes");
        return;
    }
    let cache = PageCache::builder().memory(2 << 20).build().unwrap();
    let file = open(&cache, &path);
    file.write_at(b"here", 0).unwrap();
    for refused in [
        file.write_at(b"x", far),
        file.set_len(far),
        file.page_mut_or_grow(far / 4096).map(drop),
    ] {
        let error = refused.unwrap_err();
        assert!(
            matches!(error, Error::TooLong { .. }) && error.errno() == libc::EFBIG,
            "{error}"
        );
        assert_eq!(file.len(), 4);
    }
    assert_eq!(cache.stats().occupancy.dirty.0, 1);
    file.append(b", still").unwrap();
    file.sync_data().unwrap();
    // The first byte that no file has, however short the way there is.
    let longest = std::fs::File::create(folder.path().join("probe")).unwrap();
    let (mut has, mut has_not) = (0, far);
    while has_not - has > 1 {
        let len = has.midpoint(has_not);
        match longest.set_len(len) {
            Ok(()) => has = len,
            Err(_) => has_not = len,
        }
    }
    file.set_len(has).unwrap();
    for refused in [file.append(b"x").map(drop), file.write_at(b"xx", has - 1)] {
        assert_eq!(refused.unwrap_err().errno(), libc::EFBIG);
    }
    file.write_at(b"x", has - 1).unwrap();
    file.sync_data().unwrap();
    file.set_len(11).unwrap();
    file.close().unwrap();
    assert_eq!(std::fs::read(&path).unwrap(), b"here, still");
}

/// As batch systems limit them. A cache took the machine's memory in addresses, and was refused with an errno.
#[test]
fn a_process_with_few_addresses_has_a_cache_that_grows_as_far_as_they_go() {
    const CHILD: &str = "MILLPOND_LIMITED_CHILD";
    let name = "a_process_with_few_addresses_has_a_cache_that_grows_as_far_as_they_go";
    let Ok(which) = std::env::var(CHILD) else {
        for which in ["-v", "-d"] {
            for maps in ["maps", "plain"] {
                in_a_child(&format!("faults::limit::{name}"), |child| {
                    child.env(CHILD, format!("{which} {maps}"));
                });
            }
        }
        return;
    };
    let (which, maps) = which.split_once(' ').unwrap();
    let (resource, limit) = match which {
        "-v" => (Resource::As, 1 << 30),
        _ => (Resource::Data, 200 << 20),
    };
    let limits = Rlimit {
        current: Some(limit),
        maximum: Some(limit),
    };
    setrlimit(resource, limits).unwrap();
    let builder = || PageCache::builder().mappings(maps == "maps");
    let cache = match builder().memory(16 << 20).build() {
        Err(why @ Error::Setup { .. }) if why.to_string().contains("userfaultfd") => {
            return crate::support::skip(why);
        }
        built => built.unwrap(),
    };
    let folder = tempfile::tempdir().unwrap();
    let file = cache
        .open(folder.path().join("data"), OpenOptions::new().create(true))
        .unwrap();
    for memory in [64 << 20, 16 << 20, 100 << 20] {
        cache.set_memory(memory).unwrap();
        (0..32).for_each(|n| file.write_at(&[n as u8 + 1; 1 << 20], n << 20).unwrap());
        file.sync_data().unwrap();
        let mut bytes = vec![0; 32 << 20];
        file.read_at(&mut bytes, 0).unwrap();
        assert!(
            bytes
                .chunks(1 << 20)
                .enumerate()
                .all(|(n, chunk)| chunk == [n as u8 + 1; 1 << 20])
        );
    }
    // More than it has addresses for: said so, with the way out.
    let refused = cache.set_memory(8 << 30).unwrap_err().to_string();
    assert!(refused.contains(&format!("`ulimit {which}`")), "{refused}");
    let refused = builder()
        .memory(2 << 30)
        .memory_beyond_limit(true)
        .populate(false)
        .build();
    let refused = refused.map(drop).unwrap_err().to_string();
    assert!(
        refused.contains(&format!("`ulimit {which}`")) && refused.contains("ask for less"),
        "{refused}"
    );
}
