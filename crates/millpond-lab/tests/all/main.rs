//! The tests of this crate that go by its public calls, as one program: a module for each subject.

mod arrows;
mod bound;
mod counts;
mod exact_tables;
mod flaky;
mod kim2020;
mod libcachesim;
mod memory_auto;
mod memory_limit;
mod moving;
mod packages;
mod release;
mod replay;
mod support;
mod tidy;
mod twin;
