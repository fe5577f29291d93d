//! Data stored through shared maps. The kernel holds it, and sends it when it likes, by default 30 s after the store.
//! If this process is killed, the kernel drops it. So the mount makes the kernel send it as often as the cache writes
//! back.
//!
//! For a mount only syncfs(2) does that while keeping the kernel's pages, so the mount calls it on itself. This needs a
//! descriptor of the mount, which would delay an unmount. The descriptor is therefore held only during the call, and
//! only while a program has a file mapped writable.

use crate::own_attributes::PROCESS_ATTRIBUTE;
use crate::state::{MountState, OpenFile};
use rustix::fs::{Mode, OFlags};
use rustix::io::{Errno, Result};
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::atomic::Ordering;

impl MountState {
    /// Has the kernel send what was stored through maps, on some other thread, unless one is at it.
    pub(crate) fn write_back_maps_soon(self: &Arc<MountState>) {
        if !self.has_maps() || self.is_writing_back_maps.swap(true, Ordering::AcqRel) {
            return;
        }
        let state = self.clone();
        self.pool.defer(move || {
            if let Some(_notifying) = state.gate.notify() {
                state.write_back_maps();
            }
            state.is_writing_back_maps.store(false, Ordering::Release);
        });
    }

    /// Has the kernel send what was stored through maps. Not to be called by a thread that answers the kernel.
    pub(crate) fn write_back_maps(&self) {
        if !self.has_maps() {
            return;
        }
        let _one_at_a_time = self.own_root.lock();
        // It has another place by now, or none: then the kernel sends its pages when it likes.
        if let Ok(root) = self.open_own_root() {
            let _ = rustix::fs::syncfs(root);
        }
    }

    fn has_maps(&self) -> bool {
        let may_store = |file: &OpenFile| file.content.is_writable && file.inode.kernel_pages.is_mapped();
        self.cache.is_some() && self.files.any(may_store)
    }

    /// The root of this very mount, whatever may be mounted there besides.
    pub(crate) fn open_own_root(&self) -> Result<OwnedFd> {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let root = rustix::fs::open(&self.point, flags, Mode::empty())?;
        let mut address = [0; 256];
        let len = rustix::fs::fgetxattr(&root, PROCESS_ATTRIBUTE, &mut address)?;
        let rest = address[..len].strip_prefix(self.report_pipe.address().as_bytes());
        match rest {
            Some([] | [b' ', ..]) => Ok(root),
            _ => Err(Errno::NOENT),
        }
    }
}
