//! System calls on a region's memory; processes that are killed.

use super::{MIB, cache, check, fill, folder, when_free};
use crate::support::bounded;
use std::fs::{File, OpenOptions};
use std::io::{BufRead, BufReader, Read, Write};
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::Path;
use std::process::{Command, Stdio};

/// Says to the test that it is the child, and in which folder.
const FOLDER: &str = "MILLPOND_REGION_KILL_FOLDER";

fn pages(path: &Path, count: usize) -> File {
    let mut bytes = vec![0; count * 4096];
    for (n, page) in bytes.chunks_mut(4096).enumerate() {
        fill(n + 77, page);
    }
    std::fs::write(path, bytes).unwrap();
    let direct = OpenOptions::new()
        .read(true)
        .custom_flags(libc::O_DIRECT)
        .open(path);
    direct.unwrap_or_else(|_| File::open(path).unwrap())
}

#[test]
fn system_calls_read_into_and_write_from_pages_that_are_not_there() {
    bounded(|| {
        let folder = folder();
        // What devices have pinned at a time, four times 1 MiB, must fit.
        let Some(cache) = cache(folder.path(), 6 * MIB, 16 * MIB) else {
            return;
        };
        if cache.notices().contains(&millpond::Notice::NoKernelFaults) {
            return crate::support::skip("system calls don't see faults here");
        }
        let path = folder.path().join("pages");
        let direct = pages(&path, 1024);
        let mut region = cache.region(16 * MIB as usize).unwrap();
        let (first, rest) = region.as_mut_slice().split_at_mut(4 * MIB as usize);
        let (second, third) = rest.split_at_mut(4 * MIB as usize);
        // Through the kernel's page cache, and past it: a device then writes into pages that must not leave meanwhile.
        File::open(&path).unwrap().read_exact(first).unwrap();
        std::thread::scope(|scope| {
            for (n, part) in second.chunks_mut(MIB as usize).enumerate() {
                let direct = &direct;
                scope.spawn(move || direct.read_exact_at(part, n as u64 * MIB).unwrap());
            }
            // Others press on memory.
            scope.spawn(|| {
                for (n, page) in third.chunks_mut(4096).enumerate() {
                    fill(n, page);
                }
            });
        });
        for part in [&*first, &*second] {
            for (n, page) in part.chunks(4096).enumerate() {
                check(n + 77, page);
            }
        }
        let copy = folder.path().join("copy");
        File::create(&copy).unwrap().write_all(first).unwrap();
        assert!(std::fs::read(&copy).unwrap() == std::fs::read(&path).unwrap());
        for (n, page) in third.chunks(4096).enumerate() {
            check(n, page);
        }
    });
}

#[test]
fn a_process_that_is_killed_leaves_no_lock_behind() {
    if let Ok(folder) = std::env::var(FOLDER) {
        let Some(cache) = cache(Path::new(&folder), 2 * MIB, 8 * MIB) else {
            println!("none");
            return;
        };
        let mut region = cache.region(8 * MIB as usize).unwrap();
        for round in 0.. {
            for (n, page) in region.as_mut_slice().chunks_mut(4096).enumerate() {
                fill(n ^ round, page);
            }
            println!("round");
        }
    }
    bounded(|| {
        let folder = folder();
        let name = "region::system::a_process_that_is_killed_leaves_no_lock_behind";
        let mut child = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", name, "--nocapture"])
            .env(FOLDER, folder.path())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let lines = BufReader::new(child.stdout.take().unwrap()).lines();
        let said = lines
            .map(Result::unwrap)
            .find(|line| line == "round" || line == "none");
        child.kill().unwrap();
        child.wait().unwrap();
        if said.as_deref() == Some("round") {
            // The file is free, has what it has, and is used again.
            let again = || {
                let swap = millpond::SwapFile::new(folder.path().join("swap"), 8 * MIB);
                millpond::PageCache::builder().memory(2 * MIB).swap(swap).build()
            };
            let cache = when_free(again).unwrap();
            let mut region = cache.region(8 * MIB as usize).unwrap();
            assert!(
                region.as_slice().iter().all(|&byte| byte == 0),
                "nothing of another's"
            );
            fill(5, region.as_mut_slice());
            check(5, region.as_slice());
        } else {
            crate::support::skip("the child could not have a region");
        }
    });
}
