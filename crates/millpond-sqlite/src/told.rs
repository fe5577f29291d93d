//! What SQLite's users are told beside a number: SQLite's own log (`SQLITE_CONFIG_LOG`). A process may have several SQLites:
//! each hears of its own files.

use parking_lot::Mutex;
use std::ffi::c_int;

/// One SQLite, which has loaded this library.
pub(crate) trait Log: Sync {
    /// Says why a call returns this number.
    fn tell(&self, number: c_int, why: &str);
}

static ALL: Mutex<Vec<&'static dyn Log>> = Mutex::new(Vec::new());

/// Registers this one. Doing so again is harmless.
pub(crate) fn add(log: &'static dyn Log) {
    let mut all = ALL.lock();
    if !all.iter().any(|known| std::ptr::addr_eq(*known, log)) {
        all.push(log);
    }
}

/// Reports to all of them what concerns no single one.
pub(crate) fn tell_all(number: c_int, why: &str) {
    let all = ALL.lock().clone();
    for log in all {
        log.tell(number, why);
    }
}

/// For tests, where there is no SQLite.
#[cfg(test)]
pub(crate) struct Nobody;

#[cfg(test)]
impl Log for Nobody {
    fn tell(&self, _number: c_int, _why: &str) {}
}
