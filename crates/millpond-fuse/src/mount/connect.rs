//! mount(2) and the first exchange with the kernel's FUSE.

use crate::host;
use fuser::{Config, Filesystem, MountOption, Session, SessionACL};
use rustix::fs::{Mode, OFlags};
use rustix::mount::MountFlags;
use std::ffi::CString;
use std::io;
use std::os::fd::AsRawFd;
use std::path::Path;

/// How the kernel is to mount something.
#[derive(Clone, Copy, Debug)]
pub struct Connection<'a> {
    /// What it is shown to be a mount of.
    pub source: &'a Path,
    /// Whether other users than the one that mounts may use it.
    pub allow_other: bool,
    /// Whether nothing may be changed.
    pub read_only: bool,
    /// Whether programs may be run from it.
    pub exec: bool,
    /// Whether programs run as their owner or group where their files say so.
    pub suid: bool,
    /// Whether device files are devices.
    pub dev: bool,
    /// Threads that answer the kernel; at least 2.
    pub threads: usize,
}

/// Mounts, and answers the kernel's first request (`FUSE_INIT`).
pub(super) fn connect<F: Filesystem>(
    options: &Connection<'_>,
    point: &Path,
    server: F,
) -> io::Result<Session<F>> {
    let (config, source) = (config(options), options.source);
    if !rustix::process::geteuid().is_root() {
        return Session::new(server, point, &config);
    }
    // Not by fusermount3, so that it is known as a mount of this program.
    let flags = OFlags::RDWR | OFlags::CLOEXEC;
    let device = rustix::fs::open("/dev/fuse", flags, Mode::empty())?;
    let mut data = format!(
        "fd={},rootmode=40000,user_id=0,group_id=0,default_permissions",
        device.as_raw_fd()
    );
    if options.allow_other {
        data.push_str(",allow_other");
    }
    let data = CString::new(data)?;
    let mut flags = MountFlags::NOATIME;
    for (is_wanted, flag) in [
        (options.read_only, MountFlags::RDONLY),
        (!options.exec, MountFlags::NOEXEC),
        (!options.suid, MountFlags::NOSUID),
        (!options.dev, MountFlags::NODEV),
    ] {
        flags.set(flag, is_wanted);
    }
    rustix::mount::mount(source, point, host::FS_TYPE, flags, Some(data.as_c_str()))?;
    let acl = config.acl;
    Session::from_fd(server, device, acl, config).inspect_err(|_| {
        // The error to report is the one that brought us here.
        let _ = host::unmount(point, true);
    })
}

fn config(options: &Connection<'_>) -> Config {
    let mut config = Config::default();
    config.mount_options = vec![
        MountOption::FSName(options.source.display().to_string()),
        MountOption::Subtype(host::SUBTYPE.into()),
        MountOption::DefaultPermissions,
        MountOption::NoDev,
        MountOption::NoSuid,
        // Reading through a cache leaves no trace below.
        MountOption::NoAtime,
        if options.read_only {
            MountOption::RO
        } else {
            MountOption::RW
        },
    ];
    if !options.exec {
        config.mount_options.push(MountOption::NoExec);
    }
    config.acl = match options.allow_other {
        true => SessionACL::All,
        false => SessionACL::Owner,
    };
    config.n_threads = Some(options.threads.max(2));
    config.clone_fd = true;
    config
}
