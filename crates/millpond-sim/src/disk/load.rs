//! Closed loops on a modeled disk, for its tests: each client waits for its transfers, thinks for a moment and sends
//! the next ones. `THINK` is the cost of a loop device and a reader's loop on the machine where the figures in the
//! tests were measured.

use super::{Model, ModelCompletion, ModelRequest};
use millpond_core::units::{Instant, Nanos};
use std::collections::BTreeMap;

/// Between an answer and the next request of the same client.
pub(super) const THINK: Nanos = Nanos::from_micros(60);

/// A client's activity.
#[derive(Default, Debug)]
pub(super) struct Seen {
    pub(super) bytes: u64,
    pub(super) latencies: Vec<Nanos>,
}

impl Seen {
    pub(super) fn mean_ms(&self) -> f64 {
        self.latencies.iter().map(|ns| ns.0 as f64).sum::<f64>() / self.latencies.len() as f64 / 1e6
    }

    pub(super) fn percentile_ms(&self, share: f64) -> f64 {
        let mut sorted = self.latencies.clone();
        sorted.sort();
        sorted[(sorted.len() as f64 * share) as usize].0 as f64 / 1e6
    }
}

/// A client: asked for its next request when the last one is answered, `None` to be asked again after
/// `THINK`. It is told how many requests each client has had answered.
pub(super) type Client<'a> = Box<dyn FnMut(&[usize]) -> Option<(bool, u64, u32)> + 'a>;

/// Runs until idle; what was answered, in order.
pub(super) fn finish(disk: &mut Model) -> Vec<ModelCompletion> {
    let mut done = Vec::new();
    while let Some(at) = disk.next_event() {
        disk.advance(at, &mut done);
        disk.validate();
    }
    done
}

pub(super) fn random(seed: &mut u64) -> u64 {
    *seed = seed.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let mut z = *seed;
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

/// Random 4 KiB reads of `[from, from + len)`.
pub(super) fn random_reads(from: u64, len: u64, mut seed: u64) -> Client<'static> {
    Box::new(move |_| Some((false, from + random(&mut seed) % (len / 4096) * 4096, 4096)))
}

/// Runs the clients for `seconds` of virtual time.
pub(super) fn run(model: &mut Model, seconds: u64, mut clients: Vec<Client<'_>>) -> Vec<Seen> {
    let mut seen: Vec<Seen> = clients.iter().map(|_| Seen::default()).collect();
    let mut answered = vec![0; clients.len()];
    let mut sent = vec![(Instant(0), 0); clients.len()];
    let start = model.now;
    let end = start + Nanos::from_secs(seconds);
    let mut sequence = clients.len();
    // Which client is to be asked when; of two at the same instant, the one that has waited longer.
    let mut due: BTreeMap<(Instant, usize), usize> = (0..clients.len()).map(|n| ((start, n), n)).collect();
    let mut done: Vec<ModelCompletion> = Vec::new();
    loop {
        let client_at = due.first_key_value().map(|(&(at, _), _)| at);
        let now = client_at
            .into_iter()
            .chain(model.next_event())
            .min()
            .expect("a client goes on");
        if now >= end {
            return seen;
        }
        if client_at == Some(now) {
            let (_, client) = due.pop_first().expect("it was there");
            match clients[client](&answered) {
                Some((write, offset, len)) => {
                    sent[client] = (now, u64::from(len));
                    model.submit(
                        now,
                        ModelRequest {
                            id: client as u64,
                            write,
                            offset,
                            len,
                        },
                    );
                }
                None => {
                    due.insert((now + THINK, sequence), client);
                    sequence += 1;
                }
            }
        } else {
            model.advance(now, &mut done);
            for ModelCompletion { id, at } in done.drain(..) {
                let client = id as usize;
                answered[client] += 1;
                seen[client].bytes += sent[client].1;
                seen[client].latencies.push(at.since(sent[client].0));
                due.insert((at + THINK, sequence), client);
                sequence += 1;
            }
        }
        model.validate();
    }
}

/// Fails unless `value` is within 5 % of `expected`.
#[track_caller]
pub(super) fn assert_near(what: &str, value: f64, expected: f64) {
    assert!(
        (value / expected - 1.0).abs() <= 0.05,
        "{what}: {value:.2}, expected {expected:.2} within 5 %"
    );
}
