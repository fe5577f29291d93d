//! Millpond's laboratory: the experiments of five posts about page caches, run again.
//!
//! ```text
//!   experiment ──► rows ──► for each run: a process ──► back end ──► workload ──► outcome ──► report
//!   (what and      (back end,             (own memory,  (engine,     (reads and   (measures,  (table,
//!    how much)      variant,               own limit)    kernel)      writes)      series)     JSON, HTML)
//!                   device)      or, for a simulator, a call in this process
//! ```
//!
//! An experiment knows its workload and what its post reported. A back end is something that has files: the
//! kernel's page cache, Millpond's engine. The runs of all rows are interleaved, so that what else the
//! machine does falls on all of them alike; each run on real files has a process of its own, so that
//! resident memory, memory limits and caches are its own as well. Reports know nothing of experiments: they
//! take rows of metrics, columns and charts.
//!
//! Rows of modules. A file names `crate::x` only if `x` is its own module or stands in a lower row; modules side by side in
//! a row don't know one another. A test reads this table and the sources.
//!
//! ```text
//!   7  experiment                                   what each post measured, and how its runs are made
//!   6  worker                                       one run, in a process of its own
//!   5  backend  replay                              what a workload runs on; what other memories would have made of it
//!   4  workload  testbed                            what is read and written; a modelled disk under the kernel's cache
//!   3  machine  storage  setup  slowdisk  report    where a run is, what it opens; a disk as slow as its model; tables
//!   2  measure  traces                              counters and latencies; files of others' traces
//!   1  outcome  disk_model  memory_group  scratch   what a run brings home; models by name; limits; folders
//!   0  error  program  watch  measure/heat    what all need
//! ```
#![forbid(unsafe_code)]

/// A line on standard error, if that can be written to. `eprintln!` panics where it can't be, as on a terminal that was
/// closed, and would end a mount in the middle of its work.
#[macro_export]
macro_rules! say {
    ($($words:tt)*) => {{
        use std::io::Write as _;
        let _ = writeln!(std::io::stderr(), $($words)*);
    }};
}

pub mod backend;
pub mod disk_model;
pub mod error;
pub mod experiment;
pub mod machine;
pub mod measure;
pub mod memory_group;
pub mod outcome;
pub mod program;
pub mod replay;
pub mod report;
pub mod scratch;
pub mod setup;
pub mod slowdisk;
pub mod storage;
pub mod testbed;
pub mod traces;
pub mod watch;
pub mod worker;
pub mod workload;

pub use error::LabError;
