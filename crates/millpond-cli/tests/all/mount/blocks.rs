//! From what programs infer where a file has data: blocks, holes, free room. GNU tar archived zeros of a file that was just
//! written, since it had a length and no blocks.

use super::{TestMount, folders, skip};
use crate::mount::errors::Small;
use millpond::internal::MappedFile;
use rustix::fs::SeekFrom;
use std::fs::{self, File};
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::Path;
use std::process::Command;

/// Written by nothing but what the tests do; attributes are kept by the kernel for as long as it may.
fn start(folder: &Path) -> Option<TestMount> {
    let arguments = [
        "--memory",
        "64M",
        "--expire",
        "60min",
        "--attribute-timeout",
        "3600",
    ];
    TestMount::start(folder, &arguments)
}

const LEN: usize = 300_000;

fn bytes() -> Vec<u8> {
    (0..LEN).map(|n| (n % 251) as u8 + 1).collect()
}

fn blocks(path: &Path) -> u64 {
    path.metadata().unwrap().blocks()
}

#[test]
fn unwritten_data_has_the_blocks_that_it_will_have() {
    let Some(mounted) = start(&folders()[0]) else {
        return;
    };
    let (at, below) = (mounted.at().join("file"), mounted.source().join("file"));
    fs::write(&at, bytes()).unwrap();
    let before = blocks(&at);
    assert!(before * 512 >= LEN as u64, "{before}");
    let file = File::options().write(true).open(&at).unwrap();
    file.sync_all().unwrap();
    assert_eq!(blocks(&at), blocks(&below));
    // What is written over it needs no others.
    file.write_all_at(&bytes(), 0).unwrap();
    assert_eq!(blocks(&at), blocks(&below));
    // A hole stays one.
    file.sync_all().unwrap();
    file.set_len(1 << 30).unwrap();
    file.write_all_at(&[1; 4096], 1 << 29).unwrap();
    assert_eq!(blocks(&at), blocks(&below) + 8);
    file.sync_all().unwrap();
    assert_eq!(blocks(&at), blocks(&below));
    file.set_len(0).unwrap();
    assert_eq!(blocks(&at), blocks(&below));
}

#[test]
fn space_for_unwritten_data_is_not_free() {
    let Some(small) = Small::of("32m") else { return };
    let Some(mounted) = start(&small.at) else { return };
    let free = || {
        let now = rustix::fs::statvfs(mounted.at()).unwrap();
        (now.f_bfree, now.f_bavail)
    };
    let file = File::create_new(mounted.at().join("file")).unwrap();
    let empty = free();
    file.write_all_at(&bytes(), 0).unwrap();
    let written = free();
    assert!(
        written.0 * 4096 + LEN as u64 <= empty.0 * 4096,
        "{written:?} {empty:?}"
    );
    file.sync_all().unwrap();
    assert_eq!(free(), written);
    // Written over what is there.
    file.write_all_at(&bytes(), 0).unwrap();
    assert_eq!(free(), written);
}

/// Runs a program on the file at the mount; whether its copy is the same, or `None` where there is no such program.
fn is_same(mounted: &TestMount, words: &[&str]) -> Option<bool> {
    let (at, copy) = (mounted.at().join("file"), mounted.source().join("copy"));
    let script = format!("file=$1; copy=$2; {}", words.join(" "));
    let is_there = format!("command -v {} >/dev/null", words[0]);
    if !Command::new("sh")
        .args(["-c", &is_there])
        .status()
        .unwrap()
        .success()
    {
        skip(&format!("there is no {}", words[0]));
        return None;
    }
    let run = Command::new("sh")
        .args(["-c", &script, "sh"])
        .args([&at, &copy])
        .output()
        .unwrap();
    assert!(
        run.status.success(),
        "{words:?}: {}",
        String::from_utf8_lossy(&run.stderr)
    );
    let is_same = fs::read(&copy).unwrap() == fs::read(&at).unwrap();
    fs::remove_file(&copy).unwrap();
    Some(is_same)
}

/// Each way of copying that leaves out holes.
const COPIES: [&[&str]; 4] = [
    &[
        "tar",
        "-S",
        "-C",
        "$(dirname $file)",
        "-cO",
        "file",
        "| tar -xO > $copy",
    ],
    &["cp", "--sparse=auto", "$file", "$copy"],
    &["cp", "--sparse=always", "$file", "$copy"],
    &["rsync", "-S", "$file", "$copy"],
];

#[test]
fn programs_that_leave_out_holes_copy_what_is_not_written_yet() {
    let Some(mounted) = start(&folders()[0]) else {
        return;
    };
    let file = File::create_new(mounted.at().join("file")).unwrap();
    for (what, len, place) in [("whole", LEN as u64, 0), ("with holes", 10 << 20, 5 << 20)] {
        for words in COPIES {
            file.set_len(0).unwrap();
            file.set_len(len).unwrap();
            file.write_all_at(&bytes(), place).unwrap();
            if let Some(is_same) = is_same(&mounted, words) {
                assert!(is_same, "{what}: {words:?}");
            }
        }
    }
}

/// A program has a page of a hole in its map, and copies the file.
#[test]
fn stores_through_a_map_in_a_hole_are_data() {
    let Some(mounted) = start(&folders()[0]) else {
        return;
    };
    let path = mounted.at().join("file");
    let file = File::options()
        .read(true)
        .write(true)
        .create_new(true)
        .open(&path)
        .unwrap();
    file.set_len(1 << 20).unwrap();
    let mut map = match MappedFile::new(&file, 1 << 20) {
        Ok(map) => map,
        Err(error) => return skip(&format!("no shared maps: {error}")),
    };
    map.write(500_000, b"stored");
    assert!(blocks(&path) > 0);
    // In the block of the file system below.
    let data = rustix::fs::seek(&file, SeekFrom::Data(0)).unwrap();
    let hole = rustix::fs::seek(&file, SeekFrom::Hole(500_000)).unwrap();
    assert!((500_000 - (64 << 10)..=500_000).contains(&data), "{data}");
    assert!((500_006..500_000 + (64 << 10)).contains(&hole), "{hole}");
}

/// `cp` failed with the error of the disk, though all that it wanted was there to be read.
#[test]
fn data_that_can_t_be_written_is_data_too() {
    let Some(small) = Small::new() else { return };
    let Some(mounted) = start(&small.at) else { return };
    let file = File::options()
        .read(true)
        .write(true)
        .create_new(true)
        .open(mounted.at().join("file"))
        .unwrap();
    file.set_len(1 << 30).unwrap();
    let _ = file.write_all_at(&vec![7; 12 << 20], 0);
    assert!(file.sync_all().is_err());
    assert_eq!(rustix::fs::seek(&file, SeekFrom::Data(4096)), Ok(4096));
    assert_eq!(rustix::fs::seek(&file, SeekFrom::Hole(4096)), Ok(1 << 30));
    assert_eq!(
        rustix::fs::seek(&file, SeekFrom::Data(1 << 30)),
        Err(rustix::io::Errno::NXIO)
    );
}
