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
//! Values are medians over the runs. A difference counts if the runs of the two sides don't overlap. With one run on a
//! side no spread is known, and a difference counts from a factor of two; in virtual time every run is exact.

use super::median;
use super::words::{apart, times};
use std::fmt;

/// From this factor on, two single runs on a real machine count as different.
const FACTOR_OF_SINGLE_RUNS: f64 = 2.0;
/// From this factor on, a price is named in the grade. Less is within what one disk does from day to day.
const FACTOR_OF_A_COST: f64 = 1.1;
/// Operations beyond a percentile, below which it is the luck of a few: p99.9 needs 3000 operations.
const BEYOND_MIN: f64 = 3.0;
/// A tail of writeback needs writers that are at it for so many seconds.
const SECONDS_MIN: f64 = 1.0;

/// Which values are better.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Better {
    /// Times, waits, pages read again.
    Lower,
    /// Rates.
    Higher,
}

/// How a comparison is written.
#[derive(Clone, Copy, Debug)]
pub enum Form {
    /// `slowest read 47 ms -> 5.1 ms`; the function writes a value with its unit.
    Values(fn(f64) -> String),
    /// `writers took 0.97 times as long`: the words are what comes behind "times".
    Times(&'static str),
}

/// One thing that both sides were measured by.
#[derive(Clone, Debug)]
pub struct Compared {
    /// What it is, as the line has it: `slowest read`, `one in 1000`, `writers took`.
    pub what: String,
    /// How it is written.
    pub form: Form,
    /// Which values are better.
    pub better: Better,
    /// What is paid, not what is gained: it stands last, behind a semicolon.
    pub is_cost: bool,
    /// Every run's value of the side that is the measure.
    pub before: Vec<f64>,
    /// Every run's value of the side that is judged.
    pub after: Vec<f64>,
}

/// How the runs were made.
#[derive(Clone, Debug, Default)]
pub struct Circumstances {
    /// In virtual time: a run repeats exactly, so that one is as good as many.
    pub is_exact: bool,
    /// Why no difference can be believed, whatever the runs say: `the machine was busy (load 6.1 on 2 processors)`.
    pub doubt: Option<String>,
}

/// What the runs say.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Grade {
    /// Something is better and nothing is worse.
    Better,
    /// The same, at a price of more than a tenth.
    BetterAtACost,
    /// Some things are better, others worse.
    Mixed,
    /// Something is worse and nothing is better.
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
    /// What the runs say.
    pub grade: Grade,
    /// The same in one line, from a capital letter to a full stop.
    pub line: String,
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
        (true, false) if parts.iter().any(Part::is_high_cost) => Grade::BetterAtACost,
        (true, false) => Grade::Better,
        (false, true) => Grade::Worse,
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
    Some(Verdict {
        grade,
        line: format!("{}.", capital(&line)),
    })
}

/// Whether one side's operations and writers were enough to see that share of operations, such as 0.999: if they were
/// not, a verdict that says so and at which scale they would be. `scale` is what was asked for: the counts grow with it.
pub fn too_small(share: f64, operations: f64, seconds: f64, scale: f64) -> Option<Verdict> {
    let needed = BEYOND_MIN / (1.0 - share);
    let factor = (needed / operations.max(1.0)).max(SECONDS_MIN / seconds.max(1e-3));
    if factor <= 1.0 {
        return None;
    }
    let lacks = match seconds < SECONDS_MIN {
        true => format!(
            "the writers took {} s. A tail needs {SECONDS_MIN} s",
            two_digits(seconds)
        ),
        false => format!(
            "{operations:.0} reads beside the writers. One in {:.0} needs {needed:.0}",
            1.0 / (1.0 - share)
        ),
    };
    Some(Verdict {
        grade: Grade::None,
        line: format!(
            "No verdict at --scale {}: {lacks}: --scale {} shows it.",
            short(scale),
            short(round_up(scale * factor))
        ),
    })
}

/// A time in microseconds with two digits: `47 ms`, `5.1 ms`, `480 us`, `1.2 s`.
pub fn time(us: f64) -> String {
    match us {
        _ if us >= 995_000.0 => format!("{} s", two_digits(us / 1e6)),
        _ if us >= 995.0 => format!("{} ms", two_digits(us / 1e3)),
        _ => format!("{} us", two_digits(us)),
    }
}

/// A number with two digits, and all of those before the point: `0.021`, `5.1`, `47`, `1234`.
pub fn two_digits(value: f64) -> String {
    if value == 0.0 {
        return "0".into();
    }
    let digits = |value: f64| (1 - value.abs().log10().floor() as i32).clamp(0, 9) as usize;
    // rounding may carry into the next decade: 9.96 is 10
    let rounded: f64 = format!("{value:.*}", digits(value)).parse().unwrap_or(value);
    match rounded == 0.0 {
        true => "0".into(),
        false => format!("{value:.*}", digits(rounded)),
    }
}

/// A comparison, judged.
struct Part {
    text: String,
    shown: Shown,
    is_cost: bool,
    /// How many times what it was, the better way round: above 1 is worse.
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
}

impl Compared {
    fn part(&self, circumstances: &Circumstances) -> Option<Part> {
        let (before, after) = (median(&self.before)?, median(&self.after)?);
        let text = match self.form {
            Form::Values(show) => format!("{} {} -> {}", self.what, show(before), show(after)),
            Form::Times(as_what) => format!("{} {} {as_what}", self.what, times(after, before)),
        };
        let factor = match self.better {
            Better::Lower => after / before,
            Better::Higher => before / after,
        };
        let is_single = self.before.len() == 1 || self.after.len() == 1;
        let is_near = factor < FACTOR_OF_SINGLE_RUNS && factor > 1.0 / FACTOR_OF_SINGLE_RUNS;
        let shown = match () {
            () if before == after && circumstances.is_exact => Shown::Same,
            () if !is_single && !apart(&self.before, &self.after) => Shown::Overlap,
            () if is_single && !circumstances.is_exact && (is_near || before == after) => Shown::OneRun,
            () if (after < before) == (self.better == Better::Lower) => Shown::Better,
            () => Shown::Worse,
        };
        Some(Part {
            text,
            shown,
            is_cost: self.is_cost,
            factor,
        })
    }
}

/// The least 1, 2 or 5 times a power of ten that is not below `v`: nobody wants to type more digits.
fn round_up(v: f64) -> f64 {
    let decade = 10_f64.powf(v.log10().floor());
    let steps = [1.0, 2.0, 5.0, 10.0].map(|s| s * decade);
    steps
        .into_iter()
        .find(|&s| s >= v * (1.0 - 1e-9))
        .unwrap_or(decade * 10.0)
}

/// A scale as it is typed: no zeroes behind the last digit.
fn short(scale: f64) -> String {
    let text = format!("{scale:.4}");
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}

fn capital(text: &str) -> String {
    let mut letters = text.chars();
    letters
        .next()
        .map_or_else(String::new, |first| first.to_uppercase().chain(letters).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn compared(what: &str, before: &[f64], after: &[f64]) -> Compared {
        Compared {
            what: what.into(),
            form: Form::Values(time),
            better: Better::Lower,
            is_cost: false,
            before: before.into(),
            after: after.into(),
        }
    }

    fn writers(before: &[f64], after: &[f64]) -> Compared {
        Compared {
            form: Form::Times("as long"),
            is_cost: true,
            ..compared("writers took", before, after)
        }
    }

    fn measured(compared: &[Compared]) -> (Grade, String) {
        let verdict = judge(compared, &Circumstances::default()).unwrap();
        (verdict.grade, verdict.line)
    }

    const SLOWEST: ([f64; 3], [f64; 3]) = ([47e3, 40e3, 60e3], [5.1e3, 4e3, 9e3]);

    #[test]
    fn what_is_better_is_said_with_its_price() {
        let (grade, line) = measured(&[
            compared("slowest read", &SLOWEST.0, &SLOWEST.1),
            compared("one in 1000", &[21e3, 20e3, 22e3], &[1.8e3, 1.7e3, 1.9e3]),
            writers(&[10.0, 11.0, 10.5], &[9.7, 9.8, 10.2]),
        ]);
        assert_eq!(grade, Grade::Better);
        assert_eq!(
            line,
            "Slowest read 47 ms -> 5.1 ms, one in 1000 21 ms -> 1.8 ms; writers took 0.93 times as long (runs overlap)."
        );
    }

    #[test]
    fn a_high_price_is_in_the_grade() {
        let gain = compared("slowest read", &SLOWEST.0, &SLOWEST.1);
        let of = |price: Compared| measured(&[gain.clone(), price]).0;
        assert_eq!(of(writers(&[10.0, 10.1], &[13.0, 13.1])), Grade::BetterAtACost);
        assert_eq!(of(writers(&[10.0, 10.1], &[10.5, 10.6])), Grade::Better);
        assert_eq!(
            of(writers(&[10.0, 14.0], &[13.0, 13.1])),
            Grade::Better,
            "overlap"
        );
    }

    #[test]
    fn what_is_worse_is_called_worse() {
        let (grade, _) = measured(&[compared("slowest read", &SLOWEST.1, &SLOWEST.0)]);
        assert_eq!(grade, Grade::Worse);
        let (grade, line) = measured(&[
            compared("slowest read", &SLOWEST.0, &SLOWEST.1),
            compared("one in 1000", &[1e3, 1.1e3], &[2e3, 2.1e3]),
        ]);
        assert_eq!(grade, Grade::Mixed);
        assert!(line.ends_with("one in 1000 1.1 ms -> 2.0 ms (worse)."), "{line}");
    }

    #[test]
    fn more_may_be_better() {
        let rate = Compared {
            form: Form::Times("as many reads"),
            better: Better::Higher,
            ..compared("the reader got", &[100.0, 110.0], &[300.0, 310.0])
        };
        assert_eq!(
            measured(&[rate]),
            (Grade::Better, "The reader got 2.9 times as many reads.".into())
        );
    }

    #[test]
    fn runs_that_overlap_show_nothing() {
        let slowest = compared("slowest read", &[47e3, 60e3], &[45e3, 50e3]);
        let (grade, line) = measured(&[slowest.clone(), writers(&[1.0, 1.1], &[1.2, 1.3])]);
        assert_eq!(grade, Grade::NotShown);
        assert_eq!(
            line,
            "Not shown, runs overlap: slowest read 54 ms -> 48 ms; writers took 1.19 times as long."
        );
        let (grade, line) = measured(&[slowest, compared("one in 1000", &[21e3, 22e3], &[1e3, 1e3])]);
        assert_eq!(grade, Grade::Better);
        assert!(
            line.starts_with("Slowest read 54 ms -> 48 ms (runs overlap), "),
            "{line}"
        );
    }

    #[test]
    fn single_runs_show_what_is_twice_and_virtual_time_everything() {
        let near = [compared("slowest read", &[15e3], &[10e3])];
        assert_eq!(
            measured(&near),
            (
                Grade::NotShown,
                "Not shown, one run each: slowest read 15 ms -> 10 ms.".into()
            )
        );
        let far = [compared("slowest read", &[47e3], &[5e3])];
        assert_eq!(measured(&far).0, Grade::Better);
        let exact = Circumstances {
            is_exact: true,
            doubt: None,
        };
        let of = |compared| judge(compared, &exact).unwrap().grade;
        assert_eq!(of(&near), Grade::Better);
        assert_eq!(of(&[compared("slowest read", &[9.0], &[9.0])]), Grade::Same);
    }

    #[test]
    fn a_doubt_takes_the_verdict_and_leaves_the_figures() {
        let doubt = Circumstances {
            is_exact: false,
            doubt: Some("the machine was busy (load 6.1 on 2 processors)".into()),
        };
        let verdict = judge(&[compared("slowest read", &SLOWEST.0, &SLOWEST.1)], &doubt).unwrap();
        assert_eq!(verdict.grade, Grade::NotShown);
        assert_eq!(
            verdict.line,
            "Not shown, the machine was busy (load 6.1 on 2 processors): slowest read 47 ms -> 5.1 ms."
        );
    }

    #[test]
    fn what_a_side_has_not_measured_is_left_out() {
        let none = compared("one in 1000", &[], &[1.0]);
        assert_eq!(
            judge(std::slice::from_ref(&none), &Circumstances::default()),
            None
        );
        let (_, line) = measured(&[none, compared("slowest read", &SLOWEST.0, &SLOWEST.1)]);
        assert_eq!(line, "Slowest read 47 ms -> 5.1 ms.");
    }

    #[test]
    fn a_scale_that_is_too_small_names_one_that_is_not() {
        let line = |share, operations, seconds, scale| {
            too_small(share, operations, seconds, scale).map(|verdict| verdict.line)
        };
        assert_eq!(
            line(0.999, 400.0, 0.21, 0.02).unwrap(),
            "No verdict at --scale 0.02: the writers took 0.21 s. A tail needs 1 s: --scale 0.2 shows it."
        );
        assert_eq!(
            line(0.999, 2000.0, 4.0, 1.0).unwrap(),
            "No verdict at --scale 1: 2000 reads beside the writers. One in 1000 needs 3000: --scale 2 shows it."
        );
        assert_eq!(line(0.999, 3001.0, 1.0, 1.0), None);
    }

    #[test]
    fn verdicts_have_two_digits() {
        let table = [
            (480.4, "480 us"),
            (5_110.0, "5.1 ms"),
            (996.0, "1.0 ms"),
            (46_900.0, "47 ms"),
            (0.0, "0 us"),
        ];
        for (us, text) in table {
            assert_eq!(time(us), text);
        }
        assert_eq!([9.96, 0.021, 1234.4].map(two_digits), ["10", "0.021", "1234"]);
    }
}
