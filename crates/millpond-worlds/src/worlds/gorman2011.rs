//! Gorman 2011: files are written on a machine of 512 MB, and reclaim meets dirty pages.

use crate::reasons;
use crate::world::{Figure, Note, World};
use millpond_core::options::Options;
use millpond_core::page::PageKind;
use millpond_core::reclaim::trace::{Caller, Trace};
use millpond_core::units::{Instant, Nanos, PageCount, PageSize};
use millpond_kernels::linux::reclaim::machine::{
    self as linux, FILES, Load, Machine, MachineOptions, Rounds,
};
use millpond_sim::disk::Model;
use millpond_sim::look::Look;
use millpond_sim::scripts::stream::{RoundsEnded, Stream};
use millpond_sim::{Costs, Faults, WorldOptions};

/// Decisions of both callers.
pub(super) fn decisions(trace: &Trace) -> u64 {
    trace.decisions(Caller::Kswapd) + trace.decisions(Caller::Direct)
}

/// Linux on the post's machine.
pub struct Linux {
    machine: Machine,
    rounds: Rounds,
    steps: u64,
}

impl Linux {
    /// At its beginning.
    ///
    /// # Errors
    /// If the disk can't be.
    pub fn new(options: MachineOptions, load: Load) -> Result<Linux, String> {
        let (mut machine, _, rounds) = linux::loaded(options, load).map_err(|e| e.to_string())?;
        machine.keep_every_decision();
        Ok(Linux {
            machine,
            rounds,
            steps: 0,
        })
    }

    fn step(&mut self) -> Instant {
        let at = self.machine.now();
        self.machine.run(1);
        self.steps += 1;
        at
    }
}

impl World for Linux {
    fn run(&mut self, until: Instant) {
        while self.machine.now() <= until && !self.machine.is_over() {
            self.step();
        }
    }

    fn run_to_note(&mut self, until: Instant) -> Instant {
        let before = self.notes();
        while self.machine.now() <= until && !self.machine.is_over() {
            let at = self.step();
            if self.notes() != before {
                self.run(at);
                return at;
            }
        }
        until
    }

    fn is_over(&self) -> bool {
        self.machine.is_over()
    }

    fn events(&self) -> u64 {
        self.steps
    }

    fn notes(&self) -> u64 {
        decisions(self.machine.trace())
    }

    fn look(&self, parts: usize) -> Look {
        self.machine.look(parts)
    }

    fn figures(&self) -> Vec<Figure> {
        let counters = self.machine.counters();
        let (kswapd, direct) = (Caller::Kswapd as usize, Caller::Direct as usize);
        let (file, anonymous) = (PageKind::File as usize, PageKind::Anonymous as usize);
        let scanned = counters.pgscan_kswapd + counters.pgscan_direct;
        let mut figures = vec![
            Figure::count("kswapd_write_file", counters.writes[kswapd][file]),
            Figure::count("kswapd_write_anon", counters.writes[kswapd][anonymous]),
            Figure::count("direct_write_file", counters.writes[direct][file]),
            Figure::count("pgscan_kswapd", counters.pgscan_kswapd),
            Figure::count("pgscan_direct", counters.pgscan_direct),
            Figure::of(
                "direct_scans_percent",
                "%",
                percent(counters.pgscan_direct, scanned),
            ),
            Figure::count("pgsteal_kswapd", counters.pgsteal_kswapd),
            Figure::count("pgsteal_direct", counters.pgsteal_direct),
            Figure::of(
                "kswapd_efficiency_percent",
                "%",
                percent(counters.pgsteal_kswapd, counters.pgscan_kswapd),
            ),
            Figure::count("nr_vmscan_write_skip", counters.nr_vmscan_write_skip),
            Figure::count(
                "nr_vmscan_immediate_reclaim",
                counters.nr_vmscan_immediate_reclaim,
            ),
            Figure::count("nr_vmscan_throttled", counters.nr_vmscan_throttled),
            Figure::count("direct_reclaims", counters.direct_reclaims),
            Figure::of("direct_stall_seconds", "s", counters.direct_stall.0 as f64 / 1e9),
            Figure::of(
                "kswapd_write_waits_seconds",
                "s",
                counters.kswapd_request_waits.time.0 as f64 / 1e9,
            ),
            Figure::count("pswpin", counters.pswpin),
            Figure::count("pswpout", counters.pswpout),
            Figure::count("pgpgout_kib", counters.pgpgout_kib),
        ];
        let rounds = self.rounds.borrow();
        figures.extend(files_per_s(rounds.iter().map(|round| round.took)));
        figures
    }

    fn log(&self, most: usize) -> Vec<Note> {
        reasons::of_trace(self.machine.trace(), most, reasons::linux)
    }
}

/// Whole percent, cut off, as the post has them.
fn percent(part: u64, of: u64) -> f64 {
    (100 * part / of.max(1)) as f64
}

/// The mean over rounds; none before the first has ended.
fn files_per_s(took: impl Iterator<Item = Nanos>) -> Option<Figure> {
    let rates: Vec<f64> = took
        .map(|took| f64::from(FILES) / (took.0 as f64 / 1e9))
        .collect();
    match rates.len() {
        0 => None,
        n => {
            let mean = rates.iter().sum::<f64>() / n as f64;
            Some(Figure::of("files_per_s_mean", "1/s", mean))
        }
    }
}

/// Millpond's own manager, with the memory that files have on the post's machine, and the load that writes; pages that it
/// writes, and when its rounds ended.
///
/// # Errors
/// If the disk or the options can't be.
pub fn millpond(
    machine: &MachineOptions,
    load: Load,
) -> Result<(millpond_sim::World, u64, RoundsEnded), String> {
    let model = Model::hdd(machine.disk).map_err(|e| e.to_string())?;
    let taken = machine.kernel.0 + machine.files_in_use.0 + u64::from(linux::anonymous_pages());
    let frames = PageCount(machine.memory.to_pages(PageSize::KIB_4).0 - taken);
    let mapped = matches!(load, Load::Micro { .. });
    let costs = machine.costs;
    let mut world = millpond_sim::World::new(WorldOptions {
        options: Options::default(),
        alternatives: Vec::new(),
        frames,
        model,
        costs: Costs {
            copy: if mapped {
                costs.fault_page
            } else {
                costs.write_page
            },
            scan: costs.scan_page,
            ..Costs::default()
        },
        faults: Faults::default(),
        seed: machine.seed,
        validate_every: 0,
    })
    .map_err(|e| e.to_string())?;
    let (files, pages, step, think) = match load {
        Load::FsMark { rounds } => (rounds * FILES, 2560, 4, costs.think + costs.file),
        Load::Micro { pages } => (1, pages, 1, Nanos::ZERO),
    };
    let files: Vec<_> = (0..files).map(|_| world.add_file(PageCount(pages))).collect();
    let all = files.len() as u64 * pages;
    let ended = RoundsEnded::default();
    let stream = Stream::new(files, (pages, step), FILES as usize, think, ended.clone());
    world.add_process(Box::new(stream));
    Ok((world, all, ended))
}

/// The figures of the post's tables for a run on Millpond.
pub(crate) fn figures(world: &millpond_sim::World, ended: &RoundsEnded) -> Vec<Figure> {
    let stats = world.manager().stats();
    let scanned = stats.pgscan_kswapd + stats.pgscan_direct;
    let ended = ended.borrow();
    let begins = std::iter::once(Instant(0)).chain(ended.iter().copied());
    let took = begins.zip(ended.iter()).map(|(from, to)| to.since(from));
    let mut figures = vec![
        Figure::count("kswapd_write_file", stats.nr_vmscan_write),
        Figure::count("direct_write_file", stats.nr_vmscan_write),
        Figure::count("pgscan_kswapd", stats.pgscan_kswapd),
        Figure::count("pgscan_direct", stats.pgscan_direct),
        Figure::of("direct_scans_percent", "%", percent(stats.pgscan_direct, scanned)),
        Figure::count("pgsteal_kswapd", stats.pgsteal_kswapd),
        Figure::count("pgsteal_direct", stats.pgsteal_direct),
        Figure::of(
            "kswapd_efficiency_percent",
            "%",
            percent(stats.pgsteal_kswapd, stats.pgscan_kswapd),
        ),
        Figure::count("nr_vmscan_immediate_reclaim", stats.nr_vmscan_immediate_reclaim),
        Figure::count(
            "nr_vmscan_throttled",
            stats.nr_vmscan_throttled_writeback + stats.nr_vmscan_throttled_noprogress,
        ),
        Figure::count("direct_reclaims", stats.allocstall),
        Figure::count("pgpgout_kib", stats.nr_written * 4),
    ];
    figures.extend(files_per_s(took));
    figures
}
