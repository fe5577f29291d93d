//! `millpond doctor --kernel`: the limits that the kernel's settings for dirty pages give, on this machine or on a
//! saved one.
//!
//! Each derived value with its inputs, computed as the kernel does it (Hills 2015), and for known causes of trouble the
//! command that fixes it.
//!
//! ```text
//!   read.rs     zones, settings, devices: of the running kernel, or from files
//!   assess.rs   the limits that they give
//!   group.rs    what the limits mean in the memory group that this process runs in
//! ```

mod assess;
mod group;
mod read;

use super::Check;
use crate::failure::Failure;
use std::path::PathBuf;

/// Files of a saved machine.
#[derive(clap::Args)]
pub(super) struct Files {
    /// The text of another machine's /proc/zoneinfo, for --kernel.
    #[arg(long, value_name = "FILE", requires = "kernel")]
    zoneinfo: Option<PathBuf>,
    /// The text of its /proc/meminfo.
    #[arg(long, value_name = "FILE", requires = "zoneinfo")]
    meminfo: Option<PathBuf>,
    /// What `sysctl -a` prints there. Default: Linux's default settings.
    #[arg(long, value_name = "FILE", requires = "zoneinfo")]
    sysctl: Option<PathBuf>,
}

/// The checks.
pub(super) fn checks(files: &Files) -> Result<Vec<Check>, Failure> {
    let machine = match &files.zoneinfo {
        Some(zoneinfo) => read::saved(zoneinfo, files.meminfo.as_deref(), files.sysctl.as_deref())?,
        None => read::running()?,
    };
    let mut checks = assess::checks(&machine);
    // The files of a saved machine don't describe groups.
    if files.zoneinfo.is_none() {
        let (hard, dirtyable) = assess::hard_limit(&machine);
        checks.push(group::check(hard, dirtyable));
    }
    Ok(checks)
}
