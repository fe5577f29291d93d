//! From page to frame: chains of frames under a table of heads, which readers walk without a lock.
//!
//! ```text
//!   hash(key) ──► heads ──► frame ──► frame ──► end          a frame: key · word (16 bytes, one cache line)
//!                                └── next (4 bytes) ──┘
//! ```
//!
//! Everything is an atomic in memory that never moves and is never freed before the index, and every
//! change is made by the one holder of the core lock (it shows its [`WriteToken`]). So a reader may be led
//! astray by a change that overtakes it, and
//!
//! - X1. may miss a page that is there: a miss counts only when the holder of the lock repeats it;
//! - X2. may find a frame that no longer holds the page: it asks the key again once it has pinned the
//!   frame;
//! - X3. always ends, because it takes at most [`STEPS_MAX`] steps.
//! - X4. Keys are read Relaxed. Read after the frame was pinned, a key is that of the page that is pinned: it
//!   was stored before the load whose end the pin has acquired (S6), so it is no older; and it changes again
//!   only after an eviction that finds neither count nor hazard, and so after the pin's end (S7, H5), so it is
//!   no newer.
//! - X5. Links are followed with Acquire and stored with Release, heads before the shape that makes readers
//!   look there: a page that was inserted before the reader began is missed only if a change overtakes it, not
//!   because its key or its link comes late. Nothing else rests on that: X1.
//!
//! A walk is two or three looks into memory, one after the other. Neighbouring pages mostly have neighbouring frames
//! (`millpond_core::memory::free`), so a small table of guesses, an entry for 64 pages of a file, tells where the page
//! would be if it is where its neighbours are: then one look is enough. It is small enough to stay in the processor's
//! caches, and a wrong guess costs a look; what it says is worth no more than X2.
//!
//! A frame's key changes only while the frame is free or leaving, or when its load has failed.
//!
//! The table grows and shrinks with the frames, head by head (linear hashing, Litwin 1980): with `n`
//! heads, of which the smallest power of two not below is `m`, a hash counts modulo `m`, and modulo `m /
//! 2` where that is `n` or more. One head more splits one chain. So no size is a bad one, and nothing
//! ever stops for a rehash.

use crate::frames::sync::{AtomicU32, AtomicU64, Ordering, Reserved};
use millpond_core::units::{FrameNo, PageKey};
use std::io;

/// Heads for every two frames. Three take 6 bytes a frame and, at full load, 1.3 looks a hit.
const HEADS_PER_TWO_FRAMES: u64 = 3;

/// How far a reader without the lock walks. Chains longer than ten do not happen; a reader that is sent
/// from chain to chain by changes gives up here.
const STEPS_MAX: u32 = 64;

/// Pages that share a guess.
const GUESS_PAGES: u64 = 64;

/// There is one guess for so many frames, rounded up to a power of two: twice as many as full
/// blocks of pages.
const FRAMES_PER_GUESS: u32 = 32;

/// A cache line of pages whose heads lie together: a run of pages that comes or goes looks into memory once
/// for many of them.
const HEADS_TOGETHER: u64 = 16;

/// "No frame" in a head or a link; frame `n` is written as `n + 1`, so that fresh memory is empty.
const END: u32 = 0;

/// The right to change an index, and the proof that its caller holds the core lock. There is one for each index.
#[derive(Debug)]
pub(crate) struct WriteToken {
    index: usize,
    frames: u32,
}

/// The frames of a cache and the way to them.
pub(crate) struct Index {
    /// The number of heads in use (low half) and the mask of hashes (high half).
    shape: AtomicU64,
    heads: Reserved<AtomicU32>,
    cells: Reserved<[AtomicU64; 2]>,
    next: Reserved<AtomicU32>,
    /// For pages of a block, the frame that its first page would have.
    guesses: Reserved<AtomicU32>,
    guesses_mask: AtomicU32,
}

/// The key's bits inverted: fresh memory is [`PageKey::NONE`].
const KEY: usize = 0;
const WORD: usize = 1;

impl Index {
    /// Room for `frames_max` frames. There are none yet: it takes addresses, but no memory.
    ///
    /// # Errors
    /// If the kernel gives no addresses.
    pub(crate) fn new(frames_max: u32) -> io::Result<(Index, WriteToken)> {
        assert!(frames_max > 0 && frames_max < u32::MAX, "{frames_max} frames");
        let index = Index {
            shape: AtomicU64::new(1),
            heads: Reserved::new(heads_for(frames_max) as usize)?,
            cells: Reserved::new(frames_max as usize)?,
            next: Reserved::new(frames_max as usize)?,
            guesses: Reserved::new(guesses_for(frames_max) as usize)?,
            guesses_mask: AtomicU32::new(0),
        };
        let token = WriteToken {
            index: index.address(FrameNo(0)),
            frames: 0,
        };
        Ok((index, token))
    }

    /// Room for this many frames.
    pub(crate) fn frames_max(&self) -> u32 {
        self.next.len() as u32
    }

    /// The word of `frame`.
    #[inline]
    pub(crate) fn word(&self, frame: FrameNo) -> &AtomicU64 {
        &self.cells[frame.index()][WORD]
    }

    /// The key of `frame`, as it is now.
    #[inline]
    pub(crate) fn key(&self, frame: FrameNo) -> PageKey {
        PageKey::from_bits(!self.cells[frame.index()][KEY].load(Ordering::Relaxed))
    }

    /// A number that means `frame` in this whole process.
    #[inline]
    pub(crate) fn address(&self, frame: FrameNo) -> usize {
        core::ptr::from_ref(&self.cells[frame.index()]).addr()
    }

    /// The frame that [`Index::address`] gave `address` for, if it is one of this index.
    pub(crate) fn frame_at(&self, address: usize) -> Option<FrameNo> {
        let offset = address.checked_sub(self.address(FrameNo(0)))?;
        let number = offset / size_of::<[AtomicU64; 2]>();
        (number < self.cells.len()).then_some(FrameNo(number as u32))
    }

    /// The frame under which `key` is found without the lock. X1, X2.
    #[inline]
    pub(crate) fn find(&self, key: PageKey) -> Option<FrameNo> {
        let guess = self
            .guess(key)
            .load(Ordering::Relaxed)
            .wrapping_add(in_block(key));
        if let Some(cell) = self.cells.get(guess as usize)
            && cell[KEY].load(Ordering::Relaxed) == !key.to_bits()
        {
            return Some(FrameNo(guess));
        }
        let mut link = &self.heads[self.chain(key)];
        for _ in 0..STEPS_MAX {
            let frame = follow(link)?;
            if self.key(frame) == key {
                return Some(frame);
            }
            link = &self.next[frame.index()];
        }
        None
    }

    /// The frame that holds `key`, if any does.
    pub(crate) fn find_exact(&self, token: &WriteToken, key: PageKey) -> Option<FrameNo> {
        self.check(token);
        self.walk(self.chain(key)).find(|&frame| self.key(frame) == key)
    }

    /// Makes `frame`, which is free, findable under `key`, which nothing is found under.
    pub(crate) fn insert(&self, token: &mut WriteToken, frame: FrameNo, key: PageKey) {
        self.check(token);
        debug_assert_eq!(self.find_exact(token, key), None, "{key:?} is there already");
        let head = &self.heads[self.chain(key)];
        // Release for `Table::holds`, which looks at a word without pinning it.
        self.cells[frame.index()][KEY].store(!key.to_bits(), Ordering::Release);
        self.guess(key)
            .store(frame.0.wrapping_sub(in_block(key)), Ordering::Relaxed);
        self.next[frame.index()].store(head.load(Ordering::Relaxed), Ordering::Relaxed);
        head.store(frame.0 + 1, Ordering::Release);
    }

    /// Takes `frame`, which is there, out of its chain and its key from it. Its link stays, for readers
    /// that stand on it.
    pub(crate) fn remove(&self, token: &mut WriteToken, frame: FrameNo) {
        self.check(token);
        let key = self.key(frame);
        let mut link = &self.heads[self.chain(key)];
        while let Some(at) = follow(link) {
            if at == frame {
                link.store(
                    self.next[frame.index()].load(Ordering::Relaxed),
                    Ordering::Release,
                );
                self.cells[frame.index()][KEY].store(!PageKey::NONE.to_bits(), Ordering::Relaxed);
                return;
            }
            link = &self.next[at.index()];
        }
        panic!("{frame:?} is not in the chain of its key {key:?}");
    }

    /// The number of frames.
    pub(crate) fn frames(&self, token: &WriteToken) -> u32 {
        self.check(token);
        token.frames
    }

    /// Makes it `frames` frames, with as many heads as they need. Each head costs a walk of one short
    /// chain. When it becomes fewer, the last frames must be in no chain; their memory goes back to the
    /// kernel.
    pub(crate) fn set_frames(&self, token: &mut WriteToken, frames: u32) {
        self.check(token);
        assert!(
            frames <= self.frames_max(),
            "{frames} frames of at most {}",
            self.frames_max()
        );
        let heads = heads_for(frames);
        if frames > token.frames {
            self.heads.use_huge_pages(heads as usize);
            self.cells.use_huge_pages(frames as usize);
            self.next.use_huge_pages(frames as usize);
        }
        let now = self.shape.load(Ordering::Relaxed) as u32;
        for last in now..heads {
            self.split(last);
        }
        for last in (heads..now).rev() {
            self.merge(last);
        }
        if frames < token.frames {
            self.heads.release(heads as usize..now as usize);
            self.cells.release(frames as usize..token.frames as usize);
            self.next.release(frames as usize..token.frames as usize);
        }
        // Old guesses may be wrong under the new mask, as any may.
        self.guesses_mask
            .store(guesses_for(frames) - 1, Ordering::Relaxed);
        token.frames = frames;
    }

    /// Bytes that are in use for `frames` frames and their heads.
    pub(crate) fn metadata_bytes(&self, token: &WriteToken) -> u64 {
        let frame = size_of::<[AtomicU64; 2]>() + size_of::<AtomicU32>();
        u64::from(token.frames) * frame as u64
            + u64::from(heads_for(token.frames) + guesses_for(token.frames)) * size_of::<AtomicU32>() as u64
    }

    /// Splits the chain that hashes share with the new head `last`.
    fn split(&self, last: u32) {
        let shape = shape_of(last + 1);
        let parent = &self.heads[(last & ((shape >> 32) as u32 >> 1)) as usize];
        let mut first = END;
        let mut link = parent;
        while let Some(frame) = follow(link) {
            let next = &self.next[frame.index()];
            if chain_of(hash(self.key(frame)), shape) == last as usize {
                link.store(next.load(Ordering::Relaxed), Ordering::Release);
                next.store(first, Ordering::Release);
                first = frame.0 + 1;
            } else {
                link = next;
            }
        }
        self.heads[last as usize].store(first, Ordering::Release);
        self.shape.store(shape, Ordering::Release);
    }

    /// Gives the chain of the last head to the head it was split from.
    fn merge(&self, last: u32) {
        let parent = (last & ((shape_of(last + 1) >> 32) as u32 >> 1)) as usize;
        self.shape.store(shape_of(last), Ordering::Release);
        let mut link = &self.heads[parent];
        while let Some(frame) = follow(link) {
            link = &self.next[frame.index()];
        }
        link.store(
            self.heads[last as usize].load(Ordering::Relaxed),
            Ordering::Release,
        );
        self.heads[last as usize].store(END, Ordering::Release);
    }

    #[inline]
    fn guess(&self, key: PageKey) -> &AtomicU32 {
        let block = hash_block(key.to_bits() & !(GUESS_PAGES - 1));
        &self.guesses[(block & self.guesses_mask.load(Ordering::Relaxed)) as usize]
    }

    #[inline]
    fn chain(&self, key: PageKey) -> usize {
        chain_of(hash(key), self.shape.load(Ordering::Acquire))
    }

    fn walk(&self, chain: usize) -> impl Iterator<Item = FrameNo> + '_ {
        core::iter::successors(follow(&self.heads[chain]), |frame| {
            follow(&self.next[frame.index()])
        })
    }

    #[inline]
    fn check(&self, token: &WriteToken) {
        assert_eq!(
            token.index,
            self.address(FrameNo(0)),
            "the core lock of another cache"
        );
    }

    /// Re-derives the chains.
    ///
    /// # Panics
    /// If a frame is in a wrong chain or in two, or if it has a page and is in none, or has none and is
    /// in one.
    #[cfg(test)]
    pub(crate) fn validate(&self, token: &WriteToken) {
        use crate::frames::state::{State, Word};
        self.check(token);
        let mut chained = vec![false; token.frames as usize];
        for head in 0..heads_for(token.frames) as usize {
            for frame in self.walk(head) {
                let seen = core::mem::replace(&mut chained[frame.index()], true);
                assert!(!seen, "{frame:?} is in two chains, or in a ring");
                assert_eq!(
                    self.chain(self.key(frame)),
                    head,
                    "chain of {frame:?} with {:?}",
                    self.key(frame)
                );
            }
        }
        for (number, &chained) in chained.iter().enumerate() {
            let word = Word::load(self.word(FrameNo(number as u32)), Ordering::Relaxed);
            let has_page = matches!(word.state(), State::Loading | State::Resident | State::Leaving);
            assert_eq!(chained, has_page, "f{number} in a chain: {word:?}");
        }
    }
}

#[inline]
fn follow(link: &AtomicU32) -> Option<FrameNo> {
    match link.load(Ordering::Acquire) {
        END => None,
        link => Some(FrameNo(link - 1)),
    }
}

/// The page's index in its block.
#[inline]
fn in_block(key: PageKey) -> u32 {
    (key.to_bits() & (GUESS_PAGES - 1)) as u32
}

/// A power of two.
fn guesses_for(frames: u32) -> u32 {
    (frames / FRAMES_PER_GUESS).max(1).next_power_of_two()
}

fn heads_for(frames: u32) -> u32 {
    let heads = u64::from(frames) * HEADS_PER_TWO_FRAMES / 2;
    heads.clamp(1, u64::from(u32::MAX)) as u32
}

/// Heads and mask in one word, so that a reader never mixes two sizes.
fn shape_of(heads: u32) -> u64 {
    let mask = u64::from(heads).next_power_of_two() - 1;
    mask << 32 | u64::from(heads)
}

#[inline]
fn chain_of(hash: u32, shape: u64) -> usize {
    let (heads, mask) = (shape as u32, (shape >> 32) as u32);
    let chain = hash & mask;
    (if chain < heads { chain } else { chain & (mask >> 1) }) as usize
}

/// Two middle parts of a 128-bit product, folded. A bit of a product knows only of the key's bits below
/// it, so the upper one tells small files apart, which differ in the key's high bits, and the lower one
/// mixes the pages of a file. The factor is 2^64 over the golden ratio, made odd.
#[inline]
fn hash_block(block: u64) -> u32 {
    let product = u128::from(block) * 0x9e37_79b9_7f4a_7c15;
    ((product >> 32) ^ (product >> 64)) as u32
}

/// Which head. Where in its line is turned by the block's hash, so that pages of which all are, say, the first of
/// sixteen use all heads alike.
#[inline]
fn hash(key: PageKey) -> u32 {
    let in_line = key.to_bits() & (HEADS_TOGETHER - 1);
    hash_block(key.to_bits() & !(HEADS_TOGETHER - 1)) ^ in_line as u32
}

#[cfg(test)]
#[path = "index/tests.rs"]
mod tests;
