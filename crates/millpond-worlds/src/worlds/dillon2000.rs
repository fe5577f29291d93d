//! Dillon 2000: a news server on a machine whose memory is a little smaller than what is used.

use super::millpond::Millpond;
use crate::reasons;
use crate::world::{Figure, Note, World};
use crate::worlds::gorman2011::decisions;
use millpond_core::admission::Configured;
use millpond_core::options::Options;
use millpond_core::units::{FileId, Instant, Nanos, PageCount, PageSize};
use millpond_kernels::freebsd::machine::{Machine, MachineOptions, News, skewed};
use millpond_sim::disk::Model;
use millpond_sim::draw::Draw;
use millpond_sim::look::Look;
use millpond_sim::process::{Done, Op, Script};
use millpond_sim::{Costs, Faults, WorldOptions};
use std::cell::RefCell;
use std::rc::Rc;

/// The laboratory measures from here on, when memory is full and queues have their lengths.
pub const WARM_UP: Nanos = Nanos::from_secs(300);
/// Pageouts are counted over this many seconds, as `vmstat 5` does.
const BIN_S: usize = 5;

/// FreeBSD on the post's machine.
pub struct FreeBsd {
    machine: Machine,
}

impl FreeBsd {
    /// At its beginning.
    ///
    /// # Errors
    /// If the disk can't be.
    pub fn new(options: MachineOptions) -> Result<FreeBsd, String> {
        let mut machine = Machine::new(options).map_err(|e| e.to_string())?;
        machine.keep_every_decision();
        Ok(FreeBsd { machine })
    }
}

impl World for FreeBsd {
    fn run(&mut self, until: Instant) {
        if until >= self.machine.now() {
            self.machine.run(until);
        }
    }

    fn run_to_note(&mut self, until: Instant) -> Instant {
        let before = self.notes();
        while let Some(at) = self.machine.next_event().filter(|&at| at <= until) {
            self.machine.run(at);
            if self.notes() != before {
                return at;
            }
        }
        self.run(until);
        until
    }

    fn is_over(&self) -> bool {
        false
    }

    fn events(&self) -> u64 {
        self.machine.turns()
    }

    fn notes(&self) -> u64 {
        decisions(self.machine.trace())
    }

    fn look(&self, parts: usize) -> Look {
        self.machine.look(parts)
    }

    fn figures(&self) -> Vec<Figure> {
        let (now, counters, noted) = (self.machine.now(), self.machine.counters(), self.machine.noted());
        let seconds = (now.0 / 1_000_000_000) as usize;
        let each = |values: &[u64], factor: f64| -> Vec<f64> {
            let at = |n| values.get(n).copied().unwrap_or(0) as f64 * factor;
            (0..seconds).map(at).collect()
        };
        let mut figures = news(&each(&noted.blocked, 1e-9), &each(&noted.pageouts, 1.0));
        figures.extend([
            Figure::count("articles", noted.articles.iter().sum()),
            Figure::count("pageouts", counters.pageouts),
            Figure::count("laps_marked", counters.laps),
            Figure::count("rescued_dirty_pages", counters.rescued),
            Figure::count("pages_freed", counters.freed),
            Figure::count("daemon_waits_for_swap", counters.daemon_waits),
            Figure::count("waits_for_memory", counters.memory_waits),
            Figure::count("waits_for_written_pages", counters.write_waits),
        ]);
        figures
    }

    fn log(&self, most: usize) -> Vec<Note> {
        reasons::of_trace(self.machine.trace(), most, reasons::freebsd)
    }
}

/// Load and pageouts of each whole second so far, as the laboratory reports them: from the end of the warm-up on, when that
/// has come.
fn news(load: &[f64], pageouts: &[f64]) -> Vec<Figure> {
    let from = (WARM_UP.0 / 1_000_000_000) as usize;
    let from = if load.len() > from { from } else { 0 };
    let bin = if load.len() - from < 2 * BIN_S { 1 } else { BIN_S };
    let binned = |seconds: &[f64]| -> Vec<f64> {
        let bins = seconds[from.min(seconds.len())..].chunks_exact(bin);
        bins.map(|values| values.iter().sum::<f64>() / bin as f64)
            .collect()
    };
    let (load_bins, out_bins) = (binned(load), binned(pageouts));
    let mean = |values: &[f64]| values.iter().sum::<f64>() / values.len().max(1) as f64;
    let out_mean = mean(&out_bins);
    let squares = out_bins
        .iter()
        .map(|v| (v - out_mean) * (v - out_mean))
        .sum::<f64>();
    let deviation = (squares / out_bins.len().max(1) as f64).sqrt();
    vec![
        Figure::of("load_now", "1", load.last().copied().unwrap_or(0.0)),
        Figure::of("load_mean", "1", mean(&load_bins)),
        Figure::of("load_max", "1", load_bins.iter().copied().fold(0.0, f64::max)),
        Figure::of("pageouts_per_s", "1/s", out_mean),
        Figure::of(
            "pageouts_variation",
            "1",
            if out_mean > 0.0 { deviation / out_mean } else { 0.0 },
        ),
    ]
}

/// Waits and articles of all readers on Millpond.
#[derive(Debug, Default)]
pub struct Seen {
    /// Waits: from when, until when.
    pub waits: Vec<(Instant, Instant)>,
    /// Articles: when each was read, and how long it took.
    pub articles: Vec<(Instant, Nanos)>,
}

/// What a reader does.
struct Reader {
    news: News,
    spool: FileId,
    history: FileId,
    draw: Draw,
    /// Changes of the history before the next article.
    left: u32,
    began: Instant,
    seen: Rc<RefCell<Seen>>,
}

impl Reader {
    fn think(&mut self) -> Op {
        let mean = self.news.think.0;
        self.left = self.news.history_draws;
        Op::Sleep(Nanos(mean / 2 + self.draw.below(mean)))
    }
}

impl Script for Reader {
    fn next(&mut self, now: Instant, done: Option<&Done>) -> Op {
        let Some(done) = done else {
            return self.think();
        };
        match done.op {
            Op::Sleep(_) => self.began = now,
            _ if done.ended > done.began => self.seen.borrow_mut().waits.push((done.began, done.ended)),
            _ => {}
        }
        if self.left > 0 {
            self.left -= 1;
            return Op::Guard {
                file: self.history,
                first: skewed(&mut self.draw, self.news.history_pages).into(),
                pages: 1,
                change: true,
                span: Nanos::ZERO,
            };
        }
        if let Op::Read { .. } = done.op {
            self.seen.borrow_mut().articles.push((now, now.since(self.began)));
            return self.think();
        }
        let pages = u64::from(self.news.article_pages);
        let articles = self.news.spool.to_pages(PageSize::KIB_4).0 / pages;
        Op::Read {
            file: self.spool,
            first: self.draw.below(articles) * pages,
            pages: self.news.article_pages,
        }
    }
}

/// Millpond's own manager with the news' readers, articles and history on the same disk.
///
/// Readers' own data are not its business here: it has the memory that is left for files beside them and the kernel, and its
/// history file is written back like any other.
///
/// # Errors
/// If the disk or the options can't be.
pub fn millpond(
    machine: &MachineOptions,
    options: &Options,
) -> Result<(millpond_sim::World, Rc<RefCell<Seen>>), String> {
    let news = machine.news;
    let model = Model::hdd(machine.disk).map_err(|e| e.to_string())?;
    let taken = machine.kernel.0 + u64::from(news.readers) * u64::from(news.own_pages);
    let frames = PageCount(machine.memory.to_pages(PageSize::KIB_4).0 - taken);
    let mut world = millpond_sim::World::new(WorldOptions {
        options: options.clone(),
        alternatives: Vec::new(),
        frames,
        model,
        costs: Costs {
            scan: machine.scan_page,
            ..Costs::default()
        },
        faults: Faults::default(),
        seed: machine.seed,
        validate_every: 0,
    })
    .map_err(|e| e.to_string())?;
    let history = world.add_file(PageCount(news.history_pages.into()));
    let spool = world.add_file(news.spool.to_pages(PageSize::KIB_4));
    let seen = Rc::<RefCell<Seen>>::default();
    for n in 0..news.readers {
        world.add_process(Box::new(Reader {
            news,
            spool,
            history,
            draw: Draw(machine.seed.wrapping_mul(1_000_003).wrapping_add(n.into())),
            left: 0,
            began: Instant(0),
            seen: seen.clone(),
        }));
    }
    Ok((world, seen))
}

/// The same as a world of the page.
pub(crate) fn millpond_world(machine: &MachineOptions) -> Result<Millpond<Configured>, String> {
    let (world, seen) = millpond(machine, &Options::default())?;
    let written = Rc::<RefCell<(u64, Vec<f64>)>>::default();
    let each_second = Rc::clone(&written);
    let look = move |world: &millpond_sim::World| {
        let (before, pageouts) = &mut *each_second.borrow_mut();
        let all = world.manager().stats().nr_written;
        pageouts.push((all - *before) as f64);
        *before = all;
    };
    let world = Millpond::new(world, &["readers"], move |world| {
        let seen = seen.borrow();
        let load = load(&seen.waits, world.now());
        let stats = world.manager().stats();
        let mut figures = news(&load, &written.borrow().1);
        figures.extend([
            Figure::count("articles", seen.articles.len() as u64),
            Figure::count("pageouts", stats.nr_written),
            Figure::count("pages_freed", stats.pgsteal_kswapd + stats.pgsteal_direct),
            Figure::count("pages_written_by_reclaim", stats.nr_vmscan_write),
        ]);
        figures
    });
    Ok(world.each_second(look))
}

/// The number of waiting readers, averaged over each whole second so far.
fn load(waits: &[(Instant, Instant)], now: Instant) -> Vec<f64> {
    let second = 1_000_000_000;
    let mut load = vec![0.0; (now.0 / second) as usize];
    for &(began, ended) in waits {
        let mut at = began;
        while at < ended {
            let n = at.0 / second;
            let end = Instant((n + 1) * second).min(ended);
            if let Some(load) = load.get_mut(n as usize) {
                *load += end.since(at).0 as f64 / second as f64;
            }
            at = end;
        }
    }
    load
}
