//! Frames, their bytes, and the pins that keep them.

use super::*;
use crate::frames::table::{Lookup, WriteToken};
use millpond_core::frame::FrameTable;
use millpond_core::units::{FileId, PageIndex, PageKey};
use std::cell::Cell;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, mpsc};
use std::thread;

fn key(page: u64) -> PageKey {
    PageKey::new(FileId(3), PageIndex(page))
}

fn table(frames_max: u32, frames: u32) -> (Table<Arena>, WriteToken) {
    let memory = Bytes(u64::from(frames_max) << 12);
    let (table, mut token) = Table::new(Arena::new(memory, PageSize::KIB_4, false).unwrap()).unwrap();
    table.locked(&mut token).grow(frames).unwrap();
    (table, token)
}

fn load(table: &Table<Arena>, token: &mut WriteToken, page: u64, frame: u32, fill: u8) {
    let mut load = table.locked(token).insert(key(page), FrameNo(frame));
    table.load_bytes(&mut load).fill(fill);
    table.finish_load(load);
}

fn pin(table: &Table<Arena>, page: u64) -> SharedPin<&Table<Arena>> {
    let Lookup::Found(pin) = table.pin(key(page), None) else {
        panic!("page {page} is not there")
    };
    pin
}

fn lock(table: &Table<Arena>, page: u64) -> ExclusivePin<&Table<Arena>> {
    let Lookup::Found(pin) = table.lock(key(page), None) else {
        panic!("page {page} is not there")
    };
    pin
}

/// In a child that has only the forking thread: it may only read a byte and exit.
#[test]
fn a_forked_child_faults_at_the_first_touch_of_a_page_and_the_parent_keeps_it() {
    let (table, mut token) = table(1024, 4);
    load(&table, &mut token, 1, 0, 0x11);
    let held = pin(&table, 1);
    let byte: *const u8 = &raw const held[0];
    // SAFETY: the child calls nothing that takes a lock or allocates.
    let child = unsafe { libc::fork() };
    assert!(child >= 0, "{}", io::Error::last_os_error());
    if child == 0 {
        // SAFETY: the page is pinned; in the child there is nothing behind the address, which is what is tried.
        let seen = unsafe { byte.read_volatile() };
        // SAFETY: ends the child at once.
        unsafe { libc::_exit(i32::from(seen)) };
    }
    let mut status = 0;
    // SAFETY: room for one status.
    let ended = unsafe { libc::waitpid(child, &raw mut status, 0) };
    assert_eq!(ended, child);
    assert!(
        libc::WIFSIGNALED(status) && libc::WTERMSIG(status) == libc::SIGSEGV,
        "status {status:#x}"
    );
    assert_eq!(held[0], 0x11);
}

#[test]
fn pins_give_the_bytes_of_their_own_page() {
    let (table, mut token) = table(1024, 513);
    load(&table, &mut token, 1, 0, 0x11);
    load(&table, &mut token, 2, 512, 0x22);
    assert!(pin(&table, 1).iter().all(|&byte| byte == 0x11));
    let mut exclusive = lock(&table, 2);
    assert!(exclusive.first_dirty());
    exclusive[4095] = 0x33;
    drop(exclusive);
    assert!(!lock(&table, 2).first_dirty());
    let two = pin(&table, 2);
    assert_eq!((two[0], two[4095], two.len()), (0x22, 0x33, 4096));
    assert_eq!(two.key(), key(2));
    assert!(matches!(table.pin(key(3), None), Lookup::Absent));
}

#[test]
fn page_that_is_pinned_is_busy_for_a_writer_who_does_not_wait() {
    let (table, mut token) = table(1, 1);
    load(&table, &mut token, 1, 0, 0);
    let shared = pin(&table, 1);
    assert!(matches!(table.try_lock(key(1)), Lookup::Busy(FrameNo(0))));
    drop(shared);
    let Lookup::Found(exclusive) = table.try_lock(key(1)) else {
        panic!("nobody has it")
    };
    assert_eq!(exclusive.key(), key(1));
    assert!(matches!(table.try_pin(key(1), true), Lookup::Busy(FrameNo(0))));
    assert!(table.hit(key(1)).is_none());
    drop(exclusive);
    assert!(table.hit(key(1)).is_some());
}

#[test]
fn withdrawn_memory_is_given_back() {
    let (table, mut token) = table(1024, 1024);
    load(&table, &mut token, 1, 1000, 0xff);
    load(&table, &mut token, 2, 700, 0xff);
    let mut frames = vec![FrameNo(1000)];
    table.locked(&mut token).evict(&mut frames);
    assert_eq!(frames, [FrameNo(1000)]);
    assert_eq!(
        table.locked(&mut token).shrink(512),
        701,
        "frame 700 holds a page"
    );
    table.locked(&mut token).grow(1024).unwrap();
    let mut load = table.locked(&mut token).insert(key(1), FrameNo(1000));
    assert!(
        table.load_bytes(&mut load).iter().all(|&byte| byte == 0),
        "fresh memory is zero"
    );
    table.finish_load(load);
    assert_eq!(pin(&table, 2)[0], 0xff);
    table.locked(&mut token).validate();
}

/// Whether a process may read this address, as the kernel lists it.
fn is_readable(address: usize) -> bool {
    let maps = std::fs::read_to_string("/proc/self/maps").unwrap();
    let line = maps.lines().find(|line| {
        let (start, end) = line.split(' ').next().unwrap().split_once('-').unwrap();
        let number = |text| usize::from_str_radix(text, 16).unwrap();
        (number(start)..number(end)).contains(&address)
    });
    line.is_some_and(|line| line.split(' ').nth(1).unwrap().starts_with('r'))
}

/// SQLite reads up to 256 bytes behind a page that is lent to it, in a corrupt database.
#[test]
fn behind_the_last_frame_is_something_to_read_as_memory_grows_and_shrinks_and_then_nothing() {
    let (table, mut token) = table(1024, 512);
    let end = |frames: usize| table.memory().mapping.start().addr().get() + (frames << 12);
    let is_so = |frames: usize| {
        (
            is_readable(end(frames) + 255),
            is_readable(end(frames) + kernel_page()),
        )
    };
    assert_eq!(is_so(512), (true, false));
    assert_eq!(table.locked(&mut token).shrink(64), 64);
    assert_eq!(is_so(64), (true, false));
    table.locked(&mut token).grow(1024).unwrap();
    assert_eq!(is_so(1024), (true, false));
}

#[test]
fn table_takes_27_bytes_a_frame_at_most_whatever_the_files_are() {
    let (table, mut token) = table(1 << 20, 512);
    let bytes = 26 * 512 + 4 * 512 / 32;
    assert_eq!(table.locked(&mut token).metadata_bytes(), bytes);
    load(&table, &mut token, PageKey::PAGES_MAX - 1, 0, 0);
    assert_eq!(table.locked(&mut token).metadata_bytes(), bytes);
}

#[test]
fn frames_are_left_out_of_core_dumps_and_children_and_are_in_huge_pages_if_the_kernel_has_any() {
    let (table, mut token) = table(2048, 1024);
    load(&table, &mut token, 1, 0, 1);
    load(&table, &mut token, 2, 512, 1);
    let start = table.memory().mapping.start().addr().get();
    let smaps = std::fs::read_to_string("/proc/self/smaps").unwrap();
    let ours = smaps.split_once(&format!("{start:x}-")).unwrap().1;
    let flags = ours.lines().find(|line| line.starts_with("VmFlags:")).unwrap();
    assert!(
        flags.contains(" dd ") && flags.contains(" dc "),
        "do not dump, do not copy: {flags}"
    );
    let huge = table.memory().huge_bytes().unwrap();
    assert!(huge <= Bytes::from_mib(4), "{huge} of 4 MiB");
    let is_huge = crate::host::small_pages(table.memory().huge_pages().unwrap()).is_none();
    if is_huge && huge == Bytes(0) {
        println!("skipped: the kernel has huge pages switched on but gave none");
    }
    assert!(
        is_huge || huge == Bytes(0),
        "{huge} in huge pages though there are none"
    );
}

#[test]
fn page_sizes_and_limits_are_kept() {
    let (table, mut token) =
        Table::new(Arena::new(Bytes::from_mib(4), PageSize::KIB_64, false).unwrap()).unwrap();
    assert_eq!(
        (table.memory().frames_max(), table.memory().frames_per_huge_page()),
        (64, 32)
    );
    table.locked(&mut token).grow(64).unwrap();
    load(&table, &mut token, 9, 63, 0x99);
    let page = pin(&table, 9);
    assert_eq!((page.len(), page[65_535]), (65_536, 0x99));
    for wrong in [Bytes(0), Bytes(1), Bytes(u64::MAX)] {
        assert!(Arena::new(wrong, PageSize::KIB_4, false).is_err(), "{wrong:?}");
    }
}

#[test]
#[should_panic(expected = "a load of another cache")]
fn load_of_another_cache_gives_no_bytes() {
    let (one, mut token) = table(1, 1);
    let (two, _) = table(1, 1);
    let mut load = one.locked(&mut token).insert(key(0), FrameNo(0));
    two.load_bytes(&mut load);
}

#[test]
#[should_panic(expected = "the holder of another cache")]
fn pin_cannot_be_held_by_another_cache() {
    let (one, mut token) = table(1, 1);
    load(&one, &mut token, 0, 0, 0);
    let _ = pin(&one, 0).hold_by(Arc::new(table(1, 1).0));
}

#[test]
#[should_panic(expected = "f0 is not under writeback")]
fn page_that_is_not_under_writeback_has_no_address_for_the_device() {
    let (table, mut token) = table(1, 1);
    load(&table, &mut token, 0, 0, 0);
    table.writing_frame(FrameNo(0));
}

#[test]
fn owned_pins_keep_the_table_and_may_be_dropped_elsewhere() {
    let (table, mut token) = table(1, 1);
    load(&table, &mut token, 0, 0, 0x77);
    let table = Arc::new(table);
    let (send, receive) = mpsc::channel::<SharedPin<Arc<Table<Arena>>>>();
    let pinned = {
        let table = Arc::clone(&table);
        thread::spawn(move || send.send(pin(&table, 0).hold_by(Arc::clone(&table))).unwrap())
    };
    let page = receive.recv().unwrap();
    pinned.join().unwrap();
    let mut frames = vec![FrameNo(0)];
    table.locked(&mut token).evict(&mut frames);
    assert!(
        frames.is_empty(),
        "it is pinned, though the thread that pinned it has ended"
    );
    let weak = Arc::downgrade(&table);
    drop(table);
    assert_eq!(page[0], 0x77);
    drop(page);
    assert!(weak.upgrade().is_none());
}

#[test]
fn pages_can_be_pinned_while_a_thread_ends() {
    struct Last(Cell<Option<Arc<Table<Arena>>>>);
    impl Drop for Last {
        fn drop(&mut self) {
            let table = self.0.take().unwrap();
            assert_eq!(pin(&table, 0)[0], 0x55);
            SEEN.fetch_add(1, Ordering::Relaxed);
        }
    }
    static SEEN: AtomicU64 = AtomicU64::new(0);
    thread_local!(static LAST: Last = const { Last(Cell::new(None)) });
    let (table, mut token) = table(1, 1);
    load(&table, &mut token, 0, 0, 0x55);
    let table = Arc::new(table);
    for pin_before in [false, true] {
        let table = Arc::clone(&table);
        let pin_in_destructor = move || {
            LAST.with(|last| last.0.set(Some(Arc::clone(&table))));
            if pin_before {
                drop(pin(&table, 0));
            }
        };
        thread::spawn(pin_in_destructor).join().unwrap();
    }
    assert_eq!(SEEN.load(Ordering::Relaxed), 2);
}

/// The processor's own reordering, which a scheduler of threads does not show. With a relaxed store
/// in `Hazard::publish` this fails on two processors, nearly every time.
#[test]
fn threads_never_see_another_page_nor_half_a_change() {
    const PAGES: u64 = 2;
    let rounds = std::env::var("MILLPOND_ROUNDS").map_or(100_000, |n| n.parse().unwrap());
    let (table, mut token) = table(PAGES as u32, PAGES as u32);
    let done = AtomicBool::new(false);
    let fill = |bytes: &mut [u8], value: u64| {
        bytes
            .chunks_exact_mut(8)
            .for_each(|word| word.copy_from_slice(&value.to_ne_bytes()));
    };
    let read = || {
        // Stores that miss the processor's cache, for the slot's to wait behind.
        let (mut elsewhere, mut at) = (vec![0_u64; 1 << 21], 0_usize);
        let mut hits = 0;
        while hits < 1_000 || !done.load(Ordering::Relaxed) {
            for page in 0..PAGES {
                for _ in 0..8 {
                    at = (at + 0x5_4321) % elsewhere.len();
                    elsewhere[at] = hits;
                }
                let Some(pin) = table.hit(key(page)) else { continue };
                let mut words = pin
                    .chunks_exact(8)
                    .map(|word| u64::from_ne_bytes(word.try_into().unwrap()));
                let first = words.next().unwrap();
                assert_eq!(first >> 32, page, "another page");
                assert!(words.all(|word| word == first), "half a change of {first:x}");
                hits += 1;
            }
        }
    };
    let mut change = |mut free: Vec<FrameNo>| {
        for n in 0..rounds {
            // Each page is biased at first, then locked, evicted, and read into a frame that was
            // another's.
            for page in 0..PAGES {
                let mut locked = table.locked(&mut token);
                if locked.lookup(key(page)).is_none()
                    && let Some(frame) = free.pop()
                {
                    let mut load = locked.insert(key(page), frame);
                    fill(table.load_bytes(&mut load), page << 32);
                    table.finish_load(load);
                }
                if n % 2 == 0
                    && let Lookup::Found(mut pin) = table.try_lock(key(page))
                {
                    fill(&mut pin, page << 32 | n);
                }
            }
            let mut locked = table.locked(&mut token);
            let mut frames = (0..PAGES).filter_map(|page| locked.lookup(key(page))).collect();
            locked.forget(&mut frames);
            free.extend(frames.drain(..).rev());
        }
        for page in (0..PAGES).map(key) {
            if let Some(frame) = free.pop_if(|_| table.locked(&mut token).lookup(page).is_none()) {
                let mut load = table.locked(&mut token).insert(page, frame);
                fill(table.load_bytes(&mut load), page.index().0 << 32);
                table.finish_load(load);
            }
        }
        done.store(true, Ordering::Relaxed);
        table.locked(&mut token).validate();
    };
    thread::scope(|scope| {
        scope.spawn(read);
        scope.spawn(move || change((0..PAGES as u32).map(FrameNo).collect()));
    });
}

/// Inserting a page also says that its frame is free no longer: else another frame would be exchanged with
/// it.
#[test]
fn with_exchanged_pages_an_inserted_page_goes_next_to_its_predecessor() {
    let arena = Arena::new(Bytes(64 << 12), PageSize::KIB_4, true).unwrap();
    let (table, mut token) = Table::new(arena).unwrap();
    table.locked(&mut token).grow(64).unwrap();
    table.memory().places().born(64, true);
    for (page, frame) in [(0, 5), (1, 40), (2, 7), (9, 41)] {
        load(&table, &mut token, page, frame, page as u8);
    }
    let at = |page| pin(&table, page).as_ptr().addr() - table.memory().mapping.start().addr().get();
    assert_eq!([at(1), at(2)], [at(0) + 4096, at(0) + 8192]);
    assert!(
        [0, 1, 2, 9]
            .iter()
            .all(|&page| u64::from(pin(&table, page)[0]) == page)
    );
}

#[test]
fn more_frames_than_there_are_numbers_for_places_are_refused() {
    let refused = |bytes, exchanged| {
        let arena = Arena::new(Bytes(bytes), PageSize::KIB_4, exchanged);
        arena.err().map(|error| error.to_string())
    };
    let said = refused(15 << 40, true).unwrap();
    let most = places::FRAMES_MAX;
    assert_eq!(
        said,
        format!("{} pages of memory at most; must be 1 to {most}", 15_u64 << 28)
    );
    assert!(refused(16 << 40, false).is_some() && refused(0, true).is_some());
}

/// The kernel filled in what had been given back: a pool that had become smaller was as large as before within a minute.
#[test]
fn what_is_given_back_is_not_made_part_of_a_huge_page_again() {
    let (table, mut token) = table(2048, 2048);
    if !matches!(table.memory().huge_pages(), Some(Ok(()))) {
        return println!("skipped: no huge pages");
    }
    table.locked(&mut token).give_back(FrameNo(700));
    let start = table.memory().mapping.start().addr().get();
    let smaps = std::fs::read_to_string("/proc/self/smaps").unwrap();
    let may_be_huge = |frame: usize| {
        let address = start + (frame << 12);
        let mut inside = false;
        let flags = smaps.lines().find(|line| {
            let range = line.split(' ').next().and_then(|range| range.split_once('-'));
            let hex = |word: &str| usize::from_str_radix(word, 16).ok();
            if let Some((low, high)) = range.and_then(|(low, high)| hex(low).zip(hex(high))) {
                inside = (low..high).contains(&address);
            }
            inside && line.starts_with("VmFlags:")
        });
        flags.unwrap().contains(" hg")
    };
    assert_eq!(
        [0, 511, 512, 700, 1023, 1024].map(may_be_huge),
        [true, true, false, false, false, true]
    );
}
