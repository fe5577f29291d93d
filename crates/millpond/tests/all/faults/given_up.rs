//! Pages that can't be written and are given up, by a cut or by saying so.

use super::{PAGE, World, is_write_error, open, rule};
use crate::support::{self, bounded};
use millpond::{Error, OpenOptions};
use millpond_testing::{Fault, FaultRule, FaultTarget};

#[test]
fn failed_pages_can_be_discarded_by_making_the_file_shorter() {
    bounded(|| {
        let World {
            device, cache, file, ..
        } = &World::new(0);
        device.add(rule(FaultTarget::Writes, 1..u64::MAX / PAGE, libc::ENOSPC));
        file.write_at(&[5; 20 * PAGE as usize], 0).unwrap();
        is_write_error(file.sync_data(), libc::ENOSPC);
        file.set_len(PAGE).unwrap();
        file.sync_data().unwrap();
        assert!(std::fs::read(file.path()).unwrap() == [5; PAGE as usize]);
        assert_eq!(cache.stats().occupancy.dirty.0, 0);
    });
}

#[test]
fn failed_pages_can_be_discarded_explicitly() {
    bounded(|| {
        let World { device, file, .. } = &World::new(100);
        assert_eq!(file.discard_unwritten().unwrap(), 0);
        device.add(rule(FaultTarget::Writes, 10..12, libc::EIO));
        device.add(rule(FaultTarget::Writes, 100..1_000, libc::EDQUOT));
        file.write_at(&[0xaa; 110 * PAGE as usize], 0).unwrap();
        file.sync_data().unwrap_err();
        file.page_mut(50).unwrap().fill(0xbb);
        // Readers of such a page are waited for.
        let guard = file.page(11).unwrap();
        let given_up = std::thread::scope(|scope| {
            let giving = scope.spawn(|| file.discard_unwritten().unwrap());
            support::linger(|| giving.is_finished());
            assert!(!giving.is_finished() && guard[0] == 0xaa);
            drop(guard);
            giving.join().unwrap()
        });
        assert_eq!(given_up, 12);
        file.sync_data().unwrap();
        let mut expected = vec![0xaa; 100 * PAGE as usize];
        for page in [10, 11] {
            expected[page * PAGE as usize..][..PAGE as usize].fill(page as u8);
        }
        expected[50 * PAGE as usize..][..PAGE as usize].fill(0xbb);
        expected.resize(110 * PAGE as usize, 0);
        assert!(
            std::fs::read(file.path()).unwrap() == expected,
            "the length stays, too"
        );
        let mut read = vec![1; expected.len()];
        assert_eq!(file.read_at(&mut read, 0).unwrap(), expected.len());
        assert!(read == expected, "what the device has is what is read");
    });
}

/// Giving up waits for guards of the pages; a thread that held one and made the file longer waited for the
/// giving up.
#[test]
fn a_holder_of_a_discarded_page_can_make_the_file_longer() {
    bounded(|| {
        let World { device, file, .. } = &World::new(10);
        device.add(rule(FaultTarget::Writes, 3..4, libc::EIO));
        file.page_mut(3).unwrap().fill(0xaa);
        file.sync_data().unwrap_err();
        let guard = file.page(3).unwrap();
        std::thread::scope(|scope| {
            let giving = scope.spawn(|| file.discard_unwritten().unwrap());
            support::linger(|| giving.is_finished());
            file.page_mut_or_grow(20).unwrap().fill(0xbb);
            file.append(&[0xcc]).unwrap();
            assert!(!giving.is_finished() && guard[0] == 0xaa);
            drop(guard);
            assert_eq!(giving.join().unwrap(), 1);
        });
        file.sync_data().unwrap();
        let on_device = std::fs::read(file.path()).unwrap();
        assert_eq!(on_device.len() as u64, 21 * PAGE + 1);
        assert_eq!(
            (on_device[3 * PAGE as usize], on_device[20 * PAGE as usize]),
            (3, 0xbb)
        );
    });
}

/// The failed write's pages were given up by a cut, but the file went on as one that can't be written: the next writer
/// that came to the limit before anything of its own was written got the old error.
#[test]
fn an_error_of_pages_that_were_given_up_is_over() {
    bounded(|| {
        let World { device, file, .. } = &World::new(0);
        device.add(FaultRule::always(FaultTarget::Writes, Fault::Fail(libc::ENOSPC)));
        file.write_at(&[1; 8 * PAGE as usize], 0).unwrap();
        is_write_error(file.sync_data(), libc::ENOSPC);
        file.set_len(0).unwrap();
        // From now on writes come late, so that the limit is reached before one of them ends.
        device.clear();
        device.add(FaultRule::always(
            FaultTarget::Writes,
            Fault::Delay(std::time::Duration::from_millis(20)),
        ));
        file.write_at(&[2; 300 * PAGE as usize], 0).unwrap();
        file.sync_data().unwrap();
    });
}

/// A page that could not be written is tried again, so it must not meet another handle's: what that has written was gone.
#[test]
fn a_forgotten_guard_beside_a_failed_page_keeps_the_file_from_being_opened_again() {
    if !cfg!(debug_assertions) {
        return crate::support::skip("without debug assertions the guard is waited for");
    }
    for in_hand in [1, 2] {
        bounded(move || {
            let World {
                device,
                cache,
                file,
                folder,
            } = World::new(4);
            device.add(rule(FaultTarget::Writes, 1..2, libc::EIO));
            file.write_at(&[9; 4 * PAGE as usize], 0).unwrap();
            is_write_error(file.sync_data(), libc::EIO);
            match in_hand {
                1 => std::mem::forget(file.page(1).unwrap()),
                _ => std::mem::forget(file.page_mut(2).unwrap()),
            }
            drop(file);
            let lost = cache.take_lost();
            assert!(
                matches!(lost[..], [Error::Write { .. }, Error::OwnGuard { page, .. }] if page == in_hand),
                "{lost:?}"
            );
            let again = cache.open(folder.path().join("data"), OpenOptions::new().write(true));
            let said = again.unwrap_err().to_string();
            assert!(said.contains(&format!("page {in_hand}")), "{said}");
        });
    }
}

/// Whether the error says, to code and to people, that the changes are still there.
fn is_kept(error: &Error) -> bool {
    let said = error.to_string();
    match error {
        Error::Write { is_kept: true, .. } => {
            assert!(
                said.contains("kept in memory: make room or repair the device"),
                "{said}"
            );
            true
        }
        Error::Write { is_kept: false, .. } => {
            assert!(said.ends_with("; its unwritten changes are lost"), "{said}");
            false
        }
        other => panic!("{other:?} instead of a write error"),
    }
}

/// The error said that they were kept in memory.
#[test]
fn pages_discarded_by_the_last_drop_are_reported_as_lost() {
    bounded(|| {
        let World {
            device,
            cache,
            file,
            folder: _folder,
        } = World::new(1);
        device.add(rule(FaultTarget::Writes, 0..1, libc::ENOSPC));
        file.write_at(&[7; PAGE as usize], 0).unwrap();
        assert!(is_kept(&file.sync_data().unwrap_err()));
        assert!(is_kept(&file.failure().unwrap()));
        let path = file.path().to_owned();
        drop(file);
        let lost = cache.take_lost();
        assert!(matches!(&lost[..], [error] if !is_kept(error)), "{lost:?}");
        assert_eq!(open(&cache, &path).page(0).unwrap()[0], 0);
    });
}

/// `file.close()?` gave up the changes and said that they were kept in memory.
#[test]
fn a_converted_error_of_close_says_that_the_changes_are_lost_unless_another_handle_keeps_them() {
    bounded(|| {
        let World {
            device,
            cache,
            file,
            folder: _folder,
        } = World::new(1);
        device.add(rule(FaultTarget::Writes, 0..1, libc::ENOSPC));
        file.write_at(&[7; PAGE as usize], 0).unwrap();
        let (clone, again) = (file.clone(), open(&cache, file.path()));
        let failed = clone.close().unwrap_err();
        assert!(is_kept(&failed.error) && is_kept(&Error::from(failed)));
        drop(file);
        // Another handle, and then an owned guard.
        let (second, guard) = (open(&cache, again.path()), again.page_owned(0).unwrap());
        assert!(is_kept(&Error::from(again.close().unwrap_err())));
        drop(guard);
        assert_eq!(second.page(0).unwrap()[0], 7);
        assert!(cache.take_lost().is_empty());

        let closes = |file: millpond::File| -> std::io::Result<()> { Ok(file.close()?) };
        let error = closes(second).unwrap_err();
        assert_eq!(error.kind(), std::io::ErrorKind::StorageFull);
        let inner = error.get_ref().and_then(|inner| inner.downcast_ref::<Error>());
        assert!(!is_kept(inner.expect("ours")), "{error}");
        assert_eq!(cache.take_lost().len(), 1);
    });
}
