//! The live screen: a panel for each side, on one axis, and below it what its writers do.
//!
//! ```text
//!   title             where, how fast the disk is, how far it has come
//!   what is done      in a sentence
//!   KERNEL …          MILLPOND …
//!   reads over time   reads over time       as many rows as there is room for
//!   seconds
//!   percentiles, slowest, written, in transit
//!   keys
//! ```

use super::dots::{Axis, Dots, braille, seconds};
use super::show::{Half, Show};
use crate::top::screen::{BOLD, DIM, cut, ends, heading};
use millpond::internal::quantity::{number, size};
use millpond_core::units::Bytes;
use millpond_lab::experiment::axboe2016::demo::Side;
use millpond_lab::report::verdict::time as shown;
use ratatui::style::{Color, Modifier, Style};
use ratatui::text::{Line, Span};

/// The width of the axis' labels.
const LABELS: usize = 7;
/// The columns between the panels.
const GAP: usize = 2;
/// The lines outside the panels.
const OTHER_LINES: usize = 11;

/// The colour of a side: orange and blue, as in the report, which all kinds of colour vision can distinguish.
pub(super) const fn colour(side: Side) -> Color {
    match side {
        Side::Kernel => Color::Yellow,
        Side::Millpond => Color::Cyan,
    }
}

/// The lines of a screen of this size.
pub(super) fn lines(show: &Show, width: u16, height: u16) -> Vec<Line<'static>> {
    let (width, height) = (usize::from(width), usize::from(height));
    let mut lines = vec![
        title(show, width),
        Line::from(task(show)),
        Line::from(doing(show)),
    ];
    let panel = (width - LABELS - GAP) / 2;
    lines.push(both(panel, Side::BOTH.map(|side| vec![head(show, side, panel)])));
    let rows = height.saturating_sub(OTHER_LINES).max(1);
    lines.extend(panels(show, panel, rows));
    let halves = Side::BOTH.map(|side| figures(show, side, panel));
    for n in 0..halves[0].len() {
        lines.push(both(
            panel,
            [&halves[0], &halves[1]].map(|half| vec![half[n].clone()]),
        ));
    }
    lines.resize(height - 1, Line::default());
    lines.push(heading(keys(show), width));
    lines.into_iter().map(|line| cut(line, width)).collect()
}

fn title(show: &Show, width: usize) -> Line<'static> {
    let mut left = vec![Span::styled("millpond demo  ", BOLD)];
    let elapsed = show.elapsed().as_secs();
    let right = match &show.plan {
        Some(plan) => {
            left.push(Span::raw(format!(
                "{}, {} MB/s",
                plan.place,
                number((plan.rate / 1e6).round())
            )));
            format!("{elapsed} s of about {} s", plan.seconds)
        }
        None => format!("{elapsed} s"),
    };
    ends(left, right, width)
}

fn task(show: &Show) -> String {
    if let Some(others) = &show.others {
        return format!("Busy: others use {others}.");
    }
    match &show.plan {
        Some(plan) => format!(
            "{} files of {} are written and synced; one reader reads 4 KiB at a time.",
            plan.files,
            size(plan.file)
        ),
        None => "Files are written and synced; one reader reads 4 KiB at a time.".into(),
    }
}

fn doing(show: &Show) -> String {
    let what = match (&show.now, &show.preparing, &show.plan) {
        _ if show.is_stopping => "stopping and removing what was made".into(),
        (Some((round, side, doing)), _, Some(plan)) => {
            let rounds = plan.rounds.max(round + 1);
            let doing = if doing.is_empty() { "starting" } else { doing };
            format!("round {} of {rounds}, on {}: {doing}", round + 1, side.name())
        }
        (None, Some((step, detail)), _) if detail.is_empty() => step.clone(),
        (None, Some((step, detail)), _) => format!("{step}: {detail}"),
        (None, None, Some(_)) => "checking and removing what was written".into(),
        _ => "starting".into(),
    };
    format!("How long does each read wait?  Now: {what}.")
}

/// Two panels' parts side by side, after space for the labels.
fn both(panel: usize, parts: [Vec<Span<'static>>; 2]) -> Line<'static> {
    let mut line = Line::from(" ".repeat(LABELS));
    for (n, part) in parts.into_iter().enumerate() {
        let part = cut(Line::from(part), panel);
        let rest = panel - part.width();
        part.spans.into_iter().for_each(|span| line.push_span(span));
        if n == 0 {
            line.push_span(Span::raw(" ".repeat(rest + GAP)));
        }
    }
    line
}

fn head(show: &Show, side: Side, panel: usize) -> Span<'static> {
    let name = match side {
        Side::Kernel => "KERNEL'S PAGE CACHE",
        Side::Millpond => "MILLPOND",
    };
    let memory = show
        .plan
        .as_ref()
        .map_or(String::new(), |plan| format!(", {}", plan.memory_of(side)));
    let is_at_work = show.now.as_ref().is_some_and(|now| now.1 == side);
    let style = Style::new().fg(colour(side)).add_modifier(Modifier::REVERSED);
    let mark = if is_at_work { "*" } else { " " };
    Span::styled(format!("{:panel$}", format!("{mark}{name}{memory}")), style)
}

fn panels(show: &Show, panel: usize, rows: usize) -> Vec<Line<'static>> {
    let steps = show.steps();
    let axis = Axis::of(show.halves.iter().flat_map(|half| &half.rounds));
    let dots = Side::BOTH.map(|side| {
        let rounds = &show.halves[side as usize].rounds;
        Dots::draw(rounds, steps, axis, (panel, rows))
    });
    let mut lines = Vec::new();
    for (row, label) in axis.labels(rows).into_iter().enumerate() {
        let mut line = Line::from(Span::styled(
            format!("{:>width$} ", label.unwrap_or_default(), width = LABELS - 1),
            DIM,
        ));
        for side in Side::BOTH {
            let cells = dots[side as usize].row(row).iter();
            let text: String = cells.map(|&bits| braille(bits)).collect();
            line.push_span(Span::styled(text, Style::new().fg(colour(side))));
            if side == Side::Kernel {
                line.push_span(Span::raw(" ".repeat(GAP)));
            }
        }
        lines.push(line);
    }
    let ruler = seconds(steps, panel);
    let part = || vec![Span::styled(ruler.clone(), DIM)];
    lines.push(both(panel, [part(), part()]));
    lines
}

/// The figures below a panel; the same number of lines for both.
fn figures(show: &Show, side: Side, panel: usize) -> [Span<'static>; 4] {
    let half = &show.halves[side as usize];
    let (count, [p50, p99]) = half.reads([0.5, 0.99]);
    let time = |us: Option<f64>| us.map_or("-".into(), shown);
    let slowest = time(half.slowest_us());
    let is_open = show.now.as_ref().is_some_and(|now| now.1 == side);
    [
        Span::raw(format!("{count} reads, p50 {}, p99 {}", time(p50), time(p99))),
        Span::styled(format!("slowest {slowest}"), BOLD),
        Span::raw(written(half, panel, is_open)),
        Span::raw(match half.live.in_transit {
            Some(bytes) if is_open => format!("in transit to the disk {}", size(Bytes(bytes))),
            None if is_open => "starting".into(),
            _ => "waiting for its turn".into(),
        }),
    ]
}

fn written(half: &Half, panel: usize, is_open: bool) -> String {
    let (written, total) = (half.live.written, half.live.total);
    if total == 0 || !is_open {
        return match half.rounds.len() {
            0 => String::new(),
            1 => "1 round done".into(),
            n => format!("{n} rounds done"),
        };
    }
    let text = format!("written {} of {} ", size(Bytes(written)), size(Bytes(total)));
    let room = panel.saturating_sub(text.chars().count() + 2).min(30);
    let full = (u128::from(written) * room as u128 / u128::from(total)) as usize;
    format!(
        "{text}[{}{}]",
        "#".repeat(full.min(room)),
        ".".repeat(room - full.min(room))
    )
}

fn keys(show: &Show) -> String {
    match show.is_stopping {
        true => "stopping; Ctrl-C once more leaves at once, and what was made stays".into(),
        false => "q or Ctrl-C  stop and remove everything".into(),
    }
}
