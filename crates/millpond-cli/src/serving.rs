//! The life of a mount that serves: signals, a process that takes over, and the status line of a terminal.

use crate::control::shown_path;
use crate::daemon::LogFile;
use crate::ending::Ending;
use crate::failure::Failure;
use crate::log;
use crate::signals::MountSignals;
use indicatif::{ProgressBar, ProgressStyle};
use millpond::PageCache;
use millpond::internal::quantity::size;
use millpond_core::units::Bytes;
use millpond_fuse::{Events, Mount, Successor};
use sd_notify::NotifyState;
use std::time::{Duration, Instant};

/// A terminal shows what the mount does this often.
const SHOW_EVERY: Duration = Duration::from_secs(1);

/// Notifies systemd, if it has started this. A failure is ignored: it may be gone.
pub(crate) fn tell_systemd(states: &[NotifyState<'_>]) {
    let _ = sd_notify::notify(states);
}

/// Serves until it is unmounted, by whatever means, or until another process serves it: which.
pub(crate) fn serve(
    mount: &mut Mount,
    (signals, events): (&MountSignals, &Events),
    ending: &mut Ending,
    log_file: Option<&LogFile>,
    about: &str,
) -> Result<Option<Successor>, Failure> {
    let line = ProgressBar::new_spinner();
    if let Ok(style) = ProgressStyle::with_template("{msg}") {
        line.set_style(style);
    }
    let is_shown = mount.cache().is_some() && !line.is_hidden();
    let mut show_at = is_shown.then(|| Instant::now() + SHOW_EVERY);
    while !mount.is_ended() {
        if let (true, Some(file)) = (signals.has_hung_up(), log_file) {
            let failed = file.reopen().err();
            let said = failed.map_or_else(
                || about.to_owned(),
                |why| format!("the log can't be opened anew: {why}"),
            );
            say!("{}millpond mount: {said}", log::stamp());
        }
        if mount.has_successor() {
            match mount.hand_over(&|| signals.is_asked_to_end()) {
                Ok(successor) => return Ok(Some(successor)),
                Err(why) => say!("{}millpond mount: warning: {why}", log::stamp()),
            }
        }
        ending.go_on(mount, signals)?;
        if let Some((at, cache)) = show_at.as_mut().zip(mount.cache())
            && *at <= Instant::now()
        {
            *at = Instant::now() + SHOW_EVERY;
            line.set_message(status(mount, cache));
        }
        events.wait(ending.due().into_iter().chain(show_at).min());
    }
    line.finish_and_clear();
    tell_systemd(&[
        NotifyState::Stopping,
        NotifyState::Status("it is unmounted, and writes its remaining data"),
    ]);
    Ok(None)
}

fn status(mount: &Mount, cache: &PageCache) -> String {
    let stats = cache.stats();
    let (now, page) = (&stats.occupancy, cache.options().page_size.bytes());
    let bytes = |pages: u64| size(Bytes(pages * page));
    let read = stats
        .read_p50
        .map_or("none".into(), |p50| format!("{} us", p50.0 / 1000));
    let lent = match stats.lent {
        Bytes(0) => String::new(),
        lent => format!(" {} lent,", size(lent)),
    };
    format!(
        "{}: {} of {} in memory,{lent} {} dirty, {} being written, reads from disk {read}, {} files known",
        shown_path(mount.point()),
        bytes(now.frames.0 - now.free.0),
        bytes(now.frames.0),
        bytes(now.dirty.0),
        bytes(now.writing.0),
        mount.files()
    )
}
