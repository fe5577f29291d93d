//! The figures that the post and the series' seventh version published.

/// Ten times the exponents of the columns.
pub(super) const SKEWS: [u32; 7] = [1, 3, 5, 7, 9, 11, 13];
/// The sizes of the post's grid.
pub(super) const SIZES: [u64; 6] = [512, 768, 1024, 1280, 1536, 2048];
/// Its threads.
pub(super) const THREADS: [u32; 2] = [1, 8];

/// The groups of figures in a row of `published.txt`.
fn row(title: &str, threads: u32, mb: u64) -> Option<Vec<Vec<f64>>> {
    let mut sections = include_str!("published.txt").split("\n# ");
    let section = sections.find(|section| section.starts_with(title))?;
    let start = format!("{threads} {mb} | ");
    let row = section.lines().find_map(|line| line.strip_prefix(&start))?;
    let group = |group: &str| group.split_whitespace().filter_map(|n| n.parse().ok()).collect();
    Some(row.split('|').map(group).collect())
}

/// Records a second of a cell of the post's grid, before and after the series.
pub(super) fn throughput(mb: u64, skew_tenths: u32, threads: u32) -> Option<[f64; 2]> {
    let row = row("records a second", threads, mb)?;
    let column = SKEWS.iter().position(|&skew| skew == skew_tenths)?;
    Some([*row.first()?.get(column)?, *row.get(1)?.get(column)?])
}

/// Swap-ins and swap-outs of the seven steps, mean of five runs: before and after.
pub(super) const SEVEN_STEPS: [[f64; 2]; 2] = [[863_240.0, 989_945.0], [681_565.0, 809_273.0]];

/// Sizes of the seventh version's table.
pub(super) const SIZES_V7: [u64; 5] = [1024, 1280, 1536, 1792, 2048];
/// Its skews.
pub(super) const SKEWS_V7: [u32; 3] = [1, 7, 13];

/// Swap-ins of a cell of the seventh version's table: base, protect, detect.
pub(super) fn swap_ins_v7(mb: u64, skew_tenths: u32, threads: u32) -> Option<[f64; 3]> {
    let skew = SKEWS_V7.iter().position(|&skew| skew == skew_tenths)?;
    let row = row("pswpin", threads, mb)?;
    row.get(skew)?.as_slice().try_into().ok()
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

    #[test]
    fn the_seventh_version_swaps_in_less_with_protection_in_every_cell() {
        for mb in SIZES_V7 {
            for skew in SKEWS_V7 {
                for threads in THREADS {
                    let [base, protect, _] = swap_ins_v7(mb, skew, threads).unwrap();
                    assert!(protect < base, "{mb} {skew} {threads}");
                }
            }
        }
    }
}
