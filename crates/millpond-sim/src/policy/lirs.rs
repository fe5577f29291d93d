//! LIRS (Jiang and Zhang, SIGMETRICS 2002): pages are ranked by the distance between their last two uses.
//!
//! ```text
//!   S  all pages used since the oldest LIR page was: LIR (hot), HIR in memory, HIR not in memory
//!   Q  HIR pages in memory, 1 % of it; victims come from its oldest end
//! ```
//!
//! A HIR page used while on S has a shorter distance than the LIR page at the bottom of S: they swap roles. The bottom
//! of S is always a LIR page; HIR pages below it are forgotten. S holds at most twice as many pages as memory. To stay
//! within that, the oldest HIR page not in memory is forgotten first; the paper bounds S without saying where.

use super::Policy;
use super::lists::Lists;

/// One page of memory in this many is for HIR pages: the paper's 1 %.
const HIR_ONE_IN: u32 = 100;
/// S holds this many times the pages of memory.
const STACK_TIMES: u32 = 2;

const S: usize = 0;
const Q: usize = 0;
const GHOSTS: usize = 1;

#[derive(Clone, Copy, PartialEq, Eq)]
enum Status {
    Lir,
    Hir,
    Gone,
}

pub(super) struct Lirs {
    frames: u32,
    lir_max: u32,
    lir: u32,
    status: Vec<Status>,
    stack: Lists<1>,
    /// Q, and the pages of S that are not in memory in the order in which they left it.
    queues: Lists<2>,
}

impl Lirs {
    pub(super) fn new(pages: u32, frames: u32) -> Lirs {
        Lirs {
            frames,
            lir_max: frames - (frames / HIR_ONE_IN).max(1),
            lir: 0,
            status: vec![Status::Gone; pages as usize],
            stack: Lists::new(pages),
            queues: Lists::new(pages),
        }
    }

    /// Forgets what is below the oldest LIR page of S.
    fn prune(&mut self) {
        while let Some(page) = self.stack.oldest(S)
            && self.status[page as usize] != Status::Lir
        {
            self.stack.remove(page);
            if self.status[page as usize] == Status::Gone {
                self.queues.remove(page);
            }
        }
    }

    /// Makes the LIR page at the bottom of S a HIR page.
    fn demote(&mut self) {
        self.prune();
        if let Some(page) = self.stack.pop(S) {
            self.status[page as usize] = Status::Hir;
            self.lir -= 1;
            self.queues.push(Q, page);
            self.prune();
        }
    }

    fn promote(&mut self, page: u32) {
        self.queues.remove(page);
        self.status[page as usize] = Status::Lir;
        self.lir += 1;
        self.stack.push(S, page);
        if self.lir > self.lir_max {
            self.demote();
        }
        self.prune();
    }

    /// The oldest page of Q leaves memory; S remembers it if it has it.
    fn evict(&mut self) {
        if let Some(page) = self.queues.pop(Q) {
            self.status[page as usize] = Status::Gone;
            if self.stack.has(S, page) {
                self.queues.push(GHOSTS, page);
            }
        }
    }

    fn miss(&mut self, page: u32) {
        if self.lir + self.queues.len(Q) == self.frames {
            self.evict();
        }
        if self.lir < self.lir_max || self.stack.has(S, page) {
            self.promote(page);
        } else {
            self.status[page as usize] = Status::Hir;
            self.stack.push(S, page);
            self.queues.push(Q, page);
        }
    }
}

impl Policy for Lirs {
    fn access(&mut self, page: u32) -> bool {
        let status = self.status[page as usize];
        match status {
            Status::Lir => {
                self.stack.push(S, page);
                self.prune();
            }
            Status::Hir if self.stack.has(S, page) => self.promote(page),
            Status::Hir => {
                self.stack.push(S, page);
                self.queues.push(Q, page);
            }
            Status::Gone => self.miss(page),
        }
        while self.stack.len(S) > STACK_TIMES * self.frames
            && let Some(ghost) = self.queues.pop(GHOSTS)
        {
            self.stack.remove(ghost);
        }
        status != Status::Gone
    }
}
