//! The rules, one row each, and the one chosen by the options.

use super::linux::{Linux, LinuxOptions};
use super::lists::List;
use super::millpond::{Millpond, MillpondOptions};
use super::rule::Rule;
use crate::range::OutOfRange;
use crate::units::PageCount;

/// From one row for each rule: its parameters in [`Replacement`], its state in [`Configured`], and `with_rule!`, which
/// calls the rule that is chosen. The row's first token is `$`, which a macro can't write in the macro that it makes.
macro_rules! rules {
    ($d:tt $($(#[$doc:meta])* $name:ident: $rule:ty, $options:ty;)*) => {
        /// How pages are chosen for eviction.
        #[derive(Clone, Copy, PartialEq, Eq, Debug)]
        pub enum Replacement {
            $($(#[$doc])* $name($options),)*
        }

        impl Replacement {
            /// Checks that every number is in range.
            ///
            /// # Errors
            /// [`OutOfRange`] for the first option out of range.
            pub fn check(&self) -> Result<(), OutOfRange> {
                match self {
                    $(Replacement::$name(options) => <$rule>::check(options),)*
                }
            }
        }

        /// The rule chosen by the options.
        #[derive(Clone, Debug)]
        pub(super) enum Configured {
            $($name($rule),)*
        }

        impl Configured {
            pub(super) fn new(replacement: Replacement, memory: PageCount) -> Configured {
                match replacement {
                    $(Replacement::$name(options) => Configured::$name(<$rule>::new(options, memory)),)*
                }
            }

            /// The lists that the rule has no pages on.
            pub(super) fn unused_lists(&self) -> &'static [List] {
                match self {
                    $(Configured::$name(_) => <$rule>::UNUSED_LISTS,)*
                }
            }
        }

        macro_rules! with_rule {
            ($d configured:expr, $d rule:ident => $d call:expr) => {
                match $d configured {
                    $(Configured::$name($d rule) => $d call,)*
                }
            };
        }
    };
}

rules! { $
    /// Two lists, as in Linux.
    Linux: Linux, LinuxOptions;
    /// Two lists with a correlated-reference window, an inactive list of adaptive length, and admission to the active
    /// list by a probe of its cold end. The default.
    Millpond: Millpond, MillpondOptions;
}

pub(super) use with_rule;

impl Default for Replacement {
    fn default() -> Self {
        Replacement::Millpond(MillpondOptions::default())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn defaults_are_in_range() {
        assert_eq!(Replacement::default().check(), Ok(()));
        assert_eq!(Replacement::Linux(LinuxOptions::default()).check(), Ok(()));
    }
}
