//! Helpers shared by the program's tests.

#![allow(
    dead_code,
    clippy::unwrap_used,
    reason = "each test uses its part of it; a test fails by panicking"
)]

pub(crate) mod caches;
pub(crate) mod experiment;
pub(crate) mod terminal;

use std::sync::{Mutex, MutexGuard, PoisonError};

/// The main job as small as it can be.
pub(crate) const SMALL_JOB: &str =
    "lab run axboe2016 --runs 1 --scale 1 --files 1 --file-size 64K --read-file-size 1M";

/// A machine has one testbed, in which a kernel is on a modelled disk: tests that use it, or look whether it is gone, take turns.
pub(crate) fn testbed_turn() -> MutexGuard<'static, ()> {
    static TURN: Mutex<()> = Mutex::new(());
    TURN.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A directory on whatever holds the checkout: `/tmp` may be in memory, where some systems have no O_DIRECT.
pub(crate) fn scratch() -> tempfile::TempDir {
    tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap()
}

/// The arguments that a shell would make of `line`.
pub(crate) fn words(line: &str) -> Vec<&str> {
    line.split(' ').collect()
}

pub(crate) fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}
