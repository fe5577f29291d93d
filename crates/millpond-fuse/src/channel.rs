//! Messages with descriptors between two processes of one host: the one that serves a mount and the one that takes it over.
//!
//! A message is JSON, whole or not at all (`SOCK_SEQPACKET`). The process that takes over listens at a name that nobody knows
//! (`unix(7)`, abstract); the other connects to it. Each looks whose the other end is.

use rustix::event::{PollFd, PollFlags, Timespec};
use rustix::io::Errno;
use rustix::net::{
    AddressFamily, RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, ReturnFlags, SendAncillaryBuffer,
    SendAncillaryMessage, SendFlags, SocketAddrUnix, SocketFlags, SocketType, sockopt,
};
use serde::Serialize;
use serde::de::DeserializeOwned;
use std::io::{self, IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::thread;
use std::time::{Duration, Instant};

/// What a socket takes by default is more (`net.core.wmem_default`, 208 KiB).
pub(crate) const MESSAGE_BYTES_MAX: usize = 128 << 10;

/// A message has no more descriptors (`SCM_MAX_FD` of Linux: 253).
pub(crate) const DESCRIPTORS_MAX: usize = 250;

/// How often who waits looks whether it is to go on waiting.
const LOOK_EVERY: Duration = Duration::from_millis(20);

/// How soon descriptors are sent again when too many are under way.
const AGAIN_AFTER: Duration = Duration::from_millis(1);

fn space() -> Vec<MaybeUninit<u8>> {
    vec![MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(DESCRIPTORS_MAX))]
}

/// One end.
pub(crate) struct Channel(OwnedFd);

/// A name at which another process connects.
pub(crate) struct Listener {
    socket: OwnedFd,
    name: String,
}

/// What has come.
pub(crate) struct Received {
    pub(crate) bytes: Vec<u8>,
    pub(crate) descriptors: Vec<OwnedFd>,
}

impl Received {
    pub(crate) fn parse<T: DeserializeOwned>(&self) -> io::Result<T> {
        Ok(serde_json::from_slice(&self.bytes)?)
    }
}

fn late() -> io::Error {
    io::Error::new(
        io::ErrorKind::TimedOut,
        "the other process does not answer in time",
    )
}

/// Waits until there is something to read. `is_given_up` is asked now and then.
fn wait_readable(socket: BorrowedFd<'_>, until: Instant, is_given_up: &dyn Fn() -> bool) -> io::Result<()> {
    loop {
        let left = until.saturating_duration_since(Instant::now());
        let mut polled = [PollFd::new(&socket, PollFlags::IN)];
        let pause = left.min(LOOK_EVERY);
        let pause = Timespec {
            tv_sec: 0,
            tv_nsec: pause.subsec_nanos().into(),
        };
        match rustix::event::poll(&mut polled, Some(&pause)) {
            Ok(0) | Err(Errno::INTR) => {}
            Ok(_) => return Ok(()),
            Err(error) => return Err(error.into()),
        }
        if is_given_up() {
            return Err(io::Error::new(io::ErrorKind::Interrupted, "it was given up"));
        }
        if left.is_zero() {
            return Err(late());
        }
    }
}

/// The user at the other end is the one of this process.
fn check_peer(socket: &OwnedFd) -> io::Result<()> {
    let (theirs, ours) = (sockopt::socket_peercred(socket)?.uid, rustix::process::geteuid());
    match theirs == ours {
        true => Ok(()),
        false => Err(io::Error::new(
            io::ErrorKind::PermissionDenied,
            format!(
                "the other process is user {}'s, and this one user {}'s",
                theirs.as_raw(),
                ours.as_raw()
            ),
        )),
    }
}

fn socket() -> rustix::io::Result<OwnedFd> {
    let flags = SocketFlags::CLOEXEC;
    rustix::net::socket_with(AddressFamily::UNIX, SocketType::SEQPACKET, flags, None)
}

fn address(name: &str) -> rustix::io::Result<SocketAddrUnix> {
    SocketAddrUnix::new_abstract_name(name.as_bytes())
}

impl Listener {
    pub(crate) fn new() -> io::Result<Listener> {
        let mut random = [0; 16];
        rustix::rand::getrandom(&mut random, rustix::rand::GetRandomFlags::empty())?;
        let name = format!("millpond-{:032x}", u128::from_ne_bytes(random));
        let socket = socket()?;
        rustix::net::bind(&socket, &address(&name)?)?;
        rustix::net::listen(&socket, 1)?;
        Ok(Listener { socket, name })
    }

    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    /// The first that connects and is this user's.
    pub(crate) fn accept(&self, until: Instant) -> io::Result<Channel> {
        loop {
            wait_readable(self.socket.as_fd(), until, &|| false)?;
            let socket = rustix::net::accept_with(&self.socket, SocketFlags::CLOEXEC)?;
            if check_peer(&socket).is_ok() {
                return Ok(Channel(socket));
            }
        }
    }
}

impl Channel {
    /// To the process that listens at this name.
    pub(crate) fn connect(name: &str) -> io::Result<Channel> {
        let socket = socket()?;
        rustix::net::connect(&socket, &address(name)?)?;
        check_peer(&socket)?;
        Ok(Channel(socket))
    }

    /// Sends a message, and waits while the other end does not take it.
    pub(crate) fn send(
        &self,
        message: &impl Serialize,
        descriptors: &[BorrowedFd<'_>],
        until: Instant,
    ) -> io::Result<()> {
        self.send_bytes(&serde_json::to_vec(message)?, descriptors, until)
    }

    pub(crate) fn send_bytes(
        &self,
        bytes: &[u8],
        descriptors: &[BorrowedFd<'_>],
        until: Instant,
    ) -> io::Result<()> {
        let mut space = space();
        loop {
            let mut control = SendAncillaryBuffer::new(&mut space);
            let fits = descriptors.is_empty() || control.push(SendAncillaryMessage::ScmRights(descriptors));
            assert!(fits, "{} descriptors in a message", descriptors.len());
            let flags = SendFlags::NOSIGNAL | SendFlags::DONTWAIT;
            match rustix::net::sendmsg(&self.0, &[IoSlice::new(bytes)], &mut control, flags) {
                Ok(_) => return Ok(()),
                // The other end has not taken those before.
                Err(Errno::AGAIN | Errno::TOOMANYREFS | Errno::INTR) if Instant::now() < until => {
                    thread::sleep(AGAIN_AFTER);
                }
                Err(Errno::AGAIN) => return Err(late()),
                Err(error) => return Err(error.into()),
            }
        }
    }

    /// The next message; `UnexpectedEof` if the other end is gone.
    pub(crate) fn receive(&self, until: Instant, is_given_up: &dyn Fn() -> bool) -> io::Result<Received> {
        wait_readable(self.0.as_fd(), until, is_given_up)?;
        let mut bytes = vec![0; MESSAGE_BYTES_MAX];
        let mut space = space();
        let mut control = RecvAncillaryBuffer::new(&mut space);
        let flags = RecvFlags::CMSG_CLOEXEC;
        let got = rustix::net::recvmsg(&self.0, &mut [IoSliceMut::new(&mut bytes)], &mut control, flags)?;
        let descriptors = control.drain().flat_map(|message| match message {
            RecvAncillaryMessage::ScmRights(descriptors) => descriptors.collect(),
            _ => Vec::new(),
        });
        let descriptors: Vec<_> = descriptors.collect();
        if got.bytes == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        if got.flags.intersects(ReturnFlags::CTRUNC | ReturnFlags::TRUNC) {
            return Err(io::Error::other(
                "a message has not come whole: this process may have too few open files (ulimit -n)",
            ));
        }
        bytes.truncate(got.bytes);
        Ok(Received { bytes, descriptors })
    }

    /// Has the other end send nothing more: what it has not sent by now it can't.
    pub(crate) fn shut_down(&self) {
        let _ = rustix::net::shutdown(&self.0, rustix::net::Shutdown::Both);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs::File;
    use std::os::fd::AsRawFd;
    use std::os::unix::fs::FileExt;

    fn soon() -> Instant {
        Instant::now() + Duration::from_millis(30)
    }

    fn late() -> Instant {
        Instant::now() + Duration::from_secs(100)
    }

    fn pair() -> (Channel, Channel) {
        let listener = Listener::new().unwrap();
        let one = Channel::connect(listener.name()).unwrap();
        (one, listener.accept(late()).unwrap())
    }

    #[test]
    fn a_message_comes_whole_with_its_descriptors_and_the_end_is_seen() {
        let (one, other) = pair();
        let file = tempfile::tempfile().unwrap();
        file.write_all_at(b"here", 0).unwrap();
        let files = vec![file.as_fd(); DESCRIPTORS_MAX];
        one.send(&("words", 7), &files, late()).unwrap();
        let got = other.receive(late(), &|| false).unwrap();
        assert_eq!(got.parse::<(String, u32)>().unwrap(), ("words".into(), 7));
        assert_eq!(got.descriptors.len(), DESCRIPTORS_MAX);
        let theirs = File::from(got.descriptors.into_iter().next().unwrap());
        assert_ne!(theirs.as_raw_fd(), file.as_raw_fd());
        let mut bytes = [0; 4];
        theirs.read_exact_at(&mut bytes, 0).unwrap();
        assert_eq!(&bytes, b"here");
        let kind = |result: io::Result<Received>| result.err().unwrap().kind();
        assert_eq!(kind(other.receive(soon(), &|| false)), io::ErrorKind::TimedOut);
        assert_eq!(kind(other.receive(late(), &|| true)), io::ErrorKind::Interrupted);
        drop(one);
        assert_eq!(
            kind(other.receive(late(), &|| false)),
            io::ErrorKind::UnexpectedEof
        );
    }

    #[test]
    fn after_the_end_is_shut_down_what_was_sent_comes_and_nothing_more_can_be_sent() {
        let (one, other) = pair();
        one.send(&1, &[], late()).unwrap();
        other.shut_down();
        assert!(one.send(&2, &[], late()).is_err());
        assert_eq!(
            other.receive(late(), &|| false).unwrap().parse::<u32>().unwrap(),
            1
        );
        assert!(other.receive(late(), &|| false).is_err());
    }
}
