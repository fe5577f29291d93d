//! Attributes: modes, owners, times, extended attributes, ACLs, locks.

use super::{Case, all, said, told, with};
use rustix::fs::{
    Access, AtFlags, CWD, FallocateFlags, FlockOperation, Mode, OFlags, Timespec, Timestamps, UTIME_NOW,
    UTIME_OMIT, XattrFlags,
};
use std::fs::{self, File};
use std::os::unix::fs::{FileExt, MetadataExt, PermissionsExt, chown, lchown, symlink};
use std::path::Path;
use std::time::{Duration, UNIX_EPOCH};

fn mode(d: &Path, name: &str) -> String {
    fs::symlink_metadata(d.join(name)).map_or("none".into(), |m| format!("{:o}", m.mode()))
}

fn owner(d: &Path, name: &str) -> String {
    let metadata = fs::symlink_metadata(d.join(name)).unwrap();
    format!("{}:{}", metadata.uid(), metadata.gid())
}

fn chmod(d: &Path, name: &str, mode: u32) -> String {
    told(fs::set_permissions(
        d.join(name),
        fs::Permissions::from_mode(mode),
    ))
}

fn set(d: &Path, name: &str, value: &[u8], flags: XattrFlags) -> String {
    said(rustix::fs::setxattr(d.join("a"), name, value, flags)) + " " + value.get(..1).map_or("", |_| name)
}

fn attribute(d: &Path, name: &str) -> String {
    let mut buffer = [0; 300];
    let value = rustix::fs::getxattr(d.join("a"), name, &mut buffer);
    with(value.map(|len| String::from_utf8_lossy(&buffer[..len]).into_owned()))
}

/// A POSIX ACL as the kernel takes it: version 2, then tag, permissions and number of each entry.
fn acl(entries: &[(u16, u16, u32)]) -> Vec<u8> {
    let mut bytes = 2_u32.to_le_bytes().to_vec();
    for (tag, permissions, id) in entries {
        bytes.extend(tag.to_le_bytes());
        bytes.extend(permissions.to_le_bytes());
        bytes.extend(id.to_le_bytes());
    }
    bytes
}

const NOBODY: u32 = u32::MAX;

/// A program that may use raw sockets, whoever runs it: version 2, effective, bit 13 of the permitted set.
const NET_RAW: [u8; 20] = [1, 0, 0, 2, 0, 0x20, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0];

pub(super) const CASES: &[Case] = &[
    ("chmod", |d| {
        fs::write(d.join("a"), "").unwrap();
        fs::create_dir(d.join("dir")).unwrap();
        let modes = [0o600, 0o4755, 0o2755, 0o2644, 0o1777, 0o000];
        let changed = modes.map(|bits| format!("{} {}", chmod(d, "a", bits), mode(d, "a")));
        all([
            all(changed),
            chmod(d, "dir", 0o3777),
            mode(d, "dir"),
            chmod(d, "none", 0o600),
        ])
    }),
    ("modes_of_new_files", |d| {
        let bits = Mode::from_raw_mode(0o7777);
        let file = rustix::fs::open(d.join("a"), OFlags::CREATE | OFlags::RDWR, bits);
        rustix::fs::mkdir(d.join("dir"), bits).unwrap();
        fs::set_permissions(d.join("dir"), fs::Permissions::from_mode(0o2775)).unwrap();
        fs::create_dir(d.join("dir/below")).unwrap();
        fs::write(d.join("dir/file"), "").unwrap();
        all([
            said(file),
            mode(d, "a"),
            mode(d, "dir"),
            mode(d, "dir/below"),
            mode(d, "dir/file"),
        ])
    }),
    ("a_new_file_for_reading_only_can_be_written_by_its_maker", |d| {
        let flags = OFlags::CREATE | OFlags::EXCL | OFlags::RDWR;
        let file: File = rustix::fs::open(d.join("a"), flags, Mode::from_raw_mode(0o444))
            .unwrap()
            .into();
        all([
            told(file.write_all_at(b"text", 0)),
            mode(d, "a"),
            told(File::options().write(true).open(d.join("a"))),
            fs::read_to_string(d.join("a")).unwrap(),
        ])
    }),
    ("a_new_file_that_none_may_read", |d| {
        let flags = OFlags::CREATE | OFlags::EXCL | OFlags::WRONLY;
        let file: File = rustix::fs::open(d.join("a"), flags, Mode::from_raw_mode(0o200))
            .unwrap()
            .into();
        all([
            told(file.write_all_at(b"text", 1)),
            told(fs::read(d.join("a"))),
            mode(d, "a"),
        ])
    }),
    ("chown", |d| {
        fs::write(d.join("a"), "").unwrap();
        symlink("a", d.join("l")).unwrap();
        chmod(d, "a", 0o6755);
        all([
            told(chown(d.join("a"), Some(1), None)),
            told(chown(d.join("a"), None, Some(2))),
            format!("{} {}", owner(d, "a"), mode(d, "a")),
            told(lchown(d.join("l"), Some(3), Some(4))),
            format!("{} {}", owner(d, "l"), owner(d, "a")),
            told(chown(d.join("a"), None, None)),
        ])
    }),
    (
        "whoever_changes_the_data_of_a_file_takes_from_it_what_it_may_do",
        |d| {
            // What is not written yet is not below: this must not wait for it.
            let after = |bits: u32, change: fn(&File) -> String| {
                let path = d.join("a");
                let _ = fs::remove_file(&path);
                fs::write(&path, [7; 10_000]).unwrap();
                let file = File::options().read(true).write(true).open(&path).unwrap();
                file.sync_all().unwrap();
                let capability = set(d, "security.capability", &NET_RAW, XattrFlags::empty());
                chmod(d, "a", bits);
                let had = attribute(d, "security.capability").len();
                let done = change(&file);
                all([
                    capability,
                    had.to_string(),
                    done,
                    mode(d, "a"),
                    attribute(d, "security.capability").len().to_string(),
                ])
            };
            let changes: [fn(&File) -> String; 7] = [
                |file| told(file.write_all_at(b"text", 0)),
                |file| told(file.write_all_at(b"text", 20_000)),
                |file| told(file.set_len(5)),
                |file| said(rustix::fs::fallocate(file, FallocateFlags::empty(), 0, 20_000)),
                |file| {
                    let flags = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
                    said(rustix::fs::fallocate(file, flags, 0, 5_000))
                },
                |file| said(rustix::fs::fallocate(file, FallocateFlags::ZERO_RANGE, 0, 5_000)),
                |file| {
                    let (mut from, mut to) = (0, 5_000);
                    said(rustix::fs::copy_file_range(
                        file,
                        Some(&mut from),
                        file,
                        Some(&mut to),
                        100,
                    ))
                },
            ];
            let seen = changes.map(|change| all([0o6755, 0o2745, 0o644].map(|bits| after(bits, change))));
            all(seen)
        },
    ),
    ("owners_of_new_files", |d| {
        fs::write(d.join("a"), "").unwrap();
        fs::create_dir(d.join("dir")).unwrap();
        symlink("a", d.join("l")).unwrap();
        all(["a", "dir", "l"].map(|name| owner(d, name)))
    }),
    ("permissions_are_obeyed", |d| {
        fs::write(d.join("a"), "text").unwrap();
        fs::create_dir(d.join("dir")).unwrap();
        fs::write(d.join("dir/b"), "").unwrap();
        let tries = |bits: u32| {
            chmod(d, "a", bits);
            chmod(d, "dir", bits);
            let seen = all([
                told(fs::read(d.join("a"))),
                told(File::options().write(true).open(d.join("a"))),
                told(fs::read_dir(d.join("dir"))),
                told(fs::write(d.join("dir/c"), "")),
                told(fs::metadata(d.join("dir/b"))),
                told(fs::rename(d.join("dir/b"), d.join("dir/e"))),
                said(rustix::fs::accessat(
                    CWD,
                    d.join("a"),
                    Access::WRITE_OK,
                    AtFlags::EACCESS,
                )),
            ]);
            chmod(d, "dir", 0o700);
            seen
        };
        all([
            tries(0o000),
            tries(0o400),
            tries(0o200),
            tries(0o100),
            tries(0o500),
            tries(0o700),
        ])
    }),
    ("another_s_files", |d| {
        // Made by the owner of the directory above, who is root in one of the tests.
        let above = d.parent().unwrap();
        all([
            told(fs::write(above.join("mine"), "")),
            told(fs::remove_file(above.join("mine"))),
        ])
    }),
    ("writing_takes_the_privileges_of_a_file", |d| {
        let file = File::create(d.join("a")).unwrap();
        let after = |does: &dyn Fn()| {
            chmod(d, "a", 0o6777);
            does();
            let seen = mode(d, "a");
            chmod(d, "a", 0o2767);
            does();
            format!("{seen} {}", mode(d, "a"))
        };
        all([
            after(&|| file.write_all_at(b"x", 0).unwrap()),
            after(&|| file.set_len(10).unwrap()),
            after(&|| file.set_len(20).unwrap()),
        ])
    }),
    ("times", |d| {
        fs::write(d.join("a"), "text").unwrap();
        symlink("a", d.join("l")).unwrap();
        let spec = |seconds, nanoseconds| Timespec {
            tv_sec: seconds,
            tv_nsec: nanoseconds,
        };
        let stamp = |name: &str, accessed, modified, flags| {
            let times = Timestamps {
                last_access: accessed,
                last_modification: modified,
            };
            let stamped = said(rustix::fs::utimensat(CWD, d.join(name), &times, flags));
            let seen = fs::symlink_metadata(d.join(name)).unwrap();
            let is_new = seen.mtime() > 1_500_000_000;
            match is_new {
                true => format!("{stamped} new"),
                false => format!(
                    "{stamped} {} {}.{}",
                    seen.atime(),
                    seen.mtime(),
                    seen.mtime_nsec()
                ),
            }
        };
        let none = AtFlags::empty();
        all([
            stamp("a", spec(1000, 5), spec(2000, 999_999_999), none),
            stamp("a", spec(0, UTIME_OMIT), spec(3000, 7), none),
            stamp("a", spec(4000, 0), spec(0, UTIME_OMIT), none),
            stamp("a", spec(-5, 3), spec(-1, 5), none),
            stamp("l", spec(1, 1), spec(2, 2), AtFlags::SYMLINK_NOFOLLOW),
            stamp("a", spec(0, UTIME_OMIT), spec(0, UTIME_NOW), none),
            stamp("a", spec(0, 2_000_000_000), spec(0, 0), none),
        ])
    }),
    ("times_move_when_data_do", |d| {
        let file = File::create(d.join("a")).unwrap();
        let old = UNIX_EPOCH + Duration::from_secs(1_000);
        let moves = |does: &dyn Fn()| {
            file.set_modified(old).unwrap();
            let before = file.metadata().unwrap();
            assert_eq!(before.modified().unwrap(), old);
            does();
            let after = file.metadata().unwrap();
            let changed = (after.ctime(), after.ctime_nsec()) >= (before.ctime(), before.ctime_nsec());
            format!("{} {changed}", after.modified().unwrap() > old)
        };
        all([
            moves(&|| file.write_all_at(b"x", 0).unwrap()),
            moves(&|| file.set_len(100).unwrap()),
            moves(&|| drop(fs::read(d.join("a")).unwrap())),
            moves(&|| file.sync_all().unwrap()),
            moves(&|| drop(chmod(d, "a", 0o600))),
            moves(&|| file.write_all_at(b"", 0).unwrap()),
        ])
    }),
    ("directory_times_move", |d| {
        let old = UNIX_EPOCH + Duration::from_secs(1_000);
        let moves = |does: &dyn Fn()| {
            File::open(d).unwrap().set_modified(old).unwrap();
            does();
            (fs::metadata(d).unwrap().modified().unwrap() > old).to_string()
        };
        all([
            moves(&|| fs::write(d.join("a"), "").unwrap()),
            moves(&|| fs::write(d.join("a"), "more").unwrap()),
            moves(&|| fs::rename(d.join("a"), d.join("b")).unwrap()),
            moves(&|| fs::remove_file(d.join("b")).unwrap()),
            moves(&|| fs::create_dir(d.join("c")).unwrap()),
        ])
    }),
    ("extended_attributes", |d| {
        fs::write(d.join("a"), "").unwrap();
        let none = XattrFlags::empty();
        let mut small = [0; 2];
        let mut list = [0; 200];
        let made = all([
            set(d, "user.one", b"first", XattrFlags::CREATE),
            set(d, "user.one", b"again", XattrFlags::CREATE),
            set(d, "user.one", b"other", XattrFlags::REPLACE),
            set(d, "user.two", b"x", XattrFlags::REPLACE),
            set(d, "user.empty", b"", none),
            set(d, "trusted.x", b"x", none),
            set(d, "nonsense", b"x", none),
            set(d, "user.", b"x", none),
            set(d, &format!("user.{}", "n".repeat(300)), b"x", none),
        ]);
        let listed = rustix::fs::listxattr(d.join("a"), &mut list[..]);
        let listed = listed.map(|len| {
            let text = String::from_utf8_lossy(&list[..len]).into_owned();
            let mut names: Vec<_> = text.split('\0').map(str::to_owned).collect();
            names.sort();
            names
        });
        all([
            made,
            attribute(d, "user.one"),
            with(rustix::fs::getxattr_query(d.join("a"), "user.one")),
            with(rustix::fs::listxattr_query(d.join("a"))),
            attribute(d, "user.none"),
            attribute(d, "user.empty"),
            with(rustix::fs::getxattr(d.join("a"), "user.one", &mut small[..])),
            with(listed),
            with(rustix::fs::listxattr(d.join("a"), &mut small[..])),
            said(rustix::fs::removexattr(d.join("a"), "user.one")),
            said(rustix::fs::removexattr(d.join("a"), "user.one")),
        ])
    }),
    ("large_extended_attributes", |d| {
        fs::write(d.join("a"), "").unwrap();
        let none = XattrFlags::empty();
        let set = |len: usize| {
            said(rustix::fs::setxattr(
                d.join("a"),
                "user.large",
                &vec![7; len],
                none,
            ))
        };
        all([set(1000), set(65_537)])
    }),
    ("an_acl_is_kept_and_obeyed", |d| {
        fs::write(d.join("a"), "text").unwrap();
        let entries = acl(&[
            (1, 6, NOBODY),
            (2, 4, 1234),
            (4, 0, NOBODY),
            (0x10, 4, NOBODY),
            (0x20, 0, NOBODY),
        ]);
        let none = XattrFlags::empty();
        let set = rustix::fs::setxattr(d.join("a"), "system.posix_acl_access", &entries, none);
        let mut back = [0; 200];
        let got = rustix::fs::getxattr(d.join("a"), "system.posix_acl_access", &mut back[..]);
        let same = got.is_ok_and(|len| back[..len] == entries);
        let changed = chmod(d, "a", 0o600);
        all([said(set), same.to_string(), mode(d, "a"), changed, mode(d, "a")])
    }),
    ("a_default_acl_makes_modes", |d| {
        fs::create_dir(d.join("dir")).unwrap();
        let entries = acl(&[
            (1, 7, NOBODY),
            (2, 7, 1234),
            (4, 5, NOBODY),
            (0x10, 7, NOBODY),
            (0x20, 0, NOBODY),
        ]);
        let set = rustix::fs::setxattr(
            d.join("dir"),
            "system.posix_acl_default",
            &entries,
            XattrFlags::empty(),
        );
        fs::write(d.join("dir/a"), "").unwrap();
        fs::create_dir(d.join("dir/b")).unwrap();
        all([said(set), mode(d, "dir/a"), mode(d, "dir/b")])
    }),
    ("whole_file_locks", |d| {
        fs::write(d.join("a"), "").unwrap();
        let (one, two) = (File::open(d.join("a")).unwrap(), File::open(d.join("a")).unwrap());
        let lock = |file: &File, how| said(rustix::fs::flock(file, how));
        all([
            lock(&one, FlockOperation::LockExclusive),
            lock(&two, FlockOperation::NonBlockingLockShared),
            lock(&one, FlockOperation::Unlock),
            lock(&two, FlockOperation::NonBlockingLockShared),
            lock(&one, FlockOperation::NonBlockingLockShared),
            lock(&one, FlockOperation::NonBlockingLockExclusive),
        ])
    }),
    ("record_locks", |d| {
        let file = File::create(d.join("a")).unwrap();
        let lock = said(rustix::fs::fcntl_lock(
            &file,
            FlockOperation::NonBlockingLockExclusive,
        ));
        let other = std::process::Command::new("python3")
            .args(["-c", LOCK, &d.join("a").display().to_string()])
            .output();
        let other = other.map_or("no python3".into(), |o| {
            String::from_utf8_lossy(&o.stdout).trim().to_owned()
        });
        all([
            lock,
            other,
            said(rustix::fs::fcntl_lock(&file, FlockOperation::Unlock)),
        ])
    }),
    ("statfs", |d| {
        let said = rustix::fs::statvfs(d).unwrap();
        format!(
            "{} {} {}",
            said.f_bsize,
            said.f_namemax,
            said.f_blocks > 0 && said.f_bavail <= said.f_bfree
        )
    }),
    ("what_stat_says", |d| {
        fs::write(d.join("a"), "12345").unwrap();
        let metadata = fs::metadata(d.join("a")).unwrap();
        let same_number = fs::read_dir(d).unwrap().all(|entry| {
            use std::os::unix::fs::DirEntryExt;
            entry.unwrap().ino() == metadata.ino()
        });
        format!(
            "{} {} {} {same_number}",
            metadata.len(),
            metadata.nlink(),
            metadata.blksize()
        )
    }),
];

const LOCK: &str = "
import fcntl, sys
f = open(sys.argv[1], 'r+b')
try:
    fcntl.lockf(f, fcntl.LOCK_EX | fcntl.LOCK_NB)
    print('locked')
except OSError as e:
    print(e.errno)
";
