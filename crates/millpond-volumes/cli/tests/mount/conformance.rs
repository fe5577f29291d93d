//! Every call of POSIX that a mount of a directory carries, at the mount of a store: it answers as the file system of this
//! folder, but for the cases below.

use super::*;
use rustix::process::{Gid, Uid};
use rustix::thread::{set_thread_groups, set_thread_res_gid, set_thread_res_uid};
use std::os::unix::fs::{PermissionsExt, chown};

#[path = "../../../../millpond-cli/tests/all/mount/conformance"]
mod of_a_directory {
    mod cases;

    /// A name, and what is done in an empty directory; what was seen.
    type Case = (&'static str, fn(&std::path::Path) -> String);

    pub(super) fn cases() -> &'static [Case] {
        cases::ALL
    }
}

/// Some user other than root.
const USER: u32 = 54_321;

/// Cases in which a store differs, and how.
const DIFFERS: &[(&str, &str)] = &[
    ("an_acl_is_kept_and_obeyed", "it has no ACLs"),
    ("a_default_acl_makes_modes", "it has no ACLs"),
    (
        "what_stat_says",
        "programs are told to read a page of the store at a time",
    ),
    (
        "punch_what_was_written_and_synced",
        "a file has the blocks of its length",
    ),
    (
        "a_copy_of_a_sparse_file_has_its_data",
        "a file has the blocks of its length",
    ),
    ("seek_data_and_holes", "all is data"),
    ("write_where_some_file_systems_end", "ext4 ends there"),
];

/// Does a case as `user` in a directory of its own.
fn case(directory: &Path, user: u32, does: fn(&Path) -> String) -> String {
    fs::create_dir(directory).unwrap();
    chown(directory, Some(user), Some(user)).unwrap();
    let directory = directory.to_owned();
    // Users and groups are those of a thread.
    let thread = std::thread::spawn(move || {
        if user != 0 {
            set_thread_groups(&[]).unwrap();
            set_thread_res_gid(None, Gid::from_raw(user), None).unwrap();
            set_thread_res_uid(None, Uid::from_raw(user), None).unwrap();
        }
        does(&directory)
    });
    thread.join().unwrap_or_else(|_| String::from("a panic"))
}

fn compare(user: u32) {
    if !can_mount() {
        return;
    }
    let temp = tempfile::tempdir().unwrap();
    fs::set_permissions(temp.path(), fs::Permissions::from_mode(0o755)).unwrap();
    let (below, point) = (temp.path().join("below"), temp.path().join("mnt"));
    let url = format!("file://{}/store", temp.path().display());
    fs::create_dir(&below).unwrap();
    let mounted = Mounted::new(&url, &point, &["--memory", "64M", "--allow-other"]);
    // A folder above may be closed to others, as those for temporary files are.
    let comes_in = |directory: &Path| fs::metadata(directory).is_ok().to_string();
    if case(&below.join("first"), user, comes_in) == "false" {
        println!("skipped: another user can't come to this folder");
        return;
    }
    let cases = of_a_directory::cases();
    let mut differ = Vec::new();
    for &(name, does) in cases {
        let expected = case(&below.join(name), user, does);
        let seen = case(&point.join(name), user, does);
        let is_named = DIFFERS.iter().any(|(differs, _)| *differs == name);
        if seen != expected && !is_named {
            differ.push(format!("{name}\n  below    {expected}\n  mounted  {seen}"));
        }
    }
    assert!(
        differ.is_empty(),
        "{} of {} cases differ:\n{}",
        differ.len(),
        cases.len(),
        differ.join("\n")
    );
    mounted.end();
}

#[test]
fn every_call_answers_as_the_file_system_below_for_root() {
    compare(0);
}

#[test]
fn every_call_answers_as_the_file_system_below_for_another_user() {
    compare(USER);
}
