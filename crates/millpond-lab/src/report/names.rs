//! Points of a chart that have names: dots, with each name where it covers no other if there is such a place.

use super::svg::px;
use maud::{Markup, html};

/// About what a letter of a name takes.
const LETTER: f64 = 6.3;
const HEIGHT: f64 = 12.0;
/// The maximum number of text lines above or below its dot.
const ROWS_MAX: u32 = 5;
/// The distance from the middle of a dot to its name.
const GAP: f64 = 7.0;

/// Names that are placed, of one chart.
#[derive(Default)]
pub(super) struct Names {
    /// (left, top, right, bottom) of what is taken.
    taken: Vec<[f64; 4]>,
}

impl Names {
    /// Keeps names off a dot.
    pub(super) fn keep_off(&mut self, (x, y): (f64, f64)) {
        self.taken.push([x - 4.0, y - 4.0, x + 4.0, y + 4.0]);
    }

    /// The name of the dot at a place, within `[left, right]`.
    pub(super) fn draw(&mut self, (x, y): (f64, f64), name: &str, [left, right]: [f64; 2]) -> Markup {
        let width = name.chars().count() as f64 * LETTER;
        // next to it, above and below, and then further away on either side, with a line
        let mut places = vec![
            (x + GAP, y + 4.0),
            (x - GAP - width, y + 4.0),
            (x - width / 2.0, y - GAP),
            (x - width / 2.0, y + GAP + HEIGHT - 3.0),
        ];
        for row in 1..=ROWS_MAX {
            for down in [-f64::from(row) * HEIGHT, f64::from(row) * HEIGHT] {
                places.push((x + 2.0 * GAP, y + 4.0 + down));
                places.push((x - 2.0 * GAP - width, y + 4.0 + down));
            }
        }
        let bounds = |(x, base): (f64, f64)| [x, base - HEIGHT + 3.0, x + width, base + 3.0];
        let is_inside = |place: &&(f64, f64)| {
            let own = bounds(**place);
            own[0] >= left && own[2] <= right && own[1] >= 0.0
        };
        let is_free = |place: &&(f64, f64)| {
            let own = bounds(**place);
            is_inside(place) && self.taken.iter().all(|other| !overlap(&own, other))
        };
        // where all is full one covers another: all are in the table
        let found = places
            .iter()
            .find(is_free)
            .or_else(|| places.iter().find(is_inside));
        let place = found.copied().unwrap_or(places[0]);
        self.taken.push(bounds(place));
        let near = if place.0 > x {
            place.0 - 1.0
        } else {
            place.0 + width + 1.0
        };
        let is_far = (place.1 - 4.0 - y).abs() >= HEIGHT;
        let is_beside = place.0 > x || place.0 + width < x;
        html! {
            @if is_far && is_beside {
                line class="grid" x1=(px(x)) y1=(px(y)) x2=(px(near)) y2=(px(place.1 - 4.0)) {}
            }
            text class="name" x=(px(place.0)) y=(px(place.1)) { (name) }
        }
    }
}

fn overlap(a: &[f64; 4], b: &[f64; 4]) -> bool {
    a[0] < b[2] && b[0] < a[2] && a[1] < b[3] && b[1] < a[3]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_neighbours_do_not_cover_each_other_nor_leave_the_drawing() {
        let mut names = Names::default();
        let dots = [(50.0, 50.0), (60.0, 52.0), (95.0, 50.0)];
        dots.iter().for_each(|&dot| names.keep_off(dot));
        for (dot, name) in dots.into_iter().zip(["first", "second", "third"]) {
            names.draw(dot, name, [0.0, 100.0]);
        }
        let placed = &names.taken[dots.len()..];
        for (n, one) in placed.iter().enumerate() {
            assert!(one[0] >= 0.0 && one[2] <= 100.0, "{one:?}");
            let others = names
                .taken
                .iter()
                .enumerate()
                .filter(|&(other, _)| other != n + dots.len());
            assert!(
                others.map(|(_, other)| other).all(|other| !overlap(one, other)),
                "{names:?}",
                names = names.taken
            );
        }
    }
}
