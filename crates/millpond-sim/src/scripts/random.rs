//! Scripts for the processes of randomly drawn worlds.

use crate::draw::Draw;
use crate::process::{Done, Failure, Op, Script};
use millpond_core::manager::FRAMES_MIN;
use millpond_core::readahead::Pattern;
use millpond_core::units::{FileId, Instant, Nanos, PageCount};

/// Does anything to a few files.
pub(crate) struct Anything {
    pub(crate) draw: Draw,
    pub(crate) left: u32,
    /// The files and their pages.
    pub(crate) files: Vec<(FileId, u64)>,
    /// The end of the last operation: some continue from there.
    pub(crate) next: (FileId, u64),
    /// The maximum number of pages guarded at a time.
    pub(crate) guards: u64,
}

impl Script for Anything {
    fn next(&mut self, _: Instant, done: Option<&Done>) -> Op {
        let draw = &mut self.draw;
        if let Some(Done {
            op: Op::Sync { file },
            result: Err(Failure::Sync),
            ..
        }) = done
            && draw.one_in(2)
        {
            return Op::Reopen { file: *file };
        }
        if self.left == 0 {
            return Op::Exit;
        }
        self.left -= 1;
        let (file, len) = self.files[draw.below(self.files.len() as u64) as usize];
        let (file, first) = if draw.one_in(2) && self.next.1 < len {
            self.next
        } else {
            // A tenth of the file is a hundred times as hot as the rest.
            let span = if draw.one_in(10) { len } else { (len / 10).max(1) };
            (file, draw.below(span))
        };
        let len = self.files.iter().find(|f| f.0 == file).map_or(1, |f| f.1);
        let most = if draw.one_in(8) { 200 } else { 4 };
        let pages = (1 + draw.below(most)).min(len - first) as u32;
        self.next = (file, first + u64::from(pages));
        match draw.below(200) {
            0..84 => Op::Read { file, first, pages },
            84..168 => Op::Write { file, first, pages },
            168..176 => Op::Sync { file },
            // The whole file as often as a part.
            176..179 => Op::Truncate {
                file,
                first: if draw.one_in(2) { 0 } else { first },
            },
            179..181 => Op::Prefetch { file, first, pages },
            181..188 => Op::Guard {
                file,
                first,
                pages: u64::from(pages).min(self.guards) as u32,
                change: draw.one_in(2),
                span: Nanos(draw.below(50_000_000)),
            },
            188..190 => Op::Reopen { file },
            190..192 => Op::Advise {
                file,
                pattern: [Pattern::Normal, Pattern::Random, Pattern::Sequential][draw.below(3) as usize],
            },
            _ => Op::Sleep(Nanos(draw.below(20_000_000))),
        }
    }
}

/// Changes the budget and the options while others are at work.
pub(crate) struct Operator {
    pub(crate) draw: Draw,
    pub(crate) left: u32,
    /// The most frames that it gives; 0: it leaves the budget alone.
    pub(crate) frames_max: PageCount,
    /// Sets of options that it chooses from; 0: it leaves them alone.
    pub(crate) options: usize,
    pub(crate) pause_max: Nanos,
}

impl Script for Operator {
    fn next(&mut self, _: Instant, done: Option<&Done>) -> Op {
        let draw = &mut self.draw;
        if self.left == 0 {
            return Op::Exit;
        }
        if !matches!(done, Some(Done { op: Op::Sleep(_), .. })) {
            return Op::Sleep(Nanos(1 + draw.below(self.pause_max.0)));
        }
        self.left -= 1;
        let retunes = self.options > 0 && (self.frames_max == PageCount(0) || draw.one_in(2));
        if retunes {
            return Op::Retune {
                number: draw.below(self.options as u64) as usize,
            };
        }
        let more = self.frames_max.saturating_sub(FRAMES_MIN).0 + 1;
        Op::SetMemory {
            frames: FRAMES_MIN + PageCount(draw.below(more)),
        }
    }
}

/// Performs the given actions, from the last on.
pub(crate) struct Told(pub(crate) Vec<Op>);

impl Script for Told {
    fn next(&mut self, _: Instant, _: Option<&Done>) -> Op {
        self.0.pop().unwrap_or(Op::Exit)
    }
}

/// Syncs all files, again and again until it works; closes those that refuse and opens them again.
pub(crate) struct SyncAll {
    pub(crate) files: Vec<FileId>,
    /// How often it may be refused.
    pub(crate) patience: u32,
}

impl Script for SyncAll {
    fn next(&mut self, _: Instant, done: Option<&Done>) -> Op {
        match done {
            Some(Done {
                op: Op::Sync { .. },
                result: Ok(()),
                ..
            }) => {
                self.files.pop();
            }
            Some(Done {
                op: Op::Sync { file },
                result: Err(failure),
                ..
            }) => {
                assert!(
                    self.patience > 0,
                    "{file:?} can't be synced though nothing fails: {failure:?}"
                );
                self.patience -= 1;
                if *failure == Failure::Sync {
                    return Op::Reopen { file: *file };
                }
            }
            _ => {}
        }
        self.files.last().map_or(Op::Exit, |&file| Op::Sync { file })
    }
}
