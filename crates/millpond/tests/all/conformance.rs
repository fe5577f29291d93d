//! The engine's devices keep what every device promises.

use millpond::device::{Threads, Uring};
use millpond_testing::conformance;

#[test]
fn threads_keep_what_every_device_promises() {
    conformance::check(|| Threads::new("a test"));
}

#[test]
fn uring_keeps_what_every_device_promises() {
    match Uring::new() {
        Ok(_) => conformance::check(|| Uring::new().unwrap()),
        Err(refused) => println!("skipped: {refused}"),
    }
}
