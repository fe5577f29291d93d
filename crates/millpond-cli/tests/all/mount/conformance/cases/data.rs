//! Data: read, written, appended, cut, mapped, copied.

use super::{Case, all, said, told, with};
use rustix::fs::{Mode, OFlags};
use std::fs::{self, File};
use std::io::{Read, Seek, SeekFrom, Write};
use std::os::unix::fs::FileExt;
use std::path::Path;

fn new(d: &Path, flags: OFlags) -> File {
    let flags = flags | OFlags::RDWR | OFlags::CREATE;
    rustix::fs::open(d.join("a"), flags, Mode::from_raw_mode(0o644))
        .unwrap()
        .into()
}

/// The content of a file, in few words.
fn sum(d: &Path, name: &str) -> String {
    let bytes = fs::read(d.join(name)).unwrap();
    let sum = bytes
        .iter()
        .fold(7_u64, |sum, &byte| sum.wrapping_mul(31).wrapping_add(byte.into()));
    format!("{} {sum:x}", bytes.len())
}

fn pattern(len: usize) -> Vec<u8> {
    (0..len).map(|n| (n * 7 + n / 251) as u8).collect()
}

pub(super) const CASES: &[Case] = &[
    ("write_and_read", |d| {
        let mut file = new(d, OFlags::empty());
        let bytes = pattern(3_000_001);
        file.write_all(&bytes).unwrap();
        file.seek(SeekFrom::Start(1_234_567)).unwrap();
        let mut some = vec![0; 2_000_000];
        let read = file.read(&mut some).unwrap();
        all([
            format!("{read} {}", some[..read] == bytes[1_234_567..][..read]),
            sum(d, "a"),
            with(rustix::io::pread(&file, &mut [0; 10], 3_000_000)),
            with(rustix::io::pread(&file, &mut [0; 10], 3_000_001)),
            with(rustix::io::pread(&file, &mut [0; 10], 1 << 40)),
        ])
    }),
    ("write_behind_the_end", |d| {
        let file = new(d, OFlags::empty());
        file.write_all_at(b"x", 100_000).unwrap();
        file.write_all_at(b"", 1 << 30).unwrap();
        sum(d, "a")
    }),
    ("write_too_far", |d| {
        let file = new(d, OFlags::empty());
        all([
            with(rustix::io::pwrite(&file, b"xx", i64::MAX as u64)),
            with(rustix::io::pwrite(&file, b"xx", 1 << 63)),
            said(rustix::fs::ftruncate(&file, u64::MAX)),
            sum(d, "a"),
        ])
    }),
    ("write_where_some_file_systems_end", |d| {
        // Ext4 has files of 16 TiB less a block.
        const END: u64 = (1 << 44) - 4096;
        let file = new(d, OFlags::empty());
        let mut seen = Vec::new();
        for at in [END - 1, END, END + 1, 1 << 44, (1 << 44) + 1_000_000] {
            seen.push(with(rustix::io::pwrite(&file, b"x", at)));
            seen.push(said(rustix::fs::ftruncate(&file, at + 1)));
            seen.push(file.metadata().unwrap().len().to_string());
        }
        seen.push(told(file.sync_all()));
        seen.push(said(rustix::fs::ftruncate(&file, 100)));
        seen.push(told(file.sync_all()));
        all([seen.join(" "), sum(d, "a")])
    }),
    ("small_writes_beside_one_another", |d| {
        let file = new(d, OFlags::empty());
        for n in 0..2000_u64 {
            file.write_all_at(&n.to_le_bytes()[..5], n * 5).unwrap();
        }
        sum(d, "a")
    }),
    ("append", |d| {
        let mut file = new(d, OFlags::APPEND);
        file.write_all(b"one").unwrap();
        file.seek(SeekFrom::Start(0)).unwrap();
        file.write_all(b"two").unwrap();
        let at = file.stream_position().unwrap();
        fs::write(d.join("b"), "").unwrap();
        // Linux appends whatever the offset.
        file.write_all_at(b"three", 1).unwrap();
        all([fs::read_to_string(d.join("a")).unwrap(), at.to_string()])
    }),
    ("append_of_many", |d| {
        let mut files: Vec<_> = (0..4).map(|_| new(d, OFlags::APPEND)).collect();
        std::thread::scope(|scope| {
            for (n, file) in files.iter_mut().enumerate() {
                scope.spawn(move || (0..100).for_each(|_| file.write_all(&[n as u8; 100]).unwrap()));
            }
        });
        let bytes = fs::read(d.join("a")).unwrap();
        let whole = bytes
            .chunks(100)
            .all(|chunk| chunk.iter().all(|byte| byte == &chunk[0]));
        format!("{} {whole}", bytes.len())
    }),
    ("truncate_when_opened", |d| {
        fs::write(d.join("a"), pattern(10_000)).unwrap();
        let file = new(d, OFlags::TRUNC);
        file.write_all_at(b"new", 0).unwrap();
        sum(d, "a")
    }),
    ("truncate", |d| {
        fs::write(d.join("a"), pattern(10_000)).unwrap();
        let file = new(d, OFlags::empty());
        let mut seen = Vec::new();
        for len in [5000, 9000, 0, 4096, 4095, 100_000, 1] {
            seen.push(told(file.set_len(len)));
            seen.push(sum(d, "a"));
        }
        seen.join(", ")
    }),
    ("truncate_by_name", |d| {
        fs::write(d.join("a"), pattern(10_000)).unwrap();
        fs::create_dir(d.join("dir")).unwrap();
        let truncate = |name: &str, len: i64| {
            let path = std::ffi::CString::new(d.join(name).into_os_string().into_encoded_bytes()).unwrap();
            match truncate_by_name(&path, len) {
                Ok(()) => "ok".into(),
                Err(error) => told::<()>(Err(error)),
            }
        };
        all([
            truncate("a", 5000),
            truncate("none", 1),
            truncate("dir", 1),
            truncate("a", 12_000),
            sum(d, "a"),
        ])
    }),
    ("zeros_after_a_cut", |d| {
        let file = new(d, OFlags::empty());
        file.write_all_at(&pattern(20_000), 0).unwrap();
        file.set_len(5001).unwrap();
        file.write_all_at(b"end", 15_000).unwrap();
        sum(d, "a")
    }),
    ("map_shared", |d| {
        // A database in a map: written through one, read through read(2), and the other way round.
        let file = new(d, OFlags::empty());
        file.set_len(40_000).unwrap();
        let said = std::process::Command::new("python3")
            .args(["-c", MAP, &d.join("a").display().to_string()])
            .output();
        match said {
            Ok(output) => format!(
                "{} {}",
                String::from_utf8_lossy(&output.stdout).trim(),
                sum(d, "a")
            ),
            Err(_) => "no python3".into(),
        }
    }),
    ("copy_in_the_kernel", |d| {
        let file = new(d, OFlags::empty());
        file.write_all_at(&pattern(700_000), 0).unwrap();
        let other = File::options()
            .read(true)
            .write(true)
            .create_new(true)
            .open(d.join("b"))
            .unwrap();
        let (mut from, mut to) = (1234, 50);
        let mut left = 600_000;
        while left > 0 {
            match rustix::fs::copy_file_range(&file, Some(&mut from), &other, Some(&mut to), left) {
                Ok(0) | Err(_) => break,
                Ok(copied) => left -= copied,
            }
        }
        let mut end = 800_000;
        let behind = rustix::fs::copy_file_range(&file, Some(&mut end), &other, None, 10);
        all([left.to_string(), with(behind), sum(d, "b")])
    }),
    ("copy_within_a_file", |d| {
        let file = new(d, OFlags::empty());
        file.write_all_at(&pattern(100_000), 0).unwrap();
        let copy = |mut from: u64, mut to: u64| {
            with(rustix::fs::copy_file_range(
                &file,
                Some(&mut from),
                &file,
                Some(&mut to),
                10_000,
            ))
        };
        all([copy(0, 50_000), copy(0, 5_000), sum(d, "a")])
    }),
    ("std_copy", |d| {
        fs::write(d.join("a"), pattern(1_000_000)).unwrap();
        all([told(fs::copy(d.join("a"), d.join("b"))), sum(d, "b")])
    }),
    ("sync", |d| {
        let file = new(d, OFlags::empty());
        file.write_all_at(&pattern(100_000), 0).unwrap();
        let reader = File::open(d.join("a")).unwrap();
        all([
            told(file.sync_data()),
            told(file.sync_all()),
            told(reader.sync_all()),
            told(File::open(d).unwrap().sync_all()),
        ])
    }),
    ("synchronous_writes", |d| {
        // By its number: the constant of that name is O_SYNC.
        let file = new(d, OFlags::from_bits_retain(libc::O_DSYNC as u32));
        file.write_all_at(&pattern(10_000), 0).unwrap();
        let other = new(d, OFlags::SYNC);
        other.write_all_at(&pattern(9_000), 3_000).unwrap();
        sum(d, "a")
    }),
    ("two_descriptors_see_one_another", |d| {
        let (one, two) = (new(d, OFlags::empty()), File::open(d.join("a")));
        let two = two.unwrap();
        one.write_all_at(b"hello", 0).unwrap();
        let mut bytes = [0; 5];
        two.read_exact_at(&mut bytes, 0).unwrap();
        one.set_len(2).unwrap();
        let len = two.metadata().unwrap().len();
        format!("{bytes:?} {len} {}", two.read_at(&mut bytes, 0).unwrap())
    }),
    ("advice", |d| {
        let file = new(d, OFlags::empty());
        file.write_all_at(&pattern(10_000), 0).unwrap();
        let advise = |advice| said(rustix::fs::fadvise(&file, 0, None, advice));
        all([
            advise(rustix::fs::Advice::DontNeed),
            advise(rustix::fs::Advice::Sequential),
            sum(d, "a"),
        ])
    }),
];

const MAP: &str = "
import mmap, os, sys
f = os.open(sys.argv[1], os.O_RDWR)
m = mmap.mmap(f, 40000)
m[5:10] = b'mapped'[:5]
m[30000:30003] = b'end'
print(os.pread(f, 5, 5))
os.pwrite(f, b'written', 20000)
print(m[20000:20007])
m.flush()
m.close()
p = mmap.mmap(f, 40000, flags=mmap.MAP_PRIVATE)
p[0:3] = b'own'
print(os.pread(f, 3, 0), p[5:10])
";

fn truncate_by_name(path: &std::ffi::CStr, len: i64) -> std::io::Result<()> {
    // std and rustix have no call for it: the program of that name makes it.
    let path = path.to_str().unwrap();
    let output = std::process::Command::new("python3")
        .args(["-c", "import os, sys\ntry: os.truncate(sys.argv[1], int(sys.argv[2]))\nexcept OSError as e: print(e.errno)"])
        .args([path, &len.to_string()])
        .output()?;
    match String::from_utf8_lossy(&output.stdout).trim().parse() {
        Ok(errno) => Err(std::io::Error::from_raw_os_error(errno)),
        Err(_) => Ok(()),
    }
}
