//! Lists of frames, linked by index.
//!
//! ```text
//!   warm end                                  cold end
//!   head ──► frame ──► frame ──► … ──► frame ──► tail
//!    ▲ new pages enter here            next victim ▲
//! ```
//!
//! One array of links serves any number of lists, because a frame is on at most one list at a time. There are no
//! pointers, so no unsafe code. [`Lists::validate`] recomputes every length and every back link.

use crate::units::FrameNo;
use alloc::vec::Vec;

const NIL: u32 = u32::MAX;

#[derive(Clone, Copy, Debug)]
struct Link {
    warmer: u32,
    colder: u32,
}

const UNLINKED: Link = Link {
    warmer: NIL,
    colder: NIL,
};

#[derive(Clone, Copy, Debug)]
struct Ends {
    warm: u32,
    cold: u32,
    len: u32,
}

/// `N` lists over one set of frames. Every operation takes constant time and allocates nothing.
///
/// ```
/// use millpond_core::{list::Lists, units::FrameNo};
/// let mut lists = Lists::<2>::new(4);
/// lists.push_warm(0, FrameNo(1));
/// lists.push_warm(0, FrameNo(2));
/// assert_eq!(lists.cold(0), Some(FrameNo(1)));
/// ```
#[derive(Clone, Debug)]
pub struct Lists<const N: usize> {
    links: Vec<Link>,
    ends: [Ends; N],
}

impl<const N: usize> Lists<N> {
    /// `N` empty lists for `frames` frames. 8 bytes a frame.
    pub fn new(frames: usize) -> Self {
        Lists {
            links: alloc::vec![UNLINKED; frames],
            ends: [Ends {
                warm: NIL,
                cold: NIL,
                len: 0,
            }; N],
        }
    }

    /// Adds frames up to `frames`; never shrinks.
    pub fn grow(&mut self, frames: usize) {
        if frames > self.links.len() {
            self.links.resize(frames, UNLINKED);
        }
    }

    /// How many frames are on `list`.
    #[inline]
    pub fn len(&self, list: usize) -> u64 {
        u64::from(self.ends[list].len)
    }

    /// Whether `list` has no frame.
    #[inline]
    pub fn is_empty(&self, list: usize) -> bool {
        self.ends[list].len == 0
    }

    /// The next victim of `list`.
    #[inline]
    pub fn cold(&self, list: usize) -> Option<FrameNo> {
        some(self.ends[list].cold)
    }

    /// The newest frame of `list`.
    #[inline]
    pub fn warm(&self, list: usize) -> Option<FrameNo> {
        some(self.ends[list].warm)
    }

    /// The neighbor of `frame` towards the warm end.
    #[inline]
    pub fn warmer(&self, frame: FrameNo) -> Option<FrameNo> {
        some(self.links[frame.index()].warmer)
    }

    /// Puts `frame`, which must be on no list, at the warm end of `list`.
    #[inline]
    pub fn push_warm(&mut self, list: usize, frame: FrameNo) {
        let ends = &mut self.ends[list];
        let old = ends.warm;
        debug_assert!(self.links[frame.index()].warmer == NIL && self.links[frame.index()].colder == NIL);
        self.links[frame.index()] = Link {
            warmer: NIL,
            colder: old,
        };
        ends.warm = frame.0;
        ends.len += 1;
        match some(old) {
            Some(old) => self.links[old.index()].warmer = frame.0,
            None => ends.cold = frame.0,
        }
    }

    /// Puts `frame`, which must be on no list, at the cold end of `list`: it is the next victim.
    #[inline]
    pub fn push_cold(&mut self, list: usize, frame: FrameNo) {
        let ends = &mut self.ends[list];
        let old = ends.cold;
        debug_assert!(self.links[frame.index()].warmer == NIL && self.links[frame.index()].colder == NIL);
        self.links[frame.index()] = Link {
            warmer: old,
            colder: NIL,
        };
        ends.cold = frame.0;
        ends.len += 1;
        match some(old) {
            Some(old) => self.links[old.index()].colder = frame.0,
            None => ends.warm = frame.0,
        }
    }

    /// Takes `frame` off `list`, on which it must be.
    #[inline]
    pub fn remove(&mut self, list: usize, frame: FrameNo) {
        let link = core::mem::replace(&mut self.links[frame.index()], UNLINKED);
        let ends = &mut self.ends[list];
        match some(link.warmer) {
            Some(warmer) => self.links[warmer.index()].colder = link.colder,
            None => {
                debug_assert_eq!(ends.warm, frame.0, "{frame:?} is not on list {list}");
                ends.warm = link.colder;
            }
        }
        match some(link.colder) {
            Some(colder) => self.links[colder.index()].warmer = link.warmer,
            None => {
                debug_assert_eq!(ends.cold, frame.0, "{frame:?} is not on list {list}");
                ends.cold = link.warmer;
            }
        }
        ends.len -= 1;
    }

    /// Takes the next victim off `list`.
    #[inline]
    pub fn pop_cold(&mut self, list: usize) -> Option<FrameNo> {
        let frame = self.cold(list)?;
        self.remove(list, frame);
        Some(frame)
    }

    /// The frames of `list` from the cold end to the warm one.
    pub fn iter_from_cold(&self, list: usize) -> impl Iterator<Item = FrameNo> + '_ {
        core::iter::successors(self.cold(list), |&frame| self.warmer(frame))
    }

    /// Bytes used by these lists.
    pub fn metadata_bytes(&self) -> u64 {
        (self.links.capacity() * size_of::<Link>()) as u64
    }

    /// Re-derives lengths and back links.
    ///
    /// # Panics
    /// If a length is wrong, a link has no counterpart or a frame is on two lists.
    pub fn validate(&self) {
        let mut on_list = alloc::vec![false; self.links.len()];
        for (list, ends) in self.ends.iter().enumerate() {
            let (mut len, mut warmer, mut at) = (0, NIL, ends.warm);
            while let Some(frame) = some(at) {
                let link = self.links[frame.index()];
                assert_eq!(link.warmer, warmer, "back link of {frame:?} on list {list}");
                assert!(
                    !core::mem::replace(&mut on_list[frame.index()], true),
                    "{frame:?} is on two lists"
                );
                (warmer, at, len) = (frame.0, link.colder, len + 1);
            }
            assert_eq!(ends.cold, warmer, "cold end of list {list}");
            assert_eq!(ends.len, len, "length of list {list}");
        }
        for (n, link) in self.links.iter().enumerate() {
            if !on_list[n] {
                assert!(
                    link.warmer == NIL && link.colder == NIL,
                    "f{n} is on no list but linked: {link:?}"
                );
            }
        }
    }
}

#[inline]
fn some(index: u32) -> Option<FrameNo> {
    (index != NIL).then_some(FrameNo(index))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn contents(lists: &Lists<2>, list: usize) -> Vec<u32> {
        lists.validate();
        lists.iter_from_cold(list).map(|f| f.0).collect()
    }

    #[test]
    fn warm_end_is_newest_and_cold_end_is_next() {
        let mut lists = Lists::<2>::new(8);
        for n in 0..4 {
            lists.push_warm(0, FrameNo(n));
        }
        lists.push_cold(0, FrameNo(7));
        assert_eq!(contents(&lists, 0), [7, 0, 1, 2, 3]);
        lists.remove(0, FrameNo(1));
        lists.push_warm(1, FrameNo(1));
        assert_eq!(contents(&lists, 0), [7, 0, 2, 3]);
        assert_eq!(contents(&lists, 1), [1]);
        assert_eq!(lists.pop_cold(0), Some(FrameNo(7)));
        assert_eq!(lists.len(0), 3);
    }

    #[test]
    fn random_moves_agree_with_vectors() {
        let mut lists = Lists::<2>::new(32);
        let mut model: [Vec<u32>; 2] = Default::default();
        let mut seed = 1_u64;
        for _ in 0..5_000 {
            seed = seed
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1_442_695_040_888_963_407);
            let frame = (seed >> 33) as u32 % 32;
            let (from, to) = (
                (0..2).find(|&l| model[l].contains(&frame)),
                (seed >> 60) as usize & 1,
            );
            if let Some(from) = from {
                lists.remove(from, FrameNo(frame));
                model[from].retain(|&f| f != frame);
            }
            if seed >> 62 == 0 {
                lists.push_cold(to, FrameNo(frame));
                model[to].insert(0, frame);
            } else if seed >> 62 != 1 {
                lists.push_warm(to, FrameNo(frame));
                model[to].push(frame);
            }
            assert_eq!(contents(&lists, 0), model[0]);
            assert_eq!(contents(&lists, 1), model[1]);
        }
    }
}
