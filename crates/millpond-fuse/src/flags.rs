//! Flags of open(2), as the kernel passes them on.
//!
//! They use the numbers of the kernel's headers, where `O_SYNC` contains `O_DSYNC`. The `O_DSYNC` of some libraries is the
//! kernel's `O_SYNC`.

use serde::{Deserialize, Serialize};

/// How a file is opened; of a write, what `fcntl(F_GETFL)` says and what pwritev2(2) adds.
#[derive(Clone, Copy)]
pub(crate) struct OpenFlags(pub(crate) i32);

/// What is durable before a call that changes a file returns.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub(crate) enum Durability {
    /// Nothing: that is for a sync.
    Later,
    /// The data, and what it takes to find them.
    Data,
    /// Data and all attributes.
    All,
}

impl OpenFlags {
    fn has(self, flags: i32) -> bool {
        self.0 & flags == flags
    }

    pub(crate) fn reads(self) -> bool {
        self.0 & libc::O_ACCMODE != libc::O_WRONLY
    }

    pub(crate) fn writes(self) -> bool {
        self.0 & libc::O_ACCMODE != libc::O_RDONLY
    }

    pub(crate) fn is_direct(self) -> bool {
        self.has(libc::O_DIRECT)
    }

    pub(crate) fn is_exclusive(self) -> bool {
        self.has(libc::O_EXCL)
    }

    pub(crate) fn truncates(self) -> bool {
        self.has(libc::O_TRUNC)
    }

    pub(crate) fn durability(self) -> Durability {
        match (self.has(libc::O_SYNC), self.has(libc::O_DSYNC)) {
            (true, _) => Durability::All,
            (false, true) => Durability::Data,
            (false, false) => Durability::Later,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use fuser::RenameFlags;
    use rustix::fs::{FallocateFlags, OFlags};

    /// O_DSYNC made nothing durable: it was compared with another library's constant of that name, which is O_SYNC.
    #[test]
    fn each_flag_of_open_means_what_the_kernel_s_headers_say_and_nothing_else() {
        let (no, data, all) = (Durability::Later, Durability::Data, Durability::All);
        // Reads, writes, is exclusive, truncates.
        for (name, flag, is, durable) in [
            ("O_RDONLY", libc::O_RDONLY, [true, false, false, false], no),
            ("O_WRONLY", libc::O_WRONLY, [false, true, false, false], no),
            ("O_RDWR", libc::O_RDWR, [true, true, false, false], no),
            ("O_EXCL", libc::O_EXCL, [true, false, true, false], no),
            ("O_TRUNC", libc::O_TRUNC, [true, false, false, true], no),
            ("O_DSYNC", libc::O_DSYNC, [true, false, false, false], data),
            ("O_SYNC", libc::O_SYNC, [true, false, false, false], all),
            ("O_RSYNC", libc::O_RSYNC, [true, false, false, false], all),
            ("O_APPEND", libc::O_APPEND, [true, false, false, false], no),
            ("O_ASYNC", libc::O_ASYNC, [true, false, false, false], no),
            ("O_CLOEXEC", libc::O_CLOEXEC, [true, false, false, false], no),
            ("O_CREAT", libc::O_CREAT, [true, false, false, false], no),
            ("O_DIRECT", libc::O_DIRECT, [true, false, false, false], no),
            ("O_DIRECTORY", libc::O_DIRECTORY, [true, false, false, false], no),
            ("O_LARGEFILE", libc::O_LARGEFILE, [true, false, false, false], no),
            ("O_NOATIME", libc::O_NOATIME, [true, false, false, false], no),
            ("O_NOCTTY", libc::O_NOCTTY, [true, false, false, false], no),
            ("O_NOFOLLOW", libc::O_NOFOLLOW, [true, false, false, false], no),
            ("O_NONBLOCK", libc::O_NONBLOCK, [true, false, false, false], no),
            ("O_PATH", libc::O_PATH, [true, false, false, false], no),
            ("O_TMPFILE", libc::O_TMPFILE, [true, false, false, false], no),
        ] {
            let flags = OpenFlags(flag);
            let seen = [
                flags.reads(),
                flags.writes(),
                flags.is_exclusive(),
                flags.truncates(),
            ];
            assert_eq!((seen, flags.durability()), (is, durable), "{name}");
        }
    }

    /// The same of flags that are other libraries' constants here.
    #[test]
    fn flags_that_are_handed_on_or_asked_for_have_the_numbers_of_the_kernel_s_headers() {
        for (name, flag, number) in [
            ("KEEP_SIZE", FallocateFlags::KEEP_SIZE, libc::FALLOC_FL_KEEP_SIZE),
            (
                "PUNCH_HOLE",
                FallocateFlags::PUNCH_HOLE,
                libc::FALLOC_FL_PUNCH_HOLE,
            ),
            (
                "ZERO_RANGE",
                FallocateFlags::ZERO_RANGE,
                libc::FALLOC_FL_ZERO_RANGE,
            ),
        ] {
            assert_eq!(flag.bits() as i32, number, "{name}");
        }
        for (name, flag, number) in [
            ("NOREPLACE", RenameFlags::RENAME_NOREPLACE, libc::RENAME_NOREPLACE),
            ("EXCHANGE", RenameFlags::RENAME_EXCHANGE, libc::RENAME_EXCHANGE),
            ("WHITEOUT", RenameFlags::RENAME_WHITEOUT, libc::RENAME_WHITEOUT),
        ] {
            assert_eq!(flag.bits(), number, "{name}");
        }
        for (name, flag, number) in [
            ("PATH", OFlags::PATH, libc::O_PATH),
            ("CLOEXEC", OFlags::CLOEXEC, libc::O_CLOEXEC),
            ("NOCTTY", OFlags::NOCTTY, libc::O_NOCTTY),
            ("NONBLOCK", OFlags::NONBLOCK, libc::O_NONBLOCK),
            ("NOFOLLOW", OFlags::NOFOLLOW, libc::O_NOFOLLOW),
            ("DIRECTORY", OFlags::DIRECTORY, libc::O_DIRECTORY),
            ("CREATE", OFlags::CREATE, libc::O_CREAT),
            ("EXCL", OFlags::EXCL, libc::O_EXCL),
            ("RDWR", OFlags::RDWR, libc::O_RDWR),
            ("WRONLY", OFlags::WRONLY, libc::O_WRONLY),
        ] {
            assert_eq!(flag.bits() as i32, number, "{name}");
        }
    }
}
