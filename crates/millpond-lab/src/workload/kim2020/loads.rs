//! The loads: what is allocated, touched and read, and how often.
//!
//! ```text
//!   hot-cold             the post's seven steps: cold 512 MB, hot-1 96 MB made active, hot-2 96 MB, then 20 rounds of
//!                        the next 128 MB of cold memory and hot-2
//!   moving-window        the same with a cold window that moves on by 32 MB a round
//!   phase-change         what is hot changes every 8 rounds
//!   stationary           hot-1 stays what is hot
//!   file-scan            a file is read once, 128 MB a round, beside 160 MB of hot memory
//!   memory-scan          the reverse: cold memory, and 96 MB of a file
//!   ebizzy-MB-SKEW-N     N threads copy chunks of 512 KiB out of MB, chosen by Zipf's law
//! ```
//!
//! Twenty rounds are derived: of hot-2 kept from the second round on 224 MB and 19 times 128 MB come back, 679,936 pages; the
//! post has 681,565. That each round reads other cold memory follows from the same: what was read in the round before
//! would still be there.

use millpond_core::page::PageKind;
use millpond_core::units::{Instant, Nanos};
use millpond_kernels::linux::anon::machine::Machine;
use millpond_sim::draw::Draw;
use millpond_sim::task::{Op, Ops, Script};
use std::sync::Arc;

/// Pages of a MiB.
const MB: u64 = 256;
/// Pages of a chunk of ebizzy: 512 KiB.
pub(crate) const CHUNK: u64 = 128;

/// A use of memory that is there, of the loads that only touch: a cache line.
const TOUCH: Nanos = Nanos(100);

/// A load.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(crate) enum Load {
    HotCold,
    MovingWindow,
    PhaseChange,
    Stationary,
    FileScan,
    MemoryScan,
    Ebizzy(Ebizzy),
}

/// One cell of the grid.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(crate) struct Ebizzy {
    pub(crate) mb: u64,
    /// Ten times the exponent.
    pub(crate) skew_tenths: u32,
    pub(crate) threads: u32,
}

/// The loads with rounds, by name.
pub(crate) const ROUNDS: [(&str, Load); 6] = [
    ("hot-cold", Load::HotCold),
    ("moving-window", Load::MovingWindow),
    ("phase-change", Load::PhaseChange),
    ("stationary", Load::Stationary),
    ("file-scan", Load::FileScan),
    ("memory-scan", Load::MemoryScan),
];

impl Load {
    /// The name in metrics.
    pub(crate) fn name(&self) -> String {
        match self {
            Load::Ebizzy(cell) => cell.name(),
            load => ROUNDS
                .iter()
                .find(|(_, known)| known == load)
                .map_or_else(String::new, |(name, _)| (*name).into()),
        }
    }

    pub(crate) fn from_name(name: &str) -> Option<Load> {
        let known = ROUNDS.iter().find(|(known, _)| *known == name);
        known
            .map(|&(_, load)| load)
            .or_else(|| Ebizzy::from_name(name).map(Load::Ebizzy))
    }
}

impl Ebizzy {
    /// The same with its size divided by `by`.
    pub(crate) fn shrunk(self, by: u64) -> Ebizzy {
        Ebizzy {
            mb: self.mb / by,
            ..self
        }
    }

    fn name(&self) -> String {
        let (whole, tenths) = (self.skew_tenths / 10, self.skew_tenths % 10);
        format!("ebizzy-{}-{whole}.{tenths}-{}", self.mb, self.threads)
    }

    fn from_name(name: &str) -> Option<Ebizzy> {
        let mut parts = name.strip_prefix("ebizzy-")?.split('-');
        let mb = parts.next()?.parse().ok()?;
        let (whole, tenths) = parts.next()?.split_once('.')?;
        let whole: u32 = whole.parse().ok()?;
        let cell = Ebizzy {
            mb,
            skew_tenths: whole * 10 + tenths.parse::<u32>().ok()?,
            threads: parts.next()?.parse().ok()?,
        };
        let allowed =
            (64..=4096).contains(&cell.mb) && cell.skew_tenths <= 20 && (1..=64).contains(&cell.threads);
        (parts.next().is_none() && allowed && cell.name() == name).then_some(cell)
    }
}

/// The steps of a load with rounds: with its memory, before the rounds, and in them.
pub(crate) struct Course {
    /// Anonymous pages, of a file.
    pub(crate) pages: [u64; 2],
    pub(crate) set_up: Vec<Op>,
    pub(crate) rounds: Vec<Op>,
}

fn touch(first: u64, pages: u64, write: bool) -> Op {
    Op::Touch {
        first: first as u32,
        pages,
        write,
        each: TOUCH,
    }
}

const COLD: u64 = 512 * MB;
const HOT: u64 = 96 * MB;
const WINDOW: u64 = 128 * MB;
const MIXED_HOT: u64 = 160 * MB;

/// The steps of a load; `rounds` in its loop. Anonymous pages are numbered from 0, the file's pages after them.
pub(crate) fn script(load: Load, rounds: u64) -> Course {
    let (hot_1, hot_2) = (COLD, COLD + HOT);
    let seven = |loop_of: &dyn Fn(u64) -> Vec<Op>| Course {
        pages: [COLD + 2 * HOT, 0],
        set_up: vec![
            touch(0, COLD, true),
            touch(hot_1, HOT, true),
            Op::Activate {
                first: hot_1 as u32,
                pages: HOT,
            },
            touch(hot_2, HOT, true),
        ],
        rounds: (0..rounds).flat_map(loop_of).collect(),
    };
    let quarter = |round: u64| touch(round % 4 * WINDOW, WINDOW, false);
    match load {
        Load::HotCold => seven(&|round| vec![quarter(round), touch(hot_2, HOT, false)]),
        Load::MovingWindow => seven(&|round| {
            let step = 32 * MB;
            let from = round * step % (COLD - WINDOW + step);
            vec![touch(from, WINDOW, false), touch(hot_2, HOT, false)]
        }),
        Load::Stationary => seven(&|round| vec![quarter(round), touch(hot_1, HOT, false)]),
        Load::PhaseChange => seven(&|round| {
            let hot = [hot_2, hot_1, 0, 2 * WINDOW][(round / 8 % 4) as usize];
            vec![quarter(round), touch(hot, HOT, false)]
        }),
        Load::FileScan => {
            let file = 128 * MB * rounds;
            Course {
                pages: [MIXED_HOT, file],
                set_up: vec![touch(0, MIXED_HOT, true), touch(0, MIXED_HOT, false)],
                rounds: (0..rounds)
                    .flat_map(|round| {
                        [0, 1].map(|half| {
                            let first = MIXED_HOT + round * 128 * MB + half * 64 * MB;
                            [
                                Op::ReadFile {
                                    first: first as u32,
                                    pages: 64 * MB,
                                    each: TOUCH,
                                },
                                touch(0, MIXED_HOT, false),
                            ]
                        })
                    })
                    .flatten()
                    .collect(),
            }
        }
        Load::MemoryScan => {
            let read = Op::ReadFile {
                first: COLD as u32,
                pages: HOT,
                each: TOUCH,
            };
            Course {
                pages: [COLD, HOT],
                set_up: vec![touch(0, COLD, true), read, read],
                rounds: (0..rounds).flat_map(|round| [quarter(round), read]).collect(),
            }
        }
        Load::Ebizzy(_) => Course {
            pages: [0, 0],
            set_up: Vec::new(),
            rounds: Vec::new(),
        },
    }
}

impl Course {
    /// The same with all sizes divided by `by`.
    pub(crate) fn shrunk(mut self, by: u64) -> Course {
        self.pages = self.pages.map(|pages| pages / by);
        for op in self.set_up.iter_mut().chain(&mut self.rounds) {
            match op {
                Op::Touch { first, pages, .. }
                | Op::ReadFile { first, pages, .. }
                | Op::Activate { first, pages } => {
                    (*first, *pages) = (*first / by as u32, *pages / by);
                }
                _ => {}
            }
        }
        self
    }

    /// The pages in the order of their uses, and how many uses are before the rounds.
    pub(crate) fn uses(&self) -> (Vec<u32>, usize) {
        let mut uses = Vec::new();
        let flatten = |ops: &[Op], uses: &mut Vec<u32>| {
            for op in ops {
                match *op {
                    Op::Touch { first, pages, .. } | Op::ReadFile { first, pages, .. } => {
                        uses.extend(first..first + pages as u32);
                    }
                    _ => {}
                }
            }
        };
        flatten(&self.set_up, &mut uses);
        let set_up = uses.len();
        flatten(&self.rounds, &mut uses);
        (uses, set_up)
    }

    /// Gives the machine its pages.
    pub(crate) fn add_pages(&self, machine: &mut Machine) {
        machine.add_pages(PageKind::Anonymous, self.pages[0]);
        machine.add_pages(PageKind::File, self.pages[1]);
    }

    pub(crate) fn set_up(&self) -> Box<dyn Script> {
        Box::new(Ops::new(self.set_up.clone()))
    }

    pub(crate) fn rounds(&self) -> Box<dyn Script> {
        Box::new(Ops::new(self.rounds.clone()))
    }
}

/// Chunks by Zipf's law: which, how often. Weights are integers, so that every machine draws the same.
#[derive(Debug)]
pub(crate) struct Zipf {
    /// Up to which number of 2^64 a rank is drawn.
    below: Vec<u64>,
    chunk_of_rank: Vec<u32>,
}

impl Zipf {
    pub(crate) fn new(chunks: u64, skew_tenths: u32, seed: u64) -> Zipf {
        let exponent = f64::from(skew_tenths) / 10.0;
        let weights: Vec<f64> = (1..=chunks).map(|rank| (rank as f64).powf(-exponent)).collect();
        let sum: f64 = weights.iter().sum();
        let mut reached = 0.0;
        let below = weights
            .iter()
            .map(|weight| {
                reached += weight / sum;
                (reached * 2_f64.powi(53)).round() as u64
            })
            .collect();
        let mut draw = Draw(seed);
        let mut chunk_of_rank: Vec<u32> = (0..chunks as u32).collect();
        for n in (1..chunk_of_rank.len()).rev() {
            chunk_of_rank.swap(n, draw.below(n as u64 + 1) as usize);
        }
        Zipf { below, chunk_of_rank }
    }

    pub(crate) fn draw(&self, draw: &mut Draw) -> u32 {
        let number = draw.bits() >> 11;
        let rank = self.below.partition_point(|&below| below <= number);
        self.chunk_of_rank[rank.min(self.chunk_of_rank.len() - 1)]
    }

    /// The share of draws that go to the `first` most popular chunks.
    pub(crate) fn share_of(&self, first: u64) -> f64 {
        let last = (first as usize).min(self.below.len());
        match last {
            0 => 0.0,
            _ => self.below[last - 1] as f64 / 2_f64.powi(53),
        }
    }
}

/// A thread of ebizzy: copies this many chunks.
pub(crate) struct Copier {
    pub(crate) zipf: Arc<Zipf>,
    pub(crate) draw: Draw,
    pub(crate) records: u64,
    /// The target of its copies.
    pub(crate) to: u32,
    pub(crate) each: Nanos,
}

impl Script for Copier {
    fn next(&mut self, _now: Instant) -> Op {
        if self.records == 0 {
            return Op::End;
        }
        self.records -= 1;
        let chunk = self.zipf.draw(&mut self.draw);
        Op::Copy {
            from: chunk * CHUNK as u32,
            to: self.to,
            pages: CHUNK,
            each: self.each,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cells_are_named_by_size_skew_and_threads() {
        let cell = Load::Ebizzy(Ebizzy {
            mb: 1536,
            skew_tenths: 13,
            threads: 8,
        });
        assert_eq!(cell.name(), "ebizzy-1536-1.3-8");
        assert_eq!(Load::from_name("ebizzy-1536-1.3-8"), Some(cell));
        for (name, load) in ROUNDS {
            assert_eq!(Load::from_name(name), Some(load));
        }
        for wrong in [
            "ebizzy",
            "ebizzy-1-0.1-1",
            "ebizzy-512-0.10-1",
            "ebizzy-512-0.1-0",
            "cold",
        ] {
            assert_eq!(Load::from_name(wrong), None, "{wrong}");
        }
    }

    #[test]
    fn the_most_popular_chunk_is_drawn_as_often_as_the_law_says() {
        let zipf = Zipf::new(100, 10, 7);
        let harmonic: f64 = (1..=100).map(|rank| 1.0 / f64::from(rank)).sum();
        assert!((zipf.share_of(1) - 1.0 / harmonic).abs() < 1e-9);
        assert!((zipf.share_of(100) - 1.0).abs() < 1e-9);
        let mut draw = Draw(1);
        let first = zipf.chunk_of_rank[0];
        let hits = (0..100_000).filter(|_| zipf.draw(&mut draw) == first).count();
        assert!((hits as f64 / 1e5 * harmonic - 1.0).abs() < 0.02, "{hits}");
    }

    #[test]
    fn a_round_of_the_post_touches_224_mb() {
        let script = script(Load::HotCold, 20);
        let (uses, set_up) = script.uses();
        assert_eq!(set_up as u64, 704 * MB);
        assert_eq!((uses.len() - set_up) as u64, 20 * 224 * MB);
    }
}
