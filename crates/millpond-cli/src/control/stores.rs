//! The stores behind a cache's device, for `stat --stores` and `top`: what each reports, by name and unit.

use super::stat::Span;
use super::{ago, count, list, shown, text};
use millpond::internal::quantity::{micros, number, size};
use millpond_core::units::Bytes;
use serde::Serialize;
use serde_json::Value;

/// A store, and its figures in its own order.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Store {
    pub(crate) name: String,
    pub(crate) figures: Vec<Figure>,
}

/// A figure of a store in an interval.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Figure {
    name: String,
    #[serde(flatten)]
    value: Shown,
}

/// The present value, or the rate a second.
#[derive(Clone, Copy, Debug, Serialize)]
#[serde(untagged)]
enum Shown {
    Rate {
        per_s: f64,
    },
    BytesRate {
        bytes_per_s: f64,
    },
    /// With the average time of one, if there was one.
    Timed {
        per_s: f64,
        mean_ns: Option<f64>,
    },
    Number {
        value: u64,
    },
    Bytes {
        bytes: u64,
    },
    Time {
        ns: u64,
    },
}

impl Store {
    /// All stores in an answer to `stat`, and their activity since the answer before.
    pub(crate) fn all(span: &Span<'_>) -> Vec<Store> {
        let stores = list(span.now, "stores").iter();
        let store = |now: &Value| {
            let before = list(span.before, "stores").iter();
            let before = before.clone().find(|before| before["name"] == now["name"]);
            let figure = |now: &Value| {
                let before = before.and_then(|before| {
                    let mut figures = list(before, "figures").iter();
                    figures.find(|before| before["name"] == now["name"])
                });
                Figure::of(before.unwrap_or(&Value::Null), now, span.seconds())
            };
            Store {
                name: shown(text(now, "name")),
                figures: list(now, "figures").iter().filter_map(figure).collect(),
            }
        };
        stores.map(store).collect()
    }

    /// Its figures in lines of this width, without unimportant zeros.
    pub(crate) fn lines(&self, width: usize) -> Vec<String> {
        let mut lines = Vec::<String>::new();
        for told in self.figures.iter().filter_map(Figure::told) {
            match lines.last_mut() {
                Some(line) if line.chars().count() + 2 + told.chars().count() <= width => {
                    *line += "  ";
                    *line += &told;
                }
                _ => lines.push(told),
            }
        }
        lines
    }
}

impl Figure {
    /// `None`: its unit is from a newer version.
    fn of(before: &Value, now: &Value, seconds: f64) -> Option<Figure> {
        let value = count(now, "value");
        let grown = |name: &str| count(now, name).saturating_sub(count(before, name)) as f64;
        let per_s = grown("value") / seconds;
        let value = match text(now, "unit") {
            "total" => Shown::Rate { per_s },
            "total_bytes" => Shown::BytesRate { bytes_per_s: per_s },
            "timed" => Shown::Timed {
                per_s,
                mean_ns: (per_s > 0.0).then(|| grown("ns") / grown("value")),
            },
            "number" => Shown::Number { value },
            "bytes" => Shown::Bytes { bytes: value },
            "ns" => Shown::Time { ns: value },
            _ => return None,
        };
        let name = shown(text(now, "name"));
        Some(Figure { name, value })
    }

    /// For people.
    fn told(&self) -> Option<String> {
        let value = match self.value {
            Shown::Number { value: 0 } => return None,
            Shown::Number { value } => value.to_string(),
            Shown::Rate { per_s } => format!("{}/s", number(per_s)),
            Shown::BytesRate { bytes_per_s } => format!("{}/s", size(Bytes(bytes_per_s as u64))),
            Shown::Timed { per_s, mean_ns } => match mean_ns {
                Some(ns) => format!("{}/s of {}", number(per_s), micros(ns / 1e3)),
                None => String::from("0/s"),
            },
            Shown::Bytes { bytes } => size(Bytes(bytes)),
            Shown::Time { ns } if ns < 10_000_000_000 => micros(ns as f64 / 1e3),
            Shown::Time { ns } => ago(ns as f64 / 1e9),
        };
        Some(format!("{} {value}", self.name.replace('_', " ")))
    }
}

/// The output of `stat --stores` for an interval.
pub(super) fn table(span: &Span<'_>) -> String {
    let stores = Store::all(span);
    if stores.is_empty() {
        return String::from("the device of this cache has no stores\n");
    }
    let mut lines = String::new();
    for store in stores {
        lines += &format!("{}\n", store.name);
        for line in store.lines(76) {
            lines += &format!("    {line}\n");
        }
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn stat(age_s: f64, times: u64, fenced: u64) -> Value {
        let figure =
            |name: &str, unit: &str, value: u64| json!({ "name": name, "unit": unit, "value": value });
        let mut put = figure("put", "timed", 4 * times);
        put["ns"] = (times * 124_000_000).into();
        let figures = [
            figure("fenced", "number", fenced),
            figure("commits", "total", 3 * times),
            figure("commit_age", "ns", 250_000_000),
            put,
            figure("written", "total_bytes", times << 21),
            figure("garbage", "bytes", 5 << 20),
            figure("longest", "ns", 60_000_000_000),
            figure("news", "of a newer version", 1),
        ];
        json!({ "age_s": age_s, "counters": {}, "stores": [{ "name": "s3://bucket/a", "figures": figures }] })
    }

    #[test]
    fn a_store_is_shown_by_the_units_that_it_gives() {
        let (before, now) = (stat(10.0, 3, 0), stat(12.0, 4, 0));
        let span = Span {
            before: &before,
            now: &now,
        };
        let all = "commits 1.50/s  commit age 250 ms  put 2.00/s of 31.0 ms  written 1 MiB/s\n    \
                   garbage 5 MiB  longest 60.0 s\n";
        assert_eq!(table(&span), format!("s3://bucket/a\n    {all}"));
        let idle = Span {
            before: &now,
            now: &stat(13.0, 4, 1),
        };
        assert_eq!(
            Store::all(&idle)[0].lines(500),
            [
                "fenced 1  commits 0/s  commit age 250 ms  put 0/s  written 0 B/s  garbage 5 MiB  longest 60.0 s"
            ]
        );
        let json = serde_json::to_value(Store::all(&span)).unwrap();
        let put = &json[0]["figures"][3];
        assert_eq!(
            put,
            &json!({ "name": "put", "per_s": 2.0, "mean_ns": 31_000_000.0 })
        );
    }

    #[test]
    fn a_cache_without_stores_says_so() {
        let stat = json!({ "age_s": 1.0, "counters": {}, "stores": [] });
        let span = Span {
            before: &stat,
            now: &stat,
        };
        assert_eq!(table(&span), "the device of this cache has no stores\n");
    }
}
