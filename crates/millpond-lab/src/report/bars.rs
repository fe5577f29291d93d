//! Bars: charts whose horizontal axis is of names, such as patches or limits. What is between two of those has no value, so
//! nothing is drawn there.

use super::svg::{look, px};
use super::{Chart, Line};
use maud::{Markup, html};

/// About what a letter of a name takes.
const LETTER: f64 = 6.6;
/// The share of a name's width that its bars take.
const SHARE: f64 = 0.8;
/// No wider than this.
const WIDTH_MAX: f64 = 46.0;
/// Narrower ones have no figure above them.
const WIDTH_OF_FIGURES: f64 = 34.0;

/// The names on the axis with their places, each once.
pub(super) fn names(chart: &Chart) -> impl Iterator<Item = (f64, &str)> {
    let mut names: Vec<(f64, &str)> = Vec::new();
    for line in &chart.lines {
        for (point, name) in line.points.iter().zip(&line.labels) {
            if !names.iter().any(|(at, _)| *at == point.0) {
                names.push((point.0, name));
            }
        }
    }
    names.into_iter()
}

/// The width of a name.
pub(super) fn width(name: &str) -> f64 {
    name.chars().count() as f64 * LETTER
}

/// The classes of a line's bars.
pub(super) fn class(line: &Line) -> String {
    format!("bar {}", look(line))
}

/// A bar for each point that there is, those of one name side by side; `bottom` is where they stand, `slot` the room of a
/// name.
pub(super) fn draw(
    chart: &Chart,
    lines: &[Vec<Option<(f64, f64)>>],
    at_x: impl Fn(f64) -> f64,
    at_y: impl Fn(f64) -> f64,
    (bottom, slot): (f64, f64),
) -> Markup {
    let each = (slot * SHARE / lines.len().max(1) as f64).min(WIDTH_MAX);
    let left = -each * lines.len() as f64 / 2.0;
    html! {
        @for (n, (line, points)) in chart.lines.iter().zip(lines).enumerate() {
            @for (point, placed) in line.points.iter().zip(points) {
                @if let (Some(value), Some((x, y))) = (point.1, placed) {
                    @let (x, top) = (at_x(*x) + left + n as f64 * each, at_y(*y).min(bottom - 1.0));
                    @let figure = (chart.y.show)(value);
                    rect class=(class(line)) x=(px(x + 0.5)) y=(px(top)) width=(px(each - 1.0)) height=(px(bottom - top)) {
                        title { (line.name.replace('`', "")) ": " (figure) }
                    }
                    @if each >= WIDTH_OF_FIGURES {
                        text class="name" x=(px(x + each / 2.0)) y=(px(top - 3.0)) text-anchor="middle" { (figure) }
                    }
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::report::html::STYLE;
    use crate::report::{Axis, Chart, Line, Scale, svg};
    use millpond::internal::quantity::number;

    fn chart(lines: &[(bool, &[Option<f64>])]) -> Chart {
        let axis = |scale| Axis {
            label: "axis".into(),
            scale,
            show: number,
        };
        let names = [
            "vanilla",
            "a name that is so long that there is no room for it below its own bars",
        ];
        Chart {
            title: "t".into(),
            caption: "c".into(),
            x: axis(Scale::Each),
            y: axis(Scale::Linear),
            lines: lines
                .iter()
                .enumerate()
                .map(|(look, (is_reference, values))| Line {
                    name: format!("line {look}"),
                    look,
                    is_reference: *is_reference,
                    labels: names.iter().take(values.len()).map(|&name| name.into()).collect(),
                    points: values.iter().enumerate().map(|(n, &v)| (n as f64, v)).collect(),
                })
                .collect(),
        }
    }

    #[test]
    fn each_value_is_a_bar_over_its_name_and_a_missing_one_is_none() {
        let drawing = svg::standalone(
            &chart(&[(false, &[Some(2.0), None]), (true, &[Some(1.0), Some(0.0)])]),
            STYLE,
        );
        let drawing = drawing.unwrap();
        let document = roxmltree::Document::parse(&drawing).unwrap();
        let rects: Vec<_> = document
            .descendants()
            .filter(|n| n.has_tag_name("rect"))
            .collect();
        // three bars, and a swatch for each line
        assert_eq!(rects.len(), 3 + 2);
        let of = |n: usize, name: &str| rects[n].attribute(name).unwrap().parse::<f64>().unwrap();
        assert!(
            (of(0, "height") / of(1, "height") - 2.0).abs() < 0.05,
            "{drawing}"
        );
        assert_eq!(of(2, "height"), 1.0, "nothing is a line on the axis");
        assert!(of(0, "x") + of(0, "width") <= of(1, "x"), "side by side");
        assert_eq!(rects[1].attribute("class"), Some("bar look1 reference"));
        assert!(drawing.contains(">vanilla<") && drawing.contains("rotate(-35)"));
        assert!(!drawing.contains("<path"), "nothing is between names");
    }

    #[test]
    fn short_names_stand_upright() {
        let drawing = svg::standalone(&chart(&[(false, &[Some(2.0)])]), STYLE).unwrap();
        assert!(!drawing.contains("rotate(-35)"), "{drawing}");
        assert!(drawing.contains(">2.00<"), "the figure stands above a wide bar");
    }
}
