//! Loop devices by number: made new, and taken away again.

use std::fs::OpenOptions;
use std::io;
use std::os::fd::AsRawFd;

/// `LOOP_CTL_ADD` of `linux/loop.h`.
const ADD: libc::c_ulong = 0x4C80;
/// `LOOP_CTL_REMOVE` of `linux/loop.h`.
const REMOVE: libc::c_ulong = 0x4C81;

/// Makes the loop device with that number, without a file. For root.
///
/// # Errors
/// `EEXIST` if it is there; else as the system says.
pub fn add_loop_device(number: u32) -> io::Result<()> {
    control(ADD, number)
}

/// Takes the loop device of that number away, with all that was set on its queue. For root.
///
/// # Errors
/// `ENODEV` if it is not there, `EBUSY` if it has something behind it or is open; else as the system says.
pub fn remove_loop_device(number: u32) -> io::Result<()> {
    control(REMOVE, number)
}

fn control(request: libc::c_ulong, number: u32) -> io::Result<()> {
    let control = OpenOptions::new()
        .read(true)
        .write(true)
        .open("/dev/loop-control")?;
    // SAFETY: takes numbers only; the file is open until the call returns.
    let answer = unsafe { libc::ioctl(control.as_raw_fd(), request as _, libc::c_long::from(number)) };
    match answer {
        -1 => Err(io::Error::last_os_error()),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn loop_device_is_made_once_and_taken_away_once() {
        // far beyond what systems number theirs
        let number = 1_000_000 - std::process::id() % 100_000;
        match add_loop_device(number) {
            Err(error) if error.raw_os_error() == Some(libc::EEXIST) => panic!("{number}: {error}"),
            Err(error) => println!("skipped: no loop device can be made ({error})"),
            Ok(()) => {
                let errno = |result: io::Result<()>| result.unwrap_err().raw_os_error();
                assert_eq!(errno(add_loop_device(number)), Some(libc::EEXIST));
                remove_loop_device(number).unwrap();
                assert_eq!(errno(remove_loop_device(number)), Some(libc::ENODEV));
            }
        }
    }
}
