//! Times of files, as programs compare them.

use super::{TestMount, folders};
use rustix::time::{ClockId, clock_gettime};
use std::fs::{self, File};
use std::io::Write;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

fn start() -> Option<TestMount> {
    TestMount::start(&folders()[0], &["--memory", "16M"])
}

/// Until the clock of file systems has moved, a few milliseconds.
fn next_tick() {
    let now = || {
        let time = clock_gettime(ClockId::RealtimeCoarse);
        (time.tv_sec, time.tv_nsec)
    };
    let before = now();
    while now() == before {
        std::thread::yield_now();
    }
}

#[test]
fn a_file_that_was_written_has_changed_when_it_gets_another_name_or_loses_one() {
    let Some(mounted) = start() else { return };
    let path = |name: &str| mounted.at().join(name);
    let mut file = File::create_new(path("file")).unwrap();
    file.write_all(b"not on the disk yet").unwrap();
    fs::hard_link(path("file"), path("second")).unwrap();
    fs::hard_link(path("file"), path("third")).unwrap();
    fs::write(path("new"), "").unwrap();
    let changed = || {
        let metadata = file.metadata().unwrap();
        (metadata.ctime(), metadata.ctime_nsec())
    };
    let moves = |what: &str, does: &dyn Fn()| {
        let before = changed();
        next_tick();
        does();
        assert!(changed() > before, "{what}: {before:?}");
    };
    moves("rename", &|| fs::rename(path("second"), path("other")).unwrap());
    moves("unlink", &|| fs::remove_file(path("other")).unwrap());
    moves("replaced", &|| fs::rename(path("new"), path("third")).unwrap());
    let folder = File::open(mounted.at()).unwrap();
    moves("exchange", &|| {
        let exchange = rustix::fs::RenameFlags::EXCHANGE;
        rustix::fs::renameat_with(&folder, "file", &folder, "third", exchange).unwrap();
    });
}

/// Files are made by the file system below, whose clock is a few milliseconds behind the system's.
#[test]
fn a_later_change_has_no_earlier_time_whatever_stamps_it() {
    let Some(mounted) = start() else { return };
    let time = |path: &Path| {
        let metadata = fs::metadata(path).unwrap();
        (metadata.mtime(), metadata.mtime_nsec())
    };
    let mut last = (0, 0);
    let mut later = |path: &Path, what: &str| {
        let now = time(path);
        assert!(now >= last, "{what}: {now:?} after {last:?}");
        last = now;
    };
    let (one, two) = (mounted.at().join("one"), mounted.at().join("two"));
    for _ in 0..300 {
        fs::write(&one, "x").unwrap();
        later(&one, "written");
        let mut file = File::create_new(&two).unwrap();
        later(&two, "made");
        file.write_all(b"x").unwrap();
        later(&two, "made and written");
        file.set_len(0).unwrap();
        later(&two, "cut");
        fs::remove_file(&two).unwrap();
        later(&mounted.at(), "the directory");
    }
}

/// The block size was 4096: `cmp`, `cp` and stdio then needed a message for each page.
#[test]
fn programs_are_told_to_read_and_write_many_pages_at_a_time() {
    let Some(mounted) = start() else { return };
    let path = mounted.at().join("file");
    let file = File::create_new(&path).unwrap();
    for (len, expected) in [
        (0, 128 << 10),
        (5, 4096),
        (20_000, 32_768),
        (128 << 10, 128 << 10),
        (300 << 20, 128 << 10),
    ] {
        file.set_len(len).unwrap();
        let below = fs::metadata(mounted.source()).unwrap().blksize();
        assert_eq!(
            fs::metadata(&path).unwrap().blksize(),
            expected.max(below),
            "{len} bytes"
        );
    }
}
