//! How long a step holds the core lock, what that allows in misses a second, and what shards of one budget would.
//!
//! ```text
//! cargo run --release -p millpond-lab --features lock-times --example core_lock [DIR]
//!
//!   measure    the engine on a device that takes no time: each hold of its lock, by the event that it was for
//!      │
//!      ▼ holds as they were
//!   queue      8, 32, 128 threads in virtual time: lock, device, lock, and a thread that reclaims; 1 to 16 shards
//! ```
//!
//! DIR is for an empty file; nothing is read or written.

#![allow(
    clippy::print_stdout,
    clippy::unwrap_used,
    reason = "a program that prints tables"
)]

mod measure;
mod queue;

use measure::Load;
use std::path::PathBuf;

fn main() {
    let dir = std::env::args()
        .nth(1)
        .map_or_else(std::env::temp_dir, PathBuf::from);
    let mut misses = Vec::new();
    for load in Load::ALL {
        for threads in [1, 2] {
            let measured = measure::run(&dir, load, threads);
            measured.print();
            if load == Load::Misses {
                misses.push(measured);
            }
        }
    }
    let [alone, contended] = &misses[..] else { return };
    queue::print(alone, contended);
}
