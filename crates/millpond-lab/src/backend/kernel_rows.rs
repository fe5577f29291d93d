//! The rows of the kernel's page cache: as this machine has it, as `--kernel-variant` says, and on a modelled disk.
//!
//! On the disk that is there each way to set it up has two rows: with all of the machine's memory for the writers, and with
//! writers and reader in a memory group. On a modelled disk there is the second alone, in a testbed of its own (`testbed/`):
//! a real file system on the disk of `millpond slowdisk`.

use super::kernel::{DIRECT, MEMORY_GROUP};
use super::{Row, RowRequest, Rows};
use crate::disk_model::DiskModel;
use crate::error::{LabError, Result};
use crate::machine;
use crate::memory_group::MemoryGroup;
use crate::setup::Device;
use crate::testbed::{Configuration, TUNED, Testbed, Tuned, Writing};
use millpond::internal::quantity::size_typed;

pub(super) fn rows(request: &RowRequest) -> Result<Rows> {
    if let Device::Modelled(disk) = request.device {
        return rows_on_modelled_disk(request, disk);
    }
    let mut rows = Rows::default();
    let group = if machine::is_in_memory(request.dir) {
        Err("files in memory would fill it".to_owned())
    } else {
        group(request)
    };
    let mut ways = vec![(as_it_is(request), None)];
    for &configuration in request.kernel_variants {
        match Tuned::resolve(request.dir, configuration) {
            Ok(meant) => ways.push((format!("kernel {TUNED} {meant}"), Some(meant))),
            Err(error) => rows
                .notes
                .push(format!("The kernel with {configuration} was left out: {error}.")),
        }
    }
    if ways.len() == 1 && !request.kernel_variants.is_empty() {
        return Err(LabError::Unavailable {
            target: "kernel".into(),
            why: rows.notes.join(" "),
        });
    }
    for (label, configuration) in ways {
        let mut row = |label: &str, reads, in_memory_group| {
            let row = row(request, label, reads, configuration, in_memory_group);
            if !rows.rows.iter().any(|other: &Row| other.label == row.label) {
                rows.rows.push(row);
            }
        };
        row(&label, DIRECT, false);
        if let Ok(group) = &group {
            row(&format!("{label} {group}"), MEMORY_GROUP, true);
        }
    }
    if let Err(why) = group {
        rows.notes.push(format!(
            "The kernel within {} of memory was left out: {why}.",
            size_typed(request.memory)
        ));
    }
    if !request.variants.is_empty() {
        rows.notes.push(format!(
            "--variant {} does not apply to the kernel; --kernel-variant does.",
            request.variants.join(",")
        ));
    }
    Ok(rows)
}

/// `kernel mq-deadline wbt=75000us`.
fn as_it_is(request: &RowRequest) -> String {
    let mut label = String::from("kernel");
    if let Some(scheduler) = machine::scheduler(request.dir) {
        label += &format!(" {scheduler}");
    }
    match machine::writeback_latency_us(request.dir) {
        Some(0) => label += " wbt=off",
        Some(us) => label += &format!(" wbt={us}us"),
        None => {}
    }
    label
}

/// A label's part about the memory group: `memory=512M group=v1`.
///
/// # Errors
/// Why there can be none, as a part of a sentence.
fn group(request: &RowRequest) -> Result<String, String> {
    let group = MemoryGroup::create(request.memory)?;
    Ok(format!(
        "memory={} group={}",
        size_typed(request.memory),
        group.version()
    ))
}

fn row(
    request: &RowRequest,
    label: &str,
    reads: &str,
    configuration: Option<Configuration>,
    in_memory_group: bool,
) -> Row {
    let writing = configuration.map_or(Writing::Plain, |configuration| configuration.writing);
    let mut row = Row {
        in_memory_group,
        testbed: configuration,
        device_bytes_per_s: match request.device {
            Device::Real => None,
            Device::Modelled(disk) => Some(disk.write_bytes_per_s()),
        },
        ..request.row("kernel", label)
    };
    row.setup.variant = format!("{reads} {writing}").trim_end().into();
    row
}

/// In a memory group, so page cache and dirty pages have the limits of the other rows.
fn rows_on_modelled_disk(request: &RowRequest, disk: DiskModel) -> Result<Rows> {
    let (configurations, notes) = Testbed::try_out(request.program, disk, request.kernel_variants)?;
    let group = group(request).map_err(|why| LabError::Unavailable {
        target: "kernel".into(),
        why,
    })?;
    let row = |configuration: Configuration| {
        let label = format!("kernel {configuration} {group}");
        row(request, &label, MEMORY_GROUP, Some(configuration), true)
    };
    Ok(Rows {
        rows: configurations.into_iter().map(row).collect(),
        notes,
    })
}
