//! A cache with its budget, and memory for arrays in it.

use millpond::host::Notice;
use millpond::internal::Surface;
use millpond::{Error, PageCache, Region, SwapFile};
use parking_lot::Mutex;
use pyo3::exceptions::{PyOSError, PyRuntimeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::PyDict;
use std::io::ErrorKind;
use std::mem::ManuallyDrop;
use std::path::PathBuf;
use std::process;
use std::sync::atomic::{AtomicUsize, Ordering};

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

/// What the machine does not allow and is done without, in Python's words.
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

/// One budget, and the swap file behind it if there is one.
#[pyclass(frozen, weakref, module = "millpond._millpond")]
pub(crate) struct Pond {
    cache: Mutex<Option<Own<PageCache>>>,
    /// Blocks that stand in it.
    pub(crate) arrays: AtomicUsize,
    /// How many notices were handed out.
    reported: AtomicUsize,
}

#[pymethods]
impl Pond {
    /// `memory` in bytes. `swap`: the path of the swap file, its size in bytes, and whether its name goes at once.
    #[new]
    fn new(py: Python<'_>, memory: u64, swap: Option<(PathBuf, u64, bool)>) -> PyResult<Pond> {
        // Getting memory and blocks of the file takes a while.
        let cache = py
            .detach(|| {
                let mut builder = PageCache::builder().memory(memory).mappings(true);
                if let Some((path, size, unlinked)) = swap {
                    builder = builder.swap(SwapFile::new(path, size).unlinked(unlinked));
                }
                // They become warnings of Python's (`new_notices`).
                builder.on_notice(|_| {}).build()
            })
            .map_err(raise)?;
        Ok(Pond {
            cache: Mutex::new(Some(Own::new(cache))),
            arrays: AtomicUsize::new(0),
            reported: AtomicUsize::new(0),
        })
    }

    /// What the machine does not allow and is done without, that was not returned before.
    fn new_notices(&self) -> PyResult<Vec<String>> {
        let notices = self.cache()?.notices();
        let reported = self.reported.swap(notices.len(), Ordering::Relaxed);
        Ok(notices.iter().skip(reported).map(message).collect())
    }

    /// Whether this process has made it, not one that it was forked from.
    fn is_ours(&self) -> bool {
        self.cache.lock().as_ref().is_some_and(|own| own.here().is_ok())
    }

    /// The budget in bytes from now on.
    fn set_memory(&self, py: Python<'_>, bytes: u64) -> PyResult<()> {
        let cache = self.cache()?;
        py.detach(|| cache.set_memory(bytes)).map_err(raise)
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

    /// What it has done and how full it is.
    fn counters<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let cache = self.cache()?;
        let (stats, page) = (cache.stats(), cache.options().page_size.bytes());
        let used = stats.occupancy.frames.0 - stats.occupancy.free.0;
        let dict = PyDict::new(py);
        dict.set_item("arrays", self.arrays.load(Ordering::Relaxed))?;
        dict.set_item("memory_bytes", cache.memory().bytes.0)?;
        dict.set_item("resident_bytes", used * page)?;
        dict.set_item("faults", stats.counters.pgmajfault)?;
        dict.set_item("swap_ins", stats.counters.pswpin)?;
        let reuse = &stats.reuse_of_regions;
        dict.set_item("refaults", reuse.refaults)?;
        dict.set_item("refaults_kept_by_double", reuse.refaults_kept_by_double)?;
        dict.set_item("swap_outs", stats.counters.pswpout)?;
        dict.set_item("swap_outs_failed", stats.counters.pswpout_failed)?;
        dict.set_item("swap_used_bytes", stats.swap_used.0 * page)?;
        dict.set_item("swap_total_bytes", stats.swap_total.0 * page)?;
        dict.set_item("warnings", stats.warnings)?;
        Ok(dict)
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

/// Memory of one array: it is given back when nothing stands on it any more.
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

    /// Where the memory is, for NumPy: its array interface, version 3. A view of it keeps this object.
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
