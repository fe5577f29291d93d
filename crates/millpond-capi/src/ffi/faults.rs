//! Disks that fail, for tests of programs that use a cache.

use super::handle::{self, value};
use super::memory::{self, Extensible, one_of, out, sized, zero_reserved};
use super::millpond_faults;
use crate::code::millpond_code;
use crate::told::{Failure, attempt};
use millpond::device::{self, FileIdentity};
use millpond::units::Ratio;
use millpond_testing::{Fault, FaultRule, FaultTarget, Faulty};
use std::ffi::{c_char, c_int};
use std::os::unix::fs::MetadataExt;
use std::sync::Arc;
use std::time::Duration;

/// The value behind a faults handle.
pub struct Faults {
    pub(super) device: Arc<Faulty>,
}

/// The operations that a fault affects.
#[repr(u32)]
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum millpond_fault_target {
    /// Reads.
    MILLPOND_FAULT_READS = 0,
    /// Writes.
    MILLPOND_FAULT_WRITES = 1,
    /// Syncs.
    MILLPOND_FAULT_SYNCS = 2,
    /// Changes of a file's length.
    MILLPOND_FAULT_LENGTHS = 3,
    /// Ranges that are allocated ahead.
    MILLPOND_FAULT_ALLOCATIONS = 4,
}

/// A fault, and when it happens. Set all of it to zero, then `size` and the rest. The operation fails with `error`, or,
/// if that is 0, is done `delay_ns` later, or, if that is 0 too, does not start until millpond_faults_release.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct millpond_fault {
    /// sizeof(struct millpond_fault).
    pub size: usize,
    /// A millpond_fault_target.
    pub target: u32,
    /// A number of errno.h, such as EIO or ENOSPC.
    pub error: c_int,
    /// The delay in nanoseconds.
    pub delay_ns: u64,
    /// The first byte of the range that the transfer must touch.
    pub start: u64,
    /// The byte after the last one. 0: any.
    pub end: u64,
    /// How often it happens at most. 0: always.
    pub times: u64,
    /// In how many of 100 cases it happens. 0: in all.
    pub percent: u32,
    /// 0.
    pub reserved: u32,
    /// Only for this file, which must exist. NULL: for all.
    pub path: *const c_char,
}

/// SAFETY: numbers, and a pointer that may be NULL.
unsafe impl Extensible for millpond_fault {
    const NAME: &'static str = "struct millpond_fault";
    const FIRST: usize = std::mem::offset_of!(millpond_fault, path) + size_of::<usize>();
}

fn rule(given: &millpond_fault) -> Result<FaultRule, Failure> {
    let target = {
        use millpond_fault_target::*;
        let known = [
            (MILLPOND_FAULT_READS as u32, FaultTarget::Reads),
            (MILLPOND_FAULT_WRITES as u32, FaultTarget::Writes),
            (MILLPOND_FAULT_SYNCS as u32, FaultTarget::Syncs),
            (MILLPOND_FAULT_LENGTHS as u32, FaultTarget::Lengths),
            (MILLPOND_FAULT_ALLOCATIONS as u32, FaultTarget::Allocations),
        ];
        one_of("millpond_fault_target", given.target, &known)?
    };
    zero_reserved(millpond_fault::NAME, given.reserved)?;
    if given.percent > 100 || given.error < 0 {
        return Err(Failure::invalid(format!(
            "a fault with error {} in {} of 100 cases: the error must be a number of errno.h, the percentage 0 to 100",
            given.error, given.percent
        )));
    }
    let fault = match (given.error, given.delay_ns) {
        (0, 0) => Fault::Hold,
        (0, delay) => Fault::Delay(Duration::from_nanos(delay)),
        (error, _) => Fault::Fail(error),
    };
    let or_all = |value, all| if value == 0 { all } else { value };
    let mut rule = FaultRule::always(target, fault);
    rule.offsets = given.start..or_all(given.end, u64::MAX);
    rule.times = or_all(given.times, u64::MAX);
    rule.chance = Ratio::percent(or_all(u64::from(given.percent), 100) as _);
    if !given.path.is_null() {
        let path = memory::path(given.path)?;
        let found = path.metadata().map_err(|source| millpond::Error::Open {
            path: path.to_owned(),
            source,
        })?;
        rule.file = Some(FileIdentity {
            device: found.dev(),
            inode: found.ino(),
        });
    }
    Ok(rule)
}

/// Makes faults on the system's best device, chosen while it runs: for millpond_cache_options.faults. With the same
/// `seed` and the same calls, the same faults happen. The caller owns `*faults` and drops it with millpond_faults_drop.
#[unsafe(no_mangle)]
pub extern "C-unwind" fn millpond_faults_new(
    seed: u64,
    faults: Option<&mut *mut millpond_faults>,
) -> millpond_code {
    attempt(|| {
        let faults = out(faults, "faults")?;
        let device = Arc::new(Faulty::new(device::best(), seed));
        handle::give(Faults { device }, faults);
        Ok(())
    })
}

/// Adds a fault. Faults are tried in the order of their addition; the first that matches decides.
#[unsafe(no_mangle)]
pub extern "C-unwind" fn millpond_faults_add(
    faults: *mut millpond_faults,
    fault: *const millpond_fault,
) -> millpond_code {
    attempt(|| {
        let rule = rule(&sized(fault)?)?;
        value(faults)?.device.add(rule);
        Ok(())
    })
}

/// Removes all faults, as if the disk were repaired.
#[unsafe(no_mangle)]
pub extern "C-unwind" fn millpond_faults_clear(faults: *mut millpond_faults) -> millpond_code {
    attempt(|| {
        value(faults)?.device.clear();
        Ok(())
    })
}

/// Starts the transfers that a fault held.
#[unsafe(no_mangle)]
pub extern "C-unwind" fn millpond_faults_release(faults: *mut millpond_faults) -> millpond_code {
    attempt(|| {
        let released = value(faults)?.device.release();
        released.map_err(|source| {
            let what = "starting transfers that were held";
            millpond::Error::Setup { what, source }.into()
        })
    })
}

/// The number of faults that have happened.
#[unsafe(no_mangle)]
pub extern "C-unwind" fn millpond_faults_count(
    faults: *const millpond_faults,
    count: Option<&mut u64>,
) -> millpond_code {
    attempt(|| {
        *out(count, "count")? = value(faults)?.device.faults();
        Ok(())
    })
}

/// Drops the handle. A cache that was made with the faults keeps them.
#[unsafe(no_mangle)]
pub extern "C-unwind" fn millpond_faults_drop(faults: *mut millpond_faults) -> millpond_code {
    attempt(|| handle::close(faults).map(drop))
}
