//! Everything that can be chosen, checked once into a value that cannot be wrong.
//!
//! Every mechanism of the seeds is a closed enum or a field here, so a system of the past is a preset and
//! Millpond's own default is one more. Options can be exchanged while pages are in memory; all limits
//! are derived from the options and from memory now, so setting A, then B, then A gives exactly A.

use crate::admission::AdmissionOptions;
use crate::admission::bytes::BytesOptions;
use crate::admission::goal::GoalOptions;
use crate::dirty::limits::{DirtyLimit, DirtyOptions};
use crate::lru::{LinuxOptions, MillpondOptions, Replacement};
use crate::memory::watermark::WatermarkRule;
use crate::readahead::ReadAheadOptions;
use crate::units::{Bytes, Nanos, PageSize, Ratio};
use crate::writeback::{FlusherOptions, RETRY_MAX, RETRY_MIN};
use alloc::format;
use alloc::string::String;
use core::fmt;

/// The settings of one cache.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Options {
    /// The size of a page, 4 to 64 KiB. Fixed for the life of a cache. Default 4 KiB.
    pub page_size: PageSize,
    /// Which pages stay.
    pub replacement: Replacement,
    /// When reclaim wakes and sleeps.
    pub watermarks: WatermarkRule,
    /// Frames that only I/O may take, as a share of all. Default 1 in 256.
    pub reserve: Ratio,
    /// How many pages a scan looks at before it takes its victims out of the table, 1 to 1024. Default 32,
    /// Linux' `SWAP_CLUSTER_MAX`.
    pub scan_batch: u32,
    /// Limits on dirty pages.
    pub dirty: DirtyOptions,
    /// The flusher.
    pub flusher: FlusherOptions,
    /// When writes may go to the device.
    pub admission: AdmissionOptions,
    /// Reading ahead.
    pub readahead: ReadAheadOptions,
    /// How long a call waits for a frame, or for any page to be written, before it fails. For drivers; 1 ms to 1 h,
    /// default 30 s: far beyond what any write takes.
    pub alloc_timeout: Nanos,
    /// After how long a transfer or a sync that has not ended is warned of; again after twice as long, and so on. For
    /// drivers; 1 ms to 1 h, default 10 s: a disk that has to spin up takes about that.
    pub hung_io_timeout: Nanos,
}

/// A named set of options.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum Preset {
    /// Millpond's default: reads stay within a goal, a scan leaves the working set alone.
    Millpond,
    /// Two lists, shadows and dirty limits as Linux 5.x has them; writes limited only by the device's
    /// queue, as without `blk-wbt`.
    Linux5,
    /// Dillon 2000's limit on bytes in transit (1 MiB and 512 KiB), the rest as Millpond's default.
    Dillon2000,
}

impl Preset {
    /// All presets.
    pub const ALL: [Preset; 3] = [Preset::Millpond, Preset::Linux5, Preset::Dillon2000];

    /// The name that users write.
    pub fn name(self) -> &'static str {
        match self {
            Preset::Millpond => "millpond",
            Preset::Linux5 => "linux-5",
            Preset::Dillon2000 => "dillon-2000",
        }
    }

    /// The preset of this name.
    ///
    /// # Errors
    /// If there is none: the error lists those there are.
    pub fn from_name(name: &str) -> Result<Preset, OptionError> {
        Preset::ALL
            .into_iter()
            .find(|p| p.name() == name)
            .ok_or_else(|| OptionError {
                option: "preset",
                value: name.into(),
                allowed: "millpond, linux-5, dillon-2000".into(),
            })
    }

    /// Its options.
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

impl Options {
    /// Millpond's own for a cache with anonymous memory: [`MillpondOptions::with_regions`], and half as much memory between
    /// the watermarks. Pages of regions come back, so a frame that is free in vain costs as much as a frame less; and what
    /// the watermarks are for, a writer at the speed of memory, raises them (`memory::boost`).
    pub fn with_regions() -> Options {
        Options {
            replacement: Replacement::Millpond(MillpondOptions::with_regions()),
            watermarks: WatermarkRule::Millpond {
                scale: Ratio::per_mille(4),
            },
            ..Options::default()
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

/// A setting that can't be: what it was, and what it may be. It changes nothing.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct OptionError {
    /// The name of the option.
    pub option: &'static str,
    /// What was asked for.
    pub value: String,
    /// What is possible.
    pub allowed: String,
}

impl fmt::Display for OptionError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "option {} can't be {}: allowed is {}",
            self.option, self.value, self.allowed
        )
    }
}

impl core::error::Error for OptionError {}

fn range<T: PartialOrd + fmt::Display>(
    option: &'static str,
    value: T,
    min: T,
    max: T,
) -> Result<(), OptionError> {
    if value >= min && value <= max {
        return Ok(());
    }
    Err(OptionError {
        option,
        value: format!("{value}"),
        allowed: format!("{min} to {max}"),
    })
}

fn ratio(option: &'static str, value: Ratio, max: Ratio) -> Result<(), OptionError> {
    let fits = value.den > 0
        && u64::from(value.num) * u64::from(max.den) <= u64::from(max.num) * u64::from(value.den);
    if fits {
        return Ok(());
    }
    let show = |share: Ratio| match share.den {
        100 => format!("{} %", share.num),
        den => format!("{}/{den}", share.num),
    };
    Err(OptionError {
        option,
        value: show(value),
        allowed: format!("0 to {}", show(max)),
    })
}

struct Millis(Nanos);

impl fmt::Display for Millis {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{:03} ms", self.0.0 / 1_000_000, self.0.0 / 1_000 % 1_000)
    }
}

impl PartialEq for Millis {
    fn eq(&self, other: &Self) -> bool {
        self.0 == other.0
    }
}

impl PartialOrd for Millis {
    fn partial_cmp(&self, other: &Self) -> Option<core::cmp::Ordering> {
        self.0.partial_cmp(&other.0)
    }
}

impl Options {
    /// Whether these options can be.
    ///
    /// # Errors
    /// [`OptionError`] for the first that can't, with the range that it may have.
    pub fn check(&self) -> Result<(), OptionError> {
        range("scan_batch", self.scan_batch, 1, 1024)?;
        ratio("reserve", self.reserve, Ratio::percent(25))?;
        for (option, limit) in [
            ("dirty.background", self.dirty.background),
            ("dirty.hard", self.dirty.hard),
        ] {
            match limit {
                DirtyLimit::Share(share) => ratio(option, share, Ratio::percent(100))?,
                DirtyLimit::Size(bytes) => range(option, bytes, Bytes(1), Bytes(1 << 50))?,
            }
        }
        ratio("dirty.failed", self.dirty.failed, Ratio::percent(100))?;
        range(
            "flusher.retry",
            Millis(self.flusher.retry),
            Millis(RETRY_MIN),
            Millis(RETRY_MAX),
        )?;
        let (shortest, longest) = (Nanos::from_millis(1), Nanos::from_secs(3600));
        for (option, span) in [
            ("alloc_timeout", self.alloc_timeout),
            ("hung_io_timeout", self.hung_io_timeout),
        ] {
            range(option, Millis(span), Millis(shortest), Millis(longest))?;
        }
        let page = Bytes(self.page_size.bytes());
        range(
            "flusher.write_max",
            self.flusher.write_max,
            page,
            Bytes::from_mib(16),
        )?;
        range(
            "flusher.slice",
            self.flusher.slice,
            page,
            Bytes::from_mib(1 << 20),
        )?;
        range("readahead.max", self.readahead.max, Bytes(0), Bytes::from_mib(64))?;
        match self.admission {
            AdmissionOptions::Off => {}
            AdmissionOptions::Bytes(b) => {
                range("admission.high", b.high, page, Bytes::from_mib(1 << 10))?;
                range("admission.low", b.low, Bytes(0), b.high)?;
            }
            AdmissionOptions::Goal(g) => {
                range(
                    "admission.read_latency",
                    Millis(g.read_latency),
                    Millis(Nanos::from_micros(50)),
                    Millis(Nanos::from_secs(10)),
                )?;
                range(
                    "admission.in_transit_min",
                    g.in_transit_min,
                    page,
                    Bytes::from_mib(64),
                )?;
                range(
                    "admission.in_transit_max",
                    g.in_transit_max,
                    g.in_transit_min,
                    Bytes::from_mib(1 << 10),
                )?;
                range("admission.share_waited", g.share_waited, 1, 99)?;
                range("admission.share_background", g.share_background, 1, 99)?;
                if g.batch > Nanos::ZERO {
                    range(
                        "admission.batch",
                        Millis(g.batch),
                        Millis(Nanos::from_micros(50)),
                        Millis(Nanos::from_secs(10)),
                    )?;
                }
            }
        }
        if let WatermarkRule::Linux46 { scale } | WatermarkRule::Millpond { scale } = self.watermarks {
            ratio("watermarks.scale", scale, Ratio::percent(30))?;
        }
        if let Replacement::Millpond(m) = self.replacement {
            ratio("replacement.window", m.window, Ratio::percent(10))?;
            ratio("replacement.ghost_window", m.ghost_window, Ratio::percent(100))?;
        }
        self.replacement.check().map_err(|e| OptionError {
            option: replacement_option(e.field),
            value: format!("{}", e.value),
            allowed: format!("{} to {}", e.low, e.high),
        })
    }
}

/// The name of a field of the replacement among all options.
fn replacement_option(field: &'static str) -> &'static str {
    const NAMES: [&str; 13] = [
        "replacement.inactive_max_per_mille",
        "replacement.inactive_min_per_mille",
        "replacement.inactive_start_per_mille",
        "replacement.inactive_step_per_mille",
        "replacement.usage_count_max",
        "replacement.region_usage_count_max",
        "replacement.accessed_bit_weight",
        "replacement.skip_scan_threshold",
        "replacement.probe_pages",
        "replacement.admit_epsilon_one_in",
        "replacement.admit_epsilon_one_in_when_short",
        "replacement.admit_inactive_percent",
        "replacement.scan_balance_max_per_mille",
    ];
    let name = NAMES
        .into_iter()
        .find(|name| name.split_once('.').is_some_and(|(_, own)| own == field));
    name.unwrap_or(field)
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
            "option preset can't be solaris: allowed is millpond, linux-5, dillon-2000"
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
            "option scan_batch can't be 0: allowed is 1 to 1024"
        );
        assert_eq!(
            wrong(|o| o.dirty.hard = DirtyLimit::Share(Ratio::percent(101))),
            "option dirty.hard can't be 101 %: allowed is 0 to 100 %"
        );
        assert_eq!(
            wrong(|o| o.admission = AdmissionOptions::Goal(GoalOptions {
                read_latency: Nanos(1),
                ..GoalOptions::default()
            })),
            "option admission.read_latency can't be 0.000 ms: allowed is 0.050 ms to 10000.000 ms"
        );
        fn batch(batch: Nanos) -> AdmissionOptions {
            AdmissionOptions::Goal(GoalOptions {
                read_latency: Nanos::from_millis(60),
                batch,
                ..GoalOptions::default()
            })
        }
        assert_eq!(
            wrong(|o| o.admission = batch(Nanos::from_secs(11))),
            "option admission.batch can't be 11000.000 ms: allowed is 0.050 ms to 10000.000 ms"
        );
        // A goal that follows from the device is taken, whatever the batch was set to before.
        for fine in [Nanos::ZERO, Nanos::from_millis(50)] {
            let options = Options {
                admission: batch(fine),
                ..Options::default()
            };
            assert_eq!(options.check(), Ok(()));
        }
        assert_eq!(
            wrong(|o| o.flusher.write_max = Bytes(4095)),
            "option flusher.write_max can't be 4095 B: allowed is 4 KiB to 16 MiB"
        );
        assert_eq!(
            wrong(|o| o.flusher.retry = Nanos(0)),
            "option flusher.retry can't be 0.000 ms: allowed is 1.000 ms to 30000.000 ms"
        );
        assert_eq!(
            wrong(|o| o.hung_io_timeout = Nanos::from_secs(3601)),
            "option hung_io_timeout can't be 3601000.000 ms: allowed is 1.000 ms to 3600000.000 ms"
        );
        assert_eq!(
            wrong(|o| o.alloc_timeout = Nanos(999_999)),
            "option alloc_timeout can't be 0.999 ms: allowed is 1.000 ms to 3600000.000 ms"
        );
        assert_eq!(
            wrong(|o| o.dirty.failed = Ratio::percent(200)),
            "option dirty.failed can't be 200 %: allowed is 0 to 100 %"
        );
    }
}
