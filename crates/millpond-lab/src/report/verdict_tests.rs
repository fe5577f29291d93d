//! What verdicts say, and when they say that nothing is shown.

use super::*;

fn compared(what: &'static str, before: &[f64], after: &[f64]) -> Compared {
    Figure::new(what, "", time).of(before, after)
}

fn writers(before: &[f64], after: &[f64]) -> Compared {
    Figure::new("writers took", "", time)
        .cost("as long")
        .of(before, after)
}

fn measured(compared: &[Compared]) -> (Grade, String) {
    let verdict = judge(compared, &Circumstances::default()).unwrap();
    (verdict.grade, verdict.line)
}

const SLOWEST: ([f64; 3], [f64; 3]) = ([47e3, 40e3, 60e3], [5.1e3, 4e3, 9e3]);

#[test]
fn a_better_result_is_stated_with_its_price() {
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
}

/// A gain was graded although it had writers take 3.5 times as long: their runs overlapped, or there was one of each.
#[test]
fn a_price_that_is_not_settled_is_in_the_grade() {
    let gain = compared("slowest read", &SLOWEST.0, &SLOWEST.1);
    let of = |price: Compared| measured(&[gain.clone(), price]);
    let (grade, line) = of(writers(&[10.0, 40.0, 11.0], &[38.0, 12.0, 39.0]));
    assert_eq!(grade, Grade::BetterPriceOpen);
    assert!(
        line.ends_with("writers took 3.5 times as long (runs overlap)."),
        "{line}"
    );
    assert_eq!(grade.to_string(), "better, price not settled");
    assert_eq!(
        of(writers(&[10.0], &[19.5])).0,
        Grade::BetterPriceOpen,
        "one run each"
    );
    assert_eq!(of(writers(&[10.0], &[20.5])).0, Grade::BetterAtACost);
    assert_eq!(
        of(writers(&[10.0, 14.0], &[12.9, 13.1])).0,
        Grade::Better,
        "1.08 times"
    );
    assert_eq!(of(writers(&[10.0], &[10.8])).0, Grade::Better);
}

#[test]
fn a_price_without_a_gain_is_worse() {
    let gain = compared("slowest read", &[47e3], &[45e3]);
    let (grade, line) = measured(&[gain.clone(), writers(&[10.0], &[43.0])]);
    assert_eq!(
        (grade, line.as_str()),
        (
            Grade::Worse,
            "Slowest read 47 ms -> 45 ms (one run each); writers took 4.3 times as long."
        )
    );
    assert_eq!(measured(&[gain, writers(&[10.0], &[15.0])]).0, Grade::NotShown);
}

#[test]
fn a_bound_that_is_missed_is_in_the_grade() {
    let missed = Circumstances {
        missed: vec!["direct scans 2.8 % (at most 0.1)".into()],
        ..Circumstances::default()
    };
    let verdict = judge(&[compared("slowest read", &SLOWEST.0, &SLOWEST.1)], &missed).unwrap();
    assert_eq!(verdict.grade, Grade::Mixed);
    assert_eq!(
        verdict.line,
        "Slowest read 47 ms -> 5.1 ms; bounds missed: direct scans 2.8 % (at most 0.1)."
    );
}

#[test]
fn runs_that_overlap_show_a_difference_that_is_there_in_each_of_six_rounds() {
    // a machine that others make slower and slower
    let before = [10e3, 20e3, 30e3, 40e3, 50e3, 60e3];
    let after = before.map(|us| us * 0.8);
    let (grade, line) = measured(&[compared("slowest read", &before, &after)]);
    assert_eq!(
        (grade, line.as_str()),
        (Grade::Better, "Slowest read 35 ms -> 28 ms.")
    );
    let of = |before: &[f64], after: &[f64]| measured(&[compared("slowest read", before, after)]).0;
    assert_eq!(of(&after, &before), Grade::Worse);
    assert_eq!(of(&before[1..], &after[1..]), Grade::NotShown, "five rounds");
    let mut one_is_not = after;
    one_is_not[3] = 41e3;
    assert_eq!(of(&before, &one_is_not), Grade::NotShown);
}

#[test]
fn a_worse_result_is_called_worse() {
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
    let rate = Figure::new("the reader got", "", time).higher();
    let rate = rate.times("as many reads").of(&[100.0, 110.0], &[300.0, 310.0]);
    assert_eq!(
        measured(&[rate]),
        (Grade::Better, "The reader got 2.9 times as many reads.".into())
    );
}

#[test]
fn runs_that_overlap_show_nothing() {
    let slowest = compared("slowest read", &[47e3, 60e3], &[45e3, 50e3]);
    let (grade, line) = measured(&[slowest.clone(), writers(&[1.0, 1.3], &[1.2, 1.3])]);
    assert_eq!(grade, Grade::NotShown);
    assert_eq!(
        line,
        "Not shown, runs overlap: slowest read 54 ms -> 48 ms; writers took 1.09 times as long (runs overlap)."
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
        ..Circumstances::default()
    };
    let of = |compared: &[Compared]| judge(compared, &exact).unwrap().grade;
    assert_eq!(of(&near), Grade::Better);
    assert_eq!(of(&[compared("slowest read", &[9.0], &[9.0])]), Grade::Same);
    assert_eq!(of(&[compared("slowest read", &[900.0], &[901.0])]), Grade::Same);
}

#[test]
fn a_doubt_takes_the_verdict_and_leaves_the_figures() {
    let doubt = Circumstances {
        is_exact: false,
        doubt: Some("the machine was busy (load 6.1 on 2 processors)".into()),
        ..Circumstances::default()
    };
    let verdict = judge(&[compared("slowest read", &SLOWEST.0, &SLOWEST.1)], &doubt).unwrap();
    assert_eq!(verdict.grade, Grade::NotShown);
    assert_eq!(
        verdict.line,
        "Not shown, the machine was busy (load 6.1 on 2 processors): slowest read 47 ms -> 5.1 ms."
    );
}

#[test]
fn figures_that_a_side_has_not_measured_are_left_out() {
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
        too_small(share, "read", operations, seconds, scale).map(|verdict| verdict.line)
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
        (5_000.0, "5 ms"),
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

#[test]
fn the_sides_stand_before_the_line() {
    let of = |compared: Compared| judge(&[compared], &Circumstances::default()).unwrap();
    let sides = "the kernel -> Millpond";
    assert_eq!(
        of(compared("slowest read", &SLOWEST.0, &SLOWEST.1)).between(sides),
        "The kernel -> Millpond: better. Slowest read 47 ms -> 5.1 ms."
    );
    assert_eq!(
        of(compared("slowest read", &SLOWEST.0, &SLOWEST.0)).between(sides),
        "The kernel -> Millpond: not shown, runs overlap: slowest read 47 ms -> 47 ms."
    );
    assert_eq!(
        Verdict::none(0.1, "reclaim had nothing to write", 1.0).between(sides),
        "The kernel -> Millpond: no verdict at --scale 0.1: reclaim had nothing to write: --scale 1 shows it."
    );
}

#[test]
fn ratios_have_as_many_digits_as_they_deserve() {
    let table = [
        (1.03, "1.03 times"),
        (0.5, "0.50 times"),
        (0.0123, "0.0123 times"),
        (2.04, "2.0 times"),
        (34.6, "35 times"),
    ];
    for (value, text) in table {
        assert_eq!(times(value, 1.0), text);
    }
    assert_eq!(times(1.0, 0.0), "incomparably more");
}
