//! Comparisons as sentences say them.

use super::Metric;
use millpond::internal::quantity::number;

/// "3.2 times", "half", "the same": how large `value` is, measured by `base`.
pub fn times(value: f64, base: f64) -> String {
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

/// "35% more", "12% less", "as much" (within half a percent).
pub fn percent_more(value: f64, base: f64) -> String {
    let percent = (value / base - 1.0) * 100.0;
    match percent {
        _ if !percent.is_finite() => "incomparably more".into(),
        _ if percent.abs() < 0.5 => "as much".into(),
        _ if percent > 0.0 => format!("{percent:.0}% more"),
        _ => format!("{:.0}% less", -percent),
    }
}

/// "17.5 % less", "3.2 % more", "as much" (within a twentieth of a percent).
pub fn change(value: f64, base: f64) -> String {
    let percent = (value / base - 1.0) * 100.0;
    match percent {
        _ if !percent.is_finite() => "incomparably more".into(),
        _ if percent.abs() < 0.05 => "as much".into(),
        _ if percent > 0.0 => format!("{percent:.1} % more"),
        _ => format!("{:.1} % less", -percent),
    }
}

/// Whether the runs of two metrics overlap: then their medians differ by no more than runs of one of them do.
/// Single runs say nothing about that and count as apart.
pub fn overlap(a: &Metric, b: &Metric) -> bool {
    a.runs.len() >= 2 && b.runs.len() >= 2 && !apart(&a.runs, &b.runs)
}

/// Whether all values of one are below all of the other.
pub(super) fn apart(a: &[f64], b: &[f64]) -> bool {
    let range = |values: &[f64]| {
        values.iter().fold((f64::MAX, f64::MIN), |(least, greatest), &v| {
            (least.min(v), greatest.max(v))
        })
    };
    let ((a_least, a_greatest), (b_least, b_greatest)) = (range(a), range(b));
    a_least > b_greatest || b_least > a_greatest
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::tests::runs;

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
        assert_eq!(percent_more(89.4, 66.3), "35% more");
        assert_eq!(percent_more(66.0, 66.1), "as much");
        assert_eq!(percent_more(50.0, 100.0), "50% less");
        assert_eq!(change(82.5, 100.0), "17.5 % less");
        assert_eq!(change(103.2, 100.0), "3.2 % more");
        assert_eq!(change(100.04, 100.0), "as much");
    }

    #[test]
    fn runs_overlap_where_the_least_of_one_is_not_above_the_greatest_of_the_other() {
        let metric = |values: &[f64]| runs("t", "v", "m", values).metrics("x").remove(0);
        assert!(overlap(&metric(&[1.0, 5.0]), &metric(&[4.0, 9.0])));
        assert!(overlap(&metric(&[4.0, 9.0]), &metric(&[1.0, 5.0])));
        assert!(!overlap(&metric(&[1.0, 3.0]), &metric(&[4.0, 9.0])));
        assert!(
            !overlap(&metric(&[1.0]), &metric(&[1.0])),
            "one run shows no spread"
        );
    }
}
