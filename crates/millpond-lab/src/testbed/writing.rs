//! How the writers of a kernel row write, besides the ordinary way.

use millpond::internal::quantity::{parse_size, size_typed};
use millpond::internal::write_out;
use millpond_core::units::Bytes;
use rustix::io::{Errno, ReadWriteFlags};
use std::fmt;
use std::fs::File;
use std::io::{self, IoSlice};
use std::os::unix::fs::FileExt;
use std::str::FromStr;

/// `RWF_DONTCACHE` of `linux/fs.h`, Linux 6.14.
const DONT_CACHE: ReadWriteFlags = ReadWriteFlags::from_bits_retain(0x80);

/// How the writers write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Writing {
    /// Into the page cache; the kernel writes back when its limits or a sync say so.
    Plain,
    /// With `RWF_DONTCACHE`: writing back begins at once, and the pages leave when it is done.
    DontCache,
    /// After this many bytes `sync_file_range` begins to write them, and waits for as many before.
    Flush(Bytes),
}

impl Writing {
    const DONT_CACHE: &str = "dontcache";

    pub(super) fn of_text(text: &str) -> Option<Writing> {
        match text.split_once('=') {
            None if text == Writing::DONT_CACHE => Some(Writing::DontCache),
            Some(("flush", size)) => size_of(size).map(Writing::Flush),
            _ => None,
        }
    }
}

/// Nothing for [`Writing::Plain`].
impl fmt::Display for Writing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Writing::Plain => Ok(()),
            Writing::DontCache => f.write_str(Writing::DONT_CACHE),
            Writing::Flush(size) => write!(f, "flush={}", size_typed(*size)),
        }
    }
}

/// The displayed form.
impl FromStr for Writing {
    type Err = String;

    fn from_str(text: &str) -> Result<Writing, String> {
        match text {
            "" => Ok(Writing::Plain),
            _ => Writing::of_text(text).ok_or_else(|| format!("unknown way to write `{text}`")),
        }
    }
}

/// A size that the kernel takes for a limit: 64 KiB to 1 TiB.
pub(super) fn size_of(text: &str) -> Option<Bytes> {
    parse_size(text)
        .ok()
        .filter(|size| (64 << 10..=1 << 40).contains(&size.0))
}

impl Writing {
    /// Writes all of `bytes` at `offset`, after everything that this way has written of that file before.
    ///
    /// # Errors
    /// The system's: `EOPNOTSUPP` where the file system has no `RWF_DONTCACHE`.
    pub fn write(self, file: &File, offset: u64, bytes: &[u8]) -> io::Result<()> {
        match self {
            Writing::Plain => file.write_all_at(bytes, offset),
            Writing::DontCache => write_uncached(file, offset, bytes),
            Writing::Flush(step) => {
                file.write_all_at(bytes, offset)?;
                let end = offset + bytes.len() as u64;
                let (from, to) = (offset / step.0 * step.0, end / step.0 * step.0);
                if from == to {
                    return Ok(());
                }
                write_out(file, from..to, false)?;
                write_out(file, from.saturating_sub(step.0)..from, true)
            }
        }
    }
}

/// Writes all of `bytes` at `offset` with `RWF_DONTCACHE`.
fn write_uncached(file: &File, mut offset: u64, mut bytes: &[u8]) -> io::Result<()> {
    while !bytes.is_empty() {
        match rustix::io::pwritev2(file, &[IoSlice::new(bytes)], offset, DONT_CACHE) {
            Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
            Ok(written) => {
                offset += written as u64;
                bytes = &bytes[written..];
            }
            Err(Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_way_writes_the_bytes_that_it_was_given() {
        let dir = crate::scratch::for_tests();
        for text in ["", "dontcache", "flush=64K", "flush=1M"] {
            let writing: Writing = text.parse().unwrap();
            assert_eq!(writing.to_string(), text);
            let path = dir.path().join("file");
            let file = File::options()
                .read(true)
                .write(true)
                .create(true)
                .truncate(true)
                .open(&path)
                .unwrap();
            let bytes: Vec<u8> = (0..300_000_u32).map(|n| (n % 251) as u8).collect();
            let written: io::Result<()> = bytes
                .chunks(30_000)
                .enumerate()
                .try_for_each(|(n, part)| writing.write(&file, n as u64 * 30_000, part));
            if written
                .as_ref()
                .is_err_and(|e| e.raw_os_error() == Some(Errno::OPNOTSUPP.raw_os_error()))
            {
                println!("skipped: no RWF_DONTCACHE here");
                continue;
            }
            written.unwrap();
            assert_eq!(std::fs::read(&path).unwrap(), bytes, "{text}");
        }
        assert!("flush".parse::<Writing>().is_err() && "flush=1".parse::<Writing>().is_err());
    }
}
