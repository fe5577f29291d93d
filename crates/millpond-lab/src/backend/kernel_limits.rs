//! The running kernel's limits on dirty pages, set by a run. What was before is kept and put back by its parent
//! ([`Tuned::keep_dirty_limits`](crate::testbed::Tuned::keep_dirty_limits)).
//!
//! Four files, of which two are in force: setting a share forgets the size, and the other way round.

use crate::storage::DirtyLimits;
use millpond_core::dirty::limits::DirtyLimit;
use std::fs;
use std::io;
use std::path::Path;

const VM: &str = "/proc/sys/vm";

/// Sets both. Shares are whole percent, 1 to 100.
///
/// # Errors
/// The system's: a user without the right to, or a value that the kernel refuses.
pub fn set(both: DirtyLimits) -> io::Result<()> {
    for (limit, ratio, bytes) in [
        (
            both.background,
            "dirty_background_ratio",
            "dirty_background_bytes",
        ),
        (both.hard, "dirty_ratio", "dirty_bytes"),
    ] {
        let (name, value) = match limit {
            DirtyLimit::Share(share) => (ratio, share.of(100)),
            DirtyLimit::Size(size) => (bytes, size.0),
        };
        fs::write(Path::new(VM).join(name), value.to_string())?;
    }
    Ok(())
}
