//! Ranges that are punched or allocated and lengths that are set, which the device takes or refuses.

use super::Op::{self, *};
use super::World;
use millpond_testing::{Fault, FaultRule, FaultTarget};

impl World {
    /// Makes a call while the device refuses each of this kind. Whether it did: a call that asks it nothing is not refused.
    fn refused<T>(&self, target: FaultTarget, call: impl FnOnce() -> millpond::Result<T>) -> bool {
        let before = self.device.faults();
        self.device
            .add(FaultRule::always(target, Fault::Fail(libc::ENOSPC)));
        let result = call();
        self.device.clear();
        match result {
            Ok(_) => false,
            Err(error) => {
                assert!(self.device.faults() > before, "{error}");
                assert_eq!(error.errno(), libc::ENOSPC, "{error}");
                true
            }
        }
    }

    pub(super) fn apply_range(&mut self, op: Op) {
        match op {
            SetLen {
                handle,
                at,
                is_refused,
            } => {
                let Some(n) = self.writer(handle) else { return };
                let file = self.handles[n].0;
                let len = self.place(file, at);
                let set = || self.handles[n].2.set_len(len);
                if is_refused && self.refused(FaultTarget::Lengths, set) {
                    return;
                }
                set().unwrap();
                self.files[file].bytes.resize(len as usize, 0);
            }
            Punch {
                handle,
                at,
                len,
                is_refused,
            } => {
                let Some(n) = self.writer(handle) else { return };
                let file = self.handles[n].0;
                let at = self.place(file, at);
                let punch = || self.handles[n].2.punch(at, u64::from(len));
                if is_refused && self.refused(FaultTarget::Punches, punch) {
                    return;
                }
                punch().unwrap();
                let bytes = &mut self.files[file].bytes;
                let end = (at + u64::from(len)).min(bytes.len() as u64);
                if at < end {
                    bytes[at as usize..end as usize].fill(0);
                }
            }
            Allocate {
                handle,
                at,
                len,
                is_refused,
            } => {
                let Some(n) = self.writer(handle) else { return };
                let at = self.place(self.handles[n].0, at);
                let allocate = || self.handles[n].2.allocate(at, u64::from(len));
                if !is_refused || !self.refused(FaultTarget::Allocations, allocate) {
                    allocate().unwrap();
                }
            }
            _ => unreachable!("{op:?} is of no range"),
        }
    }
}
