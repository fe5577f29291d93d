//! The distance of Millpond's points from what the device allows.
//!
//! Of three things, what the writers get, how many reads are served and how long the hundredth of them takes, a dose of
//! paced writes may be better in one without being worse in the other two. By how much the best such dose is, is the
//! distance in that one.

use super::frontier::{BARE, PACED, Point, devices, short};
use crate::report::table::cell;
use crate::report::{Cell, Metric, RowName, Table};

/// Two figures that differ by less are the same.
const SAME: f64 = 1.01;
/// The factor up to which a point counts as within reach of what is allowed.
const WITHIN: f64 = 1.2;

/// The factors by which `point` is better than `own` in reads, p99 and bytes written.
fn factors(own: &Point, point: &Point) -> [f64; 3] {
    [
        point.reads.value / own.reads.value,
        own.p99.value / point.p99.value,
        point.written.value / own.written.value,
    ]
}

/// The same for the best of `paced` in each.
fn distances(own: &Point, paced: &[Point]) -> [f64; 3] {
    [0, 1, 2].map(|of| {
        let no_worse = paced.iter().map(|point| factors(own, point)).filter(|factors| {
            let mut others = factors.iter().enumerate().filter(|(n, _)| *n != of);
            others.all(|(_, factor)| *factor >= 1.0 / SAME)
        });
        no_worse.map(|factors| factors[of]).fold(1.0, f64::max)
    })
}

/// For each device with paced rows: Millpond's points and their distances from them.
pub(super) fn tables(rows: &[RowName], metrics: &[Metric]) -> Vec<Table> {
    let mut tables = Vec::new();
    for device in devices(rows) {
        let of = |targets: &'static [&str]| {
            let own = rows
                .iter()
                .filter(move |row| row.device == device && targets.contains(&row.target.as_str()));
            own.filter_map(|row| Some((row, Point::of(row, metrics)?)))
        };
        let paced: Vec<Point> = of(&[PACED, BARE]).map(|(_, point)| point).collect();
        if paced.is_empty() {
            continue;
        }
        let mut table = Table::new(
            format!("Millpond against what the device allows ({device})"),
            ["", "reads/s", "p99", "MB/s", "by reads", "by p99", "by MB/s"],
        );
        table.head.push(format!("within {WITHIN}"));
        for (row, own) in of(&["engine", "sim"]) {
            let distances = distances(&own, &paced);
            let is_within = distances.iter().all(|factor| *factor <= WITHIN);
            let verdict = Cell::from(if is_within { "yes" } else { "no" }.to_owned());
            let measured = [own.reads, own.p99, own.written].map(cell);
            let factors = distances.map(|factor| Cell::from(format!("{factor:.2}")));
            let cells = measured.into_iter().chain(factors).chain([verdict]);
            table.push(format!("{} {}", row.target, short(row)), cells);
        }
        if !table.rows.is_empty() {
            tables.push(table);
        }
    }
    tables
}

#[cfg(test)]
mod tests {
    use super::super::frontier::WRITERS_RATE;
    use super::super::report::{BOTH, P99, READS, SECONDS};
    use super::*;
    use crate::report::tests::{metric, row};

    #[test]
    fn the_best_dose_that_is_no_worse_in_the_other_two_is_the_distance() {
        let rows = [
            ("paced", "1M", 50.0, 26e3, 50.0),
            ("paced", "4M", 30.0, 53e3, 80.0),
            ("paced", "8M/8", 68.0, 85e3, 70.0),
            ("paced", "8M/6", 60.0, 85e3, 70.0),
            // as good as 4M; with fewer reads than 8M/8 and its p99; and with half of the reads of 1M
            ("sim", "goal/60ms", 30.0, 53e3, 79.0),
            ("sim", "goal/90ms", 60.0, 85e3, 70.0),
            ("sim", "goal/30ms", 25.0, 26e3, 50.0),
        ];
        let mut metrics = Vec::new();
        let names: Vec<RowName> = rows
            .iter()
            .map(|&(target, variant, reads, p99, written)| {
                let mut row = row(target, variant);
                row.device = "hdd".into();
                metrics.push(metric(&row, BOTH, READS, &[reads]));
                metrics.push(metric(&row, BOTH, P99, &[p99]));
                metrics.push(metric(&row, BOTH, SECONDS, &[2_000.0 / written]));
                metrics.push(metric(&row, BOTH, WRITERS_RATE, &[written]));
                row
            })
            .collect();
        let tables = tables(&names, &metrics);
        let shown: Vec<Vec<&str>> = tables[0]
            .rows
            .iter()
            .map(|row| row.cells[3..].iter().map(|cell| &*cell.value).collect())
            .collect();
        assert_eq!(
            shown,
            [
                ["1.00", "1.00", "1.01", "yes"],
                ["1.13", "1.00", "1.00", "yes"],
                ["2.00", "1.00", "1.00", "no"]
            ]
        );
    }
}
