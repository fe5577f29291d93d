//! The last minute of a cache, drawn in one line: how long reads took, what was read and written.
//!
//! Each bar is relative to the largest of its kind in the minute; the present is at the right. The time before the
//! first sample, or while the screen was paused, is blank.

use super::figures::Figures;
use std::collections::VecDeque;

/// The time span kept and drawn.
const SPAN_S: f64 = 60.0;
/// The number of samples kept: ten a second is finer than a screen's columns.
const LOOKS_MAX: usize = 600;
/// From an eighth of the largest to all of it; zero is a dot.
const BARS: [char; 8] = ['▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];

/// One sampled interval.
#[derive(Clone, Copy, Debug)]
struct Look {
    from_s: f64,
    to_s: f64,
    values: [f64; 3],
}

/// The samples of the last minute.
#[derive(Clone, Debug, Default)]
pub(super) struct History {
    socket: String,
    looks: VecDeque<Look>,
}

impl History {
    /// Adds a sample. Another cache starts it anew.
    pub(super) fn add(&mut self, figures: &Figures) {
        let is_other = self.socket != figures.socket;
        let is_younger = self.looks.back().is_some_and(|last| last.to_s > figures.age_s);
        if is_other || is_younger {
            self.looks.clear();
            self.socket.clone_from(&figures.socket);
        }
        let rates = &figures.rates;
        self.looks.push_back(Look {
            from_s: figures.age_s - figures.interval_s,
            to_s: figures.age_s,
            values: [
                figures.reads.p99_ns.unwrap_or(0) as f64,
                rates.read_bytes,
                rates.write_bytes,
            ],
        });
        let old = |look: &Look| look.to_s < figures.age_s - SPAN_S;
        while self.looks.len() > LOOKS_MAX || self.looks.front().is_some_and(old) {
            self.looks.pop_front();
        }
    }

    /// The line for a screen of this width; `None` before there is something to compare.
    pub(super) fn line(&self, width: usize) -> Option<String> {
        const NAMES: [&str; 3] = ["1 min: p99 ", "  read ", "  written "];
        let names: usize = NAMES.iter().map(|name| name.len()).sum();
        let cells = (width.saturating_sub(names) / NAMES.len()).min(60);
        let now_s = self.looks.back().filter(|_| self.looks.len() > 1)?.to_s;
        let bars = NAMES
            .iter()
            .enumerate()
            .map(|(n, name)| format!("{name}{}", self.bars(n, now_s, cells)));
        Some(bars.collect())
    }

    fn bars(&self, n: usize, now_s: f64, cells: usize) -> String {
        let cell_s = SPAN_S / cells as f64;
        let values: Vec<Option<f64>> = (0..cells)
            .map(|cell| {
                let to_s = now_s - cell_s * (cells - 1 - cell) as f64;
                let within = |look: &&Look| look.to_s > to_s - cell_s && look.from_s < to_s;
                let values = self.looks.iter().filter(within).map(|look| look.values[n]);
                values.reduce(f64::max)
            })
            .collect();
        let most = values.iter().flatten().copied().fold(0.0, f64::max);
        let bar = |value: f64| match value > 0.0 {
            true => BARS[((value / most * 8.0).ceil() as usize).clamp(1, 8) - 1],
            false => '·',
        };
        values.into_iter().map(|value| value.map_or(' ', bar)).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::top::tests::{after, before};

    fn history(values: &[(f64, f64)]) -> History {
        let mut figures = Figures::of(&before(), &after());
        figures.interval_s = 1.0;
        let mut history = History::default();
        for &(age_s, read_bytes) in values {
            (figures.age_s, figures.rates.read_bytes) = (age_s, read_bytes);
            history.add(&figures);
        }
        history
    }

    fn read(history: &History) -> String {
        let line = history.line(80).unwrap();
        let (_, rest) = line.split_once("  read ").unwrap();
        rest.split_once("  written ").unwrap().0.to_owned()
    }

    #[test]
    fn each_bar_is_against_the_largest_of_the_minute_and_the_present_is_at_the_right() {
        assert_eq!(history(&[(100.0, 5.0)]).line(80), None);
        let steady: Vec<_> = (0..=60).map(|s| (100.0 + f64::from(s), f64::from(s))).collect();
        let bars = read(&history(&steady));
        assert!(bars.starts_with('▁') && bars.ends_with('█'), "{bars}");
        assert!(!bars.contains(' '), "{bars}");
        // A minute later it is empty; half a minute of silence is blank.
        let later = read(&history(&[(100.0, 9.0), (170.0, 1.0), (200.0, 0.0)]));
        assert!(later.starts_with(' ') || later.starts_with('█'), "{later}");
        assert!(later.trim_end().ends_with('·') && later.contains("  "), "{later}");
        for width in [80, 100, 300] {
            assert!(history(&steady).line(width).unwrap().chars().count() <= width);
        }
    }

    #[test]
    fn of_another_cache_it_begins_anew() {
        let mut figures = Figures::of(&before(), &after());
        let mut history = history(&[(100.0, 1.0), (101.0, 1.0)]);
        assert!(history.line(80).is_some());
        figures.socket = "/another.sock".into();
        history.add(&figures);
        assert_eq!(history.line(80), None);
    }
}
