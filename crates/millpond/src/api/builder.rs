//! Configures and builds a cache: budget, options, device, and the hooks for notices and warnings.

use super::cache::PageCache;
use super::handle::Handle;
use crate::control::auto;
use crate::control::budget::Budget;
use crate::control::cache::Cache;
use crate::control::calibration::Calibrating;
#[cfg(feature = "control")]
use crate::control::socket::Place;
use crate::device::{self, Calibration, Device, Warning, Watched};
use crate::engine::budget::{self, Reserved};
use crate::engine::driver::Engine;
use crate::engine::threads::Threads;
use crate::error::{Error, Result};
use crate::frames::table::Table;
use crate::host::addresses;
use crate::host::hook::Hook;
use crate::host::{self, Notice, Notices};
use crate::memory::{Spaces, SwapFile, swap};
use crate::observe::events;
use crate::observe::record::Recorder;
use crate::settings::MemoryRange;
use crate::sys::arena::Arena;
use crate::sys::mapping::kernel_page;
use millpond_core::admission::{AdmissionOptions, DeviceHints};
use millpond_core::event::Event;
use millpond_core::manager::Manager;
use millpond_core::options::{OptionError, Options, Preset};
use millpond_core::units::{Bytes, Nanos, PageSize};
#[cfg(feature = "metrics")]
use std::net::SocketAddr;
#[cfg(feature = "control")]
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

/// Builds a [`PageCache`].
///
/// ```
/// use millpond::PageCache;
/// use std::time::Duration;
/// let cache = PageCache::builder()
///     .memory(256 << 20) // one budget: pages, metadata, transfers
///     .page_size(16 << 10) // as the engine's own pages
///     .read_latency_goal(Duration::from_millis(5)) // writers give way to reads beyond it
///     .on_warning(|warning| eprintln!("cache: {warning}")) // a disk that does not answer
///     .build()?;
/// assert!(cache.stats().occupancy.frames.0 > 15_000);
/// # Ok::<(), millpond::Error>(())
/// ```
#[derive(Debug)]
pub struct Builder {
    memory: u64,
    memory_auto: Option<MemoryRange>,
    page_size: u64,
    /// `None`: Millpond's own.
    options: Option<std::result::Result<Options, OptionError>>,
    goal: Option<Duration>,
    populate: bool,
    calibrate: bool,
    calibration: Option<Calibration>,
    device: Option<Arc<dyn Device>>,
    recorder: Option<Box<dyn Recorder>>,
    memory_beyond_limit: bool,
    notice_hook: Hook<Notice>,
    warning_hook: Hook<Warning>,
    #[cfg(feature = "control")]
    control: Option<Place>,
    #[cfg(feature = "metrics")]
    metrics: Option<SocketAddr>,
    name: Option<String>,
    swap: Vec<SwapFile>,
    mappings: bool,
    closed_files: usize,
}

impl Builder {
    /// Sets the budget in bytes. It covers frames, metadata and I/O buffers together. Default: 64 MiB. The least is 772
    /// KiB with pages of 4 KiB and 4612 KiB with pages of 64 KiB; swap, mappings and stable pages need more.
    pub fn memory(mut self, bytes: u64) -> Builder {
        self.memory = bytes;
        self.memory_auto = None;
        self
    }

    /// Lets the budget follow the host, between `min` and `max` bytes. The cache shrinks the budget at once when the
    /// machine or a control group above this process runs short of free memory, or when programs there stall on memory.
    /// It raises the budget while memory is free and the cache is full. The budget starts at `min` and grows as the
    /// cache fills.
    ///
    /// This is the same as `set("memory", "auto:256M..4G")`. [`PageCache::memory`] returns the budget in force. Costs a
    /// thread that checks every 50 ms to 1 s, depending on how much memory is free, and when the kernel signals memory
    /// pressure.
    pub fn memory_auto(mut self, min: u64, max: u64) -> Builder {
        let (min, max) = (Bytes(min), Bytes(max));
        self.memory_auto = Some(MemoryRange { min, max });
        self
    }

    /// Sets the page size in bytes: a power of two from 4 KiB (the default) to 64 KiB.
    pub fn page_size(mut self, bytes: u64) -> Builder {
        self.page_size = bytes;
        self
    }

    /// Sets all options at once, including the read latency goal, and so disables calibration. The page size still
    /// comes from [`Builder::page_size`].
    pub fn options(mut self, options: Options) -> Builder {
        self.options = Some(Ok(options));
        self.calibrate = false;
        self
    }

    /// Selects a named set of options: `millpond` (the default), `linux-5` or `dillon-2000`. These are the names of
    /// [`Preset`]; to change some of its options, pass [`Preset::options`] to [`Builder::options`].
    pub fn preset(mut self, name: &str) -> Builder {
        self.options = Some(Preset::from_name(name).map(Preset::options));
        self
    }

    /// Sets how many closed files keep their pages in memory after their last handle is dropped. When such a file is
    /// opened again unchanged, its pages are still cached. Replacement treats these pages like any others. A closed
    /// file holds no descriptor and costs about 1 KiB outside the budget. Beyond `count` files, the cache discards the
    /// one closed first. Default: 0, so a closed file's pages leave memory.
    ///
    /// A closed file keeps its pages if all of them were written, the file has a name, and its options are the defaults
    /// (no log order, check or stable pages). It counts as unchanged if its path, inode, birth time, length,
    /// modification time and change time all match. Some kernels and file systems can give two changes the same
    /// timestamp: Linux before 6.13, and file systems other than ext4, xfs, btrfs and tmpfs. There, a file that was
    /// changed less than 20 ms before it was closed does not keep its pages.
    ///
    /// ```
    /// # use millpond::{OpenOptions, PageCache};
    /// # let folder = tempfile::tempdir()?;
    /// # let path = folder.path().join("table");
    /// # std::fs::write(&path, "rows")?;
    /// let cache = PageCache::builder().memory(4 << 20).closed_files(10_000).build()?;
    /// for _ in 0..2 {
    ///     // The second time nothing is read from the device, if the file has not changed.
    ///     assert_eq!(cache.open(&path, OpenOptions::new())?.read_at(&mut [0; 4], 0)?, 4);
    /// }
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn closed_files(mut self, count: usize) -> Builder {
        self.closed_files = count;
        self
    }

    /// Sets the target p99 latency of cache misses while writers are active: 50 us to 10 s. The default is sixteen
    /// times the device's read latency without other load, at least 2 ms and at most 60 ms on a rotational device or 8
    /// ms on others. The cache measures it when it opens the first file of 1 MiB or more. Applies only to options with
    /// a goal.
    pub fn read_latency_goal(mut self, goal: Duration) -> Builder {
        self.goal = Some(goal);
        self
    }

    /// Sets whether the cache derives the read latency goal from the device. It measures when it opens the first file
    /// of 1 MiB or more. If the device was busy then, it measures again, with reads of open files, once the device is
    /// idle. Enabled by default unless [`Builder::read_latency_goal`] or [`Builder::options`] sets a goal.
    pub fn calibrate(mut self, calibrate: bool) -> Builder {
        self.calibrate = calibrate;
        self
    }

    /// Supplies the device's calibration from an earlier cache ([`PageCache::calibration`]), so that nothing is
    /// measured. The read latency goal follows from it unless [`Builder::read_latency_goal`] sets one.
    pub fn calibration(mut self, calibration: Calibration) -> Builder {
        self.calibration = Some(calibration);
        self
    }

    /// Sets whether all frames get their memory when the cache is built (the default), and new ones when the budget grows. Otherwise
    /// each page or huge page is allocated at first use, in the path of some read. Populating takes about 0.1 s for 512 MiB, and 1.4 s in a
    /// virtual machine whose host allocates its memory lazily. Skipped for a budget beyond a limit
    /// ([`Builder::memory_beyond_limit`]).
    pub fn populate(mut self, populate: bool) -> Builder {
        self.populate = populate;
        self
    }

    /// Sets the device that performs the transfers, for example a simulated or a failing disk. The default is
    /// [`device::best`].
    pub fn device(mut self, device: Arc<dyn Device>) -> Builder {
        self.device = Some(device);
        self
    }

    /// Sets a recorder that receives every event and answer of the state machine, starting with the first step.
    #[doc(hidden)]
    pub fn recorder(mut self, recorder: impl Recorder + 'static) -> Builder {
        self.recorder = Some(Box::new(recorder));
        self
    }

    /// Allows a budget above a control group's memory limit, with a notice, or above the machine's memory. Default: no,
    /// because the kernel kills processes that reach it. The cache's tables, a 65th of the budget, must fit in either
    /// case.
    pub fn memory_beyond_limit(mut self, allowed: bool) -> Builder {
        self.memory_beyond_limit = allowed;
        self
    }

    /// Sets the hook for notices about what the cache must do without. It runs on the thread whose call found the
    /// restriction, once per notice and cache. Default: [`host::to_stderr`](crate::host::to_stderr), which prints a
    /// line on standard error, once per notice and process.
    pub fn on_notice(mut self, hook: impl Fn(&Notice) + Send + Sync + 'static) -> Builder {
        self.notice_hook = Hook::new(hook);
        self
    }

    /// Sets the hook for conditions a user should know about although no call fails, for example a device that has not
    /// answered for `hung_io_timeout` (10 s). Default: a line on standard error.
    /// [`Stats::warnings`](crate::Stats::warnings) counts the warnings.
    ///
    /// A dedicated thread calls the hook, one warning at a time. If no thread can be started, the thread that raised
    /// the warning calls it. The hook should note the warning and return. If it panics, the cache is poisoned. Dropping
    /// the cache's last handle and file waits for a running hook; no hook is called afterwards.
    pub fn on_warning(mut self, hook: impl Fn(&Warning) + Send + Sync + 'static) -> Builder {
        self.warning_hook = Hook::new(hook);
        self
    }

    /// Lets `millpond stat`, `inspect` and `set`, run by the same user, inspect and tune the cache through a socket
    /// among the user's run-time files ([`control`](crate::control) gives its path). Default: no. Costs a thread, which
    /// sleeps.
    #[cfg(feature = "control")]
    pub fn control(mut self, wanted: bool) -> Builder {
        self.control = wanted.then_some(Place::Default);
        self
    }

    /// As [`Builder::control`], with the socket at `path`, for `--cache PATH`. A stale socket that an earlier cache
    /// left there is replaced.
    #[cfg(feature = "control")]
    pub fn control_at(mut self, path: impl Into<PathBuf>) -> Builder {
        self.control = Some(Place::At(path.into()));
        self
    }

    /// Names the cache. `millpond caches` and `top` show the name, `--cache` accepts it, and the metrics carry it for
    /// all their readers to see. A mount is named after its mount point. Default: none.
    pub fn name(mut self, name: impl Into<String>) -> Builder {
        self.name = Some(name.into());
        self
    }

    /// Serves metrics for Prometheus at `http://ADDRESS/metrics`, in its text format. Default: no. There is no
    /// password, so use a loopback address such as `127.0.0.1:9464`, or one that only users who may see the cache's
    /// activity can reach. The metrics contain no file names. Port 0 picks a free port, which
    /// [`PageCache::metrics_address`] returns. Costs a thread, which sleeps, and at most 32 connections.
    #[cfg(feature = "metrics")]
    pub fn metrics(mut self, address: SocketAddr) -> Builder {
        self.metrics = Some(address);
        self
    }

    /// Adds a swap file, to which pages of regions are evicted. Regions ([`PageCache::region`]) require one. With swap,
    /// frames use small pages. Requires pages of 4 KiB and userfaultfd of Linux 6.8 or newer.
    pub fn swap(mut self, swap: SwapFile) -> Builder {
        self.swap.push(swap);
        self
    }

    /// Enables mapping files ([`File::map`](crate::File::map)); [`Builder::swap`] enables it too. Default: no. Frames
    /// then use small pages, so hits on a large set of files take twice as long. Requires pages of 4 KiB and userfaultfd
    /// of Linux 6.8 or newer. Costs a thread, which sleeps, and up to seven more while threads touch pages that are not
    /// mapped in.
    pub fn mappings(mut self, wanted: bool) -> Builder {
        self.mappings = wanted;
        self
    }

    /// Builds the cache and starts its thread.
    ///
    /// # Errors
    /// [`Error::Control`] if the control socket can't be opened; [`Error::Metrics`] if the metrics can't be served;
    /// [`Error::Option`], [`Error::BudgetTooSmall`], [`Error::MemoryLimit`], [`Error::MemoryOfMachine`] or
    /// [`Error::MemoryForTables`], each with what is allowed, before any memory is taken; [`Error::Setup`] if the
    /// system refuses memory, a thread or userfaultfd; [`Error::Swap`] if the swap file can't be used.
    pub fn build(self) -> Result<PageCache> {
        // Whether frames exchange pages with regions or mappings.
        let exchanges = self.mappings || !self.swap.is_empty();
        let page_size = PageSize::from_bytes(self.page_size).ok_or_else(|| OptionError {
            option: "page_size",
            value: format!("{} bytes", self.page_size),
            allowed: "4096, 8192, 16384, 32768 or 65536 bytes".into(),
        })?;
        if exchanges && page_size.bytes() as usize != kernel_page() {
            return Err(OptionError {
                option: "page_size",
                value: format!("{} bytes", page_size.bytes()),
                allowed: format!(
                    "{} bytes in a cache with mappings or swap, the kernel's own pages",
                    kernel_page()
                ),
            }
            .into());
        }
        let options = match self.options {
            Some(options) => options?,
            None => Options::default(),
        };
        let mut options = Options { page_size, ..options };
        // All sizes before anything is made of them: tables grow with them, and memory that is not there ends the process.
        for swap in &self.swap {
            swap.check(page_size)?;
        }
        if let (Some(goal), AdmissionOptions::Goal(g)) = (self.goal, &mut options.admission) {
            g.read_latency = Nanos(goal.as_nanos().min(u128::from(u64::MAX)) as u64);
        }
        let reserved = Reserved {
            region_bytes: self.swap.iter().map(|swap| swap.metadata_bytes(page_size)).sum(),
            ..match exchanges {
                false => Reserved::default(),
                true => Reserved::with_regions(page_size),
            }
        };
        let auto = self.memory_auto;
        if let Some(MemoryRange { min, max }) = auto {
            if min > max {
                return Err(OptionError {
                    option: "memory",
                    value: format!("auto from {min}"),
                    allowed: format!("up to the maximum, {max}"),
                }
                .into());
            }
            budget::frames(min, page_size, reserved)?;
        }
        let memory = auto.map_or(Bytes(self.memory), |range| auto::first(range, &host::places()));
        let frames = budget::frames(memory, page_size, reserved)?;
        options.check()?;
        let beyond = host::check_memory(memory.0, budget::tables(frames), self.memory_beyond_limit)?;
        let is_beyond = beyond.is_some() || memory.0 > crate::sys::machine_memory_bytes();
        let setup = |what| move |source| Error::Setup { what, source };
        let notices = Notices::new(self.notice_hook);
        for notice in beyond.into_iter().chain(host::free_memory(memory.0)) {
            notices.add(notice, 0);
        }
        let (device, refusal) = match self.device {
            Some(device) => (device, None),
            None => device::best_or_why(),
        };
        if let Some(refusal) = refusal {
            notices.add(Notice::NoRing(refusal), 0);
        }
        // The subscriber of `tracing` as the hook: it may write to a file of the cache.
        let hook = self.warning_hook;
        let hook = Hook::new(move |warning: &Warning| {
            events::warned(warning);
            hook.tell(warning);
        });
        let device = Watched::new(device, page_size, options.hung_io_timeout, hook);
        // More than the machine has is of no use where the host decides.
        let machine = Bytes(crate::sys::machine_memory_bytes());
        let auto = auto.map(|range| MemoryRange {
            max: range.max.min(machine.max(memory)),
            ..range
        });
        let needed = auto.map_or(memory, |range| range.max.max(memory));
        let memory_max = addresses::to_reserve(needed, machine);
        let reserving = |what| move |source| setup(what)(addresses::refused(source, needed));
        let arena = Arena::new(memory_max, page_size, exchanges)
            .map_err(reserving("reserving addresses for the frames"))?;
        let small_pages = arena.huge_pages().and_then(host::small_pages);
        let is_huge = arena.huge_pages().is_some() && small_pages.is_none();
        if let Some(why) = small_pages {
            notices.add(Notice::NoHugePages(why), 0);
        }
        let (table, mut token) = Table::new(arena).map_err(reserving("reserving addresses for the table"))?;
        table
            .locked(&mut token)
            .grow(frames.0 as u32)
            .map_err(reserving("getting memory for the frames"))?;
        // What is beyond a limit would end the process at once.
        let populate = self.populate && !is_beyond;
        if populate {
            table.memory().populate(0..frames.0 as u32);
        }
        let table = Arc::new(table);
        let spaces = match exchanges {
            false => None,
            true => Some(swap::make(&self.swap, &table, page_size, populate)?),
        };
        if spaces.as_ref().is_some_and(Spaces::misses_system_calls) {
            notices.add(Notice::NoKernelFaults, 0);
        }
        // It takes memory by the frame, which can't be refused: after all that can.
        let manager = Manager::new(options, frames)?;
        let engine = Engine::new(table, token, manager, device, self.recorder, spaces, is_huge);
        let engine = Arc::new(engine);
        if let Some(spaces) = &engine.spaces {
            let whole = engine.exchange_frames(frames.0 as u32);
            whole.map_err(setup("making the frames exchangeable"))?;
            spaces.doubles.fit(frames);
            spaces.tables.fit(frames.0);
            for (slots, priority, file) in spaces.swap_areas() {
                let hints = || DeviceHints {
                    rotational: Some(engine.device.facts(&file).rotational),
                    ..DeviceHints::default()
                };
                let device = engine.device_entered(file.identity().device, hints);
                engine.tell(Event::SwapAdded {
                    slots,
                    priority,
                    device,
                });
            }
        }
        let threads = Threads::start(&engine)?;
        let calibrating = match self.calibration {
            Some(calibration) => Calibrating::Done(calibration),
            None if self.calibrate && self.goal.is_none() => Calibrating::Due,
            None => Calibrating::Off,
        };
        let cache = Cache::new(
            engine,
            threads,
            calibrating,
            notices,
            Budget {
                memory,
                auto,
                reserved,
            },
            self.memory_beyond_limit,
        );
        let handle = Handle::new(cache, self.closed_files);
        if let Some(name) = self.name {
            // It is set once, here.
            let _ = handle.name.set(name);
        }
        if let Some(calibration) = self.calibration.filter(|_| self.goal.is_none()) {
            handle.take(calibration);
        }
        if auto.is_some() {
            handle.follow_from_now_on()?;
        }
        #[cfg(feature = "control")]
        let mut handle = handle;
        #[cfg(feature = "control")]
        if let Some(place) = &self.control {
            handle.listen(place)?;
        }
        #[cfg(feature = "metrics")]
        if let Some(address) = self.metrics {
            handle.serve_metrics(address)?;
        }
        if let Some(spaces) = &handle.engine.spaces {
            spaces.keep_swap();
        }
        Ok(PageCache {
            handle: Arc::new(handle),
        })
    }
}

impl PageCache {
    /// Returns a builder with the defaults: 64 MiB, pages of 4 KiB, Millpond's own options.
    pub fn builder() -> Builder {
        Builder::default()
    }
}

impl Default for Builder {
    /// 64 MiB, pages of 4 KiB, Millpond's own options.
    fn default() -> Builder {
        Builder {
            memory: 64 << 20,
            memory_auto: None,
            page_size: 4096,
            options: None,
            goal: None,
            populate: true,
            calibrate: true,
            calibration: None,
            device: None,
            recorder: None,
            memory_beyond_limit: false,
            notice_hook: Hook::new(host::to_stderr),
            warning_hook: Hook::new(device::to_stderr),
            #[cfg(feature = "control")]
            control: None,
            #[cfg(feature = "metrics")]
            metrics: None,
            name: None,
            swap: Vec::new(),
            mappings: false,
            closed_files: 0,
        }
    }
}
