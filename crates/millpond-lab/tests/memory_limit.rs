//! The engine in a control group that has less memory than its budget: a real group, which a child of this test enters.

#![allow(
    clippy::unwrap_used,
    clippy::print_stdout,
    reason = "a test fails by panicking, and says why it was skipped"
)]

use millpond::core::units::Bytes;
use millpond::host::{self, Notice};
use millpond::{Error, OpenOptions, PageCache};
use millpond_lab::memory_group::{Entry, MemoryGroup};
use std::path::PathBuf;
use std::process::Command;
use std::sync::{Arc, Mutex};

const LIMIT: u64 = 64 << 20;
/// What the child enters, as JSON.
const ENTRY: &str = "MILLPOND_LIMIT_CHILD_ENTRY";
/// The directory of the group.
const GROUP: &str = "MILLPOND_LIMIT_CHILD_GROUP";

#[test]
fn a_budget_above_the_limit_is_refused_and_one_below_does_its_job() {
    let group = match MemoryGroup::create(Bytes(LIMIT)) {
        Ok(group) => group,
        Err(why) => return println!("skipped: {why}"),
    };
    let child = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "the_child_lives_in_its_group", "--nocapture"])
        .env(ENTRY, serde_json::to_string(&group.entry()).unwrap())
        .env(GROUP, group.path())
        .output()
        .unwrap();
    let (out, err) = (
        String::from_utf8_lossy(&child.stdout),
        String::from_utf8_lossy(&child.stderr),
    );
    assert!(child.status.success(), "{}\n{out}\n{err}", child.status);
    assert!(out.contains("the child has done its job"), "{out}");
}

/// Not a test: what the child does.
#[test]
fn the_child_lives_in_its_group() {
    let (Ok(entry), Ok(group)) = (std::env::var(ENTRY), std::env::var(GROUP)) else {
        return;
    };
    serde_json::from_str::<Entry>(&entry).unwrap().enter().unwrap();
    let group = PathBuf::from(group);
    let limit = host::memory_limit().unwrap();
    assert_eq!((limit.bytes, &limit.group), (LIMIT, &group));

    // Above: an error that names what was asked, the limit, the group and the ways out.
    let told = Arc::new(Mutex::new(Vec::new()));
    let builder = |bytes| {
        let told = told.clone();
        let hook = move |notice: &Notice| told.lock().unwrap().push(notice.clone());
        PageCache::builder().memory(bytes).populate(false).on_notice(hook)
    };
    let refused = builder(4 * LIMIT).build().unwrap_err();
    assert!(matches!(refused, Error::MemoryLimit { given, .. } if given == 4 * LIMIT));
    let line = refused.to_string();
    assert_eq!(
        line,
        format!(
            "a budget of {} bytes is above the memory limit of the control group {}, {LIMIT} bytes: ask for less, raise \
             {}, or allow it with Builder::memory_beyond_limit(true)",
            4 * LIMIT,
            group.display(),
            limit.file.display(),
        )
    );
    assert!(
        told.lock().unwrap().is_empty(),
        "what is refused is no notice as well"
    );

    // Allowed: a notice.
    let cache = builder(4 * LIMIT).memory_beyond_limit(true).build().unwrap();
    let beyond = Notice::MemoryBeyondLimit {
        given: 4 * LIMIT,
        limit,
    };
    assert_eq!(cache.notices()[0], beyond);
    assert_eq!(*told.lock().unwrap(), cache.notices());
    drop(cache);

    // Below the limit, above what others have left of it. Touched, so that the group holds it.
    let mut others = vec![0_u8; 24 << 20];
    others.iter_mut().step_by(4096).for_each(|byte| *byte = 1);
    let cache = builder(LIMIT - (8 << 20)).build().unwrap();
    let short = cache.notices();
    let is_short = |notice: &Notice| {
        matches!(notice, Notice::MemoryShort { given, free, group: Some(place) }
            if *given == LIMIT - (8 << 20) && *free < LIMIT - (24 << 20) && *place == group)
    };
    assert!(short.iter().any(is_short), "{short:?}");
    drop((cache, std::hint::black_box(others)));

    // Below: three times the budget goes through it.
    let budget = 16 << 20;
    let cache = builder(budget).build().unwrap();
    assert!(cache.set_memory(2 * LIMIT).is_err());
    let folder = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let file = cache
        .open(folder.path().join("pond"), OpenOptions::new().create(true))
        .unwrap();
    let page = |n: u64| [(n % 251) as u8; 4096];
    let pages = 3 * budget / 4096;
    (0..pages).for_each(|n| file.write_at(&page(n), n * 4096).unwrap());
    file.sync_data().unwrap();
    assert!((0..pages).all(|n| file.page(n).unwrap()[..] == page(n)));
    cache.set_memory(budget / 2).unwrap();
    file.close().unwrap();
    println!("the child has done its job");
}
