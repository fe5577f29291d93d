//! JSON lines: one object a line, one line a metric.
//!
//! `experiment, workload, target, device, variant, metric, unit, value` (the median) and `runs` (every run's
//! value). The names are stable; programs compare runs by them.

use super::Metric;
use std::io::{self, Write};

/// Writes each metric as a line.
///
/// # Errors
/// The writer's.
pub fn write(metrics: &[Metric], to: &mut dyn Write) -> io::Result<()> {
    for metric in metrics {
        serde_json::to_writer(&mut *to, metric)?;
        to.write_all(b"\n")?;
    }
    to.flush()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::tests::runs;

    #[test]
    fn each_line_has_exactly_the_promised_fields() {
        let metrics = runs(
            "kernel",
            "kernel \"x\"\n",
            "reader_latency_p99_us",
            &[1.5, 2.5, 9.0],
        )
        .metrics("axboe2016");
        let mut text = Vec::new();
        write(&metrics, &mut text).unwrap();
        let text = String::from_utf8(text).unwrap();
        assert_eq!(text.lines().count(), 1);
        let value: serde_json::Value = serde_json::from_str(&text).unwrap();
        let keys: Vec<_> = value.as_object().unwrap().keys().map(String::as_str).collect();
        let mut promised = [
            "experiment",
            "workload",
            "target",
            "device",
            "variant",
            "metric",
            "unit",
            "value",
            "runs",
        ];
        promised.sort_unstable();
        assert_eq!(keys, promised);
        assert_eq!(value["variant"], "kernel \"x\"\n");
        assert_eq!(value["value"], 2.5);
        assert_eq!(value["runs"], serde_json::json!([1.5, 2.5, 9.0]));
        assert_eq!(serde_json::from_str::<Metric>(&text).unwrap(), metrics[0]);
    }
}
