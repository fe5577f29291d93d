//! A thread has touched a page that is not there, and waits: one loop for regions and mapped files, by whoever serves it.
//!
//! ```text
//!   a handler, or the thread ─► serve ─┬─ Served    the page is there, or comes: the thread goes on, or touches it again
//!                                      ├─ Later     for a frame, or for a thread that has the page: again after that
//!                                      └─ Refused   the thread gets `SIGBUS`
//! ```
//!
//! What a page needs in order to come is in `region.rs` and `mapped.rs`.

use super::{Doubles, Engine, MappedFaults, Marks, RegionFaults, until_asking};
use crate::error::Error;
use crate::memory::mapped::MappedFile;
use crate::memory::{At, Space, SpaceInner};
use crate::observe::trace::What;
use crate::sys::clock::Patience;
use crate::sys::signals::end_if_told;
use crate::sys::uffd::Access;
use std::sync::Arc;
use std::thread::yield_now;
use std::time::Duration;

/// How long a thread waits at most for a page that another has in hand before it looks again. The other always announces
/// the page, so this is only for a bug in which it does not.
const SETTLED_WAIT: Duration = Duration::from_millis(100);

/// How often a fault lets a writer go first.
const STANDS_BACK: u32 = 4;

/// The longest time between two attempts of a handler at the same touch.
const ATTEMPTS_APART: Duration = Duration::from_secs(1);

/// What has become of a touch.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Fault {
    /// The page is there, or another thread brings it.
    Served,
    /// Again after this.
    Later(Wait),
    /// The page can't be had: `SIGBUS`.
    Refused,
}

/// What a touch waits for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Wait {
    /// A frame: until memory is there, or for so long.
    Frame(Duration),
    /// A thread that has the page, or leave to write it: for a while.
    Page,
}

/// What has become of one try to bring a page, or to open it.
pub(super) enum Try {
    Over(Fault),
    Again,
    /// It can't be read.
    Failed(Error),
}

/// How often a fault has let others have the processor because a writer waits for the page, or changes it.
#[derive(Default)]
pub(super) struct StoodBack(u32);

impl StoodBack {
    /// Whether it does so once more. Only a few times, as each can take milliseconds where there are more threads than
    /// processors, and the writer may wait for this very thread.
    pub(super) fn again(&mut self) -> bool {
        self.0 = self.0.saturating_add(1);
        self.0 <= STANDS_BACK
    }
}

/// Who serves a touch.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum By {
    /// The thread that has touched the page. It may wait for others that change the page, and for frames.
    Thread,
    /// A handler, with no other touch to serve: it reads from swap itself. Else the device does so in the background.
    Handler { is_last: bool },
}

/// A page that a thread has touched, and waits for.
pub(crate) struct Touch {
    space: Space,
    page: u64,
    access: Access,
    patience: Patience,
}

impl Touch {
    pub(crate) fn new((space, page): (Space, u64), access: Access) -> Touch {
        let patience = Patience::new();
        Touch {
            space,
            page,
            access,
            patience,
        }
    }

    /// The mapped file, and its page: not if it is one of a region.
    pub(crate) fn in_file(&self) -> Option<(&Arc<MappedFile>, u64)> {
        Some((self.space.mapped()?, self.page))
    }

    /// One attempt of a handler.
    pub(crate) fn serve(&mut self, engine: &Engine, is_last: bool) -> Fault {
        self.patience.slept(ATTEMPTS_APART);
        match self.attempt(engine, By::Handler { is_last }) {
            Fault::Later(Wait::Frame(at_most)) => self.without_frame(engine, at_most),
            fault => fault,
        }
    }

    /// A thread serves its own touch. `false`: the page can't be had.
    pub(crate) fn serve_in_thread(mut self, engine: &Engine) -> bool {
        let mut slept = Duration::ZERO;
        loop {
            let space = self.space.inner();
            let (settled, memory) = (space.settled.count(), engine.waits.frames.events.count());
            if matches!(space.pages.at(self.page), At::Busy | At::Writing) {
                if space.pages.want(self.page) {
                    space.settled.wait(settled, SETTLED_WAIT);
                }
                continue;
            }
            match self.attempt(engine, By::Thread) {
                Fault::Served => return true,
                Fault::Refused => return false,
                Fault::Later(Wait::Page) => yield_now(),
                Fault::Later(Wait::Frame(at_most)) => {
                    end_if_told();
                    engine.look();
                    self.patience.slept(slept);
                    if let Fault::Later(Wait::Frame(at_most)) = self.without_frame(engine, at_most) {
                        slept = at_most;
                        engine.waits.frames.events.wait(memory, slept);
                    }
                }
            }
        }
    }

    /// Serves the touch, unless it has to wait.
    pub(crate) fn attempt(&self, engine: &Engine, by: By) -> Fault {
        let Touch { space, page, .. } = self;
        let note = |region: &Arc<SpaceInner>| engine.note(region.id, (*page, 1), What::Region);
        let (noted, mut stood_back) = (space.region().and_then(note), StoodBack::default());
        loop {
            let tried = match (self.attempt_once(engine, by, &mut stood_back), space) {
                (Try::Failed(why), Space::File(mapped)) => {
                    Marks::of(engine, mapped).touch_failed(*page, &why)
                }
                (tried, _) => tried,
            };
            if let Try::Over(fault) = tried {
                if matches!(fault, Fault::Later(_)) {
                    // It comes again.
                    std::mem::forget(noted);
                }
                return fault;
            }
        }
    }

    fn attempt_once(&self, engine: &Engine, by: By, stood_back: &mut StoodBack) -> Try {
        let (page, access, inner) = (self.page, self.access, self.space.inner());
        let _serving = self.space.mapped().map(|mapped| mapped.serving.read());
        let at = inner.pages.at(page);
        match (at, &self.space) {
            (At::Busy | At::Writing, _) if inner.pages.want(page) => Try::Over(Fault::Served),
            (At::Poisoned, _) => {
                engine.spaces().exchange.wake(&inner.memory, page);
                Try::Over(Fault::Refused)
            }
            (At::Absent, Space::Region(region)) => RegionFaults::of(engine, region).miss(page, access, by),
            (At::Absent | At::Mapped, Space::File(mapped)) => {
                MappedFaults::of(engine, mapped).bring(page, at, access, by, stood_back)
            }
            (At::Mapped, Space::Region(region)) if inner.pages.take(page, &[at]).is_some() => {
                Doubles::of(engine).come_late(region, page, access);
                Try::Over(Fault::Served)
            }
            (At::Cached, Space::Region(region)) if inner.pages.take(page, &[at]).is_some() => {
                RegionFaults::of(engine, region).soft_fault(page, access);
                Try::Over(Fault::Served)
            }
            (At::Cached, Space::File(_)) => unreachable!("page {page} of a mapping is {at:?}"),
            _ => Try::Again,
        }
    }

    /// No frame could be had, and the core says `at_most`: how long to wait, or the end of that.
    fn without_frame(&self, engine: &Engine, at_most: Duration) -> Fault {
        let waited = self.patience.waited();
        if waited <= engine.patience() {
            return Fault::Later(Wait::Frame(until_asking(at_most, waited)));
        }
        match &self.space {
            Space::Region(region) => RegionFaults::of(engine, region).give_up_fault(self.page),
            Space::File(mapped) => Marks::of(engine, mapped).give_up_touch(self.page, waited),
        }
    }
}
