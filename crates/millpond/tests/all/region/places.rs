//! Swap on a block device, and regions of a user without privileges.

use super::{MIB, built, check, fill, folder, when_free};
use crate::support::{bounded, skip};
use millpond::{PageCache, SwapFile};
use std::fs;
use std::io::{Read, Write};
use std::os::unix::fs::{FileExt, PermissionsExt};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Says to a test that it is the child, and in which folder.
const FOLDER: &str = "MILLPOND_REGION_PLACES_FOLDER";
/// A user that owns nothing.
const NOBODY: u32 = 65534;

/// Pages of a region of 16 MiB on 4 MiB of memory are what was written, all of them written and read twice.
fn is_what_was_written(cache: &PageCache) {
    let mut region = cache.region(16 * MIB as usize).unwrap();
    for round in 0..2 {
        for (n, page) in region.as_mut_slice().chunks_mut(4096).enumerate() {
            fill(n + round, page);
        }
        for (n, page) in region.as_slice().chunks(4096).enumerate() {
            check(n + round, page);
        }
    }
    assert!(cache.stats().counters.pswpin > 1000);
}

/// A file as a block device.
struct Loop(PathBuf);

impl Loop {
    fn attach(image: &Path) -> Result<Loop, String> {
        let output = Command::new("losetup")
            .args(["--find", "--show"])
            .arg(image)
            .output()
            .map_err(|e| format!("losetup: {e}"))?;
        match output.status.success() {
            true => Ok(Loop(String::from_utf8_lossy(&output.stdout).trim().into())),
            false => Err(String::from_utf8_lossy(&output.stderr).trim().to_owned()),
        }
    }
}

impl Drop for Loop {
    fn drop(&mut self) {
        let _ = Command::new("losetup").arg("--detach").arg(&self.0).status();
    }
}

#[test]
fn swap_on_a_block_device_is_one_cache_s_alone_and_never_one_that_holds_something() {
    bounded(|| {
        let folder = folder();
        let image = folder.path().join("image");
        fs::File::create(&image).unwrap().set_len(20 * MIB).unwrap();
        let device = match Loop::attach(&image) {
            Ok(device) => device,
            Err(why) => return skip(format_args!("no file can be attached as a block device: {why}")),
        };
        let build = |bytes: u64| {
            let swap = SwapFile::new(&device.0, bytes);
            PageCache::builder().memory(4 * MIB).swap(swap).build()
        };
        let cache = match build(16 * MIB) {
            Err(error @ millpond::Error::Setup { .. }) => return skip(error),
            cache => cache.unwrap(),
        };
        is_what_was_written(&cache);
        let busy = build(16 * MIB).unwrap_err().to_string();
        assert!(busy.contains("locked"), "{busy}");
        drop(cache);
        let small = when_free(|| build(20 * MIB)).unwrap_err().to_string();
        assert!(
            small.contains("20971520 bytes") && small.contains("20975616"),
            "{small}"
        );
        // What was swap once may be swap again; what another program has written stays.
        drop(when_free(|| build(16 * MIB)).unwrap());
        let content = fs::OpenOptions::new().write(true).open(&device.0).unwrap();
        content.write_all_at(b"a file system", 0).unwrap();
        content.sync_all().unwrap();
        let refused = when_free(|| build(16 * MIB)).unwrap_err().to_string();
        assert!(refused.contains("holds something else"), "{refused}");
        let mut first = [0; 13];
        fs::File::open(&device.0).unwrap().read_exact(&mut first).unwrap();
        assert_eq!(&first, b"a file system");
    });
}

/// What a process may do if its faults in system calls can't be served: `vm.unprivileged_userfaultfd` is 0.
#[test]
fn a_user_without_privileges_has_regions_and_hands_to_system_calls_what_is_there() {
    if let Some(folder) = std::env::var_os(FOLDER) {
        return of_nobody(Path::new(&folder));
    }
    if !rustix::process::geteuid().is_root() {
        return of_nobody(folder().path());
    }
    // Where any user may go, with a copy of this program.
    let folder = tempfile::tempdir().unwrap();
    fs::set_permissions(folder.path(), fs::Permissions::from_mode(0o777)).unwrap();
    let program = folder.path().join("test");
    fs::copy(std::env::current_exe().unwrap(), &program).unwrap();
    let name =
        "region::places::a_user_without_privileges_has_regions_and_hands_to_system_calls_what_is_there";
    let child = Command::new(&program)
        .args(["--exact", name, "--nocapture"])
        .current_dir(folder.path())
        .env(FOLDER, folder.path())
        .uid(NOBODY)
        .gid(NOBODY)
        .output();
    let child = match child {
        Err(why) => return skip(format_args!("no program can be run as another user: {why}")),
        Ok(child) => child,
    };
    let said = String::from_utf8_lossy(&child.stdout);
    for line in said.lines().filter(|line| line.starts_with("skipped: ")) {
        println!("{line}");
    }
    let complaint = String::from_utf8_lossy(&child.stderr);
    assert!(
        child.status.success() && said.contains("1 passed"),
        "{said}\n{complaint}"
    );
}

fn of_nobody(folder: &Path) {
    let swap = SwapFile::new(folder.join("swap"), 20 * MIB);
    let cache = PageCache::builder().memory(4 * MIB).swap(swap).build();
    let Some(cache) = built(cache, folder) else {
        return;
    };
    is_what_was_written(&cache);
    let mut region = cache.region(4096).unwrap();
    let mut file = fs::File::create(folder.join("out")).unwrap();
    let written = file.write(region.as_slice());
    let allowed = fs::read_to_string("/proc/sys/vm/unprivileged_userfaultfd");
    let device = fs::File::options()
        .read(true)
        .write(true)
        .open("/dev/userfaultfd");
    let is_root = rustix::process::geteuid().is_root();
    if allowed.is_ok_and(|text| text.trim() == "0") && !is_root && device.is_err() {
        assert_eq!(written.unwrap_err().raw_os_error(), Some(libc::EFAULT));
    }
    region.as_mut_slice()[7] = 7;
    assert_eq!(file.write(region.as_slice()).unwrap(), 4096);
    // Into one that was only read since it came from its slot.
    let mut region = cache.region(16 << 20).unwrap();
    region.as_mut_slice().fill(1);
    let file = fs::File::open(folder.join("out")).unwrap();
    for page in region.as_mut_slice().chunks_mut(4096).step_by(64) {
        assert_eq!(std::hint::black_box(page[0]), 1);
        assert_eq!(file.read_at(page, 0).unwrap(), 4096);
        assert_eq!((page[0], page[7]), (0, 7));
    }
}
