//! A process that is stopped while it waits for a store, as by a freezer or a laptop's lid.

use crate::roles::{say, start_with};
use crate::server;
use millpond_volumes::{Store, StoreOptions};
use rustix::process::{Pid, Signal, kill_process};
use std::io::{BufRead, BufReader, Write};
use std::process::Stdio;
use std::time::Duration;

/// Of a sync, longer than a look at the clock on a busy machine, and shorter than the stop.
const SYNC: Duration = Duration::from_secs(12);
const STOP: Duration = Duration::from_secs(16);

/// Says `put` when the store has been asked to take what a sync waits for.
pub(crate) fn outlasts(url: &str) {
    let options = StoreOptions::new()
        .sync_timeout(SYNC)
        .request_timeout(Duration::from_secs(4));
    let store = Store::open(url, options).unwrap();
    let file = store.create("a").unwrap();
    store.sync().unwrap();
    say("open");
    let mut line = String::new();
    std::io::stdin().lock().read_line(&mut line).unwrap();
    file.write_at(b"pond", 0).unwrap();
    let before = store.usage().requests;
    std::thread::scope(|scope| {
        let sync = scope.spawn(|| store.sync());
        while store.usage().requests.puts == before.puts {
            std::thread::yield_now();
        }
        say("put");
        sync.join().unwrap().unwrap();
    });
    let longest = Duration::from_nanos(store.usage().requests.nanos_max);
    assert!(longest < STOP, "a stop is no time of a request: {longest:?}");
    store.close().unwrap();
    say("seen: stored after the stop");
}

/// Its time was over as soon as it went on, and the sync failed before the answer could be read.
#[test]
fn a_stop_is_no_time_that_a_sync_has_waited() {
    let Some(server) = server::versitygw() else { return };
    let mut child = start_with("outlasts", &server.url, |command| {
        command
            .stdin(Stdio::piped())
            .envs(server.environment.iter().map(|(name, value)| (name, value)));
    });
    let process = Pid::from_child(&child);
    let mut lines = BufReader::new(child.stdout.take().unwrap())
        .lines()
        .map_while(Result::ok);
    assert!(lines.any(|line| line == "open"));
    server.signal(Signal::STOP);
    child.stdin.take().unwrap().write_all(b"go on\n").unwrap();
    assert!(lines.any(|line| line == "put"));
    kill_process(process, Signal::STOP).unwrap();
    std::thread::sleep(STOP);
    kill_process(process, Signal::CONT).unwrap();
    server.signal(Signal::CONT);
    let said: Vec<String> = lines.collect();
    let output = child.wait_with_output().unwrap();
    assert!(
        output.status.success() && said.iter().any(|line| line.starts_with("seen: ")),
        "{said:?} {}",
        String::from_utf8_lossy(&output.stderr)
    );
}
