//! `millpond slowdisk`: a disk of another time, or of another price, for the kernel to stand on.
//!
//! ```text
//!   file system ── loop device ──► MNT/disk.img ── FUSE ──► one queue of a modelled disk ──► bytes in memory
//! ```
//!
//! The kernel's page cache then meets the very same disk as the simulator and the engine's wrapper do. What could make
//! that wrong, and what is done about it:
//!
//! - The kernel may need memory to serve a request, and write to this disk to get it. So this process allocates
//!   without I/O (`PR_SET_IO_FLUSHER`, inherited by its threads), is locked in memory with all its data, and is not
//!   what the kernel ends when memory is short. Keep this process out of a memory group that limits others.
//! - Timers are late. The service thread has real-time priority where that is allowed, spins for the last 25 us, and
//!   says in `stats` how late it was.
//! - Requests must come as they are: past the page cache, asynchronously, up to 1 MiB, as many at a time as the
//!   kernel wants (`filesystem.rs`).

mod disk;
mod filesystem;
mod image;

use crate::disk_model::DiskModel;
use crate::error::{LabError, Result};
use disk::Disk;
use filesystem::SlowDisk;
use fuser::{Config, MountOption, Session, SessionACL, SessionUnmounter};
use image::Image;
use millpond::internal::be_punctual;
use millpond::internal::quantity::{size, size_typed};
use millpond_core::units::Bytes;
use procfs::{Current, Meminfo};
use rustix::io::Errno;
use rustix::mm::MlockAllFlags;
use rustix::mount::UnmountFlags;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::thread::{self, JoinHandle};

/// Threads that take requests from the kernel: one stores a write of 1 MiB while the other takes the next request.
const READERS: usize = 2;

/// The disk, and its directory.
#[derive(Clone, Debug)]
pub struct Options {
    /// An empty directory.
    pub mount_point: PathBuf,
    /// Its service times.
    pub model: DiskModel,
    /// Its size: whole blocks of 4 KiB.
    pub size: Bytes,
    /// The maximum number of its bytes that will be used; `None`: all.
    pub used: Option<Bytes>,
    /// The file that has its bytes; `None`: memory.
    pub backing: Option<PathBuf>,
}

/// A slow disk that is mounted. Dropping it unmounts it, or detaches it if it is in use.
pub struct Mounted {
    mount_point: PathBuf,
    unmounter: SessionUnmounter,
    session: Option<JoinHandle<io::Result<()>>>,
    /// What the disk must do without, in sentences.
    pub notices: Vec<String>,
}

/// The result of [`Mounted::unmount`].
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Unmounted {
    /// It is gone.
    Gone,
    /// A process still uses it. It is detached, and ends when that process is done.
    Detached,
}

impl Mounted {
    /// Makes the disk and mounts it. This changes the process: its memory is locked, its threads get real-time
    /// priority, as far as that is allowed.
    ///
    /// # Errors
    /// [`LabError::BadValue`] for a mount point that is no empty directory, or a size that is not in whole blocks or
    /// does not fit in memory; [`LabError::Unavailable`] without FUSE; else as the system says.
    pub fn new(options: &Options) -> Result<Mounted> {
        check_mount_point(&options.mount_point)?;
        check_size(options)?;
        let failed = |e: io::Error| unavailable(&options.mount_point, &e);
        let model = options.model.model()?;
        let image = match &options.backing {
            Some(path) => Image::file(path, options.size)?,
            None => Image::memory(options.size),
        };
        let notices = settle_in();
        let disk = Disk::new(image, options.size, model).map_err(failed)?;
        let is_root = rustix::process::geteuid().is_root();
        let mut config = Config::default();
        config.mount_options = vec![
            MountOption::FSName("slowdisk".into()),
            MountOption::Subtype("millpond".into()),
            MountOption::DefaultPermissions,
            MountOption::NoDev,
            MountOption::NoSuid,
            MountOption::NoAtime,
        ];
        // The kernel's I/O is often not done by the user that mounted it.
        config.acl = if is_root {
            SessionACL::All
        } else {
            SessionACL::Owner
        };
        config.n_threads = Some(READERS);
        let filesystem = SlowDisk::new(Arc::new(disk));
        let mut session = Session::new(filesystem, &options.mount_point, &config).map_err(failed)?;
        let unmounter = session.unmount_callable();
        let session = thread::Builder::new()
            .name("slowdisk".into())
            .spawn(move || session.run())
            .map_err(failed)?;
        Ok(Mounted {
            mount_point: options.mount_point.clone(),
            unmounter,
            session: Some(session),
            notices,
        })
    }

    /// The disk as a file.
    pub fn image(&self) -> PathBuf {
        self.mount_point.join("disk.img")
    }

    /// Whether it has ended: it is unmounted, and no process uses it.
    pub fn is_ended(&self) -> bool {
        self.session.as_ref().is_none_or(JoinHandle::is_finished)
    }

    /// Takes it out of the tree of files.
    ///
    /// # Errors
    /// As umount(2) and `fusermount3 -u`.
    pub fn unmount(&mut self) -> Result<Unmounted> {
        let failed = |e: Errno| LabError::path("cannot unmount", &self.mount_point, io::Error::from(e));
        match rustix::mount::unmount(&self.mount_point, UnmountFlags::empty()) {
            Ok(()) => Ok(Unmounted::Gone),
            Err(Errno::BUSY) => {
                rustix::mount::unmount(&self.mount_point, UnmountFlags::DETACH).map_err(failed)?;
                Ok(Unmounted::Detached)
            }
            // For a user other than root there is a helper.
            Err(Errno::PERM) => {
                let result = self.unmounter.unmount();
                result.map_err(|e| LabError::path("cannot unmount", &self.mount_point, e))?;
                Ok(Unmounted::Gone)
            }
            // No longer mounted.
            Err(Errno::INVAL) => Ok(Unmounted::Gone),
            Err(error) => Err(failed(error)),
        }
    }

    /// Waits until it has ended; see [`is_ended`](Mounted::is_ended).
    ///
    /// # Errors
    /// If the connection to the kernel broke.
    pub fn wait(mut self) -> Result<()> {
        let Some(session) = self.session.take() else {
            return Ok(());
        };
        let ended = session
            .join()
            .unwrap_or_else(|_| Err(io::Error::other("its thread panicked")));
        match ended {
            // What the kernel says as well, instead of ENODEV, to a thread that was asking when the last user left.
            Err(e) if e.raw_os_error() == Some(Errno::CONNABORTED.raw_os_error()) => Ok(()),
            other => other.map_err(|e| LabError::path("the disk has ended at", &self.mount_point, e)),
        }
    }
}

impl Drop for Mounted {
    fn drop(&mut self) {
        if !self.is_ended() {
            // No process is left that could read it.
            let _ = self.unmount();
        }
    }
}

fn check_mount_point(path: &Path) -> Result<()> {
    let bad = |why: String| LabError::BadValue {
        option: "the mount point",
        value: path.display().to_string(),
        allowed: why,
        instead: "give an empty directory".into(),
    };
    let mut entries = fs::read_dir(path).map_err(|e| {
        // The remains of a disk whose process was killed.
        let is_left_behind = e.raw_os_error() == Some(Errno::NOTCONN.raw_os_error());
        if is_left_behind {
            bad(format!("{e}; unmount it first: umount {}", path.display()))
        } else {
            bad(e.to_string())
        }
    })?;
    match entries.next() {
        None => Ok(()),
        Some(_) => Err(bad("it is not empty".into())),
    }
}

fn check_size(options: &Options) -> Result<()> {
    let bad = |allowed: String, instead: &str| LabError::BadValue {
        option: "--size",
        value: size_typed(options.size),
        allowed,
        instead: instead.into(),
    };
    if options.size.0 < 1 << 20 || !options.size.0.is_multiple_of(4096) {
        return Err(bad(
            "a disk has at least 1 MiB, in whole blocks of 4 KiB".into(),
            "give a size such as 10G",
        ));
    }
    let available = Meminfo::current().ok().and_then(|memory| memory.mem_available);
    match available {
        Some(available)
            if options.backing.is_none() && options.used.unwrap_or(options.size).0 > available =>
        {
            Err(bad(
                format!(
                    "its bytes are kept in memory, and only {} is free",
                    size(Bytes(available))
                ),
                "give a smaller size, or a file for the bytes with --backing FILE",
            ))
        }
        _ => Ok(()),
    }
}

/// Makes the process one that the kernel can wait for. What is not allowed, in sentences.
fn settle_in() -> Vec<String> {
    let mut notices = Vec::new();
    if let Err(error) = rustix::process::configure_io_flusher_behavior(true) {
        notices.push(format!(
            "PR_SET_IO_FLUSHER: {error} (it needs CAP_SYS_RESOURCE): where memory runs out, the kernel may wait for \
             this disk before it gives memory to it. Leave some free."
        ));
    }
    let locked = match rustix::process::geteuid().is_root() {
        true => rustix::mm::mlockall(MlockAllFlags::CURRENT | MlockAllFlags::FUTURE | MlockAllFlags::ONFAULT),
        // A limit that is not reached now would be reached later, in the middle of a request.
        false => Err(Errno::PERM),
    };
    if let Err(error) = locked {
        notices.push(format!(
            "Its memory is not locked ({error}; root may): do not swap to this disk."
        ));
    }
    // Without privilege it stays as it is, like any other program.
    let _ = fs::write("/proc/self/oom_score_adj", "-1000");
    if !be_punctual() {
        notices
            .push("No real-time priority is allowed: answers may come late; `stats` says how late.".into());
    }
    notices
}

fn unavailable(mount_point: &Path, error: &io::Error) -> LabError {
    let what = match Path::new("/dev/fuse").exists() {
        false => "there is no /dev/fuse: `modprobe fuse`, or start the container with that device",
        true if rustix::process::geteuid().is_root() => {
            "mounting needs CAP_SYS_ADMIN, which a container may lack"
        }
        true => "mounting needs root or a working fusermount3 (package fuse3)",
    };
    LabError::Unavailable {
        target: "slowdisk".into(),
        why: format!("{error} at {}; {what}", mount_point.display()),
    }
}
