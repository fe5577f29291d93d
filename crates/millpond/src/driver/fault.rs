//! A thread that needs pages: asks the core for frames, and waits while there are none.

use super::{Deferred, Shared};
use crate::error::{Error, Result};
use crate::explain::Wait;
use crate::file::FileInner;
use millpond_core::event::{Event, Intent};
use millpond_core::frame::FrameTable;
use millpond_core::units::{Nanos, PageIndex, PageKey};
use std::time::Duration;

/// Which pages a fault may bring in.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Reach {
    /// Those of the file as it is when it is this fault's turn. Whoever cuts the file stores its new length before
    /// he takes the core lock to discard what is behind, so nothing comes back afterwards.
    Inside,
    /// Any, if the file has at least so many bytes.
    Within(u64),
    /// Any: the caller is making the file longer.
    Beyond,
}

impl Shared {
    /// Asks for frames for the pages from `first` on that are missing, at most `count`, and waits until some can be
    /// had. An answer without any: the first page is there, or on its way, or outside of `reach`.
    ///
    /// # Errors
    /// [`Error::NoFrames`], [`Error::Poisoned`].
    pub(crate) fn fault(
        &self,
        file: &FileInner,
        first: PageIndex,
        count: u32,
        (intent, reach): (Intent, Reach),
        may_wait: bool,
    ) -> Result<Deferred> {
        let began = std::time::Instant::now();
        loop {
            self.poison.check()?;
            let seen = self.memory_gate.count();
            let mut deferred = Deferred::default();
            {
                let mut core = self.core();
                let within = match reach {
                    Reach::Inside => file
                        .len()
                        .div_ceil(self.page_size.bytes())
                        .saturating_sub(first.0),
                    Reach::Within(bytes) if file.len() < bytes => 0,
                    Reach::Within(_) | Reach::Beyond => u64::MAX,
                };
                deferred.outside = within == 0;
                let missing = {
                    let table = self.table.locked(&mut core.turn);
                    let is_missing = |n: &u64| table.lookup(PageKey::new(file.id, first.after(*n))).is_none();
                    let wanted = 0..u64::from(count).min(within);
                    wanted.take_while(is_missing).count() as u32
                };
                if missing == 0 {
                    return Ok(deferred);
                }
                let event = Event::Fault {
                    file: file.id,
                    first,
                    count: missing,
                    intent,
                };
                self.step(&mut core, event, &mut deferred);
            }
            self.finish(&mut deferred);
            let Some(at_most) = deferred.wait else {
                return Ok(deferred);
            };
            if !may_wait {
                return Ok(deferred);
            }
            self.look();
            let waited = began.elapsed();
            if waited > self.patience() {
                return Err(self.no_frames(waited));
            }
            self.timed_writes(Wait::Frame, || {
                self.memory_gate.wait(seen, Duration::from_nanos(at_most.0));
            });
        }
    }

    /// Waits for memory for as long as a fault was told.
    pub(crate) fn wait_for_memory(&self, at_most: Nanos) {
        self.timed_writes(Wait::Frame, || {
            let seen = self.memory_gate.count();
            self.memory_gate.wait(seen, Duration::from_nanos(at_most.0));
        });
    }

    /// How long a call waits for a frame, or for pages to be written, before it gives up.
    pub(super) fn patience(&self) -> Duration {
        Duration::from_nanos(self.core().manager.options().patience.0)
    }

    pub(super) fn no_frames(&self, waited: Duration) -> Error {
        Error::NoFrames {
            frames: self.core().manager.derived().frames.0,
            waited,
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::{Error, OpenOptions, PageCache};

    #[test]
    fn who_holds_all_frames_and_wants_one_more_is_told_so_and_gets_it_after_letting_go() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("data");
        std::fs::write(&path, [7; 1 << 20]).unwrap();
        let cache = PageCache::builder().memory(800 << 10).build().unwrap();
        let file = cache.open(&path, OpenOptions::new()).unwrap();
        let mut guards = Vec::new();
        let error = loop {
            match file.page(guards.len() as u64) {
                Ok(guard) => guards.push(guard),
                Err(error) => break error,
            }
        };
        assert!(matches!(error, Error::NoFrames { .. }), "{error}");
        let wanted = guards.len() as u64;
        assert!(guards.iter().all(|guard| guard[4095] == 7));
        let error = file.read_at(&mut [0; 10], wanted << 12).unwrap_err();
        assert!(matches!(error, Error::NoFrames { .. }), "{error}");
        guards.truncate(guards.len() / 2);
        assert_eq!(file.page(wanted).unwrap()[0], 7);
    }
}
