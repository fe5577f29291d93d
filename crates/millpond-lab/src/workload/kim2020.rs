//! A load on real memory, in a process of its own: pages that the kernel swaps, or a region of Millpond's engine.
//!
//! ```text
//!   kernel   ordinary memory of a process in a memory group, and a swap file or disk that the parent has made
//!   engine   a region with real pointers and a swap file; on a modelled disk its service time around each transfer
//! ```
//!
//! The same program touches both. Each page names itself in its first word, and is checked whenever it is read.

mod counters;
pub(crate) mod draws;
pub(crate) mod loads;

use self::counters::Counters;
use self::draws::{Draws, PHASES};
use self::loads::{CHUNK, Ebizzy, Load, script};
use super::Progress;
use crate::error::{LabError, Result};
use crate::outcome::{Outcome, Setting};
use crate::setup::{Device, Setup};
use crate::watch::Proceed;
use millpond::device;
use millpond::internal::Surface;
use millpond::{Faults, File, OpenOptions, PageCache, Region, RegionOptions, SwapFile};
use millpond_sim::task::Op;
use millpond_testing::Modelled;
use serde::{Deserialize, Serialize};
use std::fs;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::thread;
use std::time::{Duration, Instant};

/// Words of a page.
const WORDS: usize = 512;
const PAGE: usize = 4096;
/// How often progress is reported.
const TELL: Duration = Duration::from_millis(200);
/// Pages after which the kernel's row looks at what is still being written.
const SLICE: usize = 512;
const UNWRITTEN_KIB_MAX: u64 = 16 << 10;
const WAIT_MAX: Duration = Duration::from_secs(2);
/// Slots for each page that may have to leave: appends then find free blocks.
const SLOTS_PER_PAGE: u64 = 2;

/// The post's first example.
pub const TOY_PROTECT: &str = "toy-protect";
/// Its second.
pub const TOY_DETECT: &str = "toy-detect";

/// All workloads, as users write them.
pub const WORKLOADS: [&str; 9] = [
    TOY_PROTECT,
    TOY_DETECT,
    "hot-cold",
    "moving-window",
    "phase-change",
    "stationary",
    "file-scan",
    "memory-scan",
    "ebizzy-MB-SKEW-THREADS",
];

/// The row of a region whose faults are served by the threads that have them.
pub(crate) const IN_THREAD: &str = "in-thread";

/// A run's work.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Work {
    /// The load, by the name that `--workload` takes.
    pub load: String,
    /// The divisor of all its sizes.
    pub shrink: u64,
    /// The factor on the number of rounds and records.
    pub scale: f64,
    /// The seed of what ebizzy draws.
    pub seed: u64,
}

impl Work {
    fn load(&self) -> Result<Load> {
        Load::from_name(&self.load).ok_or_else(|| LabError::UnknownName {
            what: "workload",
            value: self.load.clone(),
            allowed: WORKLOADS.join(", "),
        })
    }

    /// Anonymous pages, pages of a file.
    pub(crate) fn pages(&self) -> Result<[u64; 2]> {
        Ok(match self.load()? {
            Load::Ebizzy(cell) => [cell.shrunk(self.shrink).mb * 256, 0],
            load => script(load, rounds(self.scale)).shrunk(self.shrink).pages,
        })
    }

    /// The swap that it needs, in pages.
    pub(crate) fn swap_pages(&self) -> Result<u64> {
        Ok(self.pages()?[0] * SLOTS_PER_PAGE)
    }

    /// Performs it in this process.
    ///
    /// # Errors
    /// What the system or the engine refuses; a page with other content than was written to it;
    /// [`LabError::Interrupted`].
    pub fn perform(&self, setup: &Setup, progress: &mut dyn FnMut(Progress) -> Proceed) -> Result<Outcome> {
        let load = self.load()?;
        let [pages, file_pages] = self.pages()?;
        let process = Process::new(setup, pages, file_pages, self.swap_pages()?, load)?;
        match load {
            Load::Ebizzy(cell) => self.ebizzy(cell, setup, process, progress),
            load => self.course(load, process, progress),
        }
    }

    fn course(
        &self,
        load: Load,
        mut process: Process,
        progress: &mut dyn FnMut(Progress) -> Proceed,
    ) -> Result<Outcome> {
        let course = script(load, rounds(self.scale)).shrunk(self.shrink);
        let all = (course.set_up.len() + course.rounds.len()) as f64;
        let mut done: u32 = 0;
        let mut go_on = |doing: &str| {
            done += 1;
            let now = Progress {
                doing: doing.into(),
                share: f64::from(done) / all,
                detail: format!("{done} of {all} steps"),
                beat: done.into(),
                live: None,
            };
            match progress(now) {
                Proceed::Yes => Ok(()),
                Proceed::Stop => Err(LabError::Interrupted),
            }
        };
        for op in &course.set_up {
            process.perform(op)?;
            go_on("allocating")?;
        }
        let (before, began) = (process.counters()?, Instant::now());
        for op in &course.rounds {
            process.perform(op)?;
            go_on("rounds")?;
        }
        let took = began.elapsed().as_secs_f64();
        let mut outcome = Outcome::default();
        process.counters()?.since(&before).push(&mut outcome);
        outcome.push("elapsed_seconds", "s", took);
        outcome.settings = process.settings();
        Ok(outcome)
    }

    fn ebizzy(
        &self,
        cell: Ebizzy,
        setup: &Setup,
        mut process: Process,
        progress: &mut dyn FnMut(Progress) -> Proceed,
    ) -> Result<Outcome> {
        let draws = Draws::new(
            cell.shrunk(self.shrink),
            setup.memory.0 >> 12,
            self.scale,
            self.seed,
        );
        process.perform(&Op::Touch {
            first: 0,
            pages: draws.cell.mb * 256,
            write: true,
            each: millpond_core::units::Nanos::ZERO,
        })?;
        let mut outcome = Outcome::default();
        for (phase, fills) in PHASES {
            let (before, began) = (process.counters()?, Instant::now());
            let each = draws.records(fills);
            let ended = copy(&draws, process.memory.words(), phase, each, progress)?;
            let took = ended.duration_since(began).as_secs_f64();
            if phase == 1 {
                let counted = process.counters()?.since(&before);
                let records = (each * u64::from(cell.threads)) as f64;
                outcome.push("records_per_s", "1/s", records / took);
                for (metric, pages) in [
                    ("swap_ins_per_record_pages", counted.swap_ins),
                    ("swap_outs_per_record_pages", counted.swap_outs),
                ] {
                    outcome.push(metric, "1", pages as f64 / records);
                }
                counted.push(&mut outcome);
                outcome.push("elapsed_seconds", "s", took);
            }
        }
        outcome.settings = process.settings();
        Ok(outcome)
    }
}

/// Rounds of loads that have them: the post's 20.
pub(crate) fn rounds(scale: f64) -> u64 {
    ((20.0 * scale).round() as u64).max(2)
}

/// Each thread copies its chunks into memory of its own, new for each, as ebizzy does. When the last has done so.
fn copy(
    draws: &Draws,
    words: &[u64],
    phase: u64,
    each: u64,
    progress: &mut dyn FnMut(Progress) -> Proceed,
) -> Result<Instant> {
    let (done, stop) = (AtomicU64::new(0), AtomicBool::new(false));
    let chunk_words = CHUNK as usize * WORDS;
    let copier = |thread: u32| -> Result<Instant> {
        let mut draw = draws.of(phase, thread);
        for _ in 0..each {
            if stop.load(Relaxed) {
                return Err(LabError::Interrupted);
            }
            let chunk = draws.zipf.draw(&mut draw) as usize;
            let copied = words[chunk * chunk_words..][..chunk_words].to_vec();
            for (n, page) in copied.chunks_exact(WORDS).enumerate() {
                check(chunk * CHUNK as usize + n, page[0])?;
            }
            done.fetch_add(1, Relaxed);
        }
        Ok(Instant::now())
    };
    let all = each * u64::from(draws.cell.threads);
    thread::scope(|scope| {
        let copiers: Vec<_> = (0..draws.cell.threads)
            .map(|thread| scope.spawn(move || copier(thread)))
            .collect();
        while copiers.iter().any(|copier| !copier.is_finished()) {
            thread::sleep(TELL);
            let count = done.load(Relaxed);
            let now = Progress {
                doing: if phase == 0 { "warming up" } else { "copying" }.into(),
                share: 0.5 * (phase as f64 + count as f64 / all as f64),
                detail: format!("{count} of {all} records"),
                beat: count + 1,
                live: None,
            };
            if progress(now) == Proceed::Stop {
                stop.store(true, Relaxed);
            }
        }
        let panicked = || LabError::io("copying", io::Error::other("a thread has panicked"));
        let ends = copiers
            .into_iter()
            .map(|copier| copier.join().unwrap_or_else(|_| Err(panicked())));
        let ends: Vec<Instant> = ends.collect::<Result<_>>()?;
        Ok(ends.into_iter().max().unwrap_or_else(Instant::now))
    })
}

fn check(page: usize, word: u64) -> Result<()> {
    let written = page as u64 + 1;
    if word == written {
        return Ok(());
    }
    let why = format!("page {page} holds {word:#x}, and {written:#x} was written to it");
    Err(LabError::io("checking memory", io::Error::other(why)))
}

enum Memory {
    Kernel(Vec<u64>),
    Engine(Region),
}

impl Memory {
    fn words(&self) -> &[u64] {
        match self {
            Memory::Kernel(words) => words,
            Memory::Engine(region) => region.as_slice_of(),
        }
    }

    fn words_mut(&mut self) -> &mut [u64] {
        match self {
            Memory::Kernel(words) => words,
            Memory::Engine(region) => region.as_mut_slice_of(),
        }
    }
}

enum Reader {
    None,
    Kernel(fs::File),
    Engine(File),
}

/// A load's resources in its process: memory and a file.
struct Process {
    memory: Memory,
    reader: Reader,
    /// Number of the file's first page in the load.
    file_first: u64,
    cache: Option<PageCache>,
}

impl Process {
    fn new(setup: &Setup, pages: u64, file_pages: u64, swap_pages: u64, load: Load) -> Result<Process> {
        let path = setup.dir.join("file");
        if file_pages > 0 {
            make_file(&path, pages, file_pages)?;
        }
        let mut process = Process {
            memory: Memory::Kernel(Vec::new()),
            reader: Reader::None,
            file_first: pages,
            cache: None,
        };
        if setup.target == "kernel" {
            // Zeros that the system gives at the first touch.
            process.memory = Memory::Kernel(vec![0; pages as usize * WORDS]);
            if file_pages > 0 {
                let file = fs::File::open(&path).map_err(|e| LabError::path("cannot open", &path, e))?;
                process.reader = Reader::Kernel(file);
            }
        } else {
            let failed = |e: millpond::Error| {
                LabError::path(
                    "cannot make a region in",
                    &setup.dir,
                    io::Error::other(e.told(Surface::CommandLine)),
                )
            };
            // What the kernel's row has for its copies in its group.
            let copies = match load {
                Load::Ebizzy(cell) => u64::from(cell.threads) * CHUNK * PAGE as u64,
                _ => 0,
            };
            let swap = SwapFile::new(setup.dir.join("swap"), swap_pages * PAGE as u64);
            let mut builder = PageCache::builder()
                .memory(setup.memory.0 - copies)
                .swap(swap.unlinked(true));
            if let Device::Modelled(disk) = setup.device {
                let modelled = Modelled::new(device::best(), disk.model()?)
                    .map_err(|e| LabError::path("cannot model the disk of", &setup.dir, e))?;
                builder = builder.device(Arc::new(modelled));
            }
            let cache = builder.build().map_err(failed)?;
            let faults = if setup.variant == IN_THREAD {
                Faults::InThread
            } else {
                Faults::Handlers
            };
            let how = RegionOptions::new().faults(faults);
            let region = cache.region_with(pages as usize * PAGE, &how);
            process.memory = Memory::Engine(region.map_err(failed)?);
            if file_pages > 0 {
                let file = cache.open(&path, OpenOptions::new()).map_err(failed)?;
                process.reader = Reader::Engine(file);
            }
            process.cache = Some(cache);
        }
        Ok(process)
    }

    fn perform(&mut self, op: &Op) -> Result<()> {
        match *op {
            Op::Touch {
                first, pages, write, ..
            } => self.touch(first as usize, pages as usize, write),
            // Used often enough for any reclaim that looks.
            Op::Activate { first, pages } => {
                (0..3).try_for_each(|_| self.touch(first as usize, pages as usize, false))
            }
            Op::ReadFile { first, pages, .. } => self.read_file(u64::from(first), pages),
            Op::Copy { .. } | Op::Drop { .. } | Op::End => Ok(()),
        }
    }

    fn touch(&mut self, first: usize, pages: usize, write: bool) -> Result<()> {
        let range = first..first + pages;
        if write {
            let is_kernel = self.cache.is_none();
            let words = self.memory.words_mut();
            for page in range {
                words[page * WORDS] = page as u64 + 1;
                if is_kernel && page % SLICE == 0 {
                    wait_for_swap_writes();
                }
            }
            return Ok(());
        }
        let words = self.memory.words();
        range
            .into_iter()
            .try_for_each(|page| check(page, words[page * WORDS]))
    }

    fn read_file(&mut self, first: u64, pages: u64) -> Result<()> {
        let mut buf = [0; PAGE];
        for page in first..first + pages {
            let offset = (page - self.file_first) * PAGE as u64;
            match &self.reader {
                Reader::None => {}
                Reader::Kernel(file) => file
                    .read_exact_at(&mut buf, offset)
                    .map_err(|e| LabError::io("reading the file", e))?,
                Reader::Engine(file) => {
                    file.read_at(&mut buf, offset)
                        .map_err(|e| LabError::io("reading the file", io::Error::other(e)))?;
                }
            }
            let mut word = [0; 8];
            word.copy_from_slice(&buf[..8]);
            check(page as usize, u64::from_le_bytes(word))?;
        }
        Ok(())
    }

    fn counters(&self) -> Result<Counters> {
        match &self.cache {
            Some(cache) => Ok(Counters::of_engine(cache)),
            None => Counters::of_kernel(),
        }
    }

    fn settings(&self) -> Vec<Setting> {
        if let Some(cache) = &self.cache {
            let stats = cache.stats();
            return vec![
                Setting::new("frames", stats.derived.frames.0),
                Setting::new("device", &stats.device),
                Setting::new("replacement", format_args!("{:?}", cache.options().replacement)),
            ];
        }
        let of = |name: &str, path: &str| {
            let text = fs::read_to_string(path).unwrap_or_else(|_| "not there".into());
            Setting::new(name, text.trim())
        };
        vec![
            of("vm.page-cluster", "/proc/sys/vm/page-cluster"),
            of("vm.swappiness", "/proc/sys/vm/swappiness"),
            of("multi-generation lists", "/sys/kernel/mm/lru_gen/enabled"),
            of("huge pages", "/sys/kernel/mm/transparent_hugepage/enabled"),
        ]
    }
}

/// While memory is filled, before anything is counted, the kernel's row waits for its swap to take what it is given: in a
/// group of the first version of control groups no process has to wait for that, and one that is quicker than its
/// swap is killed. Of the whole machine, so for no longer than [`WAIT_MAX`].
fn wait_for_swap_writes() {
    let began = Instant::now();
    while began.elapsed() < WAIT_MAX {
        let text = fs::read_to_string("/proc/meminfo").unwrap_or_default();
        let line = text.lines().find_map(|line| line.strip_prefix("Writeback:"));
        let kib = line.and_then(|line| line.trim().trim_end_matches(" kB").parse::<u64>().ok());
        if kib.is_none_or(|kib| kib < UNWRITTEN_KIB_MAX) {
            return;
        }
        thread::sleep(Duration::from_millis(2));
    }
}

/// A file whose pages name themselves, in no cache.
fn make_file(path: &Path, first: u64, pages: u64) -> Result<()> {
    let failed = |e: io::Error| LabError::path("cannot make", path, e);
    let file = fs::File::create(path).map_err(failed)?;
    let mut block = vec![0; 256 * PAGE];
    for from in (0..pages).step_by(256) {
        let count = 256.min(pages - from);
        for n in 0..count {
            let at = n as usize * PAGE;
            block[at..at + 8].copy_from_slice(&(first + from + n + 1).to_le_bytes());
        }
        file.write_all_at(&block[..count as usize * PAGE], from * PAGE as u64)
            .map_err(failed)?;
    }
    file.sync_all().map_err(failed)?;
    rustix::fs::fadvise(&file, 0, None, rustix::fs::Advice::DontNeed).map_err(|e| failed(e.into()))
}
