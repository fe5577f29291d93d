//! The charts of docs/experiments/dillon2000.md: how many readers waited, and what was written, over ten minutes of news in
//! virtual time, as files dillon2000-load.svg and dillon2000-pageouts.svg.
//!
//! ```text
//! cargo run --release -p millpond-lab --example news_plot -- FOLDER
//! ```

#![allow(clippy::unwrap_used, reason = "a program that draws")]

use millpond_lab::experiment::dillon2000::{self, Options};
use millpond_lab::report::{html, svg};
use std::fs;

fn main() {
    let folder = std::env::args().nth(1).expect("the folder of the charts");
    let options = Options {
        workloads: vec![dillon2000::NEWS.into()],
        ..Options::default()
    };
    let report = dillon2000::run(&options, &mut ()).unwrap();
    for (chart, name) in report.charts.iter().zip(["load", "pageouts"]) {
        let drawing = svg::standalone(chart, html::STYLE).unwrap();
        fs::write(format!("{folder}/dillon2000-{name}.svg"), drawing).unwrap();
    }
}
