//! The threads that ask the cache at each interval, and pass on its answers.
//!
//! ```text
//!   keys ── Orders: which cache, which order, how often, pause ──► this thread ── Update: figures, or an end ──► screen
//! ```
//!
//! It waits for orders, at most until the next question is due. Only the latest answer counts: a screen that is not
//! drawn in time is never drawn. Each chosen cache has a thread of its own, so a hanging one does not delay another;
//! the thread of a cache that is no longer chosen ends when it has its answer.

use super::figures::{Figures, Sample};
use crate::control::Cache;
use crate::failure::Failure;
use std::path::PathBuf;
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, Sender};
use std::thread;
use std::time::{Duration, Instant};

/// What to watch.
#[derive(Clone, Debug)]
pub(super) struct Orders {
    pub(super) socket: PathBuf,
    pub(super) sort: &'static str,
    pub(super) interval: Duration,
    pub(super) is_paused: bool,
}

/// What the screen gets.
pub(super) enum Update {
    /// Figures of this cache.
    Figures(Box<Figures>),
    /// The cache can no longer be asked.
    Ended(PathBuf, Failure),
}

/// Passes orders to the thread that watches the cache, until there are no more.
pub(super) fn run(orders: &Receiver<Orders>, updates: &Sender<Update>) {
    let mut watching: Option<(PathBuf, Sender<Orders>)> = None;
    for order in orders {
        let socket = order.socket.clone();
        let order = match &watching {
            Some((same, to)) if *same == socket => match to.send(order) {
                Ok(()) => continue,
                // It has ended, and reported why.
                Err(mpsc::SendError(order)) => order,
            },
            _ => order,
        };
        let (to, orders) = mpsc::channel();
        let (watched, tell) = (socket.clone(), updates.clone());
        let thread = thread::Builder::new().name("watch".into());
        let started = thread.spawn(move || watch(order, &orders, &tell));
        if let Err(error) = started {
            let _ = updates.send(Update::Ended(watched, error.into()));
        }
        watching = Some((socket, to));
    }
}

/// Watches one cache, until the screen or the cache has ended.
fn watch(mut order: Orders, orders: &Receiver<Orders>, updates: &Sender<Update>) -> Option<()> {
    let mut cache = match Cache::connect(&order.socket) {
        Ok(cache) => cache,
        Err(failure) => return updates.send(Update::Ended(order.socket, failure)).ok(),
    };
    // Immediately, with averages since the beginning; then at each interval.
    let mut before: Option<Sample> = None;
    loop {
        let due = Instant::now() + order.interval;
        if !order.is_paused || before.is_none() {
            match Sample::ask(&mut cache, order.sort) {
                Ok(now) => {
                    let first = before.take().unwrap_or_else(|| now.beginning());
                    updates
                        .send(Update::Figures(Box::new(Figures::of(&first, &now))))
                        .ok()?;
                    before = Some(now);
                }
                Err(failure) => return updates.send(Update::Ended(order.socket, failure)).ok(),
            }
        }
        match orders.recv_timeout(due.saturating_duration_since(Instant::now())) {
            Ok(next) => order = next,
            Err(RecvTimeoutError::Timeout) => {}
            Err(RecvTimeoutError::Disconnected) => return None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::net::UnixListener;

    /// After another cache was chosen, the screen waited for the answer of the previous one.
    #[test]
    fn a_hanging_cache_does_not_keep_another_from_being_watched() {
        let folder = tempfile::tempdir().unwrap();
        let (hangs, lives) = (folder.path().join("hangs"), folder.path().join("lives"));
        let _hanging = UnixListener::bind(&hangs).unwrap();
        let builder = millpond::PageCache::builder().memory(2 << 20).calibrate(false);
        let _cache = builder.control_at(&lives).build().unwrap();
        let (give, orders) = mpsc::channel();
        let (tell, updates) = mpsc::channel();
        thread::spawn(move || run(&orders, &tell));
        let order = |socket: &PathBuf| Orders {
            socket: socket.clone(),
            sort: "resident",
            interval: Duration::from_secs(1),
            is_paused: false,
        };
        give.send(order(&hangs)).unwrap();
        give.send(order(&lives)).unwrap();
        // The hanging one is given up only after a minute.
        match updates.recv_timeout(Duration::from_secs(30)) {
            Ok(Update::Figures(figures)) => assert_eq!(figures.socket, lives.display().to_string()),
            Ok(Update::Ended(socket, _)) => panic!("{} has ended", socket.display()),
            Err(error) => panic!("{error}"),
        }
    }
}
