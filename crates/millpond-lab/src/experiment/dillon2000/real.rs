//! The news on real files: Millpond's engine beside the kernel in a memory group of the same size.
//!
//! ```text
//!              readers  article   pause    spool    history   of the readers' own   memory
//!   news       550      96 KiB    6.75 s   4 GiB    16 MiB    402 MiB               452 MiB   as in virtual time
//!   saturated  64       16 KiB    none     3 GiB    384 MiB   128 MiB               512 MiB   all the disk has
//! ```
//!
//! A reader's own memory is the process's own: Millpond has what is left of the memory, and the kernel's group has it all.
//! A smaller scale has fewer readers of the news, smaller files, less memory and less time; Millpond has 16 MiB at least.

use super::files::{self, Around};
use super::{EXPERIMENT, NEWS, Options, SATURATED};
use crate::backend::{self, Backend, Row};
use crate::error::Result;
use crate::experiment::{Job, Measured, check, perform, row_name, rows_on_limited_memory};
use crate::machine;
use crate::scratch;
use crate::watch::Watch;
use crate::workload::Workload;
use crate::workload::dillon2000::Dillon2000;
use millpond::internal::quantity;
use millpond_core::units::{Bytes, PageSize};
use millpond_kernels::freebsd::System;
use millpond_kernels::freebsd::machine::MachineOptions;

/// The engine takes no less.
const MEMORY_MIN: u64 = 16 << 20;
/// Seconds of the news before they are measured: the memory that is left for files is read over several times.
const NEWS_WARM_UP_S: f64 = 30.0;
const NEWS_S: f64 = 60.0;
/// Time enough for a few articles of each reader.
const NEWS_S_MIN: u32 = 10;
/// As long as the kernel's figures were measured that this is held against, from an empty cache.
const SATURATED_S: f64 = 25.0;
/// A guess at how fast the files are made, for the progress bar only.
const BYTES_PER_S: f64 = 500e6;

/// A load with the memory for the files that it uses, its readers' own not counted.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Load {
    pub(super) name: &'static str,
    pub(super) work: Dillon2000,
    pub(super) memory: Bytes,
}

/// Whole MiB of `bytes` by `scale`, one at least.
fn scaled(bytes: u64, scale: f64) -> u64 {
    ((bytes as f64 * scale) as u64 >> 20).max(1) << 20
}

fn seconds(seconds: f64, scale: f64) -> u32 {
    (seconds * scale).round().max(2.0) as u32
}

impl Load {
    pub(super) fn news(scale: f64, seed: u64) -> Load {
        let machine = MachineOptions::new(System::FreeBsdPatches);
        let (news, page) = (machine.news, PageSize::KIB_4.bytes());
        let work = Dillon2000 {
            readers: (f64::from(news.readers) * scale).round().max(1.0) as u32,
            article_bytes: u64::from(news.article_pages) * page,
            think_ms: news.think.0 / 1_000_000,
            spool_bytes: scaled(news.spool.0, scale),
            history_bytes: scaled(u64::from(news.history_pages) * page, scale),
            changes: news.history_draws,
            own_bytes: u64::from(news.own_pages) * page,
            warm_up_s: seconds(NEWS_WARM_UP_S, scale),
            seconds: seconds(NEWS_S, scale).max(NEWS_S_MIN),
            seed,
        };
        let own = u64::from(news.readers) * work.own_bytes;
        let left = machine.memory.0 - machine.kernel.0 * page - own;
        Load::new(NEWS, work, left as f64 * scale)
    }

    pub(super) fn saturated(memory: Bytes, scale: f64, seed: u64) -> Load {
        let work = Dillon2000 {
            readers: 64,
            article_bytes: 16 << 10,
            think_ms: 0,
            spool_bytes: scaled(3 << 30, scale),
            history_bytes: scaled(384 << 20, scale),
            changes: 4,
            own_bytes: ((f64::from(2 << 20) * scale) as u64 >> 12).max(1) << 12,
            warm_up_s: 0,
            seconds: seconds(SATURATED_S, scale),
            seed,
        };
        let left = memory.0 as f64 * scale - work.own_bytes_of_all() as f64;
        Load::new(SATURATED, work, left)
    }

    fn new(name: &'static str, work: Dillon2000, memory: f64) -> Load {
        Load {
            name,
            work,
            memory: Bytes((memory as u64 >> 20 << 20).max(MEMORY_MIN)),
        }
    }

    /// The load, in words.
    pub(super) fn description(&self) -> String {
        let work = &self.work;
        let size = |bytes| quantity::size(Bytes(bytes));
        let pause = match work.think_ms {
            0 => "one after the other".into(),
            ms => format!("every {} s or so", ms as f64 / 1e3),
        };
        format!(
            "{} readers take {} of {} {pause} and change {} pages of {}; {} of memory besides their own {}",
            work.readers,
            size(work.article_bytes),
            size(work.spool_bytes),
            work.changes,
            size(work.history_bytes),
            quantity::size(self.memory),
            size(work.own_bytes_of_all())
        )
    }

    /// The row with the memory that it has for this load.
    fn row(&self, row: &Row) -> Row {
        let mut row = row.clone();
        row.setup.memory = if row.in_memory_group {
            Bytes(self.memory.0 + self.work.own_bytes_of_all())
        } else {
            self.memory
        };
        row
    }
}

/// Performs all runs on `kinds`, interleaved.
///
/// # Errors
/// A target that can't run; a run that failed; `LabError::Interrupted`. What it made on disk is removed either way.
pub(super) fn measure(
    options: &Options,
    kinds: &[&Backend],
    watch: &mut dyn Watch,
) -> Result<(Vec<Load>, Measured)> {
    let scale = options.scale.unwrap_or(1.0);
    let all = [
        Load::news(scale, options.seed),
        Load::saturated(options.memory, scale, options.seed),
    ];
    let loads: Vec<Load> = all.into_iter().filter(|load| options.has(load.name)).collect();
    let scratch = scratch::create(&options.dir)?;
    let kernel_variants = options.kernel_configurations()?;
    let request = options.request(EXPERIMENT.name, &kernel_variants, scratch.path());
    let backend::Rows { mut rows, notes } = rows_on_limited_memory(kinds, &request)?;
    for row in &mut rows {
        // each load has its own
        let memory = format!(" memory={}", quantity::size_typed(options.memory));
        row.label = row.label.replace(&memory, "");
    }
    let in_place = rows.iter().any(Row::is_in_place);
    if in_place {
        let needed = loads.iter().map(|load| load.work.bytes()).sum::<u64>();
        check::free_space(&options.dir, scratch.path(), needed)?;
        for load in &loads {
            files::make(scratch.path(), &load.work, watch)?;
        }
    }
    let jobs: Vec<Job> = loads
        .iter()
        .flat_map(|load| rows.iter().map(|row| job(options, row, load)))
        .collect();
    let machine = machine::describe(Some(scratch.path()));
    let results = perform(&options.program, &jobs, None, 0.0, watch, &Around)?;
    let measured = Measured {
        names: rows.iter().map(row_name).collect(),
        results,
        notes,
        machine,
    };
    Ok((loads, measured))
}

fn job(options: &Options, row: &Row, load: &Load) -> Job {
    let made = match row.is_in_place() {
        false => load.work.bytes() as f64 / BYTES_PER_S,
        true => 0.0,
    };
    Job {
        row: load.row(row),
        workload: Workload::Dillon2000(load.work.clone()),
        workload_name: load.name,
        runs: options.runs,
        seconds: 1.0 + made + f64::from(load.work.warm_up_s + load.work.seconds),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_news_are_those_of_virtual_time_and_the_other_load_that_of_the_kernels_figures() {
        let news = Load::news(1.0, 1);
        let (work, mib) = (&news.work, 1 << 20);
        assert_eq!(
            (work.readers, work.article_bytes, work.think_ms),
            (550, 96 << 10, 6750)
        );
        assert_eq!((work.spool_bytes, work.history_bytes), (4096 * mib, 16 * mib));
        assert_eq!(
            news.memory,
            Bytes::from_mib(43),
            "of 512, the kernel's 60 and the readers' 408"
        );
        let saturated = Load::saturated(Bytes::from_mib(512), 1.0, 1);
        assert_eq!(saturated.memory, Bytes::from_mib(384));
        assert_eq!((saturated.work.readers, saturated.work.seconds), (64, 25));
    }

    #[test]
    fn a_small_scale_leaves_the_engine_what_it_needs() {
        for load in [
            Load::news(0.01, 1),
            Load::saturated(Bytes::from_mib(512), 0.01, 1),
        ] {
            assert_eq!(load.memory, Bytes(MEMORY_MIN), "{}", load.name);
            assert!(load.work.bytes() > load.memory.0, "{}", load.name);
            assert!(load.work.seconds < 15, "{}", load.name);
        }
    }
}
