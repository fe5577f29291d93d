//! Pins of several on one thread, and pins that outlive their thread.

use crate::cache::{Cache, cache, explore, key, look, together};
use crate::table::{Lookup, SharedPin};
use millpond_core::units::FrameNo;
use shuttle::sync::Arc;
use shuttle::thread;

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
                // Somebody tries to evict it.
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
