//! The frontier of several runs of `lab run axboe2016 --json FILE` together: its tables, and its charts as files.
//!
//! ```text
//! cargo run --release -p millpond-lab --example frontier_plot -- OUT A.jsonl [B.jsonl …]
//! ```
//!
//! Prints the tables, and writes OUT-DEVICE-reads.svg and OUT-DEVICE-p99.svg for each device.

#![allow(
    clippy::print_stdout,
    clippy::unwrap_used,
    reason = "a program that prints a table"
)]

use millpond_lab::experiment::axboe2016::frontier;
use millpond_lab::report::{Metric, html, svg};
use std::fs;

fn main() {
    let mut arguments = std::env::args().skip(1);
    let out = arguments.next().expect("OUT and the files to read");
    let metrics: Vec<Metric> = arguments
        .flat_map(|path| {
            let text = fs::read_to_string(path).unwrap();
            let lines = text.lines().map(|line| serde_json::from_str(line).unwrap());
            lines.collect::<Vec<_>>()
        })
        .collect();
    let (charts, tables) = frontier(&metrics);
    for table in &tables {
        println!("{}\n\n| {} |", table.title, table.head.join(" | "));
        println!("|{}", "---|".repeat(table.head.len()));
        for row in &table.rows {
            let cells: Vec<String> = row
                .cells
                .iter()
                .map(|cell| match cell.spread.is_empty() {
                    true => cell.value.clone(),
                    false => format!("{} ({})", cell.value, cell.spread),
                })
                .collect();
            println!("| {} | {} |", row.label, cells.join(" | "));
        }
        println!();
    }
    for chart in &charts {
        let device = chart.title.rsplit('(').next().unwrap().trim_end_matches(')');
        let what = if chart.title.starts_with("Reads") {
            "reads"
        } else {
            "p99"
        };
        let path = format!("{out}-{device}-{what}.svg");
        fs::write(&path, svg::standalone(chart, html::STYLE).unwrap()).unwrap();
        println!("{path}");
    }
}
