//! Where files lie on a modelled disk.
//!
//! ```text
//!   disk   │ a, 1 GiB when first touched        │ b        │ a grew   │ c ...
//!            16 extents of 64 MiB, in a row       1 extent   1 extent
//! ```
//!
//! A file gets extents for its whole length when it is first touched, and one more for each 64 MiB that it is
//! touched in beyond that, always behind all others: as a file system on an empty disk would lay out files that are
//! written one after another.

use super::FileIdentity;
use std::collections::HashMap;

/// 64 MiB: half of what ext4 puts in a row at most (a block group of 128 MiB).
pub(super) const EXTENT_BYTES: u64 = 64 << 20;

#[derive(Default, Debug)]
pub(super) struct Layout {
    files: HashMap<FileIdentity, Placed>,
    extents_used: u64,
}

#[derive(Debug)]
struct Placed {
    /// Of the extents in a row from the file's start.
    first: u64,
    count: u64,
    /// Of the file's extent, which lies elsewhere.
    others: HashMap<u64, u64>,
}

impl Layout {
    /// Calls `part` with place and length of each piece in a row of the file's bytes from `offset`. `file_len`
    /// is asked when the file is touched first.
    pub(super) fn locate(
        &mut self,
        file: FileIdentity,
        file_len: impl FnOnce() -> u64,
        (offset, len): (u64, u64),
        mut part: impl FnMut(u64, u64),
    ) {
        let used = &mut self.extents_used;
        let placed = self.files.entry(file).or_insert_with(|| {
            let count = file_len().div_ceil(EXTENT_BYTES);
            let first = *used;
            *used += count;
            Placed {
                first,
                count,
                others: HashMap::new(),
            }
        });
        let end = offset.saturating_add(len);
        let mut at = offset;
        let mut piece: Option<(u64, u64)> = None;
        while at < end {
            let index = at / EXTENT_BYTES;
            let extent = match index < placed.count {
                true => placed.first + index,
                false => *placed.others.entry(index).or_insert_with(|| {
                    *used += 1;
                    *used - 1
                }),
            };
            let bytes = (EXTENT_BYTES - at % EXTENT_BYTES).min(end - at);
            let start = extent * EXTENT_BYTES + at % EXTENT_BYTES;
            at += bytes;
            match &mut piece {
                Some((from, so_far)) if *from + *so_far == start => *so_far += bytes,
                _ => {
                    if let Some((from, bytes)) = piece.replace((start, bytes)) {
                        part(from, bytes);
                    }
                }
            }
        }
        if let Some((from, bytes)) = piece {
            part(from, bytes);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_lie_in_the_order_in_which_they_are_touched() {
        let mut layout = Layout::default();
        let mut locate = |inode, file_len, offset, len| {
            let mut parts = Vec::new();
            let file = FileIdentity { device: 1, inode };
            layout.locate(
                file,
                || file_len,
                (offset, len),
                |start, len| parts.push((start, len)),
            );
            parts
        };
        let extent = EXTENT_BYTES;
        assert_eq!(
            locate(1, 16 * extent, 5 * extent + 7, 10),
            [(5 * extent + 7, 10)],
            "where it would lie"
        );
        assert_eq!(locate(2, 1, 0, 100), [(16 * extent, 100)], "behind the first");
        assert_eq!(
            locate(1, 0, 16 * extent, 1),
            [(17 * extent, 1)],
            "what grows goes to the end"
        );
        assert_eq!(
            locate(1, 0, 2 * extent - 5, 10),
            [(2 * extent - 5, 10)],
            "a row has no seams"
        );
        assert_eq!(
            locate(1, 0, 16 * extent - 5, 10),
            [(16 * extent - 5, 5), (17 * extent, 5)]
        );
        assert_eq!(locate(2, 0, extent, 1), [(18 * extent, 1)]);
        assert_eq!(locate(2, 0, 2 * extent, 1), [(19 * extent, 1)]);
        assert_eq!(
            locate(2, 0, extent, 2 * extent),
            [(18 * extent, 2 * extent)],
            "grown in a row"
        );
        assert_eq!(locate(3, 0, u64::MAX - 5, 5).len(), 1, "sparse");
    }
}
