//! All options, checked once into a valid value.
//!
//! Each mechanism is a closed enum or a field here, so a preset, including Millpond's default, is just a value. Options
//! can change while pages are in memory. All limits are derived from the current options and memory, so setting A, then
//! B, then A gives exactly A.

use crate::admission::AdmissionOptions;
use crate::admission::bytes::BytesOptions;
use crate::admission::goal::GoalOptions;
use crate::dirty::limits::{DirtyLimit, DirtyOptions};
use crate::lru::{self, LinuxOptions, MillpondOptions, Replacement};
use crate::memory::watermark::WatermarkRule;
use crate::range::{self, Allowed, Limit, Number, OutOfRange, Row, count, percent, size, time};
use crate::readahead::ReadAheadOptions;
use crate::units::{Bytes, Nanos, PageSize, Ratio};
use crate::writeback::{FlusherOptions, RETRY_MAX, RETRY_MIN};
use Number::{Count, Share, Size, Time};
use alloc::format;
use alloc::string::String;
use core::fmt;

/// The settings of one cache.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Options {
    /// Page size, 4 to 64 KiB. Fixed for the life of a cache. Default 4 KiB.
    pub page_size: PageSize,
    /// The replacement rule.
    pub replacement: Replacement,
    /// When background reclaim wakes and sleeps.
    pub watermarks: WatermarkRule,
    /// Frames that only I/O may take, as a share of all frames. Default 1 in 256.
    pub reserve: Ratio,
    /// Pages a scan looks at before it takes its victims out of the table, 1 to 1024. Default 32, the value of Linux's
    /// `SWAP_CLUSTER_MAX`.
    pub scan_batch: u32,
    /// Limits on dirty pages.
    pub dirty: DirtyOptions,
    /// The flusher.
    pub flusher: FlusherOptions,
    /// When writes may go to the device.
    pub admission: AdmissionOptions,
    /// Read-ahead.
    pub readahead: ReadAheadOptions,
    /// How long a call waits for a frame, or for any page to be written, before it fails. Enforced by drivers. 1 ms to
    /// 1 h, default 30 s, far longer than any write takes.
    pub alloc_timeout: Nanos,
    /// A transfer or sync still running after this time causes a warning. The interval doubles for each further
    /// warning. Enforced by drivers. 1 ms to 1 h, default 10 s, about as long as a disk takes to spin up.
    pub hung_io_timeout: Nanos,
}

/// A named set of options.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum Preset {
    /// Millpond's default: reads stay within a latency goal, and a scan does not displace the working set.
    Millpond,
    /// Two lists, shadows and dirty limits as in Linux 5.x. Only the device's queue limits writes, as without
    /// `blk-wbt`.
    Linux5,
    /// Dillon 2000's limit on bytes in transit (1 MiB and 512 KiB). Everything else is Millpond's default.
    Dillon2000,
}

impl Preset {
    /// All presets.
    pub const ALL: [Preset; 3] = [Preset::Millpond, Preset::Linux5, Preset::Dillon2000];

    /// The name users write.
    pub fn name(self) -> &'static str {
        match self {
            Preset::Millpond => "millpond",
            Preset::Linux5 => "linux-5",
            Preset::Dillon2000 => "dillon-2000",
        }
    }

    /// The preset with this name.
    ///
    /// # Errors
    /// If there is no such preset. The error lists the valid names.
    pub fn from_name(name: &str) -> Result<Preset, OptionError> {
        Preset::ALL
            .into_iter()
            .find(|p| p.name() == name)
            .ok_or_else(|| OptionError {
                option: "preset",
                value: name.into(),
                allowed: "millpond, linux-5 or dillon-2000".into(),
            })
    }

    /// The preset's options.
    pub fn options(self) -> Options {
        match self {
            Preset::Millpond => Options::default(),
            Preset::Linux5 => Options {
                replacement: Replacement::Linux(LinuxOptions::default()),
                watermarks: WatermarkRule::Linux46 {
                    scale: Ratio { num: 10, den: 10_000 },
                },
                admission: AdmissionOptions::Off,
                flusher: FlusherOptions {
                    write_behind: false,
                    slice: Bytes::from_mib(4),
                    ..FlusherOptions::default()
                },
                ..Options::default()
            },
            Preset::Dillon2000 => Options {
                admission: AdmissionOptions::Bytes(BytesOptions::default()),
                ..Options::default()
            },
        }
    }
}

impl Default for Options {
    fn default() -> Self {
        Options {
            page_size: PageSize::KIB_4,
            replacement: Replacement::Millpond(MillpondOptions::default()),
            watermarks: WatermarkRule::Millpond {
                scale: Ratio::per_mille(8),
            },
            reserve: Ratio { num: 1, den: 256 },
            scan_batch: 32,
            dirty: DirtyOptions {
                background: DirtyLimit::Share(Ratio::percent(10)),
                hard: DirtyLimit::Share(Ratio::percent(20)),
                failed: Ratio::percent(25),
            },
            flusher: FlusherOptions::default(),
            admission: AdmissionOptions::Goal(GoalOptions::default()),
            readahead: ReadAheadOptions::default(),
            alloc_timeout: Nanos::from_secs(30),
            hung_io_timeout: Nanos::from_secs(10),
        }
    }
}

/// An invalid setting: its value and what is allowed. It changes nothing.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct OptionError {
    /// The name of the option.
    pub option: &'static str,
    /// The rejected value.
    pub value: String,
    /// What is allowed.
    pub allowed: String,
}

impl fmt::Display for OptionError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "option {} can't be {}: must be {}",
            self.option, self.value, self.allowed
        )
    }
}

impl core::error::Error for OptionError {}

impl From<OutOfRange> for OptionError {
    fn from(error: OutOfRange) -> OptionError {
        OptionError {
            option: error.option,
            value: format!("{}", error.value),
            allowed: format!("{} to {}", error.min, error.max),
        }
    }
}

/// The range of each option. The ranges of Millpond's replacement are in [`lru::RANGES`].
#[rustfmt::skip]
pub static RANGES: &[Row<Options>] = &[
    R::new("scan_batch", count(1), count(1024), |o| Some(Count(o.scan_batch.into()))),
    R::new("reserve", percent(0), percent(25), |o| Some(Share(o.reserve))),
    R::new("dirty.background", size(Bytes(1)), DIRTY_BYTES_MAX, |o| bytes_of(o.dirty.background)),
    R::new("dirty.background", percent(0), percent(100), |o| share_of(o.dirty.background)).share_of(DIRTYABLE),
    R::new("dirty.hard", size(Bytes(1)), DIRTY_BYTES_MAX, |o| bytes_of(o.dirty.hard)),
    R::new("dirty.hard", percent(0), percent(100), |o| share_of(o.dirty.hard)).share_of(DIRTYABLE),
    R::new("dirty.failed", percent(0), percent(100), |o| Some(Share(o.dirty.failed))),
    R::new("flusher.retry", time(RETRY_MIN), time(RETRY_MAX), |o| Some(Time(o.flusher.retry))),
    R::new("alloc_timeout", TIMEOUT_MIN, TIMEOUT_MAX, |o| Some(Time(o.alloc_timeout))),
    R::new("hung_io_timeout", TIMEOUT_MIN, TIMEOUT_MAX, |o| Some(Time(o.hung_io_timeout))),
    R::new("flusher.write_max", Limit::Page, size(Bytes::from_mib(16)), |o| Some(Size(o.flusher.write_max))),
    R::new("flusher.slice", Limit::Page, size(Bytes::from_mib(1 << 20)), |o| Some(Size(o.flusher.slice))),
    R::new("readahead.max", size(Bytes(0)), size(Bytes::from_mib(64)), |o| Some(Size(o.readahead.max))).zero("off"),
    R::new("admission.high", Limit::Page, size(Bytes::from_mib(1 << 10)), |o| bytes(o).map(|b| Size(b.high))),
    R::new("admission.low", size(Bytes(0)), Limit::Option("admission.high"), |o| bytes(o).map(|b| Size(b.low))),
    R::new("admission.read_latency", GOAL_TIME_MIN, GOAL_TIME_MAX, |o| goal(o).map(|g| Time(g.read_latency))),
    R::new("admission.in_transit_min", Limit::Page, size(Bytes::from_mib(64)),
        |o| goal(o).map(|g| Size(g.in_transit_min))),
    R::new("admission.in_transit_max", Limit::Option("admission.in_transit_min"), size(Bytes::from_mib(1 << 10)),
        |o| goal(o).map(|g| Size(g.in_transit_max))),
    R::new("admission.share_waited", count(1), count(99), |o| goal(o).map(|g| Count(g.share_waited.into()))),
    R::new("admission.share_background", count(1), count(99), |o| goal(o).map(|g| Count(g.share_background.into()))),
    R::new("watermarks.scale", percent(0), percent(30), |o| match o.watermarks {
        WatermarkRule::Linux46 { scale } | WatermarkRule::Millpond { scale } => Some(Share(scale)),
        WatermarkRule::Linux3 => None,
    }),
];

type R = Row<Options>;

const DIRTY_BYTES_MAX: Limit = size(Bytes(1 << 50));
const DIRTYABLE: &str = "dirtyable memory";
const TIMEOUT_MIN: Limit = time(Nanos::from_millis(1));
const TIMEOUT_MAX: Limit = time(Nanos::from_secs(3600));
const GOAL_TIME_MIN: Limit = time(Nanos::from_micros(50));
const GOAL_TIME_MAX: Limit = time(Nanos::from_secs(10));

fn bytes_of(limit: DirtyLimit) -> Option<Number> {
    match limit {
        DirtyLimit::Size(bytes) => Some(Size(bytes)),
        DirtyLimit::Share(_) => None,
    }
}

fn share_of(limit: DirtyLimit) -> Option<Number> {
    match limit {
        DirtyLimit::Size(_) => None,
        DirtyLimit::Share(share) => Some(Share(share)),
    }
}

fn bytes(options: &Options) -> Option<&BytesOptions> {
    match &options.admission {
        AdmissionOptions::Bytes(bytes) => Some(bytes),
        _ => None,
    }
}

fn goal(options: &Options) -> Option<&GoalOptions> {
    match &options.admission {
        AdmissionOptions::Goal(goal) => Some(goal),
        _ => None,
    }
}

/// What the option `name` may be, one item for each kind of value. Empty for an option without a range.
pub fn allowed(name: &str) -> impl Iterator<Item = Allowed> {
    let own = RANGES.iter().map(|row| (row.name, row.allowed));
    let replacement = lru::RANGES.iter().map(|row| (row.name, row.allowed));
    own.chain(replacement)
        .filter_map(move |(option, allowed)| (option == name).then_some(allowed))
}

impl Options {
    /// Checks that every option is valid.
    ///
    /// # Errors
    /// [`OptionError`] for the first invalid option, with its allowed range.
    pub fn check(&self) -> Result<(), OptionError> {
        range::check(RANGES, self, Bytes(self.page_size.bytes()))?;
        self.replacement.check()?;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::string::ToString;

    #[test]
    fn presets_are_valid_and_found_by_name() {
        for preset in Preset::ALL {
            preset.options().check().unwrap();
            assert_eq!(Preset::from_name(preset.name()), Ok(preset));
        }
        assert_eq!(
            Preset::from_name("solaris").unwrap_err().to_string(),
            "option preset can't be solaris: must be millpond, linux-5 or dillon-2000"
        );
    }

    #[test]
    fn an_option_out_of_range_is_named_with_its_value_and_range() {
        let wrong = |change: fn(&mut Options)| {
            let mut options = Options::default();
            change(&mut options);
            options.check().unwrap_err().to_string()
        };
        assert_eq!(
            wrong(|o| o.scan_batch = 0),
            "option scan_batch can't be 0: must be 1 to 1024"
        );
        assert_eq!(
            wrong(|o| o.dirty.hard = DirtyLimit::Share(Ratio::percent(101))),
            "option dirty.hard can't be 101 %: must be 0 to 100 %"
        );
        assert_eq!(
            wrong(|o| o.admission = AdmissionOptions::Goal(GoalOptions {
                read_latency: Nanos(1),
                ..GoalOptions::default()
            })),
            "option admission.read_latency can't be 0.000 ms: must be 0.050 ms to 10000.000 ms"
        );
        assert_eq!(
            wrong(|o| o.flusher.write_max = Bytes(4095)),
            "option flusher.write_max can't be 4095 B: must be 4 KiB to 16 MiB"
        );
        assert_eq!(
            wrong(|o| o.flusher.retry = Nanos(0)),
            "option flusher.retry can't be 0.000 ms: must be 1.000 ms to 30000.000 ms"
        );
        assert_eq!(
            wrong(|o| o.hung_io_timeout = Nanos::from_secs(3601)),
            "option hung_io_timeout can't be 3601000.000 ms: must be 1.000 ms to 3600000.000 ms"
        );
        assert_eq!(
            wrong(|o| o.alloc_timeout = Nanos(999_999)),
            "option alloc_timeout can't be 0.999 ms: must be 1.000 ms to 3600000.000 ms"
        );
        assert_eq!(
            wrong(|o| o.dirty.failed = Ratio::percent(200)),
            "option dirty.failed can't be 200 %: must be 0 to 100 %"
        );
    }
}
