//! Files: where their pages are, which are dirty, and the flusher's three lists of files.
//!
//! ```text
//!   first dirtied ─► dirty ──expired, or background──► io ──slice used up──► more_io ──► io, behind what is there
//!                      ▲                               │
//!                      └── still dirty, slice not used up: as if dirtied now
//! ```
//!
//! (`fs-writeback.c` of 3.0: `b_dirty`, `b_io`, `b_more_io`.) A file's date is that of its first change since it was clean.

use super::memory::NONE;
use millpond_core::units::{Instant, Nanos};
use std::collections::VecDeque;

/// The queue of a file.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Queued {
    No,
    Dirty,
    Io,
    MoreIo,
}

/// A file.
#[derive(Debug)]
pub(super) struct File {
    /// The frame of each page.
    frames: Vec<u32>,
    /// A bit for each dirty page.
    dirty: Vec<u64>,
    pub(super) dirty_pages: u64,
    resident: u64,
    /// The start of its next write-back (`writeback_index`).
    pub(super) cursor: u64,
    since: Instant,
    queued: Queued,
    /// The thread that writes it back (`I_SYNC`).
    pub(super) locked: bool,
    /// Reclaim has met its dirty pages (patch 5).
    flagged: bool,
    /// Its location.
    pub(super) offset: u64,
}

/// All files, and the lists.
#[derive(Debug, Default)]
pub(super) struct Files {
    files: Vec<File>,
    dirty: VecDeque<u32>,
    io: VecDeque<u32>,
    more_io: VecDeque<u32>,
    flagged: u64,
}

impl Files {
    /// A new file at `offset` of the disk.
    pub(super) fn add(&mut self, pages: u64, offset: u64) -> u32 {
        self.files.push(File {
            frames: vec![NONE; pages as usize],
            dirty: vec![0; pages.div_ceil(64) as usize],
            dirty_pages: 0,
            resident: 0,
            cursor: 0,
            since: Instant(0),
            queued: Queued::No,
            locked: false,
            flagged: false,
            offset,
        });
        (self.files.len() - 1) as u32
    }

    pub(super) fn file(&mut self, file: u32) -> &mut File {
        &mut self.files[file as usize]
    }

    pub(super) fn set_frame(&mut self, file: u32, page: u32, frame: u32) {
        let file = &mut self.files[file as usize];
        file.frames[page as usize] = frame;
        file.resident += 1;
    }

    /// The page's frame is another's from now on. A file that has none left needs no table.
    pub(super) fn forget_frame(&mut self, file: u32, page: u32) {
        let file = &mut self.files[file as usize];
        file.frames[page as usize] = NONE;
        file.resident -= 1;
    }

    pub(super) fn frame(&self, file: u32, page: u64) -> u32 {
        self.files[file as usize].frames[page as usize]
    }

    /// A file that is written and out of memory keeps no table.
    pub(super) fn close(&mut self, file: u32) {
        let file = &mut self.files[file as usize];
        if file.resident == 0 && file.dirty_pages == 0 {
            (file.frames, file.dirty) = (Vec::new(), Vec::new());
        }
    }

    /// A page has become dirty.
    pub(super) fn dirtied(&mut self, now: Instant, number: u32, page: u32) {
        let file = &mut self.files[number as usize];
        file.dirty[page as usize / 64] |= 1 << (page % 64);
        file.dirty_pages += 1;
        if file.queued == Queued::No {
            (file.since, file.queued) = (now, Queued::Dirty);
            self.dirty.push_back(number);
        }
    }

    /// A page is clean, or on its way.
    pub(super) fn cleaned(&mut self, file: u32, page: u64) {
        let file = &mut self.files[file as usize];
        file.dirty[page as usize / 64] &= !(1 << (page % 64));
        file.dirty_pages -= 1;
    }

    /// The first dirty page from `from` on, and how many follow it, `most` in all.
    pub(super) fn run(&self, file: u32, from: u64, most: u64) -> Option<(u64, u64)> {
        let file = &self.files[file as usize];
        let pages = file.frames.len() as u64;
        let is_dirty = |page: u64| file.dirty[page as usize / 64] >> (page % 64) & 1 == 1;
        let mut word = from as usize / 64;
        let mut bits = file.dirty.get(word)? & (u64::MAX << (from % 64));
        while bits == 0 {
            word += 1;
            bits = *file.dirty.get(word)?;
        }
        let first = word as u64 * 64 + u64::from(bits.trailing_zeros());
        let length = (first..pages.min(first + most))
            .take_while(|&page| is_dirty(page))
            .count();
        Some((first, length as u64))
    }

    /// Reclaim has met a dirty page of it: it is written first (patch 5).
    pub(super) fn flag(&mut self, file: u32) {
        let file = &mut self.files[file as usize];
        self.flagged += u64::from(!std::mem::replace(&mut file.flagged, true));
    }

    /// Fills the dispatch list: what is to be continued, then flagged files whatever their age, then those older than
    /// `expired`; `None`: all.
    pub(super) fn queue(&mut self, now: Instant, expired: Option<Nanos>) {
        let Files {
            files,
            dirty,
            io,
            more_io,
            flagged,
        } = self;
        for file in more_io.drain(..) {
            files[file as usize].queued = Queued::Io;
            io.push_back(file);
        }
        if *flagged > 0 {
            let (first, rest): (Vec<u32>, Vec<u32>) =
                dirty.drain(..).partition(|&file| files[file as usize].flagged);
            dirty.extend(rest);
            for file in first {
                files[file as usize].queued = Queued::Io;
                io.push_back(file);
            }
            files.iter_mut().for_each(|file| file.flagged = false);
            *flagged = 0;
        }
        while let Some(&file) = dirty.front() {
            if expired.is_some_and(|age| now.since(files[file as usize].since).0 < age.0) {
                break;
            }
            dirty.pop_front();
            files[file as usize].queued = Queued::Io;
            io.push_back(file);
        }
    }

    /// Takes the next file to be written back, and locks it; those that another thread writes back come later.
    pub(super) fn begin(&mut self) -> Option<u32> {
        while let Some(number) = self.io.pop_front() {
            let file = &mut self.files[number as usize];
            if file.locked {
                file.queued = Queued::MoreIo;
                self.more_io.push_back(number);
                continue;
            }
            file.locked = true;
            return Some(number);
        }
        None
    }

    /// The file's turn is over. `used_up`: because the slice was.
    pub(super) fn end(&mut self, now: Instant, number: u32, used_up: bool) {
        let file = &mut self.files[number as usize];
        file.locked = false;
        if file.dirty_pages == 0 {
            file.queued = Queued::No;
        } else if used_up {
            file.queued = Queued::MoreIo;
            self.more_io.push_back(number);
        } else {
            (file.since, file.queued) = (now, Queued::Dirty);
            self.dirty.push_back(number);
        }
    }

    /// Dirty pages of all files, counted anew.
    pub(super) fn dirty_pages(&self) -> u64 {
        self.files.iter().map(|file| file.dirty_pages).sum()
    }

    /// Whether files wait to be continued.
    pub(super) fn has_more(&self) -> bool {
        !self.more_io.is_empty() || !self.io.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Files 0 to 2, each with one dirty page; the first is the oldest.
    fn three() -> Files {
        let mut files = Files::default();
        for n in 0..3 {
            files.add(10, n * 40_960);
            files.dirtied(Instant(n), n as u32, 0);
        }
        files
    }

    #[test]
    fn the_oldest_file_is_first_and_one_whose_slice_was_used_up_comes_behind_the_others() {
        let mut files = three();
        files.queue(Instant(10), None);
        assert_eq!(files.begin(), Some(0));
        files.end(Instant(10), 0, true);
        assert_eq!(
            [files.begin(), files.begin(), files.begin()],
            [Some(1), Some(2), None]
        );
        files.queue(Instant(10), None);
        assert_eq!(files.begin(), Some(0));
    }

    #[test]
    fn without_a_flag_only_what_has_expired_is_written_and_a_flagged_file_goes_first() {
        let mut files = three();
        files.queue(Instant(2), Some(Nanos(2)));
        assert_eq!([files.begin(), files.begin()], [Some(0), None]);
        files.flag(2);
        files.queue(Instant(2), Some(Nanos(1)));
        assert_eq!([files.begin(), files.begin()], [Some(2), Some(1)]);
    }

    #[test]
    fn a_file_in_other_hands_is_left_for_later() {
        let mut files = three();
        files.queue(Instant(9), None);
        assert_eq!(files.begin(), Some(0));
        files.dirtied(Instant(9), 0, 1);
        files.file(1).locked = true;
        assert_eq!(files.begin(), Some(2));
        assert!(files.has_more());
    }

    #[test]
    fn runs_are_found_across_words_and_end_where_a_page_is_clean() {
        let mut files = Files::default();
        files.add(200, 0);
        (60..70)
            .chain([72])
            .for_each(|page| files.dirtied(Instant(0), 0, page));
        assert_eq!(files.run(0, 0, 100), Some((60, 10)));
        assert_eq!(files.run(0, 0, 4), Some((60, 4)));
        assert_eq!(files.run(0, 70, 100), Some((72, 1)));
        assert_eq!(files.run(0, 73, 100), None);
        assert_eq!(files.dirty_pages(), 11);
    }
}
