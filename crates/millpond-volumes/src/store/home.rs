//! Checks that a store's folder is still the one that was opened. If it was removed, or its disk is no longer mounted,
//! a put would create another folder and report success.

use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

/// A folder, and which it was.
#[derive(Debug)]
pub(super) struct Home {
    path: PathBuf,
    is: (u64, u64),
}

fn which(path: &Path) -> std::io::Result<(u64, u64)> {
    std::fs::metadata(path).map(|found| (found.dev(), found.ino()))
}

impl Home {
    pub(super) fn of(path: PathBuf) -> std::io::Result<Home> {
        let is = which(&path)?;
        Ok(Home { path, is })
    }

    pub(super) fn is_there(&self) -> bool {
        // What can't be looked at says so by itself.
        match which(&self.path) {
            Ok(is) => is == self.is,
            Err(error) => error.kind() != std::io::ErrorKind::NotFound,
        }
    }

    /// Bytes that its file system has left for us.
    pub(super) fn available(&self) -> Option<u64> {
        let found = rustix::fs::statvfs(&self.path).ok()?;
        Some(found.f_bavail.saturating_mul(found.f_frsize))
    }

    pub(super) fn gone(&self) -> String {
        let path = self.path.display();
        format!(
            "{path} is not the folder that was opened: it was removed, or replaced, or its disk is mounted no more"
        )
    }
}
