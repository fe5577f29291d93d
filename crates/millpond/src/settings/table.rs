//! The table: name, kind, range, and the place in the options.

use super::value::{Kind, Value};
use millpond_core::admission::AdmissionOptions;
use millpond_core::admission::bytes::BytesOptions;
use millpond_core::admission::goal::GoalOptions;
use millpond_core::admission::latency::LatencyOptions;
use millpond_core::admission::percent::{PercentOptions, Version};
use millpond_core::dirty::limits::DirtyLimit;
use millpond_core::lru::{LinuxOptions, MillpondOptions, Replacement};
use millpond_core::memory::watermark::WatermarkRule;
use millpond_core::options::Options;
use millpond_core::units::{Bytes, Nanos, Ratio};
use std::fmt;

/// Something that can be set while a cache runs.
#[non_exhaustive]
pub struct Setting {
    /// What it is called: `dirty.background`.
    pub name: &'static str,
    /// What it says, in a line.
    pub about: &'static str,
    /// What it takes.
    pub kind: Kind,
    /// The range.
    pub allowed: &'static str,
    /// The choice to which it belongs, and the forms of that which have it.
    pub of: Option<(&'static str, &'static [&'static str])>,
    /// Where it is; `None`: it is the budget.
    pub(super) slot: Option<SlotOf>,
}

/// The place of a setting in the options, if the form that is chosen has it.
pub(super) type SlotOf = fn(&mut Options) -> Option<Slot<'_>>;

impl fmt::Debug for Setting {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Setting({})", self.name)
    }
}

/// A place in the options.
pub(super) enum Slot<'a> {
    Size(&'a mut Bytes),
    Time(&'a mut Nanos),
    Share(&'a mut Ratio),
    Limit(&'a mut DirtyLimit),
    Count(&'a mut u32),
    Small(&'a mut u8),
    Switch(&'a mut bool),
    Admission(&'a mut AdmissionOptions),
    Replacement(&'a mut Replacement),
    Watermarks(&'a mut WatermarkRule),
}

const ADMISSIONS: &[&str] = &["goal", "bytes", "latency", "v3", "v2", "off"];
const REPLACEMENTS: &[&str] = &["millpond", "linux"];
const WATERMARKS: &[&str] = &["millpond", "linux-4.6", "linux-3"];

impl Slot<'_> {
    pub(super) fn value(&self) -> Value {
        match self {
            Slot::Size(bytes) => Value::Size(**bytes),
            Slot::Time(span) => Value::Time(**span),
            Slot::Share(share) => Value::Share(**share),
            Slot::Limit(limit) => Value::from(**limit),
            Slot::Count(count) => Value::Count(u64::from(**count)),
            Slot::Small(count) => Value::Count(u64::from(**count)),
            Slot::Switch(on) => Value::Switch(**on),
            Slot::Admission(form) => Value::Word(match form {
                AdmissionOptions::Off => "off",
                AdmissionOptions::Percent(PercentOptions {
                    version: Version::V2, ..
                }) => "v2",
                AdmissionOptions::Percent(_) => "v3",
                AdmissionOptions::Latency(_) => "latency",
                AdmissionOptions::Bytes(_) => "bytes",
                AdmissionOptions::Goal(_) => "goal",
            }),
            Slot::Replacement(rule) => Value::Word(match rule {
                Replacement::Linux(_) => "linux",
                Replacement::Millpond(_) => "millpond",
            }),
            Slot::Watermarks(rule) => Value::Word(match rule {
                WatermarkRule::Linux3 => "linux-3",
                WatermarkRule::Linux46 { .. } => "linux-4.6",
                WatermarkRule::Millpond { .. } => "millpond",
            }),
        }
    }

    /// Takes a value of its kind; `None` if it can't hold it. A choice that is the present one keeps its settings.
    pub(super) fn put(self, value: Value) -> Option<()> {
        if self.value() == value {
            return Some(());
        }
        match (self, value) {
            (Slot::Size(slot), Value::Size(bytes)) => *slot = bytes,
            (Slot::Time(slot), Value::Time(span)) => *slot = span,
            (Slot::Share(slot), Value::Share(share)) => *slot = share,
            (Slot::Limit(slot), Value::Share(share)) => *slot = DirtyLimit::Share(share),
            (Slot::Limit(slot), Value::Size(bytes)) => *slot = DirtyLimit::Size(bytes),
            (Slot::Count(slot), Value::Count(count)) => *slot = u32::try_from(count).ok()?,
            (Slot::Small(slot), Value::Count(count)) => *slot = u8::try_from(count).ok()?,
            (Slot::Switch(slot), Value::Switch(on)) => *slot = on,
            (Slot::Admission(slot), Value::Word(form)) => {
                *slot = match form {
                    "off" => AdmissionOptions::Off,
                    "v2" => AdmissionOptions::Percent(PercentOptions::v2()),
                    // As posted for flash.
                    "v3" => AdmissionOptions::Percent(PercentOptions::v3(50)),
                    "latency" => AdmissionOptions::Latency(LatencyOptions::flash()),
                    "bytes" => AdmissionOptions::Bytes(BytesOptions::default()),
                    "goal" => AdmissionOptions::Goal(GoalOptions::default()),
                    _ => return None,
                }
            }
            (Slot::Replacement(slot), Value::Word(form)) => {
                *slot = match form {
                    "linux" => Replacement::Linux(LinuxOptions::default()),
                    "millpond" => Replacement::Millpond(MillpondOptions::default()),
                    _ => return None,
                }
            }
            (Slot::Watermarks(slot), Value::Word(form)) => {
                *slot = match form {
                    "linux-3" => WatermarkRule::Linux3,
                    // Linux' default, and Millpond's.
                    "linux-4.6" => WatermarkRule::Linux46 {
                        scale: Ratio { num: 10, den: 10_000 },
                    },
                    "millpond" => Options::default().watermarks,
                    _ => return None,
                }
            }
            _ => return None,
        }
        Some(())
    }
}

const fn setting(
    name: &'static str,
    kind: Kind,
    allowed: &'static str,
    slot: SlotOf,
    about: &'static str,
) -> Setting {
    Setting {
        name,
        about,
        kind,
        allowed,
        of: None,
        slot: Some(slot),
    }
}

impl Setting {
    const fn of(mut self, choice: &'static str, forms: &'static [&'static str]) -> Setting {
        self.of = Some((choice, forms));
        self
    }
}

macro_rules! in_form {
    ($field:ident, $form:pat => $slot:expr) => {
        |o| match &mut o.$field {
            $form => Some($slot),
            _ => None,
        }
    };
}

use AdmissionOptions as A;
use Kind::{Count, Share, Size, SizeOrShare, Switch, Time, Word};

const SPAN: &str = "1ms to 1h";
const DEPTH: &str = "1 to 65536";

/// All settings, each choice before what belongs to its forms: set from first to last they bring back what they were read
/// from.
#[rustfmt::skip]
pub static SETTINGS: &[Setting] = &[
    Setting {
        name: "memory",
        about: "the budget: pages, metadata and what transfers need",
        kind: Kind::Memory,
        allowed: "about 1M to what the machine and the memory limit of its group have",
        of: None,
        slot: None,
    },
    setting("dirty.background", SizeOrShare, "1B to 1024T, or 0% to 100% of dirtyable memory", |o| Some(Slot::Limit(&mut o.dirty.background)),
        "above it dirty pages are written in the background"),
    setting("dirty.hard", SizeOrShare, "1B to 1024T, or 0% to 100% of dirtyable memory", |o| Some(Slot::Limit(&mut o.dirty.hard)),
        "above it a caller that dirties pages waits"),
    setting("dirty.failed", Share, "0% to 100%", |o| Some(Slot::Share(&mut o.dirty.failed)),
        "of dirty.hard: so much of one file may fail to be written before writes to it are refused"),
    setting("admission", Word(ADMISSIONS), "", |o| Some(Slot::Admission(&mut o.admission)),
        "what decides when a write may go to the device"),
    setting("admission.read_latency", Time, "50us to 10s", in_form!(admission, A::Goal(g) => Slot::Time(&mut g.read_latency)),
        "what 99 of 100 reads should not exceed beside writers").of("admission", &["goal"]),
    setting("admission.in_transit_max", Size, "admission.in_transit_min to 1G", in_form!(admission, A::Goal(g) => Slot::Size(&mut g.in_transit_max)),
        "the limit in transit while no reader is active").of("admission", &["goal"]),
    setting("admission.in_transit_min", Size, "a page to 64M", in_form!(admission, A::Goal(g) => Slot::Size(&mut g.in_transit_min)),
        "the least that the limit in transit may be").of("admission", &["goal"]),
    setting("admission.share_waited", Count, "1 to 99", in_form!(admission, A::Goal(g) => Slot::Count(&mut g.share_waited)),
        "the writers' percent of the time while a caller waits for them").of("admission", &["goal"]),
    setting("admission.share_background", Count, "1 to 99", in_form!(admission, A::Goal(g) => Slot::Count(&mut g.share_background)),
        "the same while none does").of("admission", &["goal"]),
    setting("admission.batch", Time, "0us (none), or 50us to 10s", in_form!(admission, A::Goal(g) => Slot::Time(&mut g.batch)),
        "writers work for so long at a time, and 128 reads go without any write for each that waits for them").of("admission", &["goal"]),
    setting("admission.high", Size, "a page to 1G", in_form!(admission, A::Bytes(b) => Slot::Size(&mut b.high)),
        "with more in transit writes stop").of("admission", &["bytes"]),
    setting("admission.low", Size, "0B to admission.high", in_form!(admission, A::Bytes(b) => Slot::Size(&mut b.low)),
        "with this much left they go on").of("admission", &["bytes"]),
    setting("admission.target", Time, "1us to 10s", in_form!(admission, A::Latency(l) => Slot::Time(&mut l.target)),
        "the fastest read of a window shall not take longer").of("admission", &["latency"]),
    setting("admission.clamp_up", Switch, "", in_form!(admission, A::Latency(l) => Slot::Switch(&mut l.clamp_up)),
        "a step up never makes the depth smaller").of("admission", &["latency"]),
    setting("admission.percent", Count, "1 to 100", |o| match &mut o.admission {
            A::Percent(PercentOptions { version: Version::V3 { percent }, .. }) => Some(Slot::Count(percent)),
            _ => None,
        },
        "percent of the device's queue for writes").of("admission", &["v3"]),
    setting("admission.cache_delay", Time, "0s to 10s", in_form!(admission, A::Percent(p) => Slot::Time(&mut p.cache_delay)),
        "how long after others' last read writes stay away from a write cache").of("admission", &["v3", "v2"]),
    setting("admission.cache_delay_bug", Switch, "", in_form!(admission, A::Percent(p) => Slot::Switch(&mut p.cache_delay_bug)),
        "there is no such delay, as posted").of("admission", &["v3", "v2"]),
    setting("admission.queue_depth", Count, DEPTH, |o| match &mut o.admission {
            A::Percent(p) => Some(Slot::Count(&mut p.queue_depth)),
            A::Latency(l) => Some(Slot::Count(&mut l.queue_depth)),
            _ => None,
        },
        "requests that the device takes at a time").of("admission", &["latency", "v3", "v2"]),
    setting("admission.write_cache", Switch, "", |o| match &mut o.admission {
            A::Percent(p) => Some(Slot::Switch(&mut p.write_cache)),
            A::Latency(l) => Some(Slot::Switch(&mut l.write_cache)),
            _ => None,
        },
        "the device has a volatile write cache").of("admission", &["latency", "v3", "v2"]),
    setting("flusher.write_max", Size, "a page to 16M", |o| Some(Slot::Size(&mut o.flusher.write_max)),
        "the largest write"),
    setting("flusher.slice", Size, "a page to 1T", |o| Some(Slot::Size(&mut o.flusher.slice)),
        "so much of a file is written before it is another's turn"),
    setting("flusher.expire", Time, "any", |o| Some(Slot::Time(&mut o.flusher.expire)),
        "after so long a dirty page is written whatever the limits say"),
    setting("flusher.write_behind", Switch, "", |o| Some(Slot::Switch(&mut o.flusher.write_behind)),
        "runs that a sequential writer has filled leave at once"),
    setting("flusher.retry", Time, "1ms to 30s", |o| Some(Slot::Time(&mut o.flusher.retry)),
        "how long a page is left alone after its write has failed"),
    setting("readahead.max", Size, "0B (off) to 64M", |o| Some(Slot::Size(&mut o.readahead.max)),
        "the largest window that is read ahead of a sequential reader"),
    setting("readahead.start", Size, "any", |o| Some(Slot::Size(&mut o.readahead.start)),
        "the first window"),
    setting("watermarks", Word(WATERMARKS), "", |o| Some(Slot::Watermarks(&mut o.watermarks)),
        "the rule for how much is kept free"),
    setting("watermarks.scale", Share, "0% to 30%", |o| match &mut o.watermarks {
            WatermarkRule::Linux46 { scale } | WatermarkRule::Millpond { scale } => Some(Slot::Share(scale)),
            WatermarkRule::Linux3 => None,
        },
        "the share of memory between two of its marks").of("watermarks", &["millpond", "linux-4.6"]),
    setting("reserve", Share, "0% to 25%", |o| Some(Slot::Share(&mut o.reserve)),
        "of memory: frames that only input and output may take"),
    setting("scan_batch", Count, "1 to 1024", |o| Some(Slot::Count(&mut o.scan_batch)),
        "pages that reclaim looks at before it takes its victims"),
    setting("replacement", Word(REPLACEMENTS), "", |o| Some(Slot::Replacement(&mut o.replacement)),
        "the rule for which pages stay"),
    setting("replacement.window", Share, "0% to 10%", in_form!(replacement, Replacement::Millpond(m) => Slot::Share(&mut m.window)),
        "the correlated-reference window, in insertions, of memory: a new page's uses within it count as one").of("replacement", &["millpond"]),
    setting("replacement.inactive_max_per_mille", Count, "replacement.inactive_min_per_mille to 900",
        in_form!(replacement, Replacement::Millpond(m) => Slot::Count(&mut m.inactive_max_per_mille)),
        "the longest inactive list, per mille of memory").of("replacement", &["millpond"]),
    setting("replacement.inactive_min_per_mille", Count, "1 to replacement.inactive_max_per_mille",
        in_form!(replacement, Replacement::Millpond(m) => Slot::Count(&mut m.inactive_min_per_mille)),
        "the shortest").of("replacement", &["millpond"]),
    setting("replacement.inactive_start_per_mille", Count, "replacement.inactive_min_per_mille to replacement.inactive_max_per_mille",
        in_form!(replacement, Replacement::Millpond(m) => Slot::Count(&mut m.inactive_start_per_mille)),
        "the first").of("replacement", &["millpond"]),
    setting("replacement.inactive_step_per_mille", Count, "0 to 100",
        in_form!(replacement, Replacement::Millpond(m) => Slot::Count(&mut m.inactive_step_per_mille)),
        "how far a ghost hit moves the aim").of("replacement", &["millpond"]),
    setting("replacement.ghost_window", Share, "0% to 100%",
        in_form!(replacement, Replacement::Millpond(m) => Slot::Share(&mut m.ghost_window)),
        "of memory: a refault after fewer evictions is a ghost hit and moves it").of("replacement", &["millpond"]),
    setting("replacement.usage_count_max", Count, "1 to 3",
        in_form!(replacement, Replacement::Millpond(m) => Slot::Small(&mut m.usage_count_max)),
        "the most that an active page's usage count can be").of("replacement", &["millpond"]),
    setting("replacement.region_usage_count_max", Count, "1 to 15",
        in_form!(replacement, Replacement::Millpond(m) => Slot::Small(&mut m.region_usage_count_max)),
        "the same of a page of a region").of("replacement", &["millpond"]),
    setting("replacement.accessed_bit_weight", Count, "1 to 15",
        in_form!(replacement, Replacement::Millpond(m) => Slot::Small(&mut m.accessed_bit_weight)),
        "how much an accessed bit adds to it").of("replacement", &["millpond"]),
    setting("replacement.skip_scan_threshold", Count, "1 to 16",
        in_form!(replacement, Replacement::Millpond(m) => Slot::Small(&mut m.skip_scan_threshold)),
        "from this usage count on its accessed bit is not sampled; above replacement.region_usage_count_max: never")
        .of("replacement", &["millpond"]),
    setting("replacement.probe_pages", Count, "1 to 32",
        in_form!(replacement, Replacement::Millpond(m) => Slot::Count(&mut m.probe_pages)),
        "active pages that the admission probe of a refaulted page looks at").of("replacement", &["millpond"]),
    setting("replacement.probe_always", Switch, "",
        in_form!(replacement, Replacement::Millpond(m) => Slot::Switch(&mut m.probe_always)),
        "whether it probes although the active list has room").of("replacement", &["millpond"]),
    setting("replacement.admit_epsilon_one_in", Count, "1 or more",
        in_form!(replacement, Replacement::Millpond(m) => Slot::Count(&mut m.admit_epsilon_one_in)),
        "of pages without a shadow one in so many may probe an active one (1/epsilon)").of("replacement", &["millpond"]),
    setting("replacement.admit_epsilon_one_in_when_short", Count, "1 or more",
        in_form!(replacement, Replacement::Millpond(m) => Slot::Count(&mut m.admit_epsilon_one_in_when_short)),
        "the same while less than half of memory is active").of("replacement", &["millpond"]),
    setting("replacement.admit_inactive_percent", Count, "0 to 1000",
        in_form!(replacement, Replacement::Millpond(m) => Slot::Count(&mut m.admit_inactive_percent)),
        "the same while the inactive list is longer than so many percent of its aim; 0: never").of("replacement", &["millpond"]),
    setting("replacement.scan_balance_max_per_mille", Count, "0 to 950",
        in_form!(replacement, Replacement::Millpond(m) => Slot::Count(&mut m.scan_balance_max_per_mille)),
        "files and regions: of would-be victims whose kind costs more to refault, so many of 1000 stay for a lap, at most")
        .of("replacement", &["millpond"]),
    setting("alloc_timeout", Time, SPAN, |o| Some(Slot::Time(&mut o.alloc_timeout)),
        "how long a call waits for a frame before it fails"),
    setting("hung_io_timeout", Time, SPAN, |o| Some(Slot::Time(&mut o.hung_io_timeout)),
        "after how long a transfer that has not ended is warned of"),
];
