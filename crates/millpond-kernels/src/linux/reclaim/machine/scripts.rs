//! The post's loads: fs_mark, the streaming write through a mapping, and what else ran.
//!
//! `fs_mark -d DIR -D 100 -N 150 -n 150 -L 25 -t 1 -S0 -s 10485760`: 25 rounds of 150 files of 10 MiB, one thread, no sync,
//! and nothing removed. "Overhead" is its time between its calls of the file system. Beside it ran monitors, which wake now
//! and then and use memory of their own; what they and fs_mark have is what was swapped. The post does not say how much
//! that was: the habits of [`BackgroundTask`] are chosen.

use super::task::{TaskOp, TaskScript};
use millpond_core::units::{Instant, Nanos};
use millpond_sim::draw::Draw;
use std::cell::RefCell;
use std::rc::Rc;

/// Pages of a write call: fs_mark's 16 KiB.
const WRITE_PAGES: u32 = 4;

/// A task that does nothing.
pub(super) struct Idle;

impl TaskScript for Idle {
    fn next(&mut self, _: Instant) -> TaskOp {
        TaskOp::Exit
    }
}

/// fs_mark's output for a round.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Round {
    /// From its first file to its last.
    pub took: Nanos,
    /// The part outside the file system.
    pub overhead: Nanos,
}

/// The rounds of a run.
pub type Rounds = Rc<RefCell<Vec<Round>>>;

/// fs_mark.
pub struct FsMark {
    rounds_left: u32,
    files: u32,
    file_pages: u64,
    /// Its own pages: the first few are used for each file, all of them at the start of a round.
    own: (u32, u32),
    hot: u32,
    think: Nanos,
    rounds: Rounds,
    state: State,
    file: u32,
    written: u64,
    round: Round,
    began: Instant,
    last: Instant,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum State {
    RoundBegins,
    Used,
    Thought,
    Created,
    Writing,
}

impl FsMark {
    /// Rounds, files of a round, pages of a file; its own anonymous pages, and how many of them each file needs.
    pub fn new(
        (rounds, files, file_pages): (u32, u32, u64),
        own: (u32, u32),
        hot: u32,
        think: Nanos,
        result: Rounds,
    ) -> FsMark {
        FsMark {
            rounds_left: rounds,
            files,
            file_pages,
            own,
            hot: hot.min(own.1),
            think,
            rounds: result,
            state: State::RoundBegins,
            file: 0,
            written: 0,
            round: Round::default(),
            began: Instant(0),
            last: Instant(0),
        }
    }
}

impl TaskScript for FsMark {
    fn next(&mut self, now: Instant) -> TaskOp {
        let took = now.since(self.last);
        self.last = now;
        match self.state {
            State::RoundBegins => {
                (self.began, self.file, self.round) = (now, 0, Round::default());
                self.state = State::Used;
                TaskOp::Touch {
                    first: self.own.0,
                    pages: self.own.1,
                    changes: true,
                }
            }
            State::Used => {
                self.round.overhead = self.round.overhead + took;
                self.state = State::Thought;
                TaskOp::Think(self.think)
            }
            State::Thought => {
                self.round.overhead = self.round.overhead + took;
                (self.state, self.written) = (State::Created, 0);
                TaskOp::Create {
                    pages: self.file_pages,
                }
            }
            State::Created | State::Writing if self.written < self.file_pages => {
                let pages = WRITE_PAGES.min((self.file_pages - self.written) as u32);
                (self.state, self.written) = (State::Writing, self.written + u64::from(pages));
                TaskOp::Write { pages }
            }
            State::Created | State::Writing => {
                self.file += 1;
                if self.file < self.files {
                    self.state = State::Used;
                    return TaskOp::Touch {
                        first: self.own.0,
                        pages: self.hot,
                        changes: true,
                    };
                }
                self.round.took = now.since(self.began);
                self.rounds.borrow_mut().push(self.round);
                self.rounds_left -= 1;
                if self.rounds_left == 0 {
                    return TaskOp::Exit;
                }
                self.state = State::RoundBegins;
                TaskOp::Think(Nanos(1_000))
            }
        }
    }
}

/// The micro benchmark: one large shared mapping, written from its start to its end.
pub struct Micro {
    pages: u64,
    at: u64,
    own: (u32, u32),
    state: u8,
}

impl Micro {
    /// A mapping of this many pages, and the program's own anonymous pages.
    pub fn new(pages: u64, own: (u32, u32)) -> Micro {
        Micro {
            pages,
            at: 0,
            own,
            state: 0,
        }
    }
}

impl TaskScript for Micro {
    fn next(&mut self, _: Instant) -> TaskOp {
        match self.state {
            0 => {
                self.state = 1;
                TaskOp::Create { pages: self.pages }
            }
            1 => {
                self.state = 2;
                TaskOp::Touch {
                    first: self.own.0,
                    pages: self.own.1,
                    changes: true,
                }
            }
            _ if self.at == self.pages => TaskOp::Exit,
            _ => {
                let pages = 512.min(self.pages - self.at) as u32;
                self.at += u64::from(pages);
                self.state = 1;
                TaskOp::MapWrite { pages }
            }
        }
    }
}

/// Programs beside the load that wake periodically, use pages of their own, end, and are started again.
pub struct BackgroundTask {
    own: (u32, u32),
    habits: Habits,
    draw: Draw,
    left: u32,
}

/// Its work each time it wakes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Habits {
    /// Its sleep in between.
    pub period: Nanos,
    /// Runs of its pages that it uses.
    pub runs: u32,
    /// Pages of each.
    pub run_pages: u32,
    /// One run in this many is changed.
    pub changed_one_in: u64,
    /// One run in this many belongs to a program that ends and is started again: its pages are new.
    pub renewed_one_in: u64,
}

impl BackgroundTask {
    /// With these anonymous pages: the first, and their number.
    pub fn new(own: (u32, u32), habits: Habits, seed: u64) -> BackgroundTask {
        BackgroundTask {
            own,
            habits,
            draw: Draw(seed),
            left: 0,
        }
    }
}

impl TaskScript for BackgroundTask {
    fn next(&mut self, _: Instant) -> TaskOp {
        let Habits {
            period,
            runs,
            run_pages,
            changed_one_in,
            renewed_one_in,
        } = self.habits;
        let pages = run_pages.min(self.own.1);
        if self.left == 0 {
            self.left = runs;
            return TaskOp::Sleep(period);
        }
        self.left -= 1;
        let places = u64::from(self.own.1 - pages) + 1;
        let first = self.own.0 + self.draw.below(places) as u32;
        if self.draw.below(renewed_one_in) == 0 {
            // The next program that uses them gets new ones, whenever that is.
            return TaskOp::Release { first, pages };
        }
        TaskOp::Touch {
            first,
            pages,
            changes: self.draw.below(changed_one_in) == 0,
        }
    }
}
