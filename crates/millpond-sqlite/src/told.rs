//! What SQLite's users are told beside a number: SQLite's own log (`SQLITE_CONFIG_LOG`).

use std::ffi::c_int;
use std::sync::OnceLock;

type Log = fn(c_int, &str);

static LOG: OnceLock<Log> = OnceLock::new();

/// SQLite is there from now on.
pub(crate) fn to(log: Log) {
    let _ = LOG.set(log);
}

/// Says why a call returns this number.
pub(crate) fn tell(number: c_int, why: &str) {
    if let Some(log) = LOG.get() {
        log(number, why);
    }
}
