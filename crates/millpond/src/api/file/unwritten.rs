//! Dirty data: writes it out without a device flush, and reports it.

use super::File;
use crate::error::{Error, Result};
use crate::observe::explain::{self, Call};
use std::ops::Range;
use std::sync::atomic::Ordering;

impl File {
    /// Writes all earlier changes of the file to the device, by whichever handle they were made, and waits until the
    /// device has accepted them. Other programs then see them in the file. They survive the end of this process, but
    /// not a power loss; for that use [`File::sync_data`].
    ///
    /// # Errors
    /// [`Error::Write`], [`Error::Log`] and [`Error::OwnGuard`] as for [`File::sync_data`]; [`Error::Poisoned`].
    pub fn write_out(&self) -> Result<()> {
        self.engine().call_flags.check()?;
        explain::waits_in(Call::Sync);
        self.check_own_changes()?;
        let log = self.syncs().log_first();
        let syncing = self.syncs().sync_begin(log)?;
        let written = self.syncs().sync_end(syncing)?;
        written.map(|_| ()).map_err(|e| self.inner.write_refused(e))
    }

    /// Returns the error that the next sync would report, if the device has refused some of the file's pages and not
    /// accepted them since, or if the latch of [`Error::Sync`] is set. `None` means that no write and no sync has
    /// failed so far, not that everything is on the device. Takes the core's lock only while there is such a page.
    pub fn failure(&self) -> Option<Error> {
        if self.inner.failing.load(Ordering::Relaxed) {
            let failing = self.engine().core().manager.failing(self.inner.id);
            if let Some((_, error)) = failing {
                return Some(self.inner.write_refused(error));
            }
        }
        self.inner.sync_latched()
    }

    /// Returns whether any page of the file is dirty or being written. Scans the file's pages or all frames, whichever
    /// are fewer, in batches under the core's lock: a few milliseconds per gigabyte. The answer may be out of date by
    /// the time it returns, unless no thread writes to the file.
    ///
    /// # Errors
    /// [`Error::Poisoned`].
    pub fn is_unwritten(&self) -> Result<bool> {
        Ok(!self.unwritten()?.is_empty())
    }

    /// Returns the byte ranges of the file's pages that are dirty or being written, in order. Each range covers whole
    /// pages, up to the end of the file, and no two ranges touch. Costs as much as [`File::is_unwritten`] and is as
    /// exact.
    ///
    /// # Errors
    /// [`Error::Poisoned`].
    pub fn unwritten(&self) -> Result<Vec<Range<u64>>> {
        let (len, size) = (self.len(), self.engine().page_size.bytes());
        let mut ranges: Vec<Range<u64>> = Vec::new();
        for page in self.discards().changed(0..len.div_ceil(size))? {
            let (start, end) = (page * size, (page * size + size).min(len));
            match ranges.last_mut() {
                Some(last) if last.end == start => last.end = end,
                _ => ranges.push(start..end),
            }
        }
        Ok(ranges)
    }

    /// Returns an upper bound on the file's bytes that are not on the device: a page that changes while it is written
    /// counts twice. Takes the core's lock once.
    pub(crate) fn unwritten_bytes(&self) -> u64 {
        let pages = self.engine().core().manager.unwritten(self.inner.id);
        pages.to_bytes(self.engine().page_size).0
    }
}
