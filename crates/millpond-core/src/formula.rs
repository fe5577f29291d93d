//! A limit's value and what it was reckoned from, in one: whoever shows a limit shows the formula that gave it.

use crate::units::{PageCount, Ratio};
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;
use core::fmt::Display;

/// A derived number of pages.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Formula {
    value: u64,
    text: String,
    inputs: Vec<(&'static str, u64)>,
}

impl Formula {
    pub(crate) fn new(value: u64, text: String) -> Formula {
        Formula {
            value,
            text,
            inputs: Vec::new(),
        }
    }

    /// A share of a number of things.
    pub(crate) fn share(share: Ratio, of: u64, things: &str) -> Formula {
        Formula::new(share.of(of), format!("{} of {of} {things}", ratio(share)))
    }

    /// So much more than another limit: what is kept within bounds is the gap.
    pub(crate) fn above(
        self,
        name: &'static str,
        least: (u64, &str),
        most: (u64, impl Display),
        other: &Formula,
    ) -> Formula {
        let Formula {
            value,
            text,
            mut inputs,
        } = self.within(least, most);
        inputs.push((name, other.value));
        Formula {
            value: other.value + value,
            text: format!("{} ({name}) + {text}", other.value),
            inputs,
        }
    }

    pub(crate) fn at_least(self, least: u64) -> Formula {
        let text = format!("{}, {least} at least", self.text);
        Formula {
            value: self.value.max(least),
            text,
            ..self
        }
    }

    /// Not below `least`, and else not above `most`. `why` is what each of them is.
    pub(crate) fn within(self, least: (u64, &str), most: (u64, impl Display)) -> Formula {
        let because = match least.1 {
            "" => String::new(),
            why => format!(" ({why})"),
        };
        let text = format!("{}, {}{because} to {} ({})", self.text, least.0, most.0, most.1);
        Formula {
            value: self.value.min(most.0).max(least.0),
            text,
            ..self
        }
    }

    /// What it was reckoned from, by name.
    pub(crate) fn from(self, inputs: &[(&'static str, u64)]) -> Formula {
        let inputs = self.inputs.iter().chain(inputs).copied().collect();
        Formula { inputs, ..self }
    }

    pub(crate) fn value(&self) -> u64 {
        self.value
    }

    pub(crate) fn pages(&self) -> PageCount {
        PageCount(self.value)
    }

    /// With its numbers.
    pub(crate) fn text(&self) -> &str {
        &self.text
    }

    pub(crate) fn inputs(&self) -> &[(&'static str, u64)] {
        &self.inputs
    }
}

/// As people write it.
pub(crate) fn ratio(share: Ratio) -> String {
    match share.den {
        100 => format!("{} %", share.num),
        _ => format!("{}/{}", share.num, share.den),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_text_says_what_the_value_is_kept_within() {
        let of = |percent| Formula::share(Ratio::percent(percent), 1000, "frames");
        let all: Vec<_> = [1, 20, 90]
            .map(|percent| of(percent).within((32, "a batch"), (500, "half of them")))
            .map(|formula| (formula.value(), formula.text))
            .into();
        assert_eq!(
            all,
            [
                (
                    32,
                    "1 % of 1000 frames, 32 (a batch) to 500 (half of them)".into()
                ),
                (
                    200,
                    "20 % of 1000 frames, 32 (a batch) to 500 (half of them)".into()
                ),
                (
                    500,
                    "90 % of 1000 frames, 32 (a batch) to 500 (half of them)".into()
                )
            ]
        );
        let low = of(1).above("min", (20, ""), (100, "a tenth"), &of(20));
        let low = low.from(&[("frames", 1000)]);
        let text = "200 (min) + 1 % of 1000 frames, 20 to 100 (a tenth)";
        assert_eq!((low.value(), low.text()), (220, text));
        assert_eq!(low.inputs(), [("min", 200), ("frames", 1000)]);
    }
}
