//! The figures that the post published.

use super::EXPERIMENT;
use crate::report::{Metric, RowName};

/// Ten times the exponents of the columns.
pub(super) const SKEWS: [u32; 7] = [1, 3, 5, 7, 9, 11, 13];
/// The sizes of the post's grid.
pub(super) const SIZES: [u64; 6] = [512, 768, 1024, 1280, 1536, 2048];
/// Its threads.
pub(super) const THREADS: [u32; 2] = [1, 8];

/// Records a second of a cell of the post's grid, before and after the series.
pub(super) fn throughput(mb: u64, skew_tenths: u32, threads: u32) -> Option<[f64; 2]> {
    let start = format!("{threads} {mb} | ");
    let mut rows = include_str!("published.txt").lines();
    let (before, after) = rows.find_map(|row| row.strip_prefix(&start))?.split_once('|')?;
    let column = SKEWS.iter().position(|&skew| skew == skew_tenths)?;
    let cell = |cells: &str| cells.split_whitespace().nth(column)?.parse().ok();
    Some([cell(before)?, cell(after)?])
}

/// The post's row of the seven steps: `base` or `detect`.
pub(super) fn row(variant: &str) -> RowName {
    RowName::new("post", "ram", format!("post, 2020: {variant}"))
}

/// Swap-ins and swap-outs of the seven steps, mean of five runs: before and after.
const SEVEN_STEPS: [(&str, [f64; 2]); 2] = [
    ("base", [863_240.0, 989_945.0]),
    ("detect", [681_565.0, 809_273.0]),
];

/// The same as metrics of the post's rows.
pub(super) fn metrics() -> Vec<Metric> {
    let of = |(variant, [ins, outs]): (&str, [f64; 2])| {
        [("swap_ins_pages", ins), ("swap_outs_pages", outs)].map(|(metric, value)| {
            Metric::exact(EXPERIMENT.name, "hot-cold", &row(variant), metric, "1", value)
        })
    };
    SEVEN_STEPS.into_iter().flat_map(of).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The improvements printed below the post's rows of 2048M.
    #[test]
    fn the_posts_improvements_follow_from_its_rows() {
        let improvement = |threads| {
            SKEWS.map(|skew| {
                let [base, patched] = throughput(2048, skew, threads).unwrap();
                (100.0 * (patched / base - 1.0)).round() as i64
            })
        };
        assert_eq!(improvement(1), [18, 19, 21, 16, 16, 12, 11]);
        assert_eq!(improvement(8), [2, 3, 5, 14, 18, 20, 24]);
    }
}
