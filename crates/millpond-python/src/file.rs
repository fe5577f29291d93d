//! Files as memory for arrays.
//!
//! Opened, made as long as the array needs, then mapped: three calls, because the shape of an array may follow from the
//! length of its file. What was stored is written when the last array of the file goes; what can't be is reported as Python
//! reports errors that no call can have.

use crate::pond::{Own, Pond, interface, raise};
use millpond::internal::Surface;
use millpond::{Advice, MapAdvice, MapOptions, Mapping, OpenOptions};
use pyo3::exceptions::{PyOSError, PyRuntimeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::PyDict;
use rustix::io::Errno;
use std::ffi::OsStr;
use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::PathBuf;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, Ordering};

/// A file of a pond, and the part of it that is an array's memory.
#[pyclass(frozen, weakref, module = "millpond._millpond")]
pub(crate) struct File {
    open: Option<Own<Open>>,
    /// Kept as long as its memory is in use.
    #[pyo3(get)]
    pond: Py<Pond>,
    path: PathBuf,
    /// The mode given to `open_array`: `r`, `r+`, `w+`.
    #[pyo3(get)]
    mode: String,
    /// Device and inode: the same for all names of a file.
    #[pyo3(get)]
    identity: (u64, u64),
    is_closed: AtomicBool,
}

struct Open {
    // Before the file, which is closed with the last of both.
    mapping: OnceLock<(Mapping, u64)>,
    file: millpond::File,
}

#[pymethods]
impl File {
    /// Opens the file at `path`, which `w+` makes, or cuts to no bytes.
    #[new]
    fn new(py: Python<'_>, pond: Py<Pond>, path: PathBuf, mode: String) -> PyResult<File> {
        let cache = pond.get().cache()?;
        let is_new = mode == "w+";
        let options = OpenOptions::new()
            .write(mode != "r")
            .create(is_new)
            .truncate(is_new);
        let opened = py.detach(|| cache.open(&path, options)).map_err(raise)?;
        let about = fs::metadata(&path)?;
        Ok(File {
            open: Some(Own::new(Open {
                mapping: OnceLock::new(),
                file: opened,
            })),
            pond,
            path,
            mode,
            identity: (about.dev(), about.ino()),
            is_closed: AtomicBool::new(false),
        })
    }

    #[getter]
    fn path(&self) -> &OsStr {
        self.path.as_os_str()
    }

    /// Bytes that the file has.
    fn len(&self) -> PyResult<u64> {
        Ok(self.open()?.file.len())
    }

    /// Makes the file this many bytes long, with disk space if the file system can allocate it beforehand: a store has
    /// no error, and where the disk is full it waits.
    fn grow(&self, py: Python<'_>, len: u64) -> PyResult<()> {
        let file = &self.open()?.file;
        let before = file.len();
        let allocated = py.detach(|| file.allocate(before, len.saturating_sub(before)));
        let refused = allocated.err().map_or(0, |error| error.errno());
        let no_room = [Errno::NOSPC, Errno::DQUOT, Errno::FBIG, Errno::IO];
        if no_room.map(Errno::raw_os_error).contains(&refused) {
            py.detach(|| file.set_len(before)).map_err(raise)?;
            let (path, why) = (self.path.display(), io::Error::from_raw_os_error(refused));
            let message = format!("{path} can't have {len} bytes: {why}");
            return Err(PyOSError::new_err((refused, message)));
        }
        py.detach(|| file.set_len(len)).map_err(raise)
    }

    /// Maps `len` bytes from `start` on, one at least: once.
    fn map(&self, py: Python<'_>, start: u64, len: u64) -> PyResult<()> {
        let open = self.open()?;
        let options = MapOptions::new().writable(self.is_writable());
        let mapped = py.detach(|| open.file.map(start..start.saturating_add(len), &options));
        if open.mapping.set((mapped.map_err(raise)?, start)).is_err() {
            return Err(PyRuntimeError::new_err("this file is already mapped"));
        }
        self.pond.get().arrays.fetch_add(1, Ordering::Relaxed);
        Ok(())
    }

    /// Writes `data` at `offset`: as stores do, and an error where they would wait for a device that can't write.
    fn write(&self, py: Python<'_>, data: &[u8], offset: u64) -> PyResult<()> {
        let open = self.open()?;
        py.detach(|| open.file.write_at(data, offset)).map_err(raise)
    }

    /// The file's memory: the addresses of its first byte, and of the one after the last. Both are 0 if it is not
    /// mapped.
    #[getter]
    fn part(&self) -> PyResult<(u64, u64)> {
        let part = |(mapping, start): &(Mapping, u64)| (*start, start + mapping.len() as u64);
        Ok(self.open()?.mapping.get().map_or((0, 0), part))
    }

    /// The address of its memory, for NumPy. A view of it keeps this object.
    #[getter]
    fn __array_interface__<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let (mapping, _) = self.mapping()?;
        interface(py, mapping.len(), mapping.as_ptr().addr(), !self.is_writable())
    }

    #[getter]
    fn is_writable(&self) -> bool {
        self.mode != "r"
    }

    /// Whether `close` was called.
    #[getter]
    fn closed(&self) -> bool {
        self.is_closed.load(Ordering::Relaxed)
    }

    /// Makes durable what was stored in the file. Its memory stays as it is if that fails.
    fn sync(&self, py: Python<'_>) -> PyResult<()> {
        let open = self.open()?;
        py.detach(|| open.file.sync_data()).map_err(raise)
    }

    /// Says how the bytes `part` of its memory, from the first to behind the last, will be used: `normal`, `random`,
    /// `sequential` and `records` for all of the file.
    fn advise(&self, py: Python<'_>, how: &str, record: Option<u64>, part: (usize, usize)) -> PyResult<()> {
        if record.is_some() != (how == "records") {
            return Err(PyValueError::new_err(
                "only advice \"records\" takes the bytes of a record: advise(\"records\", 262144)",
            ));
        }
        let advice = match how {
            "records" => MapAdvice::As(Advice::Records(record.unwrap_or_default())),
            "normal" => MapAdvice::As(Advice::Normal),
            "random" => MapAdvice::As(Advice::Random),
            "sequential" => MapAdvice::As(Advice::Sequential),
            "willneed" => MapAdvice::WillNeed,
            "dontneed" => MapAdvice::DontNeed,
            _ => {
                return Err(PyValueError::new_err(format!(
                    "advice can't be {how:?}: must be normal, random, sequential, records, willneed or dontneed"
                )));
            }
        };
        let (mapping, _) = self.mapping()?;
        py.detach(|| mapping.advise(part.0..part.1, advice))
            .map_err(raise)
    }

    /// Notes that its user has done with it, after a sync. What of it is in memory is the cache's alone from then on.
    fn close(&self, py: Python<'_>) -> PyResult<()> {
        let open = self.open()?;
        if self.is_writable() {
            py.detach(|| open.file.sync_data()).map_err(raise)?;
        }
        self.is_closed.store(true, Ordering::Relaxed);
        match open.mapping.get() {
            Some((mapping, _)) => py
                .detach(|| mapping.advise(.., MapAdvice::DontNeed))
                .map_err(raise),
            None => Ok(()),
        }
    }
}

impl File {
    /// # Errors
    /// In a forked child.
    fn open(&self) -> PyResult<&Open> {
        match &self.open {
            Some(own) => own.here(),
            None => Err(PyRuntimeError::new_err("this file is being freed")),
        }
    }

    fn mapping(&self) -> PyResult<&(Mapping, u64)> {
        let mapped = self.open()?.mapping.get();
        mapped.ok_or_else(|| PyRuntimeError::new_err("this file is not mapped"))
    }
}

impl Drop for File {
    fn drop(&mut self) {
        // In a forked child nothing is given back.
        let Some(open) = self.open.take().and_then(Own::take) else {
            return;
        };
        Python::attach(|py| {
            let pond = self.pond.get();
            if open.mapping.get().is_some() {
                pond.arrays.fetch_sub(1, Ordering::Relaxed);
            }
            // The last of its file writes what is dirty, and waits for it.
            py.detach(|| drop(open));
            let Ok(cache) = pond.cache() else { return };
            for lost in cache.take_lost() {
                let said = lost.told(Surface::Python);
                PyOSError::new_err((lost.errno(), said)).write_unraisable(py, None);
            }
        });
    }
}
