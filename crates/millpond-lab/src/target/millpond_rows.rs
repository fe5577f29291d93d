//! The variants of Millpond that the engine and the simulator share.

use super::{Device, GoalVariant, Row, RowRequest, Rows, Setup};
use crate::error::{LabError, Result};
use millpond_core::admission::AdmissionOptions;
use millpond_core::admission::bytes::BytesOptions;
use millpond_core::admission::goal::GoalOptions;
use millpond_core::admission::latency::LatencyOptions;
use millpond_core::admission::percent::PercentOptions;
use millpond_core::options::Options;

/// All variants.
const BUILT: [&str; 9] = [
    "off", "v2", "v3-10", "v3-15", "v3-50", "v3-100", "latency", "bytes", "goal",
];

/// The rows of `target` for the variants that were asked for, or for `default`.
pub(super) fn rows(
    request: &RowRequest,
    target: &str,
    default: &[&str],
    is_deterministic: bool,
) -> Result<Rows> {
    let mut rows = Rows::default();
    let asked: Vec<&str> = match request.variants {
        [] => default.to_vec(),
        variants => variants.iter().map(String::as_str).collect(),
    };
    for variant in asked {
        let goal = variant.parse::<GoalVariant>().ok();
        if !BUILT.contains(&variant) && goal.is_none() {
            rows.notes.push(format!(
                "The variant {variant} is not built yet; this version has {}.",
                BUILT.join(", ")
            ));
            continue;
        }
        rows.rows.push(Row {
            label: variant.into(),
            setup: Setup {
                target: target.into(),
                variant: variant.into(),
                device: request.device,
                dir: request.dir.to_owned(),
                memory: request.memory,
                read_latency_goal: goal
                    .and_then(|goal| goal.read_latency)
                    .or(request.read_latency_goal),
                seed: request.seed,
            },
            in_memory_group: false,
            room: None,
            is_deterministic,
            device_bytes_per_s: None,
        });
    }
    if rows.rows.is_empty() && rows.notes.is_empty() {
        rows.notes.push(format!("{target} has no variant to run."));
    }
    Ok(rows)
}

/// The options of a variant: Millpond's default with another admission.
pub(super) fn options(setup: &Setup) -> Result<Options> {
    let admission = match setup.variant.as_str() {
        "off" => AdmissionOptions::Off,
        "v2" => AdmissionOptions::Percent(PercentOptions::v2()),
        "v3-10" => AdmissionOptions::Percent(PercentOptions::v3(10)),
        "v3-15" => AdmissionOptions::Percent(PercentOptions::v3(15)),
        "v3-50" => AdmissionOptions::Percent(PercentOptions::v3(50)),
        "v3-100" => AdmissionOptions::Percent(PercentOptions::v3(100)),
        "latency" => AdmissionOptions::Latency(match setup.device {
            Device::Modelled(disk) if !disk.is_rotational() => LatencyOptions::flash(),
            // What the kernel takes a virtual machine's disk for as well, if nobody tells it.
            Device::Modelled(_) | Device::Real => LatencyOptions::rotating(),
        }),
        "bytes" => AdmissionOptions::Bytes(BytesOptions::default()),
        other => {
            let goal = other.parse::<GoalVariant>().map_err(|_| LabError::UnknownName {
                what: "variant",
                value: other.into(),
                allowed: BUILT.join(", "),
            })?;
            let default = GoalOptions::default();
            AdmissionOptions::Goal(GoalOptions {
                // which has what the variant names
                read_latency: setup.read_latency_goal.unwrap_or(default.read_latency),
                share_waited: goal.share.unwrap_or(default.share_waited),
                batch: goal.batch.unwrap_or(default.batch),
                ..default
            })
        }
    };
    Ok(Options {
        admission,
        ..Options::default()
    })
}
