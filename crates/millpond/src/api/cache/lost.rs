//! Data that could not be written and is no longer in memory.

use super::PageCache;
use crate::api::handle::Handle;
use crate::error::Error;
use crate::files::FileInner;
use crate::observe::events;
use std::io;

impl PageCache {
    /// Returns the data lost since the last call, and clears the list. It contains the errors of writes that failed
    /// when the last handle of a file was dropped: two for a file if both its log and its device failed. It also
    /// contains what [`File::write_promised`](crate::File::write_promised) could not keep, as one [`Error::Lost`] per
    /// file whose range extends from the first to the last lost byte. [`Error::Write`] and [`Error::Log`] have
    /// `is_kept: false`.
    pub fn take_lost(&self) -> Vec<Error> {
        std::mem::take(&mut self.handle.files.lock().lost)
    }
}

impl Handle {
    /// Records and reports that these bytes of the file are lost. Returns the error that names them.
    pub(crate) fn lost(&self, file: &FileInner, (from, to): (u64, u64), errno: i32) -> Error {
        let lost = |start, end| Error::Lost {
            path: file.path.clone(),
            start,
            end,
            source: io::Error::from_raw_os_error(errno),
        };
        let mut files = self.files.lock();
        let known = files.lost.iter_mut().rev().find_map(|error| match error {
            Error::Lost { path, start, end, .. } if *path == file.path => Some((start, end)),
            _ => None,
        });
        // There may be thousands of a file, a page each: told again when it has become twice as much.
        let size = |from: u64, to: u64| to.saturating_sub(from).checked_ilog2();
        let (before, all) = match known {
            Some((start, end)) => {
                let before = size(*start, *end);
                (*start, *end) = (from.min(*start), to.max(*end));
                (before, (*start, *end))
            }
            None => {
                files.lost.push(lost(from, to));
                (None, (from, to))
            }
        };
        drop(files);
        if size(all.0, all.1) > before {
            events::lost(&file.path, &lost(all.0, all.1));
        }
        lost(from, to)
    }
}
