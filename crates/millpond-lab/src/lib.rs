//! Millpond's laboratory: the experiments of five posts about page caches, run again.
//!
//! ```text
//!   experiment ──► rows ──► for each run: a child process ──► target ──► workload ──► outcome ──► report
//!   (what and      (target,               (own memory,        (engine,   (reads and   (measures,  (table,
//!    how much)      variant,               own limit)          kernel)    writes)      series)     JSON, HTML)
//!                   device)      or, for a simulator, a call in this process
//! ```
//!
//! An experiment knows its workload and what its post reported. A target is something that has files: the
//! kernel's page cache, Millpond's engine. The runs of all rows are interleaved, so that what else the
//! machine does falls on all of them alike; each run on real files has a process of its own, so that
//! resident memory, memory limits and caches are its own as well. Reports know nothing of experiments: they
//! take rows of metrics, columns and charts.
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
pub mod child;
pub mod disk_model;
pub mod error;
pub mod experiment;
pub mod machine;
pub mod measure;
pub mod memory_group;
pub mod outcome;
pub mod replay;
pub mod report;
pub mod room;
pub mod scratch;
pub mod slowdisk;
pub mod workload;

pub use error::LabError;
