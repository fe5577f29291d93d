//! Reads over time as dots: two to a character's width and four to its height (Braille patterns), latencies on a
//! logarithmic axis.

use millpond::internal::quantity::micros_tick;
use millpond_lab::measure::heat::{Counts, bounds_us, class_us};

/// The dots of a Braille character, from the left column's top.
const BRAILLE: [[u32; 4]; 2] = [[0x01, 0x02, 0x04, 0x40], [0x08, 0x10, 0x20, 0x80]];

/// The latencies that an axis shows, as logarithms of microseconds.
#[derive(Clone, Copy, Debug)]
pub(super) struct Axis {
    least: f64,
    greatest: f64,
}

impl Axis {
    /// An axis for all of these: 20 us to 20 ms, or further where needed.
    pub(super) fn of<'a>(rounds: impl Iterator<Item = &'a Vec<Counts>>) -> Axis {
        let (mut least, mut greatest) = (20_f64.log10(), 2e4_f64.log10());
        for &(class, _) in rounds.flatten().flatten() {
            let log = class_us(class).log10();
            (least, greatest) = (least.min(log), greatest.max(log));
        }
        Axis {
            least: least - 0.05,
            greatest: greatest + 0.05,
        }
    }

    /// The height from the bottom, as a share.
    fn share(self, us: f64) -> f64 {
        ((us.log10() - self.least) / (self.greatest - self.least)).clamp(0.0, 1.0)
    }

    /// The labels of `rows` rows, from the top: powers of ten.
    pub(super) fn labels(self, rows: usize) -> Vec<Option<String>> {
        let mut labels = vec![None; rows];
        for decade in self.least.ceil() as i32..=self.greatest.floor() as i32 {
            let us = 10_f64.powi(decade);
            let row = rows - 1 - ((self.share(us) * rows as f64) as usize).min(rows - 1);
            labels[row] = Some(micros_tick(us));
        }
        labels
    }
}

/// Dots of one side in a field of characters.
pub(super) struct Dots {
    columns: usize,
    rows: usize,
    /// Bits of each character, row by row from the top.
    cells: Vec<u32>,
}

impl Dots {
    /// Draws the reads of these rounds, one after the other, on an axis of this number of steps.
    pub(super) fn draw(
        rounds: &[Vec<Counts>],
        steps: usize,
        axis: Axis,
        (columns, rows): (usize, usize),
    ) -> Dots {
        let mut dots = Dots {
            columns,
            rows,
            cells: vec![0; columns * rows],
        };
        for (step, counts) in rounds.iter().flatten().enumerate() {
            // all dots of this step from left to right, at least one
            let at = |step: usize| step * 2 * columns / steps.max(1);
            let (from, to) = (at(step), at(step + 1).max(at(step) + 1));
            for &(class, count) in counts {
                let [low, high] = bounds_us(class).map(|us| (axis.share(us) * (4 * rows) as f64) as usize);
                let (wide, tall) = (to - from, (high - low).max(1));
                // few reads are few dots, and not always in the same column
                let shift = step * 7 + usize::from(class) * 3;
                for n in 0..(wide * tall).min(count as usize) {
                    let at = (shift + n) % (wide * tall);
                    let y = (4 * rows - 1).saturating_sub(low + at / wide);
                    dots.set(from + at % wide, y);
                }
            }
        }
        dots
    }

    fn set(&mut self, x: usize, y: usize) {
        let (column, row) = (x / 2, y / 4);
        if column < self.columns && row < self.rows {
            self.cells[row * self.columns + column] |= BRAILLE[x % 2][y % 4];
        }
    }

    /// The characters of a row, as bits.
    pub(super) fn row(&self, row: usize) -> &[u32] {
        &self.cells[row * self.columns..(row + 1) * self.columns]
    }
}

/// The character with these dots; a space where there are none.
pub(super) fn braille(bits: u32) -> char {
    match bits {
        0 => ' ',
        _ => char::from_u32(0x2800 + bits).unwrap_or(' '),
    }
}

/// The time axis below: seconds, for this number of steps in this number of characters.
pub(super) fn seconds(steps: usize, columns: usize) -> String {
    let per_second = columns as f64 * 10.0 / steps.max(1) as f64;
    let apart = [1, 2, 5, 10, 20, 50, 100, 200];
    let apart = apart
        .into_iter()
        .find(|&s| f64::from(s) * per_second >= 8.0)
        .unwrap_or(500);
    let mut ruler = String::new();
    for s in (0..).map(|n| n * apart) {
        let at = (f64::from(s) * per_second) as usize;
        let label = format!("└{s} s");
        if at + label.chars().count() > columns {
            break;
        }
        ruler += &"─".repeat(at.saturating_sub(ruler.chars().count()));
        ruler += &label;
    }
    let rest = columns.saturating_sub(ruler.chars().count());
    ruler + &"─".repeat(rest)
}
