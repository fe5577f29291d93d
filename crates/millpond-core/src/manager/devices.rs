//! Devices: each has its own controller, and writes waiting for one device do not delay writes to another.
//!
//! When the first file on a device is opened, the driver reports which device it is and what is known of it
//! ([`Event::DeviceFound`](crate::event::Event)). Once no file is on a device, another device may take its number.

use super::Manager;
use super::waits::HeldBack;
use crate::admission::goal::Goal;
use crate::admission::{Admission, AdmissionOptions, DeviceClass, DeviceHints, Form};
use crate::mutation::{self, Mutation};
use crate::readahead::{ReadAheadOptions, STREAMS_MAX};
use crate::recent::Recent;
use crate::units::{Bytes, DeviceNo, FileId, Instant, Nanos, PageCount, PageIndex};
use crate::writeback::cluster;
use alloc::vec::Vec;

/// So much in transit keeps a disk busy: the limit in transit of a goal while there are no reads.
const BUSY: Bytes = Bytes::from_mib(8);

/// What the manager keeps for a device.
#[derive(Clone, Debug)]
pub(super) struct Device<A: Form> {
    pub(super) admission: Admission<A>,
    /// Where the last write ended.
    pub(super) stream_end: Option<(FileId, PageIndex)>,
    /// The next write, if the admission does not let it go yet.
    pub(super) held_back: HeldBack,
    /// Reads that a caller waited for.
    pub(super) reads: Recent,
}

/// What a device does at a moment, for those that watch.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub struct DeviceLook {
    /// Which.
    pub device: DeviceNo,
    /// Its kind, if the form of admission makes a difference.
    pub class: Option<DeviceClass>,
    /// Bytes of writes in transit.
    pub in_transit: Bytes,
    /// Bytes of writes that may be; `None` if the form of admission limits no bytes.
    pub in_transit_limit: Option<Bytes>,
    /// What half of the reads of the last seconds did not exceed, and 99 of 100, of those that a caller waited for.
    pub read_p50: Option<Nanos>,
    /// See `read_p50`.
    pub read_p99: Option<Nanos>,
    /// The goal for that, if the form of admission has one.
    pub goal: Option<Goal>,
}

impl<A: Form> Device<A> {
    pub(super) fn new(admission: Admission<A>) -> Device<A> {
        Device {
            admission,
            stream_end: None,
            held_back: HeldBack::default(),
            reads: Recent::default(),
        }
    }

    fn look(&self, device: DeviceNo, now: Instant) -> DeviceLook {
        let limit = self.admission.in_transit_limit(now);
        DeviceLook {
            device,
            class: self.admission.class(),
            in_transit: self.admission.in_transit().writes(),
            in_transit_limit: (limit < Bytes(u64::MAX)).then_some(limit),
            read_p50: self.reads.p50(now),
            read_p99: self.reads.p99(now),
            goal: self.admission.goal(),
        }
    }
}

/// All devices.
#[derive(Clone, Debug)]
pub(super) struct Devices<A: Form> {
    list: Vec<Device<A>>,
    /// The admission of a device of which nothing is known.
    blank: Admission<A>,
}

impl<A: Form> Devices<A> {
    /// One device, of which nothing is known.
    pub(super) fn new(blank: Admission<A>) -> Devices<A> {
        Devices {
            list: Vec::from([Device::new(blank.clone())]),
            blank,
        }
    }

    /// A device takes this number, which is the next one or a previous one; or more is known about the device. What was
    /// learned about it is forgotten.
    pub(super) fn found(&mut self, device: DeviceNo, hints: DeviceHints) {
        if device.index() == self.list.len() {
            self.list.push(Device::new(self.blank.clone()));
        }
        let found = self.list.get_mut(device.index());
        let found = found.unwrap_or_else(|| panic!("{device:?} leaves a gap"));
        found.admission.found(hints);
        found.reads = Recent::default();
    }

    pub(super) fn retune(&mut self, options: AdmissionOptions, write_max: Bytes) {
        let devices = self.list.iter_mut().map(|device| &mut device.admission);
        for admission in devices.chain([&mut self.blank]) {
            admission.retune(options, write_max);
        }
    }

    pub(super) fn len(&self) -> usize {
        self.list.len()
    }

    /// What is kept for the device.
    pub(super) fn of(&mut self, device: DeviceNo) -> &mut Device<A> {
        let at = match mutation::is(Mutation::OneControllerForAll) {
            true => 0,
            false => device.index(),
        };
        &mut self.list[at]
    }

    pub(super) fn get(&self, device: DeviceNo) -> &Device<A> {
        &self.list[device.index()]
    }

    pub(super) fn iter(&self) -> impl DoubleEndedIterator<Item = &Device<A>> {
        self.list.iter()
    }

    pub(super) fn iter_mut(&mut self) -> impl Iterator<Item = &mut Device<A>> {
        self.list.iter_mut()
    }

    /// The device with the most in transit, and of those with the same the one used last: what explains a pause.
    pub(super) fn busiest(&self) -> &Device<A> {
        let rank = |device: &&Device<A>| {
            let in_transit = device.admission.in_transit();
            (in_transit.writes(), in_transit.last())
        };
        let busiest = self.list.iter().rev().max_by_key(rank);
        busiest.expect("there is always one")
    }
}

impl<A: Form> Manager<A> {
    /// How many pages one write to the device takes at most: at least one.
    pub(super) fn write_pages_max(&mut self, device: DeviceNo) -> PageCount {
        let page_size = self.options.page_size;
        let max = self.devices.of(device).admission.write_bytes_max();
        max.to_pages(page_size).max(PageCount(1))
    }

    /// How many pages from `first` on one read of the device takes at most, if it says so.
    pub(super) fn read_pages_max(&mut self, device: DeviceNo, first: PageIndex) -> Option<u64> {
        let page_size = self.options.page_size;
        let max = self.devices.of(device).admission.hints().transfer_max?;
        Some(cluster::length(first, u64::MAX, max.to_pages(page_size).0))
    }

    /// Reading ahead of the readers of a file: as the settings say, or up to as much as its device says, but no more than
    /// lets all streams of the file have two windows in half of memory. The largest windows are whole transfers of the
    /// device.
    pub(super) fn readahead_of(&mut self, file: FileId) -> ReadAheadOptions {
        let (setting, page_size) = (self.options.readahead, self.options.page_size);
        let memory = self.derived.frames.to_bytes(page_size);
        let state = self.files.of(file);
        let hints = self.devices.of(state.device).admission.hints();
        let transfer = hints.transfer_max.unwrap_or(Bytes(0));
        state.readahead.end_at_multiples_of(transfer.to_pages(page_size));
        match hints.readahead_max {
            Some(max) => {
                let most = memory.0 / (4 * STREAMS_MAX as u64);
                let most = Bytes(most.next_multiple_of(transfer.0.max(1)));
                setting.up_to(max.min(most).max(setting.max))
            }
            None => setting,
        }
    }

    /// So much in transit keeps the device busy.
    pub(super) fn busy_pages(&mut self, device: DeviceNo) -> PageCount {
        let hints = self.devices.of(device).admission.hints();
        hints
            .in_transit_max
            .unwrap_or(BUSY)
            .to_pages(self.options.page_size)
    }

    /// All devices at `now`, in order of their numbers.
    pub fn devices(&self, now: Instant) -> impl Iterator<Item = DeviceLook> {
        let numbered = (0..).map(DeviceNo).zip(self.devices.iter());
        numbered.map(move |(no, device)| device.look(no, now))
    }

    /// The device with the most in transit, and of those with the same the one used last: what explains a pause.
    pub fn busiest_device(&self, now: Instant) -> DeviceLook {
        let busiest = self.devices.busiest();
        let at = self
            .devices
            .iter()
            .position(|device| core::ptr::eq(device, busiest));
        busiest.look(DeviceNo(at.unwrap_or(0) as u32), now)
    }
}
