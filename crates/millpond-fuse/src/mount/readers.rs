//! Threads that answer the kernel at a connection that another process has made and told the kernel of.
//!
//! `fuser` begins each session with `FUSE_INIT`, which the kernel sends once. So each thread gets a session of its own at a
//! socket, through which this process asks first what the kernel would ask, and then the connection takes the socket's place:
//!
//! ```text
//!   this process ── FUSE_INIT, a question ──► socket ◄── reads ── session      until it takes over: all that can fail is done
//!   this process ── FUSE_FORGET of nothing ─► socket ◄── reads ── session      the last request that comes from here
//!                       /dev/fuse takes the socket's number ◄──── reads ── session
//! ```

use super::Serving;
use crate::requests::FuseServer;
use fuser::{Config, Notifier, Session, SessionACL};
use millpond::internal::{DescriptorSlot, clone_fuse_device};
use rustix::event::{PollFd, PollFlags, Timespec};
use rustix::net::{AddressFamily, RecvFlags, SendFlags, SocketFlags, SocketType};
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;
use std::thread::{self, JoinHandle};

/// Of `linux/fuse.h`.
const INIT: u32 = 26;
const FORGET: u32 = 2;
const STATFS: u32 = 17;
const VERSION: (u32, u32) = (7, 31);

/// The root of the mount, and no file at all.
const ROOT: u64 = 1;
const NOTHING: u64 = 0;

/// A thread that has a request of this process answers it at once.
const ANSWERS_WITHIN: Timespec = Timespec {
    tv_sec: 30,
    tv_nsec: 0,
};

/// The threads, which read from sockets until they [`begin`](Readers::begin).
pub(super) struct Readers {
    notifier: Notifier,
    readers: Vec<Reader>,
    threads: Vec<JoinHandle<io::Result<()>>>,
}

struct Reader {
    socket: OwnedFd,
    slot: DescriptorSlot,
    connection: OwnedFd,
}

/// A request as the kernel sends it (`struct fuse_in_header`).
fn request(kind: u32, file: u64, argument: &[u8]) -> Vec<u8> {
    let mut bytes = Vec::new();
    bytes.extend((40 + argument.len() as u32).to_ne_bytes());
    bytes.extend(kind.to_ne_bytes());
    bytes.extend(1_u64.to_ne_bytes());
    bytes.extend(file.to_ne_bytes());
    bytes.extend(rustix::process::geteuid().as_raw().to_ne_bytes());
    bytes.extend(rustix::process::getegid().as_raw().to_ne_bytes());
    bytes.extend(std::process::id().to_ne_bytes());
    bytes.extend(0_u32.to_ne_bytes());
    bytes.extend(argument);
    bytes
}

/// `struct fuse_init_in`: all capabilities, as what is asked for here reaches nobody.
fn init() -> Vec<u8> {
    let mut argument = Vec::new();
    for word in [VERSION.0, VERSION.1, 1 << 17, u32::MAX, u32::MAX] {
        argument.extend(word.to_ne_bytes());
    }
    argument.resize(64, 0);
    request(INIT, NOTHING, &argument)
}

impl Reader {
    /// With its session, which has been greeted.
    fn new(
        server: FuseServer,
        acl: SessionACL,
        of: BorrowedFd<'_>,
    ) -> io::Result<(Reader, Session<FuseServer>)> {
        let (domain, kind) = (AddressFamily::UNIX, SocketType::SEQPACKET);
        let (socket, theirs) = rustix::net::socketpair(domain, kind, SocketFlags::CLOEXEC, None)?;
        let reader = Reader {
            slot: DescriptorSlot::of(theirs.as_fd())?,
            connection: clone_fuse_device(of)?,
            socket,
        };
        rustix::net::send(&reader.socket, &init(), SendFlags::NOSIGNAL)?;
        let mut config = Config::default();
        config.acl = acl;
        config.n_threads = Some(1);
        let session = Session::from_fd(server, theirs, acl, config)?;
        reader.answer()?;
        Ok((reader, session))
    }

    /// Waits for an answer.
    fn answer(&self) -> io::Result<()> {
        let mut polled = [PollFd::new(&self.socket, PollFlags::IN)];
        if rustix::event::poll(&mut polled, Some(&ANSWERS_WITHIN))? == 0 {
            return Err(io::ErrorKind::TimedOut.into());
        }
        let mut bytes = [0; 256];
        let (_, len) = rustix::net::recv(&self.socket, &mut bytes, RecvFlags::empty())?;
        match len {
            0 => Err(io::Error::other(
                "a thread that was to answer the kernel has ended",
            )),
            _ => Ok(()),
        }
    }

    /// Whether a thread answers.
    fn check(&self) -> io::Result<()> {
        rustix::net::send(&self.socket, &request(STATFS, ROOT, &[]), SendFlags::NOSIGNAL)?;
        self.answer()
    }

    fn begin(&self) -> io::Result<()> {
        self.slot.replace(self.connection.as_fd())?;
        let forget = request(FORGET, NOTHING, &0_u64.to_ne_bytes());
        rustix::net::send(&self.socket, &forget, SendFlags::NOSIGNAL)?;
        Ok(())
    }
}

impl Readers {
    /// So many threads for the connection `of`.
    pub(super) fn new(
        count: usize,
        serving: &Arc<Serving>,
        state: &Arc<crate::state::MountState>,
        acl: SessionACL,
        of: BorrowedFd<'_>,
    ) -> io::Result<Readers> {
        let mut sessions = Vec::new();
        let mut readers = Vec::new();
        for _ in 0..count {
            let server = FuseServer { state: state.clone() };
            let (reader, session) = Reader::new(server, acl, of)?;
            readers.push(reader);
            sessions.push(session);
        }
        let notifier = sessions.first().map(Session::notifier);
        let notifier = notifier.ok_or_else(|| io::Error::other("no thread"))?;
        let spawn = |session: Session<FuseServer>| {
            let thread = thread::Builder::new().name("millpond-reader".into());
            let serving = serving.clone();
            thread.spawn(move || {
                let _serving = serving;
                session.run()
            })
        };
        let threads = sessions.into_iter().map(spawn).collect::<io::Result<_>>()?;
        readers.iter().try_for_each(Reader::check)?;
        Ok(Readers {
            notifier,
            readers,
            threads,
        })
    }

    /// For notifications, once they have begun.
    pub(super) fn notifier(&self) -> Notifier {
        self.notifier.clone()
    }

    /// Has them read what the kernel sends. The threads, which end with the mount.
    ///
    /// # Errors
    /// Of nothing that is known: every descriptor is open, and every thread waits for it.
    pub(super) fn begin(self) -> (io::Result<()>, Vec<JoinHandle<io::Result<()>>>) {
        let begun = self.readers.iter().try_for_each(Reader::begin);
        (begun, self.threads)
    }
}
