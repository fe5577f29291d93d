//! The words that are touched, and their order.

use super::super::data::PAGE;
use super::super::kim2020::loads::Zipf;
use super::access::{Access, NUMBER};
use super::{Mapped, RECORD};
use crate::error::{LabError, Result};
use millpond_sim::draw::Draw;
use serde::{Deserialize, Serialize};
use std::io;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// A load. Numbers are those of threads.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Load {
    /// A word of any page.
    Uniform(u32),
    /// The same by Zipf's law: the nth page as often as 1/n.
    Zipf(u32),
    /// A word of any page is read, and one is written.
    Change(u32),
    /// A word of each page of any record.
    Records,
    /// The same with one record after the other.
    Sequential,
    /// A word of any page of a part that is in memory, a quarter of it.
    InMemory,
    /// A hot set of half of memory, and as many pages of a scan.
    HotBesideScan,
    /// A word of any page, beside two writers at full speed.
    ReaderBesideWriters,
    /// Lists of vectors, each read whole by one of four threads, by Zipf's law.
    Vectors,
    /// Layers of twice the memory, read whole and in order, again and again.
    Weights,
}

/// The number of in-memory touches timed together: reading the clock takes as long as one.
const TOGETHER: u64 = 1000;
/// Faults take microseconds, other touches nanoseconds.
const NO_FAULT: Duration = Duration::from_nanos(500);
/// Times that each page of what is to be in memory is touched at most, in the mean.
const PASSES: u32 = 20;

impl Load {
    /// Threads that touch, while it is measured.
    pub(super) fn threads(self) -> u32 {
        match self {
            Load::Uniform(threads) | Load::Zipf(threads) | Load::Change(threads) => threads,
            Load::Vectors => 4,
            _ => 1,
        }
    }

    /// Whether earlier touches say nothing about the next.
    pub(super) fn is_random(self) -> bool {
        !matches!(self, Load::Sequential | Load::Weights | Load::InMemory)
    }
}

/// The common source of all threads' draws.
pub(super) struct Draws {
    work: Mapped,
    /// Pages that are touched, or records.
    count: u64,
    zipf: Option<Arc<Zipf>>,
}

impl Draws {
    pub(super) fn new(work: &Mapped, memory: u64) -> Draws {
        let (pages, records) = (work.pages(), work.file_bytes / RECORD);
        let count = match work.load {
            Load::Records | Load::Sequential | Load::Vectors => records,
            Load::Weights => (2 * memory / RECORD).clamp(1, records),
            Load::InMemory => (memory / 4 / PAGE as u64).clamp(1, pages),
            _ => pages,
        };
        let is_zipf = matches!(work.load, Load::Zipf(_) | Load::Vectors);
        Draws {
            zipf: is_zipf.then(|| Arc::new(Zipf::new(count, 10, work.seed))),
            work: work.clone(),
            count,
        }
    }

    /// Touches the part that should be in memory in random order, until touches no longer fault: a page is kept at its
    /// second use.
    pub(super) fn bring_part(&self, access: &impl Access) -> Result<()> {
        let (mut touches, mut passes) = (self.of(0), 0);
        let mut is_there = self.work.load != Load::InMemory;
        while !is_there && passes < PASSES {
            let began = Instant::now();
            (0..self.count).try_for_each(|_| touch(access, touches.draw()))?;
            is_there = began.elapsed() < NO_FAULT * self.count as u32;
            passes += 1;
        }
        Ok(())
    }

    /// The touches of one thread.
    pub(super) fn of(&self, thread: u32) -> Touches {
        Touches {
            load: self.work.load,
            count: self.count,
            zipf: self.zipf.clone(),
            draw: Draw(self.work.seed.wrapping_mul(1_000_003) ^ u64::from(thread) << 32),
            next: 0,
        }
    }
}

/// The touches of a thread.
pub(super) struct Touches {
    load: Load,
    count: u64,
    zipf: Option<Arc<Zipf>>,
    draw: Draw,
    next: u64,
}

impl Touches {
    fn draw(&mut self) -> u64 {
        match &self.zipf {
            Some(zipf) => zipf.draw(&mut self.draw).into(),
            None if self.load.is_random() || self.load == Load::InMemory => self.draw.below(self.count),
            None => {
                self.next = (self.next + 1) % self.count;
                self.next
            }
        }
    }

    /// One access: how long it took, and for how many it stands.
    pub(super) fn perform(&mut self, access: &impl Access) -> Result<(Duration, u64)> {
        let which = self.draw();
        let record = which * RECORD / PAGE as u64..(which + 1) * RECORD / PAGE as u64;
        let began = Instant::now();
        let mut accesses = 1;
        match self.load {
            Load::Change(_) => check(which, access.change(which * PAGE as u64)?)?,
            Load::Records | Load::Sequential => {
                for page in record {
                    touch(access, page)?;
                }
            }
            Load::Vectors | Load::Weights => {
                std::hint::black_box(access.sum(which * RECORD, RECORD)?);
                touch(access, record.start)?;
            }
            Load::InMemory => {
                touch(access, which)?;
                for _ in 1..TOGETHER {
                    touch(access, self.draw())?;
                }
                accesses = TOGETHER;
            }
            _ => touch(access, which)?,
        }
        Ok((began.elapsed(), accesses))
    }
}

/// Reads a page's stamp.
#[inline]
pub(super) fn touch(access: &impl Access, page: u64) -> Result<()> {
    check(page, access.load(page * PAGE as u64 + NUMBER)?)
}

#[inline]
fn check(page: u64, number: u64) -> Result<()> {
    if number == page {
        return Ok(());
    }
    let why = format!("page {page} of the file has the stamp of page {number}");
    Err(LabError::io("checking what is mapped", io::Error::other(why)))
}
