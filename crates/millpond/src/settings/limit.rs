//! Limits derived from settings: value, formula, and the setting responsible.

use millpond_core::manager::DerivedValue;
use millpond_core::units::Bytes;
use std::fmt;
use std::time::Duration;

/// A limit. As text:
/// `dirty.hard 256 pages (1 MiB) = 1 B / 4096 B, rounded up, 256 (1 MiB) to 15145 (dirty.ceiling); 1 B set 2.0 s ago`.
/// If another setting changed last, it names that one instead, as in `by memory 2.0 s ago`.
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub struct Limit {
    /// Its name, value, formula and setting.
    pub derived: DerivedValue,
    /// The value in bytes.
    pub bytes: Bytes,
    /// The time since one of its settings last changed, or the age of the cache if none has.
    pub set_ago: Duration,
}

impl fmt::Display for Limit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let d = &self.derived;
        let (name, pages, formula, setting) = (d.name, d.pages.0, &d.formula, &d.setting);
        let (bytes, ago) = (self.bytes, self.set_ago.as_secs_f64());
        write!(f, "{name} {pages} pages ({bytes}) = {formula}; {setting} ")?;
        match d.set_last {
            Some(last) if d.settings.first() != Some(&last) => write!(f, "by {last} {ago:.1} s ago"),
            _ => write!(f, "set {ago:.1} s ago"),
        }
    }
}
