//! Address space. A cache reserves as much as it could ever need, because it is free; where it is limited, the cache
//! takes a share.
//!
//! Batch systems limit address space (`ulimit -v` by SLURM and SGE) or writable memory (`ulimit -d`), which includes
//! the tables of all possible frames. A cache then takes a quarter of what is left, or what it needs at once.

use crate::size::Size;
use crate::sys::limits::{Resource, limit, used};
use millpond_core::units::Bytes;
use std::fmt;
use std::io;

/// The share of the remaining address space taken for a budget that may grow: the program and other caches need some as
/// well.
const SHARE: u64 = 4;

/// The bytes of memory per byte of tables, at least: 35 bytes of tables per page of 4 KiB.
const TABLES_SHARE: u64 = 100;

/// What a cache needs besides its frames and tables: mappings consist of whole huge pages, with one more while they are
/// created.
const BESIDE: u64 = 32 << 20;

/// What the process may still reserve; `None`: no limit.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Left {
    addresses: Option<u64>,
    data: Option<u64>,
}

impl Left {
    fn now() -> Left {
        let left = |of| limit(of).map(|limit| limit.saturating_sub(used(of)));
        Left {
            addresses: left(Resource::Addresses),
            data: left(Resource::Data),
        }
    }

    fn to_reserve(self, needed: u64, most: u64) -> u64 {
        let by_addresses = self.addresses.map(|left| left.saturating_sub(BESIDE) / SHARE);
        let by_data = self
            .data
            .map(|left| (left.saturating_sub(needed) / SHARE).saturating_mul(TABLES_SHARE));
        let most_allowed = by_addresses.into_iter().chain(by_data).min().unwrap_or(u64::MAX);
        most.min(most_allowed).max(needed)
    }
}

/// Returns the amount of memory for which a cache that needs `needed` at once reserves addresses, on a machine with
/// `machine`.
pub(crate) fn to_reserve(needed: Bytes, machine: Bytes) -> Bytes {
    Bytes(Left::now().to_reserve(needed.0, machine.0.max(needed.0)))
}

/// Returns the error for a failed reservation of `needed` bytes.
pub(crate) fn refused(error: io::Error, needed: Bytes) -> io::Error {
    if error.raw_os_error() != Some(libc::ENOMEM) {
        return error;
    }
    match Limited::now() {
        Some(limited) => io::Error::new(
            io::ErrorKind::OutOfMemory,
            format!("{limited}, and about {needed} more are needed: raise that limit, or ask for less"),
        ),
        None => error,
    }
}

/// Returns the limit on this process's address space, in words; `None`: no limit.
pub(crate) struct Limited(Vec<String>);

impl Limited {
    pub(crate) fn now() -> Option<Limited> {
        let of = [
            (Resource::Addresses, "addresses", "ulimit -v"),
            (Resource::Data, "memory that it can write", "ulimit -d"),
        ];
        let one = |(resource, what, which)| {
            let (limit, used) = (Size(limit(resource)?), Size(used(resource)));
            Some(format!(
                "this process may have {limit} of {what} (`{which}`), and uses {used}"
            ))
        };
        let said: Vec<_> = of.into_iter().filter_map(one).collect();
        (!said.is_empty()).then_some(Limited(said))
    }
}

impl fmt::Display for Limited {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0.join("; "))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_part_of_what_is_left_is_reserved_and_at_least_what_is_needed() {
        const GIB: u64 = 1 << 30;
        let reserved = |addresses, data, needed| Left { addresses, data }.to_reserve(needed, 64 * GIB);
        assert_eq!(reserved(None, None, GIB), 64 * GIB);
        assert_eq!(reserved(Some(4 * GIB + BESIDE), None, 16 << 20), GIB);
        assert_eq!(reserved(Some(4 * GIB), None, 3 * GIB), 3 * GIB);
        assert_eq!(reserved(Some(0), Some(0), 16 << 20), 16 << 20);
        // Tables of 20 MiB: 80 are left besides the frames.
        assert_eq!(reserved(None, Some(96 << 20), 16 << 20), 2000 << 20);
        assert_eq!(reserved(Some(u64::MAX), Some(u64::MAX), 0), 64 * GIB);
    }
}
