//! Parsing and formatting of sizes, times, shares and words.
//!
//! ```text
//!   64M  1.5GiB  100MB  4096      sizes: K, M, G, T are powers of 1024, KB, MB, GB, TB powers of 1000
//!   auto:256M..4G  10%            a budget that follows the host; a share of what the process may have, as that is now
//!   500us  4ms  1.5s  2min        times always name their unit
//!   20%  0.8%  1/256              shares
//! ```
//!
//! Displayed values can be typed again and give exactly the same value, because all arithmetic uses integers. A printed
//! list of settings therefore restores the configuration exactly.

use crate::host;
use millpond_core::dirty::limits::DirtyLimit;
use millpond_core::units::{Bytes, Nanos, Ratio};
use std::fmt;

/// The bounds within which the host decides: `memory=auto:MIN..MAX`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct MemoryRange {
    /// The minimum of the budget.
    pub min: Bytes,
    /// The maximum of the budget.
    pub max: Bytes,
}

impl MemoryRange {
    /// Returns the nearest value in the range.
    pub(crate) fn clamp(self, budget: Bytes) -> Bytes {
        Bytes(budget.0.min(self.max.0).max(self.min.0))
    }
}

/// The type of a setting.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum Kind {
    /// `64M`.
    Size,
    /// `4ms`.
    Time,
    /// `4ms`, or `measure`: derived from a measurement.
    TimeOrMeasure,
    /// `20%`.
    Share,
    /// `64M`; `10%` of the memory that the process may use; or `auto:256M..4G`: follows the host between these bounds.
    Memory,
    /// `64M` or `20%`.
    SizeOrShare,
    /// `32`.
    Count,
    /// `on` or `off`.
    Switch,
    /// One of these words.
    Word(&'static [&'static str]),
}

impl Kind {
    /// Returns the accepted input, with an example.
    pub fn syntax(self) -> String {
        match self {
            Kind::Size => "a size such as 64M, 1.5G or 512KiB".into(),
            Kind::Memory => {
                "a size such as 64M, 1.5G or 512KiB, a share such as 10% of what the process may have, auto:256M..4G for what \
                 the host has between these, or auto for what it has between an eighth of the present (or default) budget and \
                 all of it"
                    .into()
            }
            Kind::Time => "a time with its unit, such as 500us, 4ms or 5s".into(),
            Kind::TimeOrMeasure => {
                "a time with its unit, such as 500us or 4ms, or measure, to take it from reads of the idle disk".into()
            }
            Kind::Share => "a share such as 20%, 0.8% or 1/256".into(),
            Kind::SizeOrShare => "a size with its unit such as 64M, or a share such as 20%".into(),
            Kind::Count => "a whole number such as 32".into(),
            Kind::Switch => "on or off".into(),
            Kind::Word(words) => words.join(", "),
        }
    }
}

/// The value of a setting.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum Value {
    /// Bytes.
    Size(Bytes),
    /// Follows the host, between bounds.
    Auto(MemoryRange),
    /// Nanoseconds.
    Time(Nanos),
    /// To be measured.
    Measure,
    /// A fraction.
    Share(Ratio),
    /// A number.
    Count(u64),
    /// On or off.
    Switch(bool),
    /// One of some words.
    Word(&'static str),
}

impl Value {
    /// Parses `text`; `None` if it does not have this type.
    pub(crate) fn parse(kind: Kind, text: &str) -> Option<Value> {
        let text = text.trim();
        match kind {
            Kind::Size => size(text).map(Value::Size),
            Kind::Memory => budget(text, || Bytes(host::memory_allowed())),
            Kind::TimeOrMeasure if text == "measure" => Some(Value::Measure),
            Kind::Time | Kind::TimeOrMeasure => time(text).map(Value::Time),
            Kind::Share => share(text).map(Value::Share),
            // `20` could be either, and each would be wrong for some.
            Kind::SizeOrShare if text.ends_with(|c: char| c.is_ascii_digit()) && !text.contains('/') => None,
            Kind::SizeOrShare => share(text)
                .map(Value::Share)
                .or_else(|| size(text).map(Value::Size)),
            Kind::Count => text.parse().ok().map(Value::Count),
            Kind::Switch => match text {
                "on" | "true" | "yes" => Some(Value::Switch(true)),
                "off" | "false" | "no" => Some(Value::Switch(false)),
                _ => None,
            },
            Kind::Word(words) => words.iter().find(|word| **word == text).map(|w| Value::Word(w)),
        }
    }
}

impl From<DirtyLimit> for Value {
    fn from(limit: DirtyLimit) -> Value {
        match limit {
            DirtyLimit::Share(share) => Value::Share(share),
            DirtyLimit::Size(bytes) => Value::Size(bytes),
        }
    }
}

/// Formats the value so that it can be typed again.
impl fmt::Display for Value {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Value::Size(bytes) => show_size(f, bytes.0),
            Value::Auto(MemoryRange { min, max }) => {
                f.write_str("auto:")?;
                show_size(f, min.0)?;
                f.write_str("..")?;
                show_size(f, max.0)
            }
            Value::Time(span) => show_time(f, span.0),
            Value::Measure => f.write_str("measure"),
            Value::Share(share) => show_share(f, share),
            Value::Count(count) => write!(f, "{count}"),
            Value::Switch(on) => f.write_str(if on { "on" } else { "off" }),
            Value::Word(word) => f.write_str(word),
        }
    }
}

/// A decimal number as `numerator / 10^decimals`, and the text after it.
fn decimal(text: &str) -> Option<(u128, u32, &str)> {
    let end = text
        .find(|c: char| !c.is_ascii_digit() && c != '.')
        .unwrap_or(text.len());
    let (number, unit) = text.split_at(end);
    let (whole, decimals) = number.split_once('.').unwrap_or((number, ""));
    if whole.is_empty() || number.ends_with('.') || whole.len() > 20 || decimals.len() > 9 {
        return None;
    }
    let digits: u128 = format!("{whole}{decimals}").parse().ok()?;
    Some((digits, decimals.len() as u32, unit.trim()))
}

/// `number` of these units, to the nearest whole; where it is more than 64 bits hold, more than that in any case.
fn scaled(number: u128, decimals: u32, unit: u64) -> u128 {
    let tens = 10_u128.pow(decimals);
    number.saturating_mul(u128::from(unit)).saturating_add(tens / 2) / tens
}

fn size(text: &str) -> Option<Bytes> {
    u64::try_from(bytes(text)?).ok().map(Bytes)
}

/// The bytes that a size names, whether or not 64 bits hold them.
pub(crate) fn bytes(text: &str) -> Option<u128> {
    let (number, decimals, unit) = decimal(text)?;
    let factor = match unit.to_ascii_lowercase().as_str() {
        "" | "b" => 1,
        "k" | "kib" => 1 << 10,
        "m" | "mib" => 1 << 20,
        "g" | "gib" => 1 << 30,
        "t" | "tib" => 1 << 40,
        "kb" => 1_000,
        "mb" => 1_000_000,
        "gb" => 1_000_000_000,
        "tb" => 1_000_000_000_000,
        _ => return None,
    };
    Some(scaled(number, decimals, factor))
}

/// A budget, or the bounds of one. Shares are of `allowed`, and are sizes from then on.
fn budget(text: &str, allowed: impl Fn() -> Bytes) -> Option<Value> {
    let bytes = |text: &str| {
        let whole_mib = |bytes: u64| Bytes(bytes - bytes % (1 << 20));
        size(text).or_else(|| Some(whole_mib(share(text)?.of(allowed().0))))
    };
    let Some(range) = text.strip_prefix("auto:") else {
        return bytes(text).map(Value::Size);
    };
    let (min, max) = range.split_once("..")?;
    let (min, max) = (bytes(min.trim())?, bytes(max.trim())?);
    (min <= max).then_some(Value::Auto(MemoryRange { min, max }))
}

/// Whether a text is `auto:MIN..MAX` with swapped bounds.
pub(super) fn is_reversed(text: &str) -> bool {
    let bounds = text
        .trim()
        .strip_prefix("auto:")
        .and_then(|range| range.split_once(".."));
    bounds.is_some_and(|(max, min)| {
        Value::parse(Kind::Memory, &format!("auto:{}..{}", min.trim(), max.trim())).is_some()
    })
}

const TIMES: [(&str, u64); 6] = [
    ("h", 3_600_000_000_000),
    ("min", 60_000_000_000),
    ("s", 1_000_000_000),
    ("ms", 1_000_000),
    ("us", 1_000),
    ("ns", 1),
];

fn time(text: &str) -> Option<Nanos> {
    u64::try_from(nanoseconds(text)?).ok().map(Nanos)
}

/// The nanoseconds that a time names, whether or not 64 bits hold them.
pub(crate) fn nanoseconds(text: &str) -> Option<u128> {
    let (number, decimals, unit) = decimal(text)?;
    let unit = if unit == "µs" { "us" } else { unit };
    let (_, factor) = TIMES.into_iter().find(|(name, _)| *name == unit)?;
    Some(scaled(number, decimals, factor))
}

fn share(text: &str) -> Option<Ratio> {
    let (num, den) = if let Some((num, den)) = text.split_once('/') {
        (num.trim().parse().ok()?, den.trim().parse().ok()?)
    } else {
        let (number, decimals, unit) = decimal(text)?;
        if unit != "%" {
            return None;
        }
        let den = u32::try_from(100 * 10_u128.pow(decimals)).ok()?;
        (u32::try_from(number).ok()?, den)
    };
    (den > 0).then_some(Ratio { num, den })
}

fn show_size(f: &mut fmt::Formatter<'_>, bytes: u64) -> fmt::Result {
    for (shift, unit) in [(40, "T"), (30, "G"), (20, "M"), (10, "K")] {
        if bytes > 0 && bytes.is_multiple_of(1 << shift) {
            return write!(f, "{}{unit}", bytes >> shift);
        }
    }
    write!(f, "{bytes}B")
}

fn show_time(f: &mut fmt::Formatter<'_>, ns: u64) -> fmt::Result {
    // Hours and minutes are not powers of ten.
    let (unit, factor) = TIMES[2..]
        .iter()
        .find(|(_, factor)| ns >= *factor)
        .unwrap_or(&("s", 1_000_000_000));
    let (whole, rest) = (ns / factor, ns % factor);
    if rest == 0 {
        return write!(f, "{whole}{unit}");
    }
    let digits = factor.ilog10() as usize;
    let decimals = format!("{rest:0digits$}");
    write!(f, "{whole}.{}{unit}", decimals.trim_end_matches('0'))
}

fn show_share(f: &mut fmt::Formatter<'_>, share: Ratio) -> fmt::Result {
    let decimals = match share.den {
        0 => 0,
        den => den.ilog10().saturating_sub(2),
    };
    if share.den != 100 * 10_u32.pow(decimals) {
        return write!(f, "{}/{}", share.num, share.den);
    }
    let tens = 10_u32.pow(decimals);
    let (whole, rest) = (share.num / tens, share.num % tens);
    match decimals {
        0 => write!(f, "{whole}%"),
        _ => write!(f, "{whole}.{rest:0width$}%", width = decimals as usize),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn each_kind_takes_what_its_syntax_says_and_nothing_else() {
        let good = [
            (Kind::Size, "1.5G", Value::Size(Bytes(3 << 29))),
            (Kind::Size, "100MB", Value::Size(Bytes(100_000_000))),
            (Kind::Size, "4096", Value::Size(Bytes(4096))),
            (Kind::Time, "1.5ms", Value::Time(Nanos::from_micros(1_500))),
            (Kind::Time, "2min", Value::Time(Nanos::from_secs(120))),
            (Kind::Share, "20 %", Value::Share(Ratio::percent(20))),
            (Kind::Share, "0.8%", Value::Share(Ratio::per_mille(8))),
            (Kind::Share, "1/256", Value::Share(Ratio { num: 1, den: 256 })),
            (Kind::Memory, "64M", Value::Size(Bytes(64 << 20))),
            (
                Kind::Memory,
                "auto:1M..1.5M",
                Value::Auto(MemoryRange {
                    min: Bytes(1 << 20),
                    max: Bytes(3 << 19),
                }),
            ),
            (Kind::SizeOrShare, "64M", Value::Size(Bytes(64 << 20))),
            (Kind::SizeOrShare, "1/3", Value::Share(Ratio { num: 1, den: 3 })),
            (Kind::Switch, "off", Value::Switch(false)),
            (Kind::Word(&["a", "b"]), "b", Value::Word("b")),
        ];
        for (kind, text, value) in good {
            assert_eq!(Value::parse(kind, text), Some(value), "{text}");
        }
        for (kind, text) in [
            (Kind::Size, ""),
            (Kind::Size, "M"),
            (Kind::Size, "-1M"),
            (Kind::Size, "1."),
            (Kind::Size, ".5M"),
            (Kind::Size, "1..5M"),
            (Kind::Size, "1e3"),
            (Kind::Size, "20%"),
            (Kind::Size, "99999999T"),
            (Kind::Time, "40"),
            (Kind::Time, "4 fortnights"),
            (Kind::Share, "20"),
            (Kind::Share, "1/0"),
            (Kind::Share, "-1/2"),
            (Kind::Memory, "auto:2M..1M"),
            (Kind::Memory, "auto:2M"),
            (Kind::Memory, "auto:..2M"),
            (Kind::Memory, "auto:1M..2M.."),
            (Kind::SizeOrShare, "20"),
            (Kind::Count, "1.5"),
            (Kind::Count, "-1"),
            (Kind::Switch, "maybe"),
            (Kind::Word(&["a", "b"]), "c"),
        ] {
            assert_eq!(Value::parse(kind, text), None, "{kind:?} {text}");
        }
    }

    #[test]
    fn a_share_as_a_budget_is_of_what_the_process_may_have() {
        let read = |text| budget(text, || Bytes::from_mib(1001));
        assert_eq!(read("10%"), Some(Value::Size(Bytes::from_mib(100))));
        assert_eq!(read("1/2"), Some(Value::Size(Bytes::from_mib(500))));
        assert_eq!(read("1.5G"), Some(Value::Size(Bytes(3 << 29))));
        let (min, max) = (Bytes::from_mib(64), Bytes::from_mib(250));
        assert_eq!(read("auto:64M..25%"), Some(Value::Auto(MemoryRange { min, max })));
        for wrong in ["%", "auto:50%..10%", "auto:10%", "ten%", "10 percent"] {
            assert_eq!(read(wrong), None, "{wrong}");
        }
        assert!(matches!(Value::parse(Kind::Memory, "10%"), Some(Value::Size(bytes)) if bytes.0 > 0));
    }

    #[test]
    fn values_are_shown_in_the_largest_unit_that_shows_all_of_them() {
        for (value, text) in [
            (Value::Size(Bytes(0)), "0B"),
            (Value::Size(Bytes(64 << 20)), "64M"),
            (Value::Size(Bytes((1 << 20) + 1)), "1048577B"),
            (Value::Time(Nanos::ZERO), "0s"),
            (Value::Time(Nanos::from_millis(4)), "4ms"),
            (Value::Time(Nanos(5_271_104)), "5.271104ms"),
            (Value::Time(Nanos::from_secs(90)), "90s"),
            (Value::Share(Ratio::percent(20)), "20%"),
            (Value::Share(Ratio { num: 10, den: 10_000 }), "0.10%"),
            (Value::Share(Ratio { num: 1, den: 10 }), "1/10"),
        ] {
            assert_eq!(value.to_string(), text);
        }
    }

    proptest! {
        #[test]
        fn shown_values_typed_again_are_the_same(n in any::<u64>(), num in any::<u32>(), den in 1_u32..) {
            for (kind, value) in [
                (Kind::Size, Value::Size(Bytes(n >> 1))),
                (Kind::Time, Value::Time(Nanos(n >> 1))),
                (Kind::Share, Value::Share(Ratio { num, den })),
                (Kind::Memory, Value::Auto(MemoryRange { min: Bytes(n >> 2), max: Bytes(n >> 1) })),
                (Kind::SizeOrShare, Value::Size(Bytes(n >> 1))),
                (Kind::SizeOrShare, Value::Share(Ratio { num: num % 1000, den: 1000 })),
                (Kind::Count, Value::Count(n)),
            ] {
                prop_assert_eq!(Value::parse(kind, &value.to_string()), Some(value));
            }
        }

        #[test]
        fn any_text_is_read_or_refused(text in ".{0,12}") {
            for kind in [Kind::Size, Kind::Time, Kind::Share, Kind::SizeOrShare, Kind::Count] {
                let _ = Value::parse(kind, &text);
            }
        }
    }
}
