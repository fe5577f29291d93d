//! Descriptors by number: which of them programs get from the one that starts them, and what is behind one.

use std::fs;
use std::io;
use std::os::fd::{AsRawFd, BorrowedFd, RawFd};

/// Has no program that this process starts get any of the descriptors that it has now, but standard input, output and error.
/// None is closed here.
pub fn hand_on_no_descriptors() {
    // SAFETY: takes numbers, and closes nothing: no owner of a descriptor loses it.
    let done = unsafe { libc::syscall(libc::SYS_close_range, 3, u32::MAX, libc::CLOSE_RANGE_CLOEXEC) };
    if done == 0 {
        return;
    }
    // Before Linux 5.11, or where a filter refuses the call.
    let open = fs::read_dir("/proc/self/fd").into_iter().flatten().flatten();
    let numbers = open.filter_map(|entry| entry.file_name().to_str()?.parse::<i32>().ok());
    for number in numbers.filter(|&number| number > 2).collect::<Vec<_>>() {
        // SAFETY: takes numbers; of one that is not open any more it is an error, and nothing happens.
        unsafe { libc::fcntl(number, libc::F_SETFD, libc::FD_CLOEXEC) };
    }
}

/// A descriptor that somebody else in this process owns, by its number and the file behind it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct DescriptorSlot {
    number: RawFd,
    /// Device and inode.
    file: (u64, u64),
}

impl DescriptorSlot {
    /// Notes a descriptor before it is given away.
    ///
    /// # Errors
    /// The system's.
    pub fn of(descriptor: BorrowedFd<'_>) -> io::Result<DescriptorSlot> {
        let stat = rustix::fs::fstat(descriptor)?;
        Ok(DescriptorSlot {
            number: descriptor.as_raw_fd(),
            file: (stat.st_dev as _, stat.st_ino as _),
        })
    }

    /// Has it refer to what `by` refers to. A call that has begun goes on with what was there before.
    ///
    /// # Errors
    /// `EBADF` if another file is behind the number by now: its owner has closed it. Else the system's.
    pub fn replace(self, by: BorrowedFd<'_>) -> io::Result<()> {
        // SAFETY: used for the call below only, which fails for a number that is not open.
        let there = unsafe { BorrowedFd::borrow_raw(self.number) };
        if DescriptorSlot::of(there)? != self {
            return Err(io::Error::from_raw_os_error(libc::EBADF));
        }
        // SAFETY: takes numbers. `by` is open for as long as it is borrowed; the owner of the other still owns an open descriptor of
        // that number afterwards.
        let done = unsafe { libc::dup3(by.as_raw_fd(), self.number, libc::O_CLOEXEC) };
        match done {
            -1 => Err(io::Error::last_os_error()),
            _ => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::{Read, Write};
    use std::os::fd::AsFd;
    use std::os::unix::net::UnixStream;

    #[test]
    fn a_replaced_descriptor_keeps_its_number_and_is_what_took_its_place() {
        let (mut one, other) = UnixStream::pair().unwrap();
        let (mut third, fourth) = UnixStream::pair().unwrap();
        let slot = DescriptorSlot::of(one.as_fd()).unwrap();
        slot.replace(third.as_fd()).unwrap();
        one.write_all(b"x").unwrap();
        let mut came = [0];
        (&fourth).read_exact(&mut came).unwrap();
        assert_eq!(&came, b"x");
        // What was there is closed.
        assert_eq!((&other).read(&mut came).unwrap(), 0);
        third.write_all(b"y").unwrap();
        // Another file is there by now.
        let error = slot.replace(third.as_fd()).unwrap_err();
        assert_eq!(error.raw_os_error(), Some(libc::EBADF));
    }
}
