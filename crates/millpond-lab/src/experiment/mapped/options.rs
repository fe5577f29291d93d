//! The experiment's options, checked into a plan.

use super::{EXPERIMENT, LOADS, Plan};
use crate::backend::Backend;
use crate::error::{LabError, Result};
use crate::experiment::{Options, check};
use crate::setup::Device;
use crate::workload::mapped::{NORMAL, RECORD};
use millpond_core::units::Bytes;

/// The measured time at scale 1: a p99.9 of 20,000 accesses a second has 20 beyond it.
const MEASURED_MS: f64 = 1000.0;
/// Less says nothing.
const MEASURED_MS_MIN: f64 = 100.0;
/// The scale unless one is given: two minutes for three runs of all there is.
const SCALE: f64 = 0.125;
/// The engine's own least, with mappings.
pub(super) const MEMORY_MIN: Bytes = Bytes::from_mib(16);

/// The plan of the runs.
///
/// # Errors
/// `LabError::BadValue`, `LabError::UnknownName`.
pub(super) fn plan(options: &Options) -> Result<Plan> {
    check::names("variant", &options.variants, EXPERIMENT.variants)?;
    check::names("workload", &options.workloads, EXPERIMENT.workloads)?;
    check::runs(options.runs)?;
    let scale = options.scale.unwrap_or(SCALE);
    check::scale(
        scale,
        0.001..=4.0,
        "",
        "1 has --memory as it is, and a file of four times that",
    )?;
    check::memory(
        options.memory,
        MEMORY_MIN..=Bytes::from_mib(1 << 16),
        "1G is large enough for what is promised",
    )?;
    if options.device != Device::Real {
        return check::bad(
            "--device",
            options.device,
            "a mapping of the kernel's needs a real disk",
            "leave it out, and give --dir",
        );
    }
    let memory = (options.memory.0 as f64 * scale) as u64 / RECORD * RECORD;
    Ok(Plan {
        memory: Bytes(memory.max(MEMORY_MIN.0)),
        measured_ms: (MEASURED_MS * scale).max(MEASURED_MS_MIN) as u64,
        loads: LOADS.into_iter().filter(|(name, _)| options.has(name)).collect(),
    })
}

/// Whether a row was requested.
pub(super) fn has_row(options: &Options, name: &str) -> bool {
    check::takes_part(&options.variants, name) && (name != NORMAL || !options.variants.is_empty())
}

/// Kernel and engine, if they were named.
pub(super) fn backends(options: &Options) -> Result<Vec<&'static Backend>> {
    let named = match &options.on {
        None => vec!["kernel".into(), "engine".into()],
        Some(named) => named.clone(),
    };
    let kinds = check::backends(&named)?;
    match kinds
        .iter()
        .find(|kind| !["kernel", "engine"].contains(&kind.name))
    {
        None => Ok(kinds),
        Some(kind) => Err(LabError::Unavailable {
            target: kind.name.into(),
            why: "it has no addresses; kernel and engine have".into(),
        }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::experiment::check::tests::assert_refused;

    #[test]
    fn every_bad_value_is_named_with_what_is_allowed() {
        assert_refused(
            super::super::run,
            &[
                (
                    |o| o.variants = vec!["mmap".into()],
                    "unknown variant `mmap`; allowed: random,",
                    2,
                ),
                (
                    |o| o.workloads = vec!["none".into()],
                    "unknown workload `none`; allowed: uniform-1,",
                    2,
                ),
                (|o| o.scale = Some(5.0), "--scale 5: must be 0.001 to 4", 2),
                (
                    |o| o.memory = Bytes::from_mib(8),
                    "--memory 8M: must be 16M to 64G",
                    2,
                ),
                (
                    |o| o.device = "hdd".parse().unwrap(),
                    "--device hdd: a mapping of the kernel's",
                    2,
                ),
                (
                    |o| o.on = Some(vec!["sim".into()]),
                    "target `sim` cannot run: it has no addresses",
                    3,
                ),
            ],
        );
    }

    #[test]
    fn memory_and_time_shrink_alike_and_the_hot_set_has_a_quarter() {
        let plan = |scale| {
            let options = Options {
                scale: Some(scale),
                ..Options::default()
            };
            super::plan(&options).unwrap()
        };
        let full = plan(1.0);
        assert_eq!((full.memory, full.measured_ms), (Bytes::from_mib(512), 1000));
        assert_eq!(full.loads.len(), 13);
        assert_eq!(
            full.memory_of(crate::workload::mapped::Load::HotBesideScan),
            Bytes::from_mib(128)
        );
        let least = plan(0.001);
        assert_eq!((least.memory, least.measured_ms), (Bytes::from_mib(16), 100));
    }
}
