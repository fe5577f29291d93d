//! A process that is stopped while its threads wait: by SIGSTOP, `docker pause`, a freezer.

#![allow(
    clippy::unwrap_used,
    clippy::print_stdout,
    reason = "a test fails by panicking, and tells its parent where it is"
)]

use crate::support::{Kind, linger, skip, until};
use millpond::{Error, OpenOptions, PageCache, SwapFile};
use millpond_testing::{Fault, FaultRule, FaultTarget, Faulty};
use rustix::process::{Pid, Signal, kill_process};
use std::io::{BufRead, BufReader, Read, Write};
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::time::Duration;

/// Says to the test that it is the process which will be stopped, and where its files are.
const CHILD: &str = "MILLPOND_STOPPED_CHILD";

/// The time after which something gives up, or warns.
const LIMIT: &str = "4s";

/// How long the process is stopped: longer than that, and at most two seconds of it may count.
const STOP: Duration = Duration::from_secs(7);

/// Threads wait for a disk that takes no write: one with a write, one with a sync, one with a touch of a region, if there can be
/// any. The process is stopped, and the disk goes on when it does.
fn waits_and_is_stopped(folder: &Path) {
    let device = Arc::new(Faulty::new(Kind::Pool.device().unwrap(), 1));
    let build = |swap: Option<SwapFile>| {
        let builder = PageCache::builder().memory(2 << 20).device(device.clone());
        match swap {
            Some(swap) => builder.swap(swap).build(),
            None => builder.build(),
        }
    };
    let swap = SwapFile::new(folder.join("swap"), 16 << 20);
    let cache = match build(Some(swap)) {
        Err(why @ Error::Setup { .. }) => {
            skip(why);
            build(None).unwrap()
        }
        built => built.unwrap(),
    };
    cache
        .set(&[("alloc_timeout", LIMIT), ("hung_io_timeout", LIMIT)])
        .unwrap();
    let open = |name: &str| {
        cache
            .open(folder.join(name), OpenOptions::new().create(true))
            .unwrap()
    };
    let (written, synced) = (open("written"), open("synced"));
    let region = cache.region(8 << 20).ok();
    device.add(FaultRule::always(FaultTarget::Writes, Fault::Hold));
    std::thread::scope(|scope| {
        scope.spawn(|| written.write_at(&vec![1; 16 << 20], 0).unwrap());
        scope.spawn(|| {
            synced.write_at(&[2; 100], 0).unwrap();
            synced.sync_data().unwrap();
        });
        let touching = region.map(|mut region| {
            scope.spawn(move || {
                let words = region.as_mut_slice_of::<u64>();
                (0..words.len()).step_by(512).for_each(|at| words[at] = at as u64);
                assert!((0..words.len()).step_by(512).all(|at| words[at] == at as u64));
            })
        });
        until("a write", || device.held() > 0);
        println!("waits");
        std::io::stdin().read_exact(&mut [0]).unwrap();
        // The threads that wait look first, before the disk has answered.
        linger(|| touching.as_ref().is_some_and(|touching| touching.is_finished()));
        device.clear();
        device.release().unwrap();
    });
    assert_eq!(cache.stats().warnings, 0);
    println!("all is well");
}

/// Each of them found that its time was over as soon as it went on, before any other thread had run: writes were refused, a page
/// of a region was lost, and a device was said to hang that had had no chance to answer.
#[test]
fn a_process_that_was_stopped_gives_nothing_up_and_warns_of_nothing() {
    if let Ok(folder) = std::env::var(CHILD) {
        return waits_and_is_stopped(folder.as_ref());
    }
    let folder = tempfile::tempdir().unwrap();
    let mut child = Command::new(std::env::current_exe().unwrap())
        .args([
            "--exact",
            "stopped::a_process_that_was_stopped_gives_nothing_up_and_warns_of_nothing",
            "--nocapture",
        ])
        .env(CHILD, folder.path())
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let pid = Pid::from_child(&child);
    let mut said = BufReader::new(child.stdout.take().unwrap()).lines();
    let mut hear = |what: &str| {
        let heard = said.by_ref().map(|line| line.unwrap());
        heard
            .inspect(|line| println!("{line}"))
            .any(|line| line.contains(what))
    };
    let waits = hear("waits");
    if waits {
        kill_process(pid, Signal::STOP).unwrap();
        std::thread::sleep(STOP);
        child.stdin.take().unwrap().write_all(b".").unwrap();
        kill_process(pid, Signal::CONT).unwrap();
    }
    let is_well = hear("all is well");
    let status = child.wait().unwrap();
    assert!(waits && is_well && status.success(), "{status}");
}
