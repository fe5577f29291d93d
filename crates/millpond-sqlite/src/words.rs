//! What is on or off in parameters and settings of this crate's own. SQLite's own are read by SQLite.

/// Reads it in any case and as a number, as SQLite reads its own. `None`: it is neither.
pub(crate) fn is_on(text: &str) -> Option<bool> {
    match text.to_ascii_lowercase().as_str() {
        "on" | "yes" | "true" => Some(true),
        "off" | "no" | "false" => Some(false),
        number => number.parse::<u64>().ok().map(|number| number != 0),
    }
}

/// The same of `name`.
///
/// # Errors
/// What is allowed.
pub(crate) fn named(name: &str, text: &str) -> Result<bool, String> {
    is_on(text)
        .ok_or_else(|| format!("{name}={text} is neither on nor off: give 1 or 0, yes or no, true or false"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn off_is_off_in_each_of_its_forms_and_what_is_neither_is_told() {
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
                .starts_with("take_over=maybe is neither")
        );
    }
}
