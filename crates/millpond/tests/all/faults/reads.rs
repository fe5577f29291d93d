//! Failing reads, of pages that a thread needs and of pages read ahead, and reads past the end.

use super::{PAGE, World, cache, faulty, open, prepared, rule};
use crate::support::{Call, Hooked, Kind, Place, What, bounded, until};
use millpond::Error;
use millpond_testing::{FaultRule, FaultTarget};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

#[test]
fn a_failed_read_is_an_error_with_its_place_and_the_next_one_asks_again() {
    let World { device, file, .. } = &World::new(10);
    device.add(FaultRule {
        times: 2,
        ..rule(FaultTarget::Reads, 3..4, libc::EIO)
    });
    let error = file.page(3).unwrap_err();
    assert!(matches!(&error, Error::Read { offset: 12_288, .. }), "{error}");
    assert_eq!(error.errno(), libc::EIO);
    assert!(!file.is_resident(3 * PAGE));
    assert!(file.page_mut(3).is_err(), "a change needs the old content");
    assert_eq!(file.page_mut(3).unwrap()[0], 3);
    assert_eq!(device.faults(), 2);
    assert_eq!(file.page(4).unwrap()[0], 4);
}

/// The thread whose read fails gets the error; a thread that waited for the same page tries for
/// itself.
#[test]
fn a_failed_read_goes_only_to_whom_it_was_made_for() {
    bounded(|| {
        let folder = Place::Disk.folder();
        let path = folder.path().join("data");
        prepared(&path, 10);
        let faulty = faulty();
        faulty.add(FaultRule {
            times: 1,
            ..rule(FaultTarget::Reads, 3..4, libc::EIO)
        });
        let (reads, go) = (Arc::new(AtomicU64::new(0)), Arc::new(AtomicBool::new(false)));
        let (seen, open_gate) = (reads.clone(), go.clone());
        let device = Hooked::new(faulty, move |call: Call| {
            if call.what == What::OwnRead {
                seen.fetch_add(1, Ordering::SeqCst);
                until("the gate opens", || open_gate.load(Ordering::SeqCst));
            }
        });
        let cache = cache(device);
        let file = open(&cache, &path);
        let outcomes: Vec<_> = std::thread::scope(|scope| {
            let readers: Vec<_> = (0..4)
                .map(|_| scope.spawn(|| file.page(3).map(|page| page[0])))
                .collect();
            until("a read", || reads.load(Ordering::SeqCst) > 0);
            go.store(true, Ordering::SeqCst);
            readers.into_iter().map(|reader| reader.join().unwrap()).collect()
        });
        let failed = outcomes.iter().filter(|outcome| outcome.is_err()).count();
        assert_eq!(failed, 1, "{outcomes:?}");
        assert!(outcomes.iter().flatten().all(|&byte| byte == 3));
        assert_eq!(
            reads.load(Ordering::SeqCst),
            2,
            "one failed, one for the three others"
        );
    });
}

#[test]
fn failed_read_ahead_is_no_error_until_its_page_is_read() {
    bounded(|| {
        let World { device, file, .. } = &World::new(100);
        device.add(rule(FaultTarget::Reads, 2..100, libc::EIO));
        // The first page of a file opens a stream: 32 pages are read ahead.
        assert_eq!(file.page(0).unwrap()[0], 0);
        until("the read-ahead fails", || {
            device.faults() > 0 && !file.is_resident(20 * PAGE)
        });
        file.prefetch(0, 100 * PAGE).unwrap();
        assert_eq!(file.page(1).unwrap()[0], 1, "not in the part that fails");
        assert_eq!(file.page(20).unwrap_err().errno(), libc::EIO);
        device.clear();
        for page in 0..100 {
            assert_eq!(file.page(page).unwrap()[0], page as u8);
        }
    });
}

#[test]
fn a_file_ends_where_it_ends_whatever_the_device_reads() {
    let folder = Place::Disk.folder();
    let path = folder.path().join("data");
    std::fs::write(&path, [1; 5_000]).unwrap();
    for kind in [Kind::Pool, Kind::Ring] {
        let Some(device) = kind.device() else { continue };
        let cache = cache(device);
        let file = open(&cache, &path);
        assert_eq!(file.page(1).unwrap().len(), 904);
        let mut buf = [7; 2 * PAGE as usize];
        assert_eq!(file.read_at(&mut buf, 4_000).unwrap(), 1_000);
        assert!(buf[..1_000] == [1; 1_000] && buf[1_000..].iter().all(|&byte| byte == 7));
        file.set_len(3 * PAGE).unwrap();
        assert!(file.page(1).unwrap()[904..].iter().all(|&byte| byte == 0));
        assert!(file.page(2).unwrap().iter().all(|&byte| byte == 0));
        file.set_len(5_000).unwrap();
    }
}
