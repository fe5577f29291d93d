//! The end of a mount: what is not on the disk is written, and what can't be is named with its bytes.
//!
//! ```text
//!   try_save ── all is written ──────────────────────────────► shut_down: files are closed, the report
//!      ▲  └──── refused, and kept in memory ──► Unwritten ──►─┐        ▲
//!      └───────────── a while later ◄─────────────────────────┴────────┘ whoever ends it gives it up: it is lost
//! ```

use crate::state::MountState;
use millpond::PageCache;
use millpond::contents::Order;
use millpond::internal::Surface;
use millpond::internal::quantity::size;
use millpond::units::Bytes;
use std::collections::HashSet;
use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// How many files are named.
const NAMED_MAX: usize = 3;

/// What is in memory only. As text: `12 MiB of /srv/a and 2 other files: No space left on device (os error 28)`.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Unwritten {
    /// How much, in bytes.
    pub bytes: u64,
    /// The files with most of it.
    pub files: Vec<PathBuf>,
    /// How many files have some of it.
    pub file_count: usize,
    /// Why it could not be written, if that was tried.
    pub why: Option<String>,
}

impl Unwritten {
    fn of(cache: &PageCache, why: Option<String>) -> Unwritten {
        let page = cache.options().page_size.bytes();
        let contents = cache.contents(usize::MAX, Order::Dirty);
        let is_unwritten = |file: &&millpond::contents::FileContents| {
            let pages = &file.pages;
            (pages.unsaved() + pages.writing).0 > 0
        };
        let unwritten: Vec<_> = contents.files.iter().filter(is_unwritten).collect();
        let paths = unwritten.iter().filter_map(|file| file.path.clone());
        Unwritten {
            bytes: (contents.of_files.unsaved() + contents.of_files.writing).0 * page,
            files: paths.take(NAMED_MAX).collect(),
            file_count: unwritten.len(),
            why,
        }
    }
}

impl fmt::Display for Unwritten {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", size(Bytes(self.bytes)))?;
        for (n, path) in self.files.iter().enumerate() {
            let before = if n == 0 { " of " } else { ", " };
            write!(f, "{before}{}", path.display())?;
        }
        match self.file_count.saturating_sub(self.files.len()) {
            0 => {}
            1 => f.write_str(" and another file")?,
            others => write!(f, " and {others} other files")?,
        }
        match &self.why {
            Some(why) => write!(f, ": {why}"),
            None => Ok(()),
        }
    }
}

/// The device's own word, or what there is instead.
fn reason(error: &millpond::Error) -> String {
    match error {
        millpond::Error::Write { source, .. } => source.to_string(),
        error => lost(error),
    }
}

/// What an error says of data that are no longer in memory, when no caller is left who could go on with the file.
fn lost(error: &millpond::Error) -> String {
    let told = error.told_lost(Surface::CommandLine);
    let advice = "; close it everywhere, open it again and check what it holds";
    told.strip_suffix(advice).unwrap_or(&told).to_owned()
}

impl MountState {
    /// Tries to write everything and to make it durable. What the disk refuses and is kept in memory, so that trying again may
    /// help.
    pub(crate) fn try_save(&self) -> Option<Unwritten> {
        let cache = self.cache.as_ref()?;
        self.write_back_maps();
        let why = cache.sync_all().err().map(|error| reason(&error));
        self.refused.lock().clone_from(&why);
        let is_kept = why.is_some() && cache.stats().occupancy.failed.0 > 0;
        is_kept.then(|| Unwritten::of(cache, why))
    }

    /// No program is left: gives up what could not be written of files without a name, which nobody can open any more.
    pub(crate) fn discard_unlinked(&self) {
        for inode in self.inodes.all() {
            let content = inode.data.lock().content.clone();
            let content = content.filter(|content| content.is_writable);
            let is_unlinked = || rustix::fs::fstat(&inode.fd).is_ok_and(|stat| stat.st_nlink == 0);
            if let Some(content) = content.filter(|_| is_unlinked()) {
                // If that fails it is tried again with the rest.
                let _ = content.discard_unwritten();
            }
        }
    }

    /// What is not written at this moment, for whatever reason.
    pub(crate) fn unwritten_now(&self) -> Option<Unwritten> {
        let why = self.refused.lock().clone();
        let unwritten = self.cache.as_ref().map(|cache| Unwritten::of(cache, why));
        unwritten.filter(|unwritten| unwritten.bytes > 0)
    }

    /// Notes why the last write of everything was refused.
    pub(crate) fn note_refused(&self, error: &millpond::Error) {
        *self.refused.lock() = Some(reason(error));
    }

    /// Notes what the cache has lost, for whoever ends the mount: this process, or one that takes over.
    pub(crate) fn note_lost(&self) {
        let losses = self.cache.as_ref().map(PageCache::take_lost).unwrap_or_default();
        self.lost_before.lock().extend(losses.iter().map(lost));
    }

    /// At the end: makes everything durable, closes and evicts all files. What could not be saved, in sentences.
    pub(crate) fn shut_down(self: &Arc<MountState>) -> Vec<String> {
        let mut lost_now = self.lost_before.lock().clone();
        let mut refused = None;
        if let Some(cache) = &self.cache
            && let Err(error) = cache.sync_all()
        {
            let unwritten = Unwritten::of(cache, Some(reason(&error)));
            lost_now.push(match unwritten.bytes {
                0 => lost(&error),
                _ => unwritten.to_string(),
            });
            refused = Some(unwritten);
        }
        for inode in self.inodes.all() {
            let mut data = inode.data.lock();
            // The kernel is gone, and with it all open files.
            data.opens = 0;
            drop(data);
            let written = self.write_inode(&inode);
            let content = inode.data.lock().content.take();
            drop(content);
            if let Err(error) = written
                && lost_now.is_empty()
            {
                lost_now.push(error.to_string());
            }
        }
        if let Some(cache) = &self.cache {
            // The files that could not be written are counted already.
            let is_counted = |error: &millpond::Error| {
                matches!(error, millpond::Error::Write { .. })
                    && refused.as_ref().is_some_and(|all| all.bytes > 0)
            };
            let losses = cache.take_lost();
            lost_now.extend(losses.iter().filter(|error| !is_counted(error)).map(lost));
        }
        if let Err(error) = self.sync_below() {
            lost_now.push(format!("the file system below can't be synced: {error}"));
        }
        if lost_now.is_empty() && self.has_lost_stores.load(Ordering::Relaxed) {
            lost_now.push(
                "something that was stored through a map could not be written, as its fsync has said".into(),
            );
        }
        // The same loss can be reported more than once.
        let mut seen = HashSet::new();
        lost_now.retain(|line| seen.insert(line.clone()));
        lost_now
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_not_written_is_named_with_its_bytes_and_the_reason() {
        let mut unwritten = Unwritten {
            bytes: 12 << 20,
            files: vec!["/srv/a".into(), "/srv/b".into()],
            file_count: 4,
            why: Some("No space left".into()),
        };
        assert_eq!(
            unwritten.to_string(),
            "12 MiB of /srv/a, /srv/b and 2 other files: No space left"
        );
        unwritten.files.pop();
        unwritten.file_count = 1;
        unwritten.why = None;
        assert_eq!(unwritten.to_string(), "12 MiB of /srv/a");
    }
}
