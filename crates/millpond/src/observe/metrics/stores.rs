//! The figures that stores report, by name and unit.

use super::families::seconds;
use super::text::Kind::{Counter, Gauge, Summary};
use super::text::{Kind, Text};
use crate::device::{StoreFigure, StoreFigures, StoreValue};

/// A family of each figure, with a sample of each store that has it.
pub(super) fn families(stores: &[StoreFigures], text: &mut Text) {
    let mut shown: Vec<(&str, &str)> = Vec::new();
    for figure in stores.iter().flat_map(|store| &store.figures) {
        let (kind, ending) = unit(figure.value);
        // The format requires all samples of a family after its one head.
        if shown.contains(&(figure.name, ending)) {
            continue;
        }
        shown.push((figure.name, ending));
        let mut family = text.family(&name(figure), kind, figure.about);
        for store in stores {
            let is_it = |same: &&StoreFigure| same.name == figure.name && unit(same.value).1 == ending;
            let labels = [("store", &*store.name)];
            match store.figures.iter().find(is_it).map(|same| same.value) {
                Some(StoreValue::Total(n) | StoreValue::Number(n)) => family.sample("", &labels, n as f64),
                Some(StoreValue::TotalBytes(n) | StoreValue::Bytes(n)) => {
                    family.sample("", &labels, n.0 as f64)
                }
                Some(StoreValue::Time(time)) => family.sample("", &labels, seconds(time.0)),
                Some(StoreValue::Timed(count, time)) => {
                    family.sample("_sum", &labels, seconds(time.0));
                    family.sample("_count", &labels, count as f64);
                }
                None => {}
            }
        }
    }
}

fn name(figure: &StoreFigure) -> String {
    format!("millpond_store_{}{}", figure.name, unit(figure.value).1)
}

/// What a family of such values is, and how its name ends.
fn unit(value: StoreValue) -> (Kind, &'static str) {
    match value {
        StoreValue::Total(_) => (Counter, "_total"),
        StoreValue::TotalBytes(_) => (Counter, "_bytes_total"),
        StoreValue::Timed(..) => (Summary, "_seconds"),
        StoreValue::Number(_) => (Gauge, ""),
        StoreValue::Bytes(_) => (Gauge, "_bytes"),
        StoreValue::Time(_) => (Gauge, "_seconds"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use millpond_core::units::{Bytes, Nanos};

    #[test]
    fn a_figure_of_two_stores_is_one_family_with_a_sample_of_each() {
        let figure = |name, value| StoreFigure {
            name,
            about: "What it is.",
            value,
        };
        let store = |name: &str, figures: &[StoreFigure]| StoreFigures {
            name: name.into(),
            figures: figures.into(),
        };
        let put = StoreValue::Timed(4, Nanos::from_millis(120));
        let stores = [
            store(
                "s3://a",
                &[figure("commits", StoreValue::Total(7)), figure("put", put)],
            ),
            store(
                "s3://b",
                &[
                    figure("put", StoreValue::Timed(0, Nanos(0))),
                    figure("written", StoreValue::TotalBytes(Bytes(9))),
                    figure("last_commit_age", StoreValue::Time(Nanos::from_millis(1500))),
                ],
            ),
        ];
        let mut text = Text::default();
        families(&stores, &mut text);
        let text = text.into_string();
        let samples: Vec<_> = text.lines().filter(|line| !line.starts_with("# HELP")).collect();
        assert_eq!(
            samples,
            [
                "# TYPE millpond_store_commits_total counter",
                "millpond_store_commits_total{store=\"s3://a\"} 7",
                "# TYPE millpond_store_put_seconds summary",
                "millpond_store_put_seconds_sum{store=\"s3://a\"} 0.12",
                "millpond_store_put_seconds_count{store=\"s3://a\"} 4",
                "millpond_store_put_seconds_sum{store=\"s3://b\"} 0",
                "millpond_store_put_seconds_count{store=\"s3://b\"} 0",
                "# TYPE millpond_store_written_bytes_total counter",
                "millpond_store_written_bytes_total{store=\"s3://b\"} 9",
                "# TYPE millpond_store_last_commit_age_seconds gauge",
                "millpond_store_last_commit_age_seconds{store=\"s3://b\"} 1.5",
            ]
        );
    }
}
