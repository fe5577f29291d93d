//! The tests of this crate that go by its public calls, as one program: a module for each subject.

mod dillon2000;
mod gorman2011;
mod post_reader;
mod retune;
