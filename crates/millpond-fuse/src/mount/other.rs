//! A mount of something else than a directory, which another crate answers for: with the mount point, the connection to the
//! kernel, the end and the exit report of this one.

use super::{Unmounted, connect::Connection, connect::connect, join, unmount};
use crate::error::{Result, system};
use crate::exit_report::ReportPipe;
use crate::host::{self, mountinfo};
use fuser::Filesystem;
use millpond::internal::give_large_buffers_back;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::thread::{self, JoinHandle};

/// A file system of another crate that is mounted.
#[derive(Debug)]
pub struct OtherMount {
    point: PathBuf,
    /// By which it is told from another mount at the same place.
    device: Option<String>,
    session: JoinHandle<io::Result<()>>,
    report_pipe: Arc<ReportPipe>,
}

impl OtherMount {
    /// Checks that `point` can be mounted at. Its canonical path; and what had to be cleared away for it, in a sentence.
    ///
    /// # Errors
    /// [`MountError::Directory`](crate::MountError::Directory) with what is wrong, and the way out.
    pub fn check(point: &Path, nonempty: bool) -> Result<(PathBuf, Option<String>)> {
        host::check_mount_point(point, nonempty, None)
    }

    /// Mounts, at a path that was checked. The server has [`ReportPipe::address`] as its root's
    /// [`PROCESS_ATTRIBUTE`](crate::PROCESS_ATTRIBUTE), and makes everything durable when its
    /// [`SYNC_ATTRIBUTE`](crate::SYNC_ATTRIBUTE) is read, so that `millpond umount` ends it as it does others. This changes
    /// the process: its allocator gives large buffers back to the system as soon as they are freed.
    ///
    /// # Errors
    /// [`MountError::Unavailable`](crate::MountError::Unavailable) without FUSE.
    pub fn new<F: Filesystem>(
        connection: &Connection<'_>,
        point: &Path,
        report_pipe: Arc<ReportPipe>,
        server: F,
    ) -> Result<OtherMount> {
        give_large_buffers_back();
        let session = connect(connection, point, server).map_err(|e| host::unavailable(point, e))?;
        let serve = thread::Builder::new().name("millpond-mount".into());
        let session = serve
            .spawn(move || session.run())
            .map_err(system("can't make a thread"))?;
        Ok(OtherMount {
            device: mountinfo::mount_at(point)?.map(|mount| mount.device),
            point: point.to_owned(),
            session,
            report_pipe,
        })
    }

    /// Whether it is unmounted and no program uses it any more.
    pub fn is_ended(&self) -> bool {
        self.session.is_finished()
    }

    /// As [`Mount::unmount`](crate::Mount::unmount).
    ///
    /// # Errors
    /// As umount(2) and `fusermount3 -u`.
    pub fn unmount(&self) -> Result<Unmounted> {
        unmount(&self.point, self.device.as_deref(), || self.is_ended())
    }

    /// Waits until it is unmounted and no program uses it any more. What `save` returns then could not be saved, and is left to
    /// the program that has unmounted it.
    ///
    /// # Errors
    /// If the connection to the kernel broke.
    pub fn wait(self, save: impl FnOnce() -> Vec<String>) -> (Vec<String>, Result<()>) {
        let served = join(std::iter::once(self.session));
        let lost = save();
        let mut report = lost.clone();
        report.extend(served.as_ref().err().map(ToString::to_string));
        self.report_pipe.report(&report);
        (lost, served)
    }
}
