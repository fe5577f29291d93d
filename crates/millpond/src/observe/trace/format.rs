//! Traces as bytes: blocks, each with a check sum; in them small numbers, and differences, in as few bytes as they need.
//!
//! ```text
//!   "MPTRACE" version │ block │ block │ ... │ end
//!   block:     kind u8 │ length u32 │ content │ xxh3-64 of all before it in the block, u64       little endian
//!   accesses:  count │ lost before them │ time of the first │ access │ access │ ...               all as varints
//!   access:    what u8, with bits for what follows │ [thread] [file] [pages] [took] │ time │ page
//! ```
//!
//! A block stands by itself, so a file that ends in the middle of one is read up to there: a reader takes blocks up to the
//! first with a wrong sum. The sum has the seed 0; no content is longer than 1 MiB. Blocks are in the order of writing; a
//! reader sorts accesses by time.
//!
//! Varints have seven bits a byte, the lowest first, with the highest bit set if more follow; signed ones have their sign in
//! the lowest bit (zigzag). Times and pages are differences to the access before: where a read goes on where the last one
//! ended it is 0.
//!
//! - **About** (1), JSON: `version`, `program`, `began_unix_s`, `began_ns` (the cache's clock at the start of the
//!   recording), `page_bytes`, `memory_bytes`, `frames`, `resident` (pages in memory then), `options` (settings by name).
//! - **File** (2), varints: time in ns on the cache's clock, number, device, inode, pages; then the path. Later accesses
//!   with this number refer to this file, until the number is reused after a close.
//! - **Accesses** (3), varints: count, number lost since the block before, time of the first in ns. Each access is a byte
//!   and up to six varints. Bits 0 to 3 of the byte are what: 0 read, 1 write, 2 write that keeps some of its first page,
//!   3 of its last, 4 of both, 5 prefetch, 6 sync, 7 cut, 8 close, 9 region.
//!
//!   | field | there if | else |
//!   |---|---|---|
//!   | thread | bit 4 | that of the access before, 0 at first |
//!   | file | bit 5 | that of the access before, 0 at first |
//!   | pages | bit 6 | 1 |
//!   | took, in ns | bit 7 | 0 |
//!   | time, signed, in ns | always: since the start of the access before, or since the time of the first | |
//!   | page, signed | always: from the page after the access before, or from 0; page and pages together at most 2^40 | |
//! - **End** (4), JSON: `accesses`, `lost`, `took_ns`, `why` (`asked`, `size`, or what failed), and `counters`: by how much
//!   the cache's own counters grew (`pgmajfault`, `readahead_pages`, `nr_dirtied`, `nr_written`).

use super::{Access, What};
use millpond_core::units::Nanos;
use xxhash_rust::xxh3::xxh3_64;

/// The beginning of a trace; the last byte is the version.
pub(super) const MAGIC: [u8; 8] = *b"MPTRACE\x01";

/// No block has a longer content; one that claims so is damaged.
pub(super) const CONTENT_MAX: usize = 1 << 20;

/// The size of a block's frame: kind, length, checksum.
pub(super) const FRAME_BYTES: usize = 1 + 4 + 8;

/// The kind of a block.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Kind {
    /// The cache, as JSON. The first block.
    About = 1,
    /// A file that is open.
    File = 2,
    /// Accesses of one thread, or a few.
    Accesses = 3,
    /// How it ended, as JSON. The last block.
    End = 4,
}

impl Kind {
    fn from_code(code: u8) -> Option<Kind> {
        [Kind::About, Kind::File, Kind::Accesses, Kind::End]
            .into_iter()
            .find(|kind| *kind as u8 == code)
    }
}

/// A file that is or was opened.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Opened {
    /// When.
    pub(crate) at: u64,
    /// The cache's number for it, which another file may have after it was closed.
    pub(crate) number: u32,
    /// Device and inode: what a file is, whatever it is called.
    pub(crate) identity: (u64, u64),
    /// Its number of pages.
    pub(crate) pages: u64,
    /// Its name, as the system's bytes.
    pub(crate) path: Vec<u8>,
}

/// Appends a block to `out`.
pub(super) fn block(out: &mut Vec<u8>, kind: Kind, fill: impl FnOnce(&mut Vec<u8>)) {
    let start = out.len();
    out.push(kind as u8);
    out.extend_from_slice(&[0; 4]);
    fill(out);
    let len = (out.len() - start - 5) as u32;
    out[start + 1..start + 5].copy_from_slice(&len.to_le_bytes());
    let sum = xxh3_64(&out[start..]);
    out.extend_from_slice(&sum.to_le_bytes());
}

/// The block at the start of `bytes`, and its length with all around it; `None` if it is not whole, or not as it was
/// written.
pub(super) fn first_block(bytes: &[u8]) -> Option<(Kind, &[u8], usize)> {
    let kind = Kind::from_code(*bytes.first()?)?;
    let len = u32::from_le_bytes(bytes.get(1..5)?.try_into().ok()?) as usize;
    if len > CONTENT_MAX {
        return None;
    }
    let sum = bytes.get(5 + len..FRAME_BYTES + len)?;
    let is_whole = xxh3_64(&bytes[..5 + len]).to_le_bytes() == sum;
    is_whole.then_some((kind, &bytes[5..5 + len], FRAME_BYTES + len))
}

/// Seven bits a byte, the lowest first; the highest bit says that more follow.
pub(super) fn put(out: &mut Vec<u8>, mut value: u64) {
    while value >= 0x80 {
        out.push(value as u8 | 0x80);
        value >>= 7;
    }
    out.push(value as u8);
}

fn put_signed(out: &mut Vec<u8>, value: i64) {
    put(out, ((value << 1) ^ (value >> 63)) as u64);
}

/// The rest of a content.
pub(super) struct Bytes<'a>(pub(super) &'a [u8]);

impl<'a> Bytes<'a> {
    fn byte(&mut self) -> Option<u8> {
        let (&first, rest) = self.0.split_first()?;
        self.0 = rest;
        Some(first)
    }

    pub(super) fn number(&mut self) -> Option<u64> {
        let mut value = 0_u64;
        for shift in (0..64).step_by(7) {
            let byte = self.byte()?;
            let bits = u64::from(byte & 0x7f);
            if shift == 63 && bits > 1 {
                return None;
            }
            value |= bits << shift;
            if byte & 0x80 == 0 {
                return Some(value);
            }
        }
        None
    }

    fn small(&mut self) -> Option<u32> {
        u32::try_from(self.number()?).ok()
    }

    fn signed(&mut self) -> Option<i64> {
        let value = self.number()?;
        Some((value >> 1) as i64 ^ -((value & 1) as i64))
    }
}

const THREAD: u8 = 0x10;
const FILE: u8 = 0x20;
const PAGES: u8 = 0x40;
const SPENT: u8 = 0x80;

/// What both sides know before the next access: equal values are not written.
struct Before {
    at: u64,
    /// Where the last access ended.
    page: u64,
    thread: u32,
    file: u32,
}

impl Before {
    fn new(at: u64) -> Before {
        Before {
            at,
            page: 0,
            thread: 0,
            file: 0,
        }
    }

    fn set(&mut self, access: &Access) {
        *self = Before {
            at: access.at.0,
            page: access.page + u64::from(access.pages),
            thread: access.thread,
            file: access.file,
        };
    }
}

/// The content of a block of accesses, before which `lost` could not be kept.
pub(super) fn put_accesses(out: &mut Vec<u8>, accesses: &[Access], lost: u64) {
    let first = accesses.first().map_or(0, |access| access.at.0);
    put(out, accesses.len() as u64);
    put(out, lost);
    put(out, first);
    let mut before = Before::new(first);
    for access in accesses {
        let mut what = access.what.code();
        what |= if access.thread != before.thread { THREAD } else { 0 };
        what |= if access.file != before.file { FILE } else { 0 };
        what |= if access.pages != 1 { PAGES } else { 0 };
        what |= if access.took.0 != 0 { SPENT } else { 0 };
        out.push(what);
        let optional = [
            (THREAD, u64::from(access.thread)),
            (FILE, u64::from(access.file)),
            (PAGES, u64::from(access.pages)),
            (SPENT, access.took.0),
        ];
        for (bit, value) in optional {
            if what & bit != 0 {
                put(out, value);
            }
        }
        put_signed(out, access.at.0.wrapping_sub(before.at) as i64);
        put_signed(out, access.page.wrapping_sub(before.page) as i64);
        before.set(access);
    }
}

/// The accesses of a content, and how many were lost before them; `None` if it is none.
pub(super) fn accesses(content: &[u8]) -> Option<(Vec<Access>, u64)> {
    let mut bytes = Bytes(content);
    let (count, lost, first) = (bytes.number()?, bytes.number()?, bytes.number()?);
    // One takes three bytes at least.
    if count > content.len() as u64 {
        return None;
    }
    let mut accesses = Vec::with_capacity(count as usize);
    let mut before = Before::new(first);
    for _ in 0..count {
        let what = bytes.byte()?;
        let mut optional = |bit, usual| {
            if what & bit != 0 {
                bytes.small()
            } else {
                Some(usual)
            }
        };
        let thread = optional(THREAD, before.thread)?;
        let file = optional(FILE, before.file)?;
        let pages = optional(PAGES, 1)?;
        let took = if what & SPENT != 0 { bytes.number()? } else { 0 };
        let at = before.at.checked_add_signed(bytes.signed()?)?;
        let page = before.page.checked_add_signed(bytes.signed()?)?;
        page.checked_add(u64::from(pages))
            .filter(|&end| end <= super::PAGES_MAX)?;
        let access = Access {
            at: Nanos(at),
            took: Nanos(took),
            thread,
            file,
            page,
            pages,
            what: What::from_code(what & 0xf)?,
        };
        before.set(&access);
        accesses.push(access);
    }
    bytes.0.is_empty().then_some((accesses, lost))
}

/// The content of a file's block.
pub(super) fn put_opened(out: &mut Vec<u8>, file: &Opened) {
    let numbers = [
        file.at,
        file.number.into(),
        file.identity.0,
        file.identity.1,
        file.pages,
    ];
    numbers.iter().for_each(|&number| put(out, number));
    // A path has 4096 bytes at most.
    out.extend_from_slice(&file.path[..file.path.len().min(4096)]);
}

/// The file of a content; `None` if it is none.
pub(super) fn opened(content: &[u8]) -> Option<Opened> {
    let mut bytes = Bytes(content);
    Some(Opened {
        at: bytes.number()?,
        number: bytes.small()?,
        identity: (bytes.number()?, bytes.number()?),
        pages: bytes.number().filter(|&pages| pages <= super::PAGES_MAX)?,
        path: bytes.0.to_vec(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn access(at: u64, page: u64, pages: u32) -> Access {
        Access {
            at: Nanos(at),
            took: Nanos(0),
            thread: 0,
            file: 0,
            page,
            pages,
            what: What::Read,
        }
    }

    #[test]
    fn a_read_that_goes_on_where_the_last_one_ended_takes_four_bytes() {
        let mut out = Vec::new();
        put_accesses(&mut out, &[access(1000, 5, 1), access(1700, 6, 1)], 0);
        // count, lost, first time (2); what, time, page; what, time (2 for 1400), page
        assert_eq!(out, [2, 0, 0xe8, 0x07, 0, 0, 10, 0, 0xf8, 0x0a, 0]);
        assert_eq!(
            accesses(&out),
            Some((vec![access(1000, 5, 1), access(1700, 6, 1)], 0))
        );
    }

    #[test]
    fn a_block_with_any_byte_changed_is_no_block() {
        let mut out = Vec::new();
        block(&mut out, Kind::Accesses, |out| {
            put_accesses(out, &[access(3, 4, 5)], 2)
        });
        let (kind, content, len) = first_block(&out).unwrap();
        assert_eq!((kind, len), (Kind::Accesses, out.len()));
        assert_eq!(accesses(content), Some((vec![access(3, 4, 5)], 2)));
        for at in 0..out.len() {
            let mut damaged = out.clone();
            damaged[at] ^= 0x21;
            assert!(first_block(&damaged).is_none(), "byte {at}");
            assert!(first_block(&out[..at]).is_none(), "cut at {at}");
        }
    }

    fn any_access() -> impl Strategy<Value = Access> {
        let what = (0_u8..10).prop_map(|code| What::from_code(code).unwrap());
        let page = prop_oneof![0..100_u64, 0..(super::super::PAGES_MAX - (1 << 32))];
        let times = (any::<u64>(), prop_oneof![Just(0), any::<u64>()]);
        (
            times,
            any::<u32>(),
            0..3_u32,
            page,
            prop_oneof![Just(1), any::<u32>()],
            what,
        )
            .prop_map(|((at, took), thread, file, page, pages, what)| Access {
                at: Nanos(at >> 1),
                took: Nanos(took),
                thread,
                file,
                page,
                pages,
                what,
            })
    }

    proptest! {
        #[test]
        fn a_written_trace_is_read_back(all in prop::collection::vec(any_access(), 0..50), lost: u64) {
            let mut out = Vec::new();
            put_accesses(&mut out, &all, lost);
            prop_assert_eq!(accesses(&out), Some((all, lost)));
        }

        #[test]
        fn any_content_is_accesses_or_none(content: Vec<u8>) {
            let _ = accesses(&content);
            let _ = opened(&content);
        }
    }
}
