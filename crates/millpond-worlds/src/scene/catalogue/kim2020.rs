//! The scene of Kim2020: pages that are used once.

use super::{column, compared, count, followed, step, step_at};
use crate::scene::{Compared, Plot, Scene, Setting, Shows};

pub(super) const KIM2020: Scene = Scene {
    name: "kim2020",
    short: "2020 Working set",
    title: "Pages that are used once push out those that are needed",
    post: "Joonsoo Kim, February 2020: “workingset protection/detection on the anonymous LRU list”",
    saw: "Memory has room for 100 pages, and 50 of them are hot. New anonymous pages used to start on the active list: a burst \
          of pages that are used once pushes the hot ones out. The series starts new pages on the inactive list, where they \
          push out one another; and it remembers when a page left, so that one that comes back soon becomes active at once.",
    look: "Each square is a page. In “protection” watch the green ones, which are hot: do they stay in memory or go to swap? \
           In “detection” watch the red-orange ones, which come back every round: does the system learn to \
           keep them, or swap them in for ever? Neither example uses the green ones again, so losing them costs nothing there.",
    shows: Some(Shows {
        step: "linux-5.5+2",
        says: "the hot pages stay, and those that are used once push out one another",
    }),
    settings: &[
        Setting {
            name: "patches",
            label: "Where a new page starts, and what is remembered of one that left",
            unit: "",
            steps: &[
                step("linux-5.5", "New pages start active."),
                step(
                    "linux-5.5+2",
                    "Protection: new pages start inactive; nothing is remembered.",
                ),
                step(
                    "linux-5.5+anon-as-posted",
                    "Detection as posted: a page is compared with the wrong list.",
                ),
                step("linux-5.5+anon", "Protection and detection, with that repaired."),
                step("linux-5.9", "What landed in Linux 5.9."),
            ],
            first: 0,
            is_slider: true,
        },
        Setting {
            name: "example",
            label: "Example",
            unit: "",
            steps: &[
                step_at("protection", 50, "Twice 50 pages are used once."),
                step_at(
                    "detection",
                    100,
                    "50 pages come back each round, between 50 that are used once.",
                ),
            ],
            first: 0,
            is_slider: false,
        },
    ],
    columns: &[
        followed("Linux 5.5"),
        column(
            "Linux 7.0",
            "New pages start inactive; shadows say when a page left.",
        ),
        column(
            "Millpond",
            "Its own rule: a use moves no page. A page that was used becomes active when the scan meets it at the cold end, once memory is full. Uses with hardly a new page between them count as one: the last two hot pages have no others, and leave.",
        ),
    ],
    shades: ["used once", "hot", "", "will be hot", "", ""],
    shown: &[
        count("swap_ins_pages", "pages swapped in"),
        count("swap_ins_of_round", "of these, in the last round"),
        count("hot_pages_in_memory", "hot pages in memory, of 50"),
        count(
            "will_be_hot_pages_in_memory",
            "pages that will be hot in memory, of 50",
        ),
        count("active_pages", "pages on the active list"),
        count("inactive_pages", "pages on the inactive list"),
    ],
    published: &[
        compared(
            "linux-5.5, protection",
            "hot_pages_in_memory",
            "0",
            Compared::AtTheEnd,
        ),
        compared(
            "linux-5.5+2, protection",
            "hot_pages_in_memory",
            "50",
            Compared::Always,
        ),
        compared(
            "linux-5.5+2, detection",
            "swap_ins_of_round",
            "50, for ever",
            Compared::From(300),
        ),
        compared(
            "linux-5.5+anon, detection",
            "swap_ins_of_round",
            "0 in the end",
            Compared::AtTheEnd,
        ),
    ],
    published_note: "From the post's two examples. The second, detection, lies on the very edge: a shadow that keeps the age before its page's own eviction, as since 5.9, counts one eviction too many, and the pages come back as new ones for ever. On real memory the post measured 863,240 pages swapped in without the series and 681,565 with it.",
    plot: Plot {
        figure: "hot_pages_in_memory",
        label: "hot pages in memory, of 50",
        per_ms: 0,
        every_ms: 5,
        top: 0.0,
    },
    opens_at_ms: 50,
    ends_at_ms: 860,
    speed_ms: 20,
};
