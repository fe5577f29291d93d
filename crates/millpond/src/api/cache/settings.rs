//! Settings by name.

use super::PageCache;
use crate::error::Result;
use crate::observe::history::{By, Change, History};
use crate::settings::{self, Setting};

impl PageCache {
    /// Sets some settings by name, as `millpond set` does: `[("dirty.background", "64M"), ("memory", "1G")]`. They are taken
    /// from left to right, all at once or none. Says what has changed, and what the limits became.
    ///
    /// # Errors
    /// [`Error::Setting`](crate::Error::Setting) for a name or value that can't be, with what can; and as of [`PageCache::set_options`] and
    /// [`PageCache::set_memory`]. Then nothing changes.
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

    /// Every [`Setting`] with what it is, as it can be typed; `None` for those of forms that are not chosen. What is listed,
    /// set again in this order, brings back exactly what is there.
    pub fn settings(&self) -> Vec<(&'static Setting, Option<String>)> {
        self.handle.settings_now()
    }

    /// What the setting of this name is, as it can be typed; `None` for one of a form that is not chosen.
    ///
    /// # Errors
    ///
    /// [`SettingError::Unknown`](settings::SettingError::Unknown), with the nearest name if one is near.
    pub fn setting(&self, name: &str) -> Result<Option<String>> {
        let sought = settings::find(name)?;
        let mut all = self.settings().into_iter();
        Ok(all
            .find(|(setting, _)| setting.name == sought.name)
            .and_then(|(_, value)| value))
    }

    /// The last changes of settings, whatever made them: [`CHANGES_MAX`](crate::history::CHANGES_MAX)
    /// are kept.
    pub fn history(&self) -> History {
        self.handle.history()
    }
}
