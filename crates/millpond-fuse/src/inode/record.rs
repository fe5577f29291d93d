//! An inode as one process tells another of it that takes the mount over.
//!
//! Nothing of it waits to be written then, and none of its requests is under way. What is in memory and not on the disk is
//! here: times that are to be set later, errors that no program has been told, names.

use super::content::Content;
use super::times::Times;
use super::{Data, Dentry, DiskVersion, Identity, Inode};
use parking_lot::Mutex;
use rustix::io::Errno;
use serde::{Deserialize, Serialize};
use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, OnceLock};

/// All but its descriptors.
#[derive(Serialize, Deserialize)]
pub(crate) struct InodeRecord {
    pub(crate) id: u64,
    identity: Identity,
    /// `nlookup` of FUSE.
    pub(crate) lookups: u64,
    is_directory: bool,
    dentry: Option<Dentry>,
    times: Times,
    nosec: bool,
    attributes_changed: bool,
    is_mapped: bool,
    is_removed: bool,
    generation: u64,
    disk_version: Option<DiskVersion>,
    rewritten_by: Option<u32>,
    writeback_error: Option<i32>,
    /// A program has it open, for writing or not: then a second descriptor comes with it.
    pub(crate) is_writable: Option<bool>,
}

impl Inode {
    /// The record, and the content that programs have open.
    pub(crate) fn record(&self, lookups: u64) -> (InodeRecord, Option<Arc<Content>>) {
        let data = self.data.lock();
        let content = data.content.clone().filter(|_| data.opens > 0);
        // A failed sync is told by every sync and close until all have closed the file.
        let failed = content.as_ref().and_then(|content| content.failure());
        let error = data.writeback_error.or(failed);
        let record = InodeRecord {
            id: self.id,
            identity: self.identity,
            lookups,
            is_directory: self.is_directory,
            dentry: self.dentry.lock().clone(),
            times: self.times.lock().clone(),
            nosec: *self.nosec.lock(),
            attributes_changed: self.attributes_changed.load(Ordering::Acquire),
            is_mapped: self.kernel_pages.is_mapped(),
            is_removed: data.is_removed,
            generation: data.generation,
            disk_version: data.disk_version,
            rewritten_by: data.rewritten_by,
            writeback_error: error.map(Errno::raw_os_error),
            is_writable: content.as_ref().map(|content| content.is_writable),
        };
        (record, content)
    }

    /// The inode of a record, with its `O_PATH` descriptor; open by nobody.
    pub(crate) fn of_record(record: &InodeRecord, fd: OwnedFd) -> Inode {
        let inode = Inode {
            id: record.id,
            identity: record.identity,
            fd,
            is_directory: record.is_directory,
            data: Mutex::new(Data {
                content: None,
                opens: 0,
                is_removed: record.is_removed,
                generation: record.generation,
                disk_version: record.disk_version,
                rewritten_by: record.rewritten_by,
                writeback_error: record.writeback_error.map(Errno::from_raw_os_error),
            }),
            kernel_pages: Arc::default(),
            lent: Default::default(),
            writing: AtomicU32::new(0),
            times: Mutex::new(record.times.clone()),
            dentry: Mutex::new(record.dentry.clone()),
            nosec: Mutex::new(record.nosec),
            attributes_changed: AtomicBool::new(record.attributes_changed),
            leaving: OnceLock::new(),
        };
        if record.is_mapped {
            inode.kernel_pages.note_mapped();
        }
        inode
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::fs::Timespec;

    /// What no other process knows: a time that is to be set, an error that is to be told.
    #[test]
    fn an_inode_that_comes_back_from_its_record_is_the_same() {
        let file = tempfile::tempfile().unwrap();
        let stat = rustix::fs::fstat(&file).unwrap();
        let inode = Inode::new(7, &stat, file.try_clone().unwrap().into(), None);
        inode.set_dentry(1, std::ffi::OsStr::new("na\u{fc}me"));
        let (tv_sec, tv_nsec) = (5, 6);
        inode.times.lock().data_changed(Timespec { tv_sec, tv_nsec });
        inode.kernel_pages.note_mapped();
        let content = Arc::new(Content::open(file.try_clone().unwrap(), true, None).unwrap());
        {
            let mut data = inode.data.lock();
            data.content = Some(content);
            data.opens = 1;
            data.is_removed = true;
            data.rewritten_by = Some(77);
            data.writeback_error = Some(Errno::NOSPC);
        }
        let (record, open) = inode.record(3);
        assert!(open.is_some());
        let text = serde_json::to_string(&record).unwrap();
        let record: InodeRecord = serde_json::from_str(&text).unwrap();
        let again = Inode::of_record(&record, file.into());
        // The content is the other process'.
        {
            let mut data = again.data.lock();
            data.content = inode.data.lock().content.clone();
            data.opens = 1;
        }
        let (second, _) = again.record(record.lookups);
        assert_eq!(serde_json::to_string(&second).unwrap(), text);
        assert!(text.contains("\"writeback_error\":28"), "{text}");
    }
}
