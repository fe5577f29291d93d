//! The scene of Dillon2000: the second time around.

use super::{PAGES, column, count, followed, published, shown, step};
use crate::scene::{Plot, Scene, Setting, Shows};

pub(super) const DILLON2000: Scene = Scene {
    name: "dillon2000",
    short: "2000 Two laps",
    title: "The second time around",
    post: "Matthew Dillon, December 2000: on FreeBSD's pageout daemon and a news server",
    saw: "A news server with 550 readers uses a little more memory than it has. A clean page is freed in a microsecond, a dirty \
          one costs the disk five milliseconds, the same disk that the readers wait for. FreeBSD-stable wrote dirty pages in the \
          order in which it met them, and the load went to 50 to 150. The patches send a dirty page round the queue once before \
          they write it: many are used again by then, and need no write.",
    look: "Watch how many readers wait (the load), and the inactive list: red-orange pages are dirty ones on their second lap. \
           With one lap several times as many pages are written (below), and the readers' reads, blue squares, pile up at the \
           disk. The difference grows from 60 s on.",
    shows: Some(Shows {
        step: "two-laps",
        says: "no reader waits for the writes any more",
    }),
    settings: &[Setting {
        name: "rule",
        label: "When a dirty page is written",
        unit: "",
        steps: &[
            step("limited-order", "FreeBSD 4.0: in queue order, with a budget."),
            step(
                "clean-first",
                "FreeBSD 4.1.1 and 4.2: clean pages first; dirty ones in a second look.",
            ),
            step(
                "queue-order",
                "FreeBSD-stable, December 2000: at once, as if it were clean.",
            ),
            step("two-laps", "The patches: at the second meeting, with a budget."),
            step(
                "modern",
                "FreeBSD 12 and 13: to a laundry queue, which a thread of its own cleans.",
            ),
        ],
        first: 2,
        is_slider: true,
    }],
    columns: &[
        followed("FreeBSD"),
        column("Two laps", "The patches of the post; in FreeBSD from 4.3 to 11."),
        column(
            "Millpond",
            "Has the files' memory only: readers' own data are not its business here, and it writes its history file as it ages, so more pages a second.",
        ),
    ],
    shades: PAGES,
    shown: &[
        shown("load_now", "readers that wait now (load)", 1.0, 1, ""),
        shown("load_mean", "load, on the average", 1.0, 1, ""),
        shown("load_max", "load, at most", 1.0, 1, ""),
        shown("pageouts_per_s", "pages written a second", 1.0, 0, ""),
        shown("pageouts_variation", "how irregular that is", 1.0, 2, ""),
        count("laps_marked", "dirty pages sent round"),
        count("rescued_dirty_pages", "of these, used again and not written"),
        count("articles", "articles read"),
    ],
    published: &[
        published("clean-first", "load_mean", "1 to 2"),
        published("clean-first", "pageouts_variation", "“very inconsistent”"),
        published("queue-order", "load_mean", "50 to 150"),
        published("two-laps", "load_mean", "1 to 2"),
        published("two-laps", "pageouts_variation", "“very consistent”"),
        published("Two laps", "load_mean", "1 to 2"),
        published("Two laps", "pageouts_variation", "“very consistent”"),
    ],
    published_note: "The post has loads and words. Until 300 s, means and the highest load include the start, when memory is empty and every page has to be read; from then on they are of what came since.",
    plot: Plot {
        figure: "load_now",
        label: "readers that wait",
        per_ms: 0,
        every_ms: 1000,
        top: 0.0,
    },
    opens_at_ms: 100_000,
    ends_at_ms: 900_000,
    speed_ms: 5_000,
};
