//! Anonymous memory within the budget.

use super::handle::{self, value};
use super::memory::{one_of, only_flags, out};
use super::{cache, millpond_cache, millpond_region};
use crate::code::millpond_code;
use crate::told::attempt;
use millpond::{Faults, Region, RegionAdvice, RegionOptions};
use parking_lot::Mutex;
use std::ffi::c_void;

/// What a handle of a region has.
pub struct Shared(Mutex<Region>);

/// millpond_region_new: the thread that touches a page serves its fault, in a SIGBUS handler.
pub const MILLPOND_REGION_IN_THREAD: u32 = 1;

/// How a part of a region will be used.
#[repr(u32)]
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum millpond_region_advice {
    /// Needed soon: it is read in the background.
    MILLPOND_REGION_WILL_NEED = 0,
    /// Its content may be discarded until it is next touched.
    MILLPOND_REGION_FREE = 1,
    /// It reads as zeros from now on, and takes neither memory nor swap.
    MILLPOND_REGION_DONT_NEED = 2,
}

/// Makes a region of `len` bytes, initially zero, in a cache with a swap file. `flags` is 0 or
/// MILLPOND_REGION_IN_THREAD. The caller owns `*region` and drops it with millpond_region_drop.
///
/// MILLPOND_SWAP if the swap file is missing or too small, MILLPOND_MEMORY, MILLPOND_SETUP.
#[unsafe(no_mangle)]
pub extern "C-unwind" fn millpond_region_new(
    cache: *mut millpond_cache,
    len: usize,
    flags: u32,
    region: Option<&mut *mut millpond_region>,
) -> millpond_code {
    attempt(|| {
        let region = out(region, "region")?;
        only_flags("a region", flags, MILLPOND_REGION_IN_THREAD)?;
        let options = match flags {
            0 => RegionOptions::new(),
            _ => RegionOptions::new().faults(Faults::InThread),
        };
        cache::with(cache, |cache| {
            let made = cache.region_with(len, &options)?;
            handle::give(Shared(Mutex::new(made)), region);
            Ok(())
        })
    })
}

/// The region's address and length: memory like any other, until millpond_region_drop. `len` may be NULL.
#[unsafe(no_mangle)]
pub extern "C-unwind" fn millpond_region_data(
    region: *const millpond_region,
    data: Option<&mut *mut c_void>,
    len: Option<&mut usize>,
) -> millpond_code {
    attempt(|| {
        let region = value(region)?.0.lock();
        *out(data, "data")? = region.as_ptr().cast();
        if let Some(len) = len {
            *len = region.len();
        }
        Ok(())
    })
}

/// Says how `len` bytes from `offset` on will be used: a millpond_region_advice. No other thread may touch them meanwhile.
/// MILLPOND_RANGE if they are outside the region.
#[unsafe(no_mangle)]
pub extern "C-unwind" fn millpond_region_advise(
    region: *mut millpond_region,
    offset: usize,
    len: usize,
    advice: u32,
) -> millpond_code {
    attempt(|| {
        use millpond_region_advice::*;
        let known = [
            (MILLPOND_REGION_WILL_NEED as u32, RegionAdvice::WillNeed),
            (MILLPOND_REGION_FREE as u32, RegionAdvice::Free),
            (MILLPOND_REGION_DONT_NEED as u32, RegionAdvice::DontNeed),
        ];
        let advice = one_of("millpond_region_advice", advice, &known)?;
        let range = offset..offset.saturating_add(len);
        Ok(value(region)?.0.lock().advise(range, advice)?)
    })
}

/// Drops the region. No pointer into it may be used afterwards.
#[unsafe(no_mangle)]
pub extern "C-unwind" fn millpond_region_drop(region: *mut millpond_region) -> millpond_code {
    attempt(|| handle::close(region).map(drop))
}
