//! One process of a [`World`](crate::World) that writes new pages, file after file, and reuses none: fs_mark without
//! its counting, or a stream into one long file.

use crate::process::{Done, Op, Script};
use millpond_core::units::{FileId, Instant, Nanos};
use std::cell::RefCell;
use std::rc::Rc;

/// When each round of files ended.
pub type RoundsEnded = Rc<RefCell<Vec<Instant>>>;

/// The process.
pub struct Stream {
    files: Vec<FileId>,
    pages: u64,
    step: u32,
    /// Files of a round, and what is done before each file.
    round: usize,
    think: Nanos,
    at: (usize, u64),
    thought: bool,
    ended: RoundsEnded,
}

impl Stream {
    /// Writes `files`, each of `pages` pages, in calls of `step`; thinks before each; notes when each `round` files ended.
    pub fn new(
        files: Vec<FileId>,
        (pages, step): (u64, u32),
        round: usize,
        think: Nanos,
        ended: RoundsEnded,
    ) -> Stream {
        Stream {
            files,
            pages,
            step,
            round,
            think,
            at: (0, 0),
            thought: false,
            ended,
        }
    }
}

impl Script for Stream {
    fn next(&mut self, now: Instant, _: Option<&Done>) -> Op {
        let (n, first) = self.at;
        if first == 0 && !std::mem::replace(&mut self.thought, true) {
            if n > 0 && n.is_multiple_of(self.round) {
                self.ended.borrow_mut().push(now);
            }
            if n < self.files.len() && self.think > Nanos::ZERO {
                return Op::Sleep(self.think);
            }
        }
        if n == self.files.len() {
            return Op::Exit;
        }
        let pages = u64::from(self.step).min(self.pages - first);
        self.at = match first + pages == self.pages {
            true => (n + 1, 0),
            false => (n, first + pages),
        };
        self.thought &= self.at.1 != 0;
        Op::Write {
            file: self.files[n],
            first,
            pages: pages as u32,
        }
    }
}
