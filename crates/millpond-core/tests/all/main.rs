//! The tests of this crate that go by its public calls, as one program: a module for each subject.

mod replacement_golden;
mod replacement_shards;
mod replacement_traces;
mod replacement_variants;
mod retune;
mod support;
