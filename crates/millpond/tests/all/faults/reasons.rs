//! A device that says why it refuses a write: all that hear of it hear that, and the device is asked no more than before.

use super::{PAGE, Place, open};
use millpond::device::{Completion, Device, DeviceFacts, DeviceFile, Op, Request, Threads};
use millpond::{Error, PageCache};
use std::io;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

/// Refuses all writes, for a reason that it says.
#[derive(Debug)]
struct Refusing {
    below: Threads,
    refused: Mutex<Vec<Completion>>,
    syncs: AtomicU64,
}

const WHY: &str = "another writer has it: process 7 on pond, since noon";

impl Refusing {
    fn new() -> Arc<Refusing> {
        Arc::new(Refusing {
            below: Threads::new("for a test"),
            refused: Mutex::default(),
            syncs: AtomicU64::new(0),
        })
    }
}

impl Device for Refusing {
    fn transfer(&self, request: &Request) -> io::Result<usize> {
        self.below.transfer(request)
    }

    fn submit(&self, requests: &mut Vec<Request>) -> io::Result<()> {
        let writes = requests.extract_if(.., |request| request.op == Op::Write);
        let refused = writes.map(|request| Completion {
            token: request.token,
            result: Err(io::Error::new(io::ErrorKind::StaleNetworkFileHandle, WHY)),
        });
        self.refused.lock().unwrap().extend(refused);
        self.below.wake();
        self.below.submit(requests)
    }

    fn wait(&self, done: &mut Vec<Completion>, timeout: Option<Duration>) -> io::Result<()> {
        let waited = self.below.wait(done, timeout);
        done.append(&mut self.refused.lock().unwrap());
        waited
    }

    fn wake(&self) {
        self.below.wake();
    }

    fn sync(&self, file: &DeviceFile) -> io::Result<()> {
        self.syncs.fetch_add(1, Ordering::SeqCst);
        self.below.sync(file)
    }

    fn keeps_unsynced(&self, _: &DeviceFile) -> bool {
        true
    }

    fn facts(&self, file: &DeviceFile) -> DeviceFacts {
        self.below.facts(file)
    }

    fn below(&self) -> Option<&dyn Device> {
        Some(&self.below)
    }

    fn name(&self) -> &str {
        "refusing"
    }
}

fn cache(device: &Arc<Refusing>) -> PageCache {
    let builder = PageCache::builder().memory(2 << 20).device(device.clone());
    builder.build().unwrap()
}

#[test]
fn the_device_s_reason_for_a_refused_write_is_in_each_of_its_errors_and_no_sync_asks_for_it() {
    let folder = Place::Disk.folder();
    let device = Refusing::new();
    let cache = cache(&device);
    let file = open(&cache, &folder.path().join("data"));
    file.write_at(&[1; PAGE as usize], 0).unwrap();
    let errors = [
        file.sync_data().unwrap_err(),
        file.write_out().unwrap_err(),
        file.failure().unwrap(),
        file.sync_data().unwrap_err(),
    ];
    for error in errors {
        assert!(matches!(error, Error::Write { .. }), "{error}");
        assert_eq!(error.errno(), libc::ESTALE, "{error}");
        assert!(error.to_string().contains(WHY), "{error}");
    }
    assert_eq!(device.syncs.load(Ordering::SeqCst), 0);
    drop(file);
    let lost = cache.take_lost();
    assert!(lost.len() == 1 && lost[0].to_string().contains(WHY), "{lost:?}");
}

#[test]
fn a_cache_has_its_device_and_what_that_is_around_and_none_like_them() {
    let (device, other) = (Refusing::new(), Refusing::new());
    let cache = cache(&device);
    assert!(cache.has_device(&*device) && cache.has_device(&device.below));
    assert!(!cache.has_device(&*other) && !cache.has_device(&other.below));
}
