//! Mapped files on disks that fail. What needs a touch of the memory itself is in `src/sys/mapped_tests`.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod support;

use millpond::{Error, MapOptions, OpenOptions, PageCache};
use millpond_testing::{Fault, FaultRule, FaultTarget, Faulty};
use std::sync::Arc;
use support::{Kind, skip};

#[test]
fn a_read_that_fails_is_an_error_of_try_read_and_copy_to_and_the_next_asks_again() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("data");
    std::fs::write(&path, [7; 1 << 20]).unwrap();
    let device = Arc::new(Faulty::new(Kind::Pool.device().unwrap(), 1));
    let built = PageCache::builder()
        .memory(2 << 20)
        .device(device.clone())
        .mappings(true)
        .build();
    let cache = match built {
        Ok(cache) => cache,
        Err(why @ Error::Setup { .. }) => return skip(why),
        Err(why) => panic!("{why}"),
    };
    let file = cache.open(&path, OpenOptions::new()).unwrap();
    let mapping = file.map(.., &MapOptions::new()).unwrap();
    assert_eq!(mapping.try_read(5..6, |bytes| bytes[0]).unwrap(), 7);
    device.add(FaultRule::always(FaultTarget::Reads, Fault::Fail(libc::EIO)));
    // What is in memory is there all the same.
    assert_eq!(mapping.try_read(..4096, |bytes| bytes[9]).unwrap(), 7);
    for at in [100 * 4096, 200 * 4096 + 5] {
        let error = mapping.try_read(at..at + 5000, |_| ()).unwrap_err();
        let page = (at / 4096 * 4096) as u64;
        assert!(
            matches!(error, Error::Read { offset, .. } if offset == page),
            "{error}"
        );
        let error = mapping.copy_to(&mut [0; 10], at).unwrap_err();
        assert!(matches!(error, Error::Read { .. }), "{error}");
        assert!(!mapping.is_resident(at));
    }
    device.clear();
    let sum = |bytes: &[u8]| bytes.iter().map(|&byte| u64::from(byte)).sum::<u64>();
    assert_eq!(
        mapping.try_read(100 * 4096..103 * 4096, sum).unwrap(),
        7 * 3 * 4096
    );
    assert_eq!(mapping.copy_to(&mut [0; 10], (1 << 20) - 4).unwrap(), 4);
}
