//! Pins of several on one thread, and pins that outlive their thread.

use crate::cache::{Cache, add_one, cache, explore, key, look, together};
use crate::table::{Lookup, SharedPin};
use crate::world::sync::Arc;
use crate::world::thread;
use millpond_core::units::FrameNo;

#[test]
fn reader_may_pin_again_what_it_has_pinned_while_a_writer_waits() {
    explore(|| {
        let cache = cache(1, 0..1);
        let reader: fn(&Arc<Cache>) = |cache| {
            let Lookup::Found(outer) = cache.table.pin(key(0), None) else {
                panic!("page 0 is not there")
            };
            let changes = look(&outer, 0);
            let Lookup::Found(inner) = cache.table.pin(key(0), None) else {
                panic!("page 0 is not there")
            };
            assert_eq!(look(&inner, 0), changes);
        };
        together(
            &cache,
            [reader, reader, |cache| {
                cache.change(0);
                cache.change(0);
            }],
        );
    });
}

/// Pins page 0 some times on a thread of its own.
fn pins_of_a_thread(cache: &Arc<Cache>, count: usize) -> thread::JoinHandle<Vec<SharedPin<Arc<Cache>>>> {
    let cache = Arc::clone(cache);
    thread::spawn(move || {
        let pin = |_| loop {
            match cache.table.pin(key(0), None) {
                Lookup::Found(pin) => break pin.hold_by(Arc::clone(&cache)),
                // A thread tries to evict it.
                _ => thread::yield_now(),
            }
        };
        (0..count).map(pin).collect()
    })
}

#[test]
fn pins_outlive_their_thread_and_the_next_owner_of_its_record() {
    explore(|| {
        let cache = cache(1, 0..1);
        let one = pins_of_a_thread(&cache, 2).join().unwrap();
        assert_eq!(cache.table.word(FrameNo(0)).pins(), 0, "both are hazards");
        let two = pins_of_a_thread(&cache, 3);
        assert_eq!(cache.evict(0..1), 0);
        drop(two.join().unwrap());
        assert_eq!(cache.evict(0..1), 0, "the first thread's pins are there");
        look(&one[0], 0);
        drop(one);
        assert_eq!(cache.evict(0..1), 1);
    });
}

/// As an owned guard has it: counted, and given on with what keeps its table.
fn owned(cache: &Arc<Cache>) -> Option<SharedPin<Arc<Cache>>> {
    let pin = cache.table.hit_counted(key(0))?;
    Some(pin.hold_by(Arc::clone(cache)))
}

/// A pin is made on one thread, looked at on a second and dropped on a third, while others change and evict the page.
#[test]
fn an_owned_pin_keeps_its_page_from_those_who_change_and_evict_it_on_whichever_thread_it_is() {
    explore(|| {
        let cache = cache(1, 0..1);
        let makers = [0, 1].map(|_| {
            let cache = Arc::clone(&cache);
            thread::spawn(move || owned(&cache))
        });
        let others: [fn(&Arc<Cache>); 2] = [
            |cache| {
                if let Lookup::Found(mut pin) = cache.table.lock(key(0), None) {
                    add_one(&mut pin, 0);
                }
            },
            |cache| {
                cache.evict(0..1);
            },
        ];
        let others = others.map(|other| {
            let cache = Arc::clone(&cache);
            thread::spawn(move || other(&cache))
        });
        for maker in makers {
            let Some(pin) = maker.join().unwrap() else {
                continue;
            };
            let seen = look(&pin, 0);
            assert_eq!(cache.evict(0..1), 0, "it is pinned");
            let dropper = thread::spawn(move || {
                assert_eq!(look(&pin, 0), seen);
                drop(pin);
            });
            dropper.join().unwrap();
        }
        others.into_iter().for_each(|other| other.join().unwrap());
    });
}

/// As an owned guard that changes a page: locked on one thread, changed and dropped on another.
#[test]
fn an_owned_lock_that_goes_to_another_thread_is_alone_there_and_its_change_is_not_lost() {
    explore(|| {
        let cache = cache(1, 0..1);
        let other: fn(&Arc<Cache>) = |cache| {
            cache.change(0);
            cache.read_if_there(0);
        };
        let beside = {
            let cache = Arc::clone(&cache);
            thread::spawn(move || other(&cache))
        };
        let mut changes = 1;
        if let Lookup::Found(pin) = cache.table.try_lock(key(0)) {
            let mut pin = pin.hold_by(Arc::clone(&cache));
            let changer = thread::spawn(move || add_one(&mut pin, 0));
            changer.join().unwrap();
            changes += 1;
        }
        beside.join().unwrap();
        assert_eq!(cache.evict(0..1), 0, "it is dirty");
        assert_eq!(owned(&cache).map(|pin| look(&pin, 0)), Some(changes));
    });
}

#[test]
fn writer_waits_for_pins_of_both_kinds_on_any_thread() {
    explore(|| {
        let cache = cache(1, 0..1);
        // More than a record has slots.
        let threads = [pins_of_a_thread(&cache, 10), pins_of_a_thread(&cache, 1)];
        let pins = threads.map(|thread| thread.join().unwrap());
        let writer = {
            let cache = Arc::clone(&cache);
            thread::spawn(move || cache.change(0))
        };
        for pin in pins.into_iter().flatten() {
            assert_eq!(look(&pin, 0), 0);
        }
        assert!(writer.join().unwrap(), "the first change of a clean page");
    });
}
