//! What a mount has in memory and not on the disk, for whoever ends it: a thread of its own, while the mount may hang.

use crate::host;
use crate::operations::shut_down::Unwritten;
use crate::state::MountState;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// A handle on what a mount has not written yet. It keeps neither the mount nor its name.
#[derive(Clone)]
pub struct Unsaved {
    pub(super) point: PathBuf,
    pub(super) device: Option<String>,
    pub(super) state: Arc<MountState>,
}

impl Unsaved {
    /// Tries to make everything durable that was written so far. What the disk refuses and is kept in memory: it may be tried
    /// again. The call waits for the disk.
    pub fn try_save(&self) -> Option<Unwritten> {
        self.state.try_save()
    }

    /// Whether `umount --force` has given up what can't be written.
    pub fn is_given_up(&self) -> bool {
        self.state.is_given_up.load(Ordering::Relaxed)
    }

    /// The process is about to end although not everything may be on the disk: takes the mount's name away, and leaves the exit
    /// report. What is lost by that, as far as it is known.
    pub fn abandon(&self) -> Option<Unwritten> {
        if host::is_at(&self.point, self.device.as_deref()) {
            // The kernel ends the connection with the process, whatever comes of this.
            let _ = host::unmount(&self.point, true);
        }
        let unwritten = self.state.unwritten_now();
        let lost = unwritten.as_ref().map(Unwritten::to_string);
        let lost = lost.unwrap_or_else(|| "it was ended before it had synced everything".into());
        self.state.report_pipe.report(&[lost]);
        unwritten
    }
}
