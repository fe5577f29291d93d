//! The demo as a drawing: each side's reads over the time of its rounds, on one axis of latencies.
//!
//! The drawing stands alone, in a README as in a page: it has its own colours, for light and dark, and its own ground, so
//! that it can be read on any. Its text is large enough for a telephone.

use super::answer::Tail;
use super::{Demo, Round, Side, median_of};
use crate::measure::heat::class_us;
use crate::report::verdict::{letter, time};
use maud::html;
use millpond::internal::quantity;

const WIDTH: f64 = 720.0;
const HEIGHT: f64 = 434.0;
const LEFT: f64 = 74.0;
const GAP: f64 = 26.0;
const PANEL: f64 = (WIDTH - LEFT - GAP - 16.0) / 2.0;
const TOP: f64 = 112.0;
const BOTTOM: f64 = 350.0;
/// Room above and below the reads, as a part of a decade.
const MARGIN: f64 = 0.08;

/// Neither `<` nor `&` may occur here: it is XML.
const STYLE: &str = "
.demo { font-family: system-ui, sans-serif; --ground: #ffffff; --ink: #1b1f24; --soft: #59636e; --rule: #d8dee4;
  --kernel: #c04e00; --millpond: #0068a8; }
@media (prefers-color-scheme: dark) { .demo { --ground: #14171c; --ink: #e8ebee; --soft: #9aa4af; --rule: #343b44;
  --kernel: #ff8c3a; --millpond: #5ab8f5; } }
.demo rect { fill: var(--ground); } .demo .rule { stroke: var(--rule); stroke-width: 1; }
.demo text { fill: var(--soft); font-size: 16px; } .demo .head { fill: var(--ink); font-size: 22px; font-weight: 600; }
.demo .name { font-size: 20px; font-weight: 600; } .demo .worst { fill: var(--ink); font-size: 17px; }
.demo text.kernel { fill: var(--kernel); } .demo text.millpond { fill: var(--millpond); }
.demo path { fill: none; stroke-width: 3.4; stroke-linecap: round; }
.demo path.kernel { stroke: var(--kernel); } .demo path.millpond { stroke: var(--millpond); }
.demo .few { stroke-opacity: .6; } .demo .some { stroke-opacity: .8; }
";

/// The minimum number of reads of a dot: the class of its stroke.
const SHADES: [(u32, &str); 3] = [(100, "many"), (10, "some"), (1, "few")];

/// The least and the greatest latency of all rounds, as logarithms, with some room.
fn span(demo: &Demo) -> Option<(f64, f64)> {
    let counts = demo
        .rounds
        .iter()
        .flatten()
        .flat_map(|round| round.reads.iter().flatten());
    let logs = counts.map(|&(class, _)| class_us(class).log10());
    let (least, greatest) = logs.fold((f64::MAX, f64::MIN), |(least, greatest), v| {
        (least.min(v), greatest.max(v))
    });
    // a decade at least: what differs by less looks alike
    (least <= greatest).then(|| (least - MARGIN, greatest.max(least + 1.0) + MARGIN))
}

/// The drawing.
pub(super) fn draw(demo: &Demo) -> String {
    let (least, greatest) = span(demo).unwrap_or((0.0, 1.0));
    let steps = demo
        .rounds
        .iter()
        .map(|rounds| steps(rounds))
        .max()
        .unwrap_or(0)
        .max(1) as f64;
    let at_x = |left: f64, step: f64| left + step / steps * PANEL;
    let at_y = |log: f64| BOTTOM - (log - least) / (greatest - least) * (BOTTOM - TOP);
    let decades =
        (least.ceil() as i32..=greatest.floor() as i32).map(|decade| (at_y(decade.into()), tick(decade)));
    let decades: Vec<_> = decades.collect();
    let panels = Side::BOTH.map(|side| (side, LEFT + side as usize as f64 * (PANEL + GAP)));
    let drawing = html! {
        rect width=(WIDTH) height=(HEIGHT) rx="8" {}
        text class="head" x="18" y="32" { "How long each read waits while files are written" }
        @for (side, left) in panels {
            @let class = class(side);
            @let rounds = &demo.rounds[side as usize];
            text class=(format!("name {class}")) x=(left) y="66" { (title(side)) }
            text class="worst" x=(left) y="92" { (worst(demo, side)) }
            @for (y, text) in &decades {
                line class="rule" x1=(left) x2=(left + PANEL) y1=(px(*y)) y2=(px(*y)) {}
                @if side == Side::Kernel {
                    text x=(LEFT - 8.0) y=(px(y + 5.5)) text-anchor="end" { (text) }
                }
            }
            @for step in ends(rounds) {
                line class="rule" x1=(px(at_x(left, step))) x2=(px(at_x(left, step))) y1=(TOP) y2=(BOTTOM) {}
            }
            @for (step, text) in seconds(steps) {
                text x=(px(at_x(left, step))) y=(BOTTOM + 20.0) text-anchor="middle" { (text) }
            }
            @for (shade, d) in dots(rounds, |step| at_x(left, step), at_y) {
                path class=(format!("{class} {shade}")) d=(d) {}
            }
        }
        @for n in 0..2 {
            text x="18" y=(BOTTOM + 48.0 + 22.0 * f64::from(n)) { (facts(demo)[n as usize]) }
        }
    };
    format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" class=\"demo\" viewBox=\"0 0 {WIDTH} {HEIGHT}\" role=\"img\" \
         aria-label=\"{}\"><style>{STYLE}</style>{}</svg>\n",
        about(demo),
        drawing.into_string()
    )
}

/// A power of ten of microseconds.
fn tick(decade: i32) -> String {
    let ms = 10_f64.powi(decade - 3);
    format!("{} ms", quantity::number_tick(ms))
}

fn class(side: Side) -> &'static str {
    match side {
        Side::Kernel => "kernel",
        Side::Millpond => "millpond",
    }
}

fn title(side: Side) -> &'static str {
    match side {
        Side::Kernel => "Kernel's page cache",
        Side::Millpond => "Millpond",
    }
}

/// The tail, beneath the name.
fn worst(demo: &Demo, side: Side) -> String {
    let rounds = &demo.rounds[side as usize];
    let tail = Tail::of(&demo.rounds);
    let slowest = time(median_of(rounds, |run| run.slowest_us));
    format!(
        "slowest {slowest}, {} {}",
        tail.name,
        time(median_of(rounds, tail.figure))
    )
}

/// The length of a side's rounds in tenths of a second.
fn steps(rounds: &[Round]) -> usize {
    rounds.iter().map(|round| round.reads.len()).sum()
}

/// The borders between rounds.
fn ends(rounds: &[Round]) -> Vec<f64> {
    let ends = (1..rounds.len()).map(|n| steps(&rounds[..n]) as f64);
    ends.collect()
}

/// Whole seconds, not too many of them, in tenths of a second.
fn seconds(steps: f64) -> Vec<(f64, String)> {
    let apart = [1.0, 2.0, 5.0, 10.0, 20.0, 50.0, 100.0];
    let apart = apart
        .into_iter()
        .find(|s| steps / 10.0 / s <= 6.0)
        .unwrap_or(200.0);
    let ticks = (0..)
        .map(|n| f64::from(n) * apart)
        .take_while(|s| s * 10.0 <= steps);
    ticks.map(|s| (s * 10.0, format!("{s:.0} s"))).collect()
}

/// The dots of a side, a path for each shade.
fn dots(
    rounds: &[Round],
    at_x: impl Fn(f64) -> f64,
    at_y: impl Fn(f64) -> f64,
) -> Vec<(&'static str, String)> {
    let mut paths = SHADES.map(|(_, shade)| (shade, String::new()));
    let mut begin = 0;
    for round in rounds {
        for (step, counts) in round.reads.iter().enumerate() {
            let x = at_x((begin + step) as f64 + 0.5);
            for &(class, count) in counts {
                let shade = SHADES.iter().position(|&(least, _)| count >= least).unwrap_or(0);
                paths[shade].1 += &format!("M{} {}h0", px(x), px(at_y(class_us(class).log10())));
            }
        }
        begin += round.reads.len();
    }
    paths.into_iter().filter(|(_, d)| !d.is_empty()).rev().collect()
}

/// Two lines of how it was made.
fn facts(demo: &Demo) -> [String; 2] {
    let plan = &demo.plan;
    let memory = match plan.kernel_group.is_some() {
        true => format!("{} of memory each", quantity::size(plan.memory)),
        false => format!(
            "memory: all for the kernel, {} for Millpond",
            quantity::size(plan.memory)
        ),
    };
    [
        format!(
            "Every read of 4 KiB is in a dot. Same disk, same writers: {} files of {},",
            plan.files,
            quantity::size(plan.file)
        ),
        format!(
            "{} rounds of each side, in turn; figures are medians. {}.",
            demo.rounds[0].len(),
            letter(&memory, char::to_uppercase)
        ),
    ]
}

/// The picture in words, for screen readers. They are ours: nothing in them is to be escaped but the apostrophe's neighbours.
fn about(demo: &Demo) -> String {
    let sides = Side::BOTH.map(|side| format!("{}: {}", title(side), worst(demo, side)));
    format!(
        "How long each read waits while files are written, on a logarithmic axis. {}.",
        sides.join(". ")
    )
}

fn px(v: f64) -> String {
    let text = format!("{v:.1}");
    text.strip_suffix(".0").unwrap_or(&text).to_owned()
}
