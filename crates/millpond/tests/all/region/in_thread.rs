//! Faults that the touching thread serves itself, and how a process with a region ends.

use super::{MIB, cache_with, fill, folder};
use crate::support::{Hooked, What, bounded, linger, until};
use millpond::device::Threads;
use millpond::{Faults, PageCache, RegionOptions};
use millpond_testing::{Fault, FaultRule, FaultTarget, Faulty};
use rustix::process::{Signal, getpid, kill_process};
use std::io::Write;
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::{Command, Output};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// Says to a test that it is the child, and in which folder.
const FOLDER: &str = "MILLPOND_REGION_IN_THREAD_FOLDER";

pub(crate) fn options() -> RegionOptions {
    RegionOptions::new().faults(Faults::InThread)
}

/// Runs this test again in a child, which ends otherwise than it began.
fn child(name: &str) -> Output {
    let folder = folder();
    let child = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", &format!("region::in_thread::{name}"), "--nocapture"])
        .env(FOLDER, folder.path())
        .output();
    child.unwrap()
}

fn said(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

#[test]
fn a_system_call_on_a_page_that_is_not_there_fails_and_on_one_that_is_there_works() {
    bounded(|| {
        let folder = folder();
        let Some(cache) = cache_with(folder.path(), 4 * MIB, 8 * MIB, |builder| builder) else {
            return;
        };
        let mut region = cache.region_with(8 * MIB as usize, &options()).unwrap();
        let mut file = tempfile::tempfile().unwrap();
        let error = file.write_all(&region.as_slice()[..4096]).unwrap_err();
        assert_eq!(error.raw_os_error(), Some(libc::EFAULT));
        fill(3, &mut region.as_mut_slice()[..4096]);
        file.write_all(&region.as_slice()[..4096]).unwrap();
        // The cache's own copies are not system calls.
        let path = folder.path().join("file");
        std::fs::write(&path, [7; 8192]).unwrap();
        let file = cache.open(&path, millpond::OpenOptions::new()).unwrap();
        file.read_at(&mut region.as_mut_slice()[MIB as usize..][..8192], 0)
            .unwrap();
        assert_eq!(region.as_slice()[MIB as usize + 8191], 7);
    });
}

#[test]
fn threads_that_touch_the_same_pages_all_get_them() {
    bounded(|| {
        let folder = folder();
        let Some(cache) = cache_with(folder.path(), 2 * MIB, 8 * MIB, |builder| builder) else {
            return;
        };
        let mut region = cache.region_with(8 * MIB as usize, &options()).unwrap();
        for (n, page) in region.as_mut_slice().chunks_mut(4096).enumerate() {
            page[n % 4096] = n as u8 | 1;
        }
        let bytes = region.as_slice();
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    for _ in 0..3 {
                        for (n, page) in bytes.chunks(4096).enumerate() {
                            assert_eq!(page[n % 4096], n as u8 | 1, "page {n}");
                        }
                    }
                });
            }
        });
    });
}

#[test]
fn a_page_that_is_lost_ends_the_process_with_the_signal_and_says_so() {
    if let Ok(folder) = std::env::var(FOLDER) {
        let device = Arc::new(Faulty::new(Arc::new(Threads::new("a test")), 1));
        let with = |builder: millpond::Builder| builder.device(device.clone());
        let Some(cache) = cache_with(Path::new(&folder), 2 * MIB, 8 * MIB, with) else {
            return;
        };
        let mut region = cache.region_with(8 * MIB as usize, &options()).unwrap();
        for (n, page) in region.as_mut_slice().chunks_mut(4096).enumerate() {
            fill(n, page);
        }
        device.add(FaultRule::always(FaultTarget::Reads, Fault::Fail(libc::EIO)));
        let sum: u64 = region.as_slice().iter().map(|&byte| u64::from(byte)).sum();
        panic!("it has read {sum}");
    }
    let child = child("a_page_that_is_lost_ends_the_process_with_the_signal_and_says_so");
    if child.status.success() {
        return crate::support::skip("the child could not have a region");
    }
    assert_eq!(
        child.status.signal(),
        Some(libc::SIGBUS),
        "{}",
        said(&child.stderr)
    );
    let warned = said(&child.stderr);
    assert!(warned.contains("of a region is lost: slot "), "{warned}");
}

#[test]
fn a_signal_that_is_no_region_s_goes_to_whoever_had_it_before() {
    if let Ok(folder) = std::env::var(FOLDER) {
        let Some(cache) = cache_with(Path::new(&folder), 2 * MIB, 8 * MIB, |builder| builder) else {
            return;
        };
        let region = cache.region_with(8 * MIB as usize, &options()).unwrap();
        assert_eq!(region.as_slice()[5], 0);
        println!("raising");
        // The standard library, which has the signal for overflows of the stack, gives it up at the first.
        until("the signal's end of the process", || {
            kill_process(getpid(), Signal::BUS).unwrap();
            false
        });
    }
    let child = child("a_signal_that_is_no_region_s_goes_to_whoever_had_it_before");
    if !said(&child.stdout).contains("raising") {
        return crate::support::skip("the child could not have a region");
    }
    assert_eq!(
        child.status.signal(),
        Some(libc::SIGBUS),
        "{}",
        said(&child.stderr)
    );
}

#[test]
fn a_cache_that_breaks_while_it_has_a_region_ends_the_process_with_a_message() {
    if let Ok(folder) = std::env::var(FOLDER) {
        let reads = AtomicU64::new(0);
        let hook = move |call: crate::support::Call| {
            let is_third = call.what == What::OwnRead && reads.fetch_add(1, Ordering::SeqCst) == 2;
            assert!(!is_third, "the third read breaks the cache");
        };
        let device = Hooked::new(Arc::new(Threads::new("a test")), hook);
        let with = |builder: millpond::Builder| builder.device(device);
        let Some(cache) = cache_with(Path::new(&folder), 2 * MIB, 8 * MIB, with) else {
            return;
        };
        let mut region = cache.region(8 * MIB as usize).unwrap();
        for (n, page) in region.as_mut_slice().chunks_mut(4096).enumerate() {
            fill(n, page);
        }
        let sum: u64 = region.as_slice().iter().map(|&byte| u64::from(byte)).sum();
        panic!("it has read {sum}");
    }
    let child = child("a_cache_that_breaks_while_it_has_a_region_ends_the_process_with_a_message");
    if child.status.success() {
        return crate::support::skip("the child could not have a region");
    }
    let why = said(&child.stderr);
    assert_eq!(child.status.signal(), Some(libc::SIGABRT), "{why}");
    assert!(why.contains("a cache with regions is unusable"), "{why}");
    assert!(why.contains("the third read breaks the cache"), "{why}");
}

/// The page was marked before the hook was called, and the signal ended the process before it had said anything.
#[test]
fn that_a_page_is_lost_is_said_before_whoever_touches_it_gets_the_signal() {
    if let Ok(folder) = std::env::var(FOLDER) {
        let slowly = |warning: &millpond::Warning| {
            // Far less than the ten seconds that are waited for a hook, however busy the machine is.
            linger(|| false);
            println!("{warning}");
        };
        let with = |builder: millpond::Builder| builder.on_warning(slowly);
        let Some(cache) = cache_with(Path::new(&folder), 2 * MIB, 8 * MIB, with) else {
            return println!("none");
        };
        let mut region = cache.region(8 * MIB as usize).unwrap();
        region.as_mut_slice().fill(1);
        let swap = std::fs::OpenOptions::new()
            .write(true)
            .open(Path::new(&folder).join("swap"));
        swap.unwrap().set_len(MIB).unwrap();
        let sum: u64 = region.as_slice().iter().map(|&byte| u64::from(byte)).sum();
        panic!("it has read {sum}");
    }
    let child = child("that_a_page_is_lost_is_said_before_whoever_touches_it_gets_the_signal");
    if said(&child.stdout).contains("none") {
        return crate::support::skip("the child could not have a region");
    }
    assert_eq!(
        child.status.signal(),
        Some(libc::SIGBUS),
        "{}",
        said(&child.stderr)
    );
    let out = said(&child.stdout);
    assert!(out.contains("of a region is lost"), "{out}");
}

/// The kernel says of each mapping what becomes of it in a child: "dc" is `MADV_DONTFORK`.
#[test]
fn a_forked_child_does_not_have_a_region() {
    let folder = folder();
    let Some(cache) = cache_with(folder.path(), 2 * MIB, 8 * MIB, |builder| builder) else {
        return;
    };
    for options in [RegionOptions::new(), options()] {
        let region = cache.region_with(8 * MIB as usize, &options).unwrap();
        let start = format!("{:x}-", region.as_ptr() as usize);
        let maps = std::fs::read_to_string("/proc/self/smaps").unwrap();
        let mut of_region = maps.lines().skip_while(|line| !line.starts_with(&start));
        let flags = of_region.find(|line| line.starts_with("VmFlags:")).unwrap();
        assert!(flags.split(' ').any(|flag| flag == "dc"), "{flags}");
    }
    drop::<PageCache>(cache);
}
