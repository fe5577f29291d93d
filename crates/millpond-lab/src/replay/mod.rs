//! `millpond replay`: what other sizes of memory, and other policies, would have made of a recorded load.
//!
//! ```text
//!   trace ──► load: files, and what each thread does, with the time that it thinks in between
//!               │
//!               ├──► drive: the simulator's world with so many frames, that policy, that disk      for each
//!               └──► models of policies, the optimum that knows the future among them              memory and policy
//!                                                                           │
//!                                                     report: table, curves, how much memory it needs
//! ```
//!
//! Time is virtual, so the same trace gives the same numbers everywhere. A thread does one thing after the other and waits for
//! it, as it did when it was recorded; where it waits longer or shorter than then, what follows comes later or earlier.

mod drive;
mod load;
mod plot;
mod report;

pub use load::{Load, Step};
pub use plot::plot;

use crate::disk_model::DiskModel;
use crate::error::{LabError, Result};
use crate::machine;
use crate::report::Report;
use crate::watch::Proceed;
use crate::watch::Watch;
use millpond::PageCache;
use millpond::internal::quantity::parse_size;
use millpond_core::lru::{Detection, LinuxOptions, Replacement};
use millpond_core::manager::FRAMES_MIN;
use millpond_core::options::{Options, Preset};
use millpond_core::units::{Bytes, Nanos, PageCount, PageSize};
use millpond_sim::policy::Model;
use std::fmt;
use std::str::FromStr;

/// Names of all policies, separated by commas.
pub const POLICIES: &str = "millpond, linux-6, linux-5, dillon-2000, opt, lru, clock, two-lists, arc, lirs, s3-fifo, sieve, clock2q+, \
     w-tinylfu, millpond-rule";

/// The owner of the memory.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Policy {
    /// A named set of options, in the simulator.
    Preset(Preset),
    /// The rules of Linux 5.9 to 6.x for file pages, the rest as the preset `linux-5`.
    Linux6,
    /// A model of a policy of replacement alone: misses only, one page at a time.
    Count(Model),
}

impl Policy {
    /// The name that users write.
    pub fn name(self) -> &'static str {
        match self {
            Policy::Preset(preset) => preset.name(),
            Policy::Linux6 => "linux-6",
            Policy::Count(model) => model.name(),
        }
    }

    /// Its options; `None` if it only counts.
    fn options(self, page_size: PageSize) -> Option<Options> {
        let options = match self {
            Policy::Preset(preset) => preset.options(),
            Policy::Linux6 => Options {
                replacement: Replacement::Linux(LinuxOptions {
                    detection: Detection::Linux5_9,
                    ..LinuxOptions::default()
                }),
                ..Preset::Linux5.options()
            },
            Policy::Count(_) => return None,
        };
        Some(Options { page_size, ..options })
    }
}

impl FromStr for Policy {
    type Err = LabError;

    fn from_str(name: &str) -> Result<Policy> {
        let presets = Preset::ALL.into_iter().map(Policy::Preset);
        let models = Model::ALL.into_iter().map(Policy::Count);
        let mut all = presets.chain([Policy::Linux6]).chain(models);
        all.find(|policy| policy.name() == name)
            .ok_or_else(|| LabError::UnknownName {
                what: "policy",
                value: name.into(),
                allowed: POLICIES.into(),
            })
    }
}

/// A cache's memory.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Memory {
    /// A budget for everything, as [`millpond::Builder::memory`] takes it.
    Budget(Bytes),
    /// A number of pages.
    Pages(u64),
}

impl Memory {
    /// The number of pages that fit, in a cache that sets aside the same share as the recorded one.
    ///
    /// # Errors
    /// [`LabError::BadValue`] if they are too few for a cache.
    fn frames(self, load: &Load) -> Result<PageCount> {
        let all =
            PageCache::pages_in(self.bytes(load), load.page_size).map_err(|error| LabError::BadValue {
                option: "--memory",
                value: self.to_string(),
                allowed: error.to_string(),
                instead: "give more".into(),
            })?;
        Ok(load.share.of(all).max(FRAMES_MIN))
    }

    /// The budget that this is, or comes to.
    fn bytes(self, load: &Load) -> Bytes {
        match self {
            Memory::Budget(bytes) => bytes,
            Memory::Pages(pages) => PageCache::memory_for(load.share.whole(PageCount(pages)), load.page_size),
        }
    }
}

impl fmt::Display for Memory {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Memory::Budget(bytes) => f.write_str(&millpond::internal::quantity::size(*bytes)),
            Memory::Pages(pages) => write!(f, "{pages} pages"),
        }
    }
}

impl FromStr for Memory {
    type Err = String;

    fn from_str(text: &str) -> std::result::Result<Memory, String> {
        if let Some(pages) = text.strip_suffix("pages") {
            let pages = pages.trim().parse();
            return pages
                .map(Memory::Pages)
                .map_err(|_| format!("{text}: give a number of pages, such as 4897pages"));
        }
        parse_size(text).map(Memory::Budget)
    }
}

/// The time between the calls of a thread.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Pace {
    /// As recorded: from the end of a call to the next.
    Recorded,
    /// Not at all: each call comes when the one before has ended.
    None,
}

/// The load and the machine.
#[derive(Clone, Debug)]
pub struct ReplayOptions {
    /// Sizes of memory; none: seven, from a thirty-second of the pages that the load uses up to one and a half times all of
    /// them, and the recorded one.
    pub memory: Vec<Memory>,
    /// Policies.
    pub policies: Vec<Policy>,
    /// The disk.
    pub device: DiskModel,
    /// Whether threads think.
    pub pace: Pace,
    /// The command that does this again.
    pub command: String,
}

/// The result of a run.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Ran {
    /// Pages that a call needed the content of and that were not in memory.
    pub misses: u64,
    /// Pages that were read before a call needed them.
    pub read_ahead: u64,
    /// How long calls waited, all threads together.
    pub stalled: Nanos,
    /// The longest wait of a call.
    pub stalled_max: Nanos,
    /// Bytes that went to the disk until the last call had ended.
    pub written: Bytes,
    /// From the first call to the end of the last.
    pub took: Nanos,
}

impl Ran {
    /// Pages that were read from the disk, whether a call needed them or not.
    pub fn read(&self) -> u64 {
        self.misses + self.read_ahead
    }
}

/// A size of memory, and what each policy made of it.
#[derive(Clone, Debug)]
pub struct Point {
    /// The amount of memory.
    pub memory: Memory,
    /// As a budget.
    pub bytes: Bytes,
    /// Pages of content.
    pub frames: PageCount,
    /// In the order of the policies; for those that only count, just the misses mean anything.
    pub runs: Vec<Ran>,
}

/// Replays a load on every memory with every policy.
///
/// # Errors
/// [`LabError::BadValue`] if a memory is too small, or there is nothing to replay; [`LabError::Interrupted`].
pub fn run(load: &Load, options: &ReplayOptions, watch: &mut dyn Watch) -> Result<Vec<Point>> {
    if load.uses == 0 {
        return Err(LabError::BadValue {
            option: "the trace",
            value: load.name.clone(),
            allowed: "no page of a file is read or written in it".into(),
            instead: "record while the cache is in use".into(),
        });
    }
    let memory = if options.memory.is_empty() {
        load.memories()
    } else {
        options.memory.clone()
    };
    let mut points = Vec::new();
    let all = (memory.len() * options.policies.len()) as f64;
    for (n, &memory) in memory.iter().enumerate() {
        let frames = memory.frames(load)?;
        if options
            .policies
            .iter()
            .any(|policy| policy.options(load.page_size).is_some())
        {
            machine::check_simulated("--memory", memory.to_string(), frames, PageCount(0))?;
            let pages = load
                .files
                .iter()
                .fold(0, |all: u64, &pages| all.saturating_add(pages));
            machine::check_simulated("the trace", &load.name, PageCount(0), PageCount(pages))?;
        }
        let mut runs = Vec::new();
        for (m, &policy) in options.policies.iter().enumerate() {
            let done = (n * options.policies.len() + m) as f64;
            let step = format!(
                "{} with {}",
                policy.name(),
                millpond::internal::quantity::size(memory.bytes(load))
            );
            let mut at = |share: f64| match watch.at((done + share) / all, &step, "") {
                Proceed::Yes => Ok(()),
                Proceed::Stop => Err(LabError::Interrupted),
            };
            at(0.0)?;
            runs.push(match (policy, policy.options(load.page_size)) {
                (_, Some(policy)) => drive::run(load, policy, frames, options, &mut at)?,
                (Policy::Count(model), None) => Ran {
                    misses: model.misses(&load.order, frames.0, &mut at)?,
                    ..Ran::default()
                },
                (_, None) => Ran::default(),
            });
        }
        let bytes = memory.bytes(load);
        points.push(Point {
            memory,
            bytes,
            frames,
            runs,
        });
    }
    points.sort_by_key(|point| point.bytes);
    Ok(points)
}

/// The results, for people and programs.
pub fn report(load: &Load, options: &ReplayOptions, points: &[Point]) -> Report {
    report::report(load, options, points)
}
