//! The table: name, kind and the place in the options; the range is that of the option ([`options::RANGES`]).

use super::value::{Kind, Value};
use millpond_core::admission::AdmissionOptions;
use millpond_core::admission::bytes::BytesOptions;
use millpond_core::admission::goal::GoalOptions;
use millpond_core::dirty::limits::DirtyLimit;
use millpond_core::lru::Replacement;
use millpond_core::memory::watermark::WatermarkRule;
use millpond_core::options::{self, Options};
use millpond_core::range::{Allowed, Limit, Number};
use millpond_core::units::{Bytes, Nanos, Ratio};
use std::fmt;

/// Something that can be set while a cache runs.
#[non_exhaustive]
pub struct Setting {
    /// Its name: `dirty.background`.
    pub name: &'static str,
    /// Its description, in a line.
    pub about: &'static str,
    /// When to change it, and to what.
    pub change_when: &'static str,
    /// The kind of its values.
    pub kind: Kind,
    /// The choice to which it belongs, and the forms of that which have it.
    pub of: Option<(&'static str, &'static [&'static str])>,
    /// Its slot in the options; `None`: it is the budget.
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
    Switch(&'a mut bool),
    Admission(&'a mut AdmissionOptions),
}

/// The forms of admission by name.
const ADMISSIONS: &[&str] = &["goal", "bytes", "off"];

impl Slot<'_> {
    pub(super) fn value(&self) -> Value {
        match self {
            Slot::Size(bytes) => Value::Size(**bytes),
            Slot::Time(span) => Value::Time(**span),
            Slot::Share(share) => Value::Share(**share),
            Slot::Limit(limit) => Value::from(**limit),
            Slot::Count(count) => Value::Count(u64::from(**count)),
            Slot::Switch(on) => Value::Switch(**on),
            Slot::Admission(form) => Value::Word(match form {
                AdmissionOptions::Off => "off",
                AdmissionOptions::Bytes(_) => "bytes",
                AdmissionOptions::Goal(_) => "goal",
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
            // It stays until that is done.
            (Slot::Time(_), Value::Measure) => {}
            (Slot::Share(slot), Value::Share(share)) => *slot = share,
            (Slot::Limit(slot), Value::Share(share)) => *slot = DirtyLimit::Share(share),
            (Slot::Limit(slot), Value::Size(bytes)) => *slot = DirtyLimit::Size(bytes),
            (Slot::Count(slot), Value::Count(count)) => *slot = u32::try_from(count).ok()?,
            (Slot::Switch(slot), Value::Switch(on)) => *slot = on,
            (Slot::Admission(slot), Value::Word(form)) => {
                *slot = match form {
                    "off" => AdmissionOptions::Off,
                    "bytes" => AdmissionOptions::Bytes(BytesOptions::default()),
                    "goal" => AdmissionOptions::Goal(GoalOptions::default()),
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
    slot: SlotOf,
    about: &'static str,
    change_when: &'static str,
) -> Setting {
    Setting {
        name,
        about,
        change_when,
        kind,
        of: None,
        slot: Some(slot),
    }
}

impl Setting {
    /// The range, as it is typed; empty for a choice and for a switch, which have none.
    pub fn allowed(&self) -> String {
        match self.kind {
            Kind::Word(_) | Kind::Switch => return String::new(),
            Kind::Memory => return MEMORY.into(),
            _ => {}
        }
        let ranges: Vec<_> = options::allowed(self.name).map(range).collect();
        match (ranges.is_empty(), self.kind) {
            (true, _) => "any".into(),
            (false, Kind::TimeOrMeasure) => ranges.join(", or ") + ", or measure",
            (false, _) => ranges.join(", or "),
        }
    }

    const fn of(mut self, choice: &'static str, forms: &'static [&'static str]) -> Setting {
        self.of = Some((choice, forms));
        self
    }
}

const MEMORY: &str = "about 1M to what the machine and the memory limit of its group have";

fn range(allowed: Allowed) -> String {
    let whole = allowed
        .share_of
        .map_or(String::new(), |whole| format!(" of {whole}"));
    let (min, max) = (end(allowed.min), end(allowed.max));
    match (allowed.zero, allowed.min) {
        (Some(means), Limit::Is(Number::Size(Bytes(0)))) => format!("{min} ({means}) to {max}"),
        (Some(means), _) => format!("0us ({means}), or {min} to {max}"),
        (None, _) => format!("{min} to {max}{whole}"),
    }
}

fn end(limit: Limit) -> String {
    const HOUR: u64 = 3_600_000_000_000;
    match limit {
        Limit::Page => "a page".into(),
        Limit::Option(name) => name.into(),
        Limit::Is(Number::Count(count)) => count.to_string(),
        Limit::Is(Number::Size(bytes)) => Value::Size(bytes).to_string(),
        Limit::Is(Number::Time(Nanos(ns))) if ns > 0 && ns.is_multiple_of(HOUR) => format!("{}h", ns / HOUR),
        Limit::Is(Number::Time(span)) => Value::Time(span).to_string(),
        Limit::Is(Number::Share(share)) => Value::Share(share).to_string(),
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
use Kind::{Count, Share, Size, SizeOrShare, Switch, Time, TimeOrMeasure, Word};

/// The settings for which an operator can give a reason; what only experts change is in [`Options`] alone. A choice is
/// before what belongs to its forms, and a form has all of its settings here: set from first to last they bring back what
/// they were read from.
#[rustfmt::skip]
pub static SETTINGS: &[Setting] = &[
    Setting {
        name: "memory",
        about: "the budget: pages, metadata and what transfers need",
        change_when: "another program needs the memory, or the load needs more (`millpond replay` shows how much)",
        kind: Kind::Memory,
        of: None,
        slot: None,
    },
    setting("dirty.background", SizeOrShare, |o| Some(Slot::Limit(&mut o.dirty.background)),
        "the dirty memory above which pages are written in the background",
        "dirty pages should reach the disk sooner, or short-lived files should never reach it"),
    setting("dirty.hard", SizeOrShare, |o| Some(Slot::Limit(&mut o.dirty.hard)),
        "the dirty memory above which a caller that dirties pages waits",
        "a crash should lose less, or bursts of writes should fit into memory"),
    setting("dirty.failed", Share, |o| Some(Slot::Share(&mut o.dirty.failed)),
        "the share of dirty.hard that one file's unwritable pages may take before its writes are refused",
        "writes to a file on a broken disk should be refused sooner, to leave memory to other files"),
    setting("admission", Word(ADMISSIONS), |o| Some(Slot::Admission(&mut o.admission)),
        "what decides when a write may go to the device",
        "reads don't matter: `off`; or a fixed number of bytes in transit is wanted: `bytes`"),
    setting("admission.read_latency", TimeOrMeasure, in_form!(admission, A::Goal(g) => Slot::Time(&mut g.read_latency)),
        "the latency that 99 of 100 reads should not exceed beside writers",
        "readers need less, or may wait longer so that writers are faster. Measured for the disk unless set; `measure` measures it again").of("admission", &["goal"]),
    setting("admission.in_transit_max", Size, in_form!(admission, A::Goal(g) => Slot::Size(&mut g.in_transit_max)),
        "the limit in transit while no reader is active",
        "without readers the disk is not busy (a RAID, a network volume): more").of("admission", &["goal"]),
    setting("admission.in_transit_min", Size, in_form!(admission, A::Goal(g) => Slot::Size(&mut g.in_transit_min)),
        "the minimum of the limit in transit",
        "writers starve beside readers: more").of("admission", &["goal"]),
    setting("admission.share_waited", Count, in_form!(admission, A::Goal(g) => Slot::Count(&mut g.share_waited)),
        "the writers' share of the time, in percent, while a caller waits for them",
        "writes that a sync, reclaim or a blocked call waits for should get more or less of a rotating disk's time").of("admission", &["goal"]),
    setting("admission.share_background", Count, in_form!(admission, A::Goal(g) => Slot::Count(&mut g.share_background)),
        "the same while no caller waits",
        "the same for writes that no call waits for").of("admission", &["goal"]),
    setting("admission.high", Size, in_form!(admission, A::Bytes(b) => Slot::Size(&mut b.high)),
        "the bytes in transit above which writes stop",
        "with `admission=bytes`: the disk can take more or less at a time").of("admission", &["bytes"]),
    setting("admission.low", Size, in_form!(admission, A::Bytes(b) => Slot::Size(&mut b.low)),
        "the bytes in transit at which they resume",
        "the same").of("admission", &["bytes"]),
    setting("flusher.expire", Time, |o| Some(Slot::Time(&mut o.flusher.expire)),
        "the age at which a dirty page is written, whatever the limits",
        "less may be lost in a crash; a mount uses `2s` unless set"),
    setting("flusher.write_behind", Switch, |o| Some(Slot::Switch(&mut o.flusher.write_behind)),
        "whether runs that a sequential writer has filled are written at once",
        "long files are written and removed before they need to reach the disk: off"),
    setting("flusher.retry", Time, |o| Some(Slot::Time(&mut o.flusher.retry)),
        "how long the flusher waits before it retries a failed write",
        "a failing disk recovers faster, or its errors flood a log"),
    setting("readahead.max", Size, |o| Some(Slot::Size(&mut o.readahead.max)),
        "the largest window that is read ahead of a sequential reader",
        "streams wait for a disk with a long latency: more; reads seldom continue: less"),
    setting("watermarks.scale", Share, |o| match &mut o.watermarks {
            WatermarkRule::Linux46 { scale } | WatermarkRule::Millpond { scale } => Some(Slot::Share(scale)),
            WatermarkRule::Linux3 => None,
        },
        "the share of memory between two watermarks: more makes reclaim begin earlier",
        "calls wait for free frames (`allocstall` grows): more"),
    setting("replacement.scan_balance_max_per_mille", Count,
        in_form!(replacement, Replacement::Millpond(m) => Slot::Count(&mut m.scan_balance_max_per_mille)),
        "at most this many of 1000 victims stay for a lap because their kind (file or region) costs more to refault",
        "files and regions should share memory by use alone, whatever their refaults cost: 0"),
    setting("alloc_timeout", Time, |o| Some(Slot::Time(&mut o.alloc_timeout)),
        "how long a call waits for a frame before it fails",
        "a call should fail sooner, or a disk stalls longer by design"),
    setting("hung_io_timeout", Time, |o| Some(Slot::Time(&mut o.hung_io_timeout)),
        "how long a transfer may take before a warning",
        "a warning should come sooner, or a disk takes longer to spin up"),
];
