//! Memory of mappings that the kernel has in swap, or that the program has had it drop, or that it has none for.

use super::{PAGE, byte, cache, file_of, folder, open, touch};
use crate::MapOptions;
use crate::engine::driver::{By, Fault, Touch};
use crate::memory::Space;
use crate::sys::mapping::is_resident;
use crate::sys::uffd::Access;
use millpond_core::frame::{BeginWrite, FrameTable};
use millpond_core::units::{PageIndex, PageKey};
use std::sync::atomic::Ordering;
use std::time::Duration;

/// Has the kernel swap these bytes of a mapping out. `false`, and said why: it has no swap.
fn swap_out(start: *const u8, len: usize) -> bool {
    for _ in 0..100 {
        // SAFETY: changes no content.
        unsafe { libc::madvise(start.cast_mut().cast(), len, libc::MADV_PAGEOUT) };
        let all = (0..len).step_by(PAGE);
        if !all.map(|at| start.addr() + at).any(is_resident) {
            return true;
        }
    }
    println!("skipped: the kernel swaps nothing out here (swapon)");
    false
}

/// It was taken for one that the program had dropped, and stores were lost.
#[test]
fn a_page_of_a_mapping_that_is_in_swap_is_still_there() {
    let folder = folder();
    let path = folder.path().join("data");
    file_of(&path, 10);
    let Some(cache) = cache(2 << 20) else { return };
    let file = open(&cache, &path);
    let mapping = file.map(.., &MapOptions::new().writable(true)).unwrap();
    let (engine, words) = (&file.cache.engine, mapping.words());
    words[PAGE / 8].store(7, Ordering::Relaxed);
    assert_eq!(touch(&mapping, 2 * PAGE), byte(2));
    if !swap_out(mapping.as_ptr().wrapping_add(PAGE), 2 * PAGE) {
        return;
    }
    // Threads that touched them when others did: their faults are served late.
    let mapped = engine.mapped_of(&file.inner).unwrap();
    for (page, access) in [(1, Access::Read), (1, Access::Write), (2, Access::Read)] {
        let served = Touch::new((Space::File(mapped.clone()), page), access).attempt(engine, By::Thread);
        assert_eq!(served, Fault::Served);
    }
    assert_eq!(words[PAGE / 8].load(Ordering::Relaxed), 7);
    file.write_at(&[9], 2 * PAGE as u64).unwrap();
    assert_eq!(touch(&mapping, 2 * PAGE), 9);
    // What leaves the mapping comes out of swap as well.
    words[PAGE / 8].store(8, Ordering::Relaxed);
    assert!(swap_out(mapping.as_ptr().wrapping_add(PAGE), PAGE));
    assert_eq!(file.page(1).unwrap()[0], 8);
    mapping.sync(..).unwrap();
    assert_eq!(std::fs::read(&path).unwrap()[PAGE], 8);
}

/// The process ended: a page that is being written can't be shut.
#[test]
fn a_store_to_a_page_that_is_being_written_waits_where_the_kernel_has_no_memory_for_it() {
    let folder = folder();
    let path = folder.path().join("data");
    file_of(&path, 10);
    let Some(cache) = cache(2 << 20) else { return };
    let file = open(&cache, &path);
    let mapping = file.map(.., &MapOptions::new().writable(true)).unwrap();
    let engine = &file.cache.engine;
    let spaces = engine.spaces.as_ref().unwrap();
    let is_short = |is_so| spaces.exchange.uffd().is_short.store(is_so, Ordering::Relaxed);
    let frame = loop {
        file.write_at(&[5], 3 * PAGE as u64).unwrap();
        let mut core = engine.core();
        let mut table = engine.table.locked(&mut core.token);
        let frame = table.lookup(PageKey::new(file.inner.id, PageIndex(3)));
        if let Some(frame) = frame
            && table.begin_write(frame) == BeginWrite::Begun
        {
            break frame;
        }
    };
    is_short(true);
    std::thread::scope(|scope| {
        let storing = scope.spawn(|| mapping.words()[3 * PAGE / 8 + 1].store(7, Ordering::Relaxed));
        while !spaces.had_no_memory.load(Ordering::Relaxed) {
            std::thread::sleep(Duration::from_millis(1));
        }
        assert!(!storing.is_finished());
        is_short(false);
    });
    engine.table.end_write(frame);
    assert_eq!(
        file.page(3).unwrap()[..9],
        [
            5,
            byte(3),
            byte(3),
            byte(3),
            byte(3),
            byte(3),
            byte(3),
            byte(3),
            7
        ]
    );
    mapping.sync(..).unwrap();
    assert_eq!(std::fs::read(&path).unwrap()[3 * PAGE + 8], 7);
}

/// Each sync took as long as a call waits at most, and then said that a device had the page.
#[test]
fn pages_dropped_by_the_kernel_at_a_program_s_request_are_read_again_and_fail_no_sync() {
    for faults in super::BOTH {
        let folder = folder();
        let path = folder.path().join("data");
        file_of(&path, 10);
        let Some(cache) = cache(2 << 20) else { return };
        let file = open(&cache, &path);
        let options = MapOptions::new().faults(faults).writable(true);
        let mapping = file.map(.., &options).unwrap();
        let word = |page: usize| &mapping.words()[page * PAGE / 8];
        let drop_them = || {
            let start = mapping.as_mut_ptr().cast();
            // SAFETY: no thread has a reference to it; what it has is read again.
            assert_eq!(unsafe { libc::madvise(start, 10 * PAGE, libc::MADV_DONTNEED) }, 0);
        };
        (0..10).for_each(|page| assert_eq!(touch(&mapping, page * PAGE), byte(page)));
        drop_them();
        (0..10).for_each(|page| assert_eq!(touch(&mapping, page * PAGE), byte(page)));
        for again in 0..4 {
            (2..5).for_each(|page| word(page).store(u64::MAX, Ordering::Relaxed));
            drop_them();
            match again {
                0 => mapping.sync(..).unwrap(),
                1 => assert_eq!(file.page(3).unwrap()[0], byte(3)),
                // One may be left that the thread which served the store still has in hand.
                2 => drop(file.invalidate(..).unwrap()),
                _ => {}
            }
            (0..10).for_each(|page| assert_eq!(touch(&mapping, page * PAGE), byte(page)));
        }
        mapping.close().unwrap();
        assert!((0..10).all(|page| std::fs::read(&path).unwrap()[page * PAGE] == byte(page)));
    }
}
