//! Devices by number: the core keeps a controller for each, and learns of one when the first of its files is opened.
//!
//! Partitions of a disk share its queue, and therefore its number. A number without files goes to the next device that needs
//! one, so there are never more than were in use at once. A device that comes back before that keeps its number.

use super::Engine;
use crate::device::{DeviceFigures, queue_of};
use millpond_core::admission::DeviceHints;
use millpond_core::event::Event;
use millpond_core::units::DeviceNo;

#[derive(Debug)]
struct Known {
    /// The disk.
    queue: u64,
    /// The devices that files report: the disk, or partitions of it.
    devices: Vec<u64>,
    files: u32,
    hints: DeviceHints,
}

/// All numbered devices.
#[derive(Debug, Default)]
pub(super) struct DeviceNumbers(Vec<Known>);

impl DeviceNumbers {
    /// Returns the number of a device that has, or had, a file.
    fn of(&self, device: u64) -> Option<DeviceNo> {
        let at = self.0.iter().position(|known| known.devices.contains(&device));
        at.map(|at| DeviceNo(at as u32))
    }

    /// Returns the disk that the device is a part of, if known.
    fn queue_of(&self, device: u64) -> Option<u64> {
        self.of(device).map(|DeviceNo(at)| self.0[at as usize].queue)
    }

    /// Counts one more file on `device`, a part of the disk `queue`. Returns the number, and whether it is new to
    /// this disk.
    fn enter(&mut self, device: u64, queue: u64) -> (DeviceNo, bool) {
        let place = |is_it: &dyn Fn(&Known) -> bool| self.0.iter().position(is_it);
        let known = place(&|known| known.queue == queue);
        let at = known.or_else(|| place(&|known| known.files == 0));
        let at = at.unwrap_or(self.0.len());
        if known.is_none() {
            let new = Known {
                queue,
                devices: Vec::new(),
                files: 0,
                hints: DeviceHints::default(),
            };
            match self.0.get_mut(at) {
                Some(before) => *before = new,
                None => self.0.push(new),
            }
        }
        let entry = &mut self.0[at];
        entry.files += 1;
        if !entry.devices.contains(&device) {
            entry.devices.push(device);
        }
        (DeviceNo(at as u32), known.is_none())
    }

    /// Counts one file fewer on `device`.
    pub(super) fn leave(&mut self, device: u64) {
        if let Some(DeviceNo(at)) = self.of(device) {
            self.0[at as usize].files -= 1;
        }
    }
}

impl Engine {
    /// Opens a file on `device`. Returns the device's number for the core. `hints`: what is known of the device, if it is new.
    pub(crate) fn device_entered(&self, device: u64, hints: impl FnOnce() -> DeviceHints) -> DeviceNo {
        let known = self.core().devices.queue_of(device);
        let is_known = known.is_some();
        // Both ask the system: so once per disk, and without the lock.
        let queue = known.unwrap_or_else(|| queue_of(device));
        let hints = if is_known { None } else { Some(hints()) };
        let mut core = self.core();
        let (number, is_new) = core.devices.enter(device, queue);
        if is_new {
            let hints = hints.unwrap_or_default();
            core.devices.0[number.index()].hints = hints;
            let device = number;
            core.step(Event::DeviceFound { device, hints });
        }
        number
    }

    /// Tells the core what was learnt about a device since its first file was opened.
    pub(crate) fn device_measured(&self, device: u64, hints: DeviceHints) {
        let mut core = self.core();
        let number = core.devices.of(device);
        if let Some(device) = number {
            core.devices.0[device.index()].hints = hints;
            drop(core);
            self.tell(Event::DeviceFound { device, hints });
        }
    }

    /// Applies a goal that was set to all devices.
    pub(crate) fn goal_set(&self) {
        let mut told = Vec::new();
        for (known, device) in self.core().devices.0.iter_mut().zip((0..).map(DeviceNo)) {
            if known.hints.goal.take().is_some() {
                told.push((device, known.hints));
            }
        }
        for (device, hints) in told {
            self.tell(Event::DeviceFound { device, hints });
        }
    }

    /// Closes a file on `device`.
    pub(crate) fn device_left(&self, device: u64) {
        self.core().devices.leave(device);
    }

    /// Returns what each device has done, and the state of its admission.
    pub(crate) fn device_figures(&self) -> Vec<DeviceFigures> {
        let mut figures = self.device.figures();
        let (core, now) = (self.core(), self.clock.now());
        let looks: Vec<_> = core.manager.devices(now).collect();
        for figures in &mut figures {
            let number = core.devices.of(figures.device);
            let Some(look) = number.and_then(|number| looks.get(number.index())) else {
                continue;
            };
            figures.class = look.class;
            figures.write_bytes_in_transit_limit = look.in_transit_limit;
            figures.read_goal = look.goal.map(|goal| goal.in_force);
        }
        figures
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn partitions_share_a_number_and_a_number_without_files_is_the_next_devices() {
        let mut numbers = DeviceNumbers::default();
        assert_eq!(numbers.enter(81, 80), (DeviceNo(0), true));
        assert_eq!(numbers.enter(82, 80), (DeviceNo(0), false));
        assert_eq!(numbers.enter(90, 90), (DeviceNo(1), true));
        numbers.leave(81);
        assert_eq!(numbers.enter(99, 99), (DeviceNo(2), true), "82 is open still");
        numbers.leave(82);
        assert_eq!(numbers.enter(81, 80), (DeviceNo(0), false), "it is known still");
        numbers.leave(81);
        assert_eq!(numbers.enter(70, 70), (DeviceNo(0), true));
        assert_eq!(numbers.of(81), None);
    }
}
