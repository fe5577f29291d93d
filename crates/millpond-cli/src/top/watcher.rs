//! The thread that asks the cache, an interval after the other, and hands on what it answers.
//!
//! ```text
//!   keys ── Orders: which cache, which order, how often, pause ──► this thread ── Told: figures, or an end ──► screen
//! ```
//!
//! It waits for orders, no longer than until the next question is due. What it has answered is the latest: a screen that is
//! not drawn in time is never drawn.

use super::figures::{Figures, Sample};
use crate::Failure;
use crate::control::Cache;
use std::path::PathBuf;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender};
use std::time::{Duration, Instant};

/// What is to be watched.
#[derive(Clone, Debug)]
pub(super) struct Orders {
    pub(super) socket: PathBuf,
    pub(super) sort: &'static str,
    pub(super) interval: Duration,
    pub(super) is_paused: bool,
}

/// What there is to say.
pub(super) enum Told {
    /// Of this cache.
    Figures(Box<Figures>),
    /// The cache can't be asked any more.
    Ended(PathBuf, Failure),
}

/// Asks until nobody listens.
pub(super) fn run(orders: &Receiver<Orders>, told: &Sender<Told>) {
    let Ok(mut order) = orders.recv() else { return };
    loop {
        let Some(next) = watch(order, orders, told) else {
            return;
        };
        order = next;
    }
}

/// Watches one cache in one order; the orders that follow, or `None` at the end.
fn watch(order: Orders, orders: &Receiver<Orders>, told: &Sender<Told>) -> Option<Orders> {
    let ended = |failure| told.send(Told::Ended(order.socket.clone(), failure));
    let mut cache = match Cache::connect(&order.socket) {
        Ok(cache) => cache,
        Err(failure) => {
            ended(failure).ok()?;
            return orders.recv().ok();
        }
    };
    // At once, with averages since the beginning; then an interval after the other.
    let mut before: Option<Sample> = None;
    let mut order = order.clone();
    loop {
        let due = Instant::now() + order.interval;
        if !order.is_paused || before.is_none() {
            match Sample::ask(&mut cache, order.sort) {
                Ok(now) => {
                    let first = before.take().unwrap_or_else(|| now.beginning());
                    told.send(Told::Figures(Box::new(Figures::of(&first, &now))))
                        .ok()?;
                    before = Some(now);
                }
                Err(failure) => {
                    told.send(Told::Ended(order.socket.clone(), failure)).ok()?;
                    return orders.recv().ok();
                }
            }
        }
        match orders.recv_timeout(due.saturating_duration_since(Instant::now())) {
            Ok(next) if next.socket != order.socket => return Some(next),
            Ok(next) => order = next,
            Err(RecvTimeoutError::Timeout) => {}
            Err(RecvTimeoutError::Disconnected) => return None,
        }
    }
}
