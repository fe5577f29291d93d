//! A plot of a few lines in a terminal.
//!
//! Columns are the sizes of memory, equally far apart as they usually double; rows are the share of pages that missed, from
//! none at the bottom to the largest of all at the top.

/// Rows of the plot.
const ROWS: usize = 12;
/// Characters to a size of memory.
const COLUMN: usize = 11;
/// The characters of the lines, in their order.
const MARKS: [char; 12] = ['*', 'o', '+', 'x', '#', '@', '%', '&', '=', '~', '^', '$'];

/// Draws lines, each with its name and a value for each column. Where several meet, the first is shown.
pub fn plot(
    title: &str,
    columns: &[String],
    lines: &[(String, Vec<f64>)],
    show: fn(f64) -> String,
) -> String {
    let values = lines.iter().flat_map(|(_, values)| values);
    let top = values.copied().fold(0.0, f64::max);
    if top <= 0.0 {
        return String::new();
    }
    let mut grid = vec![vec![' '; columns.len() * COLUMN]; ROWS + 1];
    let row = |value: f64| ((value / top) * ROWS as f64).round() as usize;
    let place = |column: usize| column * COLUMN + COLUMN / 2;
    for (n, (_, values)) in lines.iter().enumerate().rev() {
        for (column, pair) in values.windows(2).enumerate() {
            // Dots on the way to the next one.
            for step in 1..COLUMN {
                let share = step as f64 / COLUMN as f64;
                let at = row(pair[0] + (pair[1] - pair[0]) * share);
                let cell = &mut grid[at][place(column) + step];
                *cell = if *cell == ' ' { '.' } else { *cell };
            }
        }
        for (column, &value) in values.iter().enumerate() {
            grid[row(value)][place(column)] = MARKS[n % MARKS.len()];
        }
    }
    let mut text = format!("{title}\n");
    for (n, cells) in grid.iter().enumerate().rev() {
        let label = match n {
            0 => show(0.0),
            _ if n % 4 == 0 => show(top * n as f64 / ROWS as f64),
            _ => String::new(),
        };
        let line: String = cells.iter().collect();
        text += &format!("{label:>9} |{}\n", line.trim_end());
    }
    text += &format!("{:>9} +{}\n", "", "-".repeat(columns.len() * COLUMN));
    let names: String = columns.iter().map(|name| format!("{name:^COLUMN$}")).collect();
    text += &format!("{:>9}  {}\n", "", names.trim_end());
    let legend = lines
        .iter()
        .enumerate()
        .map(|(n, (name, _))| format!("{} {name}", MARKS[n % MARKS.len()]));
    text += &format!("{:>9}  {}\n", "", legend.collect::<Vec<_>>().join("   "));
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_fall_from_left_to_right_and_carry_their_marks() {
        let columns = ["1 MiB".to_owned(), "2 MiB".to_owned(), "4 MiB".to_owned()];
        let lines = [
            ("millpond".to_owned(), vec![50.0, 25.0, 0.0]),
            ("lru".to_owned(), vec![50.0, 50.0, 0.0]),
        ];
        let text = plot("missed", &columns, &lines, |v| format!("{v:.0} %"));
        let rows: Vec<&str> = text.lines().collect();
        assert_eq!(rows[0], "missed");
        assert_eq!(rows[1].trim_end(), "     50 % |     *..........o");
        assert!(rows[7].contains('*'), "{text}");
        assert!(rows[13].starts_with("      0 % |"), "{text}");
        assert!(rows[13].ends_with('*'), "{text}");
        assert!(rows[16].contains("* millpond   o lru"), "{text}");
        assert!(text.lines().all(|line| line.len() <= 80), "{text}");
    }

    #[test]
    fn no_plot_without_misses() {
        assert_eq!(
            plot("t", &["1".into()], &[("a".into(), vec![0.0])], |v| v.to_string()),
            ""
        );
    }
}
