//! The process at the other end of a socket.

use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::net::UnixStream;

/// The number of the process and of its user when it connected. The process is 0 if it is none that this one can see.
pub(crate) fn peer(stream: &UnixStream) -> io::Result<(u32, u32)> {
    let mut who = libc::ucred {
        pid: 0,
        uid: u32::MAX,
        gid: u32::MAX,
    };
    let mut len = size_of::<libc::ucred>() as libc::socklen_t;
    // SAFETY: `who` and `len` are ours, live through the call, and `len` is the size of `who`.
    let done = unsafe {
        libc::getsockopt(
            stream.as_raw_fd(),
            libc::SOL_SOCKET,
            libc::SO_PEERCRED,
            (&raw mut who).cast(),
            &raw mut len,
        )
    };
    if done != 0 {
        return Err(io::Error::last_os_error());
    }
    Ok((u32::try_from(who.pid).unwrap_or(0), who.uid))
}

#[cfg(test)]
mod tests {
    #[test]
    fn the_other_end_of_a_pair_is_this_process() {
        let (one, _other) = std::os::unix::net::UnixStream::pair().unwrap();
        let uid = rustix::process::geteuid().as_raw();
        assert_eq!(super::peer(&one).unwrap(), (std::process::id(), uid));
    }
}
