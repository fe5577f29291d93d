//! Medians of rounds.

/// The middle of some figures, and how far they lie apart.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Spread {
    /// Half of the figures are not larger.
    pub median: f64,
    /// A quarter of them is not larger.
    pub low: f64,
    /// A quarter of them is not smaller.
    pub high: f64,
}

impl Spread {
    /// Of these figures. Of four or less it is the least and the greatest; `None` of none.
    pub fn of(mut figures: Vec<f64>) -> Option<Spread> {
        figures.sort_by(f64::total_cmp);
        let last = figures.len().checked_sub(1)?;
        let at = |rank: usize| figures.get(rank).copied();
        Some(Spread {
            median: at(last.div_ceil(2))?,
            low: at(last / 4)?,
            high: at(last - last / 4)?,
        })
    }
}

/// Three digits of a figure, as a table shows it.
pub fn digits(figure: f64) -> String {
    match figure.abs() {
        size if size < 9.995 => format!("{figure:.2}"),
        size if size < 99.95 => format!("{figure:.1}"),
        _ => format!("{figure:.0}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_spread_is_the_quarters_of_what_was_measured() {
        let spread = Spread::of(vec![9.0, 1.0, 5.0, 3.0, 7.0]).unwrap();
        assert_eq!((spread.low, spread.median, spread.high), (3.0, 5.0, 7.0));
        let few = Spread::of(vec![4.0, 8.0, 6.0]).unwrap();
        assert_eq!((few.low, few.median, few.high), (4.0, 6.0, 8.0));
        let one = Spread::of(vec![2.0]).unwrap();
        assert_eq!((one.low, one.median, one.high), (2.0, 2.0, 2.0));
        assert_eq!(Spread::of(vec![]), None);
    }

    #[test]
    fn figures_have_three_digits() {
        assert_eq!(
            [1.234, 12.34, 99.96, 1234.4].map(digits),
            ["1.23", "12.3", "100", "1234"]
        );
    }
}
