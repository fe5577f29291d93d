//! A program's possible operations, by indexes into what exists at that moment, and how they are drawn.

use super::Draw;
use Op::*;

/// A position in a file.
#[derive(Clone, Copy, Debug)]
pub(crate) enum At {
    /// This many parts of 65536 of its length from the start.
    Share(u16),
    /// At the start of the page at this many parts.
    PageOf(u16),
    /// At the end, or this many bytes before it.
    Tail(u16),
    /// Past the end, by this many bytes and pages.
    Beyond(u16, u8),
}

#[derive(Clone, Copy, Debug)]
pub(crate) enum Op {
    Read {
        handle: u8,
        at: At,
        len: u32,
    },
    Write {
        handle: u8,
        at: At,
        len: u32,
        seed: u8,
    },
    Page {
        handle: u8,
        page: u16,
    },
    PageMut {
        handle: u8,
        page: u16,
        from: u16,
        seed: u8,
    },
    /// Holds one page for reading and one for changing while a third is written and read.
    Guards {
        handle: u8,
        pages: [u16; 3],
        seed: u8,
    },
    Append {
        handle: u8,
        len: u32,
        seed: u8,
    },
    /// Changes a page by a guard, one of the file or up to two pages after it, and the file grows to its end.
    Grow {
        handle: u8,
        page: u16,
        from: u16,
        seed: u8,
    },
    /// Maps a file, to be written if the handle is and that is asked for.
    Map {
        handle: u8,
        write: bool,
    },
    Unmap {
        mapping: u8,
    },
    ReadMapped {
        mapping: u8,
        at: At,
        len: u32,
    },
    /// Stores bytes through a mapping, and some past the end of the file in its last page.
    Store {
        mapping: u8,
        at: At,
        len: u32,
        seed: u8,
    },
    SyncMapped {
        mapping: u8,
    },
    DontNeed {
        mapping: u8,
        at: At,
        len: u32,
    },
    /// Sets the length, which the device may refuse, like the next operation.
    SetLen {
        handle: u8,
        at: At,
        is_refused: bool,
    },
    Punch {
        handle: u8,
        at: At,
        len: u32,
        is_refused: bool,
    },
    /// Which changes nothing that can be read.
    Allocate {
        handle: u8,
        at: At,
        len: u32,
        is_refused: bool,
    },
    /// No other program has changed the file, so nothing is to be seen of it.
    Invalidate {
        handle: u8,
        at: At,
        len: u32,
    },
    Sync {
        handle: u8,
    },
    SyncAll,
    Open {
        file: u8,
        write: bool,
        other_name: bool,
    },
    Close {
        handle: u8,
    },
    Prefetch {
        handle: u8,
        at: At,
        len: u32,
    },
    Advise {
        handle: u8,
        advice: u8,
    },
    SetMemory {
        eighths: u8,
    },
    SetOptions {
        preset: u8,
    },
    NewCache {
        page_shift: u8,
        preset: u8,
        eighths: u8,
    },
}

impl At {
    fn draw(draw: &mut Draw) -> At {
        let any = draw.bits() as u16;
        match draw.below(13) {
            0..=3 => At::Share(any),
            4..=6 => At::PageOf(any),
            7 | 8 => At::Tail(any % 9_000),
            9 => At::Tail(0),
            _ => At::Beyond(any % 9_000, draw.below(40) as u8),
        }
    }
}

impl Op {
    /// Any operation on the one file that there is.
    pub(crate) fn draw(draw: &mut Draw) -> Op {
        let (handle, seed, page, from) = (
            draw.bits() as u8,
            draw.bits() as u8,
            draw.bits() as u16,
            draw.bits() as u16,
        );
        let at = At::draw(draw);
        let len = match draw.below(6) {
            0 => 0,
            1 => draw.below(100),
            2 => 4096,
            3 => draw.below(20_000),
            4 => 65_536,
            _ => draw.below(400_000),
        } as u32;
        match draw.below(80) {
            0..=9 => Read { handle, at, len },
            10..=29 => Write {
                handle,
                at,
                len,
                seed,
            },
            30..=33 => Append { handle, len, seed },
            34..=37 => Page { handle, page },
            38..=45 => PageMut {
                handle,
                page,
                from,
                seed,
            },
            46..=49 => Grow {
                handle,
                page,
                from,
                seed,
            },
            50 | 51 => Guards {
                handle,
                pages: [page, from, draw.bits() as u16],
                seed,
            },
            52..=56 => SetLen {
                handle,
                at,
                is_refused: seed < 40,
            },
            57 | 58 => Punch {
                handle,
                at,
                len,
                is_refused: seed < 100,
            },
            59..=61 => Invalidate { handle, at, len },
            62 => Allocate {
                handle,
                at,
                len,
                is_refused: seed < 100,
            },
            63..=66 => Sync { handle },
            67 => SyncAll,
            68 | 69 => Open {
                file: 0,
                write: seed < 170,
                other_name: from % 2 == 0,
            },
            70 | 71 => Close { handle },
            72 | 73 => Prefetch { handle, at, len },
            74 => Advise { handle, advice: seed },
            75 | 76 => SetMemory { eighths: seed },
            77 | 78 => SetOptions { preset: seed },
            _ => NewCache {
                page_shift: handle,
                preset: seed,
                eighths: page as u8,
            },
        }
    }
}
