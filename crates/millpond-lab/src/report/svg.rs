//! Charts as inline SVG: no script, no colours of its own (the page's style sheet has them).

use super::bars;
use super::names::Names;
use super::{Axis, Chart, Line, Scale};
use maud::{Markup, html};

const WIDTH: f64 = 860.0;
const HEIGHT: f64 = 330.0;
const LEFT: f64 = 88.0;
const RIGHT: f64 = 18.0;
const TOP: f64 = 12.0;
const BOTTOM: f64 = 46.0;
/// The same below names that stand aslant.
const BOTTOM_ASLANT: f64 = 104.0;
/// More points than this in a line cannot be distinguished: neighbours are joined, and the greatest shown.
const POINTS_MAX: usize = 430;
/// The number of styles in the style sheet.
const LOOKS: usize = 12;

/// The chart's drawing, or `None` if no line has a point that its scales can show.
pub(super) fn draw(chart: &Chart) -> Option<Markup> {
    let lines: Vec<_> = chart.lines.iter().map(|line| place(chart, &thin(line))).collect();
    let points = || lines.iter().flatten().flatten();
    let x = Span::of(&chart.x, points().map(|p| p.0))?;
    let mut y = Span::of(&chart.y, points().map(|p| p.1))?;
    if chart.x.scale == Scale::Each {
        // room for the figures above the bars
        y.to += 0.07 * (y.to - y.from);
    }
    let is_of_names = chart.x.scale == Scale::Each;
    let slot = (WIDTH - LEFT - RIGHT) / (x.to - x.from);
    let is_aslant = is_of_names && bars::names(chart).any(|(_, name)| bars::width(name) > slot);
    let below = if is_aslant { BOTTOM_ASLANT } else { BOTTOM };
    let at_x = |v: f64| LEFT + x.share(v) * (WIDTH - LEFT - RIGHT);
    let at_y = |v: f64| HEIGHT - below - y.share(v) * (HEIGHT - TOP - below);
    let (bottom, right) = (HEIGHT - below, WIDTH - RIGHT);
    Some(html! {
        svg viewBox=(format!("0 0 {WIDTH} {HEIGHT}")) role="img" aria-label=(describe(chart)) {
            @for (v, text) in y.ticks(&chart.y) {
                line class="grid" x1=(LEFT) x2=(right) y1=(px(at_y(v))) y2=(px(at_y(v))) {}
                text class="tick" x=(LEFT - 8.0) y=(px(at_y(v) + 4.0)) text-anchor="end" { (text) }
            }
            @for (v, text) in x_ticks(chart, &x) {
                @if !is_of_names {
                    line class="grid" x1=(px(at_x(v))) x2=(px(at_x(v))) y1=(TOP) y2=(bottom) {}
                }
                @if is_aslant {
                    text class="tick" transform=(aslant(at_x(v), bottom + 14.0)) text-anchor="end" { (text) }
                } @else {
                    text class="tick" x=(px(at_x(v))) y=(bottom + 18.0) text-anchor=(anchor(at_x(v))) { (text) }
                }
            }
            text class="axis" x=((LEFT + right) / 2.0) y=(HEIGHT - 6.0) text-anchor="middle" { (chart.x.label) }
            text class="axis" transform=(format!("translate(14 {}) rotate(-90)", (TOP + bottom) / 2.0)) text-anchor="middle" { (chart.y.label) }
            @if is_of_names { (bars::draw(chart, &lines, at_x, at_y, (bottom, slot))) }
            @for (line, points) in chart.lines.iter().zip(&lines).filter(|_| !is_of_names) {
                @let path = path(points, at_x, at_y);
                @if !path.is_empty() && (line.labels.is_empty() || line.is_reference) {
                    path class=(class(line)) d=(path) {
                        title { (line.name.replace('`', "")) }
                    }
                }
            }
            @if !is_of_names { (dots(chart, &lines, at_x, at_y)) }
        }
    })
}

/// The marks of the horizontal axis, and their texts.
fn x_ticks(chart: &Chart, x: &Span) -> Vec<(f64, String)> {
    match chart.x.scale {
        Scale::Each => bars::names(chart)
            .map(|(at, name)| (at, name.to_owned()))
            .collect(),
        _ => x.ticks(&chart.x),
    }
}

/// The look of a line in a legend, from there to the right.
pub(super) fn swatch(chart: &Chart, line: &Line, (x, y): (f64, f64)) -> Markup {
    html! {
        @if chart.x.scale == Scale::Each {
            rect class=(bars::class(line)) x=(px(x + 6.0)) y=(px(y - 4.0)) width="14" height="8" {}
        } @else if line.labels.is_empty() || line.is_reference {
            path class=(class(line)) d=(format!("M{x} {y}h26")) {}
        } @else {
            circle class=(class(line)) cx=(px(x + 13.0)) cy=(px(y)) r="4" {}
        }
    }
}

/// Points that have names, and their names.
fn dots(
    chart: &Chart,
    lines: &[Vec<Option<(f64, f64)>>],
    at_x: impl Fn(f64) -> f64,
    at_y: impl Fn(f64) -> f64,
) -> Markup {
    let named = || {
        let pairs = chart.lines.iter().zip(lines);
        pairs.flat_map(|(line, points)| {
            let points = points.iter().zip(&line.labels);
            points.filter_map(move |(point, name)| point.map(|point| (line, point, name)))
        })
    };
    let place = |(x, y): (f64, f64)| (at_x(x), at_y(y));
    let mut names = Names::default();
    named().for_each(|(_, point, _)| names.keep_off(place(point)));
    html! {
        @for (line, point, name) in named() {
            @let (x, y) = place(point);
            circle class=(class(line)) cx=(px(x)) cy=(px(y)) r=(if line.is_reference { 2.0 } else { 4.0 }) {
                title { (line.name) ": " (name) }
            }
            (names.draw((x, y), name, [LEFT, WIDTH - RIGHT]))
        }
    }
}

/// The chart as a drawing of its own, with its colours; `None` if no line has a point that its scales can show.
pub fn standalone(chart: &Chart, style: &str) -> Option<String> {
    let drawing = draw(chart)?.into_string();
    let height = 16.0 * chart.lines.len() as f64;
    let (_, rest) = drawing.split_once('>')?;
    let view = format!("0 {} {WIDTH} {}", -height, HEIGHT + height);
    let about = describe(chart)
        .replace('&', "&amp;")
        .replace('<', "&lt;")
        .replace('"', "&quot;");
    let legend = html! {
        @for (n, line) in chart.lines.iter().enumerate() {
            @let y = 16.0 * n as f64 + 8.0 - height;
            (swatch(chart, line, (LEFT, y)))
            text class="tick" x=(LEFT + 30.0) y=(y + 4.0) { (line.name) }
        }
    };
    let legend = legend.into_string();
    let rest = rest.strip_suffix("</svg>")?;
    Some(format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"{view}\" role=\"img\" aria-label=\"{about}\" \
         font-family=\"sans-serif\"><style>{style}</style>{rest}{legend}</svg>\n"
    ))
}

/// The transformation of a name that rises to the right and ends at its tick.
fn aslant(x: f64, y: f64) -> String {
    format!("translate({} {}) rotate(-35)", px(x + 4.0), px(y))
}

/// A tick at the right edge is written to its left, so that it stays within the drawing.
fn anchor(x: f64) -> &'static str {
    if x > WIDTH - RIGHT - 20.0 { "end" } else { "middle" }
}

/// The classes with a style in the style sheet.
fn class(line: &Line) -> String {
    format!("line {}", look(line))
}

/// The same without what it is a class of.
pub(super) fn look(line: &Line) -> String {
    let kind = if line.is_reference { " reference" } else { "" };
    format!("look{}{kind}", line.look % LOOKS)
}

/// A line with at most [`POINTS_MAX`] points.
fn thin(line: &Line) -> Line {
    let joined = line.points.len().div_ceil(POINTS_MAX).max(1);
    let greatest = |points: &[(f64, Option<f64>)]| {
        let y = points.iter().filter_map(|p| p.1).max_by(f64::total_cmp);
        (points[points.len() / 2].0, y)
    };
    Line {
        name: line.name.clone(),
        look: line.look,
        is_reference: line.is_reference,
        labels: line.labels.clone(),
        points: line.points.chunks(joined).map(greatest).collect(),
    }
}

/// The points on even scales; `None` where there is nothing to show.
fn place(chart: &Chart, line: &Line) -> Vec<Option<(f64, f64)>> {
    // no operation is beyond the last one: it is drawn a little further out than the one before
    let tail_end = line
        .points
        .iter()
        .filter(|p| p.0 < 1.0)
        .map(|p| tail(p.0))
        .fold(0.0, f64::max)
        + 0.1;
    let even = |scale: Scale, v: f64| match scale {
        Scale::Linear | Scale::Each => Some(v),
        Scale::Log => (v > 0.0).then(|| v.log10()),
        Scale::Tail if v >= 1.0 => Some(tail_end),
        Scale::Tail => Some(tail(v)),
    };
    line.points
        .iter()
        .map(|&(x, y)| Some((even(chart.x.scale, x)?, even(chart.y.scale, y?)?)))
        .collect()
}

/// How far out in the tail a share is: 1 for 90 %, 2 for 99 %, 3 for 99.9 %.
fn tail(share: f64) -> f64 {
    -(1.0 - share).log10()
}

fn path(points: &[Option<(f64, f64)>], at_x: impl Fn(f64) -> f64, at_y: impl Fn(f64) -> f64) -> String {
    let mut path = String::new();
    let mut pen_is_down = false;
    for (n, point) in points.iter().enumerate() {
        let Some((x, y)) = *point else {
            pen_is_down = false;
            continue;
        };
        path += if pen_is_down { "L" } else { "M" };
        path += &format!("{} {}", px(at_x(x)), px(at_y(y)));
        // a point between two gaps is a line of no length, which round ends make a dot
        if !pen_is_down && points.get(n + 1).is_none_or(Option::is_none) {
            path += "h0";
        }
        pen_is_down = true;
    }
    path
}

pub(super) fn px(v: f64) -> String {
    format!("{v:.1}")
}

/// The range of an axis, on an even scale.
struct Span {
    from: f64,
    to: f64,
}

impl Span {
    fn of(axis: &Axis, values: impl Iterator<Item = f64>) -> Option<Span> {
        let (least, greatest) = values.fold((f64::MAX, f64::MIN), |(least, greatest), v| {
            (least.min(v), greatest.max(v))
        });
        if least > greatest {
            return None;
        }
        let (from, to) = match axis.scale {
            Scale::Linear => (least.min(0.0), greatest),
            // to the next 1, 2 or 5 of the decade
            Scale::Log => (log_step_below(least), -log_step_below(-greatest)),
            Scale::Tail => (0.0, greatest),
            Scale::Each => (least - 0.4, greatest + 0.4),
        };
        // a single value still needs room
        Some(Span {
            from,
            to: if to > from { to } else { from + 1.0 },
        })
    }

    fn share(&self, v: f64) -> f64 {
        ((v - self.from) / (self.to - self.from)).clamp(0.0, 1.0)
    }

    fn ticks(&self, axis: &Axis) -> Vec<(f64, String)> {
        let within = |&v: &f64| v >= self.from - 1e-9 && v <= self.to + 1e-9;
        match axis.scale {
            Scale::Linear => {
                let step = round_step((self.to - self.from) / 6.0);
                let first = (self.from / step).ceil() as i64;
                let last = (self.to / step + 1e-9).floor() as i64;
                (first..=last)
                    .map(|n| n as f64 * step)
                    .map(|v| (v, (axis.show)(v)))
                    .collect()
            }
            // these have names
            Scale::Each => Vec::new(),
            Scale::Log => {
                let decades = self.from.floor() as i32..=self.to.ceil() as i32;
                let steps: &[f64] = if self.to - self.from > 3.2 {
                    &[1.0]
                } else {
                    &[1.0, 2.0, 5.0]
                };
                decades
                    .flat_map(|d| steps.iter().map(move |s| s * 10_f64.powi(d)))
                    .map(|v| (v.log10(), (axis.show)(v)))
                    .filter(|(v, _)| within(v))
                    .collect()
            }
            Scale::Tail => [0.0, 0.5, 0.9, 0.99, 0.999, 0.9999, 0.99999, 0.999999]
                .into_iter()
                .map(|share| (tail(share), (axis.show)(share)))
                .filter(|(v, _)| within(v))
                .collect(),
        }
    }
}

/// The greatest 1, 2 or 5 times a power of ten whose logarithm is not above `v`. Of negative logarithms it
/// gives the least one not below, mirrored, since 1/2 and 1/5 are 5 and 2 tenths.
fn log_step_below(v: f64) -> f64 {
    let decade = v.floor();
    let steps = [5_f64.log10(), 2_f64.log10(), 0.0];
    let step = steps.into_iter().find(|s| decade + s <= v + 1e-9);
    decade + step.unwrap_or(0.0)
}

/// The least 1, 2 or 5 times a power of ten that is not below `v`.
fn round_step(v: f64) -> f64 {
    let decade = 10_f64.powf(v.max(f64::MIN_POSITIVE).log10().floor());
    [1.0, 2.0, 5.0, 10.0]
        .into_iter()
        .map(|s| s * decade)
        .find(|&s| s >= v * (1.0 - 1e-9))
        .unwrap_or(decade * 10.0)
}

/// The chart in words, for screen readers.
fn describe(chart: &Chart) -> String {
    let kind = match chart.x.scale {
        Scale::Each => "Bar",
        _ => "Line",
    };
    let mut text = format!("{kind} chart. {}. {}", chart.title, chart.caption).replace('`', "");
    for line in &chart.lines {
        let values: Vec<f64> = line.points.iter().filter_map(|p| p.1).collect();
        if let (Some(median), Some(greatest)) = (
            super::median(&values),
            values.iter().copied().max_by(f64::total_cmp),
        ) {
            let show = chart.y.show;
            text += &format!(
                " {}: median {}, greatest {}.",
                line.name.replace('`', ""),
                show(median),
                show(greatest)
            );
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use millpond::internal::quantity::number;

    fn axis(scale: Scale) -> Axis {
        Axis {
            label: "axis".into(),
            scale,
            show: number,
        }
    }

    fn chart(y: Scale, points: Vec<(f64, Option<f64>)>) -> Chart {
        Chart {
            title: "t".into(),
            caption: "c".into(),
            x: axis(Scale::Linear),
            y: axis(y),
            lines: vec![Line {
                name: "a".into(),
                look: 0,
                is_reference: false,
                labels: Vec::new(),
                points,
            }],
        }
    }

    #[test]
    fn no_chart_without_data() {
        assert!(draw(&chart(Scale::Linear, vec![])).is_none());
        assert!(draw(&chart(Scale::Linear, vec![(0.0, None)])).is_none());
        assert!(draw(&chart(Scale::Log, vec![(0.0, Some(0.0))])).is_none());
    }

    #[test]
    fn a_gap_lifts_the_pen_and_a_lone_point_is_a_dot() {
        let points = [Some((0.0, 0.0)), Some((1.0, 1.0)), None, Some((3.0, 3.0)), None];
        assert_eq!(path(&points, |x| x, |y| y), "M0.0 0.0L1.0 1.0M3.0 3.0h0");
    }

    #[test]
    fn thinning_keeps_the_greatest() {
        let points = (0..5000).map(|n| (f64::from(n), Some(if n == 3333 { 99.0 } else { 1.0 })));
        let line = thin(&chart(Scale::Linear, points.collect()).lines[0]);
        assert!(line.points.len() <= POINTS_MAX);
        assert_eq!(line.points.iter().filter(|p| p.1 == Some(99.0)).count(), 1);
    }

    #[test]
    fn ticks_are_round_and_within() {
        let linear = Span { from: 0.0, to: 87.0 };
        let ticks: Vec<_> = linear
            .ticks(&axis(Scale::Linear))
            .into_iter()
            .map(|t| t.0)
            .collect();
        assert_eq!(ticks, [0.0, 20.0, 40.0, 60.0, 80.0]);
        let log = Span::of(&axis(Scale::Log), [30_f64, 7000.0].into_iter().map(f64::log10)).unwrap();
        let ticks: Vec<_> = log.ticks(&axis(Scale::Log)).into_iter().map(|t| t.1).collect();
        assert_eq!(
            ticks,
            [
                "20.0", "50.0", "100", "200", "500", "1000", "2000", "5000", "10000"
            ]
        );
        let tails = Span { from: 0.0, to: 3.2 };
        assert_eq!(tails.ticks(&axis(Scale::Tail)).len(), 5);
    }

    #[test]
    fn the_last_operation_is_drawn_beyond_the_one_before() {
        let mut chart = chart(
            Scale::Linear,
            vec![(0.5, Some(1.0)), (0.9, Some(2.0)), (1.0, Some(3.0))],
        );
        chart.x.scale = Scale::Tail;
        let placed = place(&chart, &chart.lines[0]);
        let xs: Vec<_> = placed.iter().map(|p| p.unwrap().0).collect();
        assert!(xs[0] < xs[1] && xs[1] < xs[2] && xs[2] < xs[1] + 0.2, "{xs:?}");
    }

    #[test]
    fn drawing_of_its_own_is_well_formed_and_names_its_points() {
        let mut chart = chart(Scale::Linear, vec![(1.0, Some(1.0)), (2.0, Some(2.0))]);
        chart.lines[0].name = "a & \"b\" < c".into();
        chart.lines[0].labels = vec!["one <&\">".into(), "two".into()];
        let text = standalone(&chart, crate::report::html::STYLE).unwrap();
        let document = roxmltree::Document::parse(&text).unwrap_or_else(|e| panic!("{e}\n{text}"));
        let svg = document.root_element();
        assert_eq!(svg.tag_name().namespace(), Some("http://www.w3.org/2000/svg"));
        let with = |name: &'static str| {
            svg.descendants()
                .filter(move |n| n.has_tag_name(("http://www.w3.org/2000/svg", name)))
        };
        // one for each point and one for the legend; dots are not connected
        assert_eq!(with("circle").count(), 3);
        assert_eq!(with("path").count(), 0);
        let names: Vec<_> = with("text")
            .filter(|n| n.attribute("class") == Some("name"))
            .filter_map(|n| n.text())
            .collect();
        assert_eq!(names, ["one <&\">", "two"]);
        chart.lines[0].is_reference = true;
        let text = standalone(&chart, "").unwrap();
        assert_eq!(
            text.matches("<path").count(),
            2,
            "a reference's dots are connected, and so its swatch is a line"
        );
    }
}
