//! What the words of the screen mean, in place of it: the key `?`.

use super::figures::Figures;
use super::screen::{BOLD, heading};
use millpond::internal::quantity::micros;
use ratatui::text::{Line, Span};

/// A word of the screen and what it says. A line each; the screen has 24, and 80 columns.
const WORDS: [(&str, &str); 20] = [
    (
        "# act",
        "clean pages that were used again; = inact: used once, next to go",
    ),
    ("D dirty", "changed, not written yet; w wback: being written"),
    (
        "A anon",
        "pages of regions; r load: being read; . free: nothing in them",
    ),
    (
        "unwritten",
        "dirty and being written: above `background` they are written,",
    ),
    (
        "",
        "above `limit` writers pause. second chance: reclaim met them dirty",
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
        "of what was asked for, what was in memory; and would more help?",
    ),
    (
        "1 min",
        "p99 of reads, bytes read, written: each bar against the largest",
    ),
    (
        "p50 p99",
        "half, and 99 of 100, reads that a caller waited for took no longer;",
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
        "held back for reads: not a fault, that is how reads keep their goal",
    ),
    (
        "refaults",
        "of a file, since it was opened; hits: of the interval",
    ),
    (
        "wants",
        "so much more memory would have kept nine in ten that came back",
    ),
    (
        "evicted",
        "how old a page was when it was evicted, and `back` when it came back",
    ),
    (
        "keys",
        "q quit  s other order of files  space pause  n next cache",
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
        // As far as there are lines; a larger screen has all of it.
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

/// In lines of so many characters at most.
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
