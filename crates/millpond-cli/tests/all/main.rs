//! The tests of this crate that go by its public calls, as one program: a module for each subject.

mod control;
mod demo;
mod dillon2000;
mod doctor;
mod gorman2011;
mod hangup;
mod kim2020;
mod lab;
mod mapped;
mod mount;
mod playground;
mod record;
mod service;
mod sizes;
mod slowdisk;
mod stores;
mod support;
mod testbed;
mod tuned;
mod watch;
