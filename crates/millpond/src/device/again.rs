//! A file that is open, opened once more: with an open file description of its own, and other flags.

use crate::host::NO_PROC;
use std::fs::{self, File, Metadata, OpenOptions};
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

/// Opens it by its link in /proc, whatever its present name; without /proc, by its name, if that is still its own.
///
/// # Errors
/// As opening it fails; [`NO_PROC`] if there is no way to open it.
pub(crate) fn open_again(file: &File, name: &Path, options: &OpenOptions) -> io::Result<File> {
    let opened = options.open(format!("/proc/self/fd/{}", file.as_raw_fd()));
    match opened {
        Err(error) if error.kind() == io::ErrorKind::NotFound && !Path::new("/proc/self/fd").exists() => {
            by_name(file, name, options)
        }
        other => other,
    }
}

fn by_name(file: &File, name: &Path, options: &OpenOptions) -> io::Result<File> {
    let identity = |metadata: Metadata| (metadata.dev(), metadata.ino());
    let is = identity(file.metadata()?);
    // Before it is opened, too: opening another file may have effects.
    let is_it = |found: io::Result<Metadata>| found.is_ok_and(|found| identity(found) == is);
    if is_it(fs::metadata(name)) {
        let again = options.open(name)?;
        if is_it(again.metadata()) {
            return Ok(again);
        }
    }
    Err(io::Error::new(io::ErrorKind::Unsupported, NO_PROC))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_that_another_file_has_by_now_is_not_opened() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("file");
        fs::write(&path, "one").unwrap();
        let file = File::open(&path).unwrap();
        let mut options = OpenOptions::new();
        options.read(true);
        assert!(by_name(&file, &path, &options).is_ok());
        fs::rename(&path, folder.path().join("moved")).unwrap();
        fs::write(&path, "another").unwrap();
        let refused = by_name(&file, &path, &options).unwrap_err();
        assert_eq!(refused.to_string(), NO_PROC);
        assert!(open_again(&file, &path, &options).is_ok(), "by /proc");
    }
}
