//! The device's transfers by reason, as metrics: the engine and the simulator count alike.

use crate::outcome::Measure;
use millpond_core::io::Reason;
use millpond_core::stats::Stats;

/// Requests, bytes and time in transit for each reason that there was a request for, and what the admission held back.
pub(crate) fn measures(stats: &Stats) -> Vec<Measure> {
    let mut measures = Vec::new();
    for reason in Reason::ALL {
        let (n, name) = (reason as usize, reason.name());
        let (requests, waits) = (stats.io_requests[n], stats.admission_waits[n]);
        let mut push = |metric: String, unit: &str, value: f64| {
            measures.push(Measure {
                metric,
                unit: unit.into(),
                value,
            });
        };
        if requests > 0 {
            push(format!("io_{name}_requests"), "1", requests as f64);
            push(
                format!("io_{name}_mib"),
                "MiB",
                stats.io_bytes[n] as f64 / (1 << 20) as f64,
            );
            push(
                format!("io_{name}_mean_us"),
                "us",
                stats.io_ns[n] as f64 / requests as f64 / 1e3,
            );
            push(format!("io_{name}_max_us"), "us", stats.io_ns_max[n] as f64 / 1e3);
        }
        if waits > 0 {
            push(format!("admission_{name}_waits"), "1", waits as f64);
            push(
                format!("admission_{name}_wait_seconds"),
                "s",
                stats.admission_wait_ns[n] as f64 / 1e9,
            );
            push(
                format!("admission_{name}_wait_max_us"),
                "us",
                stats.admission_wait_ns_max[n] as f64 / 1e3,
            );
        }
    }
    measures
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_reason_without_requests_has_no_metrics() {
        let mut stats = Stats::default();
        let sync = Reason::Sync as usize;
        (stats.io_requests[sync], stats.io_bytes[sync]) = (4, 8 << 20);
        (stats.io_ns[sync], stats.io_ns_max[sync]) = (10_000_000, 7_000_000);
        (stats.admission_waits[sync], stats.admission_wait_ns[sync]) = (2, 3_000_000_000);
        stats.admission_wait_ns_max[sync] = 2_000_000_000;
        let told: Vec<_> = measures(&stats)
            .into_iter()
            .map(|m| (m.metric, m.value))
            .collect();
        let expected = [
            ("io_sync_requests", 4.0),
            ("io_sync_mib", 8.0),
            ("io_sync_mean_us", 2_500.0),
            ("io_sync_max_us", 7_000.0),
            ("admission_sync_waits", 2.0),
            ("admission_sync_wait_seconds", 3.0),
            ("admission_sync_wait_max_us", 2_000_000.0),
        ];
        assert_eq!(told, expected.map(|(name, value)| (name.to_owned(), value)));
    }
}
