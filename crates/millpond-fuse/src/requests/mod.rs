//! FUSE requests: each goes to the operation that answers it, on the right thread.
//!
//! The thread that has the request answers reads, writes and names itself, because a hit takes less time than a
//! handover. Calls that always wait for the disk (sync, truncation, holes, copies) go to a pool. A write may pause. So
//! when half of the threads are in a write, the pool also handles the next one, with a copy of its bytes. A thread is
//! thus free for reads as long as there is space for copies (`request_memory`).

mod capabilities;
mod filesystem;
mod reply;

use crate::operations::data::Write;
use crate::state::{MountState, OpenFile};
use fuser::ReplyWrite;
use reply::errno;
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// The file system that the kernel talks to.
pub(crate) struct FuseServer {
    pub(crate) state: Arc<MountState>,
}

impl FuseServer {
    /// Does what takes long on another thread.
    fn in_pool(&self, work: impl FnOnce(&Arc<MountState>) + Send + 'static) {
        let state = self.state.clone();
        self.state.pool.run(move || work(&state));
    }

    /// Does a write, which may pause, on another thread.
    fn in_write_pool(&self, work: impl FnOnce(&Arc<MountState>) + Send + 'static) {
        let state = self.state.clone();
        self.state.pool.run_write(move || work(&state));
    }

    /// Whether so many threads are in a write already that the next could leave none for reads.
    fn is_full_of_writes(&self) -> bool {
        self.state.writing.load(Ordering::Relaxed) >= self.state.threads / 2
    }
}

/// Writes, counted for as long as it takes, and answers.
fn write(state: &MountState, file: &OpenFile, bytes: &[u8], how: &Write, reply: ReplyWrite) {
    state.writing.fetch_add(1, Ordering::Relaxed);
    let written = state.write(file, bytes, how);
    state.writing.fetch_sub(1, Ordering::Relaxed);
    file.inode.writing.fetch_sub(1, Ordering::SeqCst);
    match written {
        Ok(()) => reply.written(bytes.len() as u32),
        Err(error) => reply.error(errno(error)),
    }
}
