//! The range of each option: rows of a table used by checks, messages and the settings of a running cache.
//!
//! ```text
//!   Row { "admission.low", 0 to what admission.high is }  ──► check: is the value in range?
//!                                                         ──► allowed: the range, without a value
//! ```

use crate::units::{Bytes, Nanos, Ratio};
use core::cmp::Ordering;
use core::fmt;

/// The value of an option.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Number {
    /// A number.
    Count(u64),
    /// A size.
    Size(Bytes),
    /// A time.
    Time(Nanos),
    /// A share.
    Share(Ratio),
}

impl Number {
    fn is_zero(self) -> bool {
        match self {
            Number::Count(n) | Number::Size(Bytes(n)) | Number::Time(Nanos(n)) => n == 0,
            Number::Share(share) => share.num == 0,
        }
    }

    /// `None` for numbers of different kinds, and for a share of nothing.
    fn compare(self, other: Number) -> Option<Ordering> {
        Some(match (self, other) {
            (Number::Count(a), Number::Count(b)) => a.cmp(&b),
            (Number::Size(a), Number::Size(b)) => a.cmp(&b),
            (Number::Time(a), Number::Time(b)) => a.cmp(&b),
            (Number::Share(a), Number::Share(b)) if a.den > 0 && b.den > 0 => {
                let scaled = |a: Ratio, b: Ratio| u64::from(a.num) * u64::from(b.den);
                scaled(a, b).cmp(&scaled(b, a))
            }
            _ => return None,
        })
    }
}

/// For messages.
impl fmt::Display for Number {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Number::Count(n) => write!(f, "{n}"),
            Number::Size(bytes) => write!(f, "{bytes}"),
            Number::Time(Nanos(ns)) => write!(f, "{}.{:03} ms", ns / 1_000_000, ns / 1_000 % 1_000),
            Number::Share(Ratio { num: 0, den: 1.. }) => write!(f, "0"),
            Number::Share(Ratio { num, den: 100 }) => write!(f, "{num} %"),
            Number::Share(Ratio { num, den }) => write!(f, "{num}/{den}"),
        }
    }
}

/// An end of a range.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Limit {
    /// A constant.
    Is(Number),
    /// The page size.
    Page,
    /// The value of another option in the table.
    Option(&'static str),
}

/// The range of an option.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Allowed {
    /// The minimum.
    pub min: Limit,
    /// The maximum.
    pub max: Limit,
    /// What zero means, if it has a meaning of its own. Zero is then allowed whatever the minimum.
    pub zero: Option<&'static str>,
    /// The whole that a share refers to, where that is not obvious.
    pub share_of: Option<&'static str>,
}

/// The range of one option, or of one kind of value of that option.
pub struct Row<T> {
    /// The option's name, such as `dirty.hard`.
    pub name: &'static str,
    /// Reads its value, if the chosen form has the option and the value is of this kind.
    get: fn(&T) -> Option<Number>,
    /// The range.
    pub allowed: Allowed,
}

impl<T> Row<T> {
    /// Creates a row with the range `min` to `max`.
    pub(crate) const fn new(
        name: &'static str,
        min: Limit,
        max: Limit,
        get: fn(&T) -> Option<Number>,
    ) -> Row<T> {
        let allowed = Allowed {
            min,
            max,
            zero: None,
            share_of: None,
        };
        Row { name, get, allowed }
    }

    /// Gives zero a meaning.
    pub(crate) const fn zero(mut self, means: &'static str) -> Row<T> {
        self.allowed.zero = Some(means);
        self
    }

    /// Makes it a share of `whole`.
    pub(crate) const fn share_of(mut self, whole: &'static str) -> Row<T> {
        self.allowed.share_of = Some(whole);
        self
    }
}

/// A limit that is a number.
pub(crate) const fn count(n: u64) -> Limit {
    Limit::Is(Number::Count(n))
}

/// A limit that is a size.
pub(crate) const fn size(bytes: Bytes) -> Limit {
    Limit::Is(Number::Size(bytes))
}

/// A limit that is a time.
pub(crate) const fn time(span: Nanos) -> Limit {
    Limit::Is(Number::Time(span))
}

/// A limit that is a share in percent.
pub(crate) const fn percent(n: u32) -> Limit {
    Limit::Is(Number::Share(Ratio::percent(n)))
}

/// A value out of its range.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct OutOfRange {
    /// The option.
    pub option: &'static str,
    /// Its value.
    pub value: Number,
    /// The minimum allowed.
    pub min: Number,
    /// The maximum allowed.
    pub max: Number,
}

impl fmt::Display for OutOfRange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let OutOfRange {
            option,
            value,
            min,
            max,
        } = self;
        write!(f, "option {option} can't be {value}: must be {min} to {max}")
    }
}

impl core::error::Error for OutOfRange {}

/// Checks that every value is in range, for options with pages of size `page`.
///
/// # Errors
/// [`OutOfRange`] for the first row of the table that fails.
pub fn check<T>(table: &[Row<T>], options: &T, page: Bytes) -> Result<(), OutOfRange> {
    for row in table {
        let Some(value) = (row.get)(options) else { continue };
        let end = |limit: Limit| match limit {
            Limit::Is(number) => number,
            Limit::Page => Number::Size(page),
            Limit::Option(name) => {
                let other = table.iter().find(|row| row.name == name);
                other.and_then(|row| (row.get)(options)).unwrap_or(value)
            }
        };
        let (min, max) = (end(row.allowed.min), end(row.allowed.max));
        let is_zero = row.allowed.zero.is_some() && value.is_zero();
        let is_in = value.compare(min).is_some_and(Ordering::is_ge)
            && value.compare(max).is_some_and(Ordering::is_le);
        if !is_zero && !is_in {
            return Err(OutOfRange {
                option: row.name,
                value,
                min,
                max,
            });
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::string::ToString;

    /// `low` up to `high`, which is 1 to 9, or 0 for none; and a share of up to a half.
    type Three = (u64, u64, Ratio);
    const TABLE: &[Row<Three>] = &[
        Row::<Three>::new("high", count(1), count(9), |o| Some(Number::Count(o.1))).zero("none"),
        Row::new("low", count(0), Limit::Option("high"), |o| {
            Some(Number::Count(o.0))
        }),
        Row::new("share", percent(0), percent(50), |o| Some(Number::Share(o.2))),
    ];

    fn says(low: u64, high: u64, share: Ratio) -> Option<alloc::string::String> {
        let checked = check(TABLE, &(low, high, share), Bytes::from_kib(4));
        checked.err().map(|error| error.to_string())
    }

    #[test]
    fn a_value_is_held_against_numbers_and_against_other_options() {
        let half = Ratio { num: 1, den: 2 };
        assert_eq!(says(3, 3, half), None);
        assert_eq!(says(0, 0, half), None, "zero means none");
        let said = says(4, 3, half);
        assert_eq!(said.as_deref(), Some("option low can't be 4: must be 0 to 3"));
        let said = says(4, 10, half);
        assert_eq!(said.as_deref(), Some("option high can't be 10: must be 1 to 9"));
    }

    #[test]
    fn a_share_of_nothing_is_in_no_range() {
        let said = says(0, 1, Ratio { num: 0, den: 0 });
        assert_eq!(
            said.as_deref(),
            Some("option share can't be 0/0: must be 0 to 50 %")
        );
        let said = says(0, 1, Ratio { num: 2, den: 3 });
        assert_eq!(
            said.as_deref(),
            Some("option share can't be 2/3: must be 0 to 50 %")
        );
    }
}
