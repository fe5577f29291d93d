//! A table as it is printed: medians, and below them the quarters.

use crate::figures::{Spread, digits};
use comfy_table::{Cell, CellAlignment, Table, presets};

/// Rows with a name and as many cells as there are columns.
pub struct Rows {
    table: Table,
}

impl Rows {
    /// Without rows yet. The first column is named `first`.
    pub fn new<'a>(first: &str, columns: impl IntoIterator<Item = &'a str>) -> Rows {
        let mut table = Table::new();
        table.load_style(presets::NOTHING);
        let columns = columns.into_iter().map(right);
        table.set_header([Cell::new(first)].into_iter().chain(columns));
        Rows { table }
    }

    /// A row of medians, with a line of quarters below. `None` where there is no figure.
    pub fn add(&mut self, name: &str, cells: &[Option<Spread>]) {
        let medians = cells.iter().map(|cell| match cell {
            Some(spread) => right(&digits(spread.median)),
            None => right("-"),
        });
        self.table.add_row([Cell::new(name)].into_iter().chain(medians));
        let quarters = cells.iter().map(|cell| match cell {
            Some(spread) => right(&format!("{}..{}", digits(spread.low), digits(spread.high))),
            None => right(""),
        });
        self.table.add_row([Cell::new("")].into_iter().chain(quarters));
    }

    /// The table, without spaces at the ends of its lines.
    pub fn text(&self) -> String {
        let lines = self.table.to_string();
        lines
            .lines()
            .map(|line| format!("{}\n", line.trim_end()))
            .collect()
    }
}

fn right(text: &str) -> Cell {
    Cell::new(text).set_alignment(CellAlignment::Right)
}
