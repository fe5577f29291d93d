//! Axboe 2016: files are written one after the other while another process reads.

use crate::world::Figure;
use crate::worlds::millpond::Millpond;
use millpond_core::admission::goal::GoalOptions;
use millpond_core::admission::{AdmissionOptions, Form};
use millpond_core::options::Options;
use millpond_core::units::{Bytes, FileId, Instant, Nanos, PageCount, PageSize};
use millpond_kernels::linux::wbt::Wbt;
use millpond_kernels::linux::wbt::posted::PostedOptions;
use millpond_sim::disk::{HddParameters, Model};
use millpond_sim::scripts::axboe2016::{Reader, Shared, Writer};
use millpond_sim::{Costs, Faults, World, WorldOptions};

/// Sizes of the load; the laboratory's at scale 1.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Sizes {
    /// Files that are written.
    pub files: u32,
    /// Pages of each.
    pub file_pages: u64,
    /// Pages of the file that is read.
    pub read_pages: u64,
    /// Frames of memory.
    pub frames: u64,
    /// The seed of what is read.
    pub seed: u64,
}

impl Sizes {
    /// The post's files, beside 512 MiB of memory and a file of 4 GiB that is read, all but their number by `permille`.
    pub fn scaled(permille: u64, seed: u64) -> Sizes {
        // in whole writes of 64 KiB, and whole MiB
        let of =
            |mib: u64, unit: u64, least: u64| ((mib << 20) * permille / 1000 / unit * unit).max(least) / 4096;
        Sizes {
            files: 50,
            file_pages: of(100, 64 << 10, 64 << 10),
            read_pages: of(4096, 1 << 20, 1 << 20),
            frames: of(512, 1 << 20, 16 << 20),
            seed,
        }
    }
}

/// Pages of a write call: the laboratory's.
const WRITE_PAGES: u32 = 64;
/// The engine's calibration of such a disk.
const GOAL: Nanos = Nanos::from_millis(60);

fn options(admission: AdmissionOptions, sizes: &Sizes) -> Result<WorldOptions, String> {
    Ok(WorldOptions {
        options: Options {
            admission,
            ..Options::default()
        },
        alternatives: Vec::new(),
        frames: PageCount(sizes.frames),
        model: Model::hdd(HddParameters::default()).map_err(|e| e.to_string())?,
        costs: Costs::default(),
        faults: Faults::default(),
        seed: sizes.seed,
        validate_every: 0,
    })
}

fn load<A: Form>(mut world: World<A>, sizes: &Sizes) -> Millpond<A> {
    let seen = Shared::default();
    let read_file = world.add_file(PageCount(sizes.read_pages));
    let files: Vec<FileId> = (0..sizes.files)
        .map(|_| world.add_file(PageCount(sizes.file_pages)))
        .collect();
    let writer = Writer::new(files, sizes.file_pages, WRITE_PAGES, seen.clone());
    world.add_process(Box::new(writer));
    let reader = Reader::new(
        read_file,
        sizes.read_pages,
        sizes.seed,
        Instant::NEVER,
        seen.clone(),
    );
    world.add_process(Box::new(reader));
    Millpond::new(world, &["the writer", "the reader"], move |world| {
        figures(world, &seen)
    })
}

fn figures<A: Form>(world: &World<A>, seen: &Shared) -> Vec<Figure> {
    let seen = seen.borrow();
    let now = world.now().0 as f64 / 1e9;
    let reads = (seen.missed.len() + seen.hits.len()) as u64;
    let mut took: Vec<u64> = seen.missed.iter().map(|(_, took)| took.0).collect();
    took.resize(reads as usize, Costs::default().copy.0);
    took.sort_unstable();
    let percentile = |share: f64| {
        let rank = (share * took.len() as f64).ceil() as usize;
        took.get(rank.clamp(1, took.len().max(1)) - 1)
            .map_or(0.0, |&ns| ns as f64 / 1e3)
    };
    let pages: u64 = seen.writes.iter().map(|&(_, pages)| u64::from(pages)).sum();
    let rate = |count: f64| if now > 0.0 { count / now } else { 0.0 };
    let stats = world.manager().stats();
    let mut figures = vec![
        Figure::count("reader_reads", reads),
        Figure::of("reader_reads_per_s", "1/s", rate(reads as f64)),
        Figure::of("reader_latency_p50_us", "us", percentile(0.5)),
        Figure::of("reader_latency_p99_us", "us", percentile(0.99)),
        Figure::of("reader_latency_p999_us", "us", percentile(0.999)),
        Figure::of("reader_latency_max_us", "us", percentile(1.0)),
        Figure::of(
            "writers_mb",
            "MB",
            Bytes(pages * PageSize::KIB_4.bytes()).0 as f64 / 1e6,
        ),
        Figure::count("pages_written", stats.nr_written),
        Figure::count("writes_held_back", stats.admission_waits.iter().sum()),
    ];
    if seen.writers == 0 {
        figures.push(Figure::of("writers_seconds", "s", seen.synced.0 as f64 / 1e9));
    }
    figures
}

/// Without a throttle.
///
/// # Errors
/// If sizes or disk can't be.
pub fn off(sizes: &Sizes) -> Result<Millpond<millpond_core::admission::Configured>, String> {
    let world = World::new(options(AdmissionOptions::Off, sizes)?).map_err(|e| e.to_string())?;
    Ok(load(world, sizes))
}

/// The post's third version, with this percentage of the queue.
///
/// # Errors
/// If sizes or disk can't be.
pub fn posted(percent: u32, sizes: &Sizes) -> Result<Millpond<Wbt>, String> {
    let form = Wbt::posted(PostedOptions::v3(percent));
    let options = options(AdmissionOptions::Off, sizes)?;
    let world = World::with_admission(options, form).map_err(|e| e.to_string())?;
    Ok(load(world, sizes))
}

/// Millpond: a goal for reads.
///
/// # Errors
/// If sizes or disk can't be.
pub fn goal(sizes: &Sizes) -> Result<Millpond<millpond_core::admission::Configured>, String> {
    let goal = AdmissionOptions::Goal(GoalOptions {
        read_latency: GOAL,
        ..GoalOptions::default()
    });
    let world = World::new(options(goal, sizes)?).map_err(|e| e.to_string())?;
    Ok(load(world, sizes))
}
