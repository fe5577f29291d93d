//! A file system that is full: which callers hear of it, and that all is written when there is room again,
//! without any call. On file systems of a few MiB, mounted for the test; that takes the rights of root.

#![allow(
    clippy::unwrap_used,
    clippy::print_stdout,
    reason = "a test fails by panicking and prints why it was skipped"
)]

use crate::support::{bounded, until};
use millpond::{Error, File, OpenOptions, Options, PageCache};
use millpond_core::units::Nanos;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::Command;
use tempfile::TempDir;

const PAGE: usize = 4096;
/// The test's writes.
const PAGES: usize = 150;

/// A file system of its own; unmounted when it is dropped.
struct Mounted {
    folder: TempDir,
}

fn run(program: &str, arguments: &[&str]) -> Result<(), String> {
    let output = Command::new(program).args(arguments).output();
    let output = output.map_err(|e| format!("{program}: {e}"))?;
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    output
        .status
        .success()
        .then_some(())
        .ok_or(format!("{program}: {said}"))
}

impl Mounted {
    /// In memory, or ext4 on a file.
    fn new(kind: &str) -> Result<Mounted, String> {
        let folder = tempfile::tempdir().unwrap();
        let place = folder.path().join("mounted");
        std::fs::create_dir(&place).unwrap();
        let place = place.to_str().unwrap();
        if kind == "tmpfs" {
            run("mount", &["-t", "tmpfs", "-o", "size=4m", "tmpfs", place])?;
        } else {
            let image = folder.path().join("image");
            std::fs::File::create(&image).unwrap().set_len(24 << 20).unwrap();
            let image = image.to_str().unwrap();
            run("mkfs.ext4", &["-q", "-m", "0", "-O", "^has_journal", image])?;
            run("mount", &["-o", "loop", image, place])?;
        }
        Ok(Mounted { folder })
    }

    fn path(&self) -> PathBuf {
        self.folder.path().join("mounted")
    }
}

impl Drop for Mounted {
    fn drop(&mut self) {
        // Lazily: a thread of a device may hold a file for a moment longer.
        let _ = run("umount", &["-l", self.path().to_str().unwrap()]);
    }
}

/// Takes all the room there is, to the last block.
fn fill_up(path: &Path) {
    let mut ballast = std::fs::File::create(path).unwrap();
    let mut part = 1 << 20;
    while part > 0 {
        // The partial result of a failed write counts as well.
        if ballast
            .write_all(&vec![1; part])
            .and_then(|()| ballast.sync_data())
            .is_err()
        {
            part /= 2;
        }
    }
}

fn stamp(page: usize, round: usize) -> [u8; PAGE] {
    let mut bytes = [round as u8; PAGE];
    bytes[..8].copy_from_slice(&(page as u64).to_le_bytes());
    bytes
}

fn is_no_space(result: Result<(), Error>) {
    match result {
        Err(error @ Error::Write { .. }) => assert_eq!(error.errno(), 28, "{error}"),
        other => panic!("{other:?} instead of a full file system"),
    }
}

fn written(file: &File, round: usize) {
    for page in 0..PAGES {
        file.write_at(&stamp(page, round), (page * PAGE) as u64).unwrap();
    }
}

fn full_and_empty_again(kind: &'static str) {
    let mounted = match Mounted::new(kind) {
        Ok(mounted) => mounted,
        Err(why) => return println!("skipped: no {kind} can be mounted here: {why}"),
    };
    bounded(move || {
        let mut options = Options::default();
        options.flusher.retry = Nanos::from_millis(1);
        let cache = PageCache::builder()
            .memory(8 << 20)
            .options(options)
            .build()
            .unwrap();
        let (path, ballast) = (mounted.path().join("data"), mounted.path().join("ballast"));
        let file = cache.open(&path, OpenOptions::new().create(true)).unwrap();
        file.sync_data().unwrap();
        for round in 1..=2 {
            fill_up(&ballast);
            written(&file, round);
            is_no_space(file.sync_data());
            is_no_space(file.sync_data());
            for page in 0..PAGES {
                assert!(file.page(page as u64).unwrap()[..] == stamp(page, round));
            }
            std::fs::remove_file(&ballast).unwrap();
            if round == 1 {
                until("it is written in the background", || {
                    let pages = cache.stats().occupancy;
                    pages.dirty.0 + pages.writing.0 == 0
                });
            }
            file.sync_data().unwrap();
            assert_eq!(cache.stats().occupancy.failed.0, 0);
            let expected: Vec<u8> = (0..PAGES).flat_map(|page| stamp(page, round)).collect();
            assert!(std::fs::read(&path).unwrap() == expected, "{kind}, round {round}");
            // Back to nothing, so that the next round needs room.
            file.set_len(0).unwrap();
            file.sync_data().unwrap();
        }
    });
}

/// On a file system whose last block is taken after a range was allocated: what is written there finds room.
fn allocated_before_the_rest_is_taken(kind: &'static str) {
    let mounted = match Mounted::new(kind) {
        Ok(mounted) => mounted,
        Err(why) => return println!("skipped: no {kind} can be mounted here: {why}"),
    };
    bounded(move || {
        let cache = PageCache::builder().memory(8 << 20).build().unwrap();
        let (path, ballast) = (mounted.path().join("data"), mounted.path().join("ballast"));
        let file = cache.open(&path, OpenOptions::new().create(true)).unwrap();
        let bytes = (PAGES * PAGE) as u64;
        file.allocate(0, bytes).unwrap();
        fill_up(&ballast);
        is_no_space(file.allocate(bytes, 1 << 20));
        assert!(file.is_empty() && file.failure().is_none());
        written(&file, 1);
        file.sync_data().unwrap();
        let expected: Vec<u8> = (0..PAGES).flat_map(|page| stamp(page, 1)).collect();
        assert!(std::fs::read(&path).unwrap() == expected, "{kind}");
        // The rest of what was allocated, and what was written, is room for another file again.
        file.punch(0, bytes).unwrap();
        std::fs::write(mounted.path().join("other"), &expected[..expected.len() / 2]).unwrap();
    });
}

#[test]
fn what_was_allocated_in_memory_has_room_when_the_file_system_is_full() {
    allocated_before_the_rest_is_taken("tmpfs");
}

#[test]
fn what_was_allocated_on_disk_has_room_when_the_file_system_is_full() {
    allocated_before_the_rest_is_taken("ext4");
}

#[test]
fn data_refused_for_lack_of_memory_is_written_when_there_is_some() {
    full_and_empty_again("tmpfs");
}

#[test]
fn data_refused_for_lack_of_disk_space_is_written_when_there_is_some() {
    full_and_empty_again("ext4");
}
