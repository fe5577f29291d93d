//! A reader that comes to a writer and goes again, in virtual time: a table by seconds, and a plot.
//!
//! ```text
//! cargo run --release -p millpond-lab --example mixed_load [FILE.svg]
//! ```
//!
//! Exact and repeatable: the same build prints the same table on every machine.

#![allow(
    clippy::print_stdout,
    clippy::unwrap_used,
    reason = "a program that prints a table"
)]

use millpond_core::admission::AdmissionOptions;
use millpond_core::admission::goal::GoalOptions;
use millpond_core::units::{Instant, Nanos, PageCount};
use millpond_sim::disk::{HddParameters, Model, SsdParameters};
use millpond_sim::mixed_load::{MixedLoad, Stretch};
use std::fmt::Write;

fn main() {
    let hdd = Model::hdd(HddParameters::default()).unwrap();
    let ssd = Model::ssd(SsdParameters::default()).unwrap();
    let mut svg = String::from(
        "<svg xmlns='http://www.w3.org/2000/svg' viewBox='0 0 900 760' font-family='sans-serif' font-size='13'>\n\
         <rect width='900' height='760' fill='white'/>\n",
    );
    for (n, (name, model, goal)) in [("hdd", hdd, 60_000), ("sata-ssd", ssd, 2_000)]
        .into_iter()
        .enumerate()
    {
        let load = MixedLoad {
            model,
            admission: AdmissionOptions::Goal(GoalOptions {
                read_latency: Nanos::from_micros(goal),
                ..GoalOptions::default()
            }),
            frames: PageCount(65_536),
            comes: at(8),
            goes: at(16),
            think: Nanos::ZERO,
            ends: at(24),
            stretch: Nanos::from_millis(100),
        };
        let all = load.play().unwrap();
        table(name, goal, &all);
        panel(&mut svg, n as f64 * 380.0, name, goal, &all);
    }
    svg += "</svg>\n";
    if let Some(path) = std::env::args().nth(1) {
        std::fs::write(path, svg).unwrap();
    }
}

fn at(seconds: u64) -> Instant {
    Instant(0) + Nanos::from_secs(seconds)
}

fn table(name: &str, goal_us: u64, all: &[Stretch]) {
    println!(
        "{name}, goal {} ms; the reader is there from 8 s to 16 s",
        goal_us as f64 / 1e3
    );
    println!("| second | MB written | reads | p50 ms | slowest ms | limit KiB |");
    println!("|---|---|---|---|---|---|");
    for (n, second) in all.chunks(10).enumerate() {
        let written: u64 = second.iter().map(|s| s.written.0).sum();
        let mut took: Vec<u64> = second
            .iter()
            .flat_map(|s| &s.reads)
            .map(|(_, took)| took.0)
            .collect();
        took.sort_unstable();
        let ms = |at: usize| {
            took.get(at)
                .map_or(String::new(), |&t| format!("{:.2}", t as f64 / 1e6))
        };
        println!(
            "| {n} | {:.1} | {} | {} | {} | {} |",
            written as f64 / 1e6,
            took.len(),
            ms(took.len() / 2),
            ms(took.len().saturating_sub(1)),
            second[9].limit.0 >> 10
        );
    }
}

/// MB/s by stretches as a line, the slowest read of each as a dot, the goal as a dashed line.
fn panel(svg: &mut String, top: f64, name: &str, goal_us: u64, all: &[Stretch]) {
    let x = |t: Instant| 60.0 + t.0 as f64 / 24e9 * 780.0;
    let most = all.iter().map(|s| s.written.0).max().unwrap() as f64;
    let y = |share: f64| top + 340.0 - share.min(1.05) * 280.0;
    let goal = goal_us as f64 * 1e3;
    let dots = all
        .iter()
        .filter_map(|s| s.reads.iter().max_by_key(|(_, took)| took.0));
    let _ = writeln!(
        svg,
        "<text x='60' y='{}'>{name}: MB/s written in 100 ms (line, top = {:.0} MB/s), slowest read of each 100 ms (dots, dashed = the goal of {} ms)</text>",
        top + 24.0,
        most / 1e5,
        goal_us as f64 / 1e3
    );
    let _ = writeln!(
        svg,
        "<path d='M60 {0} H840 M60 {0} V{1}' stroke='black' fill='none'/>\n<path d='M60 {2} H840' stroke='#c33' \
         stroke-dasharray='6 4'/>",
        y(0.0),
        y(1.05),
        y(0.5)
    );
    for &(began, took) in dots {
        let share = took.0 as f64 / goal / 2.0;
        let _ = writeln!(
            svg,
            "<circle cx='{:.1}' cy='{:.1}' r='2' fill='#c33'/>",
            x(began),
            y(share)
        );
    }
    let line: Vec<String> = all
        .iter()
        .map(|s| format!("{:.1} {:.1}", x(s.at), y(s.written.0 as f64 / most)))
        .collect();
    let _ = writeln!(
        svg,
        "<path d='M{}' stroke='#246' stroke-width='1.2' fill='none'/>",
        line.join(" L")
    );
    for second in (0..=24).step_by(4) {
        let _ = writeln!(
            svg,
            "<text x='{}' y='{}' text-anchor='middle'>{second} s</text>",
            x(at(second)),
            y(0.0) + 18.0
        );
    }
}
