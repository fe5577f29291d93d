//! The verdict: what the runs of two sides say, in one line.
//!
//! ```text
//! Slowest read 47 ms -> 5.1 ms, one in 1000 21 ms -> 1.8 ms; writers took 0.97 times as long.
//! Slowest read 47 ms -> 5.1 ms, one in 1000 2.1 ms -> 1.8 ms (runs overlap); writers took 0.97 times as long.
//! Not shown, runs overlap: slowest read 47 ms -> 45 ms, one in 1000 21 ms -> 20 ms; writers took 0.97 times as long.
//! Not shown, the machine was busy (load 6.1 on 2 processors): slowest read 47 ms -> 5.1 ms.
//! No verdict at --scale 0.02: the writers took 0.21 s. A tail needs 1 s: --scale 0.1 shows it.
//! ```
//!
//! Values are medians over the runs. A difference counts if the runs of the two sides don't overlap, or if there are six
//! rounds of both and it is there in each of them. With one run on a side no spread is known, and a difference counts from
//! a factor of two; in virtual time every run is exact. A price is in the grade even where its runs overlap: what is not
//! settled is no reason to leave it out.

use super::{Metric, RowName, lookup, median};
use millpond::internal::quantity::number;
use std::fmt;

/// From this factor on, two single runs on a real machine count as different.
const FACTOR_OF_SINGLE_RUNS: f64 = 2.0;
/// From this number of rounds on it is significant that the same side was better in each: by chance, one time in 32.
const ROUNDS_MIN: usize = 6;
/// In virtual time less than this is the same: a cluster more or less, not a rule.
const FACTOR_OF_EXACT: f64 = 1.02;
/// From this factor on, a price is named in the grade. Less is within what one disk does from day to day.
const FACTOR_OF_A_COST: f64 = 1.1;
/// Operations beyond a percentile, below which it is the luck of a few: p99.9 needs 3000 operations.
const BEYOND_MIN: f64 = 3.0;
/// The marker in each line of [`Verdict::between`] without a verdict.
pub const NO_VERDICT: &str = ": no verdict at --scale ";
/// A tail of writeback needs writers that write for this many seconds.
const SECONDS_MIN: f64 = 1.0;

/// The better direction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Better {
    /// Times, waits, pages read again.
    Lower,
    /// Rates.
    Higher,
}

/// The form of a comparison.
#[derive(Clone, Copy, Debug)]
pub enum Form {
    /// `slowest read 47 ms -> 5.1 ms`; the function writes a value with its unit.
    Values(fn(f64) -> String),
    /// `writers took 0.97 times as long`: the words are those after "times".
    Times(&'static str),
}

/// What two sides are compared by: its words in the line, its metric, and how a difference is judged.
#[derive(Clone, Copy, Debug)]
pub struct Figure {
    /// Its name in the line: `slowest read`, `one in 1000`, `writers took`.
    pub what: &'static str,
    /// The metric.
    pub metric: &'static str,
    /// Its form.
    pub form: Form,
    /// The better direction.
    pub better: Better,
    /// A price, not a gain: it comes last, after a semicolon.
    pub is_cost: bool,
}

/// A figure with what both sides were measured at.
#[derive(Clone, Debug)]
pub struct Compared {
    /// The figure.
    pub figure: Figure,
    /// Every run's value of the side that is the measure.
    pub before: Vec<f64>,
    /// Every run's value of the side that is judged.
    pub after: Vec<f64>,
}

/// One side of a comparison: a row in a workload.
#[derive(Clone, Copy, Debug)]
pub struct Side<'a> {
    /// The row.
    pub row: &'a RowName,
    /// The workload.
    pub workload: &'a str,
}

/// The kind of the runs.
#[derive(Clone, Debug, Default)]
pub struct Circumstances {
    /// In virtual time: a run repeats exactly, so one is as good as many.
    pub is_exact: bool,
    /// Why no difference can be believed, whatever the runs say: `the machine was busy (load 6.1 on 2 processors)`.
    pub doubt: Option<String>,
    /// Bounds of its own that the judged side has missed: `direct scans 2.8 % (at most 0.1)`. With one it is not just better.
    pub missed: Vec<String>,
}

impl Circumstances {
    /// For virtual time.
    pub const fn exact() -> Circumstances {
        Circumstances {
            is_exact: true,
            doubt: None,
            missed: Vec::new(),
        }
    }
}

/// The verdict on the runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Grade {
    /// Something is better and nothing is worse.
    Better,
    /// The same, at a price of more than a tenth.
    BetterAtACost,
    /// The same, at a price that is more than a tenth by the medians, but that the runs do not settle.
    BetterPriceOpen,
    /// Some things are better; others are worse, or a bound is missed.
    Mixed,
    /// Something is worse, or costs more than a tenth more, and nothing is better.
    Worse,
    /// Both sides did exactly the same, in virtual time.
    Same,
    /// No difference is shown.
    NotShown,
    /// The runs could not have shown one.
    None,
}

impl fmt::Display for Grade {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Grade::Better => "better",
            Grade::BetterAtACost => "better, at a cost",
            Grade::BetterPriceOpen => "better, price not settled",
            Grade::Mixed => "better and worse",
            Grade::Worse => "worse",
            Grade::Same => "the same",
            Grade::NotShown => "not shown",
            Grade::None => "no verdict",
        })
    }
}

/// A verdict.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Verdict {
    /// The verdict on the runs.
    pub grade: Grade,
    /// The same in one line, from a capital letter to a full stop.
    pub line: String,
}

impl Verdict {
    /// A verdict that there is none, as a scale shows nothing: what it lacks, and which one has it.
    pub fn none(scale: f64, lacks: &str, enough: f64) -> Verdict {
        Verdict {
            grade: Grade::None,
            line: format!(
                "No verdict at --scale {}: {lacks}: --scale {} shows it.",
                short(scale),
                short(enough)
            ),
        }
    }

    /// The line with what is compared before it: `The kernel -> Millpond: better. Slowest read 47 ms -> 5.1 ms.`
    pub fn between(&self, sides: &str) -> String {
        let sides = match sides.strip_prefix("the ") {
            Some(rest) => format!("The {rest}"),
            None => sides.to_owned(),
        };
        match self.grade {
            Grade::NotShown | Grade::None => format!("{sides}: {}", letter(&self.line, char::to_lowercase)),
            grade => format!("{sides}: {grade}. {}", self.line),
        }
    }
}

impl Figure {
    /// A quantity of which less is better, such as a wait.
    pub const fn new(what: &'static str, metric: &'static str, show: fn(f64) -> String) -> Figure {
        Figure {
            what,
            metric,
            form: Form::Values(show),
            better: Better::Lower,
            is_cost: false,
        }
    }

    /// The same where more is better.
    #[must_use]
    pub const fn higher(self) -> Figure {
        Figure {
            better: Better::Higher,
            ..self
        }
    }

    /// The same as a factor: `as long`.
    #[must_use]
    pub const fn times(self, times: &'static str) -> Figure {
        Figure {
            form: Form::Times(times),
            ..self
        }
    }

    /// The same as a price.
    #[must_use]
    pub const fn cost(self, times: &'static str) -> Figure {
        Figure {
            is_cost: true,
            ..self.times(times)
        }
    }

    /// The figure with every run's value of both sides.
    pub fn of(self, before: &[f64], after: &[f64]) -> Compared {
        Compared {
            figure: self,
            before: before.into(),
            after: after.into(),
        }
    }
}

impl Side<'_> {
    /// Every run's value of a metric; none if it was not measured.
    pub fn runs<'m>(&self, metrics: &'m [Metric], metric: &str) -> &'m [f64] {
        lookup(metrics, self.row, self.workload, metric).map_or(&[], |metric| &metric.runs)
    }
}

/// Judges two rows by these figures of theirs, as [`judge`] does.
pub fn compare(
    metrics: &[Metric],
    sides: [Side<'_>; 2],
    figures: &[Figure],
    circumstances: &Circumstances,
) -> Option<Verdict> {
    let compared = figures.iter().map(|figure| {
        let [before, after] = sides.map(|side| side.runs(metrics, figure.metric));
        figure.of(before, after)
    });
    judge(&compared.collect::<Vec<_>>(), circumstances)
}

/// Judges two sides by what they were measured by. Comparisons that a side has no run of are left out; `None` if that
/// leaves nothing.
pub fn judge(compared: &[Compared], circumstances: &Circumstances) -> Option<Verdict> {
    let parts: Vec<Part> = compared.iter().filter_map(|c| c.part(circumstances)).collect();
    let gains = || parts.iter().filter(|part| !part.is_cost);
    // a line of prices only is judged by them
    let judged: Vec<&Part> = match gains().count() {
        0 => parts.iter().collect(),
        _ => gains().collect(),
    };
    let any = |shown| judged.iter().any(|part| part.shown == shown);
    let grade = match (any(Shown::Better), any(Shown::Worse)) {
        _ if judged.is_empty() => return None,
        _ if circumstances.doubt.is_some() => Grade::NotShown,
        (true, true) => Grade::Mixed,
        (true, false) if !circumstances.missed.is_empty() => Grade::Mixed,
        (true, false) if parts.iter().any(Part::is_high_cost) => Grade::BetterAtACost,
        (true, false) if parts.iter().any(Part::is_open_cost) => Grade::BetterPriceOpen,
        (true, false) => Grade::Better,
        (false, true) => Grade::Worse,
        // nothing is gained, and something is paid
        (false, false) if parts.iter().any(Part::is_high_cost) => Grade::Worse,
        (false, false) if circumstances.is_exact => Grade::Same,
        (false, false) => Grade::NotShown,
    };
    let why = judged[0].shown;
    let is_one_reason = judged.iter().all(|part| part.shown == why);
    let head = match (grade, &circumstances.doubt) {
        (Grade::NotShown, Some(doubt)) => format!("Not shown, {doubt}: "),
        (Grade::NotShown, None) if is_one_reason => format!("Not shown, {why}: "),
        (Grade::NotShown, None) => "Not shown: ".into(),
        _ => String::new(),
    };
    let mut line = head;
    let mut is_first = true;
    for is_cost in [false, true] {
        for (n, part) in parts.iter().filter(|part| part.is_cost == is_cost).enumerate() {
            line += match (is_first, n) {
                (true, _) => "",
                (false, 0) => "; ",
                (false, _) => ", ",
            };
            is_first = false;
            line += &part.text;
            let is_said = grade == Grade::NotShown && (circumstances.doubt.is_some() || is_one_reason);
            line += &match part.shown {
                Shown::Worse if grade == Grade::Mixed && !is_cost => " (worse)".into(),
                Shown::Overlap | Shown::OneRun if !is_said || is_cost => format!(" ({})", part.shown),
                _ => String::new(),
            };
        }
    }
    if !circumstances.missed.is_empty() {
        line += &format!("; bounds missed: {}", circumstances.missed.join(", "));
    }
    Some(Verdict {
        grade,
        line: format!("{}.", letter(&line, char::to_uppercase)),
    })
}

/// Whether one side's operations and writers were enough to see that share of operations, such as 0.999: if they were
/// not, a verdict that says so and at which scale they would be. `scale` is what was asked for: the counts grow with it.
/// `what` is an operation, such as `read`.
pub fn too_small(share: f64, what: &str, operations: f64, seconds: f64, scale: f64) -> Option<Verdict> {
    let needed = BEYOND_MIN / (1.0 - share);
    let factor = (needed / operations.max(1.0)).max(times_too_short(seconds));
    if factor <= 1.0 {
        return None;
    }
    let lacks = lacks_time(seconds).unwrap_or_else(|| {
        format!(
            "{operations:.0} {what}s beside the writers. One in {:.0} needs {needed:.0}",
            1.0 / (1.0 - share)
        )
    });
    Some(Verdict::none(scale, &lacks, round_up(scale * factor)))
}

/// The same where the slowest of few operations is compared, and no share of them.
pub fn too_short(seconds: f64, scale: f64) -> Option<Verdict> {
    let lacks = lacks_time(seconds)?;
    Some(Verdict::none(
        scale,
        &lacks,
        round_up(scale * times_too_short(seconds)),
    ))
}

fn times_too_short(seconds: f64) -> f64 {
    SECONDS_MIN / seconds.max(1e-3)
}

/// The writers did not write for long enough, as a part of a sentence.
pub fn lacks_time(seconds: f64) -> Option<String> {
    (seconds < SECONDS_MIN).then(|| {
        format!(
            "the writers took {} s. A tail needs {SECONDS_MIN} s",
            two_digits(seconds)
        )
    })
}

/// Each of the kernel's rows beside the engine's in one workload, a line each.
pub(crate) fn kernel_beside_engine(
    workload: &str,
    names: &[RowName],
    metrics: &[Metric],
    figures: &[Figure],
    circumstances: &Circumstances,
) -> Vec<String> {
    let Some(engine) = names.iter().find(|name| name.target == "engine") else {
        return Vec::new();
    };
    let line = |kernel: &RowName| {
        let sides = [kernel, engine].map(|row| Side { row, workload });
        let verdict = compare(metrics, sides, figures, circumstances)?;
        Some(verdict.between(&format!("{workload}: {} -> Millpond", kernel.variant)))
    };
    let kernels = names.iter().filter(|name| name.target == "kernel");
    kernels.filter_map(line).collect()
}

/// "3.2 times": how large `value` is, measured by `base`.
fn times(value: f64, base: f64) -> String {
    let ratio = value / base;
    match ratio {
        _ if !ratio.is_finite() => "incomparably more".into(),
        _ if ratio >= 10.0 => format!("{ratio:.0} times"),
        _ if ratio >= 1.95 => format!("{ratio:.1} times"),
        _ => format!("{} times", two_decimals(ratio)),
    }
}

fn two_decimals(ratio: f64) -> String {
    if ratio >= 0.1 {
        format!("{ratio:.2}")
    } else {
        number(ratio)
    }
}

/// Whether all values of one are below all of the other.
fn apart(a: &[f64], b: &[f64]) -> bool {
    let range = |values: &[f64]| {
        values.iter().fold((f64::MAX, f64::MIN), |(least, greatest), &v| {
            (least.min(v), greatest.max(v))
        })
    };
    let ((a_least, a_greatest), (b_least, b_greatest)) = (range(a), range(b));
    a_least > b_greatest || b_least > a_greatest
}

/// A time in microseconds with two digits: `47 ms`, `5.1 ms`, `480 us`, `1.2 s`.
pub fn time(us: f64) -> String {
    match us {
        _ if us >= 995_000.0 => format!("{} s", two_digits(us / 1e6)),
        _ if us >= 995.0 => format!("{} ms", two_digits(us / 1e3)),
        _ => format!("{} us", two_digits(us)),
    }
}

/// A number with two digits, and all of those before the point: `0.021`, `5.1`, `47`, `1234`; a count as one: `3`.
pub fn two_digits(value: f64) -> String {
    if value.fract() == 0.0 {
        return format!("{value:.0}");
    }
    let digits = |value: f64| (1 - value.abs().log10().floor() as i32).clamp(0, 9) as usize;
    // rounding may carry into the next decade: 9.96 is 10
    let rounded: f64 = format!("{value:.*}", digits(value)).parse().unwrap_or(value);
    if rounded == 0.0 {
        return "0".into();
    }
    format!("{value:.*}", digits(rounded))
}

/// A comparison, judged.
struct Part {
    text: String,
    shown: Shown,
    is_cost: bool,
    /// The factor of the change, oriented: above 1 is worse.
    factor: f64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Shown {
    Better,
    Worse,
    Same,
    Overlap,
    OneRun,
}

impl fmt::Display for Shown {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Shown::Better => "better",
            Shown::Worse => "worse",
            Shown::Same => "the same",
            Shown::Overlap => "runs overlap",
            Shown::OneRun => "one run each",
        })
    }
}

impl Part {
    fn is_high_cost(&self) -> bool {
        self.is_cost && self.shown == Shown::Worse && self.factor > FACTOR_OF_A_COST
    }

    /// A price that may be high: its median is, and the runs neither show nor exclude it.
    fn is_open_cost(&self) -> bool {
        let is_open = matches!(self.shown, Shown::Overlap | Shown::OneRun);
        self.is_cost && is_open && self.factor > FACTOR_OF_A_COST
    }
}

impl Compared {
    /// Whether one side is better in each of enough rounds. Rows are run in turn, so the runs of a number are a round.
    fn is_in_each_round(&self) -> bool {
        let rounds = || self.before.iter().zip(&self.after);
        self.before.len() == self.after.len()
            && self.before.len() >= ROUNDS_MIN
            && (rounds().all(|(before, after)| before < after)
                || rounds().all(|(before, after)| before > after))
    }

    fn part(&self, circumstances: &Circumstances) -> Option<Part> {
        let (before, after) = (median(&self.before)?, median(&self.after)?);
        let figure = self.figure;
        let text = match figure.form {
            Form::Values(show) => format!("{} {} -> {}", figure.what, show(before), show(after)),
            Form::Times(as_what) => format!("{} {} {as_what}", figure.what, times(after, before)),
        };
        let factor = match figure.better {
            Better::Lower => after / before,
            Better::Higher => before / after,
        };
        let is_single = self.before.len() == 1 || self.after.len() == 1;
        // (no factor of nothing: 0 -> 0)
        let is_within = |most: f64| before == after || (factor < most && factor > 1.0 / most);
        let shown = match () {
            () if circumstances.is_exact && is_within(FACTOR_OF_EXACT) => Shown::Same,
            () if !is_single && !apart(&self.before, &self.after) && !self.is_in_each_round() => {
                Shown::Overlap
            }
            () if is_single && !circumstances.is_exact && is_within(FACTOR_OF_SINGLE_RUNS) => Shown::OneRun,
            () if (after < before) == (figure.better == Better::Lower) => Shown::Better,
            () => Shown::Worse,
        };
        Some(Part {
            text,
            shown,
            is_cost: figure.is_cost,
            factor,
        })
    }
}

/// The least 1, 2 or 5 times a power of ten that is not below `v`: short to type.
fn round_up(v: f64) -> f64 {
    let decade = 10_f64.powf(v.log10().floor());
    let steps = [1.0, 2.0, 5.0, 10.0].map(|s| s * decade);
    steps
        .into_iter()
        .find(|&s| s >= v * (1.0 - 1e-9))
        .unwrap_or(decade * 10.0)
}

/// A scale in typed form: no trailing zeros.
fn short(scale: f64) -> String {
    let text = format!("{scale:.4}");
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}

/// The text with another first letter.
pub(crate) fn letter<C: Iterator<Item = char>>(text: &str, change: fn(char) -> C) -> String {
    let mut letters = text.chars();
    let first = letters.next().into_iter().flat_map(change);
    first.chain(letters).collect()
}

#[cfg(test)]
#[path = "verdict_tests.rs"]
mod tests;
