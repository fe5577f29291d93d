//! Another descriptor of a FUSE connection.

use std::fs::OpenOptions;
use std::io;
use std::os::fd::{AsRawFd, BorrowedFd, OwnedFd};

/// `FUSE_DEV_IOC_CLONE` of `linux/fuse.h`: `_IOR(229, 0, uint32_t)`.
const CLONE: libc::c_ulong = 0x8004_E500;

/// Opens the connection of a descriptor of /dev/fuse once more, with a queue of its own of requests to be answered: each is
/// answered through the descriptor that it was read from, and fails when that is closed.
///
/// # Errors
/// `EINVAL` if it is no descriptor of a connection; else as the system says.
pub fn clone_fuse_device(of: BorrowedFd<'_>) -> io::Result<OwnedFd> {
    let device = OpenOptions::new().read(true).write(true).open("/dev/fuse")?;
    let number = of.as_raw_fd() as u32;
    // SAFETY: reads the four bytes of `number`, which lives through the call; both descriptors are open until it returns.
    let answer = unsafe { libc::ioctl(device.as_raw_fd(), CLONE as _, &raw const number) };
    match answer {
        -1 => Err(io::Error::last_os_error()),
        _ => Ok(device.into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::fd::AsFd;

    #[test]
    fn what_is_no_connection_can_not_be_cloned() {
        let file = tempfile::tempfile().unwrap();
        let error = clone_fuse_device(file.as_fd()).unwrap_err();
        match error.raw_os_error() {
            Some(libc::ENOENT | libc::EACCES | libc::ENODEV | libc::ENXIO | libc::EPERM) => {
                println!("skipped: there is no /dev/fuse ({error})");
            }
            errno => assert_eq!(errno, Some(libc::EINVAL)),
        }
    }
}
