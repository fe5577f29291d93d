//! The explanation of the screen's words, shown in its place: the key `?`.

use super::figures::Figures;
use super::screen::{BOLD, heading};
use millpond::internal::quantity::micros;
use ratatui::text::{Line, Span};

/// A word of the screen and its meaning. A line each; the screen has 24, and 80 columns.
const WORDS: [(&str, &str); 20] = [
    (
        "# act",
        "clean pages that were used again; = inact: used once, evicted first",
    ),
    ("D dirty", "changed, not written yet; w wback: being written"),
    (
        "A anon",
        "pages of regions; r load: being read; . free: nothing in them",
    ),
    (
        "unwritten",
        "dirty or being written: above `background` writing starts,",
    ),
    (
        "",
        "above `limit` writers pause. second chance: dirty when scanned",
    ),
    (
        "per s",
        "pages: faults missed, refaults missed after they were evicted, ahead",
    ),
    (
        "",
        "read before they were asked for, dirtied, looked at (scan), freed",
    ),
    (
        "hits",
        "the share of requests that memory served; and would more help?",
    ),
    (
        "1 min",
        "p99 of reads, bytes read, written: each bar relative to the largest",
    ),
    (
        "p50 p99",
        "half, and 99 of 100, reads that callers waited for took no longer;",
    ),
    (
        "",
        "red: longer than the goal. transit: writes on their way; errs: failed",
    ),
    (
        "WAITS",
        "now: at this moment; ms/s: ms of each second, all threads together",
    ),
    (
        "",
        "held back for reads: not an error, this keeps reads within their goal",
    ),
    (
        "refaults",
        "of a file, since it was opened; hits: of the interval",
    ),
    (
        "wants",
        "memory that would have kept nine in ten of those that came back",
    ),
    (
        "evicted",
        "a page's age when it was evicted, and `back`: when it came back",
    ),
    (
        "keys",
        "q quit  s sort files otherwise  space pause  n next cache",
    ),
    ("", "c list of caches  + - interval  ? this"),
    ("more", "millpond inspect limits: why each limit is what it is;"),
    (
        "",
        "millpond stat --files: which file needs memory; docs/WATCH.md",
    ),
];

/// The lines of the help.
pub(super) fn lines(figures: &Figures, width: usize, height: usize) -> Vec<Line<'static>> {
    let mut lines = vec![heading(
        "millpond top: what the screen says      ? or esc goes back".into(),
        width,
    )];
    lines.extend(WORDS.iter().map(|(word, what)| row(word, what)));
    if let Some((goal, source)) = figures.reads.goal_ns.zip(figures.reads.goal_source.as_ref()) {
        let text = format!("for reads {}: {source}", micros(goal as f64 / 1e3));
        // As much as fits; a larger screen has all of it.
        let room = height.saturating_sub(lines.len());
        let folded = folded(&text, width - 11);
        let named = folded.iter().enumerate().take(room);
        lines.extend(named.map(|(n, text)| row(if n == 0 { "goal" } else { "" }, text)));
    }
    lines
}

fn row(word: &str, what: &str) -> Line<'static> {
    Line::from(vec![
        Span::styled(format!("{word:<10} "), BOLD),
        Span::raw(what.to_owned()),
    ])
}

/// Wraps a text into lines of at most `width` characters.
fn folded(text: &str, width: usize) -> Vec<String> {
    let mut lines: Vec<String> = Vec::new();
    for word in text.split(' ') {
        match lines.last_mut() {
            Some(line) if line.chars().count() + 1 + word.chars().count() <= width => {
                line.push(' ');
                line.push_str(word);
            }
            _ => lines.push(word.into()),
        }
    }
    lines
}
