//! Room and holes.

use super::{Case, all, said, told, with};
use rustix::fs::{FallocateFlags, SeekFrom};
use std::fs::{self, File};
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::Path;

fn new(d: &Path, len: usize) -> File {
    let file = File::options()
        .read(true)
        .write(true)
        .create_new(true)
        .open(d.join("a"))
        .unwrap();
    file.write_all_at(&vec![7; len], 0).unwrap();
    file
}

fn allocate(file: &File, flags: FallocateFlags, offset: u64, len: u64) -> String {
    let done = said(rustix::fs::fallocate(file, flags, offset, len));
    format!("{done} {}", file.metadata().unwrap().len())
}

/// The position of the changed bytes, and their new value.
fn runs(d: &Path) -> String {
    let bytes = fs::read(d.join("a")).unwrap();
    let mut runs = Vec::new();
    for (n, byte) in bytes.iter().enumerate() {
        if n == 0 || bytes[n - 1] != *byte {
            runs.push(format!("{n}:{byte}"));
        }
    }
    format!("{} of {}", runs.join(" "), bytes.len())
}

const KEEP: FallocateFlags = FallocateFlags::KEEP_SIZE;

pub(super) const CASES: &[Case] = &[
    ("fallocate", |d| {
        let file = new(d, 10_000);
        let none = FallocateFlags::empty();
        all([
            allocate(&file, none, 0, 5_000),
            allocate(&file, KEEP, 8_000, 100_000),
            allocate(&file, none, 8_000, 100_000),
            allocate(&file, none, 0, 0),
            allocate(&file, none, u64::MAX / 2, 100),
            runs(d),
            (file.metadata().unwrap().blocks() >= 208).to_string(),
        ])
    }),
    ("punch_a_hole", |d| {
        let file = new(d, 100_000);
        let punch = FallocateFlags::PUNCH_HOLE | KEEP;
        all([
            allocate(&file, punch, 10_000, 30_000),
            allocate(&file, punch, 50_000, 10),
            allocate(&file, punch, 90_000, 500_000),
            allocate(&file, FallocateFlags::PUNCH_HOLE, 0, 4096),
            runs(d),
        ])
    }),
    ("punch_what_was_written_and_synced", |d| {
        let file = new(d, 1 << 20);
        file.sync_all().unwrap();
        let before = file.metadata().unwrap().blocks();
        let punched = allocate(&file, FallocateFlags::PUNCH_HOLE | KEEP, 0, 1 << 19);
        file.sync_all().unwrap();
        let after = file.metadata().unwrap().blocks();
        all([punched, (after * 3 < before * 2).to_string(), runs(d)])
    }),
    ("zero_a_range", |d| {
        let file = new(d, 50_000);
        all([
            allocate(&file, FallocateFlags::ZERO_RANGE | KEEP, 1_000, 20_000),
            allocate(&file, FallocateFlags::ZERO_RANGE | KEEP, 45_000, 20_000),
            allocate(&file, FallocateFlags::ZERO_RANGE, 48_000, 20_000),
            runs(d),
        ])
    }),
    ("seek_data_and_holes", |d| {
        let file = new(d, 65_536);
        file.set_len(1 << 20).unwrap();
        file.write_all_at(&[9; 65_536], 1 << 19).unwrap();
        let seek = |from| with(rustix::fs::seek(&file, from));
        all([
            seek(SeekFrom::Data(0)),
            seek(SeekFrom::Hole(0)),
            seek(SeekFrom::Data(100_000)),
            seek(SeekFrom::Hole(1 << 19)),
            seek(SeekFrom::Data(900_000)),
            seek(SeekFrom::Hole(900_000)),
            seek(SeekFrom::Data(1 << 20)),
            seek(SeekFrom::Hole(2 << 20)),
            seek(SeekFrom::End(-10)),
            seek(SeekFrom::Current(-2_000_000)),
        ])
    }),
    ("a_copy_of_a_sparse_file_has_its_data", |d| {
        let file = new(d, 5_000);
        file.set_len(10 << 20).unwrap();
        file.write_all_at(&[9; 5_000], 5 << 20).unwrap();
        let copied = std::process::Command::new("cp")
            .arg("--sparse=auto")
            .args([d.join("a"), d.join("b")])
            .status();
        let same = fs::read(d.join("a")).unwrap() == fs::read(d.join("b")).unwrap();
        let small = fs::metadata(d.join("b")).unwrap().blocks() < 1000;
        all([told(copied), same.to_string(), small.to_string()])
    }),
];
