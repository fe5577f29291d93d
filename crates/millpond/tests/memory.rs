//! A budget that the host decides about, set from outside.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use millpond::PageCache;
use millpond::control::Client;
use serde_json::Value;

fn ask(client: &mut Client, line: &str) -> Value {
    serde_json::from_str(&client.ask(line).unwrap()).unwrap()
}

fn error(answer: &Value) -> &str {
    answer["error"].as_str().unwrap_or_else(|| panic!("{answer}"))
}

#[test]
fn the_host_decides_or_the_user_as_it_was_said_last() {
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
        (
            "set memory=auto:100K..4M",
            "a budget of 102400 bytes is too small",
        ),
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
