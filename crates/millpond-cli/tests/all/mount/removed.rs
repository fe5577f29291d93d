//! Removed files give their space back at once.

use super::{BOUND, TestMount, folders, skip};
use rustix::fs::FallocateFlags;
use std::fs::{self, File};
use std::io::{Read, Write};
use std::os::fd::AsRawFd;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::time::Instant;

fn start() -> Option<TestMount> {
    TestMount::start(&folders()[0], &["--memory", "16M"])
}

/// Files without a name of which the process has a descriptor, and with it their blocks.
fn held(mounted: &TestMount) -> Vec<String> {
    let folder = format!("/proc/{}/fd", mounted.pid().as_raw_nonzero());
    let entries = fs::read_dir(folder).unwrap();
    let links = entries.filter_map(|entry| fs::read_link(entry.ok()?.path()).ok());
    let inside = mounted.source().display().to_string();
    links
        .map(|link| link.display().to_string())
        .filter(|link| link.starts_with(&inside) && link.ends_with("(deleted)"))
        .collect()
}

fn write(path: &Path) -> File {
    let mut file = File::options()
        .read(true)
        .write(true)
        .create(true)
        .truncate(false)
        .open(path)
        .unwrap();
    file.write_all(&[7; 100_000]).unwrap();
    file
}

#[test]
fn a_removed_file_without_a_handle_is_not_kept() {
    type Does = fn(&Path, &Path);
    let Some(mounted) = start() else { return };
    let cases: [(&str, Does); 8] = [
        ("written", |at, _| {
            drop(write(at));
            fs::remove_file(at).unwrap();
        }),
        ("removed while open", |at, _| {
            let file = write(at);
            fs::remove_file(at).unwrap();
            drop(file);
        }),
        ("synced", |at, _| {
            write(at).sync_all().unwrap();
            fs::remove_file(at).unwrap();
        }),
        ("only read", |at, below| {
            fs::write(below, [7; 100_000]).unwrap();
            File::open(at).unwrap().read_exact(&mut [0; 100]).unwrap();
            fs::remove_file(at).unwrap();
        }),
        ("blocks behind the end", |at, _| {
            let file = write(at);
            let _ = rustix::fs::fallocate(&file, FallocateFlags::KEEP_SIZE, 0, 1 << 20);
            file.sync_all().unwrap();
            drop(file);
            fs::remove_file(at).unwrap();
        }),
        ("refused allocation", |at, _| {
            let file = write(at);
            assert!(rustix::fs::fallocate(&file, FallocateFlags::empty(), 0, 1 << 60).is_err());
            drop(file);
            fs::remove_file(at).unwrap();
        }),
        ("replaced", |at, _| {
            drop(write(at));
            let new = at.with_extension("new");
            drop(write(&new));
            fs::rename(&new, at).unwrap();
            fs::remove_file(at).unwrap();
        }),
        ("a link of two", |at, _| {
            drop(write(at));
            let other = at.with_extension("other");
            fs::hard_link(at, &other).unwrap();
            fs::remove_file(at).unwrap();
            fs::remove_file(other).unwrap();
        }),
    ];
    for (name, does) in cases {
        for n in 0..20 {
            let file = format!("{n}");
            does(&mounted.at().join(&file), &mounted.source().join(&file));
        }
        // The kernel says a moment later that it has forgotten them.
        let began = Instant::now();
        while !held(&mounted).is_empty() {
            assert!(began.elapsed() < BOUND / 4, "{name}: {:?}", held(&mounted));
        }
    }
}

#[test]
fn a_file_that_is_removed_in_the_source_is_let_go_of() {
    let Some(mounted) = start() else { return };
    fs::create_dir(mounted.source().join("folder")).unwrap();
    for n in 0..20 {
        fs::write(mounted.source().join(format!("folder/{n}")), [7; 100_000]).unwrap();
        let at = mounted.at().join(format!("folder/{n}"));
        // Some are read, of others no more is known than that they are there.
        match n % 2 {
            0 => assert_eq!(fs::read(at).unwrap().len(), 100_000),
            _ => assert_eq!(fs::metadata(at).unwrap().len(), 100_000),
        }
    }
    fs::remove_dir_all(mounted.source().join("folder")).unwrap();
    let began = Instant::now();
    while !held(&mounted).is_empty() {
        assert!(began.elapsed() < BOUND / 4, "{:?}", held(&mounted));
        std::thread::yield_now();
    }
}

/// The name of what is gone was forgotten, and with it whatever has that name by now: who stood there was nowhere.
#[test]
fn a_directory_that_has_the_name_of_a_removed_one_keeps_it() {
    let Some(mounted) = start() else { return };
    let build = mounted.at().join("build");
    // As a shell that stays in it.
    let stay = || File::open(&build).unwrap();
    let place = |directory: &File| {
        let link = format!("/proc/self/fd/{}", directory.as_raw_fd());
        fs::read_link(link).unwrap()
    };
    fs::create_dir(&build).unwrap();
    let removed = stay();
    fs::remove_dir(&build).unwrap();
    fs::create_dir(&build).unwrap();
    let replaced = stay();
    let new = build.with_extension("new");
    fs::create_dir(&new).unwrap();
    fs::rename(&new, &build).unwrap();
    let now = stay();
    // One of which the kernel does not know that it is gone: when that is forgotten the others were looked at, too.
    fs::write(mounted.source().join("file"), "").unwrap();
    assert!(mounted.at().join("file").exists());
    fs::remove_file(mounted.source().join("file")).unwrap();
    let began = Instant::now();
    while held(&mounted).iter().any(|link| link.contains("file")) {
        assert!(began.elapsed() < BOUND / 4, "{:?}", held(&mounted));
        std::thread::yield_now();
    }
    assert_eq!(place(&now), build);
    drop((removed, replaced));
}

#[test]
fn blocks_past_the_end_go_when_a_file_is_cut_to_its_present_length() {
    let Some(mounted) = start() else { return };
    let (at, below) = (mounted.at().join("file"), mounted.source().join("file"));
    let blocks = || fs::metadata(&below).unwrap().blocks();
    for len in [100_000, 0] {
        let file = write(&at);
        file.set_len(len).unwrap();
        file.sync_all().unwrap();
        let before = blocks();
        if rustix::fs::fallocate(&file, FallocateFlags::KEEP_SIZE, 0, 4 << 20).is_err() || blocks() == before
        {
            return skip("this file system allocates nothing ahead");
        }
        file.set_len(len).unwrap();
        assert_eq!(blocks(), before, "{len} bytes");
        assert_eq!(file.metadata().unwrap().len(), len);
    }
}

#[test]
fn a_file_open_in_the_source_keeps_its_bytes_when_it_is_removed_or_replaced_at_the_mount() {
    type Does = fn(&Path);
    let Some(mounted) = start() else { return };
    let cases: [(&str, Does); 3] = [
        ("removed", |at| fs::remove_file(at).unwrap()),
        ("replaced", |at| {
            let new = at.with_extension("new");
            drop(write(&new));
            fs::rename(&new, at).unwrap();
        }),
        ("changed and removed", |at| {
            drop(write(at));
            fs::remove_file(at).unwrap();
        }),
    ];
    for (name, does) in cases {
        let at = mounted.at().join(name);
        write(&at).sync_all().unwrap();
        let mut reader = File::open(mounted.source().join(name)).unwrap();
        does(&at);
        let began = Instant::now();
        while !held(&mounted).is_empty() {
            assert!(began.elapsed() < BOUND / 4, "{name}: {:?}", held(&mounted));
            std::thread::yield_now();
        }
        let mut bytes = Vec::new();
        reader.read_to_end(&mut bytes).unwrap();
        assert!(bytes == [7; 100_000], "{name}: {} bytes", bytes.len());
    }
}
