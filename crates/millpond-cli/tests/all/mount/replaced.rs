//! Files that are replaced without a sync, and the process that serves them is killed: each has its old content or its new.
//!
//! A kernel's page cache outlives the program that wrote, and file systems write such data early. A `sed -i`ed file had 0
//! bytes, and so had the index and the branches of a git repository.

use super::{TestMount, folders, skip};
use millpond::internal::MappedFile;
use rustix::fs::RenameFlags;
use std::fs::{self, File};
use std::io::{Seek, Write};
use std::os::unix::fs::FileExt;
use std::path::Path;

const OLD: &[u8] = b"the old content";

/// Longer than a page, and not a multiple of one.
fn new() -> Vec<u8> {
    b"the new content ".repeat(1000)
}

/// Written by nothing but the order of data and names.
fn start() -> Option<TestMount> {
    TestMount::start(&folders()[0], &["--memory", "64M", "--expire", "60min"])
}

/// Does what a program does, with a file that has the old content and the path of another.
type Replaces = fn(&Path, &Path);

const WAYS: [(&str, Replaces); 8] = [
    ("renamed over", |file, other| {
        fs::write(other, new()).unwrap();
        fs::rename(other, file).unwrap();
    }),
    ("renamed over while it is open", |file, other| {
        let mut open = File::create_new(other).unwrap();
        open.write_all(&new()).unwrap();
        fs::rename(other, file).unwrap();
        // The process is killed with it open.
        std::mem::forget(open);
    }),
    ("stored through a map, renamed over", |file, other| {
        let open = File::options()
            .read(true)
            .write(true)
            .create_new(true)
            .open(other)
            .unwrap();
        open.set_len(new().len() as u64).unwrap();
        // As a program that has it mapped for writing.
        match MappedFile::new(&open, new().len() as u64) {
            Ok(mut map) => {
                map.write(0, &new());
                std::mem::forget(map);
            }
            // Linux before 6.6 has no shared maps here.
            Err(_) => open.write_all_at(&new(), 0).unwrap(),
        }
        fs::rename(other, file).unwrap();
    }),
    ("exchanged", |file, other| {
        fs::write(other, new()).unwrap();
        let here = rustix::fs::CWD;
        rustix::fs::renameat_with(here, file, here, other, RenameFlags::EXCHANGE).unwrap();
    }),
    ("linked, and the link renamed over", |file, other| {
        fs::write(other, new()).unwrap();
        let link = other.with_extension("link");
        fs::hard_link(other, &link).unwrap();
        fs::rename(link, file).unwrap();
    }),
    ("opened with O_TRUNC and written", |file, _| {
        fs::write(file, new()).unwrap()
    }),
    ("cut by ftruncate and written", |file, _| {
        let mut open = File::options().write(true).open(file).unwrap();
        open.write_all(b"something else").unwrap();
        open.set_len(0).unwrap();
        open.rewind().unwrap();
        open.write_all(&new()).unwrap();
    }),
    ("cut to nothing while another reads it", |file, _| {
        let reader = File::open(file).unwrap();
        fs::write(file, new()).unwrap();
        std::mem::forget(reader);
    }),
];

#[test]
fn a_file_that_is_replaced_without_a_sync_has_old_or_new_content_when_the_process_is_killed() {
    let Some(mut mounted) = start() else { return };
    let paths = |way: &str| (mounted.at().join(way), mounted.at().join(format!("{way}, new")));
    for (way, replaces) in WAYS {
        let (file, other) = paths(way);
        fs::write(&file, OLD).unwrap();
        File::open(&file).unwrap().sync_all().unwrap();
        replaces(&file, &other);
    }
    mounted.kill();
    for (way, _) in WAYS {
        let below = fs::read(mounted.source().join(way)).unwrap();
        assert!(below == new(), "{way}: {} bytes", below.len());
    }
}

/// git makes its objects so: by a link or a rename to a name that no file had, and a name of a branch says then that they are
/// there.
#[test]
fn a_new_name_has_its_data_when_the_process_is_killed() {
    let Some(mut mounted) = start() else { return };
    let at = |name: &str| mounted.at().join(name);
    for name in ["linked", "renamed"] {
        fs::write(at(&format!("{name}, temporary")), new()).unwrap();
    }
    fs::hard_link(at("linked, temporary"), at("linked")).unwrap();
    fs::rename(at("renamed, temporary"), at("renamed")).unwrap();
    mounted.kill();
    for name in ["linked", "renamed"] {
        let below = fs::read(mounted.source().join(name)).unwrap();
        assert!(below == new(), "{name}: {} bytes", below.len());
    }
}

/// A program that is closed by another thread than has cut it is not waited for.
#[test]
fn a_file_closed_by_another_thread_is_written_soon() {
    let Some(mut mounted) = start() else { return };
    let path = mounted.at().join("file");
    fs::write(&path, OLD).unwrap();
    File::open(&path).unwrap().sync_all().unwrap();
    let file = File::options().write(true).truncate(true).open(&path).unwrap();
    let closes = std::thread::spawn(move || {
        file.write_all_at(&new(), 0).unwrap();
        drop(file);
    });
    closes.join().unwrap();
    let began = std::time::Instant::now();
    while fs::read(mounted.source().join("file")).unwrap() != new() {
        assert!(began.elapsed() < crate::mount::BOUND, "it is not written");
        std::thread::yield_now();
    }
    mounted.kill();
    assert!(fs::read(mounted.source().join("file")).unwrap() == new());
}

/// The kernel has it, sends it when it likes, and drops it when the process is killed.
#[test]
fn stores_through_a_map_are_below_after_the_bound_though_the_map_is_still_there() {
    let Some(mut mounted) = TestMount::start(&folders()[0], &["--memory", "64M", "--expire", "100ms"]) else {
        return;
    };
    let path = mounted.at().join("file");
    fs::write(&path, vec![0; 20_000]).unwrap();
    let file = File::options().read(true).write(true).open(&path).unwrap();
    let below = mounted.source().join("file");
    let mut map = match MappedFile::new(&file, 20_000) {
        Ok(map) => map,
        Err(error) => return skip(&format!("no shared maps: {error}")),
    };
    map.write(5000, b"one");
    let began = std::time::Instant::now();
    while !fs::read(&below).unwrap().windows(3).any(|bytes| bytes == b"one") {
        assert!(
            began.elapsed() < crate::mount::BOUND / 6,
            "the kernel has not been asked"
        );
        std::thread::yield_now();
    }
    mounted.kill();
    assert!(fs::read(below).unwrap()[5000..5003] == *b"one");
}

/// A killed process has lost what was written in the last 30 s, as a kernel that does not die with a program.
#[test]
fn changes_older_than_the_bound_are_below() {
    let Some(mut mounted) = TestMount::start(&folders()[0], &["--memory", "64M", "--expire", "100ms"]) else {
        return;
    };
    let file = File::create_new(mounted.at().join("file")).unwrap();
    file.write_all_at(&new(), 0).unwrap();
    let below = mounted.source().join("file");
    let began = std::time::Instant::now();
    while fs::read(&below).unwrap() != new() {
        assert!(began.elapsed() < crate::mount::BOUND / 6, "it is not written");
        std::thread::yield_now();
    }
    mounted.kill();
    assert!(fs::read(below).unwrap() == new());
}
