//! What is stored through shared maps: nobody waits for it but the kernel, which has told the program that it is there.

use super::{TestMount, folders, skip};
use crate::mount::errors::Small;
use rustix::process::Signal;
use std::fs;
use std::process::Command;

/// Runs a Python script, which can map files; what it prints, or `None`, and says why, where there is no Python.
pub(super) fn python(script: &str, arguments: &[&std::path::Path]) -> Option<String> {
    let output = Command::new("python3")
        .args(["-c", script])
        .args(arguments)
        .output();
    match output {
        Ok(output) => {
            let said = String::from_utf8_lossy(&output.stderr).into_owned();
            assert!(output.status.success(), "{said}");
            Some(String::from_utf8_lossy(&output.stdout).into_owned())
        }
        Err(error) => {
            skip(&format!("python3: {error}"));
            None
        }
    }
}

/// Two files on a full disk. The first has more than a quarter of what may be dirty, and fits into memory. The second does
/// not: its writer goes away, and who has it open beside him is told.
const FULL: &str = "
import errno, mmap, os, sys
mnt, ballast = sys.argv[1:]
def said(call, *args):
    try: call(*args); return 'ok'
    except OSError as error: return errno.errorcode[error.errno]
def fill(name, pages):
    fd = os.open(f'{mnt}/{name}', os.O_RDWR | os.O_CREAT)
    os.ftruncate(fd, pages * 4096)
    map = mmap.mmap(fd, pages * 4096)
    for n in range(pages): map[n * 4096:(n + 1) * 4096] = bytes([n % 251 + 1]) * 4096
    return fd, map
def stay(fd, pages):
    return sum(os.pread(fd, 4096, n * 4096) == bytes([n % 251 + 1]) * 4096 for n in range(pages))
fd, map = fill('fits', 600)
print('full:', said(os.fsync, fd), said(os.fsync, fd))
os.remove(ballast)
print('room:', said(os.setxattr, mnt, 'millpond.sync', b'1'), said(os.fsync, fd), stay(fd, 600))
size = os.statvfs(os.path.dirname(ballast))
with open(ballast, 'w') as file: os.posix_fallocate(file.fileno(), 0, (size.f_bavail - 16) * size.f_bsize)
fd, map = fill('not', 2300)
other = os.open(f'{mnt}/not', os.O_RDWR)
print('full:', said(map.flush))
map.close()
print('closed:', said(os.close, fd))
print('other:', said(os.fsync, other))
healthy = os.open(f'{mnt}/healthy', os.O_RDONLY)
print('healthy:', sum(len(os.pread(healthy, 4096, n * 4096)) for n in range(2100)))
os.remove(ballast)
print('room:', said(os.setxattr, mnt, 'millpond.sync', b'1'), said(os.fsync, other), said(os.close, other))
other = os.open(f'{mnt}/not', os.O_RDWR)
print('new:', said(os.fsync, other), said(os.close, other))
";

/// The kernel's write-back was refused above a quarter of what may be dirty, its pages were clean for it and gone for ever,
/// and when there was room the next sync said that all was well.
#[test]
fn stores_through_a_map_on_a_full_disk_are_kept_or_every_sync_reports_their_loss() {
    let Some(small) = Small::of("24m") else { return };
    let Some(mut mounted) = TestMount::start(&small.at, &["--memory", "8M"]) else {
        return;
    };
    fs::write(mounted.source().join("healthy"), vec![7; 2100 * 4096]).unwrap();
    let ballast = small.at.join("ballast");
    let full = || fs::write(&ballast, vec![7; 32 << 20]).unwrap_err();
    assert_eq!(full().raw_os_error(), Some(libc::ENOSPC));
    let Some(said) = python(FULL, &[&mounted.at(), &ballast]) else {
        return;
    };
    assert_eq!(
        said,
        "full: ENOSPC ENOSPC\nroom: ok ok 600\nfull: ENOSPC\nclosed: ENOSPC\nother: ENOSPC\nhealthy: 8601600\n\
         room: ok ENOSPC ENOSPC\nnew: ok ok\n"
    );
    // Who unmounts lazily will not be there at the end.
    assert!(!crate::mount::exit_report::serving(&mounted.at()).sync().unwrap());
    let (said, code) = mounted.end(Signal::TERM);
    assert_eq!(code, Some(1), "{said}");
    assert!(
        said.contains("src/not could not be kept in memory and are lost: No space"),
        "{said}"
    );
}

/// Stores more through a mapping than fits the disk, and gets the error.
const TOO_MUCH: &str = "
import mmap, os, sys
fd = os.open(sys.argv[1], os.O_RDWR | os.O_CREAT)
os.ftruncate(fd, 16 << 20)
map = mmap.mmap(fd, 16 << 20)
map[:] = b'x' * (16 << 20)
try: os.fsync(fd)
except OSError as error: print(error.errno)
map.close()
";

/// The file was closed, and with it what was known of the loss: `millpond umount` said that everything is on the disk.
#[test]
fn losses_of_a_map_without_a_cache_are_reported_at_the_end_though_its_file_is_closed() {
    let Some(small) = Small::new() else { return };
    let Some(mut mounted) = TestMount::start(&small.at, &["--no-cache"]) else {
        return;
    };
    let Some(said) = python(TOO_MUCH, &[&mounted.at().join("file")]) else {
        return;
    };
    assert_eq!(said, format!("{}\n", libc::ENOSPC));
    let (said, code) = mounted.end(Signal::TERM);
    assert_eq!(code, Some(1), "{said}");
}

/// One process writes all of a file but its last half page, another stores through a map into that half all the while.
pub(super) const RACE: &str = "
import mmap, os, sys
LEN, HALF = 1 << 20, 2048
fd = os.open(sys.argv[1], os.O_RDWR | os.O_CREAT)
os.ftruncate(fd, LEN)
map, flags = mmap.mmap(fd, LEN), mmap.mmap(-1, 4096)
if os.fork() == 0:
    n = 0
    while not flags[0]:
        n = n % 255 + 1
        map[LEN - 1] = n
    flags[1] = n
    os._exit(0)
lost = differ = 0
for n in range(300):
    bytes_ = bytes([n % 255 + 1]) * (LEN - HALF)
    os.pwrite(fd, bytes_, 0)
    lost += os.pread(fd, HALF, LEN - 2 * HALF) != bytes_[:HALF]
    differ += map[LEN - 2 * HALF:LEN - HALF] != bytes_[:HALF]
flags[0] = 1
os.wait()
print(lost, differ, os.pread(fd, 1, LEN - 1)[0] == flags[1])
";

/// The kernel drops its page before it sends a write and not behind it; a store in between brought the old page back and
/// later wrote the whole of it.
#[test]
fn a_write_beside_a_store_through_a_map_of_the_same_page_is_not_undone_by_it() {
    let Some(mut mounted) = TestMount::start(&folders()[0], &["--memory", "32M"]) else {
        return;
    };
    let Some(said) = python(RACE, &[&mounted.at().join("file")]) else {
        return;
    };
    assert_eq!(said, "0 0 True\n");
    let (said, code) = mounted.end(Signal::TERM);
    assert_eq!(code, Some(0), "{said}");
    let below = fs::read(mounted.source().join("file")).unwrap();
    let last = below.len() - 2048;
    assert!(below.len() == 1 << 20 && below[..last].iter().all(|&byte| byte == 45));
}

/// One process copies all of a file but its last half page from another, a second stores into that half through a map.
const COPY: &str = "
import mmap, os, sys
LEN = 1 << 18
source, target = (os.open(path, os.O_RDWR | os.O_CREAT) for path in sys.argv[1:])
os.pwrite(source, b's' * LEN, 0)
os.ftruncate(target, LEN)
map, flags = mmap.mmap(target, LEN), mmap.mmap(-1, 4096)
if os.fork() == 0:
    n = lost = 0
    while not flags[0]:
        n = n % 255 + 1
        map[LEN - 1] = n
        lost += map[LEN - 1] != n
    flags[1] = min(lost, 255)
    os._exit(0)
for n in range(300):
    done = 0
    while done < LEN - 2048:
        done += os.copy_file_range(source, target, LEN - 2048 - done, done, done)
flags[0] = 1
os.wait()
print(flags[1], os.pread(target, LEN - 2048, 0) == b's' * (LEN - 2048))
";

/// The kernel drops the whole pages at the edges of what was copied, after the answer.
#[test]
fn a_copy_beside_a_store_through_a_map_of_the_same_page_does_not_undo_it() {
    let Some(mounted) = TestMount::start(&folders()[0], &["--memory", "32M"]) else {
        return;
    };
    let Some(said) = python(
        COPY,
        &[&mounted.at().join("source"), &mounted.at().join("target")],
    ) else {
        return;
    };
    assert_eq!(said, "0 True\n");
}
