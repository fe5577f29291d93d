//! What is dead is cleaned away.

use crate::checker::Checker;
use crate::draw::Draw;
use crate::histories::{GRACE, open, page, serve};
use crate::store::Store;
use millpond_volumes::layout::{Told, Uncommitted};
use std::time::Duration;

/// Nothing is written any more when most chunks are half dead. A cleaner that took 16 objects in 32 commits, and only when
/// commits were made, left 3 times what is live.
#[test]
fn a_store_that_was_overwritten_at_random_comes_to_its_bound_while_nobody_writes() {
    const PAGES: u64 = 512;
    let (mut store, mut now, mut draw) = (Store::default(), Duration::ZERO, Draw(7));
    let mut writer = open(&mut store, now, 1, false);
    let file = writer.create("a").unwrap();
    let mut versions = vec![0; PAGES as usize];
    for n in 0..3 * PAGES {
        let at = if n < PAGES { n } else { draw.below(PAGES) };
        versions[at as usize] = n as u8 | 1;
        writer.write(now, file, at, page(n as u8 | 1)).unwrap();
        if n % 16 == 15 {
            writer.sync(now, n);
            assert_eq!(serve(&mut writer, &mut store, now), [Told::Synced(n, Ok(()))]);
        }
    }
    let commits = writer.number();
    for _ in 0..5 * GRACE.as_secs() {
        now += Duration::from_secs(1);
        writer.tick(now);
        assert_eq!(serve(&mut writer, &mut store, now), []);
    }
    let usage = writer.usage();
    assert_eq!(usage.live_bytes, PAGES * 64);
    // A chunk is 256 bytes.
    assert!(
        usage.stored_bytes <= usage.live_bytes * 3 / 2 + 256 && usage.garbage_objects == 0,
        "{usage:?}"
    );
    // No more is moved than is live, and commits are made for it as long as there is something to move.
    assert!(
        usage.cleaned_bytes > 0 && usage.cleaned_bytes <= usage.live_bytes,
        "{usage:?}"
    );
    assert!(
        writer.number() - commits <= 100,
        "{} commits",
        writer.number() - commits
    );
    for (n, &version) in versions.iter().enumerate() {
        let Uncommitted::At(place) = writer.page(file, n as u64) else {
            panic!("page {n} is gone");
        };
        assert_eq!(Checker::bytes(&store, place).unwrap(), page(version), "page {n}");
    }
}
