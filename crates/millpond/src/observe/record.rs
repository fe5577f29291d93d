//! Steps of the state machine as they happened: what went in, what the frames answered, what came out.
//!
//! ```text
//!   event, now ──► Manager::step ──► effects          a Recorder sees all three, under the core lock
//!                    ▲      │
//!            answers │      ▼ questions
//!                   FrameTable
//! ```
//!
//! With the options and the number of frames that the cache was made with this is all that the effects depend
//! on: another machine that is given the same has the same effects (`crates/millpond-lab/tests/twin`).
//! Without a recorder a step looks once whether there is one.

use millpond_core::event::{Effects, Event};
use millpond_core::frame::{BeginWrite, FrameTable};
use millpond_core::manager::Manager;
use millpond_core::units::{FrameNo, Instant, PageKey};
use std::cell::RefCell;
use std::fmt;

/// Takes the steps of a cache's state machine, in their order.
///
/// It is called under the lock that every miss needs, so it should only note what it gets. If it panics, the cache is
/// poisoned.
pub trait Recorder: Send + fmt::Debug {
    /// One step that was made.
    fn step(&mut self, step: Step<'_>);
}

/// A step.
#[derive(Clone, Copy, Debug)]
pub struct Step<'a> {
    /// When, by the cache's clock.
    pub now: Instant,
    /// The event.
    pub event: &'a Event<'a>,
    /// The questions to the frames and their answers, in this order.
    pub answers: &'a [Answer],
    /// The effects.
    pub effects: &'a Effects,
}

/// A question to the [`FrameTable`], and its answer: what only the engine's frames know.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Answer {
    /// [`FrameTable::key`].
    Key(FrameNo, PageKey),
    /// [`FrameTable::lookup`].
    Lookup(PageKey, Option<FrameNo>),
    /// [`FrameTable::test_and_clear_accessed`].
    Uses(FrameNo, u8),
    /// [`FrameTable::tracks_accesses`].
    SeesUses(FrameNo, bool),
    /// [`FrameTable::evict`].
    Evict {
        /// The frames that were to leave.
        asked: Vec<FrameNo>,
        /// Those that did.
        gone: Vec<FrameNo>,
    },
    /// [`FrameTable::begin_write`].
    BeginWrite(FrameNo, BeginWrite),
}

/// Makes a step and tells the recorder.
pub(crate) fn step<F: FrameTable>(
    recorder: &mut dyn Recorder,
    manager: &mut Manager,
    (now, event): (Instant, Event<'_>),
    table: &mut F,
    effects: &mut Effects,
) {
    let mut overheard = Overheard {
        table,
        answers: RefCell::default(),
    };
    manager.step(now, event.clone(), &mut overheard, effects);
    recorder.step(Step {
        now,
        event: &event,
        answers: &overheard.answers.into_inner(),
        effects,
    });
}

/// A table whose answers are noted.
struct Overheard<'a, F> {
    table: &'a mut F,
    answers: RefCell<Vec<Answer>>,
}

impl<F> Overheard<'_, F> {
    fn note(&self, answer: Answer) {
        self.answers.borrow_mut().push(answer);
    }
}

impl<F: FrameTable> FrameTable for Overheard<'_, F> {
    fn key(&self, frame: FrameNo) -> PageKey {
        let key = self.table.key(frame);
        self.note(Answer::Key(frame, key));
        key
    }

    fn lookup(&self, key: PageKey) -> Option<FrameNo> {
        let frame = self.table.lookup(key);
        self.note(Answer::Lookup(key, frame));
        frame
    }

    fn test_and_clear_accessed(&mut self, frame: FrameNo) -> u8 {
        let uses = self.table.test_and_clear_accessed(frame);
        self.note(Answer::Uses(frame, uses));
        uses
    }

    fn tracks_accesses(&self, frame: FrameNo) -> bool {
        let sees = self.table.tracks_accesses(frame);
        self.note(Answer::SeesUses(frame, sees));
        sees
    }

    fn evict(&mut self, frames: &mut Vec<FrameNo>) {
        let asked = frames.clone();
        self.table.evict(frames);
        self.note(Answer::Evict {
            asked,
            gone: frames.clone(),
        });
    }

    fn begin_write(&mut self, frame: FrameNo) -> BeginWrite {
        let begun = self.table.begin_write(frame);
        self.note(Answer::BeginWrite(frame, begun));
        begun
    }
}
