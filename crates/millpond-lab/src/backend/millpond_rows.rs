//! The variants of Millpond that the engine and the simulator share, and those of the simulator alone: Linux' throttle in the
//! place of Millpond's admission.

use super::{GoalVariant, RowRequest, Rows};
use crate::error::{LabError, Result};
use crate::setup::{Device, Setup};
use millpond_core::admission::AdmissionOptions;
use millpond_core::admission::bytes::BytesOptions;
use millpond_core::admission::goal::GoalOptions;
use millpond_core::options::Options;
use millpond_kernels::linux::wbt::Wbt;
use millpond_kernels::linux::wbt::merged::MergedOptions;
use millpond_kernels::linux::wbt::posted::PostedOptions;

/// The forms that a cache can be set to.
const OWN: [&str; 3] = ["off", "bytes", "goal"];

/// Linux' throttle, in virtual time.
const LINUX: [&str; 6] = ["v2", "v3-10", "v3-15", "v3-50", "v3-100", "latency"];

/// The rows of `target` for the variants that were asked for, or for `default`. `has_linux`: it runs in virtual time, and
/// Linux' throttle can stand in the place of Millpond's.
pub(super) fn rows(request: &RowRequest, target: &str, default: &[&str], has_linux: bool) -> Result<Rows> {
    let mut rows = Rows::default();
    let asked: Vec<&str> = match request.variants {
        [] => default.to_vec(),
        variants => variants.iter().map(String::as_str).collect(),
    };
    for variant in asked {
        let goal = variant.parse::<GoalVariant>().ok();
        if LINUX.contains(&variant) && !has_linux {
            rows.notes.push(format!(
                "{target} has no {variant}: Linux's throttle exists in virtual time only, with --on sim."
            ));
            continue;
        }
        if !OWN.contains(&variant) && !LINUX.contains(&variant) && goal.is_none() {
            rows.notes.push(format!(
                "The variant {variant} is not built yet; this version has {}.",
                names()
            ));
            continue;
        }
        let mut row = request.row(target, variant);
        row.is_deterministic = has_linux;
        if let Some(goal) = goal.and_then(|goal| goal.read_latency) {
            row.setup.read_latency_goal = Some(goal);
        }
        rows.rows.push(row);
    }
    if rows.rows.is_empty() && rows.notes.is_empty() {
        rows.notes.push(format!("{target} has no variant to run."));
    }
    Ok(rows)
}

fn names() -> String {
    [&OWN[..], &LINUX[..]].concat().join(", ")
}

/// Linux' throttle, of the variants that have it.
pub(super) fn wbt(setup: &Setup) -> Option<Wbt> {
    let v3 = |percent| Wbt::posted(PostedOptions::v3(percent));
    let wbt = match setup.variant.as_str() {
        "v2" => Wbt::posted(PostedOptions::v2()),
        "v3-10" => v3(10),
        "v3-15" => v3(15),
        "v3-50" => v3(50),
        "v3-100" => v3(100),
        "latency" => Wbt::merged(match setup.device {
            Device::Modelled(disk) if !disk.is_rotational() => MergedOptions::flash(),
            // As the kernel assumes for a virtual machine's disk, unless told otherwise.
            Device::Modelled(_) | Device::Real => MergedOptions::rotating(),
        }),
        _ => return None,
    };
    Some(wbt)
}

/// The options of a variant: Millpond's default with another admission.
pub(super) fn options(setup: &Setup) -> Result<Options> {
    let admission = match setup.variant.as_str() {
        "off" => AdmissionOptions::Off,
        // Linux' throttle stands in its place.
        linux if LINUX.contains(&linux) => AdmissionOptions::Off,
        "bytes" => AdmissionOptions::Bytes(BytesOptions::default()),
        other => {
            let goal = other.parse::<GoalVariant>().map_err(|_| LabError::UnknownName {
                what: "variant",
                value: other.into(),
                allowed: names(),
            })?;
            let default = GoalOptions::default();
            AdmissionOptions::Goal(GoalOptions {
                // which has what the variant names
                read_latency: setup.read_latency_goal.unwrap_or(default.read_latency),
                share_waited: goal.share.unwrap_or(default.share_waited),
                ..default
            })
        }
    };
    Ok(Options {
        admission,
        ..Options::default()
    })
}
