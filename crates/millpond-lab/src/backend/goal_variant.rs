//! Millpond's own admission with its settings, as `--variant` takes it: `goal`, `goal/60ms`, `goal/60ms/55%`.

use crate::error::{LabError, Result};
use millpond::internal::quantity::parse_time;
use millpond_core::units::Nanos;
use std::str::FromStr;

/// Its name without settings.
pub(super) const NAME: &str = "goal";

/// The range.
const FORMS: &str = "give goal, goal/TIME or goal/TIME/PERCENT%, such as goal/60ms/55%";

/// The settings that a variant names; `None` is Millpond's own.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct GoalVariant {
    /// The latency that 99 of 100 reads should not exceed.
    pub read_latency: Option<Nanos>,
    /// The writers' part of the time in percent, while a thread waits for them.
    pub share: Option<u32>,
}

impl FromStr for GoalVariant {
    type Err = LabError;

    fn from_str(text: &str) -> Result<GoalVariant> {
        let bad = |why: String| LabError::BadValue {
            option: "--variant",
            value: text.into(),
            allowed: why,
            instead: FORMS.into(),
        };
        let mut parts = text.split('/');
        if parts.next() != Some(NAME) {
            return Err(bad(format!("it does not begin with {NAME}")));
        }
        let mut variant = GoalVariant::default();
        for part in parts {
            match part.strip_suffix('%') {
                Some(number) if variant.share.is_none() => {
                    let share = number.parse().ok().filter(|share| (1..=99).contains(share));
                    variant.share = Some(share.ok_or_else(|| bad("a share is 1% to 99%".into()))?);
                }
                None if variant.read_latency.is_none() && variant.share.is_none() => {
                    variant.read_latency = Some(parse_time(part).map_err(bad)?);
                }
                _ => return Err(bad(format!("`{part}` is one too many"))),
            }
        }
        Ok(variant)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn settings_that_are_not_named_are_millponds_own() {
        let read = |text: &str| text.parse::<GoalVariant>().unwrap();
        assert_eq!(read("goal"), GoalVariant::default());
        let (ms60, share) = (Some(Nanos::from_millis(60)), Some(55));
        let both = GoalVariant {
            read_latency: ms60,
            share,
        };
        assert_eq!(read("goal/60ms/55%"), both);
        assert_eq!(read("goal/60ms"), GoalVariant { share: None, ..both });
        let alone = GoalVariant {
            read_latency: None,
            ..both
        };
        assert_eq!(read("goal/55%"), alone);
    }

    #[test]
    fn mistake_is_answered_with_what_is_allowed() {
        for (text, part) in [
            ("goal/60", "`60` is not a time"),
            ("goal/60ms/100%", "1% to 99%"),
            ("goal/60ms/x%", "1% to 99%"),
            ("goal/55%/60ms", "`60ms` is one too many"),
            ("goal/1ms/2ms", "`2ms` is one too many"),
            ("goalpost", "does not begin with goal"),
        ] {
            let error = text.parse::<GoalVariant>().unwrap_err();
            assert_eq!(error.exit_code(), 2);
            let error = error.to_string();
            assert!(error.contains(part) && error.contains("goal/60ms/55%"), "{error}");
        }
    }
}
