//! userfaultfd: missing pages of memory that this process has registered are its own affair.
//!
//! ```text
//!   a thread touches a page that is not there ──► it sleeps; its address can be read here
//!   move, zero, poison the page               ──► the threads that sleep for it go on
//! ```
//!
//! The system calls and their structures as `linux/userfaultfd.h` (6.8 and later) has them; no crate knows
//! `UFFDIO_MOVE`. `arena/exchange.rs` decides what is moved where, and sees to it that no thread reads it
//! meanwhile.

mod open;

use crate::sys::eventfd::Eventfd;
use crate::sys::mapping::kernel_page;
use crate::sys::refusal::explained;
use rustix::event::epoll;
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd, RawFd};
use std::time::Duration;

/// A pending fault is reported as this (`UFFD_EVENT_PAGEFAULT`); other events are not asked for.
const EVENT_PAGEFAULT: u8 = 0x12;
const API_VERSION: u64 = 0xAA;
const FEATURE_SIGBUS: u64 = 1 << 7;
const FEATURE_POISON: u64 = 1 << 14;
const FEATURE_MOVE: u64 = 1 << 16;
const REGISTER_MODE_MISSING: u64 = 1;
const REGISTER_MODE_WP: u64 = 1 << 1;
const COPY_MODE_WP: u64 = 1 << 1;
const WRITEPROTECT_MODE_WP: u64 = 1;
/// Of a fault: it is a write.
const PAGEFAULT_FLAG_WRITE: u64 = 1;
/// The source of filled pages: the largest page that a kernel has, and enough for one call to be cheap.
static ZEROS: [u8; 64 << 10] = [0; 64 << 10];
/// How often to retry filling a page that the kernel could not fill at the moment.
const FILL_TRIES: u32 = 1000;

/// `_IOWR(0xAA, number, size)`.
const fn read_write(number: u64, size: usize) -> u64 {
    0xC000_AA00 | (size as u64) << 16 | number
}

/// `_IOR(0xAA, number, size)`.
const fn read_only(number: u64, size: usize) -> u64 {
    0x8000_AA00 | (size as u64) << 16 | number
}

const API: u64 = read_write(0x3F, size_of::<Api>());
const REGISTER: u64 = read_write(0x00, size_of::<Register>());
const WAKE: u64 = read_only(0x02, size_of::<Span>());
const COPY: u64 = read_write(0x03, size_of::<Transfer>());
const ZEROPAGE: u64 = read_write(0x04, size_of::<Marked>());
const MOVE: u64 = read_write(0x05, size_of::<Transfer>());
const WRITEPROTECT: u64 = read_write(0x06, size_of::<Protect>());
const POISON: u64 = read_write(0x08, size_of::<Marked>());

#[repr(C)]
struct Api {
    version: u64,
    features: u64,
    ioctls: u64,
}

#[repr(C)]
#[derive(Clone, Copy)]
struct Span {
    start: u64,
    len: u64,
}

#[repr(C)]
struct Register {
    span: Span,
    mode: u64,
    ioctls: u64,
}

/// Of `COPY` and `MOVE`.
#[repr(C)]
struct Transfer {
    to: u64,
    from: u64,
    len: u64,
    mode: u64,
    done: i64,
}

#[repr(C)]
struct Protect {
    span: Span,
    mode: u64,
}

/// Of `ZEROPAGE` and `POISON`.
#[repr(C)]
struct Marked {
    span: Span,
    mode: u64,
    done: i64,
}

/// One event as it is read.
#[repr(C)]
#[derive(Clone, Copy, Default)]
pub(crate) struct Message {
    event: u8,
    reserved: [u8; 7],
    flags: u64,
    address: u64,
    thread: u64,
}

impl Message {
    /// The address that was touched, down to its page.
    pub(crate) fn address(&self) -> Option<usize> {
        (self.event == EVENT_PAGEFAULT).then_some(self.address as usize & !4095)
    }

    /// Its purpose.
    pub(crate) fn access(&self) -> Access {
        match self.flags & PAGEFAULT_FLAG_WRITE {
            0 => Access::Read,
            _ => Access::Write,
        }
    }
}

/// The access of a thread to a page.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Access {
    /// To read it.
    Read,
    /// To write it, or that is not known.
    Write,
}

/// What happens to a thread that touches an absent page.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum OnTouch {
    /// It sleeps, and the reader of the descriptor is notified.
    Sleeps,
    /// It gets `SIGBUS`; if it is in a system call, that fails with `EFAULT`.
    Signals,
}

/// A userfaultfd.
#[derive(Debug)]
pub(crate) struct Userfault {
    fd: OwnedFd,
    in_kernel: bool,
    /// The system has no memory, for a test.
    #[cfg(test)]
    pub(super) is_short: std::sync::atomic::AtomicBool,
}

impl Userfault {
    /// A new one, which can move pages. Preferably one that also sees what system calls touch, which signals can't.
    ///
    /// # Errors
    /// With the way out: no such system call, not allowed, or a kernel before 6.8.
    pub(crate) fn new(touch: OnTouch) -> io::Result<Userfault> {
        let (fd, in_kernel) = open::open()?;
        let mut api = Api {
            version: API_VERSION,
            features: FEATURE_MOVE | FEATURE_POISON,
            ioctls: 0,
        };
        if touch == OnTouch::Signals {
            api.features |= FEATURE_SIGBUS;
        }
        let in_kernel = in_kernel && touch == OnTouch::Sleeps;
        let uffd = Userfault {
            fd,
            in_kernel,
            #[cfg(test)]
            is_short: false.into(),
        };
        // SAFETY: the structure is that of this request and outlives the call.
        let answer = unsafe { libc::ioctl(uffd.fd(), API as _, &raw mut api) };
        if answer != 0 {
            return Err(open::too_old(&io::Error::last_os_error()));
        }
        Ok(uffd)
    }

    /// Whether system calls that touch a page which is not there wait for it, too; else they fail with `EFAULT`.
    pub(crate) fn sees_system_calls(&self) -> bool {
        self.in_kernel
    }

    fn fd(&self) -> RawFd {
        self.fd.as_raw_fd()
    }

    /// Reads the faults that have not been read yet, without waiting. Returns how many.
    ///
    /// # Errors
    /// What the system says.
    pub(crate) fn read(&self, messages: &mut [Message]) -> io::Result<usize> {
        let len = size_of_val(messages);
        // SAFETY: the buffer is `len` bytes long, is not used by others, and any bytes are a message.
        let read = unsafe { libc::read(self.fd(), messages.as_mut_ptr().cast(), len) };
        if let Ok(read) = usize::try_from(read) {
            return Ok(read / size_of::<Message>());
        }
        let error = io::Error::last_os_error();
        match error.raw_os_error() {
            Some(libc::EAGAIN | libc::EINTR) => Ok(0),
            _ => Err(error),
        }
    }

    /// Missing pages of this memory are to be reported from now on.
    ///
    /// # Errors
    /// `EBUSY` if another userfaultfd has it.
    pub(super) fn register(&self, start: usize, len: usize) -> io::Result<()> {
        self.register_for(REGISTER_MODE_MISSING, start, len)
    }

    /// The same, and writes of pages that are [write-protected](Userfault::copy_page).
    ///
    /// # Errors
    /// As [`Userfault::register`]; `EINVAL` if the processor's kernel can't write-protect pages.
    pub(super) fn register_with_writes(&self, start: usize, len: usize) -> io::Result<()> {
        self.register_for(REGISTER_MODE_MISSING | REGISTER_MODE_WP, start, len)
    }

    fn register_for(&self, mode: u64, start: usize, len: usize) -> io::Result<()> {
        let mut register = Register {
            span: span(start, len),
            mode,
            ioctls: 0,
        };
        // SAFETY: the structure is that of this request and outlives the call.
        let answer = unsafe { libc::ioctl(self.fd(), REGISTER as _, &raw mut register) };
        said(answer)
    }

    /// The threads that sleep for these pages try again.
    pub(super) fn wake(&self, start: usize, len: usize) {
        let mut span = span(start, len);
        // SAFETY: the structure is that of this request and outlives the call.
        let answer = unsafe { libc::ioctl(self.fd(), WAKE as _, &raw mut span) };
        assert_eq!(answer, 0, "UFFDIO_WAKE: {}", io::Error::last_os_error());
    }

    /// Moves pages, and wakes the threads that sleep for them. Returns how many bytes were moved
    /// before an error.
    ///
    /// # Safety
    /// There may be no reference to what is moved, and no thread may reach `to` but as memory whose pages
    /// come and go.
    pub(super) unsafe fn move_pages(&self, to: usize, from: usize, len: usize) -> (usize, io::Result<()>) {
        let mut transfer = Transfer {
            to: to as u64,
            from: from as u64,
            len: len as u64,
            mode: 0,
            done: 0,
        };
        #[cfg(test)]
        if self.is_short.load(std::sync::atomic::Ordering::Relaxed) {
            return (0, Err(io::Error::from_raw_os_error(libc::ENOMEM)));
        }
        // SAFETY: the structure is that of this request and outlives the call; the caller answers for the pages.
        let answer = unsafe { libc::ioctl(self.fd(), MOVE as _, &raw mut transfer) };
        (usize::try_from(transfer.done).unwrap_or(0), said(answer))
    }

    /// Copies a page to where none is, and wakes who sleeps for it. `is_protected`: a write of it is a fault.
    ///
    /// # Errors
    /// `EEXIST` if one is there.
    ///
    /// # Safety
    /// As of [`Userfault::move_pages`]; what is copied must stay as it is meanwhile.
    pub(super) unsafe fn copy_page(&self, to: usize, from: usize, is_protected: bool) -> io::Result<()> {
        // SAFETY: as the caller promises.
        unsafe { self.copy_pages(to, from, kernel_page(), is_protected).1 }
    }

    /// The same for consecutive pages. Returns how many bytes were copied before an error.
    ///
    /// # Safety
    /// As of [`Userfault::copy_page`].
    pub(super) unsafe fn copy_pages(
        &self,
        to: usize,
        from: usize,
        len: usize,
        is_protected: bool,
    ) -> (usize, io::Result<()>) {
        let mut transfer = Transfer {
            to: to as u64,
            from: from as u64,
            len: len as u64,
            mode: if is_protected { COPY_MODE_WP } else { 0 },
            done: 0,
        };
        #[cfg(test)]
        if self.is_short.load(std::sync::atomic::Ordering::Relaxed) {
            return (0, Err(io::Error::from_raw_os_error(libc::ENOMEM)));
        }
        // SAFETY: the structure is that of this request and outlives the call; the caller answers for the pages.
        let answer = unsafe { libc::ioctl(self.fd(), COPY as _, &raw mut transfer) };
        (usize::try_from(transfer.done).unwrap_or(0), said(answer))
    }

    /// Write-protected pages can be written again, and a thread that sleeps for them goes on. `false`: not now; it comes
    /// again.
    pub(super) fn open(&self, start: usize, len: usize) -> bool {
        let is_later = match self.protect(start, len, 0) {
            Ok(()) => return true,
            // Any other refusal: there is no such memory any more, and so no thread that sleeps for
            // it.
            Err(error) => error.raw_os_error() == Some(libc::EAGAIN),
        };
        self.wake(start, len);
        !is_later
    }

    /// A write of these pages is a fault from now on.
    ///
    /// # Errors
    /// The system's.
    pub(super) fn write_protect(&self, start: usize, len: usize) -> io::Result<()> {
        self.protect(start, len, WRITEPROTECT_MODE_WP)
    }

    fn protect(&self, start: usize, len: usize, mode: u64) -> io::Result<()> {
        let mut protect = Protect {
            span: span(start, len),
            mode,
        };
        // SAFETY: the structure is that of this request and outlives the call.
        let answer = unsafe { libc::ioctl(self.fd(), WRITEPROTECT as _, &raw mut protect) };
        said(answer)
    }

    /// Puts zeros where no pages are, and wakes the threads that sleep for them.
    ///
    /// # Errors
    /// `EEXIST` if one is there.
    pub(super) fn zero(&self, start: usize, len: usize) -> io::Result<()> {
        self.mark(ZEROPAGE, start, len)
    }

    /// Puts memory of zeros where pages are missing among these, all that can be had: what is missing still is put there
    /// when it is touched.
    ///
    /// The kernel's page of zeros would not do: the first write to each page replaces it, and interrupts all processors that
    /// run this process.
    pub(super) fn fill(&self, start: usize, len: usize) {
        for start_of_part in (start..start + len).step_by(ZEROS.len()) {
            let part = ZEROS.len().min(start + len - start_of_part);
            // SAFETY: what is copied never changes, and only pages that are not there change.
            let (_, copied) = unsafe { self.copy_pages(start_of_part, ZEROS.as_ptr().addr(), part, false) };
            if copied.is_err() {
                self.fill_with_nothing(start_of_part, part);
            }
        }
    }

    /// The same page by page, with the kernel's page of zeros, for which no memory is needed.
    fn fill_with_nothing(&self, start: usize, len: usize) {
        for page in (start..start + len).step_by(kernel_page()) {
            let is_busy = |n: &u32| {
                let filled = self.zero(page, kernel_page());
                *n < FILL_TRIES && filled.is_err_and(|error| error.raw_os_error() == Some(libc::EAGAIN))
            };
            (0..=FILL_TRIES)
                .take_while(is_busy)
                .for_each(|_| std::thread::yield_now());
        }
    }

    /// A thread that touches these pages, which are not there, gets `SIGBUS`, or `EFAULT` from a system
    /// call.
    ///
    /// # Errors
    /// `EEXIST` if one is there.
    pub(super) fn poison(&self, start: usize, len: usize) -> io::Result<()> {
        self.mark(POISON, start, len)
    }

    fn mark(&self, request: u64, start: usize, len: usize) -> io::Result<()> {
        let mut marked = Marked {
            span: span(start, len),
            mode: 0,
            done: 0,
        };
        // SAFETY: the structure is that of this request and outlives the call. Only pages that are not there change.
        let answer = unsafe { libc::ioctl(self.fd(), request as _, &raw mut marked) };
        said(answer)
    }
}

fn span(start: usize, len: usize) -> Span {
    Span {
        start: start as u64,
        len: len as u64,
    }
}

fn said(answer: libc::c_int) -> io::Result<()> {
    match answer {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}

impl AsFd for Userfault {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

/// Where a thread waits for faults: of several waiting ones, each new fault wakes one.
#[derive(Debug)]
pub(crate) struct Ear {
    epoll: OwnedFd,
    alarm: Eventfd,
}

/// Distinguishes the events of an [`Ear`].
const FAULTS: u64 = 0;
const ALARM: u64 = 1;

impl Ear {
    /// # Errors
    /// If the process has too many descriptors.
    pub(crate) fn new(uffd: &Userfault) -> io::Result<Ear> {
        let epoll = epoll::create(epoll::CreateFlags::CLOEXEC);
        let epoll = epoll.map_err(|error| explained("epoll_create1", error.into()))?;
        let alarm = Eventfd::new(false).map_err(|error| explained("eventfd2", error))?;
        let (of, exclusive) = (epoll::EventData::new_u64, epoll::EventFlags::EXCLUSIVE);
        epoll::add(&epoll, uffd, of(FAULTS), epoll::EventFlags::IN | exclusive)?;
        epoll::add(&epoll, &alarm, of(ALARM), epoll::EventFlags::IN)?;
        Ok(Ear { epoll, alarm })
    }

    /// Wakes the thread that waits, or the next one that does. `false`: the program has closed what it is woken by.
    pub(crate) fn ring(&self) -> bool {
        self.alarm.ring().is_ok()
    }

    /// Waits until there are faults to read, [`ring`](Self::ring) is called, or `at_most` has passed. Whether one of the
    /// first two came.
    ///
    /// # Errors
    /// The program has closed a descriptor that is the cache's.
    pub(crate) fn wait(&self, at_most: Option<Duration>) -> io::Result<bool> {
        let at_most = at_most.and_then(|at_most| epoll_time(at_most).ok());
        let mut events = [epoll::Event {
            flags: epoll::EventFlags::empty(),
            data: epoll::EventData::new_u64(FAULTS),
        }; 2];
        let count = match epoll::wait(&self.epoll, &mut events, at_most.as_ref()) {
            // A signal.
            Err(rustix::io::Errno::INTR) => 0,
            waited => waited?,
        };
        if events[..count].iter().any(|event| event.data.u64() == ALARM) {
            self.alarm.clear();
        }
        Ok(count > 0)
    }
}

fn epoll_time(time: Duration) -> io::Result<rustix::event::Timespec> {
    time.try_into().map_err(io::Error::other)
}
