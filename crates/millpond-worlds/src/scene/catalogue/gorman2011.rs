//! The scene of Gorman2011: reclaim that writes.

use super::{PAGES, column, compared, count, followed, published, shown, step, step_at};
use crate::scene::{Compared, Plot, Published, Scene, Setting, Shows};

/// The post's runs of fs_mark: 3750 files at about 6.9 a second.
const RUN_SECONDS: u64 = 550;

const fn in_part(of: &'static str, figure: &'static str, value: &'static str) -> Published {
    compared(of, figure, value, Compared::InPart(RUN_SECONDS))
}

pub(super) const GORMAN2011: Scene = Scene {
    name: "gorman2011",
    short: "2011 Reclaim",
    title: "Reclaim that writes",
    post: "Mel Gorman, July 2011: “Reduce filesystem writeback from page reclaim (again)”",
    saw: "A program writes files faster than the disk takes them. When memory is full, the kernel looks for frames to free at \
          the cold end of its lists, and meets pages that are still dirty. Linux 3.0 writes them from there: one page at a \
          time, wherever it lies on the disk, while the scan waits. The series lets reclaim write less and less, and tags \
          what it meets instead. Linux 7.0 and Millpond write no file page from reclaim at all.",
    look: "Look at the cold end (right) of the short list, “first 16 MiB”: orange pages get there before the disk has taken \
           them, and kswapd writes them from there, one at a time. Then at “file pages written by kswapd” below, and at what \
           kswapd waits for.",
    shows: Some(Shows {
        step: "lesskswapdwb",
        says: "kswapd writes none, and reads more of the list in vain",
    }),
    settings: &[
        Setting {
            name: "rule",
            label: "What reclaim does with a dirty page",
            unit: "",
            steps: &[
                step(
                    "vanilla",
                    "Linux 3.0: kswapd writes dirty file pages from the end of the list.",
                ),
                step(
                    "nodirectwb",
                    "Patch 1: a task that needs a frame writes no file page.",
                ),
                step(
                    "lesskswapdwb",
                    "Patch 2: kswapd writes file pages only in trouble, from priority 9 down.",
                ),
                step(
                    "throttle",
                    "Patch 3: reclaim waits when it meets many dirty pages.",
                ),
                step(
                    "immediate",
                    "Patch 4: dirty pages are tagged, and free as soon as their write ends.",
                ),
                step(
                    "prioinode",
                    "Patch 5: files whose pages reclaim has met are written first.",
                ),
                step("v2", "The second version: kswapd writes no file page at all."),
                step("linux-3.2", "What landed in Linux 3.2."),
                step(
                    "linux-4.11",
                    "Linux 4.11: a page is written when it is met the second time and the node is full of such.",
                ),
            ],
            first: 0,
            is_slider: true,
        },
        Setting {
            name: "load",
            label: "Load",
            unit: "",
            steps: &[
                step("fs-mark", "3750 files of 10 MiB, one after the other."),
                step_at("micro", 4_588, "One mapping of 4.76 GiB, written once."),
            ],
            first: 0,
            is_slider: false,
        },
    ],
    columns: &[
        followed("Linux 3.0"),
        column(
            "Linux 7.0",
            "Reclaim writes no file page; what it meets is tagged and put out of the way.",
        ),
        column(
            "Millpond",
            "Reclaim has no way to write. A dirty page is sent round once, then tagged and put out of the way. In trouble the pages that were met are written first, by the flusher.",
        ),
    ],
    shades: PAGES,
    shown: &[
        count("kswapd_write_file", "file pages written by kswapd"),
        count("pgscan_kswapd", "pages scanned by kswapd"),
        count("pgscan_direct", "pages scanned by direct reclaim"),
        shown(
            "direct_scans_percent",
            "direct reclaim's share of scans",
            1.0,
            0,
            "%",
        ),
        shown(
            "kswapd_efficiency_percent",
            "scanned pages that kswapd freed",
            1.0,
            0,
            "%",
        ),
        count("nr_vmscan_write_skip", "dirty pages skipped"),
        count("nr_vmscan_immediate_reclaim", "dirty pages tagged"),
        shown(
            "kswapd_write_waits_seconds",
            "kswapd waited to write",
            1.0,
            2,
            "s",
        ),
        shown("files_per_s_mean", "files a second", 1.0, 2, ""),
    ],
    published: &[
        in_part("vanilla, fs-mark", "kswapd_write_file", "4483"),
        in_part("vanilla, fs-mark", "pgscan_kswapd", "8202014"),
        in_part("vanilla, fs-mark", "pgscan_direct", "4865170"),
        published("vanilla, fs-mark", "direct_scans_percent", "37"),
        published("vanilla, fs-mark", "kswapd_efficiency_percent", "57"),
        in_part("vanilla, fs-mark", "nr_vmscan_write_skip", "0"),
        published("vanilla, fs-mark", "files_per_s_mean", "6.93"),
        in_part("nodirectwb, fs-mark", "kswapd_write_file", "4286"),
        in_part("nodirectwb, fs-mark", "pgscan_kswapd", "8146467"),
        in_part("nodirectwb, fs-mark", "pgscan_direct", "4903030"),
        published("nodirectwb, fs-mark", "direct_scans_percent", "37"),
        published("nodirectwb, fs-mark", "kswapd_efficiency_percent", "57"),
        in_part("nodirectwb, fs-mark", "nr_vmscan_write_skip", "30"),
        published("nodirectwb, fs-mark", "files_per_s_mean", "6.96"),
        in_part("lesskswapdwb, fs-mark", "kswapd_write_file", "0"),
        in_part("lesskswapdwb, fs-mark", "pgscan_kswapd", "16980235"),
        in_part("lesskswapdwb, fs-mark", "pgscan_direct", "1359813"),
        published("lesskswapdwb, fs-mark", "direct_scans_percent", "7"),
        published("lesskswapdwb, fs-mark", "kswapd_efficiency_percent", "48"),
        in_part("lesskswapdwb, fs-mark", "nr_vmscan_write_skip", "2300502"),
        published("lesskswapdwb, fs-mark", "files_per_s_mean", "7.11"),
        in_part("throttle, fs-mark", "kswapd_write_file", "1"),
        in_part("throttle, fs-mark", "pgscan_kswapd", "19428420"),
        in_part("throttle, fs-mark", "pgscan_direct", "408460"),
        published("throttle, fs-mark", "direct_scans_percent", "2"),
        published("throttle, fs-mark", "kswapd_efficiency_percent", "47"),
        in_part("throttle, fs-mark", "nr_vmscan_write_skip", "2774735"),
        published("throttle, fs-mark", "files_per_s_mean", "7.52"),
        in_part("immediate, fs-mark", "kswapd_write_file", "0"),
        in_part("immediate, fs-mark", "pgscan_kswapd", "14269907"),
        in_part("immediate, fs-mark", "pgscan_direct", "101716"),
        published("immediate, fs-mark", "direct_scans_percent", "0"),
        published("immediate, fs-mark", "kswapd_efficiency_percent", "66"),
        in_part("immediate, fs-mark", "nr_vmscan_immediate_reclaim", "5155"),
        published("immediate, fs-mark", "files_per_s_mean", "7.44"),
        in_part("prioinode, fs-mark", "kswapd_write_file", "0"),
        in_part("prioinode, fs-mark", "pgscan_kswapd", "14103872"),
        in_part("prioinode, fs-mark", "pgscan_direct", "199483"),
        published("prioinode, fs-mark", "direct_scans_percent", "1"),
        published("prioinode, fs-mark", "kswapd_efficiency_percent", "66"),
        in_part("prioinode, fs-mark", "nr_vmscan_immediate_reclaim", "3509"),
        published("prioinode, fs-mark", "files_per_s_mean", "7.48"),
    ],
    published_note: "The post's counts are of its whole run of fs_mark, some 550 seconds; its part for the time so far is shown.",
    plot: Plot {
        figure: "kswapd_write_file",
        label: "file pages written by kswapd, a second",
        per_ms: 1000,
        every_ms: 1000,
        top: 0.0,
    },
    opens_at_ms: 7_121,
    ends_at_ms: 600_000,
    speed_ms: 1_000,
};
