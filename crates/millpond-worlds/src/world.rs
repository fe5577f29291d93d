//! The calls of every world: going on, and describing itself.

use millpond_core::units::Instant;
use millpond_sim::look::Look;
use serde::Serialize;

/// A number of a run, by the name that the laboratory's metrics have.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct Figure {
    /// Its name.
    pub name: &'static str,
    /// Its unit; `1` for counts.
    pub unit: &'static str,
    /// The number so far.
    pub value: f64,
}

impl Figure {
    /// A number.
    pub fn of(name: &'static str, unit: &'static str, value: f64) -> Figure {
        Figure { name, unit, value }
    }

    /// A count.
    pub fn count(name: &'static str, value: u64) -> Figure {
        Figure::of(name, "1", value as f64)
    }
}

/// Something that happened to a page or a thread, and why.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct Note {
    /// When, in nanoseconds.
    pub at: u64,
    /// The page or task concerned.
    pub page: String,
    /// What, in a few words.
    pub what: &'static str,
    /// How a page draws it: `freed`, `kept`, `sent-round`, `written`, `activated`, `waits`.
    pub class: &'static str,
    /// Why, in a sentence.
    pub why: String,
}

/// A machine with its load, at some moment.
pub trait World {
    /// Goes on through `until`: all that happens at or before it has happened.
    fn run(&mut self, until: Instant);

    /// Goes on until something is noted in the log, at most through `until`. The moment at which it then is.
    fn run_to_note(&mut self, until: Instant) -> Instant;

    /// Whether the load has ended.
    fn is_over(&self) -> bool;

    /// Events of the simulation so far.
    fn events(&self) -> u64;

    /// The number of notes so far.
    fn notes(&self) -> u64;

    /// Its picture, with its lists in this many parts.
    fn look(&self, parts: usize) -> Look;

    /// Its numbers so far.
    fn figures(&self) -> Vec<Figure>;

    /// The last notes, the oldest first; at most this many.
    fn log(&self, most: usize) -> Vec<Note>;
}
