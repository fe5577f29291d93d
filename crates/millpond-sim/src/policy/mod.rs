//! Replacement policies from the literature as exact models that count misses.
//!
//! ```text
//!   uses of pages, by number ──► one model of each policy ──► misses with so many pages of memory
//!
//!   opt          knows the future                    the least that is possible
//!   lru  clock   order of last use, and nearly so    what there is to gain is measured from here
//!   two-lists    Linux                               the core's own code, with the options of Linux 5.5
//!   arc  lirs  s3-fifo  sieve  clock2q+  w-tinylfu   from their papers
//!   millpond     the core's `Lru` itself
//! ```
//!
//! A model takes in one page at a time, evicts one for it only when memory is full, and reads nothing ahead. Pages are
//! numbered without gaps, so a model's lists are arrays; a use costs tens of nanoseconds. Where libCacheSim has the
//! same definition, a test compares the counts with it, page for page.

mod arc;
mod clock;
mod clock2q;
mod core_lru;
mod lirs;
mod lists;
mod lru;
mod opt;
mod s3_fifo;
mod sieve;
pub mod synthetic;
mod w_tinylfu;

use crate::unknown::UnknownName;
use core_lru::CoreLru;
use std::convert::Infallible;
use std::str::FromStr;

/// A replacement policy with its memory.
trait Policy {
    /// Uses `page`. Answers whether it was in memory; it is now, unless the policy lets pages pass.
    fn access(&mut self, page: u32) -> bool;
}

/// A use of a page: its number, and whether its content is needed. A page that is overwritten whole comes in without a
/// read, which is no miss.
pub type Use = (u32, bool);

/// A policy by name.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Model {
    /// Belady 1966: out goes the page that is used again last.
    Opt,
    /// Out goes the page that was used least recently.
    Lru,
    /// One list, one bit: the second chance (Corbató 1968).
    Clock,
    /// Active and inactive list with refault detection, as Linux 5.5 has them.
    TwoLists,
    /// Megiddo and Modha 2003.
    Arc,
    /// Jiang and Zhang 2002.
    Lirs,
    /// Yang and others 2023.
    S3Fifo,
    /// Zhang and others 2024.
    Sieve,
    /// Zhai and others 2026.
    Clock2QPlus,
    /// Einziger, Friedman and Manes 2017.
    WTinyLfu,
    /// Millpond's own rule with its defaults.
    Millpond,
}

impl Model {
    /// All of them, in the order of tables.
    pub const ALL: [Model; 11] = [
        Model::Opt,
        Model::Lru,
        Model::Clock,
        Model::TwoLists,
        Model::Arc,
        Model::Lirs,
        Model::S3Fifo,
        Model::Sieve,
        Model::Clock2QPlus,
        Model::WTinyLfu,
        Model::Millpond,
    ];

    /// The name that users write.
    pub fn name(self) -> &'static str {
        match self {
            Model::Opt => "opt",
            Model::Lru => "lru",
            Model::Clock => "clock",
            Model::TwoLists => "two-lists",
            Model::Arc => "arc",
            Model::Lirs => "lirs",
            Model::S3Fifo => "s3-fifo",
            Model::Sieve => "sieve",
            Model::Clock2QPlus => "clock2q+",
            Model::WTinyLfu => "w-tinylfu",
            Model::Millpond => "millpond-rule",
        }
    }

    /// The name that tables have.
    pub fn title(self) -> &'static str {
        match self {
            Model::Opt => "OPT",
            Model::Lru => "LRU",
            Model::Clock => "CLOCK",
            Model::TwoLists => "two lists",
            Model::Arc => "ARC",
            Model::Lirs => "LIRS",
            Model::S3Fifo => "S3-FIFO",
            Model::Sieve => "SIEVE",
            Model::Clock2QPlus => "Clock2Q+",
            Model::WTinyLfu => "W-TinyLFU",
            Model::Millpond => "Millpond",
        }
    }

    /// Misses of `uses` with room for `frames` pages, from empty memory on. `at` hears now and then how much is done, 0 to 1,
    /// and may end the run.
    ///
    /// Time: 20 to 300 ns a use. Memory: 10 to 60 bytes for each different page.
    ///
    /// # Errors
    /// Of `at`.
    ///
    /// # Panics
    /// If there is no frame, or more than 2^31 of them.
    pub fn misses<E>(
        self,
        uses: &[Use],
        frames: u64,
        at: &mut dyn FnMut(f64) -> Result<(), E>,
    ) -> Result<u64, E> {
        let mut misses = 0;
        let mut hear = |n: usize, is_hit: bool| {
            if n.is_multiple_of(BLOCK) {
                at(n as f64 / uses.len() as f64)?;
            }
            misses += u64::from(!is_hit && uses[n].1);
            Ok(())
        };
        self.play(uses, frames, &mut hear)?;
        Ok(misses)
    }

    /// Which of `uses` find their page in memory; otherwise as [`misses`](Model::misses).
    ///
    /// # Panics
    /// If there is no frame, or more than 2^31 of them.
    pub fn hits(self, uses: &[Use], frames: u64) -> Vec<bool> {
        let mut hits = Vec::with_capacity(uses.len());
        let mut hear = |_, is_hit| {
            hits.push(is_hit);
            Ok::<(), Infallible>(())
        };
        match self.play(uses, frames, &mut hear) {
            Ok(()) => hits,
            Err(never) => match never {},
        }
    }

    /// Makes all uses, and reports for each whether its page was in memory.
    fn play<E>(
        self,
        uses: &[Use],
        frames: u64,
        hear: &mut impl FnMut(usize, bool) -> Result<(), E>,
    ) -> Result<(), E> {
        assert!(
            (1..1 << 31).contains(&frames),
            "a model has 1 to 2^31 frames, not {frames}"
        );
        let frames = frames as u32;
        let pages = uses.iter().map(|&(page, _)| page + 1).max().unwrap_or(0);
        match self {
            Model::Opt => each(opt::Opt::new(uses, pages, frames), uses, hear),
            Model::Lru => each(lru::Lru::new(pages, frames), uses, hear),
            Model::Clock => each(clock::Clock::new(pages, frames), uses, hear),
            Model::TwoLists => each(CoreLru::linux(pages, frames), uses, hear),
            Model::Arc => each(arc::Arc::new(pages, frames), uses, hear),
            Model::Lirs => each(lirs::Lirs::new(pages, frames), uses, hear),
            Model::S3Fifo => each(s3_fifo::S3Fifo::new(pages, frames), uses, hear),
            Model::Sieve => each(sieve::Sieve::new(pages, frames), uses, hear),
            Model::Clock2QPlus => each(clock2q::Clock2QPlus::new(pages, frames), uses, hear),
            Model::WTinyLfu => each(w_tinylfu::WTinyLfu::new(pages, frames), uses, hear),
            Model::Millpond => each(CoreLru::millpond(pages, frames), uses, hear),
        }
    }
}

/// The number of uses between two reports of progress.
const BLOCK: usize = 1 << 18;

fn each<E>(
    mut policy: impl Policy,
    uses: &[Use],
    hear: &mut impl FnMut(usize, bool) -> Result<(), E>,
) -> Result<(), E> {
    for (n, &(page, _)) in uses.iter().enumerate() {
        hear(n, policy.access(page))?;
    }
    Ok(())
}

impl FromStr for Model {
    type Err = UnknownName;

    fn from_str(name: &str) -> Result<Model, UnknownName> {
        let found = Model::ALL.into_iter().find(|model| model.name() == name);
        found.ok_or_else(|| UnknownName {
            what: "policy",
            value: name.into(),
            allowed: Model::ALL.map(Model::name).join(", "),
        })
    }
}

#[cfg(test)]
mod tests;
