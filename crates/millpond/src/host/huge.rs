//! Why frames don't use huge pages, where the kernel reveals it.
//!
//! `MADV_HUGEPAGE` succeeds even where it has no effect: when huge pages are disabled for the machine, or for this
//! process (`prctl(PR_SET_THP_DISABLE)`, which children inherit). Both can be read.

use super::field;
use std::fmt;
use std::fs;
use std::io;
use std::path::Path;

/// The machine-wide switch.
const SWITCH: &str = "/sys/kernel/mm/transparent_hugepage/enabled";

/// Why only small pages are used.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum SmallPages {
    /// Huge pages are disabled for the machine.
    Machine,
    /// Huge pages are disabled for this process, by itself or by the process that started it.
    Process,
    /// The kernel rejects the advice.
    Refused {
        /// The error it returned.
        errno: i32,
    },
}

/// Returns why there are no huge pages, given the kernel's response to the advice.
pub(crate) fn small_pages(advised: &io::Result<()>) -> Option<SmallPages> {
    let switched_off = |text: String| text.contains("[never]");
    match advised {
        Err(error) => Some(SmallPages::Refused {
            errno: error.raw_os_error().unwrap_or(libc::EINVAL),
        }),
        Ok(()) if fs::read_to_string(SWITCH).is_ok_and(switched_off) => Some(SmallPages::Machine),
        Ok(()) if field(Path::new("/proc/self/status"), "THP_enabled") == Some(0) => {
            Some(SmallPages::Process)
        }
        Ok(()) => None,
    }
}

impl SmallPages {
    /// Returns the remedy.
    pub fn mend(&self) -> &'static str {
        match self {
            SmallPages::Machine => "write madvise to /sys/kernel/mm/transparent_hugepage/enabled",
            SmallPages::Process => "start the program without prctl(PR_SET_THP_DISABLE)",
            SmallPages::Refused { .. } => "use a kernel built with CONFIG_TRANSPARENT_HUGEPAGE",
        }
    }
}

impl fmt::Display for SmallPages {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            SmallPages::Machine => f.write_str("huge pages are switched off on this machine"),
            SmallPages::Process => f.write_str("huge pages are switched off for this process"),
            SmallPages::Refused { errno } => {
                write!(
                    f,
                    "the kernel gives no huge pages ({})",
                    io::Error::from_raw_os_error(*errno)
                )
            }
        }
    }
}
