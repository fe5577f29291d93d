//! What a program does to memory of ours by system calls of its own: it locks it, makes it read-only, has it dropped.
//!
//! To lock all memory is a process's affair, so those tests run in a process of their own.

use crate::device::Warning;
use crate::{Error, OpenOptions, PageCache, Region, SwapFile};
use std::path::Path;
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Instant;

/// Says to a test that it is the child.
const CHILD: &str = "MILLPOND_LOCKED_CHILD";

fn folder() -> tempfile::TempDir {
    tempfile::tempdir_in("/var/tmp").unwrap()
}

/// Runs the test of this name in a process of its own. Whether this is that process.
fn is_alone(test: &str) -> bool {
    if std::env::var_os(CHILD).is_some() {
        return true;
    }
    let name = format!("sys::locked_tests::{test}");
    let ran = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", &name, "--nocapture"])
        .env(CHILD, "1")
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&ran.stdout);
    print!("{said}");
    // Asked for a test that it does not have it succeeds as well.
    assert!(
        ran.status.success() && said.contains(" 1 passed"),
        "{said}{}",
        String::from_utf8_lossy(&ran.stderr)
    );
    false
}

/// Whether it is; else why not is said.
fn lock_all(flags: i32) -> bool {
    // SAFETY: changes no content.
    let is_locked = unsafe { libc::mlockall(flags) } == 0;
    if !is_locked {
        println!("skipped: mlockall: {}", std::io::Error::last_os_error());
    }
    is_locked
}

fn with_swap(folder: &Path, warnings: &Arc<AtomicU32>) -> Option<PageCache> {
    let (swap, warnings) = (SwapFile::new(folder.join("swap"), 16 << 20), warnings.clone());
    let told = move |warning: &Warning| {
        assert!(matches!(warning, Warning::RegionUnlocked), "{warning}");
        warnings.fetch_add(1, Ordering::Relaxed);
    };
    match PageCache::builder()
        .memory(2 << 20)
        .swap(swap)
        .on_warning(told)
        .build()
    {
        Ok(cache) => Some(cache),
        Err(why @ (Error::Setup { .. } | Error::Swap { .. })) => {
            println!("skipped: {why}");
            None
        }
        Err(why) => panic!("{why}"),
    }
}

/// Writes and reads all of it, several times its memory.
fn use_all(region: &mut Region, salt: u8) {
    let byte = |n: usize| (n as u8).wrapping_mul(31).wrapping_add(salt);
    let pages = region.as_mut_slice().chunks_mut(4096).enumerate();
    pages.for_each(|(n, page)| page.fill(byte(n)));
    check(region, salt);
}

fn check(region: &Region, salt: u8) {
    for (n, page) in region.as_slice().chunks(4096).enumerate() {
        let byte = (n as u8).wrapping_mul(31).wrapping_add(salt);
        assert!(page.iter().all(|&is| is == byte), "page {n}");
    }
}

/// The budget's change panicked and the cache was poisoned, for the kernel refuses to take locked memory back at first.
#[test]
fn with_all_memory_locked_a_budget_can_shrink_and_is_given_back() {
    if !is_alone("with_all_memory_locked_a_budget_can_shrink_and_is_given_back")
        || !lock_all(libc::MCL_CURRENT | libc::MCL_FUTURE)
    {
        return;
    }
    let folder = folder();
    let cache = PageCache::builder().memory(32 << 20).build().unwrap();
    let file = cache
        .open(folder.path().join("data"), OpenOptions::new().create(true))
        .unwrap();
    let mut bytes = vec![1; 20 << 20];
    file.write_at(&bytes, 0).unwrap();
    file.sync_data().unwrap();
    let resident = || {
        let statm = std::fs::read_to_string("/proc/self/statm").unwrap();
        statm.split(' ').nth(1).unwrap().parse::<u64>().unwrap() * 4096
    };
    let before = resident();
    cache.set_memory(4 << 20).unwrap();
    bytes.fill(2);
    file.write_at(&bytes, 0).unwrap();
    file.sync_data().unwrap();
    let began = Instant::now();
    while resident() + (16 << 20) > before {
        assert!(
            began.elapsed().as_secs() < 60,
            "{} of {before} bytes are in memory",
            resident()
        );
        std::thread::yield_now();
    }
    let mut byte = [0];
    file.read_at(&mut byte, 19 << 20).unwrap();
    assert_eq!(byte, [2]);
}

/// A cache with swap panicked when it was made.
#[test]
fn with_future_memory_locked_regions_work_and_are_not_filled_at_once() {
    if !is_alone("with_future_memory_locked_regions_work_and_are_not_filled_at_once")
        || !lock_all(libc::MCL_CURRENT | libc::MCL_FUTURE)
    {
        return;
    }
    let (folder, warnings) = (folder(), Arc::default());
    let Some(cache) = with_swap(folder.path(), &warnings) else {
        return;
    };
    let mut region = cache.region(16 << 20).unwrap();
    let faults = cache.stats().counters.pswpout;
    use_all(&mut region, 1);
    assert!(cache.stats().counters.pswpout > faults);
    cache.set_memory(4 << 20).unwrap();
    cache.set_memory(2 << 20).unwrap();
    use_all(&mut region, 2);
    assert_eq!(warnings.load(Ordering::Relaxed), 0);
    // What there is now is locked, and each page of it comes once.
    assert!(lock_all(libc::MCL_CURRENT));
    use_all(&mut region, 3);
}

/// The process was ended: pages can't be moved between memory that is locked and other.
#[test]
fn a_region_s_locked_memory_is_unlocked_when_it_must_leave_with_a_warning() {
    let (folder, warnings) = (folder(), Arc::default());
    let Some(cache) = with_swap(folder.path(), &warnings) else {
        return;
    };
    let mut region = cache.region(8 << 20).unwrap();
    use_all(&mut region, 1);
    // SAFETY: changes no content.
    let locked = unsafe { libc::mlock(region.as_ptr().cast(), 1 << 20) };
    assert_eq!(locked, 0, "{}", std::io::Error::last_os_error());
    check(&region, 1);
    use_all(&mut region, 2);
    while warnings.load(Ordering::Relaxed) == 0 {
        std::thread::yield_now();
    }
}

/// The process was ended: pages that can't be written can't be moved.
#[test]
fn memory_of_a_region_that_its_program_makes_read_only_comes_and_goes_as_ever() {
    let (folder, warnings) = (folder(), Arc::default());
    let Some(cache) = with_swap(folder.path(), &warnings) else {
        return;
    };
    let mut region = cache.region(8 << 20).unwrap();
    let protect = |region: &Region, len, rights| {
        // SAFETY: no thread writes there while it is read-only.
        let answer = unsafe { libc::mprotect(region.as_ptr().cast(), len, rights) };
        assert_eq!(answer, 0, "{}", std::io::Error::last_os_error());
    };
    for salt in 0..3 {
        use_all(&mut region, salt);
        // As much as there is memory for was written last, and not read since.
        let written = region.as_mut_slice().chunks_mut(4096).take(512);
        written.for_each(|page| page[0] = page[1]);
        protect(&region, 8 << 20, libc::PROT_READ);
        check(&region, salt);
        protect(&region, 256 << 10, libc::PROT_NONE);
        let rest = &region.as_slice()[256 << 10..];
        assert!(rest.chunks(4096).all(|page| page[0] == page[4095]));
        protect(&region, 8 << 20, libc::PROT_READ | libc::PROT_WRITE);
        check(&region, salt);
    }
    assert_eq!(warnings.load(Ordering::Relaxed), 0);
}

/// The kernel's samepage merging at work, until this is dropped.
struct Merging(Vec<(&'static str, String)>);

impl Merging {
    fn on() -> std::io::Result<Merging> {
        let mut before = Merging(Vec::new());
        for (name, value) in [("sleep_millisecs", "1"), ("pages_to_scan", "20000"), ("run", "1")] {
            let path = Path::new("/sys/kernel/mm/ksm").join(name);
            let was = std::fs::read_to_string(&path)?;
            std::fs::write(&path, value)?;
            before.0.push((name, was));
        }
        Ok(before)
    }
}

impl Drop for Merging {
    fn drop(&mut self) {
        for (name, was) in self.0.iter().rev() {
            let _ = std::fs::write(Path::new("/sys/kernel/mm/ksm").join(name), was);
        }
    }
}

/// How much of the region the kernel has merged; `None` where it does not say.
fn merged_kib(region: &Region) -> Option<u64> {
    let smaps = std::fs::read_to_string("/proc/self/smaps").ok()?;
    let mut lines = smaps.lines();
    let start = format!("{:x}-", region.as_ptr().addr());
    lines.find(|line| line.starts_with(&start))?;
    let kib = lines.find_map(|line| line.strip_prefix("KSM:"))?;
    kib.trim().strip_suffix(" kB")?.parse().ok()
}

/// Does `what` until it says so, for so many seconds at most.
fn within(seconds: u64, mut what: impl FnMut() -> bool) -> bool {
    let began = Instant::now();
    std::iter::from_fn(|| (began.elapsed().as_secs() < seconds).then(&mut what)).any(|is_so| is_so)
}

/// Merged pages can't be moved: they counted as pinned for a device, no frame became free, and the process was ended.
#[test]
fn memory_of_a_region_that_the_kernel_merges_comes_and_goes_as_ever() {
    if !is_alone("memory_of_a_region_that_the_kernel_merges_comes_and_goes_as_ever") {
        return;
    }
    let (folder, warnings) = (folder(), Arc::default());
    let Some(cache) = with_swap(folder.path(), &warnings) else {
        return;
    };
    let _merging = match Merging::on() {
        Ok(merging) => merging,
        Err(why) => return println!("skipped: no samepage merging: {why}"),
    };
    let mut region = cache.region(8 << 20).unwrap();
    for n in 0..2 {
        use_all(&mut region, n);
        let start = region.as_ptr().cast();
        let is_asked = match n {
            // SAFETY: changes no content.
            0 => unsafe { libc::madvise(start, 8 << 20, libc::MADV_MERGEABLE) == 0 },
            // SAFETY: changes no content.
            _ => unsafe { libc::prctl(libc::PR_SET_MEMORY_MERGE, 1, 0, 0, 0) == 0 },
        };
        if !is_asked {
            return println!(
                "skipped: no samepage merging: {}",
                std::io::Error::last_os_error()
            );
        }
        region.as_mut_slice()[..1 << 20].fill(7);
        // Untouched meanwhile, so none of it is to leave.
        let is_merged = within(10, || merged_kib(&region).is_some_and(|kib| kib > 0));
        if !is_merged {
            return println!("skipped: the kernel merges nothing");
        }
        let has_left = within(60, || {
            assert!(
                region.as_slice()[1 << 20..]
                    .chunks(4096)
                    .all(|page| page[0] == page[4095])
            );
            merged_kib(&region) == Some(0)
        });
        assert!(has_left, "{:?} KiB are merged still", merged_kib(&region));
        assert!(region.as_slice()[..1 << 20].iter().all(|&byte| byte == 7));
    }
    assert_eq!(warnings.load(Ordering::Relaxed), 0);
}
