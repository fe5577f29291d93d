//! Recordings of a running cache's calls.

use super::cache::Cache;
use crate::error::Result;
use crate::observe::trace::{Calls, Recorded};
use serde_json::{Value, json};
use std::path::Path;
use std::sync::Arc;
use std::time::SystemTime;

impl Cache {
    /// Begins a recording: its number.
    ///
    /// # Errors
    /// [`Error::Trace`](crate::Error::Trace).
    pub(crate) fn record_start(&self, path: &Path, bytes_max: u64) -> Result<u64> {
        let calls: Arc<dyn Calls> = self.engine.clone();
        let began_ns = self.engine.clock.now().0;
        let about = || self.about_recording(began_ns);
        let open = || self.engine.files_opened(began_ns);
        self.recordings
            .lock()
            .start((path, bytes_max), &calls, about, open)
    }

    /// The beginning of a trace.
    fn about_recording(&self, began_ns: u64) -> Value {
        let program = std::env::current_exe().ok();
        let program = program.and_then(|path| Some(path.file_name()?.to_string_lossy().into_owned()));
        let unix = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
        let occupancy = self.engine.stats().occupancy;
        let options: serde_json::Map<_, _> = self
            .settings_now()
            .into_iter()
            .filter_map(|(setting, value)| Some((setting.name.to_owned(), value?.into())))
            .collect();
        json!({
            "version": env!("CARGO_PKG_VERSION"),
            "program": program,
            "began_unix_s": unix.unwrap_or_default().as_secs(),
            "began_ns": began_ns,
            "page_bytes": self.engine.page_size.bytes(),
            "memory_bytes": self.budget.lock().memory.0,
            "frames": occupancy.frames.0,
            "resident": occupancy.frames.0 - occupancy.free.0,
            "options": options,
        })
    }

    /// Ends the recording, if it is the one of that number; what it came to, or the last one of that number did.
    pub(crate) fn record_stop(&self, number: Option<u64>) -> Option<Recorded> {
        self.recordings.lock().stop(number)
    }
}
