//! Settings by name.

use super::PageCache;
use crate::error::Result;
use crate::observe::history::{By, Change, History};
use crate::settings::{self, Setting};

impl PageCache {
    /// Changes settings by name, as `millpond set` does: `[("dirty.background", "64M"), ("memory", "1G")]`. They apply
    /// from left to right, all at once or none. Returns what has changed, and the resulting limits.
    ///
    /// # Errors
    /// [`Error::Setting`](crate::Error::Setting) for an invalid name or value, with what is allowed; and those of
    /// [`PageCache::set_options`] and [`PageCache::set_memory`]. Nothing changes then.
    ///
    /// ```
    /// # fn main() -> millpond::Result<()> {
    /// let cache = millpond::PageCache::builder().memory(64 << 20).build()?;
    /// let change = cache.set(&[("dirty.hard", "8M"), ("dirty.background", "2M")])?;
    /// assert_eq!(change.settings[0].old.as_deref(), Some("10%"));
    /// assert!(cache.set(&[("dirty.hard", "1M"), ("watermarks.scale", "31%")]).is_err()); // and neither is set
    /// # Ok(())
    /// # }
    /// ```
    pub fn set(&self, settings: &[(&str, &str)]) -> Result<Change> {
        self.handle.set(By::Program, settings)
    }

    /// Returns every [`Setting`] with its value as it can be typed, or `None` for settings of a form that is not
    /// selected. Setting all listed values again in this order restores exactly this configuration.
    pub fn settings(&self) -> Vec<(&'static Setting, Option<String>)> {
        self.handle.settings_now()
    }

    /// Returns the value of the named setting as it can be typed, or `None` for a setting of a form that is not
    /// selected.
    ///
    /// # Errors
    ///
    /// [`SettingError::Unknown`](settings::SettingError::Unknown), with the closest name if there is a close one.
    pub fn setting(&self, name: &str) -> Result<Option<String>> {
        let sought = settings::find(name)?;
        let mut all = self.settings().into_iter();
        Ok(all
            .find(|(setting, _)| setting.name == sought.name)
            .and_then(|(_, value)| value))
    }

    /// Returns the most recent changes of settings, from any source, up to
    /// [`CHANGES_MAX`](crate::history::CHANGES_MAX).
    pub fn history(&self) -> History {
        self.handle.history()
    }
}
