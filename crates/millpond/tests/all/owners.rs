//! The other users of a file: other caches of the process, other processes, and the program itself with its
//! locks.

#![allow(
    clippy::unwrap_used,
    clippy::print_stdout,
    reason = "a test fails by panicking, and says why it was skipped"
)]

use crate::refuse::{direct, where_refused};
use crate::support::{Place, bounded, skip};
#[allow(dead_code, reason = "each suite uses a part")]
use millpond::Notice;
use millpond::{Error, OpenOptions, PageCache, SwapFile};
use rustix::fs::{FlockOperation, fcntl_lock};
use std::fs::File;
use std::io::{BufRead, BufReader, ErrorKind};
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::process::{Command, Stdio};

/// The file that a child of this test opens for itself alone.
const CHILD: &str = "MILLPOND_OWNERS_CHILD";
/// The file that a child of this test locks.
const LOCKER: &str = "MILLPOND_OWNERS_LOCKER";

fn cache() -> PageCache {
    let builder = PageCache::builder().memory(2 << 20).on_notice(|_| {});
    builder.build().unwrap()
}

fn write() -> OpenOptions {
    OpenOptions::new().create(true)
}

fn why<T>(opened: Result<T, Error>) -> (ErrorKind, String) {
    match opened.err() {
        Some(Error::Open { source, .. }) => (source.kind(), source.to_string()),
        other => panic!("{other:?}"),
    }
}

/// Each wrote its own pages over the other's, and both said that all was on the disk.
#[test]
fn a_second_cache_that_opens_a_file_for_writing_is_refused_by_whatever_name_unless_it_says_so() {
    bounded(|| {
        let folder = Place::Disk.folder();
        let (path, other_name) = (folder.path().join("data"), folder.path().join("link"));
        let (one, two) = (cache(), cache());
        let file = one.open(&path, write()).unwrap();
        file.write_at(&[1; 10], 0).unwrap();
        std::fs::hard_link(&path, &other_name).unwrap();
        let handle = || {
            std::fs::OpenOptions::new()
                .read(true)
                .write(true)
                .open(&path)
                .unwrap()
        };
        for refused in [two.open(&other_name, write()), two.open_file(handle(), write())] {
            let (kind, said) = why(refused);
            assert_eq!(kind, ErrorKind::ResourceBusy, "{said}");
            assert!(said.contains("another cache of this process"), "{said}");
        }
        // The same cache may, any cache may for reading, and a refused open leaves nothing.
        drop(one.open(&other_name, write()).unwrap());
        let reading = two.open(&path, OpenOptions::new()).unwrap();
        assert_eq!(why(two.open(&path, write())).0, ErrorKind::ResourceBusy);
        drop(reading);
        assert!(
            two.notices()
                .iter()
                .all(|n| !matches!(n, Notice::WrittenTwice { .. }))
        );
        let beside = two.open(&path, write().beside_other_caches(true)).unwrap();
        let told = |n: &Notice| matches!(n, Notice::WrittenTwice { path: of } if *of == path);
        assert!(two.notices().iter().any(told), "{:?}", two.notices());
        drop((file, beside));
        // The last handle is gone, and with it the first cache's claim.
        let next = two.open(&path, write()).unwrap();
        assert_eq!(next.read_at(&mut [0; 20], 0).unwrap(), 10);
        assert_eq!(why(one.open(&path, write())).0, ErrorKind::ResourceBusy);
        drop(next);
        one.open(&path, write()).unwrap();
    });
}

/// Not a test: what the child does.
#[test]
fn the_child_opens_what_it_is_told_for_itself_alone() {
    let Ok(path) = std::env::var(CHILD) else { return };
    let (kind, said) = why(cache().open(path, write().exclusive(true)));
    assert_eq!(kind, ErrorKind::WouldBlock, "{said}");
    println!("said: {said}");
}

/// Two databases on one file in one cache each wrote over the other's pages.
#[test]
fn a_second_exclusive_open_in_the_same_cache_is_refused_while_the_first_handle_or_a_clone_lives() {
    bounded(|| {
        let folder = Place::Disk.folder();
        let path = folder.path().join("data");
        let cache = cache();
        let exclusive = || cache.open(&path, OpenOptions::new().create(true).exclusive(true));
        let first = exclusive().unwrap();
        let beside = cache.open(&path, write()).unwrap();
        let (kind, said) = why(exclusive());
        assert_eq!(kind, ErrorKind::WouldBlock, "{said}");
        let clone = first.clone();
        first.close().unwrap();
        assert_eq!(why(exclusive()).0, ErrorKind::WouldBlock, "a clone lives");
        drop(clone);
        // The file stayed open, and locked for others.
        let again = exclusive().unwrap();
        drop(again);
        drop(beside);
        exclusive().unwrap();
    });
}

#[test]
fn a_file_for_one_cache_alone_is_locked_for_other_processes_until_its_last_handle_is_dropped() {
    bounded(|| {
        let folder = Place::Disk.folder();
        let path = folder.path().join("data");
        let (one, two) = (cache(), cache());
        let refused = why(one.open(&path, OpenOptions::new().exclusive(true)));
        assert_eq!(refused.0, ErrorKind::InvalidInput, "{refused:?}");
        // Asked for by a second handle, of a file that was open for reading at first.
        std::fs::write(&path, [7; 100]).unwrap();
        let reading = one.open(&path, OpenOptions::new()).unwrap();
        let file = one.open(&path, write()).unwrap();
        drop(one.open(&path, write().exclusive(true)).unwrap());
        let child = Command::new(std::env::current_exe().unwrap())
            .args([
                "--exact",
                "--nocapture",
                "owners::the_child_opens_what_it_is_told_for_itself_alone",
            ])
            .env(CHILD, &path)
            .output()
            .unwrap();
        let said = String::from_utf8_lossy(&child.stdout);
        assert!(
            child.status.success() && said.contains("said: another cache or program"),
            "{said}"
        );
        let beside = || two.open(&path, write().beside_other_caches(true).exclusive(true));
        assert_eq!(why(beside()).0, ErrorKind::WouldBlock);
        drop((file, reading));
        drop(beside().unwrap());
        // The process that has it locked already is named.
        let own = File::options().read(true).write(true).open(&path).unwrap();
        fcntl_lock(&own, FlockOperation::NonBlockingLockExclusive).unwrap();
        let (kind, said) = why(beside());
        assert_eq!(kind, ErrorKind::WouldBlock);
        assert!(said.starts_with("this process, by fcntl,"), "{said}");
    });
}

/// Whether this process has the whole file locked, as the kernel lists it. A list in several pieces leaves out a lock where
/// others come and go between them: it is looked at more than once.
fn is_locked(file: &File) -> Option<bool> {
    let listed = (0..20).map_while(|_| is_listed(file));
    listed.reduce(|one, other| one || other)
}

fn is_listed(file: &File) -> Option<bool> {
    let locks = std::fs::read_to_string("/proc/locks").ok()?;
    let (process, inode) = (
        std::process::id().to_string(),
        file.metadata().ok()?.ino().to_string(),
    );
    let is_ours = |line: &str| {
        let words: Vec<_> = line.split_whitespace().collect();
        let at = |n: usize| words.get(n).copied().unwrap_or_default();
        at(1) == "POSIX" && at(4) == process && at(5).rsplit(':').next() == Some(&*inode)
    };
    Some(locks.lines().any(is_ours))
}

fn descriptors(path: &Path) -> usize {
    let all = std::fs::read_dir("/proc/self/fd").unwrap();
    let is_one = |fd: &std::fs::DirEntry| std::fs::read_link(fd.path()).is_ok_and(|to| to == path);
    all.filter(|fd| fd.as_ref().is_ok_and(is_one)).count()
}

/// A lock by `fcntl` is gone when the process closes any descriptor of the file. Opening it a second time did that, and so
/// did measuring the disk and dropping the last handle.
#[test]
fn the_programs_own_locks_of_a_file_outlive_what_a_cache_does_with_it() {
    bounded(|| {
        let folder = Place::Disk.folder();
        let path = folder.path().join("data");
        std::fs::write(&path, vec![7; 2 << 20]).unwrap();
        let own = File::options().read(true).write(true).open(&path).unwrap();
        fcntl_lock(&own, FlockOperation::NonBlockingLockExclusive).unwrap();
        if is_locked(&own) != Some(true) {
            return skip("the kernel does not list locks here");
        }
        let holds = |what: &str| assert_eq!(is_locked(&own), Some(true), "lost: {what}");
        for round in 0..3 {
            let cache = cache();
            // The disk is measured; the file is opened again, for more and by a descriptor; refused; closed.
            let reading = cache.open(&path, OpenOptions::new()).unwrap();
            holds("opening");
            let writing = cache.open(&path, write()).unwrap();
            holds("opening for writing");
            drop(cache.open(&path, write()).unwrap());
            holds("opening once more");
            drop(cache.open_file(own.try_clone().unwrap(), write()).unwrap());
            holds("taking an open file");
            why(cache.open(&path, write().exclusive(true)));
            holds("a refusal");
            writing.write_at(&[8; 100], 0).unwrap();
            writing.sync_data().unwrap();
            drop((reading, writing, cache));
            holds("closing");
            // Those that are kept are used again, two for reading, two for writing and one for what was given; but not what was
            // given.
            let kept = descriptors(&path);
            assert!(kept <= 7 + round, "{kept} descriptors after {round} rounds");
        }
        fcntl_lock(&own, FlockOperation::NonBlockingUnlock).unwrap();
        drop(cache().open(folder.path().join("other"), write()).unwrap());
        assert_eq!(descriptors(&path), 1, "kept for no lock");
    });
}

/// A shortage for a moment was taken for a file system without direct I/O, for as long as the file was open.
#[test]
fn running_out_of_descriptors_for_direct_io_is_an_error_that_can_be_retried() {
    let folder = Place::Disk.folder();
    let path = folder.path().join("data");
    let mut shortage = direct();
    shortage.errno = libc::EMFILE;
    let cache = cache();
    let opened = where_refused(&[shortage], || cache.open(&path, write()));
    let error = opened.unwrap_err();
    assert_eq!(error.errno(), libc::EMFILE, "{error}");
    assert!(
        cache
            .notices()
            .iter()
            .all(|n| !matches!(n, Notice::NoDirect { .. }))
    );
    cache.open(&path, write()).unwrap();
}

/// The file is the cache's own; a program that wrote it as a file wrote over pages of regions.
#[test]
fn a_swap_file_opens_as_no_file_and_a_file_that_is_written_is_no_swap() {
    let folder = Place::Disk.folder();
    let (swap, data) = (folder.path().join("swap"), folder.path().join("data"));
    let with_swap = |path: &Path| {
        let builder = PageCache::builder()
            .memory(4 << 20)
            .swap(SwapFile::new(path, 8 << 20));
        builder.on_notice(|_| {}).build()
    };
    let one = match with_swap(&swap) {
        Err(error @ Error::Setup { .. }) => return skip(error),
        built => built.unwrap(),
    };
    for cache in [&one, &cache()] {
        for options in [OpenOptions::new(), write()] {
            let (kind, said) = why(cache.open(&swap, options));
            assert!(
                kind == ErrorKind::ResourceBusy && said.contains("swap file"),
                "{said}"
            );
        }
    }
    let file = cache().open(&data, write()).unwrap();
    let refused = with_swap(&data).map(drop).unwrap_err();
    assert!(matches!(refused, Error::Swap { .. }), "{refused}");
    drop((file, one));
    drop(cache().open(&swap, OpenOptions::new()).unwrap());
}

/// Writes through it went to the end of the file, wherever they were meant to go.
#[test]
fn an_open_file_that_appends_and_is_kept_for_a_lock_is_never_written_through() {
    let folder = Place::Disk.folder();
    let path = folder.path().join("data");
    // Its end goes through the page cache.
    std::fs::write(&path, [1; 8300]).unwrap();
    let own = File::options().read(true).write(true).open(&path).unwrap();
    fcntl_lock(&own, FlockOperation::NonBlockingLockExclusive).unwrap();
    let appending = File::options().read(true).append(true).open(&path).unwrap();
    let cache = cache();
    drop(cache.open_file(appending, OpenOptions::new()).unwrap());
    let file = cache.open(&path, write()).unwrap();
    file.write_at(&[2; 10], 4).unwrap();
    file.write_at(&[3; 10], 8280).unwrap();
    file.sync_data().unwrap();
    drop(file);
    let is = std::fs::read(&path).unwrap();
    let is_so = is.len() == 8300 && is[4..14] == [2; 10] && is[8280..8290] == [3; 10];
    assert!(is_so, "{} bytes", is.len());
}

/// Not a test: what the child does.
#[test]
fn the_child_locks_what_it_is_told_until_it_hears_no_more() {
    let Ok(path) = std::env::var(LOCKER) else { return };
    let file = File::options().read(true).write(true).open(path).unwrap();
    fcntl_lock(&file, FlockOperation::NonBlockingLockShared).unwrap();
    println!("locked");
    std::io::stdin().read_line(&mut String::new()).unwrap();
}

/// Each cycle left a descriptor behind, until there were none left: a mount takes every file so.
#[test]
fn a_lock_of_another_process_keeps_no_descriptor_and_hides_no_lock_of_this_one() {
    let folder = Place::Disk.folder();
    let path = folder.path().join("data");
    std::fs::write(&path, [1; 8192]).unwrap();
    let mut child = Command::new(std::env::current_exe().unwrap())
        .args([
            "--exact",
            "--nocapture",
            "owners::the_child_locks_what_it_is_told_until_it_hears_no_more",
        ])
        .env(LOCKER, &path)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut said = BufReader::new(child.stdout.take().unwrap()).lines();
    assert!(said.any(|line| line.unwrap().contains("locked")));
    let take = || {
        let given = File::options().read(true).write(true).open(&path).unwrap();
        drop(cache().open_file(given, OpenOptions::new()).unwrap());
    };
    (0..3).for_each(|_| take());
    let kept = descriptors(&path);
    // The kernel names one of those that have a lock, and the other came first.
    let own = File::open(&path).unwrap();
    fcntl_lock(&own, FlockOperation::NonBlockingLockShared).unwrap();
    let could_look = is_locked(&own) == Some(true);
    take();
    let is_lost = is_locked(&own) == Some(false);
    drop(child.stdin.take());
    child.wait().unwrap();
    match could_look {
        true => assert!(!is_lost, "its own lock"),
        false => skip("the kernel does not list locks here"),
    }
    assert_eq!(kept, 0);
}

/// The check whether the file could be swap closed it again.
#[test]
fn a_file_that_is_refused_as_swap_keeps_the_programs_lock() {
    let folder = Place::Disk.folder();
    let path = folder.path().join("data");
    std::fs::write(&path, [1; 8192]).unwrap();
    let own = File::options().read(true).write(true).open(&path).unwrap();
    fcntl_lock(&own, FlockOperation::NonBlockingLockExclusive).unwrap();
    if is_locked(&own) != Some(true) {
        return skip("the kernel does not list locks here");
    }
    let swap = SwapFile::new(&path, 8 << 20);
    match PageCache::builder().memory(4 << 20).swap(swap).build() {
        Err(error @ Error::Setup { .. }) => return skip(error),
        refused => assert!(matches!(refused.unwrap_err(), Error::Swap { .. })),
    }
    assert_eq!(is_locked(&own), Some(true));
}

#[test]
fn an_open_file_that_appends_is_not_taken_for_writing() {
    let folder = Place::Disk.folder();
    let path = folder.path().join("data");
    let appending = File::options()
        .read(true)
        .append(true)
        .create(true)
        .open(&path)
        .unwrap();
    let (kind, said) = why(cache().open_file(appending, write()));
    assert_eq!(kind, ErrorKind::PermissionDenied);
    assert!(said.contains("O_APPEND"), "{said}");
}

/// The lock went only with the last that knew of the file, later than a thread could open it again.
#[test]
fn a_file_for_one_cache_alone_can_be_opened_again_as_soon_as_it_is_closed() {
    bounded(|| {
        let folder = Place::Memory.folder();
        let path = folder.path().join("data");
        std::fs::write(&path, [7; 100]).unwrap();
        let cache = cache();
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    let mut opened = 0;
                    while opened < 500 {
                        match cache.open(&path, write().exclusive(true)) {
                            Ok(file) => {
                                drop(file);
                                opened += 1;
                            }
                            // Another thread has it at this moment; one that is closing it is no reason.
                            Err(error) if error.to_string().contains("this cache has it open") => {
                                std::thread::yield_now();
                            }
                            Err(error) => panic!("{error}"),
                        }
                    }
                });
            }
        });
    });
}
