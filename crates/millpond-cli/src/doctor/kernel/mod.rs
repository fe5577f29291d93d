//! `millpond doctor --kernel`: what the kernel's settings for dirty pages come to, on this machine or on a saved one.
//!
//! Each derived value with what it is derived from, as the kernel does it (Hills 2015), and beside what is known to make
//! trouble the line that mends it.
//!
//! ```text
//!   read.rs     zones, settings, devices: of the running kernel, or of files
//!   assess.rs   what they come to
//!   group.rs    what that is worth in the memory group that this process runs in
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
    /// What `sysctl -a` prints there. Without it Linux' own settings are taken.
    #[arg(long, value_name = "FILE", requires = "zoneinfo")]
    sysctl: Option<PathBuf>,
}

/// What is to be said of it.
pub(super) fn checks(files: &Files) -> Result<Vec<Check>, Failure> {
    let machine = match &files.zoneinfo {
        Some(zoneinfo) => read::saved(zoneinfo, files.meminfo.as_deref(), files.sysctl.as_deref())?,
        None => read::running()?,
    };
    let mut checks = assess::checks(&machine);
    // A saved machine says nothing of groups.
    if files.zoneinfo.is_none() {
        let (hard, dirtyable) = assess::hard_limit(&machine);
        checks.push(group::check(hard, dirtyable));
    }
    Ok(checks)
}
