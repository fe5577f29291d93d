//! What is dead is cleaned away, and what a reader has is not.

use crate::checker::Checker;
use crate::draw::Draw;
use crate::histories::{GRACE, open, page, serve};
use crate::store::Store;
use bytes::Bytes;
use millpond_volumes::format::{Commit, Key, Pin};
use millpond_volumes::layout::{Request, Told, Uncommitted};
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
    let heads = store.objects.iter().map(|(key, bytes)| match key {
        Key::Commit(_) => Commit::head_bytes(bytes).unwrap() as u64,
        _ => 0,
    });
    let pages = usage.stored_bytes - usage.checkpoint_bytes - heads.sum::<u64>();
    // A chunk is 256 bytes.
    assert!(
        pages <= usage.live_bytes * 3 / 2 + 256 && usage.garbage_objects == 0,
        "{usage:?}"
    );
    let all: u64 = store.objects.values().map(|object| object.len() as u64).sum();
    assert_eq!(usage.stored_bytes, all, "all of it is counted");
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

/// The writer sleeps while it has asked for the pin. What it then has is as the pin was before, and says nothing of how long
/// that has stood still. Seed 1466 found what the reader has deleted.
#[test]
fn a_pin_that_was_read_before_the_writer_slept_is_not_taken_for_one_that_stands_still() {
    let (mut store, mut now) = (Store::default(), Duration::ZERO);
    let mut writer = open(&mut store, now, 1, false);
    let file = writer.create("a").unwrap();
    writer.write(now, file, 0, page(1)).unwrap();
    writer.sync(now, 1);
    serve(&mut writer, &mut store, now);
    let number = writer.number();
    let Uncommitted::At(read) = writer.page(file, 0) else {
        panic!("the page is in a commit");
    };
    let pinned = |beat| {
        let owner = String::from("a reader");
        let body = vec![Bytes::from(Pin { number, beat, owner }.encode())].into();
        let key = Key::Pin(7);
        Request::Overwrite { key, body }
    };
    for round in 0..20 {
        writer.write(now, file, 0, page(round)).unwrap();
        writer.sync(now, 2);
        serve(&mut writer, &mut store, now);
    }
    let key = Key::Pin(7);
    store.answer(&pinned(1));
    let mut asked = None;
    for _ in 0..6 {
        now += GRACE / 4;
        writer.tick(now);
        serve(&mut writer, &mut store, now);
    }
    // It asks once more, and the store answers.
    while asked.is_none() {
        now += GRACE / 16;
        writer.tick(now);
        let mut requests = writer.requests();
        while let Some((id, request)) = requests.pop() {
            let answer = store.answer(&request);
            match request {
                Request::Get { key: of, .. } if of == key => asked = Some((id, answer)),
                _ => writer.answered(now, id, answer),
            }
            requests.extend(writer.requests());
        }
    }
    // The reader goes on, the writer sleeps.
    store.now = now;
    store.answer(&pinned(2));
    now += GRACE * 2;
    let (id, answer) = asked.unwrap();
    writer.answered(now, id, answer);
    serve(&mut writer, &mut store, now);
    assert_eq!(Checker::bytes(&store, read).unwrap(), page(1));
    assert!(store.objects.contains_key(&key), "its pin");
    // And one that does stand still is given up.
    for _ in 0..16 {
        now += GRACE / 4;
        writer.tick(now);
        serve(&mut writer, &mut store, now);
    }
    assert!(!store.objects.contains_key(&key) && Checker::bytes(&store, read).is_none());
}
