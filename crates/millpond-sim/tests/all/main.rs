//! The tests of this crate that go by its public calls, as one program: a module for each subject.

mod devices;
mod mixed_load;
mod neighbours;
mod reads;
mod swarm;
