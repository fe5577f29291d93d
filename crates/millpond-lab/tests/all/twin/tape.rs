//! The inputs and effects of an engine's machine, kept step by step.

use millpond::Options;
use millpond::internal::{Answer, Recorder, Step};
use millpond_core::event::{Effect, Effects, Event};
use millpond_core::units::{Instant, PageCount};
use std::sync::{Arc, Mutex, PoisonError};

/// One step, kept.
#[derive(Clone, Debug)]
pub(crate) struct Kept {
    pub(crate) now: Instant,
    pub(crate) event: Event<'static>,
    pub(crate) answers: Vec<Answer>,
    pub(crate) effects: Effects,
}

/// The steps of a cache so far.
#[derive(Clone, Debug, Default)]
pub(crate) struct Tape(pub(crate) Arc<Mutex<Vec<Kept>>>);

impl Recorder for Tape {
    fn step(&mut self, step: Step<'_>) {
        self.0.lock().unwrap().push(Kept {
            now: step.now,
            event: kept(step.event),
            answers: step.answers.to_vec(),
            effects: step.effects.clone(),
        });
    }
}

impl Tape {
    /// The number of such steps.
    pub(crate) fn count(&self, is_so: impl Fn(&Kept) -> bool) -> usize {
        let steps = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        steps.iter().filter(|&step| is_so(step)).count()
    }

    pub(crate) fn effects(&self, is_so: impl Fn(&Effect) -> bool) -> usize {
        self.count(|step| step.effects.list.iter().any(&is_so))
    }
}

/// The same event, for as long as the test runs.
fn kept(event: &Event<'_>) -> Event<'static> {
    match *event {
        Event::DeviceFound { device, hints } => Event::DeviceFound { device, hints },
        Event::Opened { file, pages, device } => Event::Opened { file, pages, device },
        Event::SwapAdded {
            slots,
            priority,
            device,
        } => Event::SwapAdded {
            slots,
            priority,
            device,
        },
        Event::RegionOpened { file, pages } => Event::RegionOpened { file, pages },
        Event::Changed { frames } => Event::Changed {
            frames: frames.to_vec().leak(),
        },
        Event::Forgotten { file, ref pages } => Event::Forgotten {
            file,
            pages: pages.clone(),
        },
        Event::Resized { file, pages } => Event::Resized { file, pages },
        Event::Closed { file } => Event::Closed { file },
        Event::Advised { file, pattern } => Event::Advised { file, pattern },
        Event::Fault {
            file,
            first,
            count,
            intent,
        } => Event::Fault {
            file,
            first,
            count,
            intent,
        },
        Event::ReadAheadDue { file, at } => Event::ReadAheadDue { file, at },
        Event::Awaited { file, page } => Event::Awaited { file, page },
        Event::ReadDone { io, result } => Event::ReadDone { io, result },
        Event::WriteDone { io, result } => Event::WriteDone { io, result },
        Event::Dirtied {
            file,
            first,
            frames,
            dirtier,
        } => Event::Dirtied {
            file,
            first,
            frames: frames.to_vec().leak(),
            dirtier,
        },
        Event::Resume { dirtier } => Event::Resume { dirtier },
        Event::Sync { file, ticket } => Event::Sync { file, ticket },
        Event::SyncGivenUp { file, ticket } => Event::SyncGivenUp { file, ticket },
        Event::Retry { file } => Event::Retry { file },
        Event::DeviceSync { file, begun } => Event::DeviceSync { file, begun },
        Event::Released { file, pages } => Event::Released {
            file,
            pages: pages.to_vec().leak(),
        },
        Event::Discarded { file, pages } => Event::Discarded {
            file,
            pages: pages.to_vec().leak(),
        },
        Event::Reclaim => Event::Reclaim,
        Event::Tick => Event::Tick,
        Event::Retuned(ref options) => Event::Retuned(options.clone()),
        Event::MemoryChanged { frames } => Event::MemoryChanged { frames },
    }
}

/// A cache's initial state, and everything that its machine did.
#[derive(Clone)]
pub(crate) struct Recording {
    pub(crate) options: Options,
    pub(crate) frames: PageCount,
    pub(crate) steps: Vec<Kept>,
}
