//! `millpond mount --replace`: what is otherwise when a mount is taken over.

use crate::failure::Failure;
use crate::log;
use millpond_fuse::TakeOverStep;
use rustix::process::Pid;
use std::thread;
use std::time::{Duration, Instant};

/// What has failed, if the mount was not taken over. If it was, that is only said: nobody else is left to go on with it.
pub(crate) fn unless_taken<E: Into<Failure>>(is_taken: bool, done: Result<(), E>) -> Result<(), Failure> {
    let done = done.map_err(E::into);
    match done {
        Err(Failure {
            message: Some(message),
            ..
        }) if is_taken => {
            say!("{}millpond mount: warning: {message}", log::stamp());
            Ok(())
        }
        Err(_) if is_taken => Ok(()),
        done => done,
    }
}

/// For so long the program that has started this one may take to end.
const STARTER_ENDS_WITHIN: Duration = Duration::from_secs(10);

/// Waits until the program that has started this one in the background has ended: then this is a child of systemd, if that has
/// started the other. Of a main process that is another's child it does not notice the end, and kills it at once when it stops the
/// unit.
pub(crate) fn wait_for_starter(starter: Option<Pid>) {
    let until = Instant::now() + STARTER_ENDS_WITHIN;
    while rustix::process::getppid() == starter && Instant::now() < until {
        thread::sleep(Duration::from_millis(1));
    }
}

/// A step, or `hang-` and a step.
pub(crate) fn breakdown(text: &str) -> Result<(TakeOverStep, bool), String> {
    let (step, hangs) = match text.strip_prefix("hang-") {
        Some(step) => (step, true),
        None => (text, false),
    };
    let steps = [
        ("newer", TakeOverStep::Newer),
        ("asked", TakeOverStep::Asked),
        ("answered", TakeOverStep::Answered),
        ("prepared", TakeOverStep::Prepared),
        ("receiving", TakeOverStep::Receiving),
        ("received", TakeOverStep::Received),
        ("begun", TakeOverStep::Begun),
    ];
    let step = steps.into_iter().find(|(name, _)| *name == step);
    step.map(|(_, step)| (step, hangs))
        .ok_or_else(|| "there is no such step".into())
}
