//! The cache: made by a builder, shared by its files, ended by the last of them.

mod room;

use crate::background;
use crate::budget::{self, Aside};
use crate::device::{self, Device, DeviceFile, FileIdentity, Op, Request, Segments};
use crate::driver::Shared;
use crate::error::{Error, Result};
use crate::file::{self, File, FileInner, Keeping, OpenOptions};
use crate::record::Recorder;
use crate::stats::Stats;
use crate::sys::arena::Arena;
use crate::table::Table;
use millpond_core::admission::AdmissionOptions;
use millpond_core::event::Event;
use millpond_core::manager::Manager;
use millpond_core::options::{OptionError, Options, Preset};
use millpond_core::units::{Bytes, FileId, Nanos, PageCount, PageSize};
use parking_lot::{Condvar, Mutex};
use room::Budget;
use std::collections::HashMap;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::thread::JoinHandle;
use std::time::Duration;

/// A page cache under one memory budget. Clones are handles of the same cache.
///
/// ```
/// use millpond::{OpenOptions, PageCache};
/// # let folder = tempfile::tempdir()?;
/// # let path = folder.path().join("data");
/// let cache = PageCache::builder().memory(64 << 20).build()?;
/// let file = cache.open(&path, OpenOptions::new().create(true))?;
/// file.write_at(b"Hello, pond", 0)?;
/// file.sync_data()?;
/// assert_eq!(&file.page(0)?[..], b"Hello, pond");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone)]
pub struct PageCache {
    handle: Arc<Handle>,
}

/// What keeps a cache alive: its handles and its files.
pub(crate) struct Handle {
    pub(crate) shared: Arc<Shared>,
    thread: Mutex<Option<JoinHandle<()>>>,
    files: Mutex<Files>,
    closed: Condvar,
    /// Whether the read latency goal is still the one for an unknown device.
    calibrate: Mutex<bool>,
    budget: Mutex<Budget>,
}

#[derive(Default)]
struct Files {
    open: HashMap<FileIdentity, (Arc<FileInner>, usize)>,
    free_ids: Vec<u32>,
    next_id: u32,
    /// What could not be written when the last handle of a file was dropped.
    lost: Vec<Error>,
}

/// Makes a [`PageCache`].
#[derive(Debug)]
pub struct Builder {
    memory: u64,
    page_size: u64,
    options: std::result::Result<Options, OptionError>,
    goal: Option<Duration>,
    populate: bool,
    calibrate: bool,
    device: Option<Arc<dyn Device>>,
    recorder: Option<Box<dyn Recorder>>,
}

impl Builder {
    /// The budget in bytes, for frames, metadata and what input and output need together. Default 64 MiB.
    pub fn memory(mut self, bytes: u64) -> Builder {
        self.memory = bytes;
        self
    }

    /// The size of a page in bytes: a power of two from 4 KiB (the default) to 64 KiB.
    pub fn page_size(mut self, bytes: u64) -> Builder {
        self.page_size = bytes;
        self
    }

    /// All options at once, the goal for read latency among them: it is not calibrated then. The page size is that of
    /// [`Builder::page_size`].
    pub fn options(mut self, options: Options) -> Builder {
        self.options = Ok(options);
        self.calibrate = false;
        self
    }

    /// A named set of options: `millpond` (the default), `linux-5`, `dillon-2000`.
    pub fn preset(mut self, name: &str) -> Builder {
        self.options = Preset::from_name(name).map(Preset::options);
        self
    }

    /// What 99 of 100 reads that miss should not exceed while writers are at work, 50 us to 10 s. Default: sixteen
    /// times what the device needs for a read when nothing else is asked of it, measured when the first file with
    /// content is opened, between 2 and 60 ms. Only for options with a goal.
    pub fn read_latency_goal(mut self, goal: Duration) -> Builder {
        self.goal = Some(goal);
        self
    }

    /// Whether the read latency goal is derived from the device when the first file with content is opened. The
    /// default, unless [`Builder::read_latency_goal`] or [`Builder::options`] gave one.
    pub fn calibrate(mut self, calibrate: bool) -> Builder {
        self.calibrate = calibrate;
        self
    }

    /// Whether all frames get their memory when the cache is made (the default) rather than one huge page after the
    /// other at first use, in the path of some read. Takes about 0.1 s for 512 MiB, and 1.4 s in a virtual machine
    /// whose host gives it memory by and by.
    pub fn populate(mut self, populate: bool) -> Builder {
        self.populate = populate;
        self
    }

    /// What does the transfers, instead of the best that the system allows: a modelled disk, one that fails.
    pub fn device(mut self, device: Arc<dyn Device>) -> Builder {
        self.device = Some(device);
        self
    }

    /// Who gets to see all that the state machine is told and answers, from its first step on.
    pub fn recorder(mut self, recorder: impl Recorder + 'static) -> Builder {
        self.recorder = Some(Box::new(recorder));
        self
    }

    /// Makes the cache and starts its thread.
    ///
    /// # Errors
    /// [`Error::Option`] or [`Error::BudgetTooSmall`], with what is possible; [`Error::Setup`] if the system gives no
    /// memory or thread.
    pub fn build(self) -> Result<PageCache> {
        let page_size = PageSize::from_bytes(self.page_size).ok_or_else(|| OptionError {
            option: "page_size",
            value: format!("{} bytes", self.page_size),
            allowed: "4096, 8192, 16384, 32768 or 65536 bytes".into(),
        })?;
        let mut options = Options {
            page_size,
            ..self.options?
        };
        if let (Some(goal), AdmissionOptions::Goal(g)) = (self.goal, &mut options.admission) {
            g.read_latency = Nanos(goal.as_nanos().min(u128::from(u64::MAX)) as u64);
        }
        let frames = budget::frames(Bytes(self.memory), page_size, Aside::default())?;
        let manager = Manager::new(options, frames)?;
        let setup = |what| move |source| Error::Setup { what, source };
        let device = match self.device {
            Some(device) => device,
            None => device::best(),
        };
        let memory_max = Bytes(crate::sys::machine_memory_bytes().max(self.memory));
        let arena = Arena::new(memory_max, page_size).map_err(setup("reserving addresses for the frames"))?;
        let (table, mut turn) = Table::new(arena).map_err(setup("reserving addresses for the table"))?;
        table
            .locked(&mut turn)
            .grow(frames.0 as u32)
            .map_err(setup("getting memory for the frames"))?;
        if self.populate {
            table.memory().populate(0..frames.0 as u32);
        }
        let shared = Arc::new(Shared::new(Arc::new(table), turn, manager, device, self.recorder));
        let thread = background::start(shared.clone()).map_err(setup("starting the background thread"))?;
        let calibrate = self.calibrate && self.goal.is_none();
        Ok(PageCache {
            handle: Arc::new(Handle {
                shared,
                thread: Mutex::new(Some(thread)),
                files: Mutex::new(Files::default()),
                closed: Condvar::new(),
                calibrate: Mutex::new(calibrate),
                budget: Mutex::new(Budget {
                    memory: Bytes(self.memory),
                    aside: Aside::default(),
                }),
            }),
        })
    }
}

impl PageCache {
    /// A builder with the defaults: 64 MiB, pages of 4 KiB, Millpond's own options.
    pub fn builder() -> Builder {
        Builder {
            memory: 64 << 20,
            page_size: 4096,
            options: Ok(Options::default()),
            goal: None,
            populate: true,
            calibrate: true,
            device: None,
            recorder: None,
        }
    }

    /// Opens a file or block device. A file that is open already, by whatever name, is the same file: its handles
    /// see one another's writes at once.
    ///
    /// # Errors
    /// [`Error::Open`], which says why: it does not exist, may not be read or written, is a directory, is longer than
    /// 2^52 bytes, is open already with another log or check. [`Error::BudgetTooSmall`] if there is no room for the copies
    /// that the first file with stable pages needs.
    pub fn open(&self, path: impl AsRef<Path>, options: OpenOptions) -> Result<File> {
        let path = path.as_ref();
        let shared = &self.handle.shared;
        shared.poison.check()?;
        let failed = |source| Error::Open {
            path: path.to_owned(),
            source,
        };
        let keeping = Keeping::new(&options).map_err(failed)?;
        let device = DeviceFile::open(path, options.access()).map_err(failed)?;
        self.handle.calibrate(&device, device.len().map_err(failed)?);
        let identity = device.identity();
        let mut files = self.handle.files.lock();
        // A file whose last handle is being dropped has to be written and forgotten first.
        while files
            .open
            .get(&identity)
            .is_some_and(|(_, handles)| *handles == 0)
        {
            self.handle.closed.wait(&mut files);
            shared.poison.check()?;
        }
        let writable = options.writes();
        if let Some((inner, handles)) = files.open.get_mut(&identity) {
            inner.keeping.agrees_with(&options).map_err(failed)?;
            if writable && !inner.is_writable() {
                inner.reopen(device);
            }
            *handles += 1;
            return Ok(File {
                inner: inner.clone(),
                cache: self.handle.clone(),
                writable,
            });
        }
        // Not before: another last handle may have made it longer until now.
        let len = device.len().and_then(file::check_len).map_err(failed)?;
        self.handle.set_aside(&keeping)?;
        if let Some(held) = &keeping.held {
            held.log.join(shared);
        }
        let id = files.free_ids.pop().unwrap_or_else(|| {
            files.next_id += 1;
            files.next_id - 1
        });
        let inner = Arc::new(FileInner::new(FileId(id), device, path, len, writable, keeping));
        {
            let mut core = shared.core();
            let at = id as usize;
            if at >= core.files.len() {
                core.files.resize(at + 1, None);
            }
            core.files[at] = Some(inner.clone());
        }
        shared.tell(Event::Opened {
            file: FileId(id),
            pages: PageCount(len.div_ceil(shared.page_size.bytes())),
        });
        files.open.insert(identity, (inner.clone(), 1));
        Ok(File {
            inner,
            cache: self.handle.clone(),
            writable,
        })
    }

    /// Makes everything durable that was written to any file of the cache.
    ///
    /// # Errors
    /// The first error, as of [`File::sync_data`]; all files are tried.
    pub fn sync_all(&self) -> Result<()> {
        let shared = &self.handle.shared;
        shared.poison.check()?;
        // As handles, so that none is closed before its answer is there.
        let files: Vec<_> = {
            let mut files = self.handle.files.lock();
            let open = files.open.values_mut().filter(|(_, handles)| *handles > 0);
            open.map(|(inner, handles)| {
                *handles += 1;
                File {
                    inner: inner.clone(),
                    cache: self.handle.clone(),
                    writable: false,
                }
            })
            .collect()
        };
        let logs: Vec<_> = files.iter().map(|f| shared.log_first(&f.inner)).collect();
        // All of them at once, so that the flusher can order them.
        let begun: Vec<_> = files
            .iter()
            .zip(logs)
            .map(|(f, log)| (&*f.inner, log.map(|()| shared.sync_begin(f.inner.id))))
            .collect();
        let results: Vec<_> = begun
            .into_iter()
            .map(|(file, begun)| shared.sync_file(file, begun?))
            .collect();
        results.into_iter().collect()
    }

    /// The options in force.
    pub fn options(&self) -> Options {
        self.handle.shared.core().manager.options().clone()
    }

    /// Takes other options, at once and for everything that is in memory; the page size stays as it is.
    ///
    /// # Errors
    /// [`Error::Option`] if one is out of its range; then nothing changes.
    pub fn set_options(&self, options: Options) -> Result<()> {
        let shared = &self.handle.shared;
        shared.poison.check()?;
        let page_size = shared.page_size;
        let options = Options { page_size, ..options };
        options.check()?;
        *self.handle.calibrate.lock() = false;
        shared.tell(Event::Retuned(Box::new(options)));
        Ok(())
    }

    /// Changes the budget. More memory can be used at once; less is given back as pages can be evicted, which needs
    /// no writing but may have to wait for writes and guards.
    ///
    /// # Errors
    /// [`Error::BudgetTooSmall`], [`Error::Option`] if it is more than the machine has, [`Error::Setup`] if the
    /// system gives no memory; then nothing changes.
    pub fn set_memory(&self, bytes: u64) -> Result<()> {
        let shared = &self.handle.shared;
        shared.poison.check()?;
        let mut budget = self.handle.budget.lock();
        let memory = Bytes(bytes);
        self.handle.apply(Budget { memory, ..*budget })?;
        budget.memory = memory;
        Ok(())
    }

    /// What the cache has done and how full it is. Takes the core's lock for a moment.
    pub fn stats(&self) -> Stats {
        Stats::of(&self.handle.shared)
    }

    /// What could not be written when the last handle of its file was dropped, since this was asked last.
    pub fn take_lost(&self) -> Vec<Error> {
        std::mem::take(&mut self.handle.files.lock().lost)
    }
}

impl std::fmt::Debug for PageCache {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "PageCache({:?})", self.stats().occupancy)
    }
}

impl Handle {
    /// A handle of the file was dropped: after the last one its dirty pages are written and all are forgotten.
    pub(crate) fn file_dropped(&self, inner: &Arc<FileInner>) {
        let identity = inner.device().identity();
        {
            let mut files = self.files.lock();
            let Some((_, handles)) = files.open.get_mut(&identity) else {
                return;
            };
            *handles -= 1;
            if *handles > 0 {
                return;
            }
        }
        // Whoever opens the file waits for this, also if what follows panics.
        let closing = Closing {
            handle: self,
            identity,
        };
        match self.write_and_forget(inner) {
            Ok(()) => self.files.lock().free_ids.push(inner.id.0),
            Err(error) => self.files.lock().lost.push(error),
        }
        drop(closing);
    }

    fn write_and_forget(&self, inner: &Arc<FileInner>) -> Result<()> {
        let shared = &self.shared;
        shared.poison.check()?;
        let log = shared.log_first(inner);
        if log.is_err() {
            shared.poison.check()?;
            // Nobody can change them any more, and they can't be written.
            let held = inner.keeping.held.as_ref();
            for page in held.map(|held| held.pages()).unwrap_or_default() {
                shared.discard(inner, page..page + 1)?;
            }
        }
        let ticket = shared.sync_begin(inner.id);
        let written = shared.sync_end(inner, ticket)?;
        shared.discard(inner, 0..inner.len().div_ceil(shared.page_size.bytes()))?;
        shared.tell(Event::Closed { file: inner.id });
        shared.core().files[inner.id.0 as usize] = None;
        log?;
        written.map_err(|e| inner.write_failed(e.0))
    }

    /// Measures what a read costs when nothing else is asked of the device, once, and derives the goal from it: 24
    /// reads, 130 ms on a disk that rotates.
    fn calibrate(&self, device: &DeviceFile, len: u64) {
        const READS: u64 = 24;
        let mut calibrate = self.calibrate.lock();
        if !*calibrate || len < 1 << 20 {
            return;
        }
        *calibrate = false;
        let mut options = self.shared.core().manager.options().clone();
        let AdmissionOptions::Goal(goal) = &mut options.admission else {
            return;
        };
        let Ok(device) = device.try_clone().map(Arc::new) else {
            return;
        };
        let buffer = device::Buffer::new(4096);
        let mut took: Vec<Duration> = (0..READS)
            .filter_map(|n| {
                // Anywhere: equal steps would meet a turning disk at equal angles.
                let offset = scatter(n) % (len / 4096) * 4096;
                let segments = Segments::of(buffer.clone(), 0, 4096);
                let request = Request {
                    token: 0,
                    op: Op::Read,
                    file: device.clone(),
                    offset,
                    segments,
                };
                let began = std::time::Instant::now();
                let _dart = self.shared.dart("device");
                self.shared
                    .device
                    .transfer(&request)
                    .ok()
                    .map(|_| began.elapsed())
            })
            .collect();
        took.sort_unstable();
        let Some(median) = took.get(took.len() / 2) else {
            return;
        };
        goal.read_latency = Nanos((median.as_nanos() as u64 * 16).clamp(2_000_000, 60_000_000));
        self.shared.tell(Event::Retuned(Box::new(options)));
    }
}

/// A file whose last handle is being dropped.
struct Closing<'a> {
    handle: &'a Handle,
    identity: FileIdentity,
}

impl Drop for Closing<'_> {
    fn drop(&mut self) {
        self.handle.files.lock().open.remove(&self.identity);
        self.handle.closed.notify_all();
    }
}

/// The bits of `n`, well mixed (splitmix64).
fn scatter(n: u64) -> u64 {
    let z = (n + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    let z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

impl Drop for Handle {
    fn drop(&mut self) {
        self.shared.stopping.store(true, Ordering::Release);
        self.shared.device.wake();
        if let Some(thread) = self.thread.lock().take() {
            // It has poisoned the cache if it has panicked; there is nobody left to tell.
            let _ = thread.join();
        }
    }
}
