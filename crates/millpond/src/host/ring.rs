//! Why io_uring is unavailable. The kernel returns only an error number, and the remedy differs.
//!
//! ```text
//!   EPERM    sysctl kernel.io_uring_disabled is 1 or 2 (Linux 6.6 `io_uring_allowed`), or else a seccomp filter, or else
//!            a security module
//!   ENOSYS   a seccomp filter that hides it, or else a kernel without it
//!   EINVAL   a flag that the kernel does not know: before Linux 5.19
//!   ENOMEM   the limit of locked memory (`ulimit -l`), which rings count against in Linux 6.18 (found by trying), unless
//!            the process has CAP_IPC_LOCK; or else no memory
//! ```

use super::linux_version;
use procfs::FromRead;
use procfs::process::{LimitValue, Limits, Status};
use std::fmt;
use std::fs;
use std::io;

/// The first Linux version with all io_uring features used here (`IORING_SETUP_COOP_TASKRUN`).
const LINUX_LEAST: (u32, u32) = (5, 19);
/// The number of the capability.
const CAP_IPC_LOCK: u32 = 14;

/// Why io_uring can't be used.
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum RingRefusal {
    /// The administrator has disabled it.
    Switch {
        /// The sysctl `kernel.io_uring_disabled`: 1 (for all but a group) or 2 (for all).
        disabled: u64,
        /// The sysctl `kernel.io_uring_group`, if one is set.
        group: Option<u64>,
    },
    /// A seccomp filter of this process, usually a container's, rejects the call.
    Filter {
        /// The rejected call.
        call: &'static str,
        /// The error it returns.
        errno: i32,
    },
    /// Something else, such as a security module, denies it.
    NotPermitted,
    /// The kernel was built without it.
    NotBuilt,
    /// The kernel's io_uring lacks a feature used here.
    TooOld {
        /// The kernel's major and minor version, if known.
        linux: Option<(u32, u32)>,
    },
    /// No memory for the ring.
    Memory {
        /// The number of bytes that the process may lock (`ulimit -l`), if limited.
        locked_max: Option<u64>,
    },
    /// Any other error.
    Other {
        /// The call.
        call: &'static str,
        /// The error it returned.
        errno: i32,
    },
}

/// The context for interpreting the kernel's error.
struct Circumstances {
    disabled: Option<u64>,
    group: Option<u64>,
    filtered: bool,
    locked_max: Option<u64>,
    linux: Option<(u32, u32)>,
}

impl Circumstances {
    fn now() -> Circumstances {
        let sysctl = |name: &str| fs::read_to_string(format!("/proc/sys/kernel/{name}")).ok();
        // Of the thread: filters and capabilities are.
        let status = Status::from_file("/proc/thread-self/status").ok();
        let limits = Limits::from_file("/proc/thread-self/limits").ok();
        let is_bound = status
            .as_ref()
            .is_none_or(|status| status.capeff >> CAP_IPC_LOCK & 1 == 0);
        let locked_max = limits.and_then(|limits| match limits.max_locked_memory.soft_limit {
            LimitValue::Value(bytes) => Some(bytes),
            LimitValue::Unlimited => None,
        });
        Circumstances {
            disabled: sysctl("io_uring_disabled").and_then(|text| text.trim().parse().ok()),
            // -1 is none.
            group: sysctl("io_uring_group").and_then(|text| text.trim().parse().ok()),
            filtered: status
                .and_then(|status| status.seccomp)
                .is_some_and(|mode| mode != 0),
            locked_max: locked_max.filter(|_| is_bound),
            linux: linux_version(),
        }
    }
}

impl RingRefusal {
    /// Interprets `error` of `call` on this host. `Unsupported` means that the ring lacks a feature.
    pub(crate) fn of(call: &'static str, error: &io::Error) -> RingRefusal {
        RingRefusal::under(&Circumstances::now(), call, error)
    }

    fn under(host: &Circumstances, call: &'static str, error: &io::Error) -> RingRefusal {
        let before = |version| host.linux.is_some_and(|linux| linux < version);
        let too_old = RingRefusal::TooOld { linux: host.linux };
        if error.kind() == io::ErrorKind::Unsupported && error.raw_os_error().is_none() {
            return too_old;
        }
        let errno = error.raw_os_error().unwrap_or(libc::EIO);
        match (errno, host.disabled, host.filtered) {
            (libc::EPERM, Some(disabled @ 1..), _) => RingRefusal::Switch {
                disabled,
                group: host.group,
            },
            (libc::EINVAL, _, _) if before(LINUX_LEAST) => too_old,
            (libc::EPERM | libc::EACCES | libc::ENOSYS | libc::EINVAL, _, true) => {
                RingRefusal::Filter { call, errno }
            }
            (libc::EPERM | libc::EACCES, _, false) => RingRefusal::NotPermitted,
            (libc::ENOSYS, _, false) => RingRefusal::NotBuilt,
            (libc::ENOMEM, _, _) => RingRefusal::Memory {
                locked_max: host.locked_max,
            },
            _ => RingRefusal::Other { call, errno },
        }
    }

    /// Returns the remedy.
    pub fn mend(&self) -> String {
        match self {
            RingRefusal::Switch { disabled: 1, .. } => {
                "join the group of sysctl kernel.io_uring_group, or set kernel.io_uring_disabled=0".into()
            }
            RingRefusal::Switch { .. } => "set sysctl kernel.io_uring_disabled=0".into(),
            RingRefusal::Filter { call: "eventfd", .. } => {
                "allow eventfd2 in the seccomp profile of the container or service".into()
            }
            RingRefusal::Filter { .. } => {
                "allow io_uring_setup, io_uring_enter and io_uring_register in the seccomp profile of the container or service"
                    .into()
            }
            RingRefusal::NotPermitted => "allow it in the security module (SELinux, AppArmor, …)".into(),
            RingRefusal::NotBuilt => "use a kernel built with CONFIG_IO_URING".into(),
            RingRefusal::TooOld { .. } => "use Linux 5.19 or newer".into(),
            RingRefusal::Memory { locked_max: Some(_) } => "raise the limit of locked memory (ulimit -l)".into(),
            RingRefusal::Memory { locked_max: None } => "raise the memory limit of the control group".into(),
            RingRefusal::Other { errno: libc::EMFILE, .. } => {
                "raise the limit of open files (ulimit -n)".into()
            }
            RingRefusal::Other { .. } => "see io_uring_setup(2)".into(),
        }
    }
}

impl fmt::Display for RingRefusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            RingRefusal::Switch { disabled: 1, group } => {
                let who = group.map_or("no group".into(), |group| format!("only group {group}"));
                write!(f, "{who} may use io_uring (sysctl kernel.io_uring_disabled is 1)")
            }
            RingRefusal::Switch { disabled, .. } => {
                write!(
                    f,
                    "io_uring is switched off (sysctl kernel.io_uring_disabled is {disabled})"
                )
            }
            RingRefusal::Filter { call, errno } => {
                write!(f, "a seccomp filter refuses {call} ({})", name(*errno))
            }
            RingRefusal::NotPermitted => f.write_str("io_uring is not permitted (EPERM)"),
            RingRefusal::NotBuilt => f.write_str("the kernel has no io_uring (ENOSYS)"),
            RingRefusal::TooOld {
                linux: Some((major, minor)),
            } => {
                write!(f, "the io_uring of Linux {major}.{minor} is too old")
            }
            RingRefusal::TooOld { linux: None } => f.write_str("the kernel's io_uring is too old"),
            RingRefusal::Memory {
                locked_max: Some(bytes),
            } => {
                write!(
                    f,
                    "io_uring cannot allocate its ring (ENOMEM): only {bytes} bytes may be locked"
                )
            }
            RingRefusal::Memory { locked_max: None } => {
                f.write_str("io_uring cannot allocate its ring (ENOMEM)")
            }
            RingRefusal::Other { call, errno } => {
                write!(f, "{call} fails: {}", io::Error::from_raw_os_error(*errno))
            }
        }
    }
}

impl std::error::Error for RingRefusal {}

fn name(errno: i32) -> String {
    match errno {
        libc::EPERM => "EPERM".into(),
        libc::EACCES => "EACCES".into(),
        libc::ENOSYS => "ENOSYS".into(),
        libc::EINVAL => "EINVAL".into(),
        _ => errno.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refusal(errno: i32, disabled: Option<u64>, filtered: bool, linux: (u32, u32)) -> String {
        let host = Circumstances {
            disabled,
            group: (disabled == Some(1)).then_some(977),
            filtered,
            locked_max: (linux < (6, 0)).then_some(65_536),
            linux: Some(linux),
        };
        let refusal = RingRefusal::under(&host, "io_uring_setup", &io::Error::from_raw_os_error(errno));
        format!("{refusal}; {}", refusal.mend())
    }

    #[test]
    fn each_answer_has_its_cause_and_its_mend() {
        let new = (6, 18);
        let table = [
            (
                refusal(libc::EPERM, Some(2), false, new),
                "io_uring is switched off (sysctl kernel.io_uring_disabled is 2); set sysctl kernel.io_uring_disabled=0",
            ),
            (
                refusal(libc::EPERM, Some(1), false, new),
                "only group 977 may use io_uring (sysctl kernel.io_uring_disabled is 1); join the group of sysctl \
                 kernel.io_uring_group, or set kernel.io_uring_disabled=0",
            ),
            (
                refusal(libc::EPERM, Some(0), true, new),
                "a seccomp filter refuses io_uring_setup (EPERM); allow io_uring_setup, io_uring_enter and \
                 io_uring_register in the seccomp profile of the container or service",
            ),
            (
                refusal(libc::ENOSYS, None, true, new),
                "a seccomp filter refuses io_uring_setup (ENOSYS); allow io_uring_setup, io_uring_enter and \
                 io_uring_register in the seccomp profile of the container or service",
            ),
            (
                refusal(libc::EPERM, Some(0), false, new),
                "io_uring is not permitted (EPERM); allow it in the security module (SELinux, AppArmor, …)",
            ),
            (
                refusal(libc::ENOSYS, None, false, (5, 0)),
                "the kernel has no io_uring (ENOSYS); use a kernel built with CONFIG_IO_URING",
            ),
            (
                refusal(libc::EINVAL, None, false, (5, 18)),
                "the io_uring of Linux 5.18 is too old; use Linux 5.19 or newer",
            ),
            (
                refusal(libc::ENOMEM, None, false, (5, 10)),
                "io_uring cannot allocate its ring (ENOMEM): only 65536 bytes may be locked; raise the limit of locked \
                 memory (ulimit -l)",
            ),
            (
                refusal(libc::ENOMEM, None, false, new),
                "io_uring cannot allocate its ring (ENOMEM); raise the memory limit of the control group",
            ),
            (
                refusal(libc::EMFILE, None, false, new),
                "io_uring_setup fails: Too many open files (os error 24); raise the limit of open files (ulimit -n)",
            ),
            (
                refusal(libc::EINVAL, None, true, new),
                "a seccomp filter refuses io_uring_setup (EINVAL); allow io_uring_setup, io_uring_enter and \
                 io_uring_register in the seccomp profile of the container or service",
            ),
            (
                refusal(libc::EINVAL, None, false, new),
                "io_uring_setup fails: Invalid argument (os error 22); see io_uring_setup(2)",
            ),
        ];
        for (said, expected) in table {
            assert_eq!(said, expected);
        }
    }
}
