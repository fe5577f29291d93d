//! A swap file that can't be used, or can't be read, or can't be written.

use super::{MIB, built, cache, cache_with, check, fill, folder, refused, when_free};
use crate::refuse;
use crate::support::{bounded, skip};
use millpond::device::Threads;
use millpond::{Builder, Error, PageCache, SwapFile, Warning};
use millpond_testing::{Fault, FaultRule, FaultTarget, Faulty};
use std::fs;
use std::io::Write;
use std::ops::Bound;
use std::os::unix::fs::{FileExt, MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::Path;
use std::process::Command;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

#[test]
fn a_swap_file_is_one_cache_s_alone_private_and_without_holes() {
    let folder = folder();
    let Some(first) = cache(folder.path(), 4 * MIB, 8 * MIB) else {
        return;
    };
    let path = folder.path().join("swap");
    let metadata = fs::metadata(&path).unwrap();
    assert_eq!(metadata.permissions().mode() & 0o777, 0o600);
    assert!(metadata.blocks() * 512 >= 8 * MIB);
    let second = |path: &Path| PageCache::builder().swap(SwapFile::new(path, 8 * MIB)).build();
    let error = second(&path).unwrap_err();
    assert!(error.to_string().contains("it is locked"), "{error}");
    drop(first);
    drop(bounded(move || when_free(|| second(&path)).unwrap()));
    let other = folder.path().join("diary");
    fs::write(&other, "Dear diary").unwrap();
    let error = second(&other).unwrap_err();
    assert!(error.to_string().contains("it holds something else"), "{error}");
    assert_eq!(fs::read(&other).unwrap(), b"Dear diary");
}

#[test]
fn an_unlinked_swap_file_has_no_name_and_works() {
    let folder = folder();
    let path = folder.path().join("gone");
    let builder = PageCache::builder().memory(2 * MIB);
    let cache = builder.swap(SwapFile::new(&path, 4 * MIB).unlinked(true)).build();
    let Some(cache) = built(cache, folder.path()) else {
        return;
    };
    assert!(!path.exists());
    let mut region = cache.region(4 * MIB as usize).unwrap();
    for (n, page) in region.as_mut_slice().chunks_mut(4096).enumerate() {
        fill(n, page);
    }
    for (n, page) in region.as_slice().chunks(4096).enumerate() {
        check(n, page);
    }
}

/// A file system of 4 MiB, mounted while this lives.
struct Small(tempfile::TempDir);

impl Small {
    fn new() -> Option<Small> {
        let folder = tempfile::tempdir().unwrap();
        let mount = Command::new("mount")
            .args(["-t", "tmpfs", "-o", "size=4m", "tmpfs"])
            .arg(folder.path())
            .output();
        match mount {
            Ok(mount) if mount.status.success() => Some(Small(folder)),
            _ => {
                skip("nothing can be mounted");
                None
            }
        }
    }

    fn files(&self) -> usize {
        fs::read_dir(self.0.path()).unwrap().count()
    }
}

impl Drop for Small {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg("-l").arg(self.0.path()).output();
    }
}

/// The file stayed with all the blocks that there were, and was refused ever after.
#[test]
fn a_swap_file_that_finds_no_room_leaves_nothing_behind_and_is_given_again_when_there_is() {
    let Some(small) = Small::new() else { return };
    let path = small.0.path().join("swap");
    let make = |path: &Path, size, unlinked| {
        let swap = SwapFile::new(path, size).unlinked(unlinked);
        PageCache::builder().memory(2 * MIB).swap(swap).build()
    };
    for (path, unlinked) in [(&*path, false), (&*path, true), (small.0.path(), true)] {
        match make(path, 16 * MIB, unlinked).unwrap_err() {
            why @ Error::Setup { .. } => return skip(why),
            Error::Swap { source, .. } => {
                assert!(source.to_string().contains("it needs 16.0M"), "{source}")
            }
            other => panic!("{other}"),
        }
        assert_eq!(small.files(), 0);
    }
    let cache = match make(&path, MIB, false) {
        Err(why @ Error::Swap { .. }) => return skip(why),
        cache => cache.unwrap(),
    };
    drop(cache);
    // One that was there keeps what it has.
    let error = when_free(|| make(&path, 16 * MIB, false)).unwrap_err();
    assert!(matches!(error, Error::Swap { .. }), "{error}");
    assert_eq!(fs::metadata(&path).unwrap().len(), MIB + 4096);
}

fn bounded_until(is_so: impl Fn() -> bool) {
    let began = Instant::now();
    while !is_so() {
        assert!(began.elapsed() < Duration::from_secs(60));
        std::thread::sleep(Duration::from_millis(1));
    }
}

/// All its blocks stayed allocated, under a name that the program had not kept.
#[test]
fn no_swap_file_stays_of_a_cache_that_could_not_be_made() {
    let folder = folder();
    let Some(first) = cache(folder.path(), 2 * MIB, 4 * MIB) else {
        return;
    };
    drop(first);
    fs::remove_file(folder.path().join("swap")).unwrap();
    let path = |name: &str| folder.path().join(name);
    let swap = |name: &str| SwapFile::new(path(name), 4 * MIB);
    let begun = path("begun");
    let make = |builder: Builder| {
        builder
            .memory(2 * MIB)
            .swap(swap("one"))
            .swap(SwapFile::new(&begun, 4 * MIB))
    };
    fs::write(&begun, b"").unwrap();
    // The second is not the cache's.
    fs::write(path("other"), b"data").unwrap();
    let refused = make(PageCache::builder()).swap(swap("other")).build();
    assert!(matches!(refused.unwrap_err(), Error::Swap { .. }));
    assert!(!path("one").exists());
    assert_eq!(fs::metadata(&begun).unwrap().len(), 0, "as it was");
    // The last step of all.
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let refused = when_free(|| {
        make(PageCache::builder())
            .metrics(taken.local_addr().unwrap())
            .build()
    });
    drop(refused.unwrap_err());
    // With the last of its threads.
    let is_back = || !path("one").exists() && fs::metadata(&begun).unwrap().len() == 0;
    bounded_until(is_back);
    assert_eq!(fs::read(path("other")).unwrap(), b"data");
    // The disk that can't say that it has it.
    let sync = refuse::always(libc::SYS_fdatasync, libc::EIO);
    let refused = refuse::where_refused(&[sync], || {
        when_free(|| make(PageCache::builder()).build()).map(drop)
    });
    assert_eq!(refused.unwrap_err().errno(), libc::EIO);
    assert!(!path("one").exists());
    drop(when_free(|| make(PageCache::builder()).build()).unwrap());
    assert!(path("one").exists() && fs::metadata(&begun).unwrap().len() > 4 * MIB);
}

/// The remains if the process is killed before the file has all its blocks.
#[test]
fn a_swap_file_that_was_begun_is_given_again() {
    let folder = folder();
    let Some(cache) = cache(folder.path(), 2 * MIB, 4 * MIB) else {
        return;
    };
    drop(cache);
    let path = folder.path().join("swap");
    fs::File::options()
        .write(true)
        .open(&path)
        .unwrap()
        .set_len(4096)
        .unwrap();
    let swap = move || SwapFile::new(&path, 4 * MIB);
    drop(bounded(move || {
        when_free(|| PageCache::builder().memory(2 * MIB).swap(swap()).build()).unwrap()
    }));
}

#[test]
fn a_swap_file_may_be_made_in_a_folder_without_a_name() {
    let folder = folder();
    let swap = SwapFile::new(folder.path(), 4 * MIB).unlinked(true);
    let Some(cache) = built(
        PageCache::builder().memory(2 * MIB).swap(swap).build(),
        folder.path(),
    ) else {
        return;
    };
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 0);
    let mut region = cache.region(4 * MIB as usize).unwrap();
    region
        .as_mut_slice()
        .chunks_mut(4096)
        .enumerate()
        .for_each(|(n, page)| fill(n, page));
    region
        .as_slice()
        .chunks(4096)
        .enumerate()
        .for_each(|(n, page)| check(n, page));
    let error = cache.region(8 * MIB as usize).unwrap_err();
    assert!(matches!(error, Error::SwapTooSmall { .. }), "{error}");
}

#[test]
fn regions_are_refused_without_swap_and_beyond_it() {
    let plain = PageCache::builder().build().unwrap();
    assert!(matches!(plain.region(4096), Err(Error::NoSwap)));
    let folder = folder();
    let Some(cache) = cache(folder.path(), 4 * MIB, 8 * MIB) else {
        return;
    };
    let region = cache.region(6 * MIB as usize).unwrap();
    let error = cache.region(3 * MIB as usize).unwrap_err();
    assert!(error.to_string().contains("must be 1 to 2097152"), "{error}");
    assert!(cache.region(0).is_err());
    drop(region);
    drop(cache.region(8 * MIB as usize).unwrap());
    let error = PageCache::builder()
        .page_size(8192)
        .swap(SwapFile::new(folder.path().join("other"), MIB))
        .build()
        .unwrap_err();
    let said = error.to_string();
    assert!(
        matches!(error, Error::Option(_))
            && said.contains("page_size can't be 8192")
            && said.contains("4096"),
        "{said}"
    );
}

/// Whether the kernel can read the page: `EFAULT` where the program would get `SIGBUS`.
fn can_be_read(page: &[u8]) -> bool {
    match tempfile::tempfile().unwrap().write_all(page) {
        Ok(()) => true,
        Err(error) => {
            assert_eq!(error.raw_os_error(), Some(libc::EFAULT), "{error}");
            false
        }
    }
}

#[test]
fn a_page_that_swap_can_t_give_back_is_lost_alone_and_said_so() {
    bounded(|| {
        let folder = folder();
        let device = Arc::new(Faulty::new(Arc::new(Threads::new("a test")), 1));
        let warnings = Arc::new(Mutex::new(Vec::new()));
        let told = warnings.clone();
        let hook = move |warning: &Warning| told.lock().unwrap().push(warning.to_string());
        let with = |builder: millpond::Builder| builder.device(device.clone()).on_warning(hook);
        let Some(cache) = cache_with(folder.path(), 2 * MIB, 8 * MIB, with) else {
            return;
        };
        if cache.notices().contains(&millpond::Notice::NoKernelFaults) {
            return skip("system calls don't see faults here");
        }
        let mut region = cache.region(8 * MIB as usize).unwrap();
        for (n, page) in region.as_mut_slice().chunks_mut(4096).enumerate() {
            fill(n, page);
        }
        let fails = FaultRule::always(FaultTarget::Reads, Fault::Fail(libc::EIO));
        device.add(FaultRule { times: 1, ..fails });
        let before = cache.stats().warnings;
        let lost: Vec<_> = region
            .as_slice()
            .chunks(4096)
            .enumerate()
            // From the end, so that nothing is read ahead: that would be read again.
            .rev()
            .filter(|(_, page)| !can_be_read(page))
            .collect();
        assert_eq!(lost.len(), 1, "one read failed");
        let lost = lost[0].0;
        assert_eq!(cache.stats().warnings, before + 1);
        let said = warnings.lock().unwrap()[0].clone();
        assert!(
            said.starts_with(&format!("page {lost} of a region is lost: slot ")),
            "{said}"
        );
        for (n, page) in region
            .as_slice()
            .chunks(4096)
            .enumerate()
            .filter(|(n, _)| *n != lost)
        {
            check(n, page);
        }
        // Given up, it is a page like any other.
        region
            .advise(lost * 4096..lost * 4096 + 4096, millpond::RegionAdvice::DontNeed)
            .unwrap();
        let page = &mut region.as_mut_slice()[lost * 4096..][..4096];
        assert!(page.iter().all(|&byte| byte == 0));
        fill(lost, page);
    });
}

#[test]
fn content_that_swap_changes_is_not_given_out() {
    bounded(|| {
        let folder = folder();
        if let Some(why) = refused(folder.path()) {
            return skip(why);
        }
        let quiet = |builder: millpond::Builder| builder.on_warning(|_| {});
        let Some(cache) = cache_with(folder.path(), 2 * MIB, 4 * MIB, quiet) else {
            return;
        };
        if cache.notices().contains(&millpond::Notice::NoKernelFaults) {
            return skip("system calls don't see faults here");
        }
        let mut region = cache.region(4 * MIB as usize).unwrap();
        for (n, page) in region.as_mut_slice().chunks_mut(4096).enumerate() {
            fill(n, page);
        }
        // All slots are overwritten behind the cache's back; what is in memory is right still. Past the kernel's page
        // cache, which would be at odds with the cache's own transfers.
        let bytes = vec![0xAA; 5 * MIB as usize];
        let aligned = bytes.as_ptr().align_offset(4096);
        let mut swap = fs::OpenOptions::new();
        let swap = swap
            .write(true)
            .custom_flags(libc::O_DIRECT)
            .open(folder.path().join("swap"));
        let swap = swap.unwrap();
        swap.write_all_at(&bytes[aligned..][..4 * MIB as usize], 4096)
            .unwrap();
        let (mut right, mut lost) = (0, 0);
        for (n, page) in region.as_slice().chunks(4096).enumerate() {
            if can_be_read(page) {
                check(n, page);
                right += 1;
            } else {
                lost += 1;
            }
        }
        assert!(lost > 500 && right + lost == 1024, "{right} right, {lost} lost");
    });
}

#[test]
fn pages_that_swap_does_not_take_stay_in_memory_until_it_does() {
    bounded(|| {
        let folder = folder();
        let device = Arc::new(Faulty::new(Arc::new(Threads::new("a test")), 1));
        let with = |builder: millpond::Builder| builder.device(device.clone());
        let Some(cache) = cache_with(folder.path(), 2 * MIB, 8 * MIB, with) else {
            return;
        };
        let mut region = cache.region(8 * MIB as usize).unwrap();
        let fails = FaultRule::always(FaultTarget::Writes, Fault::Fail(libc::EIO));
        device.add(FaultRule { times: 20, ..fails });
        for (n, page) in region.as_mut_slice().chunks_mut(4096).enumerate() {
            fill(n, page);
        }
        assert!(cache.stats().counters.pswpout_failed > 0);
        for (n, page) in region.as_slice().chunks(4096).enumerate() {
            check(n, page);
        }
    });
}

#[test]
fn several_swap_files_are_filled_by_priority_and_hold_what_one_could_not() {
    bounded(|| {
        let folder = folder();
        if let Some(why) = refused(folder.path()) {
            return skip(why);
        }
        let file = |name: &str, mib: u64| SwapFile::new(folder.path().join(name), mib * MIB);
        let builder = PageCache::builder().memory(2 * MIB);
        let builder = builder
            .swap(file("slow", 8))
            .swap(file("fast", 4).priority(10))
            .swap(file("also-fast", 4).priority(10));
        let Some(cache) = built(builder.build(), folder.path()) else {
            return;
        };
        // What the files hold behind the first page, read past the kernel's page cache.
        let used = |name: &str| {
            let mut options = fs::OpenOptions::new();
            let file = options
                .read(true)
                .custom_flags(libc::O_DIRECT)
                .open(folder.path().join(name));
            let mut bytes = vec![0; 9 * MIB as usize];
            let aligned = bytes.as_ptr().align_offset(4096);
            let bytes = &mut bytes[aligned..][..8 * MIB as usize];
            let len = file.unwrap().read_at(bytes, 4096).unwrap();
            bytes[..len]
                .chunks(4096)
                .filter(|page| page.iter().any(|&byte| byte != 0))
                .count()
        };
        let mut region = cache.region(16 * MIB as usize).unwrap();
        let half = 8 * MIB as usize;
        for (n, page) in region.as_mut_slice()[..half].chunks_mut(4096).enumerate() {
            fill(n + 1, page);
        }
        let fast = [used("fast"), used("also-fast")];
        assert!(
            fast.iter().all(|&pages| pages >= 600) && used("slow") == 0,
            "{fast:?}"
        );
        for (n, page) in region
            .as_mut_slice()
            .chunks_mut(4096)
            .enumerate()
            .skip(half / 4096)
        {
            fill(n + 1, page);
        }
        assert!(used("slow") >= 1000);
        for (n, page) in region.as_slice().chunks(4096).enumerate() {
            check(n + 1, page);
        }
    });
}

/// The end of the largest inclusive range was an overflow.
#[test]
fn a_range_that_ends_with_the_largest_number_is_refused_as_any_that_is_too_long() {
    let folder = folder();
    let Some(cache) = cache(folder.path(), 2 * MIB, 4 * MIB) else {
        return;
    };
    let mut region = cache.region(MIB as usize).unwrap();
    region.as_mut_slice().fill(1);
    let advice = millpond::RegionAdvice::DontNeed;
    for refused in [
        region.advise(0..=usize::MAX, advice),
        region.advise((Bound::Excluded(usize::MAX), Bound::Unbounded), advice),
        region.advise(usize::MAX.., advice),
        region.advise(..=MIB as usize, advice),
    ] {
        assert!(matches!(refused, Err(Error::RegionRange { .. })), "{refused:?}");
    }
    assert!(region.as_slice().iter().all(|&byte| byte == 1));
    region.advise(..=MIB as usize - 1, advice).unwrap();
    assert!(region.as_slice().iter().all(|&byte| byte == 0));
}
