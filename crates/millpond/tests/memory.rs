//! A budget that the host decides about, set from outside.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use millpond::contents::Order;
use millpond::control::Client;
use millpond::trace::Trace;
use millpond::{Builder, Error, PageCache, SwapFile};
use serde_json::Value;
use std::path::Path;

fn ask(client: &mut Client, line: &str) -> Value {
    serde_json::from_str(&client.ask(line).unwrap()).unwrap()
}

fn error(answer: &Value) -> &str {
    answer["error"].as_str().unwrap_or_else(|| panic!("{answer}"))
}

#[test]
fn the_last_setting_decides_whether_host_or_user_sets_the_budget() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("sock");
    let cache = PageCache::builder().memory(4 << 20).control_at(&path);
    let cache = cache.build().unwrap();
    let mut client = Client::connect(&path).unwrap();
    let answer = ask(&mut client, "set memory=auto:2M..4M");
    let setting = serde_json::json!({ "name": "memory", "old": "4M", "new": "auto:2M..4M" });
    assert_eq!(answer["settings"][0], setting);
    let memory = &ask(&mut client, "stat")["memory"];
    assert_eq!(
        memory["auto"],
        serde_json::json!({ "min_bytes": 2 << 20, "max_bytes": 4 << 20 })
    );
    let bytes = memory["bytes"].as_u64().unwrap();
    assert!((2 << 20..=4 << 20).contains(&bytes), "{bytes}");
    let options = ask(&mut client, "inspect options");
    assert_eq!(options["options"][0]["value"], "auto:2M..4M");
    let limits = ask(&mut client, "inspect limits");
    let told = limits["limits"][0]["setting"].as_str().unwrap();
    assert!(told.starts_with("auto:2M..4M, now "), "{told}");
    // Both ends have to be possible, and neither is set otherwise.
    for (line, why) in [
        ("set memory=auto:100K..4M", "a budget of 100K is too small"),
        ("set memory=auto:2M..8000T", "memory"),
        ("set memory=auto:4M..2M", "auto:256M..4G"),
    ] {
        let answer = ask(&mut client, line);
        assert!(error(&answer).contains(why), "{line}: {answer}");
    }
    assert!(cache.memory().auto.is_some());
    // By hand again; and the thread is there for the next time.
    ask(&mut client, "set memory=3M");
    assert_eq!(ask(&mut client, "stat")["memory"]["bytes"], 3 << 20);
    assert_eq!(ask(&mut client, "stat")["memory"]["auto"], Value::Null);
    let answer = ask(&mut client, "set memory=auto");
    assert!(error(&answer).contains("too small"), "an eighth of 3M: {answer}");
    ask(&mut client, "set memory=auto:1M..3M");
    assert!(cache.memory().auto.is_some());
}

/// The most that this process has had in memory, in KiB.
fn peak() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    line.unwrap().trim().trim_end_matches(" kB").parse().unwrap()
}

/// The tables of 900 GiB had 7 GB, and those of u64::MAX ended the process, before it was checked whether
/// there is so much memory.
#[test]
fn a_size_that_can_not_be_is_refused_before_memory_is_taken_for_it() {
    let folder = tempfile::tempdir().unwrap();
    let swap = |bytes| SwapFile::new(folder.path().join("swap"), bytes);
    let build = |builder: Builder| builder.on_notice(|_| ()).build().unwrap_err();
    let before = peak();
    for bytes in [900 << 30, 5 << 40, u64::MAX] {
        let of = || PageCache::builder().memory(bytes);
        assert!(matches!(build(of()), Error::MemoryOfMachine { .. }));
        assert!(matches!(
            build(of().swap(swap(1 << 20))),
            Error::MemoryOfMachine { .. } | Error::BudgetTooSmall { .. }
        ));
        let auto = PageCache::builder().memory_auto(bytes, u64::MAX);
        assert!(matches!(build(auto), Error::MemoryOfMachine { .. }));
    }
    // Allowed beyond the limit: as far as the tables go.
    let beyond = |bytes| PageCache::builder().memory(bytes).memory_beyond_limit(true);
    let error = build(beyond(u64::MAX));
    assert!(matches!(error, Error::MemoryForTables { .. }), "{error}");
    let error = build(PageCache::builder().swap(swap(u64::MAX)));
    assert!(matches!(error, Error::Swap { .. }), "{error}");
    assert!(error.to_string().contains("must be 4K to"), "{error}");
    assert!(!folder.path().join("swap").exists());

    let cache = PageCache::builder().memory(4 << 20).build().unwrap();
    for bytes in [900 << 30, u64::MAX] {
        cache.set_memory(bytes).unwrap_err();
    }
    for text in ["900G", "8000T", "16777215T", "auto:2M..900G", "auto:900G..901G"] {
        cache.set(&[("memory", text)]).unwrap_err();
    }
    assert_eq!(cache.memory().bytes.0, 4 << 20);
    assert_eq!(cache.contents(usize::MAX, Order::Resident).files.len(), 0);
    assert!(Trace::read(Path::new("/dev/zero")).is_err());
    let grown = (peak() - before) >> 10;
    assert!(grown < 256, "{grown} MiB were taken");
}

#[test]
fn a_budget_beyond_the_machine_can_be_allowed_and_is_not_filled() {
    let machine = PageCache::builder().memory(u64::MAX).build().unwrap_err();
    let Error::MemoryOfMachine { machine, .. } = machine else {
        panic!("{machine}")
    };
    let cache = PageCache::builder()
        .memory(machine + (64 << 20))
        .on_notice(|_| ());
    // Where the tables have no room it says so.
    match cache.memory_beyond_limit(true).build() {
        Ok(cache) => assert_eq!(cache.memory().bytes.0, machine + (64 << 20)),
        Err(error) => assert!(
            matches!(error, Error::MemoryForTables { .. } | Error::Setup { .. }),
            "{error}"
        ),
    }
}
