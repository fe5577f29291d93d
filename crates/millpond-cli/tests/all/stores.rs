//! A cache whose device stands on a store, as `stat`, `top` and metrics show it.

#![allow(
    clippy::unwrap_used,
    clippy::print_stdout,
    reason = "these are tests, helpers included; what is skipped is said on standard output"
)]

use crate::support::caches::{self, CacheProcess};
use crate::support::terminal::{Terminal, of_folder};
use crate::support::{scratch, text, words};
use millpond::device::{
    self, Completion, Device, DeviceFacts, DeviceFile, Request, StoreFigure, StoreFigures, StoreValue,
};
use millpond::units::{Bytes, Nanos};
use millpond::{OpenOptions, PageCache};
use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::path::Path;
use std::process::{Command, Output};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::SeqCst};
use std::time::Duration;

/// A device that says that it stands on a store. Each question is a commit.
#[derive(Debug)]
struct OnStore {
    below: Arc<dyn Device>,
    asked: AtomicU64,
}

impl Device for OnStore {
    fn transfer(&self, request: &Request) -> io::Result<usize> {
        self.below.transfer(request)
    }

    fn submit(&self, requests: &mut Vec<Request>) -> io::Result<()> {
        self.below.submit(requests)
    }

    fn wait(&self, done: &mut Vec<Completion>, timeout: Option<Duration>) -> io::Result<()> {
        self.below.wait(done, timeout)
    }

    fn wake(&self) {
        self.below.wake();
    }

    fn sync(&self, file: &DeviceFile) -> io::Result<()> {
        self.below.sync(file)
    }

    fn facts(&self, file: &DeviceFile) -> DeviceFacts {
        self.below.facts(file)
    }

    fn stores(&self) -> Vec<StoreFigures> {
        let commits = self.asked.fetch_add(1, SeqCst) + 1;
        let figure = |name, about, value| StoreFigure { name, about, value };
        let put = StoreValue::Timed(2 * commits, Nanos::from_millis(62 * commits));
        vec![StoreFigures {
            name: "s3://bucket/orders".into(),
            figures: vec![
                figure("commits", "Commits.", StoreValue::Total(commits)),
                figure("put", "Puts, and what they took.", put),
                figure(
                    "uncommitted",
                    "Not in a commit.",
                    StoreValue::Bytes(Bytes(3 << 20)),
                ),
            ],
        }]
    }

    fn name(&self) -> &str {
        "on a store"
    }
}

/// Not a test: what the others start in a process of its own.
#[test]
fn a_process_with_a_store() {
    if caches::wanted().is_none() {
        return;
    }
    let folder = scratch();
    let device = OnStore {
        below: device::best(),
        asked: AtomicU64::new(0),
    };
    let builder = PageCache::builder().memory(8 << 20).device(Arc::new(device));
    let builder = builder.metrics(SocketAddr::from(([127, 0, 0, 1], 0)));
    let cache = builder.control(true).build().unwrap();
    let path = folder.path().join("ledger");
    let file = cache.open(path, OpenOptions::new().create(true)).unwrap();
    file.write_at(&[1; 4096], 0).unwrap();
    println!("\nsocket {}", cache.metrics_address().unwrap());
    caches::serve([]);
}

fn says(folder: &Path, line: &str) -> String {
    let mut command = Command::new(env!("CARGO_BIN_EXE_millpond"));
    let Output {
        status,
        stdout,
        stderr,
    } = of_folder(command.args(words(line)), folder).output().unwrap();
    assert_eq!(status.code(), Some(0), "{line}: {}", text(&stderr));
    text(&stdout)
}

#[test]
fn stat_top_and_metrics_show_what_a_store_says_of_itself() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    let caches = CacheProcess::start("stores::a_process_with_a_store", folder, 1);
    let said = says(folder, "stat --stores");
    assert!(
        said.starts_with("s3://bucket/orders\n    commits ")
            && said.contains("/s of 31.0 ms  uncommitted 3 MiB\n"),
        "{said}"
    );
    let json: serde_json::Value = serde_json::from_str(&says(folder, "stat 100ms 1 --json")).unwrap();
    let commits = &json["stores"][0]["figures"][0];
    // Each question was one.
    let a_second = 1.0 / json["interval_s"].as_f64().unwrap();
    assert!(
        (commits["per_s"].as_f64().unwrap() - a_second).abs() < 0.1,
        "{json}"
    );
    let screen = says(folder, "top 100ms --once");
    let store = screen.lines().skip_while(|line| !line.starts_with("STORE "));
    let store: Vec<_> = store.take(2).collect();
    assert_eq!(store[0], "STORE s3://bucket/orders");
    assert!(
        store[1].starts_with("commits ") && store[1].ends_with("/s of 31.0 ms  uncommitted 3 MiB"),
        "{screen}"
    );
    assert!(
        screen.contains("ledger") && screen.lines().count() <= 24,
        "{screen}"
    );

    let address = caches.sockets[0].display().to_string();
    let mut stream = TcpStream::connect(address).unwrap();
    stream
        .write_all(b"GET /metrics HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
        .unwrap();
    let mut metrics = String::new();
    stream.read_to_string(&mut metrics).unwrap();
    for sample in [
        "millpond_store_uncommitted_bytes{store=\"s3://bucket/orders\"} 3145728",
        "# TYPE millpond_store_commits_total counter",
        "millpond_store_put_seconds_sum{store=\"s3://bucket/orders\"} ",
    ] {
        assert!(metrics.contains(sample), "{metrics}");
    }
    caches.end();
}

#[test]
fn on_a_terminal_a_store_is_drawn_between_devices_and_waits() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    let caches = CacheProcess::start("stores::a_process_with_a_store", folder, 1);
    if let Some(mut terminal) = Terminal::start(folder, "top 100ms", (80, 24)) {
        terminal.wait_for("STORE s3://bucket/orders");
        terminal.wait_for("WAITS");
        terminal.wait_for("ledger");
        terminal.press("q");
        let (code, seen) = terminal.end();
        assert_eq!(code, Some(0), "{seen}");
    }
    caches.end();
}
