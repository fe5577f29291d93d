//! The settings of a running cache by name: one table, which `set`, `inspect` and the documents use.
//!
//! For programs that pass settings through from a configuration file, a command line or an administrator. A program
//! with fixed settings should use [`options`](crate::options), which the compiler checks. [`PageCache::set`] takes
//! names and values, [`PageCache::settings`] lists the current values, and [`PageCache::inspect_limits`] lists every
//! derived limit and its origin.
//!
//! ```
//! # let cache = millpond::PageCache::builder().build()?;
//! cache.set(&[("memory", "256M"), ("dirty.background", "10%")])?; // both or neither
//! let wrong = cache.set(&[("dirty.backgroud", "10%")]).unwrap_err();
//! assert_eq!(wrong.to_string(), "there is no setting \"dirty.backgroud\": did you mean dirty.background?");
//! for setting in millpond::settings::SETTINGS {
//!     println!("{:32} {}", setting.name, setting.about);
//! }
//! # Ok::<(), millpond::Error>(())
//! ```
//!
//! [`PageCache::set`]: crate::PageCache::set
//! [`PageCache::settings`]: crate::PageCache::settings
//! [`PageCache::inspect_limits`]: crate::PageCache::inspect_limits
//!
//! # How a name becomes a value
//!
//! ```text
//!   "dirty.hard=64M" ──► table: name ──► its place in Options ──► Options::check ──► in force, or nothing is
//! ```
//!
//! A name is the path of a field in [`Options`]; `memory` is the budget. Not every option is a setting: those without a
//! use for an operator can be set only by the program, with [`Options`]. A setting of one form of a choice
//! (`admission.read_latency` of `admission=goal`) can be set only while that form is selected. Selecting another form
//! installs its defaults; selecting the same form changes nothing. Several settings apply from left to right, all or
//! none.

mod limit;
mod table;
pub(crate) mod value;

pub use limit::Limit;
pub use millpond_core::manager::{DerivedValue, GoalInForce};
pub use table::{SETTINGS, Setting};
pub(crate) use value::MemoryRange;
pub use value::{Kind, Value};

use millpond_core::options::Options;
use millpond_core::units::Bytes;
use std::fmt;

/// All settings that can be changed while a cache runs.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Settings {
    pub(crate) options: Options,
    pub(crate) memory: Memory,
}

/// The budget: a fixed value, or one that follows the host.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Memory {
    Fixed(Bytes),
    Auto(MemoryRange),
}

/// With `memory=auto` and no bounds, the budget can shrink to this fraction of its current value. Our choice; not
/// measured.
const AUTO_MIN: u64 = 8;

impl Memory {
    fn value(self) -> Value {
        match self {
            Memory::Fixed(bytes) => Value::Size(bytes),
            Memory::Auto(range) => Value::Auto(range),
        }
    }

    /// The host decides from now on, with the previous value as the maximum.
    fn auto(self) -> MemoryRange {
        match self {
            Memory::Auto(range) => range,
            Memory::Fixed(max) => MemoryRange {
                min: Bytes(max.0 / AUTO_MIN),
                max,
            },
        }
    }
}

/// An invalid change of a setting. Nothing is changed.
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum SettingError {
    /// No setting has this name.
    Unknown {
        /// The requested name.
        name: String,
        /// A setting with a similar name.
        nearest: Option<&'static str>,
    },
    /// The text is not `NAME=VALUE`.
    NotAPair {
        /// The input.
        text: String,
    },
    /// The value does not fit the setting's type.
    NotOfItsKind {
        /// The setting.
        setting: &'static str,
        /// The requested value.
        value: String,
        /// The accepted input and range.
        allowed: String,
    },
    /// The setting belongs to a form of a choice that is not selected.
    NotNow {
        /// The setting.
        setting: &'static str,
        /// The choice: `admission`.
        choice: &'static str,
        /// The forms that the setting belongs to.
        forms: &'static [&'static str],
        /// The selected form.
        present: String,
    },
    /// The rule that the program selected with its [`Options`] has no such number.
    NotThere {
        /// The setting.
        setting: &'static str,
    },
    /// The same setting is given twice.
    Twice {
        /// The setting.
        setting: &'static str,
    },
    /// No setting is given.
    Nothing,
}

impl fmt::Display for SettingError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            SettingError::Unknown { name, nearest } => {
                write!(f, "there is no setting {name:?}")?;
                match nearest {
                    Some(nearest) => write!(f, ": did you mean {nearest}?"),
                    None => write!(f, "; there are: {}", names().collect::<Vec<_>>().join(", ")),
                }
            }
            SettingError::NotAPair { text } => {
                write!(
                    f,
                    "{text:?} is not NAME=VALUE, such as dirty.background=64M, without blanks"
                )
            }
            SettingError::NotOfItsKind {
                setting,
                value,
                allowed,
            } => write!(f, "{setting} can't be {value:?}: it takes {allowed}"),
            SettingError::NotNow {
                setting,
                choice,
                forms,
                present,
            } => write!(
                f,
                "{setting} belongs to {choice}={}, and {choice} is {present} now: set {choice}={} before it in the \
                 same command",
                forms.join(" or "),
                forms[0]
            ),
            SettingError::NotThere { setting } => write!(
                f,
                "the rule that the program has chosen has no {setting}: only the program can choose another, with its Options"
            ),
            SettingError::Twice { setting } => write!(f, "{setting} is given twice"),
            SettingError::Nothing => write!(
                f,
                "nothing to set: give NAME=VALUE once or more, such as dirty.background=64M"
            ),
        }
    }
}

impl std::error::Error for SettingError {}

fn names() -> impl Iterator<Item = &'static str> {
    SETTINGS.iter().map(|setting| setting.name)
}

/// Returns the setting with this name.
///
/// # Errors
/// [`SettingError::Unknown`], with the closest name if there is a close one.
pub fn find(name: &str) -> Result<&'static Setting, SettingError> {
    let setting = SETTINGS.iter().find(|setting| setting.name == name);
    setting.ok_or_else(|| SettingError::Unknown {
        name: name.into(),
        nearest: nearest(name),
    })
}

/// Guesses the intended name: the same last word, or a typing error away.
fn nearest(name: &str) -> Option<&'static str> {
    let wanted = name.to_ascii_lowercase().replace(['-', '/', ':'], ".");
    let last = |name: &str| name.rsplit('.').next().unwrap_or_default().to_owned();
    let distance = |known: &str| strsim::damerau_levenshtein(&wanted, known);
    let slip = names()
        .map(|known| (distance(known), known))
        .min()
        .filter(|(distance, known)| *distance <= (known.len() / 4).max(1));
    let by_last_word = || names().find(|known| last(known) == last(&wanted));
    slip.map(|(_, known)| known).or_else(by_last_word)
}

impl Settings {
    /// Returns the value of `setting`; `None` if it belongs to a form that is not selected.
    pub(crate) fn value(&self, setting: &Setting) -> Option<Value> {
        match setting.slot {
            None => Some(self.memory.value()),
            Some(slot) => slot(&mut self.options.clone()).map(|slot| slot.value()),
        }
    }

    /// Sets the value given by `text`.
    fn set(&mut self, setting: &'static Setting, text: &str) -> Result<(), SettingError> {
        let allowed = || format!("{}: {}", setting.kind.syntax(), setting.allowed());
        let wrong = || SettingError::NotOfItsKind {
            setting: setting.name,
            value: text.into(),
            allowed: match setting.kind {
                Kind::Word(_) | Kind::Switch => setting.kind.syntax(),
                Kind::Memory if value::is_reversed(text) => {
                    format!(
                        "{}: the minimum of {text} is above its maximum",
                        setting.kind.syntax()
                    )
                }
                kind if setting.allowed() == "any" => kind.syntax(),
                _ => allowed(),
            },
        };
        let value = match text {
            "default" => Settings::default_of(setting),
            "auto" if setting.slot.is_none() => Some(Value::Auto(self.memory.auto())),
            text => Value::parse(setting.kind, text),
        };
        let value = value.ok_or_else(wrong)?;
        let Some(slot) = setting.slot else {
            match value {
                Value::Size(bytes) => self.memory = Memory::Fixed(bytes),
                Value::Auto(range) => self.memory = Memory::Auto(range),
                _ => {}
            }
            return Ok(());
        };
        let present = setting.of.and_then(|(choice, _)| {
            let choice = SETTINGS.iter().find(|s| s.name == choice)?;
            self.value(choice)
        });
        match (slot(&mut self.options), setting.of) {
            (Some(slot), _) => slot.put(value).ok_or_else(wrong),
            (None, Some((choice, forms))) => Err(SettingError::NotNow {
                setting: setting.name,
                choice,
                forms,
                present: present.map_or(String::new(), |form| form.to_string()),
            }),
            (None, None) => Err(SettingError::NotThere {
                setting: setting.name,
            }),
        }
    }

    /// Sets all of them from left to right. Returns which they were.
    ///
    /// # Errors
    /// The first invalid one; earlier ones may have been applied.
    pub(crate) fn set_all(&mut self, pairs: &[(&str, &str)]) -> Result<Vec<&'static Setting>, SettingError> {
        if pairs.is_empty() {
            return Err(SettingError::Nothing);
        }
        let mut taken: Vec<&'static Setting> = Vec::new();
        for (name, text) in pairs {
            let setting = find(name)?;
            if taken.iter().any(|before| before.name == setting.name) {
                return Err(SettingError::Twice {
                    setting: setting.name,
                });
            }
            self.set(setting, text)?;
            taken.push(setting);
        }
        Ok(taken)
    }

    fn default_of(setting: &Setting) -> Option<Value> {
        let slot = setting.slot?;
        let mut options = Options::default();
        if let Some((choice, forms)) = setting.of {
            let choice = find(choice).ok()?;
            let form = Value::parse(choice.kind, forms[0])?;
            choice.slot?(&mut options)?.put(form)?;
        }
        slot(&mut options).map(|slot| slot.value())
    }
}

/// Parses a budget as `memory` accepts it: `64M`, `auto:256M..4G`, or `auto`, which ranges from an eighth of `present`
/// to all of it.
///
/// # Errors
/// [`SettingError::NotOfItsKind`].
pub fn memory(text: &str, present: Bytes) -> Result<Value, SettingError> {
    let mut settings = Settings {
        options: Options::default(),
        memory: Memory::Fixed(present),
    };
    settings.set_all(&[("memory", text)])?;
    Ok(settings.memory.value())
}

/// Parses a value as the setting `name` accepts it.
///
/// # Errors
/// Those of [`PageCache::set`](crate::PageCache::set).
pub fn value(name: &str, text: &str) -> Result<Value, SettingError> {
    let mut settings = Settings {
        options: Options::default(),
        memory: Memory::Fixed(Bytes(0)),
    };
    settings.set_all(&[(name, text)])?;
    let value = find(name).map(|setting| settings.value(setting))?;
    value.ok_or_else(|| SettingError::NotAPair { text: text.into() })
}

/// Splits `NAME=VALUE`.
///
/// # Errors
/// [`SettingError::NotAPair`].
pub fn pair(text: &str) -> Result<(&str, &str), SettingError> {
    let pair = text.split_once('=');
    pair.filter(|(name, value)| !name.is_empty() && !value.is_empty())
        .ok_or_else(|| SettingError::NotAPair { text: text.into() })
}

impl Setting {
    /// Returns the value in a new cache with Millpond's own options, in the first form that has the setting; `None` for
    /// the budget.
    pub fn default_value(&self) -> Option<Value> {
        Settings::default_of(self)
    }
}

#[cfg(test)]
mod tests;
