//! A thread that waits for a page goes on: when its load or its write ends, or when all waiting is
//! called off.

use crate::cache::{Cache, cache, explore, key, look, together};
use crate::table::Lookup;
use crate::world::sync::Arc;
use crate::world::thread;
use millpond_core::frame::{BeginWrite, FrameTable};
use millpond_core::units::FrameNo;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

#[test]
fn faults_on_one_page_share_one_load_and_survive_its_failure() {
    static LOADS: AtomicU64 = AtomicU64::new(0);
    explore(|| {
        LOADS.store(0, Relaxed);
        let cache = cache(1, 0..0);
        let reader: fn(&Arc<Cache>) = |cache| {
            loop {
                match cache.table.pin(key(7), None) {
                    Lookup::Found(pin) => {
                        look(&pin, 7);
                        return;
                    }
                    Lookup::Loading(frame) => cache.table.wait_loading(frame, key(7)),
                    Lookup::Busy(frame) => panic!("{frame:?} is busy for one who waits"),
                    Lookup::Absent => {
                        let Some(mut load) = cache.begin(7) else { continue };
                        cache.fill(&mut load, 7);
                        if LOADS.fetch_add(1, Relaxed) == 0 {
                            let mut core = cache.core.lock().unwrap();
                            let frame = cache.table.locked(&mut core.token).fail_load(load);
                            core.free.push(frame);
                        } else {
                            look(&cache.table.finish_load_pinned(load), 7);
                            return;
                        }
                    }
                }
            }
        };
        together(&cache, [reader, reader, reader]);
        assert_eq!(LOADS.load(Relaxed), 2, "one that failed and one that did not");
    });
}

#[test]
fn end_of_a_load_wakes_who_waits_for_it() {
    explore(|| {
        for fails in [false, true] {
            let cache = cache(1, 0..0);
            let mut load = cache.begin(0).expect("a free frame");
            let waiter = {
                let cache = Arc::clone(&cache);
                thread::spawn(move || {
                    cache.table.wait_loading(FrameNo(0), key(0));
                    assert_eq!(cache.read_if_there(0), !fails);
                })
            };
            cache.fill(&mut load, 0);
            if fails {
                cache
                    .table
                    .locked(&mut cache.core.lock().unwrap().token)
                    .fail_load(load);
            } else {
                cache.table.finish_load(load);
            }
            waiter.join().unwrap();
        }
    });
}

#[test]
fn end_of_a_write_wakes_who_waits_for_it() {
    explore(|| {
        let cache = cache(1, 0..1);
        assert!(cache.change(0));
        let mut core = cache.core.lock().unwrap();
        let begun = cache.table.locked(&mut core.token).begin_write(FrameNo(0));
        assert_eq!(begun, BeginWrite::Begun);
        drop(core);
        together(
            &cache,
            [
                |cache| cache.forget(0, FrameNo(0)),
                |cache| {
                    cache.table.wait_written(FrameNo(0), key(0));
                    let word = cache.table.word(FrameNo(0));
                    assert!(!word.is_writeback(), "{word:?}");
                },
                |cache| cache.table.end_write(FrameNo(0)),
            ],
        );
    });
}

#[test]
fn a_waiter_for_the_pin_of_a_write_goes_on_when_waiting_is_cancelled() {
    explore(|| {
        let cache = cache(1, 0..1);
        assert!(cache.change(0));
        let mut core = cache.core.lock().unwrap();
        let mut locked = cache.table.locked(&mut core.token);
        let pin = locked.begin_write_pinned(FrameNo(0), Arc::clone(&cache));
        assert!(pin.is_some());
        drop(core);
        together(
            &cache,
            [
                |cache| assert!(matches!(cache.table.lock(key(0), None), Lookup::Busy(_))),
                |cache| cache.table.call_off(),
            ],
        );
        drop(pin);
    });
}
