//! What has not reached the device yet: written out without a flush of the device, and asked for.

use super::File;
use crate::error::{Error, Result};
use crate::observe::explain::{self, Call};
use std::ops::Range;
use std::sync::atomic::Ordering;

impl File {
    /// Writes everything to the device that was written to the file before, by any handle, and waits until it has taken
    /// it. Other programs then see it there; it would survive the end of this process, but not a loss of power, for
    /// which there is [`File::sync_data`].
    ///
    /// # Errors
    /// [`Error::Write`] and [`Error::Log`] as of [`File::sync_data`]; [`Error::Poisoned`].
    pub fn write_out(&self) -> Result<()> {
        self.engine().call_flags.check()?;
        explain::waits_in(Call::Sync);
        self.check_own_changes()?;
        let log = self.engine().log_first(&self.inner);
        let syncing = self.engine().sync_begin(self.inner.id, log)?;
        let written = self.engine().sync_end(&self.inner, syncing)?;
        written.map(|_| ()).map_err(|e| self.inner.write_refused(e))
    }

    /// Why some of the file's pages can't be written, if the device has refused any and not taken them since: what the
    /// next sync would say. `None` says that no write has failed yet, not that all is on the device. Takes the core's lock
    /// only while there is such a page.
    pub fn failure(&self) -> Option<Error> {
        if !self.inner.failing.load(Ordering::Relaxed) {
            return None;
        }
        let core = self.engine().core();
        let failing = core.manager.failing(self.inner.id);
        failing.map(|(_, error)| self.inner.write_refused(error))
    }

    /// Whether some of its pages are changed and not on the device. Looks at each of its pages or at each frame,
    /// whichever are fewer, and takes the core's lock for some of them at a time: some milliseconds for a gigabyte. The
    /// answer may be out of date by the time it returns, unless no thread writes to the file.
    ///
    /// # Errors
    /// [`Error::Poisoned`].
    pub fn is_unwritten(&self) -> Result<bool> {
        Ok(!self.unwritten()?.is_empty())
    }

    /// Which of its bytes are on pages that are changed and not on the device: ranges of whole pages in their order, no two of
    /// which touch. Costs as much and is as exact as [`File::is_unwritten`].
    ///
    /// # Errors
    /// [`Error::Poisoned`].
    pub fn unwritten(&self) -> Result<Vec<Range<u64>>> {
        let (len, size) = (self.len(), self.engine().page_size.bytes());
        let mut ranges: Vec<Range<u64>> = Vec::new();
        for page in self.engine().changed(&self.inner, 0..len.div_ceil(size))? {
            let (start, end) = (page * size, (page * size + size).min(len));
            match ranges.last_mut() {
                Some(last) if last.end == start => last.end = end,
                _ => ranges.push(start..end),
            }
        }
        Ok(ranges)
    }

    /// At most so many bytes of its pages are not on the device: a page that has changed while it is written counts twice.
    /// Takes the core's lock once.
    pub(crate) fn unwritten_bytes(&self) -> u64 {
        let pages = self.engine().core().manager.unwritten(self.inner.id);
        pages.to_bytes(self.engine().page_size).0
    }
}
