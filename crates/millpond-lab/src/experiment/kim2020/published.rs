//! The figures that the post and the series' seventh version published.

/// Ten times the exponents of the columns.
pub(super) const SKEWS: [u32; 7] = [1, 3, 5, 7, 9, 11, 13];
/// The sizes of the post's grid.
pub(super) const SIZES: [u64; 6] = [512, 768, 1024, 1280, 1536, 2048];
/// Its threads.
pub(super) const THREADS: [u32; 2] = [1, 8];

/// Records a second: before and after the series.
type Rows = [[[f64; 7]; 2]; 6];

const ONE_THREAD: Rows = [
    [
        [7009.0, 7372.0, 7774.0, 8523.0, 9569.0, 10724.0, 11936.0],
        [6973.0, 7342.0, 7745.0, 8576.0, 9441.0, 10730.0, 12033.0],
    ],
    [
        [915.0, 1039.0, 1275.0, 1687.0, 2328.0, 3486.0, 5445.0],
        [920.0, 1037.0, 1238.0, 1689.0, 2384.0, 3638.0, 5381.0],
    ],
    [
        [425.0, 471.0, 539.0, 753.0, 1183.0, 2130.0, 3839.0],
        [414.0, 468.0, 553.0, 770.0, 1242.0, 2187.0, 3932.0],
    ],
    [
        [320.0, 346.0, 410.0, 556.0, 871.0, 1654.0, 3298.0],
        [316.0, 346.0, 411.0, 550.0, 892.0, 1652.0, 3293.0],
    ],
    [
        [273.0, 290.0, 341.0, 458.0, 733.0, 1381.0, 2925.0],
        [271.0, 293.0, 344.0, 462.0, 740.0, 1398.0, 2969.0],
    ],
    [
        [77.0, 79.0, 95.0, 147.0, 276.0, 690.0, 1816.0],
        [91.0, 94.0, 115.0, 170.0, 321.0, 770.0, 2018.0],
    ],
];

const EIGHT_THREADS: Rows = [
    [
        [29083.0, 29648.0, 30145.0, 31668.0, 33964.0, 38414.0, 43707.0],
        [29238.0, 29701.0, 30301.0, 31328.0, 33809.0, 37991.0, 43667.0],
    ],
    [
        [3332.0, 3699.0, 4673.0, 5830.0, 8307.0, 12969.0, 17665.0],
        [3579.0, 3992.0, 4432.0, 6111.0, 8699.0, 12604.0, 18061.0],
    ],
    [
        [1921.0, 2141.0, 2484.0, 3296.0, 5391.0, 8227.0, 14574.0],
        [1989.0, 2155.0, 2609.0, 3565.0, 5463.0, 8170.0, 15642.0],
    ],
    [
        [1524.0, 1625.0, 1931.0, 2581.0, 4155.0, 6959.0, 12443.0],
        [1560.0, 1707.0, 2016.0, 2714.0, 4262.0, 7518.0, 13910.0],
    ],
    [
        [1303.0, 1399.0, 1550.0, 2137.0, 3469.0, 6712.0, 12944.0],
        [1356.0, 1465.0, 1701.0, 2237.0, 3583.0, 6830.0, 13580.0],
    ],
    [
        [172.0, 184.0, 215.0, 289.0, 514.0, 1318.0, 4153.0],
        [175.0, 190.0, 225.0, 329.0, 606.0, 1585.0, 5170.0],
    ],
];

/// Records a second of a cell of the post's grid, before and after the series.
pub(super) fn throughput(mb: u64, skew_tenths: u32, threads: u32) -> Option<[f64; 2]> {
    let rows = match threads {
        1 => &ONE_THREAD,
        8 => &EIGHT_THREADS,
        _ => return None,
    };
    let row = SIZES.iter().position(|&size| size == mb)?;
    let column = SKEWS.iter().position(|&skew| skew == skew_tenths)?;
    Some(rows[row].map(|line| line[column]))
}

/// Swap-ins and swap-outs of the seven steps, mean of five runs: before and after.
pub(super) const SEVEN_STEPS: [[f64; 2]; 2] = [[863_240.0, 989_945.0], [681_565.0, 809_273.0]];

/// Sizes of the seventh version's table.
pub(super) const SIZES_V7: [u64; 5] = [1024, 1280, 1536, 1792, 2048];
/// Its skews.
pub(super) const SKEWS_V7: [u32; 3] = [1, 7, 13];

/// `pswpin` by size, skew and threads: base, protect, detect.
const SWAP_INS_V7: [[[[f64; 3]; 2]; 3]; 5] = [
    [
        [
            [14101983.0, 14065876.0, 13910436.0],
            [16219823.0, 15959494.0, 15773791.0],
        ],
        [
            [7998369.0, 7622246.0, 7618515.0],
            [9174108.0, 8571915.0, 8489484.0],
        ],
        [[1017401.0, 940465.0, 945511.0], [1108496.0, 1038906.0, 941818.0]],
    ],
    [
        [
            [22895541.0, 22860305.0, 22705565.0],
            [25776114.0, 25430847.0, 25282555.0],
        ],
        [
            [13717646.0, 12935356.0, 13040232.0],
            [15218968.0, 13957948.0, 14158331.0],
        ],
        [
            [1654251.0, 1522681.0, 1599207.0],
            [1792483.0, 1577686.0, 1556133.0],
        ],
    ],
    [
        [
            [31621775.0, 31540355.0, 31420056.0],
            [33923761.0, 32715766.0, 33158477.0],
        ],
        [
            [19620761.0, 18337840.0, 18599128.0],
            [20628908.0, 19329511.0, 20013934.0],
        ],
        [
            [2378142.0, 2166261.0, 2183762.0],
            [2588106.0, 2275222.0, 2365008.0],
        ],
    ],
    [
        [
            [40259715.0, 40053917.0, 39949736.0],
            [43328279.0, 41481981.0, 41713945.0],
        ],
        [
            [25704884.0, 23937389.0, 24271902.0],
            [27155647.0, 24989407.0, 25524806.0],
        ],
        [
            [3129497.0, 2796994.0, 2886840.0],
            [3260373.0, 2879188.0, 2892962.0],
        ],
    ],
    [
        [
            [48746924.0, 48631954.0, 48509420.0],
            [50583990.0, 49599984.0, 50578596.0],
        ],
        [
            [32046424.0, 29764182.0, 30250316.0],
            [33765480.0, 30767021.0, 32213069.0],
        ],
        [
            [3916724.0, 3490782.0, 3585002.0],
            [3941676.0, 3538742.0, 3579398.0],
        ],
    ],
];

/// Swap-ins of a cell of the seventh version's table: base, protect, detect.
pub(super) fn swap_ins_v7(mb: u64, skew_tenths: u32, threads: u32) -> Option<[f64; 3]> {
    let size = SIZES_V7.iter().position(|&size| size == mb)?;
    let skew = SKEWS_V7.iter().position(|&skew| skew == skew_tenths)?;
    let thread = THREADS.iter().position(|&known| known == threads)?;
    Some(SWAP_INS_V7[size][skew][thread])
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
