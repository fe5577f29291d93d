//! What is durable when a write returns: files are written in each way that there is, the process that serves them is
//! killed, and below is looked for what was promised.

use super::{TestMount, folders};
use rustix::fs::{Mode, OFlags};
use rustix::io::{Errno, ReadWriteFlags};
use std::fs::{self, File};
use std::io::IoSlice;
use std::os::unix::fs::FileExt;
use std::path::Path;

const BYTES: [u8; 4096] = [b'x'; 4096];
const PLACES: [u64; 3] = [0, 8192, 500_000];

/// Flags by the numbers of the kernel's headers; rustix' DSYNC is O_SYNC.
fn open(path: &Path, flags: i32) -> File {
    let flags = OFlags::from_bits_retain(flags as u32) | OFlags::RDWR;
    rustix::fs::open(path, flags, Mode::from_raw_mode(0o644))
        .unwrap()
        .into()
}

fn pwritev2(file: &File, offset: u64, flags: i32) -> rustix::io::Result<usize> {
    let flags = ReadWriteFlags::from_bits_retain(flags as u32);
    rustix::io::pwritev2(file, &[IoSlice::new(&BYTES)], offset, flags)
}

/// Its bytes that are not zeros.
fn written(path: &Path) -> usize {
    let bytes = fs::read(path).unwrap();
    bytes.into_iter().filter(|&byte| byte != 0).count()
}

/// O_DSYNC and RWF_DSYNC made nothing durable.
#[test]
fn writes_with_any_durability_flag_survive_a_kill_of_the_process() {
    const NEW: i32 = libc::O_CREAT | libc::O_EXCL;
    let ways = [
        ("O_DSYNC", NEW | libc::O_DSYNC, 0),
        ("O_SYNC", NEW | libc::O_SYNC, 0),
        ("O_RSYNC", NEW | libc::O_RSYNC, 0),
        ("O_DSYNC of what is there", libc::O_DSYNC, 0),
        ("O_SYNC of what is there", libc::O_SYNC, 0),
        ("O_DSYNC and O_DIRECT", NEW | libc::O_DSYNC | libc::O_DIRECT, 0),
        ("O_DSYNC and O_APPEND", NEW | libc::O_DSYNC | libc::O_APPEND, 0),
        ("O_DSYNC and O_TRUNC", libc::O_TRUNC | libc::O_DSYNC, 0),
        ("RWF_DSYNC", NEW, libc::RWF_DSYNC),
        ("RWF_SYNC", NEW, libc::RWF_SYNC),
        (
            "RWF_DSYNC and RWF_APPEND",
            NEW,
            libc::RWF_DSYNC | libc::RWF_APPEND,
        ),
    ];
    let Some(mut mounted) = TestMount::start(&folders()[0], &["--memory", "64M"]) else {
        return;
    };
    let (plain, copied) = (mounted.at().join("plain"), mounted.at().join("copied"));
    open(&plain, NEW).write_all_at(&BYTES, 0).unwrap();
    for (name, flags, write) in ways {
        let path = mounted.at().join(name);
        if flags & libc::O_CREAT == 0 {
            File::create_new(&path).unwrap();
        }
        let file = open(&path, flags);
        for place in PLACES {
            assert_eq!(pwritev2(&file, place, write), Ok(BYTES.len()), "{name}");
        }
    }
    // The kernel hands a copy on without the flags of the files.
    let target = open(&copied, NEW | libc::O_DSYNC);
    let source = File::open(&plain).unwrap();
    let sent = rustix::fs::copy_file_range(&source, None, &target, None, BYTES.len());
    assert_eq!(sent, Ok(BYTES.len()));
    mounted.kill();
    let below = |name: &str| written(&mounted.source().join(name));
    for (name, ..) in ways {
        assert_eq!(below(name), BYTES.len() * PLACES.len(), "{name}");
    }
    assert_eq!(below("copied"), BYTES.len());
}

/// Each flag of pwritev2(2), by its number, does what it says or is refused.
#[test]
fn each_flag_of_a_write_is_obeyed_or_refused() {
    let Some(mounted) = TestMount::start(&folders()[0], &["--memory", "64M"]) else {
        return;
    };
    let file = open(&mounted.at().join("file"), libc::O_CREAT);
    let appends = open(&mounted.at().join("file"), libc::O_APPEND);
    // Where the bytes are that were written at 8192 of a file with 4096: there, at its end, or nowhere.
    let (there, end, refused) = (Some(8192), Some(4096), None);
    for (name, file, flag, at) in [
        ("none", &file, 0, there),
        ("RWF_HIPRI", &file, libc::RWF_HIPRI, there),
        ("RWF_DSYNC", &file, libc::RWF_DSYNC, there),
        ("RWF_SYNC", &file, libc::RWF_SYNC, there),
        ("RWF_NOWAIT", &file, libc::RWF_NOWAIT, refused),
        ("RWF_APPEND", &file, libc::RWF_APPEND, end),
        ("RWF_NOAPPEND", &file, libc::RWF_NOAPPEND, there),
        ("none, O_APPEND", &appends, 0, end),
        ("RWF_NOAPPEND, O_APPEND", &appends, libc::RWF_NOAPPEND, there),
        ("RWF_ATOMIC", &file, libc::RWF_ATOMIC, refused),
        ("RWF_DONTCACHE", &file, libc::RWF_DONTCACHE, refused),
    ] {
        file.set_len(0).unwrap();
        file.set_len(4096).unwrap();
        let wrote = pwritev2(file, 8192, flag);
        let bytes = fs::read(mounted.at().join("file")).unwrap();
        let first = bytes.iter().position(|&byte| byte != 0);
        match at {
            // Older kernels do not know all of them.
            _ if wrote == Err(Errno::OPNOTSUPP) => assert_eq!(first, None, "{name}"),
            None => panic!("{name}: {wrote:?}, bytes at {first:?}"),
            Some(at) => assert_eq!((wrote, first), (Ok(4096), Some(at)), "{name}"),
        }
    }
}
