//! A log has advanced, or has failed: releases the pages that waited for it.

use super::Engine;
use super::writes::{listed, open_file};
use crate::device::Device;
use crate::files::order::Follower;
use millpond_core::event::Event;
use std::sync::atomic::Ordering;

/// The number of pages released before others get the core lock: about 0.2 ms.
const RELEASE_BATCH: usize = 1024;

impl Engine {
    /// Releases pages whose log has advanced far enough, at most [`RELEASE_BATCH`]. Returns whether these are all.
    pub(crate) fn release(&self) -> bool {
        let mut core = self.core();
        let mut left = RELEASE_BATCH;
        for id in core.log_blocked.files.clone() {
            let file = open_file(&core, id);
            let Some(held) = file.as_ref().and_then(|file| file.writeback_rules.held.as_ref()) else {
                continue;
            };
            let pages = held.released(left);
            left -= pages.len();
            if !pages.is_empty() {
                let (file, pages) = (id, &*pages);
                core.step(Event::Released { file, pages });
            }
        }
        let mut files = std::mem::take(&mut core.log_blocked.files);
        files.retain(|&id| listed(&core, id).is_some());
        core.log_blocked.files = files;
        left > 0
    }
}

impl Follower for Engine {
    fn log_moved(&self) {
        self.log_moved.store(true, Ordering::SeqCst);
        self.device.wake();
    }

    fn log_refused(&self) {
        self.waits.syncs.notify_all();
    }
}
