//! The cache's events through `tracing`, for a subscriber that collects them.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use millpond::device::Threads;
use millpond::{OpenOptions, PageCache};
use millpond_testing::{Fault, FaultRule, FaultTarget, Faulty};
use parking_lot::Mutex;
use std::fmt::{self, Write};
use std::sync::{Arc, OnceLock};
use std::time::Duration;
use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id, Record};
use tracing::{Event, Metadata, Subscriber};

/// All of this process, as `LEVEL target message name=value ...`.
static SAID: Mutex<Vec<String>> = Mutex::new(Vec::new());

struct Collect;

struct Line(String);

impl Visit for Line {
    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        match field.name() {
            "message" => write!(self.0, " {value:?}").unwrap(),
            name => write!(self.0, " {name}={value:?}").unwrap(),
        }
    }
}

impl Subscriber for Collect {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        metadata.target().starts_with("millpond")
    }

    fn new_span(&self, _: &Attributes<'_>) -> Id {
        Id::from_u64(1)
    }

    fn record(&self, _: &Id, _: &Record<'_>) {}

    fn record_follows_from(&self, _: &Id, _: &Id) {}

    fn event(&self, event: &Event<'_>) {
        let mut line = Line(format!(
            "{} {}",
            event.metadata().level(),
            event.metadata().target()
        ));
        event.record(&mut line);
        SAID.lock().push(line.0);
    }

    fn enter(&self, _: &Id) {}

    fn exit(&self, _: &Id) {}
}

/// The events so far that contain both words.
fn said(target: &str, word: &str) -> Vec<String> {
    let is_it = |line: &&String| line.contains(target) && line.contains(word);
    SAID.lock().iter().filter(is_it).cloned().collect()
}

fn listen() {
    static ONCE: OnceLock<()> = OnceLock::new();
    ONCE.get_or_init(|| tracing::subscriber::set_global_default(Collect).unwrap());
}

#[test]
fn files_that_come_and_go_and_settings_are_told() {
    listen();
    let folder = tempfile::tempdir().unwrap();
    let cache = PageCache::builder().memory(4 << 20).build().unwrap();
    let path = folder.path().join("came-and-went");
    let file = cache.open(&path, OpenOptions::new().create(true)).unwrap();
    file.write_at(&[1; 8192], 0).unwrap();
    file.close().unwrap();
    let told = said("millpond::file", "came-and-went");
    assert_eq!(told.len(), 2, "{told:?}");
    assert!(
        told[0].starts_with("DEBUG millpond::file opened path="),
        "{told:?}"
    );
    assert!(told[0].ends_with("pages=0"), "{told:?}");
    assert!(
        told[1].starts_with("DEBUG millpond::file closed path="),
        "{told:?}"
    );
    cache.set(&[("dirty.hard", "1234K")]).unwrap();
    let told = said("millpond::settings", "1234K");
    assert_eq!(
        told,
        ["INFO millpond::settings changed name=\"dirty.hard\" old=\"20%\" new=\"1234K\" by=the program"]
    );
    drop(cache.record(folder.path().join("a-trace")).unwrap());
    let told = said("millpond::trace", "a-trace");
    assert_eq!(told.len(), 2, "{told:?}");
    assert!(told[1].contains("accesses=0 lost=0"), "{told:?}");
}

#[test]
fn a_write_that_fails_and_what_comes_of_it_is_told() {
    listen();
    let folder = tempfile::tempdir().unwrap();
    let device = Arc::new(Faulty::new(Arc::new(Threads::new("a test")), 1));
    device.add(FaultRule::always(FaultTarget::Writes, Fault::Fail(libc::EIO)));
    let builder = PageCache::builder().memory(4 << 20).device(device);
    let cache = builder.build().unwrap();
    let path = folder.path().join("refused");
    let file = cache.open(&path, OpenOptions::new().create(true)).unwrap();
    file.write_at(&[1; 4096], 4096).unwrap();
    assert!(file.sync_data().is_err());
    let failed = said("millpond::write", "refused");
    assert!(
        failed[0].starts_with("WARN millpond::write a write has failed path="),
        "{failed:?}"
    );
    assert!(failed[0].contains("error=Input/output error"), "{failed:?}");
    let sync = said("millpond::sync", "refused");
    assert_eq!(sync.len(), 1, "{sync:?}");
    assert!(
        sync[0].starts_with("ERROR millpond::sync not durable"),
        "{sync:?}"
    );
    drop(file);
    let lost = said("millpond::file", "changes are lost");
    assert!(lost.iter().any(|line| line.contains("refused")), "{lost:?}");
}

#[test]
fn a_call_that_waits_for_long_is_told_and_one_that_does_not_is_not() {
    listen();
    let folder = tempfile::tempdir().unwrap();
    let device = Arc::new(Faulty::new(Arc::new(Threads::new("a test")), 1));
    let builder = PageCache::builder().memory(4 << 20).device(device.clone());
    let cache = builder.build().unwrap();
    let file = cache
        .open(folder.path().join("slow"), OpenOptions::new().create(true))
        .unwrap();
    file.write_at(&[1; 4096], 0).unwrap();
    device.add(FaultRule::always(
        FaultTarget::Writes,
        Fault::Delay(Duration::from_millis(150)),
    ));
    file.sync_data().unwrap();
    let told = said("millpond::stall", "wait=Writes");
    assert!(
        told.iter()
            .any(|line| line.starts_with("INFO millpond::stall a call has waited")),
        "{told:?}"
    );
}
