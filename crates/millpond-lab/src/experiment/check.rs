//! Checks of options that all experiments share, each with its own range.

use crate::backend::{self, Backend};
use crate::error::{LabError, Result};
use crate::scratch;
use crate::setup::Device;
use crate::testbed::{Configuration, Scheduler};
use millpond::internal::quantity::{size, size_typed};
use millpond_core::units::Bytes;
use std::ops::RangeInclusive;
use std::path::Path;

/// A value that is not allowed, as an error.
pub(super) fn bad<T>(
    option: &'static str,
    value: impl ToString,
    allowed: impl Into<String>,
    instead: &str,
) -> Result<T> {
    Err(LabError::BadValue {
        option,
        value: value.to_string(),
        allowed: allowed.into(),
        instead: instead.into(),
    })
}

/// Whether all of `names` are known.
///
/// # Errors
/// [`LabError::UnknownName`] of the first that is not.
pub(super) fn names(what: &'static str, names: &[String], known: &[&str]) -> Result<()> {
    match names.iter().find(|name| !known.contains(&name.as_str())) {
        None => Ok(()),
        Some(name) => Err(unknown(what, name, known.join(", "))),
    }
}

/// A name that nothing has, as an error.
pub(super) fn unknown(what: &'static str, name: &str, allowed: String) -> LabError {
    LabError::UnknownName {
        what,
        value: name.into(),
        allowed,
    }
}

/// How often each row runs.
pub(super) fn runs(runs: u32) -> Result<()> {
    if (1..=100).contains(&runs) {
        return Ok(());
    }
    bad(
        "--runs",
        runs,
        "must be 1 to 100 runs",
        "three show whether a difference is real",
    )
}

/// The factor on sizes or lengths. `of` names the runs with that range, where there are others.
pub(super) fn scale(scale: f64, range: RangeInclusive<f64>, of: &str, instead: &str) -> Result<()> {
    if range.contains(&scale) {
        return Ok(());
    }
    let allowed = format!("must be {} to {}{of}", range.start(), range.end());
    bad("--scale", scale, allowed, instead)
}

/// The memory of engine and kernel.
pub(super) fn memory(memory: Bytes, range: RangeInclusive<Bytes>, instead: &str) -> Result<()> {
    if range.contains(&memory) {
        return Ok(());
    }
    let [least, most] = [range.start(), range.end()].map(|&bound| size_typed(bound));
    let allowed = format!("must be {least} to {most}");
    bad("--memory", size_typed(memory), allowed, instead)
}

/// Whether `name` takes part: if it was named, or nothing was.
pub(super) fn takes_part(named: &[String], name: &str) -> bool {
    named.is_empty() || named.iter().any(|other| other == name)
}

/// The back ends that were named, in the order of tables.
///
/// # Errors
/// [`LabError::UnknownName`].
pub(super) fn backends(named: &[String]) -> Result<Vec<&'static Backend>> {
    for name in named {
        backend::find(name)?;
    }
    let is_named = |kind: &&Backend| named.iter().any(|name| name == kind.name);
    Ok(backend::BACKENDS.iter().filter(is_named).collect())
}

/// The same where nothing paces writers.
///
/// # Errors
/// [`LabError::UnknownName`]; [`LabError::Unavailable`] of a bound on axboe2016.
pub(super) fn backends_without_pacing(named: &[String]) -> Result<Vec<&'static Backend>> {
    let kinds = backends(named)?;
    match kinds.iter().find(|kind| ["paced", "bare"].contains(&kind.name)) {
        None => Ok(kinds),
        Some(kind) => Err(LabError::Unavailable {
            target: kind.name.into(),
            why: "it has the load of axboe2016 only".into(),
        }),
    }
}

/// The kernel's configurations.
///
/// # Errors
/// [`LabError::BadValue`] of one that can't be read, or that isn't for that device.
pub(super) fn kernel_configurations(device: Device, variants: &[String]) -> Result<Vec<Configuration>> {
    let mut configurations = Configuration::of_texts(variants)?;
    let is_real = device == Device::Real;
    for configuration in &configurations {
        if is_real && let Some(file_system) = configuration.file_system {
            return bad(
                "--kernel-variant",
                configuration,
                format!("no file system {} is made on a real device", file_system.name()),
                "leave it out, and give --dir on such a file system",
            );
        }
        if !is_real && configuration.scheduler == Scheduler::AsIs {
            return bad(
                "--kernel-variant",
                configuration,
                "a modelled disk is new and has no setup to keep",
                "give none, mq-deadline, kyber or bfq",
            );
        }
    }
    if !is_real && configurations.is_empty() {
        configurations.push(Configuration::DEFAULT);
    }
    Ok(configurations)
}

/// Whether files of this many bytes fit into `scratch`, which is below `dir`, with a sixteenth for the file system.
///
/// # Errors
/// [`LabError::BadValue`] of `--dir`.
pub(super) fn free_space(dir: &Path, scratch: &Path, bytes: u64) -> Result<()> {
    space(dir, scratch, Bytes(bytes + bytes / 16))
}

/// Whether this much is free in `scratch`, which is below `dir`.
///
/// # Errors
/// [`LabError::BadValue`] of `--dir`.
pub(super) fn space(dir: &Path, scratch: &Path, needed: Bytes) -> Result<()> {
    match scratch::free_bytes(scratch).filter(|free| *free < needed) {
        None => Ok(()),
        Some(free) => bad(
            "--dir",
            dir.display(),
            format!("{} are free there and {} are needed", size(free), size(needed)),
            "give another directory, or a smaller --scale",
        ),
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::super::Options;
    use crate::error::Result;
    use crate::report::Report;
    use crate::watch::Watch;

    type Change = fn(&mut Options);

    /// Default options with each of these changes are refused with an error that begins so, and with this exit code.
    pub(crate) fn assert_refused(
        run: fn(&Options, &mut dyn Watch) -> Result<Report>,
        table: &[(Change, &str, u8)],
    ) {
        for (change, expected, code) in table {
            let mut options = Options::default();
            change(&mut options);
            let error = run(&options, &mut ()).unwrap_err();
            assert!(error.to_string().starts_with(expected), "{error}");
            assert_eq!(error.exit_code(), *code, "{error}");
        }
    }
}
