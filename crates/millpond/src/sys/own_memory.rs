//! This process's memory as the kernel shows it in `/proc`: whether a page is there, and what is in it, without a touch of it.

use crate::sys::mapping::{is_resident, kernel_page};
use std::fs::File;
use std::os::unix::fs::FileExt;

/// Of a page in `/proc/self/pagemap`: it is in memory, or in swap.
const PRESENT: u64 = 1 << 63;
const SWAPPED: u64 = 1 << 62;

/// The memory of the process that opened it.
#[derive(Debug)]
pub(crate) struct OwnMemory {
    pagemap: Option<File>,
    bytes: Option<File>,
}

impl OwnMemory {
    /// Of this process. Where `/proc` is not mounted, or not for this process (`PR_SET_DUMPABLE`), less is known: a page in
    /// swap counts as absent.
    pub(crate) fn open() -> OwnMemory {
        OwnMemory {
            pagemap: File::open("/proc/self/pagemap").ok(),
            bytes: File::open("/proc/self/mem").ok(),
        }
    }

    /// Whether there is a page at this address of anonymous memory, in memory or in swap: what the kernel answers `EEXIST` for
    /// to one who would put a page there.
    pub(crate) fn has(&self, address: usize) -> bool {
        let mut entry = [0; size_of::<u64>()];
        let at = (address / kernel_page() * entry.len()) as u64;
        let read = self.pagemap.as_ref().map(|map| map.read_exact_at(&mut entry, at));
        match read {
            Some(Ok(())) => u64::from_ne_bytes(entry) & (PRESENT | SWAPPED) != 0,
            _ => is_resident(address),
        }
    }

    /// Reads what is at this address. Whether there is anything: a page that would be a fault is not waited for. `None`: not
    /// known here.
    pub(crate) fn read(&self, address: usize, buf: &mut [u8]) -> Option<bool> {
        let bytes = self.bytes.as_ref()?;
        Some(bytes.read_exact_at(buf, address as u64).is_ok())
    }
}
