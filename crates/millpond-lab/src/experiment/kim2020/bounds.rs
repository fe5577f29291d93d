//! The bound of every policy on a load with this number of frames, and the result of least recently used.

use super::optimum::{Misses, misses};
use crate::outcome::Outcome;
use crate::workload::kim2020::draws::Draws;
use crate::workload::kim2020::loads::{CHUNK, Course};

/// For ebizzy, chunk by chunk.
pub(super) fn of_draws(draws: &Draws) -> Outcome {
    let mut outcome = Outcome::default();
    let (chunks, from) = draws.chunks();
    let room = draws.room.saturating_sub(draws.cell.threads.into()).max(1);
    let counted = (chunks.len() - from) as f64;
    let found = misses(&chunks, from, room);
    for (name, chunks) in [("optimum", found.optimum), ("lru", found.lru)] {
        let pages = (chunks * CHUNK) as f64 / counted;
        outcome.push(&format!("swap_ins_per_record_{name}_pages"), "1", pages);
    }
    let popular = draws.zipf.share_of(room);
    outcome.push(
        "swap_ins_per_record_most_popular_kept_pages",
        "1",
        (1.0 - popular) * CHUNK as f64,
    );
    push(
        &mut outcome,
        Misses {
            optimum: found.optimum * CHUNK,
            lru: found.lru * CHUNK,
        },
    );
    outcome
}

/// For a load with rounds, page by page.
pub(super) fn of_course(course: &Course, frames: u64) -> Outcome {
    let mut outcome = Outcome::default();
    let (uses, from) = course.uses();
    push(&mut outcome, misses(&uses, from, frames));
    outcome
}

fn push(outcome: &mut Outcome, misses: Misses) {
    outcome.push("misses_optimum_pages", "1", misses.optimum as f64);
    outcome.push("misses_lru_pages", "1", misses.lru as f64);
}
