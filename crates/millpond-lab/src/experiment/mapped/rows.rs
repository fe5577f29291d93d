//! The rows that this machine allows.

use super::options::{backends, has_row};
use super::{EXPERIMENT, Options, Plan};
use crate::backend::engine::can_map;
use crate::backend::{Row, RowRequest, Rows};
use crate::error::{LabError, Result};
use crate::machine;
use crate::memory_group::MemoryGroup;
use crate::workload::mapped::{
    IN_THREAD, MAPPING, NORMAL, NORMAL_128K, PAGE_CALLS, RANDOM, can_set_read_ahead,
};
use std::path::Path;

/// The rows of each target.
const KERNEL: [&str; 3] = [RANDOM, NORMAL_128K, NORMAL];
const ENGINE: [&str; 3] = [MAPPING, IN_THREAD, PAGE_CALLS];

pub(super) fn rows(options: &Options, plan: &Plan, dir: &Path) -> Result<Rows> {
    let mut rows = Rows::default();
    let request = RowRequest {
        memory: plan.memory,
        ..options.request(EXPERIMENT.name, &[], dir)
    };
    for kind in backends(options)? {
        let is_kernel = kind.name == "kernel";
        let can = if is_kernel {
            of_kernel(plan, dir)
        } else {
            can_map()
        };
        if let Err(why) = can {
            if options.on.is_some() {
                return Err(LabError::Unavailable {
                    target: kind.name.into(),
                    why,
                });
            }
            rows.notes
                .push(format!("Target `{}` was left out: {why}.", kind.name));
            continue;
        }
        for name in if is_kernel { KERNEL } else { ENGINE } {
            if !has_row(options, name) {
                continue;
            }
            if let Some(why) = (name == NORMAL_128K)
                .then(|| can_set_read_ahead(dir).err())
                .flatten()
            {
                rows.notes.push(format!(
                    "The row {name} was left out: its read-ahead can't be set ({why})."
                ));
                continue;
            }
            rows.rows.push(Row {
                in_memory_group: is_kernel,
                ..request.row(kind.name, name)
            });
        }
    }
    if rows.rows.is_empty() {
        return Err(LabError::Unavailable {
            target: EXPERIMENT.name.into(),
            why: match rows.notes.is_empty() {
                true => "no row is in both --on and --variant".into(),
                false => rows.notes.join(" "),
            },
        });
    }
    Ok(rows)
}

/// In a memory group, so it has no more memory than Millpond.
fn of_kernel(plan: &Plan, dir: &Path) -> Result<(), String> {
    if machine::is_in_memory(dir) {
        return Err("with files in memory it has nothing to read".into());
    }
    MemoryGroup::create(plan.memory).map(drop)
}
