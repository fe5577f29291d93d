//! Pages that leave, and the next ones in their frames.

use crate::cache::{Cache, Core, add_one, cache, content, explore, key, together};
use crate::table::{Load, Lookup};
use crate::world::sync::Arc;
use crate::world::thread;
use millpond_core::frame::FrameTable;
use millpond_core::units::FrameNo;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

#[test]
fn pinned_page_is_not_evicted_and_its_frame_not_given_away() {
    explore(|| {
        let cache = cache(2, 0..2);
        let reader: fn(&Arc<Cache>) = |cache| {
            cache.read_if_there(0);
            cache.read_if_there(1);
            cache.read_if_there(0);
        };
        together(
            &cache,
            [reader, reader, |cache| {
                for page in 2..5 {
                    cache.evict(0..2);
                    if let Some(load) = cache.begin(page) {
                        cache.finish(load, page);
                    }
                }
            }],
        );
    });
}

#[test]
fn frame_that_got_another_page_is_not_mistaken_for_its_former_one() {
    static WRITTEN: AtomicBool = AtomicBool::new(false);
    fn replace(cache: &Cache) {
        if cache.evict(0..1) == 1
            && let Some(mut load) = cache.begin(1)
        {
            cache.fill(&mut load, 1);
            if WRITTEN.load(Relaxed) {
                add_one(&mut cache.table.finish_load_exclusive(load), 1);
            } else {
                cache.table.finish_load(load);
            }
        }
    }
    fn read_or_write() {
        let one = cache(1, 0..1);
        together(
            &one,
            [
                |cache| replace(cache),
                |cache| {
                    cache.read_if_there(0);
                },
            ],
        );
        let one = cache(1, 0..1);
        together(
            &one,
            [
                |cache| replace(cache),
                |cache| {
                    if let Lookup::Found(mut pin) = cache.table.lock(key(0), None) {
                        add_one(&mut pin, 0);
                    }
                },
            ],
        );
    }
    WRITTEN.store(false, Relaxed);
    explore(read_or_write);
    WRITTEN.store(true, Relaxed);
    explore(read_or_write);
}

/// Under Miri: the key of a page that has begun to be read, beside the word of the page before.
#[test]
fn page_that_is_being_read_is_not_there_yet() {
    explore(|| {
        let cache = cache(1, 0..1);
        let replace: fn(&Arc<Cache>) = |cache| {
            cache.evict(0..1);
            let load = cache.begin(1).expect("the only frame, which is free");
            cache.finish(load, 1);
        };
        let look: fn(&Arc<Cache>) = |cache| {
            if cache.table.holds(key(1)) {
                let number = cache.table.memory().0[0].content.load(Relaxed);
                assert_eq!(number, content(1, 0), "it is there and not read");
            }
        };
        together(&cache, [replace, look, look]);
    });
}

/// Under Miri: a thread that pins a page that has just come sees what was read into its frame (H7), and it
/// stays meanwhile (H3).
#[test]
fn pages_that_come_and_go_in_one_frame_are_read_as_they_are() {
    explore(|| {
        let cache = cache(1, 0..1);
        let replace: fn(&Arc<Cache>) = |cache| {
            for page in 1..4 {
                while cache.evict(0..1) == 0 {
                    thread::yield_now();
                }
                let load = cache.begin(page).expect("the only frame, which is free");
                cache.finish(load, page);
            }
        };
        let read: fn(&Arc<Cache>) = |cache| {
            while !cache.read_if_there(3) {
                cache.read_if_there(1);
                cache.read_if_there(2);
                thread::yield_now();
            }
        };
        together(&cache, [replace, read, read]);
    });
}

/// A thread that asks for page 0 and is overtaken gets an answer while page 1 is held in its frame: the
/// holder waits for the asker here, so that to wait for the holder would be for ever. `read_before`: the
/// asker may find page 0 pinned at first, and so has reason to wait and to ask for precedence.
fn ask_while_the_next_page_is_held(
    ask: fn(&Arc<Cache>),
    read_before: bool,
    hold: fn(&Cache, Load, thread::JoinHandle<()>),
) {
    let cache = cache(1, 0..1);
    let pin = match cache.table.pin(key(0), None) {
        Lookup::Found(pin) if read_before => Some(pin),
        _ => None,
    };
    let asker = {
        let cache = Arc::clone(&cache);
        thread::spawn(move || ask(&cache))
    };
    drop(pin);
    if cache.evict(0..1) == 0 {
        return asker.join().unwrap();
    }
    let mut load = cache.begin(1).expect("the only frame, which is free");
    cache.fill(&mut load, 1);
    hold(&cache, load, asker);
    let word = cache.table.word(FrameNo(0));
    assert!(!word.is_wanted(), "nobody wants page 1: {word:?}");
}

fn hold_alone(cache: &Cache, load: Load, asker: thread::JoinHandle<()>) {
    let _pin = cache.table.finish_load_exclusive(load);
    asker.join().unwrap();
}

fn hold_with_others(cache: &Cache, load: Load, asker: thread::JoinHandle<()>) {
    let _pin = cache.table.finish_load_pinned(load);
    asker.join().unwrap();
}

#[test]
fn reader_of_a_page_that_left_does_not_wait_for_who_has_its_frame() {
    fn read(cache: &Arc<Cache>) {
        cache.read_if_there(0);
    }
    explore(|| ask_while_the_next_page_is_held(read, false, hold_alone));
}

#[test]
fn writer_of_a_page_that_left_does_not_wait_for_who_has_its_frame() {
    fn write(cache: &Arc<Cache>) {
        if let Lookup::Found(mut pin) = cache.table.lock(key(0), None) {
            add_one(&mut pin, 0);
        }
    }
    explore(|| ask_while_the_next_page_is_held(write, false, hold_alone));
    explore(|| ask_while_the_next_page_is_held(write, false, hold_with_others));
    explore(|| ask_while_the_next_page_is_held(write, true, hold_alone));
    explore(|| ask_while_the_next_page_is_held(write, true, hold_with_others));
}

#[test]
fn page_that_is_forgotten_is_waited_for_and_gone_for_all() {
    explore(|| {
        let cache = cache(1, 0..1);
        let user: fn(&Arc<Cache>) = |cache| {
            if let Lookup::Found(mut pin) = cache.table.lock(key(0), None) {
                add_one(&mut pin, 0);
            }
            cache.read_if_there(0);
        };
        together(&cache, [user, user, |cache| cache.forget(0, FrameNo(0))]);
        assert!(matches!(cache.table.try_pin(key(0), true), Lookup::Absent));
    });
}

#[test]
fn page_is_never_missed_under_the_lock_nor_mistaken_without_it_while_chains_change() {
    explore(|| {
        let cache = cache(2, 0..2);
        let reader: fn(&Arc<Cache>) = |cache| {
            for page in [0, 1] {
                if !cache.read_if_there(page) {
                    let mut core = cache.core.lock().unwrap();
                    let found = cache.table.locked(&mut core.token).lookup(key(page));
                    assert!(found.is_some(), "X1: page {page} is missed under the lock");
                }
            }
        };
        together(
            &cache,
            [reader, reader, |cache| {
                for frames in [5, 7] {
                    let mut core = cache.core.lock().unwrap();
                    let Core { token, free } = &mut *core;
                    let mut locked = cache.table.locked(token);
                    let now = locked.frames();
                    locked.grow(frames).unwrap();
                    let load = locked.insert(key(9), FrameNo(now));
                    locked.fail_load(load);
                    assert_eq!(locked.shrink(0), 2, "frames 0 and 1 are in use");
                    locked.validate();
                    assert!(free.is_empty());
                }
            }],
        );
    });
}
