//! Switches in this crate's own parameters and settings, and budgets. SQLite reads its own.

use millpond::Builder;
use millpond::settings::{self, Value};
use millpond::units::Bytes;

/// The default budget of a cache and of a store: the library's own.
const MEMORY_BYTES: u64 = 64 << 20;

/// Reads it in any case and as a number, as SQLite reads its own. `None`: it is neither.
pub(crate) fn is_on(text: &str) -> Option<bool> {
    match text.to_ascii_lowercase().as_str() {
        "on" | "yes" | "true" => Some(true),
        "off" | "no" | "false" => Some(false),
        number => number.parse::<u64>().ok().map(|number| number != 0),
    }
}

/// Whether SQLite takes this as `PRAGMA synchronous=off` (`getSafetyLevel` of 3.50: of a number the low three bits count, and
/// 7 is off, too).
pub(crate) fn is_synchronous_off(text: &str) -> bool {
    match text.parse::<u64>() {
        Ok(number) => matches!(number & 7, 0 | 7),
        Err(_) => is_on(text) == Some(false),
    }
}

/// What [`is_on`] says, for `name`.
///
/// # Errors
/// The allowed values.
pub(crate) fn named(name: &str, text: &str) -> Result<bool, String> {
    is_on(text).ok_or_else(|| {
        format!("{name}={text} is neither on nor off: give 1 or 0, on or off, yes or no, true or false")
    })
}

/// A cache, with the budget that is asked for where it is made: there may be no room for more.
///
/// # Errors
/// The allowed values.
pub(crate) fn with_memory(builder: Builder, memory: &str) -> Result<Builder, String> {
    match settings::memory(memory, Bytes(MEMORY_BYTES)).map_err(|why| why.to_string())? {
        Value::Auto(range) => Ok(builder.memory_auto(range.min.0, range.max.0)),
        Value::Size(bytes) => Ok(builder.memory(bytes.0)),
        _ => Ok(builder),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn synchronous_is_off_as_sqlite_reads_it() {
        for text in ["off", "No", "false", "0", "8", "7"] {
            assert!(is_synchronous_off(text), "{text}");
        }
        for text in ["1", "2", "3", "normal", "FULL", "extra", "on", ""] {
            assert!(!is_synchronous_off(text), "{text}");
        }
    }

    #[test]
    fn off_is_off_in_each_of_its_forms_and_other_words_are_errors() {
        for text in ["1", "01", "7", "on", "On", "YES", "true"] {
            assert_eq!(is_on(text), Some(true), "{text}");
        }
        for text in ["0", "00", "off", "OFF", "No", "FALSE"] {
            assert_eq!(is_on(text), Some(false), "{text}");
        }
        for text in ["", "maybe", "-1", "1.5", "truely", "99999999999999999999"] {
            assert_eq!(is_on(text), None, "{text}");
        }
        assert!(
            named("take_over", "maybe")
                .unwrap_err()
                .ends_with("is neither on nor off: give 1 or 0, on or off, yes or no, true or false")
        );
    }
}
