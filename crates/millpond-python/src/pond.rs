//! A cache with its budget, and memory for arrays in it.

use millpond::host::{Notice, memory_allowed};
use millpond::internal::{Surface, check_mapped_budget, mapping_budget, quantity, region_budget};
use millpond::settings::{self, SettingError, Value};
use millpond::units::{Bytes, PageSize};
use millpond::{Error, PageCache, Region, Stats, SwapFile};
use parking_lot::Mutex;
use pyo3::exceptions::{PyOSError, PyRuntimeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::PyDict;
use std::io::ErrorKind;
use std::mem::ManuallyDrop;
use std::path::PathBuf;
use std::process;
use std::sync::atomic::{AtomicUsize, Ordering};

/// The page size of these caches.
const PAGE_BYTES: u64 = 4096;

pub(crate) fn raise(error: Error) -> PyErr {
    let message = error.told(Surface::Python);
    match &error {
        Error::MemoryLimit { .. }
        | Error::MemoryOfMachine { .. }
        | Error::MemoryForTables { .. }
        | Error::Option(_)
        | Error::Setting(_)
        | Error::BudgetTooSmall { .. }
        | Error::SwapTooSmall { .. }
        | Error::RegionRange { .. }
        | Error::OutOfRange { .. } => PyValueError::new_err(message),
        // Found by the engine, not by the system: a size or a path that can't be.
        Error::Swap { source, .. }
            if source.kind() == ErrorKind::InvalidInput && source.raw_os_error().is_none() =>
        {
            PyValueError::new_err(message)
        }
        // Nothing that another call or another file would change.
        Error::Poisoned { .. } | Error::Forked | Error::NoSwap | Error::NoLog { .. } => {
            PyRuntimeError::new_err(message)
        }
        // Two arguments become errno and strerror, and the class that fits (PermissionError).
        _ => PyOSError::new_err((error.errno(), message)),
    }
}

/// A limitation of the machine, in Python's words.
fn message(notice: &Notice) -> String {
    match notice {
        Notice::NoKernelFaults => "this user's system calls can't wait for parts of an array that are not in memory: tofile, \
                                   numpy.save and write fail with \"Bad address\" or \"0 written\"; use millpond.save, or have \
                                   vm.unprivileged_userfaultfd set to 1, or this user allowed to open /dev/userfaultfd"
            .into(),
        other => other.to_string(),
    }
}

/// A value that only the process which made it gives back. A forked child has neither the threads nor the memory of its
/// parent's caches: dropping one there would wait for threads that don't exist.
pub(crate) struct Own<T> {
    value: ManuallyDrop<T>,
    process: u32,
}

impl<T> Own<T> {
    pub(crate) fn new(value: T) -> Own<T> {
        Own {
            value: ManuallyDrop::new(value),
            process: process::id(),
        }
    }

    /// # Errors
    /// In a forked child.
    pub(crate) fn here(&self) -> PyResult<&T> {
        if self.process == process::id() {
            return Ok(&self.value);
        }
        Err(PyRuntimeError::new_err(format!(
            "this memory belongs to process {}, and a forked child can't use it: start processes with the method \"spawn\"",
            self.process
        )))
    }

    pub(crate) fn take(self) -> Option<T> {
        (self.process == process::id()).then(|| ManuallyDrop::into_inner(self.value))
    }
}

/// NumPy's array interface, version 3, of bytes at an address.
pub(crate) fn interface(
    py: Python<'_>,
    len: usize,
    address: usize,
    is_read_only: bool,
) -> PyResult<Bound<'_, PyDict>> {
    let dict = PyDict::new(py);
    dict.set_item("version", 3)?;
    dict.set_item("typestr", "|u1")?;
    dict.set_item("shape", (len,))?;
    dict.set_item("data", (address, is_read_only))?;
    Ok(dict)
}

/// One budget, and its swap file if there is one.
#[pyclass(frozen, weakref, module = "millpond._millpond")]
pub(crate) struct Pond {
    cache: Mutex<Option<Own<PageCache>>>,
    /// Blocks that stand in it.
    pub(crate) arrays: AtomicUsize,
    /// How many notices were returned.
    reported: AtomicUsize,
}

#[pymethods]
impl Pond {
    /// `memory`: the least and the most in bytes, between which the host decides if they differ. `swap`: the path of the swap
    /// file, its size in bytes, and whether its name goes at once. `beside`: what the array that it is made for takes of the
    /// budget beside its pages, for the message that says how much is enough.
    #[new]
    fn new(
        py: Python<'_>,
        memory: (u64, u64),
        swap: Option<(PathBuf, u64, bool)>,
        beside: u64,
    ) -> PyResult<Pond> {
        // Getting blocks of the file takes a while.
        let cache = py
            .detach(|| {
                // What no array uses takes no memory: a budget is a limit, as of SQLite's.
                let builder = PageCache::builder().mappings(true).populate(false);
                let mut builder = match memory {
                    (least, most) if least == most => builder.memory(most),
                    (least, most) => builder.memory_auto(least, most),
                };
                if let Some((path, size, unlinked)) = swap {
                    builder = builder.swap(SwapFile::new(path, size).unlinked(unlinked));
                }
                // They become warnings of Python's (`new_notices`).
                builder.on_notice(|_| {}).build()
            })
            .map_err(|error| too_small(error, 0, beside))?;
        Ok(Pond {
            cache: Mutex::new(Some(Own::new(cache))),
            arrays: AtomicUsize::new(0),
            reported: AtomicUsize::new(0),
        })
    }

    /// Limitations of the machine that have not been returned before.
    fn new_notices(&self) -> PyResult<Vec<String>> {
        let notices = self.cache()?.notices();
        let reported = self.reported.swap(notices.len(), Ordering::Relaxed);
        Ok(notices.iter().skip(reported).map(message).collect())
    }

    /// Whether this process made it, and not one that it was forked from.
    fn is_ours(&self) -> bool {
        self.cache.lock().as_ref().is_some_and(|own| own.here().is_ok())
    }

    /// The budget from now on: the least and the most in bytes, as of a new one.
    fn set_memory(&self, py: Python<'_>, memory: (u64, u64)) -> PyResult<()> {
        let cache = self.cache()?;
        let set = py.detach(|| match memory {
            (least, most) if least == most => cache.set_memory(most),
            (least, most) => cache
                .set(&[("memory", &format!("auto:{least}B..{most}B"))])
                .map(drop),
        });
        set.map_err(raise)
    }

    /// The least budget that is possible, from now on.
    fn set_memory_least(&self, py: Python<'_>) -> PyResult<()> {
        let cache = self.cache()?;
        let least = py.detach(|| match cache.set_memory(1) {
            Err(Error::BudgetTooSmall { min, .. }) => cache.set_memory(min),
            other => other,
        });
        least.map_err(raise)
    }

    /// Its activity and how full it is: [`FIGURES`].
    fn counters<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let cache = self.cache()?;
        let now = Now {
            stats: cache.stats(),
            arrays: self.arrays.load(Ordering::Relaxed) as u64,
            memory: cache.memory().bytes,
            page: cache.options().page_size,
        };
        let dict = PyDict::new(py);
        for (name, read) in FIGURES {
            dict.set_item(name, read(&now))?;
        }
        Ok(dict)
    }
}

/// A pond at one moment.
struct Now {
    stats: Stats,
    arrays: u64,
    memory: Bytes,
    page: PageSize,
}

impl Now {
    /// A figure of the cache.
    fn of(&self, name: &str) -> u64 {
        self.stats.figure(name).unwrap_or(0)
    }

    fn bytes(&self, pages: u64) -> u64 {
        pages * self.page.bytes()
    }
}

/// A figure of a pond: its name, and how it is read.
type Figure = (&'static str, fn(&Now) -> u64);

/// What `stats()` shows of each pond, and sums up for all.
const FIGURES: [Figure; 12] = [
    ("arrays", |now| now.arrays),
    ("memory_bytes", |now| now.memory.0),
    ("resident_bytes", |now| {
        now.bytes(now.of("nr_frames") - now.of("nr_free_pages"))
    }),
    ("faults", |now| now.of("pgmajfault")),
    ("swap_ins", |now| now.of("pswpin")),
    ("refaults", |now| now.stats.reuse_of_regions.refaults),
    ("refaults_kept_by_double", |now| {
        now.stats.reuse_of_regions.refaults_kept_by_double
    }),
    ("swap_outs", |now| now.of("pswpout")),
    ("swap_outs_failed", |now| now.of("pswpout_failed")),
    ("swap_used_bytes", |now| now.bytes(now.of("swap_used_pages"))),
    ("swap_total_bytes", |now| now.bytes(now.of("swap_total_pages"))),
    ("warnings", |now| now.of("warnings")),
];

/// The names of these figures.
#[pyfunction]
pub(crate) fn counted() -> Vec<&'static str> {
    FIGURES.iter().map(|(name, _)| *name).collect()
}

/// A budget as all of Millpond reads it: the least and the most in bytes, which are the same unless the host decides.
///
/// # Errors
/// The allowed values.
#[pyfunction]
pub(crate) fn memory_of(text: &str) -> PyResult<(u64, u64)> {
    // The maximum of "auto" alone, as there is no budget yet.
    let half = Bytes(memory_allowed() / 2);
    match settings::memory(text.trim(), half) {
        Ok(Value::Size(bytes)) => Ok((bytes.0, bytes.0)),
        Ok(Value::Auto(range)) => Ok((range.min.0, range.max.0)),
        Ok(other) => Err(PyValueError::new_err(format!("memory can't be {other}"))),
        Err(SettingError::NotOfItsKind { allowed, .. }) => Err(PyValueError::new_err(format!(
            "memory can't be '{text}': it takes {allowed}"
        ))),
        Err(why) => Err(PyValueError::new_err(why.to_string())),
    }
}

/// A size in bytes, as all of Millpond reads it.
///
/// # Errors
/// The allowed values, without the argument's name.
#[pyfunction]
pub(crate) fn size_of(text: &str) -> PyResult<u64> {
    let size = quantity::parse_size(text).map_err(PyValueError::new_err)?;
    Ok(size.0)
}

/// What an array of this many bytes takes of a budget besides its pages: in a swap file, or from byte `start` of a file
/// on.
#[pyfunction]
#[pyo3(signature = (bytes, start=None))]
pub(crate) fn beside(bytes: u64, start: Option<u64>) -> u64 {
    match start {
        None => region_budget(bytes, PAGE_BYTES),
        Some(start) => mapping_budget(start..start.saturating_add(bytes), PAGE_BYTES),
    }
}

/// Whether an array that takes `beside` of a budget besides its pages fits into this one.
///
/// # Errors
/// The sufficient budget.
#[pyfunction]
pub(crate) fn check_memory(memory: u64, beside: u64) -> PyResult<()> {
    let without = memory.saturating_sub(beside);
    let enough = check_mapped_budget(without, PageSize::KIB_4);
    enough.map_err(|error| too_small(error, memory - without, beside))
}

/// The same for a budget of which `beside` is taken, and that was `larger` by this many bytes.
fn too_small(error: Error, larger: u64, beside: u64) -> PyErr {
    match error {
        Error::BudgetTooSmall {
            given,
            min,
            page_size,
        } => raise(Error::BudgetTooSmall {
            given: given + larger,
            min: min + beside,
            page_size,
        }),
        other => raise(other),
    }
}

impl Pond {
    /// Another handle of the cache.
    pub(crate) fn cache(&self) -> PyResult<PageCache> {
        match &*self.cache.lock() {
            Some(own) => own.here().cloned(),
            None => Err(PyRuntimeError::new_err("this pond is being freed")),
        }
    }
}

impl Drop for Pond {
    fn drop(&mut self) {
        let _ = self.cache.get_mut().take().and_then(Own::take);
    }
}

/// The memory of one array: given back when nothing refers to it.
#[pyclass(frozen, module = "millpond._millpond")]
pub(crate) struct Block {
    region: Option<Own<Region>>,
    /// Kept as long as its memory is in use.
    #[pyo3(get)]
    pond: Py<Pond>,
}

#[pymethods]
impl Block {
    /// `len` bytes of zeros in `pond`.
    #[new]
    fn new(py: Python<'_>, pond: Py<Pond>, len: usize) -> PyResult<Block> {
        let cache = pond.get().cache()?;
        let region = py.detach(|| cache.region(len)).map_err(raise)?;
        pond.get().arrays.fetch_add(1, Ordering::Relaxed);
        Ok(Block {
            region: Some(Own::new(region)),
            pond,
        })
    }

    /// The address of the memory, for NumPy: its array interface, version 3. A view of it keeps this object.
    #[getter]
    fn __array_interface__<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let Some(own) = &self.region else {
            return Err(PyRuntimeError::new_err("this block is being freed"));
        };
        let region = own.here()?;
        interface(py, region.len(), region.as_ptr().addr(), false)
    }
}

impl Drop for Block {
    fn drop(&mut self) {
        let _ = self.region.take().and_then(Own::take);
        self.pond.get().arrays.fetch_sub(1, Ordering::Relaxed);
    }
}
