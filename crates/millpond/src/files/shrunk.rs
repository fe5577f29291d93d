//! Files that others have cut: a read ends before the end that the file has here, and this cache has not cut it.
//!
//! ```text
//!   a read comes up short ─► before the end as users see it, and as this cache has left it on the device?
//!                              └─► the device says that the file ends there ─► an error, and no zeros
//! ```
//!
//! What is short because this cache has not written it yet is zeros, rightly. A mapping has the page in which the file ends
//! now, with zeros behind the end, as a kernel's mapping does; calls that read these bytes get the error
//! ([`FileInner::short_at`]).

use super::FileInner;
use crate::error::Error;
use std::io;
use std::sync::atomic::Ordering;

/// What to do with a page that others have cut off, or cut.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Shrunk {
    /// It is an error.
    Refused,
    /// A page of which a part is left comes in, with zeros past the end: it is touched in a mapping.
    LeftOver,
    /// It comes in as zeros: a write changes it, as it would past the end of any file.
    Zeros,
}

/// No page in memory is short.
pub(super) const WHOLE: u64 = u64::MAX;

impl FileInner {
    /// Where the file ends on the device, if that is not behind `read_to`, where a read has ended, and others have cut it there.
    /// Asks the device if it may be so.
    pub(crate) fn cut_by_others(&self, read_to: u64) -> Option<u64> {
        // Not while this cache changes the length: then a read may find zeros in what goes.
        let room = self.room.try_lock()?;
        let known = self.len().min(*room);
        if read_to >= known {
            return None;
        }
        let on_device = self.device().len().ok()?;
        (on_device < known && on_device <= read_to).then_some(on_device)
    }

    pub(crate) fn is_cut(&self, at: u64) -> Error {
        let why = "the file ends before: another program has truncated it. Take its new length (invalidate), or restore its old one";
        Error::Read {
            path: self.path.clone(),
            offset: at,
            source: io::Error::new(io::ErrorKind::UnexpectedEof, why),
        }
    }

    /// The offset from which a page in memory has zeros only because the file ended there when it was read.
    pub(crate) fn short_at(&self) -> Option<u64> {
        let at = self.short_at.load(Ordering::Acquire);
        (at != WHOLE).then_some(at)
    }

    pub(crate) fn set_short_at(&self, at: Option<u64>) {
        self.short_at.store(at.unwrap_or(WHOLE), Ordering::Release);
    }
}
