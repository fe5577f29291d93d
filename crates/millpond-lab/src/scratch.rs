//! A directory for a run's files, removed whatever happens.

use crate::error::{LabError, Result};
use millpond::internal::ScratchDir;
use millpond_core::units::Bytes;
use std::path::Path;

/// A new empty directory in `dir`, after removing what killed runs left there.
///
/// # Errors
/// If `dir` is not a writable directory.
pub fn create(dir: &Path) -> Result<ScratchDir> {
    ScratchDir::create(dir, "millpond-lab-").map_err(|e| LabError::BadValue {
        option: "--dir",
        value: dir.display().to_string(),
        allowed: e.to_string(),
        instead: "give a directory that exists and that you may write to".into(),
    })
}

/// How many bytes this user may still write in `dir`.
pub fn free_bytes(dir: &Path) -> Option<Bytes> {
    let stat = rustix::fs::statvfs(dir).ok()?;
    Some(Bytes(stat.f_bavail.saturating_mul(stat.f_frsize)))
}

/// For the tests beside the code: a folder on the disk where the build is. Below it, as a test that dies leaves its folder
/// there: in the sources it would end up under version control.
#[cfg(test)]
pub(crate) fn for_tests() -> tempfile::TempDir {
    let program = std::env::current_exe().unwrap();
    tempfile::tempdir_in(program.parent().unwrap()).unwrap()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_directory_that_is_none_is_named() {
        let error = create(Path::new("/proc/no/such/place")).unwrap_err();
        assert!(error.to_string().contains("/proc/no/such/place"), "{error}");
    }
}
