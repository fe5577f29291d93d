//! Programs whose terminal goes away: they end, or go on without it, and none of them spins or dies of what it can't say.
#![allow(
    clippy::unwrap_used,
    clippy::print_stdout,
    reason = "these are tests, helpers included; what is skipped is said on standard output"
)]

use crate::support::terminal::{Controlling, Terminal};
use crate::support::{scratch, text, words};
use millpond::PageCache;
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::Command;

const SIGHUP: i32 = 1;

const SIZE: (u16, u16) = (100, 30);

/// A cache of this process, which commands find by its socket.
fn watched(folder: &Path) -> (PageCache, String) {
    let socket = folder.join("cache.sock");
    let cache = PageCache::builder().memory(4 << 20).control_at(&socket);
    (cache.build().unwrap(), socket.display().to_string())
}

#[test]
fn commands_that_watch_a_cache_end_with_their_terminal_with_or_without_a_signal() {
    let folder = scratch();
    let (_cache, socket) = watched(folder.path());
    for controlling in [Controlling::Yes, Controlling::No] {
        for (line, seen) in [("top 100ms", "q quit"), ("stat 100ms", "transit")] {
            let line = format!("{line} --cache {socket}");
            let Some(mut terminal) = Terminal::start_on(folder.path(), &line, SIZE, controlling) else {
                return;
            };
            terminal.wait_for(seen);
            let ended = terminal.hang_up();
            // Notified by the signal, or by failing reads and writes.
            let told = ended.signal() == Some(SIGHUP) || matches!(ended.code(), Some(1 | 129));
            assert!(told, "{line}, {controlling:?}: {ended}");
        }
    }
}

#[test]
fn a_recording_and_an_experiment_end_in_order_when_their_terminal_goes() {
    let folder = scratch();
    let (_cache, socket) = watched(folder.path());
    let trace = folder.path().join("load.trace");
    let line = format!("record --cache {socket} {}", trace.display());
    let Some(mut terminal) = Terminal::start(folder.path(), &line, SIZE) else {
        return;
    };
    terminal.wait_for("Ctrl-C ends it");
    let ended = terminal.hang_up();
    // The result can no longer be printed, and is complete all the same.
    assert!(ended.code().is_some_and(|code| code <= 1), "{ended}");
    let trace = millpond::trace::Trace::read(&trace).unwrap();
    assert_eq!((trace.torn, trace.end.is_some()), (None, true));

    let files = folder.path().join("files");
    std::fs::create_dir(&files).unwrap();
    let report = folder.path().join("report.html");
    let line = format!(
        "lab run axboe2016 --on engine --workload writers-alone --runs 100 --scale 1 --files 1 --file-size 1M \
         --read-file-size 1M --dir {} --report {}",
        files.display(),
        report.display()
    );
    let mut terminal = Terminal::start(folder.path(), &line, SIZE).unwrap();
    terminal.wait_for("%");
    let ended = terminal.hang_up();
    assert_eq!(ended.code(), Some(128 + SIGHUP), "{ended}");
    assert_eq!(std::fs::read_dir(&files).unwrap().count(), 0, "files are left");
}

#[test]
fn a_mount_in_the_foreground_writes_everything_and_unmounts_when_its_terminal_goes() {
    let folder = scratch();
    let [source, point] = ["source", "point"].map(|name| folder.path().join(name));
    for path in [&source, &point] {
        std::fs::create_dir(path).unwrap();
    }
    let line = format!("mount {} {} --memory 4M", source.display(), point.display());
    let told = Command::new(env!("CARGO_BIN_EXE_millpond"))
        .args(words(&format!("{line} --daemon --no-control")))
        .output()
        .unwrap();
    if told.status.code() == Some(3) {
        return println!("skipped: {}", text(&told.stderr).trim());
    }
    let unmounted = Command::new(env!("CARGO_BIN_EXE_millpond"))
        .args(["umount", point.to_str().unwrap()])
        .status();
    assert!(unmounted.unwrap().success());
    let Some(mut terminal) = Terminal::start(folder.path(), &line, SIZE) else {
        return;
    };
    terminal.wait_for("umount` ends it");
    // In use, so that there is something to say when it is to end.
    let held = std::fs::File::create(point.join("file")).unwrap();
    std::io::Write::write_all(&mut &held, b"written").unwrap();
    let ended = std::thread::scope(|scope| {
        let ending = scope.spawn(|| terminal.hang_up());
        // It has lost its name, and not the file.
        while std::fs::metadata(point.join("file")).is_ok() {
            std::thread::yield_now();
        }
        std::io::Write::write_all(&mut &held, b" on").unwrap();
        held.sync_all().unwrap();
        drop(held);
        ending.join().unwrap()
    });
    assert_eq!(ended.code(), Some(0), "{ended}");
    assert_eq!(std::fs::read(source.join("file")).unwrap(), b"written on");
}
