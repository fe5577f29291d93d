//! Every call of POSIX that a mount carries, beside the same call on the file system below: what it returns, with which
//! error, and what the files are like afterwards.
//!
//! Each case gets an empty directory and says what it saw in a line of text; a test compares the two lines. What
//! differs by nature (inode numbers, times, blocks) is not said, or as yes and no.

mod cases;

use super::{TestMount, folders, skip};
use rustix::process::{Gid, Uid};
use rustix::thread::{set_thread_res_gid, set_thread_res_uid};
use std::fs;
use std::os::unix::fs::chown;
use std::path::Path;
use std::thread;

/// Some user other than root.
const USER: u32 = 54_321;

/// Does a case as `user` in a directory of its own.
fn case(directory: &Path, user: u32, does: fn(&Path) -> String) -> String {
    fs::create_dir(directory).unwrap();
    if user != 0 {
        chown(directory, Some(user), Some(user)).unwrap();
    }
    let directory = directory.to_owned();
    // Users and groups are those of a thread.
    let thread = thread::spawn(move || {
        if user != 0 {
            rustix::thread::set_thread_groups(&[]).unwrap();
            set_thread_res_gid(None, Gid::from_raw(user), None).unwrap();
            set_thread_res_uid(None, Uid::from_raw(user), None).unwrap();
        }
        does(&directory)
    });
    thread.join().unwrap()
}

fn compare(user: u32, arguments: &[&str]) {
    if !rustix::process::geteuid().is_root() {
        return skip("a comparison with several users needs root");
    }
    for folder in folders() {
        let Some(mounted) = TestMount::start(&folder, arguments) else {
            return;
        };
        let below = tempfile::tempdir_in(&folder).unwrap();
        let open = <fs::Permissions as std::os::unix::fs::PermissionsExt>::from_mode(0o755);
        fs::set_permissions(below.path(), open).unwrap();
        // A folder above may be closed to others, as those for temporary files are.
        let comes_in = |directory: &Path| fs::metadata(directory).is_ok().to_string();
        if case(&below.path().join("first"), user, comes_in) == "false" {
            return skip("another user can't come to this folder");
        }
        let mut differ = Vec::new();
        for &(name, does) in cases::ALL {
            let expected = case(&below.path().join(name), user, does);
            let seen = case(&mounted.at().join(name), user, does);
            if seen != expected {
                differ.push(format!("{name}\n  below    {expected}\n  mounted  {seen}"));
            }
        }
        assert!(
            differ.is_empty(),
            "{} of {} cases differ, over {}:\n{}",
            differ.len(),
            cases::ALL.len(),
            folder.display(),
            differ.join("\n")
        );
        println!(
            "{} cases are the same over {}",
            cases::ALL.len(),
            folder.display()
        );
    }
}

#[test]
fn every_call_answers_as_the_file_system_below_for_root() {
    compare(0, &["--memory", "16M", "--allow-other"]);
}

#[test]
fn every_call_answers_as_the_file_system_below_for_another_user() {
    compare(USER, &["--memory", "16M", "--allow-other"]);
}
