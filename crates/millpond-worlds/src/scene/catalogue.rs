//! The scenes themselves: words and numbers; the numbers are the posts' own.

mod axboe2016;
mod dillon2000;
mod gorman2011;
mod hills2015;
mod kim2020;
mod swarm;

use super::{Column, Compared, Published, Scene, Shown, Step};

const fn step(name: &'static str, about: &'static str) -> Step {
    step_at(name, 0, about)
}

const fn step_at(name: &'static str, opens_at_ms: u64, about: &'static str) -> Step {
    Step {
        name,
        about,
        opens_at_ms,
    }
}

const fn count(name: &'static str, label: &'static str) -> Shown {
    shown(name, label, 1.0, 0, "")
}

const fn shown(
    name: &'static str,
    label: &'static str,
    factor: f64,
    digits: u32,
    unit: &'static str,
) -> Shown {
    Shown {
        name,
        label,
        factor,
        digits,
        unit,
    }
}

const fn published(of: &'static str, figure: &'static str, value: &'static str) -> Published {
    compared(of, figure, value, Compared::Always)
}

const fn compared(
    of: &'static str,
    figure: &'static str,
    value: &'static str,
    compared: Compared,
) -> Published {
    Published {
        of,
        figure,
        value,
        compared,
    }
}

const fn column(title: &'static str, about: &'static str) -> Column {
    Column {
        title,
        about,
        follows_slider: false,
    }
}

const fn followed(title: &'static str) -> Column {
    Column {
        title,
        about: "",
        follows_slider: true,
    }
}

const PAGES: [&str; 6] = [
    "clean",
    "clean, used",
    "dirty",
    "dirty, met before",
    "being written",
    "being read",
];

/// All of them, in the order of the page.
pub const SCENES: &[Scene] = &[
    gorman2011::GORMAN2011,
    axboe2016::AXBOE2016,
    kim2020::KIM2020,
    dillon2000::DILLON2000,
    hills2015::HILLS2015,
    swarm::SWARM,
];
