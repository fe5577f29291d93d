//! Pages that are stamped before they are written and checked when they are read.

use super::{PAGE, World, plain};
use crate::support::{bounded, linger, until};
use millpond::{Error, PageCheck};
use millpond_testing::{Fault, FaultRule, FaultTarget};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::SeqCst};

/// Stamps each page with its number and a checksum, in its last 16 bytes.
#[derive(Default)]
struct Sums {
    stamped: AtomicU64,
}

fn sum(bytes: &[u8]) -> u64 {
    let words = bytes[..PAGE - 8].chunks_exact(8);
    words.fold(17, |sum: u64, word| {
        (sum ^ u64::from_le_bytes(word.try_into().unwrap())).wrapping_mul(0x9e37_79b9_7f4a_7c15)
    })
}

impl PageCheck for Sums {
    fn before_write(&self, page: u64, bytes: &mut [u8]) {
        self.stamped.fetch_add(1, SeqCst);
        bytes[PAGE - 16..PAGE - 8].copy_from_slice(&page.to_le_bytes());
        let sum = sum(bytes);
        bytes[PAGE - 8..].copy_from_slice(&sum.to_le_bytes());
    }

    fn after_read(&self, page: u64, bytes: &[u8]) -> Result<(), String> {
        if bytes.iter().all(|&byte| byte == 0) {
            return Ok(());
        }
        let is = u64::from_le_bytes(bytes[PAGE - 16..PAGE - 8].try_into().unwrap());
        if is != page {
            return Err(format!("it says that it is page {is}"));
        }
        match bytes[PAGE - 8..] == sum(bytes).to_le_bytes() {
            true => Ok(()),
            false => Err("its sum is wrong".into()),
        }
    }
}

#[test]
fn a_page_refused_by_the_check_is_an_error_and_stays_out_of_memory() {
    bounded(|| {
        let world = World::new(4 << 20);
        let check = Arc::new(Sums::default());
        let options = plain().check(check.clone());
        let file = world.open(options.clone(), 64);
        for page in 0..64 {
            file.page_mut(page).unwrap()[..8].fill(page as u8 + 1);
        }
        file.sync_data().unwrap();
        assert!(check.stamped.load(SeqCst) >= 64);
        assert_eq!(
            file.page(5).unwrap()[PAGE - 16],
            0,
            "the page in memory is not stamped"
        );
        file.close().unwrap();
        // A bit turns.
        let mut bytes = std::fs::read(world.path()).unwrap();
        bytes[40 * PAGE + 100] ^= 1;
        std::fs::write(world.path(), &bytes).unwrap();

        let file = world.cache.open(world.path(), options.write(true)).unwrap();
        // Read-ahead meets it and says nothing.
        file.prefetch(0, 64 * PAGE as u64).unwrap();
        let mut buf = vec![0; PAGE];
        for page in 0..64_u64 {
            let read = file.read_at(&mut buf, page * PAGE as u64);
            if page != 40 {
                assert_eq!(read.unwrap(), PAGE);
                assert_eq!(buf[0], page as u8 + 1);
                continue;
            }
            for error in [
                read.unwrap_err(),
                file.page(40).unwrap_err(),
                file.page_mut(40).unwrap_err(),
            ] {
                let Error::Check { page, what, .. } = &error else {
                    panic!("{error}")
                };
                assert_eq!((*page, what.as_str()), (40, "its sum is wrong"));
            }
            assert!(!file.is_resident(40 * PAGE as u64));
        }
        // Repaired behind the cache's back.
        bytes[40 * PAGE + 100] ^= 1;
        std::fs::write(world.path(), &bytes).unwrap();
        assert_eq!(file.page(40).unwrap()[0], 41);
    });
}

#[test]
fn a_check_that_panics_poisons_the_cache_and_nobody_hangs() {
    struct Broken(AtomicBool);
    impl PageCheck for Broken {
        fn before_write(&self, _: u64, _: &mut [u8]) {
            assert!(!self.0.load(SeqCst), "a mistake in the check");
        }
        fn after_read(&self, _: u64, _: &[u8]) -> Result<(), String> {
            assert!(!self.0.load(SeqCst), "a mistake in the check");
            Ok(())
        }
    }
    bounded(|| {
        for writes in [true, false] {
            let world = World::new(4 << 20);
            let check = Arc::new(Broken(AtomicBool::new(false)));
            let file = world.open(plain().check(check.clone()), 3);
            if writes {
                file.page_mut(0).unwrap().fill(1);
            }
            check.0.store(true, SeqCst);
            let panics = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| match writes {
                true => file.sync_data(),
                false => file.page(1).map(drop),
            }));
            assert!(matches!(panics, Err(_) | Ok(Err(Error::Poisoned { .. }))));
            let error = file.page(2).unwrap_err().to_string();
            assert!(error.contains("its page check has panicked"), "{error}");
        }
    });
}

#[test]
fn a_page_with_a_check_waits_for_room_for_its_copy() {
    bounded(|| {
        // 16 copies.
        let world = World::new(1 << 20);
        let check = Arc::new(Sums::default());
        let file = world.open(plain().check(check.clone()), 40);
        world
            .faulty
            .add(FaultRule::always(FaultTarget::Writes, Fault::Hold));
        std::thread::scope(|scope| {
            for page in (0..40).step_by(2) {
                file.page_mut(page).unwrap()[0] = 1;
            }
            scope.spawn(|| file.sync_data().unwrap());
            until("writes in transit", || world.faulty.held() == 16);
            linger(|| world.faulty.held() > 16);
            assert_eq!((world.faulty.held(), check.stamped.load(SeqCst)), (16, 16));
            world.faulty.clear();
            world.faulty.release().unwrap();
        });
        let bytes = std::fs::read(world.path()).unwrap();
        for (n, page) in bytes.chunks(PAGE).enumerate() {
            check.after_read(n as u64, page).unwrap();
            assert_eq!(usize::from(page[0]), (n + 1) % 2);
        }
    });
}
