//! The demo's answer: what its rounds say, and what speaks against believing it.

use super::{Plan, Round, Side};
use crate::measure::others::Others;
use crate::report::median;
use crate::report::verdict::{Circumstances, Compared, Figure, Grade, Verdict, judge, lacks_time, time};

/// The measurements of a run of one side.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Figures {
    /// Reads that were no hits.
    pub reads: f64,
    /// Reads a second, hits among them.
    pub reads_per_s: f64,
    /// The middle one of their latencies, in microseconds.
    pub p50_us: f64,
    /// One read in 100 took as long or longer.
    pub p99_us: f64,
    /// One read in 1000.
    pub p999_us: f64,
    /// The slowest.
    pub slowest_us: f64,
    /// The time of the writers, including their sync, in seconds.
    pub writers_s: f64,
}

/// The median of a figure over rounds.
pub fn median_of(rounds: &[Round], figure: impl Fn(&Figures) -> f64) -> f64 {
    median(&values(rounds, figure)).unwrap_or_default()
}

fn values(rounds: &[Round], figure: impl Fn(&Figures) -> f64) -> Vec<f64> {
    rounds.iter().map(|round| figure(&round.figures)).collect()
}

/// With fewer reads in a run, one in 1000 is the luck of a few, and one in 100 counts.
const READS_MIN_P999: f64 = 3000.0;
const READS_MIN_P99: f64 = 300.0;

/// The percentiles of these rounds that there are reads enough for in each: p99 and p99.9.
pub fn tails(rounds: &[Round]) -> [Option<f64>; 2] {
    let least = rounds
        .iter()
        .map(|round| round.figures.reads)
        .fold(f64::MAX, f64::min);
    let is_enough = |needed: f64| !rounds.is_empty() && least >= needed;
    [
        is_enough(READS_MIN_P99).then(|| median_of(rounds, |run| run.p99_us)),
        is_enough(READS_MIN_P999).then(|| median_of(rounds, |run| run.p999_us)),
    ]
}

/// While the kernel's tail is below this multiple of its usual read, writers are in no reader's way.
const TAIL_MIN: f64 = 4.0;

/// How a figure is taken from a run.
pub(super) type Of = fn(&Figures) -> f64;

/// The tail that there are reads enough for.
pub(super) struct Tail {
    pub(super) name: &'static str,
    pub(super) figure: Of,
    /// Of the run with the fewest.
    reads: f64,
}

impl Tail {
    pub(super) fn of(rounds: &[Vec<Round>; 2]) -> Tail {
        let all = rounds.iter().flatten();
        let reads = all.map(|round| round.figures.reads).fold(f64::MAX, f64::min);
        let (name, figure): (_, Of) = match reads {
            reads if reads >= READS_MIN_P999 => ("one in 1000", |run| run.p999_us),
            _ => ("one in 100", |run| run.p99_us),
        };
        Tail { name, figure, reads }
    }
}

/// The compared figures of both sides, `tail` with its name.
pub(super) fn compared(before: &[Round], after: &[Round], (tail, of): (&'static str, Of)) -> [Compared; 3] {
    let figure = |what| Figure::new(what, "", time);
    let of_all: [(Figure, Of); 3] = [
        (figure("slowest read"), |run| run.slowest_us),
        (figure(tail), of),
        (figure("writers took").cost("as long"), |run| run.writers_s),
    ];
    of_all.map(|(figure, of)| figure.of(&values(before, of), &values(after, of)))
}

/// The verdict where nothing was run.
pub(super) fn no_run() -> Verdict {
    Verdict {
        grade: Grade::None,
        line: "No verdict: no run was made.".into(),
    }
}

/// The verdict, with the memory that each side had. `others`: what others took of the machine before the first run or after
/// the last, whichever was more.
pub(super) fn verdict(plan: &Plan, rounds: &[Vec<Round>; 2], others: Option<Others>) -> Verdict {
    let [kernel, millpond] = rounds;
    let Tail {
        name: tail,
        figure: of,
        reads,
    } = Tail::of(rounds);
    let compared = compared(kernel, millpond, (tail, of));
    let judged = |doubt| {
        judge(
            &compared,
            &Circumstances {
                is_exact: false,
                doubt,
                ..Circumstances::default()
            },
        )
    };
    let shortest = rounds
        .iter()
        .map(|side| median_of(side, |run| run.writers_s))
        .fold(f64::MAX, f64::min);
    let and_quiet = match others.filter(Others::is_busy) {
        Some(others) => format!(" on a quieter machine (others used {others})"),
        None => String::new(),
    };
    let few = if let Some(lacks) = lacks_time(shortest) {
        Some(format!("{lacks}: --seconds 120 has longer runs{and_quiet}"))
    } else if reads < READS_MIN_P99 {
        Some(format!(
            "a run has only {reads:.0} reads from the disk, and a tail needs {READS_MIN_P99}: --seconds 120 has more{and_quiet}"
        ))
    } else {
        None
    };
    let mut verdict = judged(few.clone());
    if few.is_none()
        && verdict
            .as_ref()
            .is_some_and(|verdict| verdict.grade == Grade::NotShown)
    {
        verdict = judged(doubt(rounds, (tail, of), others));
    }
    let mut verdict = verdict.unwrap_or_else(no_run);
    verdict.line += &format!(" {}", plan.memory_said());
    verdict
}

/// Why no difference is shown, where it is more than runs that overlap.
fn doubt(rounds: &[Vec<Round>; 2], (tail, of): (&str, Of), others: Option<Others>) -> Option<String> {
    let kernel = values(&rounds[Side::Kernel as usize], of);
    let usual = median_of(&rounds[Side::Kernel as usize], |run| run.p50_us);
    if kernel.iter().all(|&us| us < usual * TAIL_MIN) {
        let (tail_us, usual) = (time(median(&kernel).unwrap_or_default()), time(usual));
        return Some(format!(
            "the disk is so fast that writers hardly slow reads (the kernel's median read took {usual}, {tail} {tail_us})"
        ));
    }
    let others = others.filter(Others::is_busy)?;
    Some(format!(
        "runs overlap and the machine was busy (others used {others})"
    ))
}
