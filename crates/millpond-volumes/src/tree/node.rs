//! A node, and its bytes in a record.

use super::Ino;
use rustix::fs::FileType;

/// Seconds and nanoseconds since 1970.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default, Debug)]
pub struct Time {
    /// Whole seconds; before 1970 negative.
    pub seconds: i64,
    /// The rest, 0 to 999,999,999.
    pub nanos: u32,
}

/// A file, a directory, a link, or another special file.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Node {
    /// Its kind and permissions, as of stat(2).
    pub mode: u32,
    /// Its user.
    pub uid: u32,
    /// Its group.
    pub gid: u32,
    /// What device it is, if it is one.
    pub rdev: u32,
    /// How many names it has; of a directory two more than it has directories.
    pub links: u32,
    /// When it was read last, as far as a program has set that.
    pub accessed: Time,
    /// When its bytes changed.
    pub modified: Time,
    /// When anything of it changed.
    pub changed: Time,
    /// A directory's parent.
    pub parent: Ino,
    /// A symbolic link's target.
    pub target: Vec<u8>,
}

impl Node {
    /// Its kind.
    pub fn kind(&self) -> FileType {
        FileType::from_raw_mode(self.mode)
    }

    pub(super) fn is_directory(&self) -> bool {
        self.kind() == FileType::Directory
    }

    pub(super) fn encode(&self) -> Vec<u8> {
        let mut out = Vec::with_capacity(64 + self.target.len());
        for field in [self.mode, self.uid, self.gid, self.rdev, self.links] {
            out.extend(field.to_le_bytes());
        }
        for time in [self.accessed, self.modified, self.changed] {
            out.extend(time.seconds.to_le_bytes());
            out.extend(time.nanos.to_le_bytes());
        }
        out.extend(self.parent.to_le_bytes());
        out.extend(&self.target);
        out
    }

    pub(super) fn decode(bytes: &[u8]) -> Option<Node> {
        let mut rest = bytes;
        let mut u32 = || -> Option<u32> {
            let (field, behind) = rest.split_first_chunk()?;
            rest = behind;
            Some(u32::from_le_bytes(*field))
        };
        let (mode, uid, gid, rdev, links) = (u32()?, u32()?, u32()?, u32()?, u32()?);
        let mut time = || -> Option<Time> {
            let (seconds, behind) = rest.split_first_chunk()?;
            let (nanos, behind) = behind.split_first_chunk()?;
            rest = behind;
            Some(Time {
                seconds: i64::from_le_bytes(*seconds),
                nanos: u32::from_le_bytes(*nanos),
            })
        };
        let (accessed, modified, changed) = (time()?, time()?, time()?);
        let (parent, target) = rest.split_first_chunk()?;
        Some(Node {
            mode,
            uid,
            gid,
            rdev,
            links,
            accessed,
            modified,
            changed,
            parent: Ino::from_le_bytes(*parent),
            target: target.to_vec(),
        })
    }
}
