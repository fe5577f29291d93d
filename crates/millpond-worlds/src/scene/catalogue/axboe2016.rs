//! The scene of Axboe2016: a read behind the writes.

use super::{PAGES, column, compared, count, followed, published, shown, step};
use crate::scene::{Compared, Plot, Scene, Setting, Shows};

pub(super) const AXBOE2016: Scene = Scene {
    name: "axboe2016",
    short: "2016 Writeback",
    title: "A read behind the writes",
    post: "Jens Axboe, March 2016: “Make background writeback not suck”, v3",
    saw: "One program writes 50 files of 100 MB, another reads a page at a time from the same disk. Writeback gives the disk \
          all that it will take. A read then stands behind a queue of writes, and takes hundreds of milliseconds. The patches \
          let fewer writes be in flight while others read.",
    look: "Look at the disk: how many writes wait inside it when a read comes. What stands there can't be overtaken. Then at \
           the slowest reads (p99) below, and at what the writer pays for them.",
    shows: Some(Shows {
        step: "100",
        says: "reads wait longer, and it writes faster",
    }),
    settings: &[Setting {
        name: "wb_percent",
        label: "wb_percent: how much of the disk's queue writeback may fill",
        unit: "%",
        steps: &[
            step("5", "one write at a time at the disk while there are reads."),
            step(
                "10",
                "what the post advises for rotating disks; 3 writes at the disk at a time, 1 while there are reads.",
            ),
            step("15", "the upper end of its advice for rotating disks."),
            step("25", ""),
            step("50", "the post's default, and its advice for flash."),
            step("75", ""),
            step("100", "all of the queue."),
        ],
        first: 1,
        is_slider: true,
    }],
    columns: &[
        column(
            "No throttle",
            "Writeback gives the disk all that it will take: Linux before the patches.",
        ),
        followed("wb_percent"),
        column(
            "Millpond",
            "A goal for the slowest reads, 60 ms on such a disk; what may be in transit follows from what reads take.",
        ),
    ],
    shades: PAGES,
    shown: &[
        shown("reader_reads_per_s", "reads a second", 1.0, 0, ""),
        shown(
            "reader_latency_p50_us",
            "half of the reads took up to",
            0.001,
            1,
            "ms",
        ),
        shown(
            "reader_latency_p99_us",
            "99 of 100 took up to (p99)",
            0.001,
            1,
            "ms",
        ),
        shown("reader_latency_max_us", "the slowest read", 0.001, 1, "ms"),
        shown("writers_mb", "written by the program", 1.0, 0, "MB"),
        count("writes_held_back", "times that writes were held back"),
        shown("writers_seconds", "the writer was done after", 1.0, 1, "s"),
    ],
    published: &[
        published("No throttle", "reader_reads_per_s", "134"),
        published("No throttle", "reader_latency_p50_us", "0.04"),
        published("No throttle", "reader_latency_p99_us", "255"),
        compared("No throttle", "reader_latency_max_us", "654", Compared::AtTheEnd),
        compared("No throttle", "writers_seconds", "66.3", Compared::AtTheEnd),
        published("10", "reader_reads_per_s", "4660"),
        published("10", "reader_latency_p50_us", "0.04"),
        published("10", "reader_latency_p99_us", "0.45"),
        compared("10", "reader_latency_max_us", "408", Compared::AtTheEnd),
        compared("10", "writers_seconds", "89.4", Compared::AtTheEnd),
    ],
    published_note: "The post's reader was served mostly by read-ahead (0.04 ms); ours reads at random. Compare how the columns relate.",
    plot: Plot {
        figure: "reader_reads",
        label: "reads a second",
        per_ms: 1000,
        every_ms: 500,
        top: 0.0,
    },
    opens_at_ms: 6_000,
    ends_at_ms: 140_000,
    speed_ms: 500,
};
