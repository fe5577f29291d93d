//! A mapping that has a page beside readers, writers and an evictor of the same page.

use crate::cache::{Cache, add_one, cache, explore, key, look};
use crate::table::Lookup;
use crate::world::sync::{Arc, Mutex};
use crate::world::thread;
use millpond_core::units::FrameNo;
use std::sync::atomic::Ordering::Relaxed;

const FRAME: FrameNo = FrameNo(0);

/// What a mapping has of the page, and whether the frame has nothing. The lock is the page in a thread's hands.
#[derive(Default)]
struct Copy {
    content: Option<u64>,
    is_alone: bool,
    /// Threads may write it: what the frame has is old.
    is_open: bool,
}

struct World {
    cache: Arc<Cache>,
    hand: Mutex<Copy>,
}

impl World {
    fn content(&self) -> u64 {
        self.cache
            .table
            .memory()
            .with(FRAME, 1, |number| number.load(Relaxed))
    }

    /// The page comes into the mapping.
    fn fault(&self) {
        let table = &self.cache.table;
        let mut hand = self.hand.lock().unwrap();
        let Lookup::Found(pin) = table.try_pin(key(0), true) else {
            return;
        };
        if hand.content.is_none() && table.map(FRAME, true) {
            hand.content = Some(self.content());
        }
        drop(pin);
    }

    /// The frame's memory goes, if it may.
    fn part(&self) {
        let table = &self.cache.table;
        let mut hand = self.hand.lock().unwrap();
        if hand.content.is_none() || hand.is_alone || hand.is_open {
            return;
        }
        assert_eq!(Some(self.content()), hand.content, "T8: the copy is old");
        if table.map_alone(FRAME) {
            hand.is_alone = true;
            let lost = table.memory().0[0].content.swap(u64::MAX, Relaxed);
            assert_eq!(Some(lost), hand.content, "T8: the copy is old");
        }
    }

    /// A thread writes the page in the mapping, if that has it and it may.
    fn store(&self) {
        let table = &self.cache.table;
        let mut hand = self.hand.lock().unwrap();
        let Some(content) = hand.content else { return };
        if !hand.is_open {
            if table.open(FRAME, || true).is_none() {
                return;
            }
            let old = table.memory().0[0].content.swap(u64::MAX, Relaxed);
            let was = if hand.is_alone { u64::MAX } else { content };
            assert_eq!(old, was, "T8: the copy is old");
            (hand.is_open, hand.is_alone) = (true, false);
        }
        hand.content = Some(content + 1);
    }

    /// The frame has the page again, and if `all` the mapping has it no more.
    fn call_back(&self, all: bool) {
        let table = &self.cache.table;
        let mut hand = self.hand.lock().unwrap();
        let Some(content) = hand.content else { return };
        if hand.is_open {
            let gone = table.memory().0[0].content.swap(content, Relaxed);
            assert_eq!(gone, u64::MAX, "T8: written while the mapping was");
            table.shut(FRAME);
            *hand = Copy::default();
            return;
        }
        if hand.is_alone {
            let gone = table.memory().0[0].content.swap(content, Relaxed);
            assert_eq!(gone, u64::MAX, "T8: written while the mapping had it alone");
            table.map_shared(FRAME);
            hand.is_alone = false;
        }
        if all {
            assert_eq!(self.content(), content, "T8: the copy is old");
            table.unmap(FRAME);
            hand.content = None;
        }
    }

    fn read(&self) {
        loop {
            match self.cache.table.pin(key(0), None) {
                Lookup::Found(pin) => return assert!(look(&pin, 0) <= 4),
                Lookup::Busy(_) => self.call_back(false),
                Lookup::Loading(_) | Lookup::Absent => return,
            }
        }
    }

    fn write(&self) {
        loop {
            match self.cache.table.lock(key(0), None) {
                Lookup::Found(mut pin) => return add_one(&mut pin, 0),
                Lookup::Busy(_) => self.call_back(true),
                Lookup::Loading(_) | Lookup::Absent => return,
            }
        }
    }
}

fn beside(others: &[fn(&World)]) {
    let world = Arc::new(World {
        cache: cache(1, 0..1),
        hand: Mutex::default(),
    });
    let mapping: fn(&World) = |world| {
        world.fault();
        world.part();
        world.fault();
    };
    let spawn = |act: &fn(&World)| {
        let (world, act) = (Arc::clone(&world), *act);
        thread::spawn(move || act(&world))
    };
    let threads: Vec<_> = [mapping].iter().chain(others).map(spawn).collect();
    threads.into_iter().for_each(|thread| thread.join().unwrap());
    world.call_back(true);
    let mut core = world.cache.core.lock().unwrap();
    world.cache.table.locked(&mut core.token).validate();
}

#[test]
fn no_thread_writes_what_a_mapping_has_and_none_waits_for_ever() {
    explore(|| beside(&[World::write, World::write, World::read]));
}

#[test]
fn a_page_that_a_mapping_has_does_not_leave_and_one_that_it_has_alone_is_read_when_it_is_back() {
    explore(|| {
        let evict: fn(&World) = |world| {
            if world.cache.evict(0..1) > 0 {
                assert!(world.hand.lock().unwrap().content.is_none(), "T8: it has left");
            }
        };
        beside(&[World::read, World::read, evict, World::write]);
    });
}

#[test]
fn a_page_that_is_written_in_a_mapping_is_read_and_written_when_it_is_shut_and_stays_until_then() {
    explore(|| {
        let store: fn(&World) = |world| {
            world.store();
            world.store();
        };
        let evict: fn(&World) = |world| {
            if world.cache.evict(0..1) > 0 {
                assert!(world.hand.lock().unwrap().content.is_none(), "T8: it has left");
            }
        };
        beside(&[store, World::read, evict]);
    });
    explore(|| {
        let store: fn(&World) = |world| {
            world.fault();
            world.store();
        };
        beside(&[store, World::write, World::read]);
    });
}
