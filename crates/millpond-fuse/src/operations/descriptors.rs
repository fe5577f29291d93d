//! Room for more files: each that the kernel knows costs a descriptor, and a process may have so many and no more.
//!
//! The kernel keeps names for as long as it has memory for them, and nobody tells it that a descriptor is worth more than
//! that. So when half of the descriptors are taken so it is told to forget names of files that nobody has open,
//! a quarter of them, whichever they are; it then forgets the files, and asks again when somebody wants them.
//!
//! A file that others remove in the source keeps its blocks as long as there is a descriptor of it. The kernel does not know,
//! so it is told to forget that name, too.
//!
//! A name is forgotten whatever it means by then: a process that stands in a directory of that name does not know any more
//! where it is, and what is mounted there is gone. So the kernel is asked for no name that another file has by now, and
//! directories are left to it for as long as there is room.

use crate::inode::Node;
use crate::inode::content::Result;
use crate::state::Pond;
use fuser::INodeNo;
use rustix::io::Errno;
use std::ffi::OsStr;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::thread;
use std::time::Duration;

/// How often, and after which pause, whoever finds no descriptor left tries again: a second all together, since the
/// kernel forgets nothing of the directory in which it waits for an answer.
const TRIES: u32 = 200;
const PAUSE: Duration = Duration::from_millis(5);

impl Pond {
    /// Before one more file becomes known. Others make the room; nobody waits for it.
    pub(crate) fn leave_room(self: &Arc<Pond>) {
        if (self.nodes.count() as u64) < self.descriptors / 2 || self.forgetting.swap(true, Ordering::AcqRel)
        {
            return;
        }
        let pond = self.clone();
        // Never by this thread: the kernel may wait for its answer before it forgets a name of that directory.
        self.pool.later(move || {
            pond.make_room();
            pond.forgetting.store(false, Ordering::Release);
        });
    }

    fn make_room(&self) {
        let (nodes, wanted) = (self.nodes.all(), self.nodes.count() / 4);
        let mut told = 0;
        for directories in [false, true] {
            // Nearly none left: then better a directory than no more files.
            if directories && (nodes.len() as u64) < self.descriptors / 4 * 3 {
                return;
            }
            for node in &nodes {
                if told >= wanted {
                    return;
                }
                let is_meant = node.is_directory == directories && is_closed(node);
                let found = is_meant.then(|| node.found.lock().clone()).flatten();
                // One that it does not know any more is as good.
                told +=
                    usize::from(found.is_some_and(|(parent, name)| self.forget_name(node, parent, &name)));
            }
        }
    }

    /// Has the kernel forget files that nobody has open and that have no name any more below, each once.
    pub(crate) fn forget_removed(&self) {
        for node in self.nodes.all() {
            let has_no_name = || rustix::fs::fstat(&node.place).is_ok_and(|stat| stat.st_nlink == 0);
            if node.found.lock().is_none() || !is_closed(&node) || !has_no_name() {
                continue;
            }
            let found = node.found.lock().take();
            if let Some((parent, name)) = found {
                self.forget_name(&node, parent, &name);
            }
        }
    }

    /// Has the kernel forget a name that was the file's, unless it is another's by now.
    fn forget_name(&self, node: &Arc<Node>, parent: u64, name: &OsStr) -> bool {
        let (Some(notifier), Some(directory)) = (self.notifier.get(), self.nodes.find(parent)) else {
            return false;
        };
        let is_anothers = self
            .known_at(&directory, name)
            .is_some_and(|now| !Arc::ptr_eq(&now, node));
        if !is_anothers {
            let _ = notifier.inval_entry(INodeNo(parent), name);
        }
        !is_anothers
    }

    /// Does `open`, and does it again for a while if no descriptor is left.
    pub(crate) fn patiently<T>(&self, open: impl Fn() -> Result<T>) -> Result<T> {
        for _ in 0..TRIES {
            match open() {
                Err(Errno::MFILE) => thread::sleep(PAUSE),
                other => return other,
            }
        }
        // What a program knows how to take: the system, not it, has too many files open.
        Err(Errno::NFILE)
    }
}

/// Whether nobody has it open. Nobody waits here for a file that is just being opened.
fn is_closed(node: &Node) -> bool {
    node.data.try_lock().is_some_and(|data| data.opens == 0)
}
