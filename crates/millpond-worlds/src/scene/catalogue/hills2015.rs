//! The scene of Hills2015: a limit that is touched.

use super::{column, compared, count, shown, step};
use crate::scene::{Compared, Plot, Scene, Setting, Shows};

pub(super) const HILLS2015: Scene = Scene {
    name: "hills2015",
    short: "2015 Dirty limit",
    title: "A limit that collapses when it is touched",
    post: "Mark Hills, June 2015: “Write throughput impaired by touching dirty_ratio”",
    saw: "A 32-bit machine of 12 GiB writes 150 MB/s. Its owner sets vm.dirty_ratio from 20 to 21, and it writes 5 MB/s. Set back to 20, \
          it stays slow until it is booted again. The limit in force had been derived at boot, when memory looked different; a \
          touch derived it anew, and subtracted the reserves of all memory from what is free in its low part: the limit became 0.",
    look: "At 15 s the ratio is set to what it was, at 20 s to your value, at 25 s back to 20. Watch the rate at these moments, \
           and “limit that stops tasks”. Bars show shares of what is dirty; how many pages there are stands at their right.",
    shows: Some(Shows {
        step: "20",
        says: "the value that is in force already derives nothing, and nothing breaks",
    }),
    settings: &[Setting {
        name: "ratio",
        label: "dirty_ratio is set at 20 s to",
        unit: "%",
        steps: &[
            step("5", ""),
            step("10", ""),
            step("19", ""),
            step("20", "which it was: nothing is derived anew."),
            step("21", "as in the post."),
            step("30", ""),
            step("50", ""),
        ],
        first: 4,
        is_slider: true,
    }],
    columns: &[
        column(
            "Linux 4.0",
            "Derives a limit when its value differs, from all memory at once.",
        ),
        column(
            "Repaired",
            "Each part of memory is clamped by itself; derived at every change, whichever task asks.",
        ),
        column(
            "Millpond's rule",
            "All memory but the reserve counts; limits depend on settings and memory now, and none is 0.",
        ),
    ],
    shades: ["", "", "dirty", "", "being written", ""],
    shown: &[
        shown("now_mb_per_s", "dd writes, in this second", 1.0, 1, "MB/s"),
        shown("boot_mb_per_s", "as booted (10 to 15 s)", 1.0, 1, "MB/s"),
        shown("20_again_mb_per_s", "20 again (15 to 20 s)", 1.0, 1, "MB/s"),
        shown("touched_mb_per_s", "your value (20 to 25 s)", 1.0, 1, "MB/s"),
        shown(
            "20_once_more_mb_per_s",
            "20 once more (25 to 30 s)",
            1.0,
            1,
            "MB/s",
        ),
        count("hard_limit_pages", "hard limit, derived last, in pages"),
        count("ratelimit_pages", "ratelimit, in pages"),
        count("pauses", "times that dd was paused"),
    ],
    published: &[
        compared("Linux 4.0", "boot_mb_per_s", "150", Compared::From(10_000)),
        compared("Linux 4.0", "20_again_mb_per_s", "150", Compared::From(15_000)),
        compared(
            "Linux 4.0, 21",
            "touched_mb_per_s",
            "about 5",
            Compared::From(20_000),
        ),
        compared(
            "Linux 4.0, 21",
            "20_once_more_mb_per_s",
            "about 5",
            Compared::From(25_000),
        ),
        compared(
            "Linux 4.0, 21",
            "ratelimit_pages",
            "78, then 16",
            Compared::From(20_000),
        ),
    ],
    published_note: "The post's machine: zones, watermarks and reserves are those that it prints. Its ticks a second are not known; here 1000.",
    plot: Plot {
        figure: "written_mb",
        label: "MB/s that dd writes",
        per_ms: 1000,
        every_ms: 250,
        top: 300.0,
    },
    opens_at_ms: 19_000,
    ends_at_ms: 30_000,
    speed_ms: 1_000,
};
