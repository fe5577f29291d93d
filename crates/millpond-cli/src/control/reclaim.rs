//! `millpond stat --reclaim`: what reclaim scans at the cold end of memory, and what it does there.

use super::count;
use super::stat::{Span, short};
use serde_json::Value;

/// The number of samples below a table.
const SAMPLES: usize = 8;
const COLUMNS: [(&str, &str); 4] = [
    ("background_file", "file"),
    ("background_region", "region"),
    ("direct_file", "file"),
    ("direct_region", "region"),
];

/// Pages a second by outcome, and the last samples.
pub(super) fn table(span: &Span<'_>) -> String {
    let mut lines = format!(
        "{:32} {:^17} {:^17}\n{:32}",
        "", "background", "direct", "pages/s"
    );
    for (_, kind) in COLUMNS {
        lines += &format!(" {kind:>8}");
    }
    lines += "\n";
    let none = vec![];
    let list = |stat: &'_ Value| stat["outcomes"].as_array().cloned().unwrap_or_default();
    let (before, now) = (list(span.before), list(span.now));
    let mut is_any = false;
    for outcome in &now {
        let name = &outcome["outcome"];
        let earlier = before
            .iter()
            .find(|one| one["outcome"] == *name)
            .unwrap_or(&Value::Null);
        let grown = COLUMNS.map(|(column, _)| count(outcome, column).saturating_sub(count(earlier, column)));
        if grown == [0; 4] {
            continue;
        }
        is_any = true;
        lines += &format!("{:32}", name.as_str().unwrap_or("?"));
        for pages in grown {
            lines += &format!(" {:>8}", short(pages as f64 / span.seconds()));
        }
        lines += "\n";
    }
    if !is_any {
        return lines + "nothing was scanned\n\n";
    }
    let samples = span.now["samples"].as_array().unwrap_or(&none);
    let recent = samples
        .iter()
        .filter(|one| one["ago_s"].as_f64().is_some_and(|ago| ago <= span.seconds()));
    let recent: Vec<&Value> = recent.collect();
    for sample in recent.iter().skip(recent.len().saturating_sub(SAMPLES)) {
        let ago = sample["ago_s"].as_f64().unwrap_or(0.0);
        let owner = sample["path"].as_str().unwrap_or("a region");
        lines += &format!(
            "{:>9.1} ms ago: {}, page {} of {owner}; {}, priority {}\n",
            ago * 1e3,
            sample["outcome"].as_str().unwrap_or("?"),
            count(sample, "page"),
            match sample["by"].as_str() {
                Some("direct") => "direct",
                _ => "in the background",
            },
            count(sample, "priority"),
        );
    }
    lines + "\n"
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn decisions_between_two_answers_are_rates_with_the_last_samples_below() {
        let answer = |age_s: f64, freed: u64, ago_s: f64| {
            json!({
                "age_s": age_s,
                "outcomes": [
                    { "outcome": "clean: freed", "background_file": freed, "background_region": 0, "direct_file": 7, "direct_region": 0 },
                    { "outcome": "dirty: tagged", "background_file": 5, "background_region": 0, "direct_file": 0, "direct_region": 0 },
                ],
                "samples": [
                    { "ago_s": 9.0, "by": "direct", "kind": "file", "path": "/a", "page": 1, "priority": 12, "outcome": "dirty: tagged" },
                    { "ago_s": ago_s, "by": "background", "kind": "region", "path": null, "page": 3, "priority": 12, "outcome": "clean: freed" },
                ],
            })
        };
        let (before, now) = (answer(10.0, 100, 9.0), answer(12.0, 300, 0.5));
        let table = table(&Span {
            before: &before,
            now: &now,
        });
        let freed = table
            .lines()
            .find(|line| line.starts_with("clean: freed"))
            .unwrap();
        assert_eq!(
            freed.split_whitespace().skip(2).collect::<Vec<_>>(),
            ["100", "0", "0", "0"]
        );
        assert!(
            !table.contains("tagged"),
            "nothing was tagged, and the sample is older:\n{table}"
        );
        assert!(
            table.contains("500.0 ms ago: clean: freed, page 3 of a region; in the background, priority 12")
        );
        let nothing = super::table(&Span {
            before: &now,
            now: &now,
        });
        assert!(nothing.contains("nothing was scanned"));
    }
}
