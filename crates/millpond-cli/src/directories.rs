//! The default directory for a command's files.

use std::path::PathBuf;

/// `/var/tmp`: on a disk, where `/tmp` is often in memory, and not cleared while a command runs.
pub(crate) fn default_directory() -> PathBuf {
    let dir = PathBuf::from("/var/tmp");
    if dir.is_dir() { dir } else { std::env::temp_dir() }
}
