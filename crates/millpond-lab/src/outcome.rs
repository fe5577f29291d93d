//! The result of one run of a workload on a target.
//!
//! The same shape comes from a real run in a child process (as JSON through a pipe) and from a simulator
//! (as a value): numbers with names and units, series over time, the curve of percentiles, and in words
//! what was set and what to beware of.

use crate::measure::heat::Counts;
use serde::{Deserialize, Serialize};

/// A number that a run measured.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Measure {
    /// A stable name that ends in its unit: `reader_latency_p99_us`.
    pub metric: String,
    /// The unit: `us`, `s`, `1/s`, `MB/s`, `MiB`, `%`.
    pub unit: String,
    /// The value, finite.
    pub value: f64,
}

/// Values at equal steps of time.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Series {
    /// A stable name that ends in its unit: `reader_latency_max_us`.
    pub name: String,
    /// The unit of the values.
    pub unit: String,
    /// Seconds between two values; the first stands for the time from 0 to one step.
    pub step_s: f64,
    /// The values; `None` where nothing happened that could be measured.
    pub values: Vec<Option<f64>>,
}

impl Series {
    /// Its values over time, each in the middle of its step.
    pub fn points(&self) -> Vec<(f64, Option<f64>)> {
        let at = |n: usize| (n as f64 + 0.5) * self.step_s;
        self.values.iter().enumerate().map(|(n, &v)| (at(n), v)).collect()
    }
}

/// A setting of the target under which the run was made, such as `dirty_ratio` of the kernel.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Setting {
    /// Its name where it is set.
    pub name: String,
    /// Its value with unit.
    pub value: String,
}

impl Setting {
    /// A setting.
    pub fn new(name: impl Into<String>, value: impl ToString) -> Setting {
        Setting {
            name: name.into(),
            value: value.to_string(),
        }
    }
}

/// All that a run brings home.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Outcome {
    /// Numbers, in the order in which a report should list them.
    pub measures: Vec<Measure>,
    /// Latency by share of reads: (share of reads from 0 to 1, microseconds), rising in both.
    pub latency_curve: Vec<(f64, f64)>,
    /// Series over the run.
    pub series: Vec<Series>,
    /// The target's settings.
    pub settings: Vec<Setting>,
    /// Notes that a reader of the numbers needs.
    pub warnings: Vec<String>,
    /// What the slowest calls have waited for, as sentences.
    #[serde(default)]
    pub explanations: Vec<String>,
    /// The reads that missed, in each tenth of a second.
    #[serde(default)]
    pub reads: Vec<Counts>,
}

impl Outcome {
    /// Adds a number.
    ///
    /// # Panics
    /// If it is not finite: a measure that does not exist is left out, not written down as NaN.
    pub fn push(&mut self, metric: &str, unit: &str, value: f64) {
        assert!(value.is_finite(), "{metric} is {value}");
        self.measures.push(Measure {
            metric: metric.into(),
            unit: unit.into(),
            value,
        });
    }

    /// Adds counts.
    pub(crate) fn counts(&mut self, counts: &[(&str, u64)]) {
        for &(metric, count) in counts {
            self.push(metric, "1", count as f64);
        }
    }

    /// The value of `metric`, if the run measured it.
    pub fn value(&self, metric: &str) -> Option<f64> {
        self.measures.iter().find(|m| m.metric == metric).map(|m| m.value)
    }

    /// The series of that name, if the run kept it.
    pub fn series(&self, name: &str) -> Option<&Series> {
        self.series.iter().find(|s| s.name == name)
    }
}
