//! Has the kernel write out a part of a file earlier than it would on its own.

use std::fs::File;
use std::io;
use std::ops::Range;
use std::os::fd::AsRawFd;

/// Has the kernel begin to write out what is dirty of those bytes. `waits`: returns when they are written.
///
/// This makes nothing durable: neither the device's cache nor the file's size is seen to.
///
/// # Errors
/// `EINVAL` for bytes beyond 2^63, a write that failed; else as the system says.
pub fn write_out(file: &File, bytes: Range<u64>, waits: bool) -> io::Result<()> {
    let too_far = |_| io::Error::from(io::ErrorKind::InvalidInput);
    let offset = i64::try_from(bytes.start).map_err(too_far)?;
    let length = i64::try_from(bytes.end.saturating_sub(bytes.start)).map_err(too_far)?;
    if length == 0 {
        // which the kernel takes for all that follows
        return Ok(());
    }
    let flags = match waits {
        true => {
            libc::SYNC_FILE_RANGE_WAIT_BEFORE | libc::SYNC_FILE_RANGE_WRITE | libc::SYNC_FILE_RANGE_WAIT_AFTER
        }
        false => libc::SYNC_FILE_RANGE_WRITE,
    };
    // SAFETY: takes numbers only; the file is open until the call returns.
    let answer = unsafe { libc::sync_file_range(file.as_raw_fd(), offset, length, flags) };
    match answer {
        -1 => Err(io::Error::last_os_error()),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::FileExt;

    #[test]
    fn bytes_are_written_out_and_a_device_without_any_refuses() {
        let file = tempfile::tempfile().unwrap();
        file.write_all_at(&[7; 8192], 0).unwrap();
        for waits in [false, true] {
            write_out(&file, 0..8192, waits).unwrap();
            write_out(&file, 8192..8192, waits).unwrap();
        }
        let error = write_out(&file, u64::MAX - 1..u64::MAX, false).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::InvalidInput);
        let null = File::open("/dev/null").unwrap();
        let error = write_out(&null, 0..4096, false).unwrap_err();
        assert_eq!(error.raw_os_error(), Some(libc::ESPIPE));
    }
}
