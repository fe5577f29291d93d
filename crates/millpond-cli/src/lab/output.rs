//! Files that a command writes at its end: found unwritable at its start, and never half written. And the width of its
//! text.

use crate::failure::Failure;
use millpond_lab::report::table;
use std::fs::{self, OpenOptions};
use std::io::{self, IsTerminal, Write};
use std::path::{Path, PathBuf};

/// Fails now if `path` could not be written later. An existing file stays as it is.
pub(crate) fn check(option: &str, path: &Path) -> Result<(), Failure> {
    let is_new = !path.exists();
    match OpenOptions::new().append(true).create(true).open(path) {
        Ok(_) if is_new => Ok(fs::remove_file(path)?),
        Ok(_) => Ok(()),
        Err(error) => Err(Failure::bad_usage(format!(
            "{option} {}: {error}; give a file in a directory that exists and that you may write to",
            path.display()
        ))),
    }
}

/// Writes a file: into a temporary one next to it, then renames.
pub(crate) fn write(path: &Path, fill: &dyn Fn(&mut dyn Write) -> io::Result<()>) -> io::Result<()> {
    if path.exists() && !path.is_file() {
        // a device or a pipe takes the bytes as they come
        return fill(&mut OpenOptions::new().write(true).open(path)?);
    }
    let mut beside = path.as_os_str().to_owned();
    beside.push(format!(".{}", std::process::id()));
    let beside = PathBuf::from(beside);
    let mut file = io::BufWriter::new(fs::File::create(&beside)?);
    let filled = fill(&mut file)
        .and_then(|()| file.flush())
        .and_then(|()| fs::rename(&beside, path));
    if filled.is_err() {
        let _ = fs::remove_file(&beside);
    }
    filled
}

/// The width of text on stdout: that of its terminal, at least 80 columns, and no more than a report's.
pub(crate) fn width() -> u16 {
    let size = io::stdout()
        .is_terminal()
        .then(ratatui::crossterm::terminal::size)
        .and_then(Result::ok);
    size.map_or(table::WIDTH, |(columns, _)| columns.clamp(80, table::WIDTH))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_is_replaced_whole_or_not_at_all() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("out");
        write(&path, &|to| to.write_all(b"one")).unwrap();
        let error = write(&path, &|to| {
            to.write_all(b"half").and(Err(io::Error::other("no")))
        });
        assert!(error.is_err());
        assert_eq!(fs::read(&path).unwrap(), b"one");
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 1);
    }

    #[test]
    fn checking_changes_nothing() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("out");
        assert!(check("--json", &path).is_ok());
        assert!(!path.exists());
        fs::write(&path, "old").unwrap();
        assert!(check("--json", &path).is_ok());
        assert_eq!(fs::read(&path).unwrap(), b"old");
        let failure = check("--json", &dir.path().join("no/such/out")).err().unwrap();
        assert!(failure.message.unwrap().starts_with("--json "));
    }
}
