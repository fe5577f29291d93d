//! What a file may do goes before its data change, in what the kernel knows as well.

use super::{TestMount, folders, skip};
use crate::mount::users::{USER, as_user};
use rustix::fs::{AtFlags, FallocateFlags, StatxFlags, XattrFlags};
use rustix::process::{Gid, geteuid};
use std::fs::{self, File, Permissions};
use std::io::{self, Read, Seek, Write};
use std::os::unix::fs::{MetadataExt, PermissionsExt, chown};
use std::path::Path;
use std::process::Command;

/// The kernel asks for attributes only once, unless it is told to ask again.
fn start() -> Option<TestMount> {
    if !geteuid().is_root() {
        skip("several users need root");
        return None;
    }
    let arguments = ["--memory", "16M", "--allow-other", "--attribute-timeout", "3600"];
    let mounted = TestMount::start(&folders()[0], &arguments)?;
    let at = mounted.at();
    if as_user(|| fs::metadata(&at).is_err()) {
        skip("another user can't come to this folder");
        return None;
    }
    Some(mounted)
}

fn mode(path: &Path) -> u32 {
    fs::metadata(path).unwrap().mode() & 0o7777
}

/// The mode that the kernel has of a file, as it has it when it runs that: `stat` asks for the length as well, which the
/// kernel knows to be old.
fn known_mode(path: &Path) -> u32 {
    let stat = rustix::fs::statx(rustix::fs::CWD, path, AtFlags::empty(), StatxFlags::MODE);
    u32::from(stat.unwrap().stx_mode) & 0o7777
}

#[test]
fn the_kernel_forgets_that_a_file_runs_as_its_owner_before_another_has_changed_it() {
    type Changes = fn(&File, &File) -> io::Result<()>;
    fn allocate(file: &File, flags: FallocateFlags) -> io::Result<()> {
        // File systems need not have all of them: then nothing is changed.
        match rustix::fs::fallocate(file, flags, 0, 8192) {
            Err(rustix::io::Errno::OPNOTSUPP) => (&*file).write_all(b"x"),
            other => Ok(other?),
        }
    }
    let Some(mounted) = start() else { return };
    let changes: [(&str, Changes); 7] = [
        ("write", |mut file, _| file.write_all(b"x")),
        ("append", |mut file, _| {
            file.seek(io::SeekFrom::End(0))?;
            file.write_all(b"x")
        }),
        ("allocate", |file, _| allocate(file, FallocateFlags::empty())),
        ("hole", |file, _| {
            allocate(file, FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE)
        }),
        ("zeros", |file, _| allocate(file, FallocateFlags::ZERO_RANGE)),
        ("cut", |file, _| file.set_len(100)),
        ("copy", |file, other| {
            let copied = rustix::fs::copy_file_range(other, None, file, None, 5000)?;
            assert_eq!(copied, 5000);
            Ok(())
        }),
    ];
    let other = mounted.at().join("other");
    fs::write(&other, [7; 10_000]).unwrap();
    for (name, change) in changes {
        let path = mounted.at().join(name);
        fs::write(&path, [1; 10_000]).unwrap();
        fs::set_permissions(&path, Permissions::from_mode(0o6777)).unwrap();
        assert_eq!(mode(&path), 0o6777, "{name}");
        let seen = as_user(|| {
            let file = File::options().read(true).write(true).open(&path).unwrap();
            change(&file, &File::open(&other).unwrap()).unwrap();
            known_mode(&path)
        });
        assert_eq!(format!("{seen:o}"), "777", "after {name}");
        assert_eq!(mode(&mounted.source().join(name)), 0o777, "{name}");
    }
}

#[test]
fn a_program_that_another_has_written_to_does_not_run_as_its_owner() {
    let Some(mounted) = start() else { return };
    let program = mounted.at().join("program");
    let Ok(mut id) = File::open("/usr/bin/id") else {
        return skip("no id(1) to be run as somebody");
    };
    let mut bytes = Vec::new();
    id.read_to_end(&mut bytes).unwrap();
    fs::write(&program, &bytes).unwrap();
    fs::set_permissions(&program, Permissions::from_mode(0o4777)).unwrap();
    let runs_as = || {
        let output = Command::new(&program).arg("-u").output().unwrap();
        String::from_utf8_lossy(&output.stdout).trim().to_owned()
    };
    as_user(|| {
        if runs_as() != "0" {
            return skip("no program runs as its owner in this folder");
        }
        let mut file = File::options().write(true).open(&program).unwrap();
        file.write_all(&bytes).unwrap();
        drop(file);
        assert_eq!(runs_as(), USER.to_string());
    });
}

#[test]
fn an_acl_takes_set_group_id_from_a_file_of_a_group_that_its_owner_is_not_in() {
    const GROUP: u32 = 4242;
    let Some(mounted) = start() else { return };
    // Version 2; owner, group and others have all permissions: tag, permissions, and the number of no user.
    let mut acl = 2_u32.to_le_bytes().to_vec();
    for tag in [0x01_u16, 0x04, 0x20] {
        acl.extend_from_slice(&tag.to_le_bytes());
        acl.extend_from_slice(&7_u16.to_le_bytes());
        acl.extend_from_slice(&u32::MAX.to_le_bytes());
    }
    let below = tempfile::tempdir_in(&folders()[0]).unwrap();
    fs::set_permissions(below.path(), Permissions::from_mode(0o755)).unwrap();
    let after = |folder: &Path, groups: &[u32]| {
        let path = folder.join(format!("of-{}", groups.len()));
        fs::write(&path, "").unwrap();
        chown(&path, Some(USER), Some(GROUP)).unwrap();
        fs::set_permissions(&path, Permissions::from_mode(0o2755)).unwrap();
        assert_eq!(mode(&path), 0o2755);
        let groups: Vec<Gid> = groups.iter().map(|&group| Gid::from_raw(group)).collect();
        let set = as_user_in(&groups, || {
            rustix::fs::setxattr(&path, "system.posix_acl_access", &acl, XattrFlags::empty())
        });
        set.map(|()| mode(&path))
    };
    for (groups, expected) in [(&[][..], 0o777), (&[GROUP], 0o2777)] {
        match after(below.path(), groups) {
            Err(error) => return skip(&format!("this file system has no ACLs: {error}")),
            Ok(mode) => assert_eq!(mode, expected, "below"),
        }
        let seen = after(&mounted.at(), groups).unwrap();
        assert_eq!(
            format!("{seen:o}"),
            format!("{expected:o}"),
            "in groups {groups:?}"
        );
    }
}

/// The file system below is changed by us, who may leave it to any file.
#[test]
fn set_group_id_goes_with_an_owner_or_a_writer_who_may_not_give_it() {
    const GROUP: u32 = 4242;
    type Changes = fn(&Path);
    let Some(mounted) = start() else { return };
    let below = tempfile::tempdir_in(&folders()[0]).unwrap();
    fs::set_permissions(below.path(), Permissions::from_mode(0o755)).unwrap();
    fn write(path: &Path) {
        let mut file = File::options().write(true).open(path).unwrap();
        file.write_all(b"x").unwrap();
    }
    fn cut(path: &Path) {
        let file = File::options().write(true).open(path).unwrap();
        file.set_len(1).unwrap();
    }
    let changes: [(&str, u32, u32, Changes); 4] = [
        ("group", USER, 0o2644, |path| {
            chown(path, None, Some(USER)).unwrap()
        }),
        ("write", 0, 0o2666, write),
        ("cut", 0, 0o2666, cut),
        ("kept", 0, 0o6777, |path| chown(path, None, Some(0)).unwrap()),
    ];
    for (name, owner, bits, change) in changes {
        for groups in [&[][..], &[Gid::from_raw(GROUP)]] {
            let after = |folder: &Path| {
                let path = folder.join(format!("{name}-{}", groups.len()));
                fs::write(&path, "some").unwrap();
                chown(&path, Some(owner), Some(GROUP)).unwrap();
                fs::set_permissions(&path, Permissions::from_mode(bits)).unwrap();
                match name {
                    "kept" => change(&path),
                    _ => as_user_in(groups, || change(&path)),
                }
                format!("{:o}", mode(&path))
            };
            assert_eq!(after(&mounted.at()), after(below.path()), "{name}, in {groups:?}");
        }
    }
}

#[test]
fn root_without_the_capability_for_it_leaves_no_file_that_runs_as_its_owner() {
    let Some(mounted) = start() else { return };
    let path = mounted.at().join("file");
    fs::write(&path, "some").unwrap();
    fs::set_permissions(&path, Permissions::from_mode(0o6777)).unwrap();
    File::options()
        .write(true)
        .open(&path)
        .unwrap()
        .set_len(2)
        .unwrap();
    assert_eq!(format!("{:o}", mode(&path)), "6777");
    std::thread::scope(|scope| {
        let without = scope.spawn(|| {
            let mut sets = rustix::thread::capabilities(None).unwrap();
            sets.effective -= rustix::thread::CapabilitySet::FSETID;
            rustix::thread::set_capabilities(None, sets).unwrap();
            File::options()
                .write(true)
                .open(&path)
                .unwrap()
                .set_len(1)
                .unwrap();
        });
        without.join().unwrap();
    });
    assert_eq!(format!("{:o}", mode(&path)), "777");
}

/// As that user, with these groups.
fn as_user_in<T: Send>(groups: &[Gid], does: impl FnOnce() -> T + Send) -> T {
    std::thread::scope(|scope| {
        let thread = scope.spawn(|| {
            let (user, group) = (rustix::process::Uid::from_raw(USER), Gid::from_raw(USER));
            rustix::thread::set_thread_groups(groups).unwrap();
            rustix::thread::set_thread_res_gid(group, group, group).unwrap();
            rustix::thread::set_thread_res_uid(user, user, user).unwrap();
            does()
        });
        thread.join().unwrap()
    })
}
