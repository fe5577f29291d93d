//! The end of a mount: a signal asks for it, and what the disk refuses is tried again until it is written.
//!
//! ```text
//!   first signal ──► all is written ──► unmounted ──► the last user has closed ──► what is left is written ──► the process ends
//!                      │ refused: it stays mounted      ▲ umount(8)                   │ refused
//!                      └─► again in a second            │                             └─► again in a second
//!   second signal, at any moment ──► what is lost is said ──► the process ends
//! ```

use crate::daemon::nowhere;
use crate::failure::shown_path;
use crate::log;
use crate::signals::MountSignals;
use millpond_fuse::{Events, Mount, MountError, Unmounted, Unsaved, Unwritten};
use std::path::PathBuf;
use std::sync::mpsc::{self, Receiver, TryRecvError};
use std::thread;
use std::time::{Duration, Instant};

/// How soon a refused write is retried.
const AGAIN_AFTER: Duration = Duration::from_secs(1);

/// How often the refusal is reported again.
const SAY_EVERY: Duration = Duration::from_secs(60);

/// After this, a message says what is being waited for.
const NOTICE_AFTER: Duration = Duration::from_secs(5);

/// How long to determine what is lost: the process may hang.
const LAST_WORDS_WITHIN: Duration = Duration::from_secs(5);

/// How long the log's threads may take for their last lines; later ones are lost.
const LOG_TAKES_WITHIN: Duration = Duration::from_millis(200);

/// Reports refused writes: at first, and every minute.
struct Refusals {
    point: String,
    said: Option<Instant>,
}

impl Refusals {
    fn say(&mut self, refused: &Unwritten, state: &str) {
        if self.said.is_some_and(|said| said.elapsed() < SAY_EVERY) {
            return;
        }
        self.said = Some(Instant::now());
        let process = std::process::id();
        say!(
            "{}millpond mount: error: the disk refuses {refused}. It is kept in memory and tried again every second; {} {state}: \
             make room, or repair the disk. A second signal (`kill {process}`) ends the process, and what is refused is lost",
            log::stamp(),
            self.point
        );
    }

    fn are_over(&mut self) {
        if self.said.take().is_some() {
            say!(
                "{}millpond mount: what was refused is on the disk now",
                log::stamp()
            );
        }
    }
}

/// How far the end has come.
enum Stage {
    /// No signal has asked for it.
    Serving,
    /// Everything is being written, since then; whether the delay has been reported.
    Saving(Receiver<Option<Unwritten>>, Instant, bool),
    /// The disk refused part of it, at this time.
    Refused(Instant),
    Unmounted,
}

/// How a mount ends.
pub(crate) struct Ending {
    stage: Stage,
    unsaved: Unsaved,
    refusals: Refusals,
    events: Events,
}

impl Ending {
    /// The second signal removes `pid_file` too.
    pub(crate) fn new(
        mount: &Mount,
        signals: &MountSignals,
        events: &Events,
        pid_file: Option<PathBuf>,
    ) -> Ending {
        let unsaved = mount.unsaved();
        let point = shown_path(mount.point());
        let (last, at) = (unsaved.clone(), point.clone());
        signals.before_second(move || {
            say_lost(&last, &at);
            if let Some(file) = &pid_file {
                let _ = std::fs::remove_file(file);
            }
        });
        Ending {
            stage: Stage::Serving,
            unsaved,
            refusals: Refusals { point, said: None },
            events: events.clone(),
        }
    }

    /// When the next step is due, if nothing happens before.
    pub(crate) fn due(&self) -> Option<Instant> {
        match &self.stage {
            Stage::Refused(at) => Some(*at + AGAIN_AFTER),
            Stage::Saving(_, began, false) => Some(*began + NOTICE_AFTER),
            _ => None,
        }
    }

    /// Does what is due. To be called while the mount exists, then and whenever `events` are notified.
    ///
    /// # Errors
    /// It can't be unmounted.
    pub(crate) fn go_on(&mut self, mount: &Mount, signals: &MountSignals) -> Result<(), MountError> {
        match &mut self.stage {
            Stage::Serving if signals.is_asked_to_end() => {
                say!(
                    "{}millpond mount: a signal asks {} to end: everything is being written",
                    log::stamp(),
                    self.refusals.point
                );
                self.save();
            }
            Stage::Refused(at) if at.elapsed() >= AGAIN_AFTER => self.save(),
            Stage::Saving(result, began, is_said) => match result.try_recv() {
                Err(TryRecvError::Empty) => {
                    if began.elapsed() >= NOTICE_AFTER && !*is_said {
                        *is_said = true;
                        say!(
                            "{}millpond mount: what was written at {} is on its way to the disk; still waiting. A second signal \
                             ends the process, and what is not synced is lost",
                            log::stamp(),
                            self.refusals.point
                        );
                    }
                }
                Ok(Some(refused)) if !self.unsaved.is_given_up() => {
                    self.refusals.say(&refused, "stays mounted");
                    self.stage = Stage::Refused(Instant::now());
                }
                // Everything is written, or discarded.
                _ => {
                    self.refusals.are_over();
                    self.stage = Stage::Unmounted;
                    if mount.unmount()? == Unmounted::Detached {
                        say!(
                            "{}millpond mount: {} is in use: it is detached, and ends when its last user has closed \
                             it; a second signal (`kill {}`) ends it at once, and what is not synced is lost",
                            log::stamp(),
                            self.refusals.point,
                            std::process::id()
                        );
                    }
                }
            },
            _ => {}
        }
        Ok(())
    }

    fn save(&mut self) {
        let (tell, result) = mpsc::channel();
        let (unsaved, events) = (self.unsaved.clone(), self.events.clone());
        let save = move || {
            let _ = tell.send(unsaved.try_save());
            events.notify();
        };
        // Without a thread the answer is that all is written; the rest is retried after the end.
        if thread::Builder::new().spawn(save).is_err() {
            self.events.notify();
        }
        self.stage = Stage::Saving(result, Instant::now(), false);
    }

    /// It is unmounted, and the disk has refused this: waits a moment before the retry.
    pub(crate) fn tries_again(&mut self, refused: &Unwritten) -> bool {
        self.refusals.say(refused, "is unmounted");
        thread::sleep(AGAIN_AFTER);
        true
    }
}

/// A second signal has come.
fn say_lost(unsaved: &Unsaved, point: &str) {
    let (tell, known) = mpsc::channel();
    let unsaved = unsaved.clone();
    let _ = thread::Builder::new().spawn(move || tell.send(unsaved.abandon()));
    let lost = match known.recv_timeout(LAST_WORDS_WITHIN) {
        Ok(Some(unwritten)) => format!("was not written and is lost: {unwritten}"),
        Ok(None) => "nothing waited to be written; what was not synced may be lost".into(),
        Err(_) => "what was not synced is lost".into(),
    };
    say!(
        "{}millpond mount: error: a second signal has ended {point}: {lost}",
        log::stamp()
    );
    // The threads that hand lines on get no more of them; no other way is known to the process by now.
    let _ = nowhere().map(|nowhere| crate::daemon::leave_terminal(&nowhere));
    thread::sleep(LOG_TAKES_WITHIN);
}
