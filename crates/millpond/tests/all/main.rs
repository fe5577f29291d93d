//! The tests of the engine by its calls, as one program: each module is a question that is put to it. What needs a process of
//! its own is a program beside this one (`memory`, `shuttle`) or runs this one again for one test (`support::in_a_child`).

#[cfg(feature = "tokio")]
mod async_file;
mod basic;
mod closed_files;
mod concurrency;
mod conformance;
mod contention;
mod control;
mod crash;
mod crowded;
mod events;
mod explain;
mod fallbacks;
mod faults;
mod filesystems;
mod fsx;
mod guards;
mod handles;
mod history;
mod hit_ratio;
mod holes;
mod hooks;
mod invalidate;
mod kill;
mod mapping;
mod model;
mod opening;
mod order;
mod own_guards;
mod owners;
mod prefetch;
mod promises;
mod record;
mod refusals;
mod refuse;
mod region;
mod shapes;
mod space;
mod stopped;
mod support;
mod truncation;
mod waiting;
mod watch;
mod watchdog;
mod world;
