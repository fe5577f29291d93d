//! The engine in a control group that has less memory than its budget: a real group, which a child of this test enters.

#![allow(
    clippy::unwrap_used,
    clippy::print_stdout,
    reason = "a test fails by panicking, and says why it was skipped"
)]

use crate::support::{in_the_child, run_in_group};
use millpond::{Error, OpenOptions, PageCache};
use millpond::{Notice, host};
use millpond_core::units::Bytes;
use std::path::Path;
use std::sync::{Arc, Mutex};

const LIMIT: u64 = 64 << 20;

#[test]
fn a_budget_above_the_limit_is_refused_and_one_below_does_its_job() {
    run_in_group(Bytes(LIMIT), "memory_limit::the_child_lives_in_its_group");
}

/// Not a test: what the child does.
#[test]
fn the_child_lives_in_its_group() {
    in_the_child(|group| live(&group));
}

fn live(group: &Path) {
    let limit = host::memory_limit().unwrap();
    assert_eq!((limit.bytes, limit.group.as_path()), (LIMIT, group));

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
            "a budget of 256M is above the memory limit of the control group {}, 64M: raise {} or ask for less, or allow it \
             with Builder::memory_beyond_limit(true)",
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
            if *given == LIMIT - (8 << 20) && *free < LIMIT - (24 << 20) && place == group)
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
}
