//! Pages that are changed and written beside their readers.

use crate::cache::{Cache, add_one, cache, content, explore, key, look, together};
use crate::table::Lookup;
use crate::world::sync::Arc;
use crate::world::thread;
use millpond_core::frame::{BeginWrite, FrameTable};
use millpond_core::units::FrameNo;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

#[test]
fn page_that_is_written_is_read_before_or_after_never_during() {
    explore(|| {
        let cache = cache(1, 0..1);
        let reader: fn(&Arc<Cache>) = |cache| {
            for _ in 0..2 {
                assert!(cache.read_if_there(0));
            }
        };
        let writer: fn(&Arc<Cache>) = |cache| {
            cache.change(0);
            cache.change(0);
        };
        together(&cache, [reader, reader, writer, writer]);
        let Lookup::Found(pin) = cache.table.pin(key(0), None) else {
            panic!("page 0 is not there")
        };
        assert_eq!(look(&pin, 0), 4, "changes");
    });
}

#[test]
fn every_dirty_edge_is_reported_once_and_no_change_is_lost() {
    static EDGES: AtomicU64 = AtomicU64::new(0);
    static WRITES: AtomicU64 = AtomicU64::new(0);
    static DEVICE: AtomicU64 = AtomicU64::new(0);
    explore(|| {
        EDGES.store(0, Relaxed);
        WRITES.store(0, Relaxed);
        DEVICE.store(content(0, 0), Relaxed);
        let cache = cache(1, 0..1);
        let writer: fn(&Arc<Cache>) = |cache| {
            for _ in 0..2 {
                if let Lookup::Found(mut pin) = cache.table.lock(key(0), None) {
                    add_one(&mut pin, 0);
                    EDGES.fetch_add(u64::from(pin.first_dirty()), Relaxed);
                }
            }
        };
        together(
            &cache,
            [writer, writer, |cache| {
                for fails in [true, false, false] {
                    let is_dirty = cache.table.word(FrameNo(0)).is_dirty();
                    let mut core = cache.core.lock().unwrap();
                    let mut begin = || cache.table.locked(&mut core.token).begin_write(FrameNo(0));
                    let begun = is_dirty && begin() == BeginWrite::Begun;
                    drop(core);
                    if begun {
                        WRITES.fetch_add(1, Relaxed);
                        let frame = cache.table.writing_frame(FrameNo(0));
                        let seen = cache.table.memory().0[frame.index()].content.load(Relaxed);
                        thread::yield_now();
                        assert_eq!(cache.evict(0..1), 0, "evicted under writeback");
                        if fails {
                            EDGES.fetch_add(u64::from(cache.table.fail_write(frame)), Relaxed);
                        } else {
                            DEVICE.store(seen, Relaxed);
                            cache.table.end_write(frame);
                        }
                    }
                }
            }],
        );
        let is_dirty = cache.table.word(FrameNo(0)).is_dirty();
        let Lookup::Found(pin) = cache.table.pin(key(0), None) else {
            panic!("page 0 is not there")
        };
        let on_device = content(0, look(&pin, 0)) == DEVICE.load(Relaxed);
        assert!(is_dirty || on_device, "S4: a clean page differs from the device");
        drop(pin);
        let (edges, writes) = (EDGES.load(Relaxed), WRITES.load(Relaxed));
        assert_eq!(
            edges,
            writes + u64::from(is_dirty),
            "T6: edges, {writes} writes, dirty: {is_dirty}"
        );
        assert_eq!(cache.evict(0..1) == 0, is_dirty, "S4");
    });
}

#[test]
fn page_that_is_pinned_by_its_write_is_copied_as_it_was_and_no_change_is_lost() {
    explore(|| {
        let cache = cache(1, 0..1);
        assert!(cache.change(0));
        let writer: fn(&Arc<Cache>) = |cache| {
            cache.change(0);
        };
        together(
            &cache,
            [
                writer,
                writer,
                |cache| {
                    cache.read_if_there(0);
                },
                |cache| {
                    for fails in [true, false] {
                        let mut core = cache.core.lock().unwrap();
                        let mut locked = cache.table.locked(&mut core.token);
                        let pinned = locked.begin_write_pinned(FrameNo(0), Arc::clone(cache));
                        drop(core);
                        // A thread is changing it.
                        let Some(pin) = pinned else { continue };
                        let copy = look(&pin, 0);
                        assert!(!cache.table.word(FrameNo(0)).is_dirty(), "changed under the pin");
                        if fails {
                            // As for a page whose order has risen: it is dirty before any other thread can
                            // have it.
                            cache.table.fail_write(FrameNo(0));
                            assert!(cache.table.word(FrameNo(0)).is_dirty());
                            continue;
                        }
                        assert_eq!(look(&pin, 0), copy);
                        drop(pin);
                        cache.table.end_write(FrameNo(0));
                        let is_dirty = cache.table.word(FrameNo(0)).is_dirty();
                        let Lookup::Found(pin) = cache.table.pin(key(0), None) else {
                            panic!("page 0 is not there")
                        };
                        assert!(is_dirty || look(&pin, 0) == copy || cache.table.word(FrameNo(0)).is_dirty());
                    }
                },
            ],
        );
    });
}
