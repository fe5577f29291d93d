//! Names: made, found, listed, changed, taken away.

use super::{Case, all, said, told, with};
use rustix::fs::{AtFlags, CWD, FileType, Mode, OFlags, RenameFlags};
use rustix::io::Result;
use std::fs;
use std::os::fd::OwnedFd;
use std::os::unix::fs::symlink;
use std::path::Path;

fn open(path: impl AsRef<Path>, flags: OFlags) -> Result<OwnedFd> {
    rustix::fs::open(path.as_ref(), flags | OFlags::CLOEXEC, Mode::from_raw_mode(0o644))
}

fn mkdir(path: impl AsRef<Path>) -> Result<()> {
    rustix::fs::mkdir(path.as_ref(), Mode::from_raw_mode(0o755))
}

fn rename(d: &Path, from: &str, to: &str, flags: RenameFlags) -> String {
    said(rustix::fs::renameat_with(
        CWD,
        d.join(from),
        CWD,
        d.join(to),
        flags,
    ))
}

fn list(d: &Path) -> String {
    let mut names: Vec<_> = fs::read_dir(d)
        .unwrap()
        .map(|entry| {
            let entry = entry.unwrap();
            let slash = if entry.file_type().unwrap().is_dir() {
                "/"
            } else {
                ""
            };
            format!("{}{slash}", entry.file_name().display())
        })
        .collect();
    names.sort();
    names.join(" ")
}

const MAKE: OFlags = OFlags::RDWR.union(OFlags::CREATE);
const MAKE_NEW: OFlags = MAKE.union(OFlags::EXCL);
const NONE: RenameFlags = RenameFlags::empty();

pub(super) const CASES: &[Case] = &[
    ("open_missing", |d| {
        all([
            said(open(d.join("a"), OFlags::RDONLY)),
            said(open(d.join("a/b"), MAKE)),
            said(open(Path::new(""), OFlags::RDONLY)),
        ])
    }),
    ("open_exclusive", |d| {
        all([
            said(open(d.join("a"), MAKE_NEW)),
            said(open(d.join("a"), MAKE_NEW)),
            list(d),
        ])
    }),
    ("open_creating_what_is_there", |d| {
        fs::write(d.join("a"), "text").unwrap();
        all([
            said(open(d.join("a"), MAKE)),
            fs::read_to_string(d.join("a")).unwrap(),
        ])
    }),
    ("open_through_a_file", |d| {
        fs::write(d.join("a"), "").unwrap();
        all([
            said(open(d.join("a/b"), OFlags::RDONLY)),
            said(open(d.join("a/b"), MAKE)),
            said(open(d.join("a"), OFlags::RDONLY | OFlags::DIRECTORY)),
        ])
    }),
    ("open_a_directory", |d| {
        mkdir(d.join("a")).unwrap();
        all([
            said(open(d.join("a"), OFlags::RDWR)),
            said(open(d.join("a"), OFlags::RDONLY)),
            said(open(d.join("a"), MAKE)),
        ])
    }),
    ("open_a_symlink", |d| {
        symlink("b", d.join("a")).unwrap();
        all([
            said(open(d.join("a"), OFlags::RDONLY)),
            said(open(d.join("a"), OFlags::RDONLY | OFlags::NOFOLLOW)),
            said(open(d.join("a"), MAKE_NEW)),
            said(open(d.join("a"), MAKE)),
            list(d),
        ])
    }),
    ("open_a_loop", |d| {
        symlink("b", d.join("a")).unwrap();
        symlink("a", d.join("b")).unwrap();
        said(open(d.join("a"), OFlags::RDONLY))
    }),
    ("long_names", |d| {
        let (fits, long) = ("n".repeat(255), "n".repeat(256));
        all([
            said(open(d.join(&fits), MAKE)),
            said(open(d.join(&long), MAKE)),
            said(mkdir(d.join(&long))),
            rename(d, &fits, &long, NONE),
            said(rustix::fs::unlink(d.join(&long))),
            said(open(d.join("x/".repeat(2100)), OFlags::RDONLY)),
        ])
    }),
    ("names_of_any_bytes", |d| {
        use std::os::unix::ffi::OsStrExt;
        let name = std::ffi::OsStr::from_bytes(b"\xff\x01 \n\\");
        fs::write(d.join(name), "text").unwrap();
        let found = fs::read_dir(d)
            .unwrap()
            .any(|entry| entry.unwrap().file_name() == name);
        format!("{found} {}", fs::read_to_string(d.join(name)).unwrap())
    }),
    ("mkdir", |d| {
        let made = ["a", "a", "b/c", "a/."].map(|name| said(mkdir(d.join(name))));
        all([all(made), list(d)])
    }),
    ("rmdir", |d| {
        mkdir(d.join("a")).unwrap();
        mkdir(d.join("a/b")).unwrap();
        fs::write(d.join("f"), "").unwrap();
        let names = ["a", "f", "none", "a/.", "a/..", "a/b", "a"];
        all([
            all(names.map(|name| said(rustix::fs::rmdir(d.join(name))))),
            list(d),
        ])
    }),
    ("unlink", |d| {
        mkdir(d.join("a")).unwrap();
        fs::write(d.join("f"), "").unwrap();
        let names = ["a", "f", "f", "f/g"];
        all([
            all(names.map(|name| said(rustix::fs::unlink(d.join(name))))),
            said(rustix::fs::unlinkat(CWD, d.join("a"), AtFlags::REMOVEDIR)),
            list(d),
        ])
    }),
    ("rename", |d| {
        fs::write(d.join("a"), "1").unwrap();
        fs::write(d.join("b"), "2").unwrap();
        let pairs = [("a", "b"), ("a", "c"), ("b", "x/c"), ("b", "b"), ("b", "c")];
        let renamed = pairs.map(|(from, to)| rename(d, from, to, NONE));
        all([all(renamed), list(d), fs::read_to_string(d.join("c")).unwrap()])
    }),
    ("rename_directories", |d| {
        ["a", "b", "c"]
            .iter()
            .for_each(|name| mkdir(d.join(name)).unwrap());
        ["c/f", "g"]
            .iter()
            .for_each(|name| fs::write(d.join(name), "").unwrap());
        let pairs = [
            ("a", "b"),
            ("b", "c"),
            ("b", "g"),
            ("g", "b"),
            ("c", "c/x"),
            ("c", "b"),
            ("b/.", "z"),
            ("b/f", "f"),
        ];
        let renamed = pairs.map(|(from, to)| rename(d, from, to, NONE));
        all([all(renamed), list(d), list(&d.join("b"))])
    }),
    ("rename_exchanging_and_not_replacing", |d| {
        fs::write(d.join("a"), "1").unwrap();
        mkdir(d.join("b")).unwrap();
        let (keep, swap) = (RenameFlags::NOREPLACE, RenameFlags::EXCHANGE);
        let calls = [
            ("a", "b", keep),
            ("a", "b", swap),
            ("a", "none", swap),
            ("a", "c", keep),
            ("b", "c", keep | swap),
        ];
        let renamed = calls.map(|(from, to, flags)| rename(d, from, to, flags));
        all([all(renamed), list(d)])
    }),
    ("rename_over_an_open_file", |d| {
        fs::write(d.join("a"), "new").unwrap();
        fs::write(d.join("b"), "old").unwrap();
        let open = fs::File::open(d.join("b")).unwrap();
        rename(d, "a", "b", NONE);
        let old = std::io::read_to_string(open).unwrap();
        all([old, fs::read_to_string(d.join("b")).unwrap()])
    }),
    ("a_file_without_a_name", |d| {
        use std::os::unix::fs::{FileExt, MetadataExt};
        let file: fs::File = open(d.join("a"), MAKE_NEW).unwrap().into();
        file.write_all_at(b"before", 0).unwrap();
        fs::remove_file(d.join("a")).unwrap();
        file.write_all_at(b"after!", 6).unwrap();
        let mut bytes = [0; 12];
        file.read_exact_at(&mut bytes, 0).unwrap();
        let metadata = file.metadata().unwrap();
        all([
            String::from_utf8_lossy(&bytes).into_owned(),
            format!("{} {}", metadata.nlink(), metadata.len()),
            told(file.set_len(3)),
            told(file.sync_all()),
            format!("{}", file.metadata().unwrap().len()),
            list(d),
        ])
    }),
    ("a_directory_without_a_name", |d| {
        mkdir(d.join("a")).unwrap();
        let open = open(d.join("a"), OFlags::RDONLY | OFlags::DIRECTORY).unwrap();
        rustix::fs::rmdir(d.join("a")).unwrap();
        all([
            said(rustix::fs::openat(&open, "f", MAKE, Mode::RUSR)),
            said(rustix::fs::mkdirat(&open, "g", Mode::RWXU)),
        ])
    }),
    ("list_many_and_remove_them_meanwhile", |d| {
        for n in 0..1000 {
            fs::write(d.join(format!("file-{n:04}-{}", "x".repeat(n % 60))), "").unwrap();
        }
        let mut names: Vec<_> = fs::read_dir(d).unwrap().map(|e| e.unwrap().file_name()).collect();
        names.sort();
        names.dedup();
        for entry in fs::read_dir(d).unwrap() {
            fs::remove_file(entry.unwrap().path()).unwrap();
        }
        format!("{} {:?} {}", names.len(), names.last(), list(d))
    }),
    ("list_from_the_middle_and_again", |d| {
        for n in 0..300 {
            fs::write(d.join(format!("{n}")), "").unwrap();
        }
        let mut dir = rustix::fs::Dir::read_from(fs::File::open(d).unwrap()).unwrap();
        let (mut names, mut middle) = (Vec::new(), 0);
        while let Some(entry) = dir.read() {
            let entry = entry.unwrap();
            names.push(entry.file_name().to_owned());
            if names.len() == 150 {
                middle = entry.offset();
            }
        }
        dir.seek(middle).unwrap();
        let again = dir.read().unwrap().unwrap().file_name() == &*names[150];
        dir.rewind();
        let first = dir.read().unwrap().unwrap().file_name() == &*names[0];
        format!("{} {again} {first}", names.len())
    }),
    ("dot_and_dot_dot", |d| {
        mkdir(d.join("a")).unwrap();
        let mut dir = rustix::fs::Dir::read_from(fs::File::open(d.join("a")).unwrap()).unwrap();
        let mut names = Vec::new();
        while let Some(entry) = dir.read() {
            names.push(entry.unwrap().file_name().to_owned());
        }
        names.sort();
        let up = fs::canonicalize(d.join("a/..")).unwrap() == fs::canonicalize(d).unwrap();
        format!("{names:?} {up}")
    }),
    ("mknod", |d| {
        use std::os::unix::fs::{FileTypeExt, MetadataExt};
        let made = [
            ("pipe", FileType::Fifo, 0),
            ("file", FileType::RegularFile, 0),
            ("socket", FileType::Socket, 0),
            ("device", FileType::CharacterDevice, rustix::fs::makedev(1, 3)),
            ("disk", FileType::BlockDevice, rustix::fs::makedev(7, 300)),
            ("pipe", FileType::Fifo, 0),
        ]
        .map(|(name, kind, device)| {
            let mode = Mode::from_raw_mode(0o640);
            let made = said(rustix::fs::mknodat(CWD, d.join(name), kind, mode, device));
            let Ok(seen) = fs::symlink_metadata(d.join(name)) else {
                return made;
            };
            let kind = seen.file_type();
            let kinds = [
                kind.is_fifo(),
                kind.is_socket(),
                kind.is_char_device(),
                kind.is_block_device(),
            ];
            format!("{made} {kinds:?} {:o} {:x}", seen.mode(), seen.rdev())
        });
        all(made)
    }),
    ("a_pipe_carries_bytes", |d| {
        rustix::fs::mknodat(CWD, d.join("pipe"), FileType::Fifo, Mode::RWXU, 0).unwrap();
        // For both, so opening it waits for no other process.
        let pipe = open(d.join("pipe"), OFlags::RDWR).unwrap();
        rustix::io::write(&pipe, b"through").unwrap();
        let mut bytes = [0; 7];
        all([
            with(rustix::io::read(&pipe, &mut bytes)),
            String::from_utf8_lossy(&bytes).into_owned(),
        ])
    }),
    ("what_a_file_was_not_opened_for", |d| {
        fs::write(d.join("a"), "text").unwrap();
        let read = open(d.join("a"), OFlags::RDONLY).unwrap();
        let write = open(d.join("a"), OFlags::WRONLY).unwrap();
        all([
            with(rustix::io::pread(&write, &mut [0; 4], 0)),
            with(rustix::io::pwrite(&read, b"x", 0)),
            with(rustix::io::pread(&read, &mut [0; 9], 0)),
            with(rustix::io::pwrite(&write, b"longer", 2)),
            said(rustix::fs::ftruncate(&read, 0)),
            said(rustix::fs::fallocate(
                &read,
                rustix::fs::FallocateFlags::empty(),
                0,
                4096,
            )),
        ])
    }),
];
