//! Capabilities requested from the kernel's FUSE, and the consequences of lacking one.

use crate::state::MountState;
use fuser::{InitFlags, KernelConfig};
use std::sync::atomic::Ordering;

/// Asks for what makes the mount what it is. What the kernel does not have is noted in `MountState::unsupported`.
pub(crate) fn ask(state: &MountState, config: &mut KernelConfig) {
    let mut unsupported = state.unsupported.lock();
    for (capability, without) in [
        (
            InitFlags::FUSE_ASYNC_DIO,
            "asynchronous direct I/O is done one after the other",
        ),
        (
            InitFlags::FUSE_PARALLEL_DIROPS,
            "lookups in a directory are done one after the other",
        ),
        (
            InitFlags::FUSE_DO_READDIRPLUS,
            "listing a directory with attributes asks for each file",
        ),
        (
            InitFlags::FUSE_READDIRPLUS_AUTO,
            "listing a directory always asks for attributes",
        ),
        (
            InitFlags::FUSE_CACHE_SYMLINKS,
            "symbolic links are read again each time",
        ),
        (
            InitFlags::FUSE_HANDLE_KILLPRIV_V2,
            "writing to a file leaves its set-user-ID bit",
        ),
        (
            InitFlags::FUSE_DIRECT_IO_ALLOW_MMAP,
            "shared memory maps of files are refused (Linux 6.6 or newer has them)",
        ),
    ] {
        if config.add_capabilities(capability).is_err() {
            unsupported.push(format!("this kernel's FUSE has no {capability:?}: {without}"));
        }
    }
    match config.add_capabilities(InitFlags::FUSE_POSIX_ACL | InitFlags::FUSE_DONT_MASK) {
        Ok(()) => state.applies_umask.store(true, Ordering::Relaxed),
        Err(_) => unsupported.push("this kernel's FUSE has no ACLs: they are kept but not obeyed".into()),
    }
    // All of these only make it slower where they are refused.
    let memory = &state.request_memory;
    let _ = config.set_max_write(memory.request_bytes);
    let _ = config.set_max_background(memory.background);
    let _ = config.set_congestion_threshold(memory.background);
}
