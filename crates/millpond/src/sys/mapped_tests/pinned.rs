//! Pages of mappings that others have as well: a device for long, a pipe, the program's own lock.

use super::{BOTH, PAGE, byte, cache, cache_with, file_of, folder, misses_system_calls, open, touch};
use crate::device::Awaited;
use crate::{Error, MapOptions, Options, Warning};
use io_uring::IoUring;
use millpond_core::units::Nanos;
use std::io::Read;
use std::os::fd::AsRawFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

/// A ring that may write into the page at this address at any time, until it is dropped.
fn registered(address: *mut u8) -> Option<IoUring> {
    let ring = IoUring::new(2)
        .inspect_err(|why| println!("skipped: {why}"))
        .ok()?;
    let page = libc::iovec {
        iov_base: address.cast(),
        iov_len: PAGE,
    };
    // SAFETY: nothing is handed in, so the memory is only pinned.
    let done = unsafe { ring.submitter().register_buffers(&[page]) };
    done.inspect_err(|why| println!("skipped: {why}")).ok()?;
    Some(ring)
}

#[test]
fn a_page_that_a_ring_has_for_good_is_an_error_of_sync_and_neither_a_cut_nor_the_end_waits_for_it() {
    for faults in BOTH {
        let folder = folder();
        let path = folder.path().join("data");
        file_of(&path, 20);
        let options = Options {
            alloc_timeout: Nanos::from_millis(100),
            ..Options::default()
        };
        let Some(cache) = cache_with(2 << 20, |builder| builder.options(options)) else {
            return;
        };
        let file = open(&cache, &path);
        let mapping = file
            .map(.., &MapOptions::new().faults(faults).writable(true))
            .unwrap();
        let words = mapping.words();
        let store = |page: usize| words[page * PAGE / 8].store(7, Ordering::Relaxed);
        [3, 4, 5].into_iter().for_each(store);
        let Some(ring) = registered(mapping.as_mut_ptr().wrapping_add(4 * PAGE)) else {
            return;
        };
        let error = mapping.sync(..).unwrap_err();
        assert_eq!(
            (matches!(error, Error::Write { .. }), error.errno()),
            (true, libc::EBUSY),
            "{error}"
        );
        // The others are written, and none is lost.
        assert_eq!(std::fs::read(&path).unwrap()[3 * PAGE], 7);
        assert_eq!(touch(&mapping, 4 * PAGE), 7);
        // A ring that is dropped lets go when the kernel comes to it.
        ring.submitter().unregister_buffers().unwrap();
        drop(ring);
        mapping.sync(..).unwrap();
        assert_eq!(std::fs::read(&path).unwrap()[4 * PAGE], 7);
        // A cut takes it away.
        [3, 4, 9].into_iter().for_each(store);
        let ring = registered(mapping.as_mut_ptr().wrapping_add(9 * PAGE));
        file.set_len(5 * PAGE as u64).unwrap();
        drop(ring);
        file.set_len(20 * PAGE as u64).unwrap();
        assert_eq!(touch(&mapping, 9 * PAGE), 0);
        // And the end what it has at that moment.
        let _ring = registered(mapping.as_mut_ptr().wrapping_add(4 * PAGE));
        store(9);
        drop(mapping);
        assert_eq!((file.page(4).unwrap()[0], file.page(9).unwrap()[0]), (7, 7));
        file.close().unwrap();
        assert_eq!(std::fs::read(&path).unwrap()[4 * PAGE], 7);
    }
}

/// They went round and round, and no warning said what for.
#[test]
fn calls_that_wait_for_a_page_that_a_ring_has_say_so_and_end_with_it() {
    let folder = folder();
    let path = folder.path().join("data");
    file_of(&path, 20);
    let warnings = Arc::new(AtomicU32::new(0));
    let told = warnings.clone();
    let options = Options {
        hung_io_timeout: Nanos::from_millis(100),
        ..Options::default()
    };
    let with = move |builder: crate::Builder| {
        builder.options(options).on_warning(move |warning| {
            // On a slow day other waits are as long.
            if let Warning::Waiting {
                awaited: Awaited::Transfer { page: 4 },
                ..
            } = warning
            {
                told.fetch_add(1, Ordering::Relaxed);
            }
        })
    };
    let Some(cache) = cache_with(2 << 20, with) else {
        return;
    };
    let file = open(&cache, &path);
    file.set_len(4 * PAGE as u64 + 1000).unwrap();
    let mapping = file.map(.., &MapOptions::new().writable(true)).unwrap();
    let word = &mapping.words()[4 * PAGE / 8];
    let calls: [&(dyn Fn() + Sync); 6] = [
        &|| assert_eq!(file.read_at(&mut [0; 9], 4 * PAGE as u64).unwrap(), 9),
        &|| assert_eq!(file.page(4).unwrap()[0], 7),
        &|| assert_eq!(mapping.try_read(4 * PAGE.., |bytes| bytes[0]).unwrap(), 7),
        &|| file.write_at(&[7], 4 * PAGE as u64).unwrap(),
        &|| file.set_len(4 * PAGE as u64 + 500).unwrap(),
        &|| file.set_len(5 * PAGE as u64).unwrap(),
    ];
    for call in calls {
        word.store(7, Ordering::Relaxed);
        let Some(ring) = registered(mapping.as_mut_ptr().wrapping_add(4 * PAGE)) else {
            return;
        };
        let before = warnings.load(Ordering::Relaxed);
        std::thread::scope(|scope| {
            let waiting = scope.spawn(call);
            while warnings.load(Ordering::Relaxed) < before + 2 {
                std::thread::sleep(std::time::Duration::from_millis(1));
            }
            assert!(!waiting.is_finished());
            drop(ring);
            waiting.join().unwrap();
        });
    }
    assert_eq!(file.page(4).unwrap()[500..510], [0; 10]);
}

#[test]
fn bytes_given_to_a_pipe_stay_the_same_whatever_their_memory_is_needed_for() {
    let folder = folder();
    let path = folder.path().join("data");
    file_of(&path, 2048);
    let Some(cache) = cache(2 << 20) else { return };
    if misses_system_calls(&cache, crate::Faults::Handlers) {
        return println!("skipped: system calls don't see faults here");
    }
    let file = open(&cache, &path);
    let mapping = file.map(.., &MapOptions::new().writable(true)).unwrap();
    const LEN: usize = 16 * PAGE;
    // Half of it was only read.
    (0..LEN / 8 / 2).for_each(|word| mapping.words()[word].store(u64::MAX, Ordering::Relaxed));
    let (mut from, to) = std::io::pipe().unwrap();
    let mut all = (0..LEN).step_by(PAGE);
    assert!(all.all(|at| touch(&mapping, at) > 0));
    let given = libc::iovec {
        iov_base: mapping.as_mut_ptr().cast(),
        iov_len: LEN,
    };
    // SAFETY: one range, which the mapping has for longer than the pipe has it.
    let spliced = unsafe { libc::vmsplice(to.as_raw_fd(), &raw const given, 1, 0) };
    assert_eq!(spliced, LEN as isize);
    mapping.sync(..).unwrap();
    for round in 0..3_u64 {
        (16..2048).for_each(|page| mapping.words()[page * PAGE / 8].store(round, Ordering::Relaxed));
        (0..2048).for_each(|page| drop(file.page(page).unwrap()));
    }
    let mut got = vec![0; LEN];
    from.read_exact(&mut got).unwrap();
    let is = |at: usize| if at < LEN / 2 { 255 } else { byte(at / PAGE) };
    let wrong = got.iter().enumerate().filter(|&(at, &got)| got != is(at)).count();
    assert_eq!(wrong, 0, "bytes of {LEN} that are another's");
}

#[test]
fn a_mapping_that_its_program_locks_or_makes_read_only_comes_and_goes_as_ever() {
    for faults in BOTH {
        let folder = folder();
        let path = folder.path().join("data");
        file_of(&path, 2048);
        let warnings = Arc::new(AtomicU32::new(0));
        let told = warnings.clone();
        let with = move |builder: crate::Builder| {
            builder.on_warning(move |warning| {
                assert!(matches!(warning, Warning::RegionUnlocked), "{warning}");
                told.fetch_add(1, Ordering::Relaxed);
            })
        };
        let Some(cache) = cache_with(2 << 20, with) else {
            return;
        };
        let file = open(&cache, &path);
        let mapping = file
            .map(.., &MapOptions::new().faults(faults).writable(true))
            .unwrap();
        let word = |page: usize| &mapping.words()[page * PAGE / 8];
        let start = mapping.as_mut_ptr().cast();
        for round in 0..3 {
            (0..2048).for_each(|page| word(page).store(round + page as u64, Ordering::Relaxed));
            if round == 1 {
                // SAFETY: changes no content.
                let locked = unsafe { libc::mlock(start, 100 * PAGE) };
                let error = std::io::Error::last_os_error();
                // Else the kernel can't bring what is absent.
                assert!(locked == 0 || misses_system_calls(&cache, faults), "{error}");
            }
            if round == 2 {
                // SAFETY: no thread writes there while it is read-only.
                let protected = unsafe { libc::mprotect(start, 1000 * PAGE, libc::PROT_READ) };
                assert_eq!(protected, 0);
            }
            (0..2048).rev().for_each(|page| {
                assert_eq!(
                    word(page).load(Ordering::Relaxed),
                    round + page as u64,
                    "page {page}"
                );
            });
        }
        // SAFETY: as above.
        unsafe { libc::mprotect(start, 1000 * PAGE, libc::PROT_READ | libc::PROT_WRITE) };
        mapping.close().unwrap();
        let on_device = std::fs::read(&path).unwrap();
        for (page, bytes) in on_device.chunks_exact(PAGE).enumerate() {
            assert_eq!(
                u64::from_ne_bytes(bytes[..8].try_into().unwrap()),
                2 + page as u64,
                "{page}"
            );
        }
    }
}
