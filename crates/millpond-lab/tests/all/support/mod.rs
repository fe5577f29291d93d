//! Tests whose work is done by a child in a control group of its own.
#![allow(
    clippy::unwrap_used,
    clippy::print_stdout,
    reason = "these are tests, helpers included"
)]

use millpond_core::units::Bytes;
use millpond_lab::memory_group::{Entry, MemoryGroup};
use std::path::PathBuf;
use std::process::Command;

/// The group that the child enters, as JSON.
const ENTRY: &str = "MILLPOND_TEST_GROUP_ENTRY";
/// The folder of the group.
const GROUP: &str = "MILLPOND_TEST_GROUP";
/// The child's last message: a test that was filtered out prints nothing.
const DONE: &str = "the child has done its job";

/// Runs the test `child` of this program in a process that enters a group of `limit`; where there can't be one, says so.
pub(crate) fn run_in_group(limit: Bytes, child: &str) {
    let group = match MemoryGroup::create(limit) {
        Ok(group) => group,
        Err(why) => return println!("skipped: {why}"),
    };
    let ran = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", child, "--nocapture"])
        .env(ENTRY, serde_json::to_string(&group.entry()).unwrap())
        .env(GROUP, group.path())
        .output()
        .unwrap();
    let (out, err) = (
        String::from_utf8_lossy(&ran.stdout),
        String::from_utf8_lossy(&ran.stderr),
    );
    print!("{out}");
    assert!(ran.status.success(), "{}\n{out}\n{err}", ran.status);
    assert!(out.contains(DONE), "{out}");
}

/// In the child: enters the group, and does `job` with the group's folder. Elsewhere nothing.
pub(crate) fn in_the_child(job: impl FnOnce(PathBuf)) {
    let (Ok(entry), Ok(group)) = (std::env::var(ENTRY), std::env::var(GROUP)) else {
        return;
    };
    serde_json::from_str::<Entry>(&entry).unwrap().enter().unwrap();
    job(PathBuf::from(group));
    println!("{DONE}");
}
