//! Recording calls into a file.

use super::handle;
use super::memory::{self, out};
use super::{cache, millpond_cache, millpond_recording};
use crate::code::millpond_code;
use crate::told::attempt;
use std::ffi::c_char;

/// Records every call from now on into a new file, which `millpond replay` reads (docs/TRACES.md). The caller owns
/// `*recording` and ends it with millpond_recording_stop. A call costs about 0.2 us more meanwhile.
///
/// MILLPOND_TRACE: `path` already exists or can't be made, or a recording is running.
#[unsafe(no_mangle)]
pub extern "C-unwind" fn millpond_recording_start(
    cache: *mut millpond_cache,
    path: *const c_char,
    recording: Option<&mut *mut millpond_recording>,
) -> millpond_code {
    attempt(|| {
        let (recording, path) = (out(recording, "recording")?, memory::path(path)?);
        cache::with(cache, |cache| {
            handle::give(cache.record(path)?, recording);
            Ok(())
        })
    })
}

/// Ends it, and closes the handle in any case. `*accesses`, if not NULL, gets the number in the trace, `*lost` the
/// number left out because the disk was too slow. MILLPOND_TRACE if not all of it could be written.
#[unsafe(no_mangle)]
pub extern "C-unwind" fn millpond_recording_stop(
    recording: *mut millpond_recording,
    accesses: Option<&mut u64>,
    lost: Option<&mut u64>,
) -> millpond_code {
    attempt(|| {
        let recorded = handle::close(recording)?.stop()?;
        if let Some(accesses) = accesses {
            *accesses = recorded.accesses;
        }
        if let Some(lost) = lost {
            *lost = recorded.lost;
        }
        Ok(())
    })
}
