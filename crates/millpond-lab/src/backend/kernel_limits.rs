//! The running kernel's limits on dirty pages: read, set, and put back as they were.
//!
//! Four files, of which two are in force: setting a share forgets the size, and the other way round. So what is put back is
//! the size where it is not 0, else the share.

use crate::storage::DirtyLimits;
use millpond_core::dirty::limits::DirtyLimit;
use std::fs;
use std::io;
use std::path::Path;

const VM: &str = "/proc/sys/vm";

/// What is put back when this is dropped, however a run ends. The process that holds it must outlive those that set limits.
#[derive(Debug)]
pub struct Saved(Vec<(&'static str, String)>);

impl Saved {
    /// Notes what is in force.
    ///
    /// # Errors
    /// The system's, if limits can't be read or may not be set.
    pub fn now() -> io::Result<Saved> {
        let mut saved = Vec::new();
        for (ratio, bytes) in [
            ("dirty_background_ratio", "dirty_background_bytes"),
            ("dirty_ratio", "dirty_bytes"),
        ] {
            let read = |name: &str| fs::read_to_string(Path::new(VM).join(name));
            let size = read(bytes)?.trim().to_owned();
            saved.push(if size == "0" {
                (ratio, read(ratio)?.trim().to_owned())
            } else {
                (bytes, size)
            });
        }
        let saved = Saved(saved);
        // Whether it may be done is known before anything is changed: the same values once more.
        saved.put_back()?;
        Ok(saved)
    }

    fn put_back(&self) -> io::Result<()> {
        self.0
            .iter()
            .try_for_each(|(name, value)| fs::write(Path::new(VM).join(name), value))
    }
}

impl Drop for Saved {
    fn drop(&mut self) {
        if let Err(error) = self.put_back() {
            let lines: Vec<_> = self
                .0
                .iter()
                .map(|(name, value)| format!("vm.{name}={value}"))
                .collect();
            say!(
                "millpond: could not put back the kernel's limits ({error}); sysctl -w {}",
                lines.join(" ")
            );
        }
    }
}

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
