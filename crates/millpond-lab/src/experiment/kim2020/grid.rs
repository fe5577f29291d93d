//! The grid of ebizzy as tables: sizes and rows downwards, skews to the right.

use crate::report::{Cell, Table};
use crate::workload::kim2020::loads::{Ebizzy, Load};
use millpond::internal::quantity::number;

/// Rows of what no policy can do without, and their metrics.
pub(super) const BOUNDS: [(&str, &str); 3] = [
    ("LRU", "swap_ins_per_record_lru_pages"),
    ("most popular kept", "swap_ins_per_record_most_popular_kept_pages"),
    ("optimum", "swap_ins_per_record_optimum_pages"),
];

/// The cells that were run with a number of threads.
pub(super) struct Grid {
    threads: u32,
    sizes: Vec<u64>,
    skews: Vec<u32>,
}

/// A row of each size: its name, and what it has in a cell.
pub(super) struct GridRow<'a>(String, Box<dyn Fn(Ebizzy) -> Option<Cell> + 'a>);

impl<'a> GridRow<'a> {
    pub(super) fn new(name: impl Into<String>, cell: impl Fn(Ebizzy) -> Option<Cell> + 'a) -> GridRow<'a> {
        GridRow(name.into(), Box::new(cell))
    }

    /// A row of numbers.
    pub(super) fn of(name: impl Into<String>, value: impl Fn(Ebizzy) -> Option<f64> + 'a) -> GridRow<'a> {
        GridRow::new(name, move |cell| Some(number(value(cell)?).into()))
    }
}

impl Grid {
    /// `None` if no cell has so many threads.
    pub(super) fn with_threads(threads: u32, loads: &[Load]) -> Option<Grid> {
        let cells = || {
            loads.iter().filter_map(|load| match load {
                Load::Ebizzy(cell) if cell.threads == threads => Some(*cell),
                _ => None,
            })
        };
        let mut sizes: Vec<u64> = cells().map(|cell| cell.mb).collect();
        let mut skews: Vec<u32> = cells().map(|cell| cell.skew_tenths).collect();
        sizes.sort_unstable();
        sizes.dedup();
        skews.sort_unstable();
        skews.dedup();
        (!sizes.is_empty()).then_some(Grid {
            threads,
            sizes,
            skews,
        })
    }

    /// A table of these rows. `place`: where it ran.
    pub(super) fn table(&self, place: &str, what: &str, rows: &[GridRow<'_>]) -> Table {
        let skews = self
            .skews
            .iter()
            .map(|skew| format!("{}.{}", skew / 10, skew % 10));
        let threads = self.threads;
        let title = format!("ebizzy{place}, threads: {threads}, {what}");
        let mut table = Table::new(title, std::iter::once(String::new()).chain(skews));
        for &mb in &self.sizes {
            for GridRow(name, cell) in rows {
                let cells = self.skews.iter().map(|&skew_tenths| {
                    cell(Ebizzy {
                        mb,
                        skew_tenths,
                        threads,
                    })
                    .unwrap_or_default()
                });
                table.push(format!("{mb}M {name}"), cells);
            }
        }
        table
    }
}
