//! Devices: what moves pages between memory and files, and what each disk has done.
//!
//! A program needs none of it: a cache takes [`best`], and counts by disk what it did
//! ([`PageCache::devices`](crate::PageCache::devices)). It is for programs that give a cache another one with
//! [`Builder::device`](crate::Builder::device): threads instead of io_uring, one of the crate
//! `millpond-testing`, or their own [`Device`] around any of these.
//!
//! ```
//! use millpond::PageCache;
//! use millpond::device::Threads;
//! use std::sync::Arc;
//! let device = Arc::new(Threads::new("this service may not use io_uring"));
//! let cache = PageCache::builder().device(device).build()?;
//! println!("{}", cache.stats().device);
//! # Ok::<(), millpond::Error>(())
//! ```
//!
//! # How a transfer goes
//!
//! ```text
//!   a miss of one page ── transfer ──────────► the calling thread reads: lowest latency
//!   batches, from any thread ── submit ──────► queue ──► ring or threads ──► wait (one reaper) ──► completions
//! ```
//!
//! [`Uring`] is the device; [`Threads`] does the same where io_uring is not allowed; [`best`] chooses and says why.
//! Those of `millpond-testing` stand around any other, so they can be stacked. All pass the same conformance suite.
//!
//! A request owns what it needs, its file and its memory, until it is completed; a device owns the request.

mod again;
mod calibration;
mod descriptor;
mod exclusive;
mod facts;
mod figures;
mod file;
mod kind;
mod length;
mod load;
mod names;
mod stores;
mod threads;
mod transfer;
mod uring;
mod version;
mod waits;
pub(crate) mod warning;
pub(crate) mod watched;

pub use crate::sys::buffer::Buffer;
pub use crate::sys::direct::Op;
pub use crate::sys::segment::{Memory, Segments};
pub use calibration::{Calibration, GoalSource};
pub(crate) use calibration::{GOAL_MAX, GOAL_MIN};
pub(crate) use descriptor::Descriptor;
pub use facts::DeviceFacts;
pub(crate) use facts::queue_of;
pub use figures::DeviceFigures;
pub(crate) use file::Making;
pub use file::{Access, DeviceFile, FileIdentity};
pub(crate) use kind::{identity, identity_at};
pub use length::LengthLimit;
pub use load::DeviceLoad;
pub use names::device_name;
pub use stores::{StoreFigure, StoreFigures, StoreValue};
pub use threads::Threads;
pub use uring::Uring;
pub use waits::Awaited;
pub use watched::Asked;

pub(crate) use length::{is_behind_limit, look as look_at_limit};
pub(crate) use version::Version;
pub(crate) use warning::{Warning, to_stderr};
pub(crate) use watched::Watched;

use crate::host::RingRefusal;
pub use millpond_core::admission::DeviceClass;
pub use millpond_core::io::Reason;
use std::fmt;
use std::io;
use std::sync::Arc;
use std::time::Duration;

/// A transfer that is to be done.
#[derive(Debug)]
pub struct Request {
    /// The caller's name for it. Need not be unique.
    pub token: u64,
    /// Which way.
    pub op: Op,
    /// Why it is made; `None`: not by a cache's policy.
    pub reason: Option<Reason>,
    /// The file, kept open until the transfer is completed.
    pub file: Arc<DeviceFile>,
    /// First byte in the file. Best a multiple of [`DeviceFile::block_bytes`].
    pub offset: u64,
    /// The memory, kept mapped until the transfer is completed.
    pub segments: Segments,
}

/// A transfer that is over. Its file and memory have been let go of.
#[derive(Debug)]
pub struct Completion {
    /// As in the [`Request`].
    pub token: u64,
    /// Bytes transferred: all, or for a read fewer if the file ends before. An error carries its errno (`raw_os_error`), or
    /// says what it likes, and its kind stands for an errno: either way it is handed on as it is. Then any part of the memory,
    /// or of the file, may have been written.
    pub result: io::Result<usize>,
}

/// A way to do transfers.
///
/// Devices complete short transfers by themselves and repeat what a signal or a moment's shortage interrupted.
/// Transfers that are under way at the same time may be done in any order.
pub trait Device: Send + Sync + fmt::Debug {
    /// Does one transfer on the calling thread, which waits for it: the lowest latency there is.
    ///
    /// # Errors
    /// As [`Completion::result`].
    fn transfer(&self, request: &Request) -> io::Result<usize>;

    /// Hands over `requests`, which is empty afterwards; they are started in this order. Never waits for a transfer:
    /// what the device cannot take at once stays queued in it. Any thread may submit, at any time.
    ///
    /// # Errors
    /// If the device is broken for good. What it has not taken is left in `requests`.
    fn submit(&self, requests: &mut Vec<Request>) -> io::Result<()>;

    /// Waits until a submitted transfer is over, [`wake`](Device::wake) is called (before or meanwhile) or `timeout`
    /// has passed, and appends what is over to `done`; perhaps nothing. One thread, the reaper, calls this again and
    /// again, for some devices start what was submitted here; a second one would wait for the first.
    ///
    /// # Errors
    /// If the device is broken for good. What it was doing is never completed then.
    fn wait(&self, done: &mut Vec<Completion>, timeout: Option<Duration>) -> io::Result<()>;

    /// Makes the present or else the next [`wait`](Device::wait) return. Costs one atomic operation unless the reaper
    /// sleeps.
    fn wake(&self);

    /// Makes all writes to the file that are completed durable. The calling thread waits for that; it must not be
    /// the reaper.
    ///
    /// # Errors
    /// As `fdatasync`: what was written since the last success may be lost, and no later call will say so. What an error
    /// carries is as of [`Completion::result`].
    fn sync(&self, file: &DeviceFile) -> io::Result<()>;

    /// Makes the file `len` bytes long. The calling thread waits for that; it is durable after the next
    /// [`sync`](Device::sync). All that cached files do to their length goes through here, so that a device for tests
    /// sees it in its place among the writes.
    ///
    /// # Errors
    /// As [`DeviceFile::set_len`].
    fn set_len(&self, file: &DeviceFile, len: u64) -> io::Result<()> {
        match self.below() {
            Some(below) => below.set_len(file, len),
            None => file.set_len(len),
        }
    }

    /// Makes a range of the file zeros and gives its space back; the length stays. The calling thread waits for that.
    ///
    /// # Errors
    /// As [`DeviceFile::punch`].
    fn punch(&self, file: &DeviceFile, offset: u64, len: u64) -> io::Result<()> {
        match self.below() {
            Some(below) => below.punch(file, offset, len),
            None => file.punch(offset, len),
        }
    }

    /// Whether the device keeps what a failed [`sync`](Device::sync) has not made durable, and the next one tries it again.
    /// A disk may have dropped it, so that no sync of the file is believed after one has failed.
    fn keeps_unsynced(&self, file: &DeviceFile) -> bool {
        self.below().is_some_and(|below| below.keeps_unsynced(file))
    }

    /// The last handle of the file was dropped and its pages are forgotten: a cache asks for nothing more of it before it is
    /// opened again. Called once for that, by the thread that drops the handle.
    fn closed(&self, file: &DeviceFile) {
        if let Some(below) = self.below() {
            below.closed(file);
        }
    }

    /// What is known of the disk that holds `file`.
    fn facts(&self, file: &DeviceFile) -> DeviceFacts;

    /// What is asked of the disk that holds `file`, by all that use it. A cache asks before and after reads by which it measures
    /// the disk, so that it knows whether these were alone. A device that is around another says nothing, as what it adds is
    /// no disk's.
    fn load(&self, _file: &DeviceFile) -> DeviceLoad {
        DeviceLoad::Unknown
    }

    /// The figures of stores that it stands on, for people and programs that watch a cache; of a device without any, none.
    /// It is asked when one of them looks, at most some times a second, and makes no request for it.
    fn stores(&self) -> Vec<StoreFigures> {
        self.below().map(Device::stores).unwrap_or_default()
    }

    /// The device that this one is around, if it is around another: what it has no method of its own for is that one's to
    /// do, and [`PageCache::has_device`](crate::PageCache::has_device) finds that one too.
    fn below(&self) -> Option<&dyn Device> {
        None
    }

    /// What it is, for people: which way transfers take and why.
    fn name(&self) -> &str;
}

/// The best device that this system allows: io_uring, or threads where that is refused. Its name says which and why.
pub fn best() -> Arc<dyn Device> {
    best_or_why().0
}

/// The best device, and why it is not io_uring.
pub(crate) fn best_or_why() -> (Arc<dyn Device>, Option<RingRefusal>) {
    match Uring::new() {
        Ok(ring) => (Arc::new(ring), None),
        Err(refusal) => (Arc::new(Threads::new(&refusal.to_string())), Some(refusal)),
    }
}
