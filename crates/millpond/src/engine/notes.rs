//! What calls leave for a recording (`observe/trace`); nothing where the feature `trace` is left out.

use super::driver::Engine;
use crate::files::FileInner;
#[cfg(feature = "trace")]
use crate::observe::trace::{Calls, Opened, PAGES_MAX, Shards};
use crate::observe::trace::{Note, What};
use millpond_core::units::FileId;
#[cfg(feature = "trace")]
use {millpond_core::stats::Stats as Counters, std::os::unix::ffi::OsStrExt};

#[cfg(feature = "trace")]
impl Engine {
    /// A file was opened.
    pub(crate) fn note_opened(&self, file: &FileInner) {
        if !self.call_flags.is_usual()
            && let Some(sink) = self.calls.sink()
        {
            let now = self.clock.now().0;
            sink.opened(self.describe(file, now));
        }
    }

    /// Notes a call about a file or region when what this returns is dropped, if calls are recorded.
    pub(crate) fn note(&self, file: FileId, pages: (u64, u64), what: What) -> Option<Note<'_>> {
        (!self.call_flags.is_usual()).then(|| self.calls.begin(self.clock, file, pages, what))
    }

    /// The files that are open.
    pub(crate) fn files_opened(&self, at: u64) -> Vec<Opened> {
        let files = self.core().files.clone();
        files
            .iter()
            .flatten()
            .map(|file| self.describe(file, at))
            .collect()
    }

    fn describe(&self, file: &FileInner, at: u64) -> Opened {
        let identity = file.device().identity();
        Opened {
            at,
            number: file.id.0,
            identity: (identity.device, identity.inode),
            pages: file.len().div_ceil(self.page_size.bytes()).min(PAGES_MAX),
            path: file.path.as_os_str().as_bytes().to_vec(),
        }
    }
}

#[cfg(feature = "trace")]
impl Calls for Engine {
    fn shards(&self) -> &Shards {
        &self.calls
    }

    fn set_recorded(&self, recorded: bool) {
        self.call_flags.set_recorded(recorded);
    }

    fn counters(&self) -> Counters {
        *self.core().manager.stats()
    }
}

#[cfg(not(feature = "trace"))]
impl Engine {
    pub(crate) fn note_opened(&self, _: &FileInner) {}

    pub(crate) fn note(&self, _: FileId, _: (u64, u64), _: What) -> Option<Note<'_>> {
        None
    }
}
