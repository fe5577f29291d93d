//! A thread has touched a page that is not there, and waits: one loop for regions and mapped files, by whoever serves it.
//!
//! ```text
//!   a handler, or the thread ─► serve ─┬─ Served    the page is there, or comes: the thread goes on, or touches it again
//!                                      ├─ Later     for a frame, or for a thread that has the page: again after that
//!                                      └─ Refused   the thread gets `SIGBUS`
//! ```
//!
//! What a page needs in order to come is in `region.rs` and `mapped.rs`.

use super::{Engine, MappedFaults, Marks, RegionFaults, until_asking};
use crate::memory::mapped::MappedFile;
use crate::memory::{At, Space};
use crate::sys::clock::Patience;
use crate::sys::signals::end_if_told;
use crate::sys::uffd::Access;
use std::sync::Arc;
use std::thread::yield_now;
use std::time::Duration;

/// How long a thread waits at most for a page that another has in hand before it looks again. The other always announces
/// the page, so this is only for a bug in which it does not.
const SETTLED_WAIT: Duration = Duration::from_millis(100);

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
        match &self.space {
            Space::Region(_) => None,
            Space::File(mapped) => Some((mapped, self.page)),
        }
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

    fn attempt(&self, engine: &Engine, by: By) -> Fault {
        match &self.space {
            Space::Region(region) => {
                RegionFaults::of(engine, region).region_fault(self.page, self.access, by)
            }
            Space::File(mapped) => MappedFaults::of(engine, mapped).mapped_fault(self.page, self.access, by),
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
