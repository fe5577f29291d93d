//! What belongs to the host and not to a directory.

use super::Check;
use millpond::internal::quantity::size;
use millpond::internal::{Resource, Surface, resource_limits};
use millpond::{Error, Notice, PageCache, host};
use millpond_core::units::Bytes;
#[cfg(feature = "lab")]
use millpond_lab::memory_group::MemoryGroup;
use procfs::process::Process;

/// Linux before this lacks io_uring features that are relied on.
const LINUX_LEAST: (u32, u32) = (5, 19);
/// Its bit in the capability set.
const CAP_IPC_LOCK: u32 = 14;
/// A ring takes less (Linux 6.18: one can be made with this much, none with half of it).
const RING_BYTES: Bytes = Bytes::from_kib(64);

pub(super) fn linux() -> Check {
    let release = rustix::system::uname().release().to_string_lossy().into_owned();
    match host::linux_version() {
        Some(version) if version >= LINUX_LEAST => Check::ok("Linux", release),
        _ => Check::without(
            "Linux",
            release,
            "newer features are not used, io_uring among them",
            "use Linux 5.19 or newer",
        ),
    }
}

/// Whether a budget of `asked` would be accepted.
pub(super) fn memory(asked: Bytes) -> Check {
    const NAME: &str = "memory";
    let limit = match host::memory_limit() {
        Some(limit) => format!("limit {}", limit),
        None => "no control group has a limit".into(),
    };
    let free = host::memory_available().map_or("?".into(), |free| size(Bytes(free)));
    let found = format!("{} for the budget, {free} free, {limit}", size(asked));
    // Nothing is touched.
    let cache = PageCache::builder()
        .memory(asked.0)
        .populate(false)
        .on_notice(|_| {})
        .build();
    match cache {
        Ok(cache) => {
            let is_short = |notice: &Notice| matches!(notice, Notice::MemoryShort { .. });
            let short = cache.notices().into_iter().find(is_short);
            match short {
                Some(notice) => Check::without(NAME, notice.cause(), notice.effect(), notice.mend()),
                None => Check::ok(NAME, found),
            }
        }
        Err(Error::MemoryLimit { limit, .. }) => Check::missing(
            NAME,
            format!("a budget of {} is above the memory limit of {limit}", size(asked)),
            format!("give --memory below it, or raise {}", limit.file.display()),
        ),
        Err(error) => Check::missing(
            NAME,
            error.told(Surface::CommandLine),
            "give another --memory, or see ulimit -v",
        ),
    }
}

/// How much memory may be locked; rings need locked memory.
pub(super) fn locked_memory() -> Check {
    const NAME: &str = "locked memory";
    if has_capability(CAP_IPC_LOCK) {
        return Check::ok(NAME, "no limit (CAP_IPC_LOCK)");
    }
    let limits = match resource_limits(Resource::Locked) {
        Ok(limits) => limits,
        Err(error) => {
            return Check::ok(NAME, format!("the system does not report the limit ({error})"));
        }
    };
    match limits.current {
        None => Check::ok(NAME, "no limit"),
        Some(bytes) if bytes >= RING_BYTES.0 => Check::ok(
            NAME,
            format!(
                "{}, a ring takes less than {}",
                size(Bytes(bytes)),
                size(RING_BYTES)
            ),
        ),
        Some(bytes) => Check::without(
            NAME,
            format!(
                "{} (ulimit -l), and a ring may take {}",
                size(Bytes(bytes)),
                size(RING_BYTES)
            ),
            "there may be no io_uring",
            "raise the limit of locked memory (ulimit -l)",
        ),
    }
}

#[cfg(feature = "lab")]
pub(super) fn memory_group() -> Check {
    match MemoryGroup::create(Bytes::from_mib(64)) {
        Ok(group) => Check::ok(
            "memory group",
            format!("one could be made, control groups {}", group.version()),
        ),
        Err(why) => Check::without(
            "memory group",
            "none can be made",
            "the laboratory leaves out the kernel's row within a memory limit",
            why,
        ),
    }
}

fn has_capability(bit: u32) -> bool {
    let status = Process::myself().and_then(|own| own.status());
    status.is_ok_and(|status| status.capeff >> bit & 1 == 1)
}

pub(super) fn userfaultfd() -> Check {
    const NAME: &str = "userfaultfd";
    match host::userfaultfd() {
        Ok(true) => Check::ok(NAME, "can move pages, and sees what system calls touch"),
        Ok(false) => {
            let notice = Notice::NoKernelFaults;
            Check::without(NAME, notice.cause(), notice.effect(), notice.mend())
        }
        Err(error) => {
            let text = error.to_string();
            let (cause, mend) = text.split_once("; ").unwrap_or((&text, "use Linux 6.8 or newer"));
            Check::without(
                NAME,
                cause,
                "no memory beyond RAM and no mapped files (`Region`, `Mapping`, arrays in Python)",
                mend,
            )
        }
    }
}
