//! Devices: they transfer pages between memory and files, and count the work of each disk.
//!
//! Most programs need none of this: a cache uses [`best`], and counts its work per disk
//! ([`PageCache::devices`](crate::PageCache::devices)). This module is for programs that set another device with
//! [`Builder::device`](crate::Builder::device): threads instead of io_uring, a device of the crate `millpond-testing`,
//! or their own [`Device`] that wraps any of these.
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
//! [`Uring`] is the standard device. [`Threads`] does the same where io_uring is not allowed. [`best`] chooses, and
//! reports the reason. The devices of `millpond-testing` wrap any other device, so they can be stacked. All pass the
//! same conformance suite.
//!
//! A request owns its file and its memory until it completes; a device owns the request.

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

/// A transfer to perform.
#[derive(Debug)]
pub struct Request {
    /// The caller's identifier. Need not be unique.
    pub token: u64,
    /// The direction.
    pub op: Op,
    /// The purpose; `None` if no cache policy requested it.
    pub reason: Option<Reason>,
    /// The file, kept open until the transfer completes.
    pub file: Arc<DeviceFile>,
    /// The first byte in the file. Preferably a multiple of [`DeviceFile::block_bytes`].
    pub offset: u64,
    /// The memory, kept mapped until the transfer completes.
    pub segments: Segments,
}

/// A completed transfer. Its file and memory have been released.
#[derive(Debug)]
pub struct Completion {
    /// The identifier from the [`Request`].
    pub token: u64,
    /// The number of bytes transferred: all, or fewer for a read that reaches the end of the file. An error either
    /// carries its errno (`raw_os_error`), or has any message and a kind that stands for an errno; the cache passes it
    /// on unchanged. After an error, any part of the memory or of the file may have been written.
    pub result: io::Result<usize>,
}

/// An implementation of transfers.
///
/// Devices complete short transfers themselves, and retry after a signal or a temporary shortage. Concurrent transfers
/// may be performed in any order.
pub trait Device: Send + Sync + fmt::Debug {
    /// Performs one transfer on the calling thread, which waits for it. This has the lowest latency.
    ///
    /// # Errors
    /// As [`Completion::result`].
    fn transfer(&self, request: &Request) -> io::Result<usize>;

    /// Submits all of `requests`, leaving it empty. The device starts them in this order. Never waits for a transfer:
    /// what the device can't take at once stays in its queue. Any thread may submit, at any time.
    ///
    /// # Errors
    /// If the device has failed permanently. Requests that it did not take remain in `requests`.
    fn submit(&self, requests: &mut Vec<Request>) -> io::Result<()>;

    /// Waits until a submitted transfer completes, [`wake`](Device::wake) is called (before or during the wait), or
    /// `timeout` passes. Appends completed transfers, possibly none, to `done`. One thread, the reaper, calls this in a
    /// loop, because some devices start submitted transfers here. A second caller would wait for the first.
    ///
    /// # Errors
    /// If the device has failed permanently. Its transfers in flight then never complete.
    fn wait(&self, done: &mut Vec<Completion>, timeout: Option<Duration>) -> io::Result<()>;

    /// Makes the current [`wait`](Device::wait) return, or the next one if none is in progress. Costs one atomic
    /// operation unless the reaper sleeps.
    fn wake(&self);

    /// Makes all completed writes to the file durable. The calling thread waits for that, and must not be the reaper.
    ///
    /// # Errors
    /// As `fdatasync`: writes since the last success may be lost, and no later call will report that. The error has the
    /// form described at [`Completion::result`].
    fn sync(&self, file: &DeviceFile) -> io::Result<()>;

    /// Sets the length of the file. The calling thread waits for that; the change is durable after the next
    /// [`sync`](Device::sync). Every change that the cache makes to a file's length goes through this method, so that a
    /// device for tests sees it in order with the writes.
    ///
    /// # Errors
    /// As [`DeviceFile::set_len`].
    fn set_len(&self, file: &DeviceFile, len: u64) -> io::Result<()> {
        match self.below() {
            Some(below) => below.set_len(file, len),
            None => file.set_len(len),
        }
    }

    /// Zeroes a range of the file and deallocates its space; the length stays the same. The calling thread waits for
    /// that.
    ///
    /// # Errors
    /// As [`DeviceFile::punch`].
    fn punch(&self, file: &DeviceFile, offset: u64, len: u64) -> io::Result<()> {
        match self.below() {
            Some(below) => below.punch(file, offset, len),
            None => file.punch(offset, len),
        }
    }

    /// Allocates the space of a range of the file, so that writes to it find room; length and content stay the same. The
    /// calling thread waits for that.
    ///
    /// # Errors
    /// As [`DeviceFile::allocate`].
    fn allocate(&self, file: &DeviceFile, offset: u64, len: u64) -> io::Result<()> {
        match self.below() {
            Some(below) => below.allocate(file, offset, len),
            None => file.allocate(offset, len),
        }
    }

    /// Returns whether the device keeps writes that a failed [`sync`](Device::sync) has not made durable, so that the
    /// next one retries them. A disk may have dropped them, so after a failed sync no later one of the file is trusted.
    fn keeps_unsynced(&self, file: &DeviceFile) -> bool {
        self.below().is_some_and(|below| below.keeps_unsynced(file))
    }

    /// Called once when the last handle of the file is dropped and its pages are forgotten, by the thread that drops
    /// the handle. The cache makes no further request for the file before it is opened again.
    fn closed(&self, file: &DeviceFile) {
        if let Some(below) = self.below() {
            below.closed(file);
        }
    }

    /// Returns what is known of the disk that holds `file`.
    fn facts(&self, file: &DeviceFile) -> DeviceFacts;

    /// Returns the load on the disk that holds `file`, from all its users. A cache asks before and after the reads that
    /// measure the disk, to learn whether other load ran beside them. The default is [`DeviceLoad::Unknown`], which
    /// also suits a device that wraps another, because the delay it adds does not belong to a disk.
    fn load(&self, _file: &DeviceFile) -> DeviceLoad {
        DeviceLoad::Unknown
    }

    /// Returns the figures of the stores beneath the device, for people and programs that monitor a cache; empty if
    /// there are none. It is called when one of them polls, at most a few times a second, and must not make a request
    /// for it.
    fn stores(&self) -> Vec<StoreFigures> {
        self.below().map(Device::stores).unwrap_or_default()
    }

    /// Returns the device that this one wraps, if any. The default methods forward to it, and
    /// [`PageCache::has_device`](crate::PageCache::has_device) also finds it.
    fn below(&self) -> Option<&dyn Device> {
        None
    }

    /// Returns a description for people: how transfers are performed, and why.
    fn name(&self) -> &str;
}

/// Returns the best device that this system allows: io_uring, or threads where that is refused. Its name says which and
/// why.
pub fn best() -> Arc<dyn Device> {
    best_or_why().0
}

/// Returns the best device, and the reason if it is not io_uring.
pub(crate) fn best_or_why() -> (Arc<dyn Device>, Option<RingRefusal>) {
    match Uring::new() {
        Ok(ring) => (Arc::new(ring), None),
        Err(refusal) => (Arc::new(Threads::new(&refusal.to_string())), Some(refusal)),
    }
}
