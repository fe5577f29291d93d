//! Getting a userfaultfd, and what it means if there is none.
//!
//! ```text
//!   userfaultfd(2)                  root, CAP_SYS_PTRACE, or sysctl vm.unprivileged_userfaultfd
//!   else /dev/userfaultfd           for users that its mode admits (Linux 6.1); also past a seccomp filter
//!   else for faults of programs     any user; system calls that touch a missing page fail
//! ```

use crate::sys::linux_version;
use procfs::process::Process;
use std::fs::OpenOptions;
use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};

const DEVICE: &str = "/dev/userfaultfd";
/// `USERFAULTFD_IOC_NEW`: `_IO(0xAA, 0)`.
const NEW: u64 = 0xAA00;
const FLAGS: libc::c_int = libc::O_CLOEXEC | libc::O_NONBLOCK;
const USER_MODE_ONLY: libc::c_int = 1;
/// The first Linux that can move pages (`UFFDIO_MOVE`).
const MOVES: (u32, u32) = (6, 8);

/// A new one, and whether it sees what system calls touch as well.
///
/// # Errors
/// None is allowed here: why, and the way out.
pub(super) fn open() -> io::Result<(OwnedFd, bool)> {
    if let Ok(fd) = by_system_call(0).or_else(|_| by_device()) {
        return Ok((fd, true));
    }
    match by_system_call(USER_MODE_ONLY) {
        Ok(fd) => Ok((fd, false)),
        Err(error) => {
            let status = Process::myself().and_then(|own| own.status());
            let filter = status.ok().and_then(|status| status.seccomp);
            Err(explained(&error, filter.is_some_and(|mode| mode != 0)))
        }
    }
}

fn by_system_call(mode: libc::c_int) -> io::Result<OwnedFd> {
    // SAFETY: takes numbers and gives a new descriptor.
    let fd = unsafe { libc::syscall(libc::SYS_userfaultfd, FLAGS | mode) };
    owned(fd)
}

fn by_device() -> io::Result<OwnedFd> {
    let device = OpenOptions::new().read(true).write(true).open(DEVICE)?;
    // SAFETY: takes numbers and gives a new descriptor.
    let fd = unsafe { libc::ioctl(device.as_raw_fd(), NEW as _, FLAGS) };
    owned(fd.into())
}

fn owned(answer: libc::c_long) -> io::Result<OwnedFd> {
    match RawFd::try_from(answer) {
        // SAFETY: the descriptor is new, and no other code has it.
        Ok(fd) if fd >= 0 => Ok(unsafe { OwnedFd::from_raw_fd(fd) }),
        _ => Err(io::Error::last_os_error()),
    }
}

fn explained(error: &io::Error, is_filtered: bool) -> io::Error {
    let text = match (error.raw_os_error(), is_filtered) {
        // A kernel gives EINVAL before 5.11 only, which could not move pages either.
        (Some(libc::EPERM | libc::EACCES | libc::ENOSYS | libc::EINVAL), true) => format!(
            "a seccomp filter refuses it ({error}); allow userfaultfd in the seccomp profile of the container or service, or \
             give it the device {DEVICE}"
        ),
        (Some(libc::ENOSYS), false) => {
            format!("the kernel has none ({error}); use one built with CONFIG_USERFAULTFD")
        }
        _ => format!(
            "it is refused ({error}); set sysctl vm.unprivileged_userfaultfd=1, or allow this user to open {DEVICE}"
        ),
    };
    io::Error::new(error.kind(), text)
}

/// The kernel refused the features that are needed.
pub(super) fn too_old(error: &io::Error) -> io::Error {
    let linux = linux_version().map_or(String::new(), |(major, minor)| format!(" {major}.{minor}"));
    let text = match linux_version() >= Some(MOVES) {
        true => format!(
            "that of Linux{linux} can move pages, but is refused ({error}), as by a seccomp filter: allow its ioctl in the \
             profile of the container or service"
        ),
        false => format!("that of Linux{linux} can't move pages ({error}); use Linux 6.8 or newer"),
    };
    io::Error::new(io::ErrorKind::Unsupported, text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_refusal_has_its_cause_and_its_way_out() {
        let says =
            |errno, is_filtered| explained(&io::Error::from_raw_os_error(errno), is_filtered).to_string();
        for (errno, is_filtered, cause, way) in [
            (
                libc::EPERM,
                true,
                "a seccomp filter refuses it",
                "in the seccomp profile",
            ),
            (
                libc::ENOSYS,
                true,
                "a seccomp filter refuses it",
                "/dev/userfaultfd",
            ),
            (
                libc::EINVAL,
                true,
                "a seccomp filter refuses it",
                "in the seccomp profile",
            ),
            (libc::ENOSYS, false, "the kernel has none", "CONFIG_USERFAULTFD"),
            (
                libc::EPERM,
                false,
                "it is refused",
                "vm.unprivileged_userfaultfd=1",
            ),
        ] {
            let said = says(errno, is_filtered);
            assert!(said.starts_with(cause) && said.contains(way), "{said}");
        }
        let old = too_old(&io::Error::from_raw_os_error(libc::EINVAL)).to_string();
        let way = match linux_version() >= Some(MOVES) {
            true => "allow its ioctl",
            false => "use Linux 6.8 or newer",
        };
        assert!(old.contains(way), "{old}");
    }

    #[test]
    fn a_process_that_may_open_the_device_gets_one_from_it() {
        match OpenOptions::new().read(true).write(true).open(DEVICE) {
            Ok(_) => drop(by_device().unwrap()),
            Err(why) => println!("skipped: {DEVICE}: {why}"),
        }
    }
}
