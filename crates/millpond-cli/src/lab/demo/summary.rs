//! What stays on the terminal: both sides over one another, a table, the sentence, and what to try next.

use super::dots::{Axis, Dots, braille, seconds};
use super::screen::colour;
use millpond_lab::experiment::axboe2016::demo::{Demo, Modelled, Round, Side, median_of, tails};
use millpond_lab::measure::heat::Counts;
use millpond_lab::report::verdict::time;
use ratatui::style::Color;

/// Lines are no longer than this, however wide the terminal is: longer ones are hard to read.
const WIDTH_MAX: usize = 110;
const WIDTH: usize = 80;
/// Rows of the picture: with all else it fits a terminal of 24 lines.
const ROWS: usize = 9;
const LABELS: usize = 7;
/// The widths of the table's columns after the first.
const WIDTHS: [usize; 6] = [9, 8, 8, 11, 9, 9];

/// Where it is printed.
pub(super) struct Console {
    /// The terminal's width; without one there is no picture either.
    pub(super) columns: Option<u16>,
    pub(super) colours: bool,
    /// The command that starts this program.
    pub(super) command: &'static str,
}

impl Console {
    fn width(&self) -> usize {
        self.columns
            .map_or(WIDTH, |columns| usize::from(columns).clamp(WIDTH, WIDTH_MAX))
    }

    fn coloured(&self, text: &str, colour: Option<Color>) -> String {
        let code = match colour {
            Some(Color::Yellow) => 33,
            Some(Color::Cyan) => 36,
            _ => return text.into(),
        };
        match self.colours && !text.trim().is_empty() {
            true => format!("\u{1b}[{code}m{text}\u{1b}[0m"),
            false => text.into(),
        }
    }
}

/// The picture, the table and the sentence.
pub(super) fn lines(demo: &Demo, console: &Console) -> Vec<String> {
    let mut lines = Vec::new();
    if console.columns.is_some() {
        lines.extend(picture(demo, console));
    }
    lines.extend(table(demo, console));
    lines.push(String::new());
    lines.extend(wrap(&demo.verdict.line, console.width()));
    for note in &demo.notes {
        lines.extend(wrap(&format!("Note: {note}"), console.width()));
    }
    lines.push(String::new());
    lines.extend(wrap(&demo.modelled.verdict.line, console.width()));
    lines
}

fn reads(demo: &Demo, side: Side) -> Vec<Vec<Counts>> {
    demo.rounds[side as usize]
        .iter()
        .map(|round| round.reads.clone())
        .collect()
}

/// The side whose dots are in a character.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Owner {
    None,
    One(Side),
    Both,
}

fn picture(demo: &Demo, console: &Console) -> Vec<String> {
    let reads = Side::BOTH.map(|side| reads(demo, side));
    let steps = reads
        .iter()
        .map(|rounds| rounds.iter().map(Vec::len).sum())
        .max()
        .unwrap_or(1);
    let axis = Axis::of(reads.iter().flatten());
    let columns = console.width() - LABELS;
    let [kernel, millpond] = reads.map(|rounds| Dots::draw(&rounds, steps, axis, (columns, ROWS)));
    let legend = match console.colours {
        true => [
            console.coloured("⣿ the kernel's page cache", Some(colour(Side::Kernel))),
            console.coloured("⣿ Millpond", Some(colour(Side::Millpond))),
            "⣿ both".into(),
        ],
        false => ["x the kernel's page cache", "o Millpond", "8 both"].map(String::from),
    };
    let mut lines = vec![format!("How long each read waited:  {}", legend.join("   "))];
    for (row, label) in axis.labels(ROWS).into_iter().enumerate() {
        let mut line = format!("{:>width$} ", label.unwrap_or_default(), width = LABELS - 1);
        let cells = kernel
            .row(row)
            .iter()
            .zip(millpond.row(row))
            .map(|(&kernel, &millpond)| {
                let owner = match (kernel, millpond) {
                    (0, 0) => Owner::None,
                    (_, 0) => Owner::One(Side::Kernel),
                    (0, _) => Owner::One(Side::Millpond),
                    _ => Owner::Both,
                };
                (owner, cell(owner, kernel | millpond, console.colours))
            });
        let cells: Vec<_> = cells.collect();
        for same in cells.chunk_by(|a, b| a.0 == b.0) {
            let text: String = same.iter().map(|(_, cell)| cell).collect();
            line += &match same[0].0 {
                Owner::One(side) => console.coloured(&text, Some(colour(side))),
                _ => text,
            };
        }
        lines.push(line.trim_end().to_owned());
    }
    lines.push(format!("{:LABELS$}{}", "", seconds(steps, columns)));
    lines
}

/// Without colours each side has its letter.
fn cell(owner: Owner, bits: u32, colours: bool) -> char {
    match owner {
        _ if colours => braille(bits),
        Owner::None => ' ',
        Owner::One(Side::Kernel) => 'x',
        Owner::One(Side::Millpond) => 'o',
        Owner::Both => '8',
    }
}

fn table(demo: &Demo, console: &Console) -> Vec<String> {
    let rounds = demo.rounds[0].len();
    let first = format!("medians of {rounds} rounds");
    let head = [
        &*first,
        "reads/s",
        "p50",
        "p99",
        "1 in 1000",
        "slowest",
        "writers",
    ];
    let row = |cells: [String; 7]| {
        let [name, rest @ ..] = cells;
        let rest: String = rest
            .iter()
            .zip(WIDTHS)
            .map(|(cell, width)| format!("{cell:>width$}"))
            .collect();
        format!("{name:24}{rest}")
    };
    let mut lines = vec![row(head.map(String::from))];
    for side in Side::BOTH {
        let name = format!("{}, {}", side.name(), demo.plan.memory_of(side));
        let line = row(cells(name, &demo.rounds[side as usize]));
        lines.push(console.coloured(&line, Some(colour(side))));
    }
    lines.push(Modelled::heading());
    for side in Side::BOTH {
        let name = Modelled::name(side).to_owned();
        lines.push(row(cells(
            name,
            std::slice::from_ref(&demo.modelled.sides[side as usize]),
        )));
    }
    lines
}

/// Medians of the rounds. There is no percentile of too few reads.
fn cells(name: String, rounds: &[Round]) -> [String; 7] {
    let known = |us: f64| if us > 0.0 { time(us) } else { "-".into() };
    let [p99, p999] = tails(rounds).map(|us| us.map_or("-".into(), known));
    [
        name,
        format!("{:.0}", median_of(rounds, |run| run.reads_per_s)),
        known(median_of(rounds, |run| run.p50_us)),
        p99,
        p999,
        known(median_of(rounds, |run| run.slowest_us)),
        known(median_of(rounds, |run| run.writers_s * 1e6)),
    ]
}

/// A command for each kind of user.
pub(super) fn next(console: &Console) -> Vec<String> {
    let command = console.command;
    vec![
        String::new(),
        "Next, if you".into(),
        "  write a storage engine   cargo run -p millpond --example first".into(),
        format!("  operate a service        {command} mount ./data /mnt/pond --memory 512M"),
        "  use Python               pip install ./crates/millpond-python (docs/PYTHON.md)".into(),
        format!("  work on kernels          {command} lab run axboe2016"),
    ]
}

/// A sentence in lines of this width.
fn wrap(text: &str, width: usize) -> Vec<String> {
    let mut lines = vec![String::new()];
    for word in text.split(' ') {
        let line = lines.last().map_or(0, |line| line.chars().count());
        match lines.last_mut() {
            Some(last) if line == 0 => last.push_str(word),
            Some(last) if line + 1 + word.chars().count() <= width => {
                last.push(' ');
                last.push_str(word);
            }
            _ => lines.push(word.into()),
        }
    }
    lines
}
