//! Logs that pages wait for.

use super::handle::{self, value};
use super::memory::{Kept, out};
use super::millpond_log;
use crate::code::millpond_code;
use crate::told::attempt;
use millpond::LogOrder;
use std::ffi::{c_int, c_void};
use std::io;

/// Makes everything durable up to record `wanted`, sets `*durable` to the last durable record, which may be later, and
/// returns 0; or returns a number of errno.h, with which syncs then fail. Called on a thread of its own, one call at a
/// time. It may use the cache, but not the files that wait for this log, and must not wait for a thread that is in a call of
/// the library. If it drops the last handle of a file of this log, another thread closes that file soon, and may call it
/// again: then `kept_user` is in use until the process ends.
pub type millpond_log_flush =
    Option<extern "C" fn(kept_user: *mut c_void, wanted: u64, durable: *mut u64) -> c_int>;

/// Makes a log, durable up to record 0. The log may number records freely, as long as later ones have larger numbers:
/// usually by the byte at which they end. With `flush` the cache asks when pages wait; `kept_user` is passed to it, and
/// kept until the log and all files opened with it are dropped: the last of these calls waits for a running `flush`,
/// and no `flush` begins once it has returned. With NULL the cache waits until millpond_log_advance is called.
///
/// The caller owns `*log` and drops it with millpond_log_drop. MILLPOND_SETUP if the system gives no thread.
#[unsafe(no_mangle)]
pub extern "C-unwind" fn millpond_log_new(
    flush: millpond_log_flush,
    kept_user: *mut c_void,
    log: Option<&mut *mut millpond_log>,
) -> millpond_code {
    attempt(|| {
        let (log, kept) = (out(log, "log")?, Kept::new(kept_user));
        let order = match flush {
            None => LogOrder::new(),
            Some(flush) => LogOrder::with_flush(move |wanted| {
                let mut durable = 0;
                match flush(kept.user(), wanted, &raw mut durable) {
                    0 => Ok(durable),
                    errno => Err(io::Error::from_raw_os_error(errno)),
                }
            })?,
        };
        handle::give(order, log);
        Ok(())
    })
}

/// Reports that the log is durable up to `record`. A smaller number than before changes nothing. Pages that wait for it
/// can be written at once.
#[unsafe(no_mangle)]
pub extern "C-unwind" fn millpond_log_advance(log: *mut millpond_log, record: u64) -> millpond_code {
    attempt(|| {
        value(log)?.advance(record);
        Ok(())
    })
}

/// Gets the record up to which it is durable.
#[unsafe(no_mangle)]
pub extern "C-unwind" fn millpond_log_durable(
    log: *const millpond_log,
    record: Option<&mut u64>,
) -> millpond_code {
    attempt(|| {
        *out(record, "record")? = value(log)?.durable();
        Ok(())
    })
}

/// Drops the handle. Files that were opened with the log keep it; if none is left, the call waits for a running `flush`,
/// unless it is called from it.
#[unsafe(no_mangle)]
pub extern "C-unwind" fn millpond_log_drop(log: *mut millpond_log) -> millpond_code {
    attempt(|| handle::close(log).map(drop))
}
