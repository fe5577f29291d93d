//! What is left of a cache in a forked child. The children here call code that allocates, which the C library
//! allows.

use crate::device::{Device, Threads, Uring};
use crate::{Error, LogOrder, OpenOptions, PageCache, SwapFile};
use std::io::{Read, Write};
use std::os::fd::AsRawFd;
use std::path::Path;
use std::sync::Arc;

/// Runs `child` in a forked child, which must end within a minute. Returns its answer, or the signal that
/// ended it.
fn fork(child: impl FnOnce() -> u8) -> Result<u8, i32> {
    // SAFETY: the child does what the C library allows: it allocates, and waits for no other thread.
    let pid = unsafe { libc::fork() };
    assert!(pid >= 0, "{}", std::io::Error::last_os_error());
    if pid == 0 {
        // SAFETY: takes a number.
        unsafe { libc::alarm(60) };
        let code = child();
        // SAFETY: ends the child at once.
        unsafe { libc::_exit(i32::from(code)) };
    }
    let mut status = 0;
    // SAFETY: room for one status.
    assert_eq!(unsafe { libc::waitpid(pid, &raw mut status, 0) }, pid);
    match libc::WIFEXITED(status) {
        true => Ok(libc::WEXITSTATUS(status) as u8),
        false => Err(libc::WTERMSIG(status)),
    }
}

fn folder() -> tempfile::TempDir {
    tempfile::tempdir_in("/var/tmp").unwrap()
}

fn with_swap(folder: &Path) -> Option<PageCache> {
    let swap = SwapFile::new(folder.join("swap"), 8 << 20);
    match PageCache::builder().memory(2 << 20).swap(swap).build() {
        Ok(cache) => Some(cache),
        Err(why @ (Error::Setup { .. } | Error::Swap { .. })) => {
            println!("skipped: {why}");
            None
        }
        Err(why) => panic!("{why}"),
    }
}

/// The child hung in the drop of a file with changes, for it waited for a thread that it does not have, and aborted in that
/// of the cache.
#[test]
fn a_forked_child_drops_what_is_its_parents_and_nothing_happens() {
    let folder = folder();
    let cache = PageCache::builder()
        .memory(2 << 20)
        .control(true)
        .build()
        .unwrap();
    let socket = cache.control_path().unwrap().to_owned();
    let file = cache
        .open(folder.path().join("data"), OpenOptions::new().create(true))
        .unwrap();
    file.write_at(&[7; 100_000], 0).unwrap();
    let recording = cache.record(folder.path().join("trace")).unwrap();
    // Guards that keep the file open; in the child they are the last of its handles.
    let guards = (file.page_owned(3).unwrap(), file.page_mut_owned(4).unwrap());
    let mut parts = Some((cache, file.clone(), recording, file, guards));
    let dropped = fork(|| {
        drop(parts.take());
        0
    });
    assert_eq!(dropped, Ok(0));
    let (_cache, file, recording, _clone, mut guards) = parts.unwrap();
    assert_eq!(guards.0[..], guards.1[..]);
    guards.1.fill(7);
    drop(guards);
    assert!(socket.exists());
    drop(recording);
    file.sync_data().unwrap();
    assert_eq!(std::fs::read(folder.path().join("data")).unwrap(), [7; 100_000]);
}

/// What a program has beside a cache waits for threads when it is dropped, too.
#[test]
fn a_forked_child_drops_devices_and_logs_and_their_parent_keeps_them() {
    let folder = folder();
    let devices: [Arc<dyn Device>; 2] = match Uring::new() {
        Ok(ring) => [Arc::new(Threads::new("a test")), Arc::new(ring)],
        Err(_) => [0, 1].map(|_| Arc::new(Threads::new("a test")) as Arc<dyn Device>),
    };
    for device in devices {
        let log = LogOrder::with_flush(Ok).unwrap();
        let cache = PageCache::builder().memory(2 << 20).device(device.clone());
        let cache = cache.build().unwrap();
        let options = OpenOptions::new().create(true).log(&log);
        let file = cache.open(folder.path().join("data"), options).unwrap();
        file.write_at(&[7; 8192], 0).unwrap();
        file.sync_data().unwrap();
        drop((file, cache));
        let mut parts = Some((device, log));
        let dropped = fork(|| {
            drop(parts.take());
            0
        });
        assert_eq!(dropped, Ok(0));
    }
}

#[test]
fn a_forked_child_drops_a_region_and_its_parent_keeps_it() {
    let folder = folder();
    let Some(cache) = with_swap(folder.path()) else {
        return;
    };
    let mut region = cache.region(4 << 20).unwrap();
    region.as_mut_slice().fill(3);
    let mut parts = Some((region, cache));
    let dropped = fork(|| {
        drop(parts.take());
        0
    });
    assert_eq!(dropped, Ok(0));
    let (region, _cache) = parts.unwrap();
    assert!(region.as_slice().iter().all(|&byte| byte == 3));
}

#[test]
fn a_forked_child_drops_a_mapping_and_its_parent_keeps_it() {
    let folder = folder();
    let path = folder.path().join("data");
    std::fs::write(&path, [3; 1 << 20]).unwrap();
    let cache = match PageCache::builder().memory(2 << 20).mappings(true).build() {
        Ok(cache) => cache,
        Err(why @ Error::Setup { .. }) => return println!("skipped: {why}"),
        Err(why) => panic!("{why}"),
    };
    let file = cache.open(&path, OpenOptions::new().write(true)).unwrap();
    let options = crate::MapOptions::new().writable(true);
    let mapping = file.map(.., &options).unwrap();
    let store = |mapping: &crate::Mapping, byte| {
        // SAFETY: inside the mapping, of which there is no slice now.
        unsafe { mapping.as_mut_ptr().wrapping_add(5000).write_volatile(byte) };
    };
    let sum = |mapping: &crate::Mapping| {
        // SAFETY: no thread changes the file.
        let bytes = unsafe { mapping.as_slice() };
        bytes.iter().map(|&byte| u64::from(byte)).sum::<u64>()
    };
    assert_eq!(sum(&mapping), 3 << 20);
    // Open, as it will be in the parent.
    store(&mapping, 3);
    let mut parts = Some((mapping, file, cache));
    let dropped = fork(|| {
        drop(parts.take());
        0
    });
    assert_eq!(dropped, Ok(0));
    let (mapping, _file, _cache) = parts.unwrap();
    store(&mapping, 4);
    mapping.sync(..).unwrap();
    assert_eq!(std::fs::read(&path).unwrap()[5000], 4);
    store(&mapping, 3);
    assert_eq!(sum(&mapping), 3 << 20);
    let touched = fork(|| std::hint::black_box(sum(&mapping)) as u8);
    assert_eq!(touched, Err(libc::SIGSEGV));
    assert_eq!(sum(&mapping), 3 << 20);
    mapping.close().unwrap();
    assert_eq!(std::fs::read(&path).unwrap()[5000], 3);
}

/// A worker of a pool died without a message, and its pool waited for ever.
#[test]
fn a_forked_child_that_touches_a_region_says_why_it_ends() {
    let folder = folder();
    let Some(cache) = with_swap(folder.path()) else {
        return;
    };
    let region = cache.region(4 << 20).unwrap();
    let (mut from_child, to_parent) = std::io::pipe().unwrap();
    let touched = fork(|| {
        // SAFETY: two descriptors of this child.
        unsafe { libc::dup2(to_parent.as_raw_fd(), libc::STDERR_FILENO) };
        std::hint::black_box(region.as_slice()[4096])
    });
    drop(to_parent);
    assert_eq!(touched, Err(libc::SIGSEGV));
    let mut said = String::new();
    from_child.read_to_string(&mut said).unwrap();
    assert!(
        said.contains("a forked child has touched memory that only its parent has"),
        "{said}"
    );
}

#[test]
fn calls_of_a_forked_child_are_refused_and_it_may_have_a_cache_of_its_own() {
    let folder = folder();
    let path = folder.path().join("data");
    let cache = PageCache::builder().memory(2 << 20).build().unwrap();
    let file = cache.open(&path, OpenOptions::new().create(true)).unwrap();
    file.write_at(&[7; 8192], 0).unwrap();
    file.sync_data().unwrap();
    let mut bytes = [0; 10];
    let said = fork(|| {
        let refused = [
            file.read_at(&mut bytes, 0).map(drop),
            file.write_at(&[1], 0),
            file.append(&[1]).map(drop),
            file.page(0).map(drop),
            file.page_mut(0).map(drop),
            file.try_page(0).map(drop),
            file.try_page_mut(0).map(drop),
            file.page_owned(0).map(drop),
            file.sync_data(),
            file.set_len(1),
            file.punch(0, 1),
            file.prefetch(0, 1),
            file.invalidate(..).map(drop),
            cache.open(&path, OpenOptions::new()).map(drop),
            cache.set_memory(3 << 20),
            cache.sync_all(),
        ];
        let wrong = refused
            .iter()
            .position(|call| !matches!(call, Err(Error::Forked)));
        if let Some(wrong) = wrong {
            return 100 + wrong as u8;
        }
        let own = PageCache::builder().memory(2 << 20).build();
        let read = own.and_then(|own| own.open(&path, OpenOptions::new())?.read_at(&mut bytes, 0));
        u8::from(!matches!(read, Ok(10)) || bytes != [7; 10])
    });
    assert_eq!(said, Ok(0));
    assert_eq!(file.read_at(&mut bytes, 0).unwrap(), 10);
}

/// A child that lives kept the lock, so that the same process could not use its own swap file again.
#[test]
fn a_swap_file_is_free_when_its_cache_has_ended_though_a_child_lives() {
    let folder = folder();
    let Some(cache) = with_swap(folder.path()) else {
        return;
    };
    let locked = std::fs::File::open(folder.path().join("swap")).unwrap();
    let is_locked = || super::direct::lock(&locked).is_err();
    assert!(is_locked(), "while the cache lives");
    let (mut from_child, to_parent) = std::io::pipe().unwrap();
    let (from_parent, to_child) = std::io::pipe().unwrap();
    // SAFETY: the child reads and writes, and leaves.
    let pid = unsafe { libc::fork() };
    if pid == 0 {
        drop(to_child);
        // Whether the child has an open file that is locked: those that its parent has for that are closed.
        let own = std::fs::read_dir("/proc/self/fd").unwrap().filter(|entry| {
            let path = entry.as_ref().unwrap().path();
            let number: i32 = path.file_name().unwrap().to_str().unwrap().parse().unwrap();
            let info = std::fs::read_to_string(format!("/proc/self/fdinfo/{number}")).unwrap_or_default();
            number != locked.as_raw_fd()
                && info.contains("FLOCK")
                && std::fs::read_link(&path).is_ok_and(|to| to.starts_with(folder.path()))
        });
        let _ = (&to_parent).write_all(&[own.count() as u8]);
        let _ = (&from_parent).read(&mut [0]);
        // SAFETY: ends the child at once.
        unsafe { libc::_exit(0) };
    }
    let mut own = [9];
    from_child.read_exact(&mut own).unwrap();
    assert_eq!(own, [0], "of a parent that is killed the child has the lock");
    assert!(is_locked(), "the parent has it");
    drop(cache);
    let again = with_swap(folder.path());
    assert!(again.is_some_and(|again| again.region(4096).is_ok()));
    drop(to_child);
    let mut status = 0;
    // SAFETY: room for one status.
    assert_eq!(unsafe { libc::waitpid(pid, &raw mut status, 0) }, pid);
}

/// The child was refused: another cache of "this process" wrote them.
#[test]
fn a_forked_child_may_write_its_parents_files_in_a_cache_of_its_own_whatever_threads_it_lost() {
    let folder = folder();
    let path = folder.path().join("data");
    let cache = PageCache::builder().memory(2 << 20).build().unwrap();
    let file = cache.open(&path, OpenOptions::new().create(true)).unwrap();
    file.write_at(&[7; 8192], 0).unwrap();
    file.sync_data().unwrap();
    let mut file = Some(file);
    // As if another thread were in the middle of it.
    let held = crate::files::writers::held_writers();
    let said = fork(|| {
        let own = PageCache::builder().memory(2 << 20).build().unwrap();
        let opened = own.open(&path, OpenOptions::new().write(true));
        drop(file.take());
        let second = PageCache::builder().memory(2 << 20).build().unwrap();
        let refused = second.open(&path, OpenOptions::new().write(true)).is_err();
        u8::from(opened.and_then(|file| file.write_at(&[8], 0)).is_err()) + 2 * u8::from(!refused)
    });
    drop(held);
    assert_eq!(said, Ok(0));
    let other = PageCache::builder().memory(2 << 20).build().unwrap();
    let refused = other.open(&path, OpenOptions::new().write(true));
    assert!(refused.is_err(), "the parent writes it still");
}

/// A child that lived kept the file locked when its parent was killed.
#[test]
fn a_forked_child_has_no_part_in_the_lock_of_a_file_for_one_cache_alone() {
    let folder = folder();
    let path = folder.path().join("data");
    let cache = PageCache::builder().memory(2 << 20).build().unwrap();
    let exclusive = || OpenOptions::new().create(true).exclusive(true);
    let mut file = Some(cache.open(&path, exclusive()).unwrap());
    drop(cache.open(&path, OpenOptions::new().write(true)).unwrap());
    let said = fork(|| {
        drop(file.take());
        let own = std::fs::read_dir("/proc/self/fd").unwrap().filter(|entry| {
            let path = entry.as_ref().unwrap().path();
            let number = path.file_name().unwrap().to_str().unwrap();
            let info = std::fs::read_to_string(format!("/proc/self/fdinfo/{number}")).unwrap_or_default();
            info.contains("OFDLCK") && std::fs::read_link(&path).is_ok_and(|to| to.starts_with(folder.path()))
        });
        own.count() as u8
    });
    assert_eq!(said, Ok(0));
    let beside = || {
        let other = PageCache::builder().memory(2 << 20).build().unwrap();
        other.open(&path, exclusive().beside_other_caches(true)).is_ok()
    };
    assert!(!beside(), "the parent has it");
    drop(file);
    assert!(beside());
}
