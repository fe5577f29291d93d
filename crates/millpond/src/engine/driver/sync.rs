//! Syncs: the core says when everything is written, the device makes it durable.

use super::{Engine, Holders};
use crate::device::{Awaited, Device};
use crate::error::{Result, again};
use crate::files::{FileInner, log_failed};
use crate::frames::own::Waits;
use crate::observe::explain::{self, Call, Wait};
use crate::sys::clock::Patience;
use millpond_core::event::Event;
use millpond_core::io::IoError;
use millpond_core::mutation::{self, Mutation};
use millpond_core::writeback::SyncTicket;
use std::collections::HashMap;
use std::io;
use std::time::Duration;

/// After this time, a sync that has not ended checks for the first time whether a thread holds a page that it waits for.
/// The check looks at all pages of the file, so each next one comes after twice the time.
const LOOK_AT: Duration = Duration::from_millis(20);

/// The syncs under way, and how they ended.
#[derive(Default)]
pub(super) struct Tickets {
    pub(super) answers: HashMap<SyncTicket, Answer>,
    next: u64,
}

/// The state of a sync.
#[derive(Clone, Copy)]
pub(super) enum Answer {
    /// Pages are still to be written.
    None,
    /// All pages that are still to be written wait for a log.
    Held,
    /// The result, and whether it was a sync of few pages.
    Ended(std::result::Result<(), IoError>, bool),
}

/// A sync that a thread waits for.
pub(crate) struct Syncing {
    ticket: SyncTicket,
    /// Whether the log could be made durable first.
    log: Result<()>,
}

/// Syncs of a file.
#[derive(Clone, Copy)]
pub(crate) struct Syncs<'a> {
    engine: &'a Engine,
    file: &'a FileInner,
}

impl<'a> Syncs<'a> {
    pub(crate) fn of(engine: &'a Engine, file: &'a FileInner) -> Syncs<'a> {
        Syncs { engine, file }
    }

    /// Asks the core to write all dirty pages of the file. `log` is the result of [`Syncs::log_first`]; pages that don't
    /// wait for the log are written in any case.
    ///
    /// # Errors
    /// [`Error::Poisoned`].
    pub(crate) fn sync_begin(self, log: Result<()>) -> Result<Syncing> {
        let Syncs { engine, file } = self;
        engine.call_flags.check()?;
        let mut core = engine.core();
        let ticket = SyncTicket(core.tickets.next);
        core.tickets.next += 1;
        core.tickets.answers.insert(ticket, Answer::None);
        core.step(Event::Sync {
            file: file.id,
            ticket,
        });
        drop(core);
        Ok(Syncing { ticket, log })
    }

    /// Makes the log durable as far as the file's pages wait for it, and waits for that. Pages that are changed later don't
    /// concern a sync that begins now.
    ///
    /// # Errors
    /// [`Error::Log`].
    pub(crate) fn log_first(self) -> Result<()> {
        let Syncs { engine, file } = self;
        let Some(held) = &file.writeback_rules.held else {
            return Ok(());
        };
        if let Some(last) = held.last_record() {
            let awaited = || Awaited::Log {
                wanted: last,
                durable: held.log.durable(),
            };
            let wait = engine.device.waits(&file.path, awaited(), Duration::ZERO);
            let gives_up = || {
                wait.is_for(awaited());
                engine.call_flags.is_poisoned()
            };
            let waited = explain::timed(Wait::Log, || held.log.wait(last, gives_up));
            waited.map_err(|source| log_failed(&file.path, source))?;
        }
        Ok(())
    }

    /// Waits for the end of the sync. Returns whether it was one of few pages.
    ///
    /// # Errors
    /// The first error of a write; [`Error::Log`] if only pages are left whose log can't be made durable, perhaps because
    /// they were changed after the sync began; [`Error::OwnGuard`] if only pages are left that the calling thread itself is
    /// changing; [`Error::Poisoned`].
    pub(crate) fn sync_end(self, syncing: Syncing) -> Result<std::result::Result<bool, IoError>> {
        let engine = self.engine;
        explain::waits_in(Call::Sync);
        engine.timed_writes(Wait::Writes, || self.written(syncing))
    }

    fn written(self, syncing: Syncing) -> Result<std::result::Result<bool, IoError>> {
        let Syncs { engine, file } = self;
        let Syncing { ticket, mut log } = syncing;
        let calls = file.writeback_rules.log_calls();
        let (mut patience, mut slept) = (Patience::new(), Duration::ZERO);
        let mut wait = None;
        let mut look_at = LOOK_AT;
        loop {
            let seen = engine.waits.syncs.count();
            let answer = engine.core().tickets.answers.get(&ticket).copied();
            if let Some(Answer::Ended(result, small_fsync)) = answer {
                engine.core().tickets.answers.remove(&ticket);
                return Ok(result.map(|()| small_fsync));
            }
            engine.call_flags.check()?;
            engine.look();
            if let Some(Answer::Held) = answer {
                log = log.and_then(|()| file.writeback_rules.check_log(&file.path, calls));
                if let Some(held) = &file.writeback_rules.held {
                    let caller = held.log.check_caller();
                    log = log.and(caller.map_err(|source| log_failed(&file.path, source)));
                }
                if log.is_err() {
                    self.give_up(ticket);
                    return log.map(|()| Ok(true));
                }
            }
            patience.slept(slept);
            let waited = patience.waited();
            if waited >= look_at {
                look_at *= 2;
                let own = Holders::of(engine, file).check_guards(0..u64::MAX, Waits::ForWriters);
                if own.is_err() && Holders::of(engine, file).has_written_all_but_changed()? {
                    self.give_up(ticket);
                    return own.map(|()| Ok(true));
                }
                if waited > engine.patience() && Holders::of(engine, file).is_stuck_in_mapping()? {
                    self.give_up(ticket);
                    return Err(file.write_failed(io::Error::from_raw_os_error(libc::EBUSY)));
                }
                wait = self.waits_for(answer).map(|awaited| {
                    // Not twice at a time.
                    drop(wait.take());
                    engine.device.waits(&file.path, awaited, waited)
                });
            }
            slept = look_at.saturating_sub(waited).min(Duration::from_secs(1));
            engine.waits.syncs.wait(seen, slept);
        }
    }

    /// Returns what a sync waits for other than a device, if that is known.
    fn waits_for(self, answer: Option<Answer>) -> Option<Awaited> {
        let Syncs { engine, file } = self;
        if let (Some(Answer::Held), Some(held)) = (answer, &file.writeback_rules.held)
            && let Some(wanted) = held.last_record()
        {
            let durable = held.log.durable();
            return Some(Awaited::Log { wanted, durable });
        }
        Holders::of(engine, file)
            .page_in_change()
            .map(|page| Awaited::Changed { page })
    }

    /// Gives up the sync: no thread waits for its answer any more.
    fn give_up(self, ticket: SyncTicket) {
        let Syncs { engine, file } = self;
        let mut core = engine.core();
        core.tickets.answers.remove(&ticket);
        core.step(Event::SyncGivenUp {
            file: file.id,
            ticket,
        });
    }

    /// Waits for a sync, then lets the device do its part.
    pub(crate) fn sync_file(self, syncing: Syncing) -> Result<()> {
        let Syncs { engine, file } = self;
        let small_fsync = self.sync_end(syncing)?.map_err(|e| file.write_refused(e))?;
        if let Some(error) = file.sync_latched()
            && !mutation::is(Mutation::SyncErrorForgotten)
        {
            return Err(error);
        }
        let poisons = engine.poison_on_panic("device");
        let synced = match mutation::is(Mutation::SyncWithoutDevice) {
            true => Ok(()),
            false => {
                // The file system's writes for it go into the same queue as the cache's own.
                if small_fsync {
                    engine.tell(Event::DeviceSync {
                        file: file.id,
                        begun: true,
                    });
                }
                let synced = explain::timed(Wait::Flush, || engine.device.sync(&file.device()));
                if small_fsync {
                    engine.tell(Event::DeviceSync {
                        file: file.id,
                        begun: false,
                    });
                }
                synced
            }
        };
        drop(poisons);
        match synced {
            Ok(()) => Ok(()),
            Err(error) => {
                if engine.device.keeps_unsynced(&file.device()) {
                    return Err(file.sync_failed(error, true));
                }
                let first = file.sync_error.get_or_init(|| error);
                Err(file.sync_failed(again(first), false))
            }
        }
    }
}
