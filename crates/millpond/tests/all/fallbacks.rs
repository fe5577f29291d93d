//! Hosts that allow little. Each thing that can be missing is taken away for real (by a seccomp filter on a thread, by
//! a limit or a mount of a child), and then the engine does a real job: writes more than fits into memory with an odd
//! end, syncs, reads it back, changes it, and what is in the file is compared by another way.

#![allow(
    clippy::unwrap_used,
    clippy::print_stdout,
    reason = "a test fails by panicking, and says why it was skipped"
)]

use crate::refuse::{Refusal, advice, always, direct, dont_cache, where_refused};
use crate::support::{Place, skip};
#[allow(dead_code, reason = "each suite uses a part")]
use millpond::Notice;
use millpond::host::{RingRefusal, SmallPages};
use millpond::{Builder, OpenOptions, PageCache};
use rustix::io::ReadWriteFlags;
use rustix::process::{Resource, Rlimit};
use rustix::thread::CapabilitySet;
use std::fs::File;
use std::io::IoSliceMut;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::{Arc, Mutex};

const MEMORY: u64 = 1 << 20;
/// Three times the memory, and a bit.
const LEN: usize = 3 * MEMORY as usize + 1234;

/// The task of a child of this test, and its folder.
const CHILD: &str = "MILLPOND_FALLBACK_CHILD";
const FOLDER: &str = "MILLPOND_FALLBACK_FOLDER";

/// A real job on a file in `folder`. Gives what the cache said, and the path.
fn job(builder: Builder, folder: &Path) -> (PageCache, PathBuf) {
    let cache = builder.memory(MEMORY).build().unwrap();
    let path = folder.join("pond");
    let file = cache.open(&path, OpenOptions::new().create(true)).unwrap();
    let mut expected: Vec<u8> = (0..LEN).map(|n| (n / 4096 + n) as u8).collect();
    for (n, part) in expected.chunks(100_000).enumerate() {
        file.write_at(part, n as u64 * 100_000).unwrap();
    }
    file.sync_data().unwrap();
    let mut read = vec![0; LEN + 1];
    assert_eq!(file.read_at(&mut read, 0).unwrap(), LEN);
    assert!(
        read[..LEN] == expected,
        "what is read back is not what was written"
    );
    assert!(
        !file.is_resident(0),
        "memory is a third of the file, so its begin has left"
    );
    expected[5000..5005].copy_from_slice(b"pond!");
    file.page_mut(1).unwrap()[904..909].copy_from_slice(b"pond!");
    let len = expected.len();
    expected[len - 3..].copy_from_slice(b"end");
    file.write_at(b"end", len as u64 - 3).unwrap();
    file.close().unwrap();
    assert!(
        std::fs::read(&path).unwrap() == expected,
        "the file does not hold what was written"
    );
    (cache, path)
}

/// The job with everything that the cache says, through the hook and in the list.
fn notices(folder: &Path) -> (PageCache, Vec<Notice>) {
    let told = Arc::new(Mutex::new(Vec::new()));
    let hear = told.clone();
    let builder = PageCache::builder().on_notice(move |notice| hear.lock().unwrap().push(notice.clone()));
    let (cache, path) = job(builder, folder);
    // A second file of the same place says nothing new.
    drop(
        cache
            .open(path.with_extension("2"), OpenOptions::new().create(true))
            .unwrap(),
    );
    let told = told.lock().unwrap().clone();
    assert_eq!(told, cache.notices());
    for notice in &told {
        let line = notice.to_string();
        assert!(!line.contains('\n') && line.contains(&notice.mend()), "{line}");
    }
    (cache, told)
}

/// The notices of this host itself, which a test of something else must tolerate.
fn usual(folder: &Path) -> Vec<Notice> {
    notices(folder).1
}

/// The notices not in `usual`.
fn beyond(usual: &[Notice], told: Vec<Notice>) -> Vec<Notice> {
    told.into_iter()
        .filter(|notice| !usual.contains(notice))
        .collect()
}

fn has_ring(usual: &[Notice]) -> bool {
    let missing = usual.iter().find(|notice| matches!(notice, Notice::NoRing(_)));
    if let Some(notice) = missing {
        skip(notice);
    }
    missing.is_none()
}

fn setup(errno: i32) -> Refusal {
    always(libc::SYS_io_uring_setup, errno)
}

#[test]
fn without_io_uring_threads_do_the_job_and_a_notice_gives_the_cause() {
    let folder = Place::Disk.folder();
    let usual = usual(folder.path());
    if !has_ring(&usual) {
        return;
    }
    let filter = |call, errno| RingRefusal::Filter { call, errno };
    let (enter, register) = (libc::SYS_io_uring_enter, libc::SYS_io_uring_register);
    let table = [
        (setup(libc::ENOSYS), filter("io_uring_setup", libc::ENOSYS)),
        (setup(libc::EPERM), filter("io_uring_setup", libc::EPERM)),
        (
            setup(libc::EMFILE),
            RingRefusal::Other {
                call: "io_uring_setup",
                errno: libc::EMFILE,
            },
        ),
        (
            always(register, libc::EPERM),
            filter("io_uring_register", libc::EPERM),
        ),
        (always(enter, libc::EPERM), filter("io_uring_enter", libc::EPERM)),
    ];
    for (refusal, expected) in table {
        let (cache, told) = where_refused(&[refusal], || notices(folder.path()));
        assert_eq!(beyond(&usual, told), [Notice::NoRing(expected.clone())]);
        assert_eq!(cache.stats().device, format!("thread pool: {expected}"));
    }
}

#[test]
fn without_direct_io_transfers_go_through_the_page_cache_with_a_notice() {
    let folder = Place::Disk.folder();
    let usual = usual(folder.path());
    if usual
        .iter()
        .any(|notice| matches!(notice, Notice::NoDirect { .. }))
    {
        return skip("the temporary folder has no O_DIRECT anyway");
    }
    let told = where_refused(&[direct()], || notices(folder.path()).1);
    let told = beyond(&usual, told);
    let Notice::NoDirect { path, why } = &told[0] else {
        panic!("{told:?}")
    };
    assert_eq!(*path, folder.path().join("pond"));
    assert_eq!(why, "Invalid argument (os error 22)");
    // The second is there on a kernel before 6.14.
    assert!(told.len() == 1 || told[1..] == [Notice::NoDontCache { path: path.clone() }]);
}

#[test]
fn without_a_flag_for_it_what_the_kernel_cached_is_dropped_by_advice() {
    let folder = Place::Disk.folder();
    let usual = usual(folder.path());
    let [read, write] = dont_cache();
    let (cache, told) = where_refused(&[direct(), read, write], || notices(folder.path()));
    let path = folder.path().join("pond");
    let last = beyond(&usual, told).pop();
    assert_eq!(last, Some(Notice::NoDontCache { path: path.clone() }));
    drop(cache);
    // Reading it by another way has filled the page cache; opening, changing and syncing the file empties it.
    where_refused(&[direct(), read, write], || {
        let cache = PageCache::builder().on_notice(|_| {}).build().unwrap();
        let file = cache.open(&path, OpenOptions::new().write(true)).unwrap();
        file.page_mut(7).unwrap()[0] = 1;
        file.sync_data().unwrap();
    });
    let file = File::open(&path).unwrap();
    for page in [0_u64, 7, 700] {
        let mut byte = [0];
        let ranges = &mut [IoSliceMut::new(&mut byte)];
        match rustix::io::preadv2(&file, ranges, page * 4096, ReadWriteFlags::NOWAIT) {
            Err(error) if error == rustix::io::Errno::AGAIN => {}
            Err(error) => return skip(format_args!("whether a page is cached is not said here: {error}")),
            Ok(_) => panic!("page {page} is in the kernel's page cache"),
        }
    }
}

#[test]
fn without_huge_pages_small_ones_serve_with_a_notice() {
    let folder = Place::Disk.folder();
    let usual = usual(folder.path());
    if usual
        .iter()
        .any(|notice| matches!(notice, Notice::NoHugePages(_)))
    {
        return skip("there are no huge pages anyway");
    }
    let (cache, told) = where_refused(&[advice(libc::MADV_HUGEPAGE)], || notices(folder.path()));
    let why = SmallPages::Refused { errno: libc::EINVAL };
    assert_eq!(beyond(&usual, told), [Notice::NoHugePages(why)]);
    assert!(!cache.stats().is_huge);
}

#[test]
fn a_file_in_memory_does_the_job_whether_or_not_it_takes_direct_io() {
    let (disk, memory) = (Place::Disk.folder(), Place::Memory.folder());
    let told = beyond(&usual(disk.path()), notices(memory.path()).1);
    for notice in told {
        assert!(
            matches!(notice, Notice::NoDirect { .. } | Notice::NoDontCache { .. }),
            "{notice}"
        );
    }
}

/// Not a test: what the children do.
#[test]
fn the_child_does_what_it_is_told() {
    let (Ok(what), Ok(folder)) = (std::env::var(CHILD), std::env::var(FOLDER)) else {
        return;
    };
    match what.as_str() {
        "job" => {}
        "switched off" => crate::refuse::refuse(&[setup(libc::EPERM)]),
        "old kernel" => {
            let [read, write] = dont_cache();
            // Flags, operations and advice that came after Linux 5.10.
            crate::refuse::refuse(&[
                setup(libc::EINVAL),
                advice(libc::MADV_POPULATE_WRITE),
                read,
                write,
            ]);
        }
        "small pages" => rustix::thread::disable_transparent_huge_pages(true).unwrap(),
        limited if limited.ends_with(" bytes locked") => {
            let bytes = limited.split_once(' ').unwrap().0.parse().unwrap();
            let mut sets = rustix::thread::capabilities(None).unwrap();
            sets.effective.remove(CapabilitySet::IPC_LOCK);
            sets.permitted.remove(CapabilitySet::IPC_LOCK);
            rustix::thread::set_capabilities(None, sets).unwrap();
            let limit = Rlimit {
                current: Some(bytes),
                maximum: Some(bytes),
            };
            rustix::process::setrlimit(Resource::Memlock, limit).unwrap();
        }
        other => panic!("{other}?"),
    }
    let (cache, _) = job(PageCache::builder(), Path::new(&folder));
    // Again, and nothing is printed twice.
    job(PageCache::builder(), Path::new(&folder));
    println!("device: {}", cache.stats().device);
}

/// This test again as a child, after `prepare`, a shell's commands, in a mount namespace of its own if there are any.
/// What it printed on stderr for Millpond, and the device; `None` where the system allows no such namespace.
fn child(what: &str, folder: &Path, prepare: &str) -> Option<(Vec<String>, String)> {
    let this = std::env::current_exe().unwrap();
    let mut command = if prepare.is_empty() {
        Command::new(&this)
    } else {
        let mut command = Command::new("unshare");
        if !rustix::process::geteuid().is_root() {
            command.arg("--map-root-user");
        }
        let script = format!("set -e\n{prepare}\nexec \"$@\"");
        command.args(["--mount", "sh", "-c", &script, "sh"]).arg(&this);
        command
    };
    command.args([
        "--exact",
        "fallbacks::the_child_does_what_it_is_told",
        "--nocapture",
    ]);
    command
        .env(CHILD, what)
        .env(FOLDER, folder)
        .env("RUST_TEST_THREADS", "1");
    let Output {
        status,
        stdout,
        stderr,
    } = match command.output() {
        Ok(output) => output,
        Err(error) => {
            skip(format_args!("no unshare(1): {error}"));
            return None;
        }
    };
    let (stdout, stderr) = (String::from_utf8_lossy(&stdout), String::from_utf8_lossy(&stderr));
    let began = stdout.contains("running 1 test");
    if !began && !prepare.is_empty() {
        skip(format_args!("no mounts of one's own: {}", stderr.trim()));
        return None;
    }
    assert!(status.success(), "{what}: {status}\n{stdout}\n{stderr}");
    let said = stderr.lines().filter_map(|line| line.strip_prefix("millpond: "));
    let device = stdout
        .lines()
        .find_map(|line| Some(line.split_once("device: ")?.1));
    Some((said.map(str::to_owned).collect(), device.unwrap().to_owned()))
}

/// The children's notices on this host itself.
fn usual_lines(folder: &Path) -> Vec<String> {
    child("job", folder, "").unwrap().0
}

#[test]
fn a_file_system_that_refuses_direct_io_is_told_once_on_stderr() {
    let folder = tempfile::tempdir().unwrap();
    let usual = usual_lines(folder.path());
    // Ramfs has neither direct I/O nor RWF_DONTCACHE.
    let mount = format!("mount -t ramfs none {}", folder.path().display());
    let Some((mut said, _)) = child("job", folder.path(), &mount) else {
        return;
    };
    said.retain(|line| !usual.contains(line));
    let pond = folder.path().join("pond").display().to_string();
    assert_eq!(
        said,
        [
            format!(
                "direct I/O on {pond} is refused (Invalid argument (os error 22)): transfers go through the kernel's page \
                 cache, outside the budget; put the file on ext4, xfs or btrfs"
            ),
            format!(
                "buffered I/O on {pond} can't bypass the page cache (no RWF_DONTCACHE): what the kernel has cached is \
                 dropped by advice, written pages only when they are synced; use Linux 6.14 with ext4, xfs or btrfs, \
                 or a file system with direct I/O"
            ),
        ]
    );
}

/// Direct I/O was given up, since the file was opened for it by its link in /proc, and ext4 was told to be the cause.
#[test]
fn without_proc_direct_io_is_had_by_the_files_name() {
    let folder = Place::Disk.folder();
    let usual = usual_lines(folder.path());
    let Some((mut said, _)) = child("job", folder.path(), "umount -l /proc") else {
        return;
    };
    said.retain(|line| !usual.contains(line));
    assert_eq!(said, [""; 0]);
}

#[test]
fn a_switch_of_the_administrator_is_named() {
    let folder = Place::Disk.folder();
    let usual = usual_lines(folder.path());
    let file = folder.path().join("switch");
    for (value, cause, mend) in [
        (
            "1",
            "no group may use io_uring (sysctl kernel.io_uring_disabled is 1)",
            "join the group of sysctl \
          kernel.io_uring_group, or set kernel.io_uring_disabled=0",
        ),
        (
            "2",
            "io_uring is switched off (sysctl kernel.io_uring_disabled is 2)",
            "set sysctl kernel.io_uring_disabled=0",
        ),
    ] {
        std::fs::write(&file, value).unwrap();
        // The real switch is the whole machine's; so the answer is a filter's and the file is ours.
        let mount = format!(
            "mount --bind {} /proc/sys/kernel/io_uring_disabled",
            file.display()
        );
        let Some((mut said, device)) = child("switched off", folder.path(), &mount) else {
            return;
        };
        said.retain(|line| !usual.contains(line));
        assert_eq!(
            said,
            [format!("{cause}: threads do the transfers, 32 at a time; {mend}")]
        );
        assert_eq!(device, format!("thread pool: {cause}"));
    }
}

#[test]
fn a_kernel_before_5_19_does_the_job_with_threads_and_is_named() {
    let folder = Place::Disk.folder();
    let usual = usual_lines(folder.path());
    let file = folder.path().join("release");
    std::fs::write(&file, "5.10.0-42-amd64\n").unwrap();
    let mount = format!("mount --bind {} /proc/sys/kernel/osrelease", file.display());
    let Some((mut said, _)) = child("old kernel", folder.path(), &mount) else {
        return;
    };
    said.retain(|line| !usual.contains(line));
    assert_eq!(
        said[0],
        "the io_uring of Linux 5.10 is too old: threads do the transfers, 32 at a time; use Linux 5.19 or newer"
    );
}

#[test]
fn huge_pages_that_are_switched_off_for_the_process_are_named() {
    let folder = Place::Disk.folder();
    let usual = usual_lines(folder.path());
    if usual.iter().any(|line| line.contains("huge pages")) {
        return skip("there are no huge pages anyway");
    }
    let (mut said, _) = child("small pages", folder.path(), "").unwrap();
    said.retain(|line| !usual.contains(line));
    assert_eq!(
        said,
        [
            "huge pages are switched off for this process: frames are in small pages, and hits on a large set take two to \
          three times as long; start the program without prctl(PR_SET_THP_DISABLE)"
        ]
    );
}

#[test]
fn a_limit_of_locked_memory_that_is_too_low_for_a_ring_is_named() {
    let folder = Place::Disk.folder();
    let usual = child("job", folder.path(), "").unwrap();
    if usual.1 != "io_uring" {
        return skip(usual.1);
    }
    // What the kernel gives every user since Linux 5.16.
    assert_eq!(child("8388608 bytes locked", folder.path(), "").unwrap(), usual);
    let (mut said, device) = child("0 bytes locked", folder.path(), "").unwrap();
    if device == "io_uring" {
        return skip("this kernel does not count rings as locked memory");
    }
    said.retain(|line| !usual.0.contains(line));
    let cause = "io_uring cannot allocate its ring (ENOMEM): only 0 bytes may be locked";
    assert_eq!(
        said,
        [format!(
            "{cause}: threads do the transfers, 32 at a time; raise the limit of locked memory (ulimit -l)"
        )]
    );
    assert_eq!(device, format!("thread pool: {cause}"));
}

/// It was read as a limit of 0 bytes, so that nothing could be written.
#[test]
fn a_limit_of_lengths_that_can_not_be_asked_for_is_none() {
    let folder = Place::Disk.folder();
    where_refused(&[always(libc::SYS_prlimit64, libc::EPERM)], || {
        job(PageCache::builder(), folder.path());
    });
}

/// The message said that userfaultfd was missing.
#[test]
fn refusals_are_named_with_their_remedy() {
    for (call, name) in [
        (libc::SYS_eventfd2, "eventfd2"),
        (libc::SYS_epoll_create1, "epoll_create1"),
        (libc::SYS_madvise, "madvise"),
    ] {
        let built = where_refused(&[always(call, libc::EPERM)], || {
            let builder = PageCache::builder()
                .memory(MEMORY)
                .mappings(true)
                .on_notice(|_| {});
            builder.build().map(drop)
        });
        let why = built.unwrap_err().to_string();
        let is_named = why.contains(&format!("{name} is refused")) && why.contains("seccomp");
        // Where there is no userfaultfd, that is.
        assert!(is_named || why.contains("needs userfaultfd"), "{why}");
    }
}

/// A filter that refuses to give memory back was not reported, and the cache kept the memory.
#[test]
fn a_cache_that_can_give_no_memory_back_is_refused_and_names_the_call() {
    // MADV_DONTNEED_LOCKED does for all memory, from Linux 5.18 on.
    let errno = libc::EPERM;
    let refused = [libc::MADV_DONTNEED, 24].map(|which| Refusal {
        errno,
        ..advice(which)
    });
    for mappings in [false, true] {
        let builder = PageCache::builder().memory(MEMORY).mappings(mappings);
        let built = where_refused(&refused, || builder.on_notice(|_| {}).build().map(drop));
        let why = built.unwrap_err().to_string();
        let is_named = why.contains("madvise (MADV_DONTNEED) is refused") && why.contains("seccomp");
        assert!(is_named || why.contains("needs userfaultfd"), "{why}");
    }
    let folder = Place::Disk.folder();
    where_refused(&refused[..1], || job(PageCache::builder(), folder.path()));
}
