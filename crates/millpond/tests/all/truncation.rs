//! Files that become shorter, and longer again, while others are at them.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use crate::support::{Call, Draw, Hooked, Kind, Place, What, bounded, linger, until};
use millpond::{Error, File, OpenOptions, PageCache, PageCheck};
use millpond_testing::{Fault, FaultRule, FaultTarget, Faulty};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

const PAGE: u64 = 4096;

fn faulty_cache() -> (PageCache, Arc<Faulty>) {
    let device = Arc::new(Faulty::new(Kind::Pool.device().unwrap(), 1));
    let builder = PageCache::builder().memory(2 << 20).device(device.clone());
    (builder.build().unwrap(), device)
}

fn on_disk(file: &File) -> Vec<u8> {
    std::fs::read(file.path()).unwrap()
}

/// The write of a whole page was on its way when the file was cut inside that page. The device did it after the file
/// had become shorter there, and the file was as long as the page again: found by the model test.
#[test]
fn a_write_on_its_way_does_not_make_a_file_longer_again_that_was_cut_meanwhile() {
    bounded(|| {
        let folder = Place::Disk.folder();
        let (cache, device) = faulty_cache();
        let file = cache
            .open(folder.path().join("data"), OpenOptions::new().create(true))
            .unwrap();
        file.write_at(&[7; PAGE as usize], 0).unwrap();
        device.add(FaultRule {
            times: 1,
            ..FaultRule::always(FaultTarget::Writes, Fault::Hold)
        });
        std::thread::scope(|scope| {
            let syncing = scope.spawn(|| file.sync_data());
            until("the write", || device.held() == 1);
            let cutting = scope.spawn(|| file.set_len(100));
            linger(|| cutting.is_finished());
            device.release().unwrap();
            syncing.join().unwrap().unwrap();
            cutting.join().unwrap().unwrap();
        });
        file.sync_data().unwrap();
        let bytes = on_disk(&file);
        assert!(bytes == [7; 100], "{} bytes", bytes.len());
    });
}

/// A thread's work while the file is cut.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Beside {
    /// Reads it, in one of three ways.
    Read(u64),
    /// Overwrites a part of it, inside as it was before.
    Write { from: u64, to: u64 },
    /// Changes a page by a guard.
    Guard { page: u64 },
}

const PAGES: u64 = 12;
const LEN: u64 = PAGES * PAGE - 1_000;

impl Beside {
    fn do_it(self, file: &File) {
        match self {
            Beside::Read(0) => {
                let mut buf = [9; LEN as usize];
                file.read_at(&mut buf, 0).unwrap();
            }
            Beside::Read(1) => (0..PAGES).for_each(|page| match file.page(page) {
                Ok(page) => assert!(page.iter().all(|&byte| byte < 2)),
                Err(error) => assert!(matches!(error, Error::OutOfRange { .. }), "{error}"),
            }),
            Beside::Read(_) => file.prefetch(0, LEN).unwrap(),
            Beside::Write { from, to } => file.write_at(&vec![2; (to - from) as usize], from).unwrap(),
            Beside::Guard { page } => match file.page_mut(page) {
                Ok(mut page) => page.fill(2),
                Err(error) => assert!(matches!(error, Error::OutOfRange { .. }), "{error}"),
            },
        }
    }

    /// The possible values at `at` when both are over, the file was cut to `cut` and is `len` bytes long.
    fn allows(self, at: u64, byte: u8, cut: u64, len: u64) -> bool {
        match self {
            Beside::Read(_) => byte == u8::from(at < cut),
            // A write that came after the cut made the file longer again.
            Beside::Write { from, to } if (from..to).contains(&at) && at < len => byte == 2,
            Beside::Write { .. } => byte == u8::from(at < cut),
            Beside::Guard { page } => {
                byte == u8::from(at < cut) || at < cut && at / PAGE == page && byte == 2
            }
        }
    }
}

/// Again and again: a file full of ones is cut while a thread does something else with it, and made long
/// again. Behind the cut there must be zeros, but for what was written there after it.
fn cut_beside(rounds: u64, seed: u64, draw_beside: impl Fn(&mut Draw) -> Beside + Send + 'static) {
    bounded(move || {
        let folder = Place::Memory.folder();
        let cache = PageCache::builder().memory(2 << 20).build().unwrap();
        let path = folder.path().join("data");
        let open = || cache.open(&path, OpenOptions::new().create(true)).unwrap();
        let mut draw = Draw(seed);
        for round in 0..rounds {
            let (beside, cut) = (draw_beside(&mut draw), draw.below(LEN));
            let mut file = open();
            file.set_len(0).unwrap();
            file.write_at(&[1; LEN as usize], 0).unwrap();
            if matches!(beside, Beside::Read(_)) || round % 2 == 0 {
                // On the device and out of memory.
                drop(file);
                file = open();
            }
            let (ready, go) = (AtomicBool::new(false), AtomicBool::new(false));
            let (late, lead) = (draw.below(3_000), draw.below(3_000));
            let spin = |times| (0..times).for_each(|_| std::hint::spin_loop());
            std::thread::scope(|scope| {
                scope.spawn(|| {
                    ready.store(true, Ordering::SeqCst);
                    until("the start", || go.load(Ordering::SeqCst));
                    spin(late);
                    beside.do_it(&file);
                });
                until("the other", || ready.load(Ordering::SeqCst));
                go.store(true, Ordering::SeqCst);
                spin(lead);
                file.set_len(cut).unwrap();
            });
            let len = file.len();
            let grown = matches!(beside, Beside::Write { to, .. } if len == to && to > cut);
            assert!(
                len == cut || grown,
                "{len} bytes after a cut to {cut} and {beside:?}"
            );
            file.set_len(LEN).unwrap();
            let mut bytes = vec![9; LEN as usize];
            assert_eq!(file.read_at(&mut bytes, 0).unwrap(), bytes.len());
            let wrong = (0..LEN).find(|&at| !beside.allows(at, bytes[at as usize], cut, len));
            if let Some(at) = wrong {
                let byte = bytes[at as usize];
                panic!("round {round}: {byte} at {at} after a cut to {cut} and {beside:?}, {len} bytes");
            }
            file.sync_data().unwrap();
            assert!(on_disk(&file) == bytes, "round {round}, {beside:?}");
        }
    });
}

#[test]
fn data_read_during_a_cut_does_not_come_back() {
    cut_beside(1_000, 1, |draw| Beside::Read(draw.below(3)));
}

#[test]
fn a_write_beside_a_cut_comes_before_it_or_after_it() {
    cut_beside(1_000, 2, |draw| {
        let (a, b) = (draw.below(LEN), draw.below(LEN));
        Beside::Write {
            from: a.min(b),
            to: a.max(b) + 1,
        }
    });
}

#[test]
fn a_change_by_a_guard_beside_a_cut_leaves_nothing_past_it() {
    cut_beside(1_000, 3, |draw| Beside::Guard {
        page: draw.below(PAGES),
    });
}

/// A file system may refuse to make a file shorter (here a file in memory with a seal; block devices always do). The
/// pages behind the cut had been thrown away before it was asked, with writes that had returned.
#[test]
fn a_cut_that_the_file_system_refuses_loses_nothing() {
    use rustix::fs::{MemfdFlags, SealFlags, fcntl_add_seals, memfd_create};
    use std::os::fd::AsRawFd;
    let sealed = memfd_create("sealed", MemfdFlags::ALLOW_SEALING | MemfdFlags::CLOEXEC).unwrap();
    fcntl_add_seals(&sealed, SealFlags::SHRINK).unwrap();
    let path = format!("/proc/self/fd/{}", sealed.as_raw_fd());
    let cache = PageCache::builder().memory(2 << 20).build().unwrap();
    let file = cache.open(path, OpenOptions::new().write(true)).unwrap();
    file.write_at(&[1; 3 * PAGE as usize], 0).unwrap();
    file.sync_data().unwrap();
    file.write_at(&[2; 2 * PAGE as usize], PAGE).unwrap();
    for cut in [2 * PAGE, PAGE + 10, 0] {
        let error = file.set_len(cut).unwrap_err();
        assert_eq!(error.errno(), libc::EPERM, "{error}");
        assert_eq!(file.len(), 3 * PAGE);
        assert!(file.page(2).unwrap().iter().all(|&byte| byte == 2));
    }
    file.sync_data().unwrap();
    let bytes = on_disk(&file);
    assert!(bytes.len() == 3 * PAGE as usize && bytes[PAGE as usize..].iter().all(|&byte| byte == 2));
    file.set_len(4 * PAGE).unwrap();
    assert_eq!(file.page(3).unwrap()[0], 0);
}

/// A file of 8 pages, the seventh changed and not written, is cut to 5. What was seen while the device had not decided about
/// it, and by a sync that began then: whether it returned before, and what the file system held when it had.
struct Undecided {
    len: u64,
    read: Vec<u8>,
    synced_before: bool,
    after_sync: Vec<u8>,
    cut: millpond::Result<()>,
}

fn in_the_middle_of_a_cut(path: PathBuf) -> Undecided {
    let (armed, asked, go) = (
        AtomicBool::new(false),
        AtomicBool::new(false),
        AtomicBool::new(false),
    );
    let gates = Arc::new([armed, asked, go]);
    let own = gates.clone();
    let device = Hooked::new(Kind::Pool.device().unwrap(), move |call: Call| {
        if call.what == What::SetLen && own[0].load(Ordering::SeqCst) {
            own[1].store(true, Ordering::SeqCst);
            until("what others do", || own[2].load(Ordering::SeqCst));
        }
    });
    let cache = PageCache::builder()
        .memory(2 << 20)
        .device(device)
        .build()
        .unwrap();
    let file = cache.open(path, OpenOptions::new().create(true)).unwrap();
    file.write_at(&[1; 8 * PAGE as usize], 0).unwrap();
    file.sync_data().unwrap();
    file.page_mut(6).unwrap().fill(2);
    gates[0].store(true, Ordering::SeqCst);
    std::thread::scope(|scope| {
        let cutting = scope.spawn(|| file.set_len(5 * PAGE));
        until("the cut", || gates[1].load(Ordering::SeqCst));
        let len = file.len();
        let mut read = vec![9; 9 * PAGE as usize];
        let bytes = file.read_at(&mut read, 0).unwrap();
        read.truncate(bytes);
        let syncing = scope.spawn(|| {
            file.sync_data().unwrap();
            on_disk(&file)
        });
        linger(|| syncing.is_finished());
        let synced_before = syncing.is_finished();
        gates[2].store(true, Ordering::SeqCst);
        Undecided {
            len,
            read,
            synced_before,
            after_sync: syncing.join().unwrap(),
            cut: cutting.join().unwrap(),
        }
    })
}

fn seventh(bytes: &[u8]) -> Option<&[u8]> {
    bytes.get(6 * PAGE as usize..7 * PAGE as usize)
}

/// The sync did not write the page, for the file had become shorter, and the file system had not heard of that: after
/// a crash there would have been neither the change nor the cut. Found by crashes in drawn histories.
#[test]
fn a_sync_beside_a_cut_writes_the_bytes_past_it_or_waits_until_the_device_has_the_cut() {
    bounded(|| {
        let folder = Place::Disk.folder();
        let seen = in_the_middle_of_a_cut(folder.path().join("data"));
        seen.cut.unwrap();
        let is_written = seventh(&seen.after_sync) == Some(&[2; PAGE as usize]);
        assert!(is_written || !seen.synced_before && seen.after_sync.len() == 5 * PAGE as usize);
    });
}

/// The same, and then the cut was refused: the page counted as written and was lost. And while it was not decided all others
/// saw a file that had been cut, which it never was.
#[test]
fn a_cut_that_is_refused_loses_nothing_that_is_synced_meanwhile_and_nobody_has_seen_it() {
    use rustix::fs::{MemfdFlags, SealFlags, fcntl_add_seals, memfd_create};
    use std::os::fd::AsRawFd;
    bounded(|| {
        let sealed = memfd_create("sealed", MemfdFlags::ALLOW_SEALING | MemfdFlags::CLOEXEC).unwrap();
        fcntl_add_seals(&sealed, SealFlags::SHRINK).unwrap();
        let path = format!("/proc/self/fd/{}", sealed.as_raw_fd());
        let seen = in_the_middle_of_a_cut(path.into());
        assert_eq!(seen.cut.unwrap_err().errno(), libc::EPERM);
        assert!(seventh(&seen.after_sync) == Some(&[2; PAGE as usize]));
        assert_eq!((seen.len, seen.read.len() as u64), (8 * PAGE, 8 * PAGE));
        assert!(seventh(&seen.read) == Some(&[2; PAGE as usize]));
    });
}

/// Also a length that the file has, which frees what is allocated past it; that it comes after writes of the last page is
/// tested in `allocate`.
#[test]
fn each_length_is_set_once_on_the_device() {
    let folder = Place::Disk.folder();
    let lengths = Arc::new(AtomicU64::new(0));
    let own = lengths.clone();
    let device = Hooked::new(Kind::Pool.device().unwrap(), move |call: Call| {
        own.fetch_add(u64::from(call.what == What::SetLen), Ordering::SeqCst);
    });
    let cache = PageCache::builder()
        .memory(2 << 20)
        .device(device)
        .build()
        .unwrap();
    let file = cache
        .open(folder.path().join("data"), OpenOptions::new().create(true))
        .unwrap();
    file.write_at(&[1; 3 * PAGE as usize], 0).unwrap();
    file.sync_data().unwrap();
    let set = |len| {
        let before = lengths.load(Ordering::SeqCst);
        file.set_len(len).unwrap();
        assert_eq!((file.len(), on_disk(&file).len() as u64), (len, len));
        lengths.load(Ordering::SeqCst) - before
    };
    assert_eq!(set(2 * PAGE + 100), 1, "a cut");
    assert_eq!(set(2 * PAGE + 100), 1);
    assert_eq!(set(3 * PAGE + 100), 1);
}

/// The page in which the cut lies is read, so that its rest can be zeroed.
#[test]
fn a_cut_inside_a_page_that_cannot_be_read_says_so_and_changes_nothing() {
    struct Refuses;
    impl PageCheck for Refuses {
        fn before_write(&self, _: u64, _: &mut [u8]) {}
        fn after_read(&self, page: u64, _: &[u8]) -> Result<(), String> {
            match page {
                1 => Err("its sum is wrong".into()),
                _ => Ok(()),
            }
        }
    }
    bounded(|| {
        let folder = Place::Memory.folder();
        let path = folder.path().join("data");
        std::fs::write(&path, [7; 3 * PAGE as usize]).unwrap();
        let (cache, device) = faulty_cache();
        let options = OpenOptions::new().write(true).check(Arc::new(Refuses));
        let file = cache.open(&path, options).unwrap();
        let unchanged = || assert_eq!((file.len(), on_disk(&file).len() as u64), (3 * PAGE, 3 * PAGE));
        let error = file.set_len(PAGE + 100).unwrap_err();
        assert!(matches!(error, Error::Check { page: 1, .. }), "{error}");
        unchanged();
        device.add(FaultRule::always(FaultTarget::Reads, Fault::Fail(libc::EIO)));
        let error = file.set_len(100).unwrap_err();
        assert!(matches!(error, Error::Read { offset: 0, .. }), "{error}");
        unchanged();
        file.set_len(PAGE).unwrap();
        assert_eq!(
            on_disk(&file),
            [7; PAGE as usize],
            "between two pages nothing is read"
        );
    });
}
