//! Where files are on a modeled disk.
//!
//! ```text
//!   disk   │ a, 1 GiB when first touched │ b │ c │ d   │ b grew │ d grew │ e ...
//!            1024 units of 1 MiB           10  10  4     10       64
//! ```
//!
//! A file gets space for its whole length when it is first touched, after all others. So files written in sequence lie
//! in sequence, whatever their size, as on an empty file system. A file that grows continues where it ends if that
//! space is free. Otherwise it gets as much space again as it has, up to 64 MiB. That is about what xfs preallocates,
//! so files that grow concurrently are not scattered in pieces of 1 MiB.

use millpond::device::FileIdentity;
use std::collections::{BTreeMap, HashMap};

/// The unit of space in bytes.
const UNIT_BYTES: u64 = 1 << 20;
/// The most a growing file gets at once, in units: half of what ext4 puts in a row (a block group of 128 MiB).
const GROWTH_MAX: u64 = 64;

#[derive(Default, Debug)]
pub(super) struct Layout {
    files: HashMap<FileIdentity, Placed>,
    units_used: u64,
}

/// Runs of a file's units, keyed by the first unit: position on the disk, and length.
#[derive(Default, Debug)]
struct Placed(BTreeMap<u64, (u64, u64)>);

impl Placed {
    /// The position of a unit.
    fn find(&self, unit: u64) -> Option<u64> {
        let (from, (place, count)) = self.0.range(..=unit).next_back()?;
        (unit - from < *count).then_some(place + (unit - from))
    }

    /// Gives the unit a position, after all that is used.
    fn grow(&mut self, unit: u64, used: &mut u64) -> u64 {
        if let Some((from, (place, count))) = self.0.range_mut(..=unit).next_back()
            && from + *count == unit
            && *place + *count == *used
        {
            *count += 1;
            *used += 1;
            return *used - 1;
        }
        let so_far: u64 = self.0.values().map(|(_, count)| count).sum();
        let next = self.0.range(unit..).next().map_or(u64::MAX, |(from, _)| *from);
        let count = so_far.clamp(1, GROWTH_MAX).min(next - unit);
        let place = *used;
        self.0.insert(unit, (place, count));
        *used += count;
        place
    }
}

impl Layout {
    /// Calls `part` with the position and length of each contiguous piece of the file's bytes from `offset` on.
    /// `file_len` is called when the file is first touched.
    pub(super) fn locate(
        &mut self,
        file: FileIdentity,
        file_len: impl FnOnce() -> u64,
        (offset, len): (u64, u64),
        mut part: impl FnMut(u64, u64),
    ) {
        let used = &mut self.units_used;
        let placed = self.files.entry(file).or_insert_with(|| {
            let count = file_len().div_ceil(UNIT_BYTES);
            let mut placed = Placed::default();
            if count > 0 {
                placed.0.insert(0, (*used, count));
                *used += count;
            }
            placed
        });
        let end = offset.saturating_add(len);
        let mut at = offset;
        let mut piece: Option<(u64, u64)> = None;
        while at < end {
            let unit = at / UNIT_BYTES;
            let place = placed.find(unit).unwrap_or_else(|| placed.grow(unit, used));
            let bytes = (UNIT_BYTES - at % UNIT_BYTES).min(end - at);
            let start = place * UNIT_BYTES + at % UNIT_BYTES;
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

    const MIB: u64 = UNIT_BYTES;

    fn locate(layout: &mut Layout, inode: u64, file_len: u64, part: (u64, u64)) -> Vec<(u64, u64)> {
        let mut parts = Vec::new();
        let file = FileIdentity { device: 1, inode };
        layout.locate(file, || file_len, part, |start, len| parts.push((start, len)));
        parts
    }

    #[test]
    fn files_lie_in_the_order_in_which_they_are_touched() {
        let layout = &mut Layout::default();
        let middle = (5 * MIB + 7, 10);
        assert_eq!(
            locate(layout, 1, 16 * MIB, middle),
            [middle],
            "where it would lie"
        );
        assert_eq!(
            locate(layout, 2, 1, (0, 100)),
            [(16 * MIB, 100)],
            "behind the first"
        );
        assert_eq!(
            locate(layout, 1, 0, (2 * MIB - 5, 10)),
            [(2 * MIB - 5, 10)],
            "a row has no seams"
        );
        assert_eq!(locate(layout, 3, 0, (u64::MAX - 5, 5)).len(), 1, "sparse");
    }

    #[test]
    fn files_written_one_after_the_other_lie_side_by_side_whatever_was_known_of_their_length() {
        let layout = &mut Layout::default();
        for file in 0..5 {
            // 4 MiB of room when it is touched first, 10 in the end
            for offset in 0..10 {
                let place = locate(layout, file, 4 * MIB, (offset * MIB, MIB));
                assert_eq!(place, [((file * 10 + offset) * MIB, MIB)], "file {file}");
            }
        }
    }

    #[test]
    fn files_that_grow_beside_one_another_grow_in_ever_larger_pieces() {
        let layout = &mut Layout::default();
        let mut places = [Vec::new(), Vec::new()];
        for offset in 0..1024 {
            for file in 0..2 {
                places[file as usize].extend(locate(layout, file, 0, (offset * MIB, MIB)));
            }
        }
        for places in places {
            let seams = places.windows(2).filter(|pair| pair[0].0 + MIB != pair[1].0);
            assert!((10..=24).contains(&seams.count()));
        }
        // Between two pieces of its own there is only the room up to the next.
        let layout = &mut Layout::default();
        locate(layout, 1, 8 * MIB, (0, 1));
        locate(layout, 1, 0, (20 * MIB, 1));
        locate(layout, 2, 1, (0, 1));
        locate(layout, 1, 0, (18 * MIB, 2 * MIB));
        assert_eq!(locate(layout, 1, 0, (20 * MIB, 1)), [(8 * MIB, 1)]);
    }
}
