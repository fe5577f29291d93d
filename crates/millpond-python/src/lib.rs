//! The Rust part of the Python package `millpond`: caches (`Pond`), and memory for arrays, their own or a file's.
//!
//! ```text
//!   ndarray ──base──► Block ──► Region          the array keeps its memory, and memory keeps its cache
//!                       └─────► Pond ──► PageCache, with a swap file or without
//!                       ┌─────► Pond
//!   ndarray ──base──► File ───► File, Mapping   (file.rs)
//! ```
//!
//! NumPy learns of memory by `__array_interface__`, a dictionary, so nothing here is unsafe and one build serves
//! every Python from 3.10 on. Shapes and element types are checked in Python (`python/millpond/_arguments.py`), sizes in
//! words ("1.5G", "10%") are read as by the command line; what is out of a cache's range becomes `ValueError`, what the system refuses
//! `OSError`, both with the engine's message.
//!
//! No thread of a cache ever asks for Python's lock: a thread that holds it waits for them when it touches a page.
//!
//! Rows of modules. A file imports `crate::x` only if `x` stands in a lower row. A test of the lab reads this table and the
//! sources.
//!
//! ```text
//!   1  file      an opened file and its mapping
//!   0  pond      a cache with its budget, and memory for arrays in it
//! ```

mod file;
mod pond;

use pyo3::prelude::*;

/// The half of the package that is in Rust.
#[pymodule]
mod _millpond {
    #[pymodule_export]
    use super::{
        file::File,
        pond::{Block, Pond, beside, check_memory, counted, memory_of, size_of},
    };

    #[pymodule_export]
    #[expect(non_upper_case_globals, reason = "Python's name for it")]
    const __version__: &str = env!("CARGO_PKG_VERSION");
}
