//! A task's use of memory, page by page: the script for drivers that serve faults.

use millpond_core::units::{Instant, Nanos};

/// One operation. `each`: what each page costs the processor besides faults.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Op {
    /// Uses anonymous pages, one after the other.
    Touch {
        /// The first.
        first: u32,
        /// The number of pages.
        pages: u64,
        /// Changes them, or reads.
        write: bool,
        /// For each.
        each: Nanos,
    },
    /// Uses anonymous pages that are in memory often enough to make them active (`mark_page_accessed`).
    Activate {
        /// The first.
        first: u32,
        /// The number of pages.
        pages: u64,
    },
    /// Copies anonymous pages to others that are new, and gives those up.
    Copy {
        /// The first that is read.
        from: u32,
        /// The first that is written.
        to: u32,
        /// The number of pages.
        pages: u64,
        /// For each.
        each: Nanos,
    },
    /// Reads pages of a file.
    ReadFile {
        /// The first.
        first: u32,
        /// The number of pages.
        pages: u64,
        /// For each.
        each: Nanos,
    },
    /// Gives anonymous pages up.
    Drop {
        /// The first.
        first: u32,
        /// The number of pages.
        pages: u64,
    },
    /// It has ended.
    End,
}

impl Op {
    /// The number of pages concerned.
    pub fn pages(&self) -> u64 {
        match *self {
            Op::Touch { pages, .. } | Op::Copy { pages, .. } | Op::ReadFile { pages, .. } => pages,
            Op::Drop { pages, .. } | Op::Activate { pages, .. } => pages,
            Op::End => 0,
        }
    }
}

/// Says what a task does.
pub trait Script {
    /// The next operation; not called again after [`Op::End`].
    fn next(&mut self, now: Instant) -> Op;
}

/// Operations in a row.
pub struct Ops(std::vec::IntoIter<Op>);

impl Ops {
    /// These, then the end.
    pub fn new(ops: Vec<Op>) -> Ops {
        Ops(ops.into_iter())
    }
}

impl Script for Ops {
    fn next(&mut self, _now: Instant) -> Op {
        self.0.next().unwrap_or(Op::End)
    }
}
