//! The charts of docs/experiments/gorman2011.md: what reclaim wrote and what it looked at while fs_mark ran, patch by patch,
//! with the post's own figures dashed beside ours, as files gorman2011-written.svg and gorman2011-scanned.svg.
//!
//! ```text
//! cargo run --release -p millpond-lab --example reclaim_plot -- FOLDER
//! ```

#![allow(clippy::unwrap_used, reason = "a program that draws")]

use millpond_lab::experiment::gorman2011::{self, Options};
use millpond_lab::report::{html, svg};
use std::fs;

fn main() {
    let folder = std::env::args().nth(1).expect("the folder of the charts");
    let options = Options {
        workloads: vec![gorman2011::FS_MARK.into()],
        ..Options::default()
    };
    let report = gorman2011::run(&options, &mut ()).unwrap();
    for (chart, name) in report.charts.iter().zip(["written", "scanned"]) {
        let drawing = svg::standalone(chart, html::STYLE).unwrap();
        fs::write(format!("{folder}/gorman2011-{name}.svg"), drawing).unwrap();
    }
}
