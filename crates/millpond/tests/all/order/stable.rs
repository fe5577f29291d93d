//! Pages that stay as they are while they are written.

use super::{PAGE, World, plain};
use crate::support::{self, Kind, Place, bounded, linger, until};
use millpond::{Error, PageCache, StablePages};
use millpond_core::dirty::limits::DirtyLimit;
use millpond_core::units::Ratio;
use millpond_testing::{Fault, FaultRule, FaultTarget, Faulty};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::SeqCst};

/// Holds a write in the middle, changes its page, and lets it go on.
fn changed_in_transit(stable: StablePages) -> (Vec<u8>, bool) {
    let world = World::new(4 << 20);
    let file = Arc::new(world.open(plain().stable_pages(stable), 1));
    file.page_mut(0).unwrap().fill(1);
    world.faulty.add(FaultRule {
        times: 1,
        ..FaultRule::always(FaultTarget::Writes, Fault::Hold)
    });
    let changed = AtomicBool::new(false);
    let (mut seen, mut waited) = (Vec::new(), false);
    std::thread::scope(|scope| {
        let syncer = scope.spawn(|| file.sync_data().unwrap());
        until("a write in transit", || world.faulty.held() == 1);
        scope.spawn(|| {
            let mut page = file.page_mut(0).unwrap();
            page[..PAGE / 2].fill(2);
            changed.store(true, SeqCst);
        });
        match stable {
            StablePages::Wait => linger(|| changed.load(SeqCst)),
            _ => until("the change", || changed.load(SeqCst)),
        }
        waited = !changed.load(SeqCst);
        // Readers do not wait.
        assert_eq!(file.page(0).unwrap()[PAGE - 1], 1);
        world.faulty.release().unwrap();
        syncer.join().unwrap();
        seen = std::fs::read(world.path()).unwrap();
    });
    file.sync_data().unwrap();
    let after = std::fs::read(world.path()).unwrap();
    assert!(after[..PAGE / 2].iter().all(|&byte| byte == 2), "{stable:?}");
    (seen, waited)
}

#[test]
fn a_page_that_changes_in_transit_is_stored_as_it_was() {
    bounded(|| {
        assert_eq!(changed_in_transit(StablePages::Copy), (vec![1; PAGE], false));
        assert_eq!(changed_in_transit(StablePages::Wait), (vec![1; PAGE], true));
        // What this is about.
        let (torn, _) = changed_in_transit(StablePages::Off);
        assert_eq!((torn[0], torn[PAGE - 1]), (2, 1));
    });
}

#[test]
fn when_all_copies_are_in_transit_changers_wait_and_pages_stay_whole() {
    bounded(|| {
        // A sixteenth of it is 16 copies.
        let world = World::new(1 << 20);
        let mut options = world.cache.options();
        options.dirty.hard = DirtyLimit::Share(Ratio::percent(90));
        world.cache.set_options(options).unwrap();
        let file = world.open(plain().stable_pages(StablePages::Copy), 40);
        world
            .faulty
            .add(FaultRule::always(FaultTarget::Writes, Fault::Hold));
        let changed = AtomicU64::new(0);
        std::thread::scope(|scope| {
            // Every second page, so that each is a write of its own.
            for page in (0..40).step_by(2) {
                file.page_mut(page).unwrap().fill(1);
            }
            scope.spawn(|| file.sync_data().unwrap());
            until("all in transit", || world.faulty.held() == 20);
            for page in (0..40).step_by(2) {
                let (file, changed) = (&file, &changed);
                scope.spawn(move || {
                    file.page_mut(page).unwrap()[..100].fill(2);
                    changed.fetch_add(1, SeqCst);
                });
            }
            until("changes of what was copied", || changed.load(SeqCst) == 16);
            linger(|| changed.load(SeqCst) > 16);
            assert_eq!(changed.load(SeqCst), 16);
            world.faulty.clear();
            world.faulty.release().unwrap();
        });
        file.sync_data().unwrap();
        let bytes = std::fs::read(world.path()).unwrap();
        for page in bytes.chunks(PAGE).step_by(2) {
            assert_eq!((page[0], page[100]), (2, 1));
        }
    });
}

#[test]
fn a_caller_waiting_to_change_a_page_in_transit_gets_an_error_when_the_device_dies() {
    bounded(|| {
        let dies = Arc::new(AtomicBool::new(false));
        let faulty = Arc::new(Faulty::new(Kind::Pool.device().unwrap(), 1));
        let hook = {
            let dies = dies.clone();
            move |call: support::Call| {
                let is_its_time = call.what == support::What::Wait && dies.load(SeqCst);
                assert!(!is_its_time, "the device dies");
            }
        };
        let device = support::Hooked::new(faulty.clone(), hook);
        let cache = PageCache::builder()
            .memory(4 << 20)
            .device(device)
            .calibrate(false);
        let (cache, folder) = (cache.build().unwrap(), Place::Memory.folder());
        let options = plain().create(true).stable_pages(StablePages::Wait);
        let file = cache.open(folder.path().join("pages"), options).unwrap();
        file.set_len(2 * PAGE as u64).unwrap();
        file.page_mut(0).unwrap().fill(1);
        faulty.add(FaultRule::always(FaultTarget::Writes, Fault::Hold));
        std::thread::scope(|scope| {
            let syncer = scope.spawn(|| file.sync_data());
            until("a write in transit", || faulty.held() == 1);
            let changer = scope.spawn(|| file.page_mut(0).map(drop));
            linger(|| changer.is_finished());
            assert!(!changer.is_finished(), "it is being written");
            dies.store(true, SeqCst);
            // Something for the cache's thread to do.
            let _ = file.write_at(&[2; PAGE], PAGE as u64);
            for result in [syncer.join().unwrap(), changer.join().unwrap()] {
                assert!(matches!(result, Err(Error::Poisoned { .. })), "{result:?}");
            }
        });
    });
}
