//! What is kept of files that nobody has open, and how it is let go of.
//!
//! A file's data leave the cache only when they are on the disk. What can't be written stays, and is tried again: the
//! kernel may have forgotten the file long since.

use crate::inode::content::{Content, Result};
use crate::inode::{Data, Node, Seen};
use crate::state::Pond;
use millpond::internal::Surface;
use rustix::fs::{AtFlags, Timespec, Timestamps, UTIME_OMIT};
use std::collections::HashSet;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

/// A file's times on disk are set right when it was closed for so long: its pages have left by themselves then, 30 s
/// after they were changed (`flusher.age`), and there is nothing to wait for.
const SETTLE_AFTER: Duration = Duration::from_secs(40);

impl Pond {
    /// Lets go of a file's data, if still nobody has it open, once they are written.
    pub(crate) fn let_go(self: &Arc<Pond>, node: &Arc<Node>) {
        if self.try_let_go(node).is_err() {
            self.unwritten.lock().push(node.clone());
        }
    }

    /// # Errors
    /// What it has can't be written.
    pub(crate) fn try_let_go(&self, node: &Arc<Node>) -> Result<()> {
        // Before its data are locked: `Nodes::remove` locks in the other order. Without a name it is not found again.
        let is_forgotten = self.nodes.is_forgotten(node);
        let nameless = {
            let data = node.data.lock();
            if data.opens > 0 {
                return Ok(());
            }
            is_forgotten.then(|| self.give_up_growth(node, &data)).flatten()
        };
        let turn = match (self.settle(node), nameless) {
            (Err(_), Some(content)) => {
                content.give_up()?;
                self.settle(node)?
            }
            (settled, _) => settled?,
        };
        let mut data = node.data.lock();
        if data.opens == 0 && Some(data.turn) == turn {
            let content = data.content.take();
            drop(data);
            drop(content);
        } else {
            drop(data);
        }
        self.nodes.remove(node);
        Ok(())
    }

    /// Of a file that has no name any more, which the kernel has forgotten, drops what would make it longer below: nobody will
    /// read it. The rest is for those who have it open in the source, and is written. The data, if it is such a file.
    fn give_up_growth(&self, node: &Node, data: &Data) -> Option<Arc<Content>> {
        let content = data.content.as_ref().filter(|content| content.is_writable)?;
        let stat = rustix::fs::fstat(&node.place).ok()?;
        if self.cache.is_none() || stat.st_nlink > 0 {
            return None;
        }
        let below = stat.st_size as u64;
        if content.cached_len().is_some_and(|len| len > below) {
            // If that fails it is written.
            let _ = content.set_len(below);
        }
        Some(content.clone())
    }

    /// Writes what is changed of a file that nobody has open, and gives it its times on disk, unless somebody has it open
    /// or has opened it since. The turn in which it was closed, if nobody has.
    fn settle(&self, node: &Node) -> Result<Option<u64>> {
        let (content, turn) = {
            let data = node.data.lock();
            if data.opens > 0 {
                return Ok(None);
            }
            (data.content.clone(), data.turn)
        };
        let Some(content) = content else {
            return Ok(Some(turn));
        };
        content.write_out()?;
        let mut data = node.data.lock();
        if data.opens > 0 || data.turn != turn {
            return Ok(None);
        }
        let mut times = node.times.lock();
        if let Some(modified) = times.to_settle() {
            // Refused for another's file that we may write to: it has the disk's own time then.
            let _ = self.set_modified(node, modified);
            let stat = rustix::fs::fstat(&node.place)?;
            times.settled(&stat);
            data.seen = Some(Seen::of(&stat));
        }
        Ok(Some(turn))
    }

    pub(crate) fn set_modified(&self, node: &Node, modified: Timespec) -> Result<()> {
        let times = Timestamps {
            last_access: Timespec {
                tv_sec: 0,
                tv_nsec: UTIME_OMIT,
            },
            last_modification: modified,
        };
        rustix::fs::utimensat(&node.place, "", &times, AtFlags::EMPTY_PATH)
    }

    /// What has to be done now and then: files that were closed a while ago get their times, those that could not be
    /// written are tried again.
    pub(crate) fn tidy(self: &Arc<Pond>) {
        for node in self.idle.since(SETTLE_AFTER) {
            if self.settle(&node).is_err() {
                self.unwritten.lock().push(node);
            }
        }
        let unwritten = std::mem::take(&mut *self.unwritten.lock());
        for node in unwritten {
            match self.nodes.is_forgotten(&node) {
                true => self.let_go(&node),
                false => {
                    if self.settle(&node).is_err() {
                        self.unwritten.lock().push(node);
                    }
                }
            }
        }
    }

    /// Makes everything durable that was written so far.
    pub(crate) fn sync_all(&self) -> Result<()> {
        let synced = self.cache.as_ref().map_or(Ok(()), |cache| cache.sync_all());
        synced.map_err(|e| rustix::io::Errno::from_raw_os_error(e.errno()))?;
        self.sync_below()
    }

    /// The cache syncs what it has. Files that it has let go of are written, and not yet durable; so are names and
    /// attributes.
    fn sync_below(&self) -> Result<()> {
        let synced = rustix::fs::syncfs(&self.source);
        // The system says it once. Whatever could not be written is nobody's any more, so it fails for good.
        let mut failed = self.below_failed.lock();
        *failed = failed.or(synced.err());
        failed.map_or(Ok(()), Err)
    }

    /// At the end: makes everything durable, lets go of all files. What could not be saved, in sentences.
    pub(crate) fn end(self: &Arc<Pond>) -> Vec<String> {
        let mut lost = Vec::new();
        if let Some(cache) = &self.cache
            && let Err(error) = cache.sync_all()
        {
            // From here on they are not.
            lost.push(
                error
                    .told(Surface::CommandLine)
                    .replace("; its changes are kept in memory", ""),
            );
        }
        for node in self.nodes.all() {
            let mut data = node.data.lock();
            // The kernel is gone, and with it whoever had it open.
            data.opens = 0;
            drop(data);
            let settled = self.settle(&node);
            let content = node.data.lock().content.take();
            drop(content);
            if let Err(error) = settled
                && lost.is_empty()
            {
                lost.push(error.to_string());
            }
        }
        if let Some(cache) = &self.cache {
            let told = |error: &millpond::Error| error.told(Surface::CommandLine);
            lost.extend(cache.take_lost().iter().map(told));
        }
        if let Err(error) = self.sync_below() {
            lost.push(format!("the file system below can't be synced: {error}"));
        }
        if lost.is_empty() && self.has_lost.load(Ordering::Relaxed) {
            lost.push(
                "something that was stored through a map could not be written, as its fsync has said".into(),
            );
        }
        // One file can be told of by several.
        let mut told = HashSet::new();
        lost.retain(|line| told.insert(line.clone()));
        lost
    }
}
