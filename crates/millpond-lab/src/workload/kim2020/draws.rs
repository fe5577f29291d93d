//! The chunks that ebizzy's threads copy, and their number: the same on every target, and the input of the bounds.

use super::loads::{CHUNK, Ebizzy, Zipf};
use millpond_sim::draw::Draw;
use std::sync::Arc;

/// How often ebizzy fills memory from swap before anything is counted, and after: by what comes back at least. It takes
/// more records the fewer come back.
pub(crate) const FILLS_WARM: f64 = 3.0;
pub(crate) const FILLS: f64 = 3.0;
/// Records for each chunk, at least and at most.
const RECORDS_MIN: f64 = 2.0;
const RECORDS_MAX: f64 = 60.0;

/// Before anything is counted, and after.
pub(crate) const PHASES: [(u64, f64); 2] = [(0, FILLS_WARM), (1, FILLS)];

/// The draws of a cell's threads.
#[derive(Clone, Debug)]
pub(crate) struct Draws {
    pub(crate) cell: Ebizzy,
    pub(crate) zipf: Arc<Zipf>,
    seed: u64,
    scale: f64,
    /// Chunks that memory has room for.
    pub(crate) room: u64,
}

impl Draws {
    /// For a cell with this number of frames.
    pub(crate) fn new(cell: Ebizzy, frames: u64, scale: f64, seed: u64) -> Draws {
        Draws {
            cell,
            zipf: Arc::new(Zipf::new(cell.mb * 2, cell.skew_tenths, seed)),
            seed,
            scale,
            room: frames / CHUNK,
        }
    }

    /// Records of each thread.
    pub(crate) fn records(&self, fills: f64) -> u64 {
        let chunks = (self.cell.mb * 2) as f64;
        let missing = 1.0 - self.zipf.share_of(self.room);
        let records = fills * self.room as f64 / missing.max(1e-9);
        let records = records.clamp(chunks * RECORDS_MIN, chunks * RECORDS_MAX);
        ((records * self.scale) as u64 / u64::from(self.cell.threads)).max(1)
    }

    /// A thread's source of draws.
    pub(crate) fn of(&self, phase: u64, thread: u32) -> Draw {
        Draw(self.seed.wrapping_mul(1_000_003) ^ (phase << 32) ^ u64::from(thread))
    }

    /// All chunks in the order of their uses, threads in turn, and how many of them precede the counted ones.
    pub(crate) fn chunks(&self) -> (Vec<u32>, usize) {
        let mut chunks: Vec<u32> = (0..(self.cell.mb * 2) as u32).collect();
        let mut from = 0;
        for (phase, fills) in PHASES {
            from = chunks.len();
            let threads = 0..self.cell.threads;
            let mut draws: Vec<Draw> = threads.map(|thread| self.of(phase, thread)).collect();
            for _ in 0..self.records(fills) {
                chunks.extend(draws.iter_mut().map(|draw| self.zipf.draw(draw)));
            }
        }
        (chunks, from)
    }
}
