//! A snapshot with two names.

use crate::histories::{GRACE, open, options, page, serve};
use crate::store::Store;
use millpond_volumes::format::Key;
use millpond_volumes::layout::{Answer, Request, Told, Writer};
use std::time::Duration;

/// The second name is given up in no commit yet when another takes the store. Seed 350 found it deleted.
#[test]
fn what_a_snapshot_has_stays_until_a_commit_gives_its_last_name_up() {
    let (mut store, mut now) = (Store::default(), Duration::ZERO);
    let mut writer = open(&mut store, now, 1, false);
    let file = writer.create("file").unwrap();
    for name in ["a", "b"] {
        writer.snapshot(name).unwrap();
    }
    // Its checkpoint, commit 2, is followed by newer ones.
    for round in 0..20 {
        writer.write(now, file, 0, page(round)).unwrap();
        writer.sync(now, round.into());
        serve(&mut writer, &mut store, now);
    }
    writer.drop_snapshot("a").unwrap();
    writer.sync(now, 20);
    writer.drop_snapshot("b").unwrap();
    assert_eq!(serve(&mut writer, &mut store, now), [Told::Synced(20, Ok(()))]);
    let other = open(&mut store, now, 2, true);
    assert_eq!(other.state().snapshots["b"].number, 2);
    for _ in 0..10 {
        now += GRACE;
        writer.tick(now);
        serve(&mut writer, &mut store, now);
    }
    let key = Key::Checkpoint { number: 2, epoch: 1 };
    assert!(store.objects.contains_key(&key));
}

/// What it has can't be read when the store is opened, and it is given up in no commit yet. Seed 73 found its checkpoint deleted.
#[test]
fn what_a_snapshot_has_stays_until_a_commit_gives_it_up_although_it_is_not_known_what_that_is() {
    let (mut store, mut now) = (Store::default(), Duration::ZERO);
    let mut writer = open(&mut store, now, 1, false);
    let file = writer.create("file").unwrap();
    writer.snapshot("a").unwrap();
    for round in 0..20 {
        writer.write(now, file, 0, page(round)).unwrap();
        writer.sync(now, round.into());
        serve(&mut writer, &mut store, now);
    }
    let snapshot = writer.state().snapshots["a"];
    let (number, epoch) = (snapshot.number, snapshot.epoch);
    let key = Key::Checkpoint { number, epoch };
    now += GRACE * 2;
    let mut other = Writer::new(now, options(2, true));
    let mut has_failed = false;
    store.now = now;
    loop {
        let requests = other.requests();
        if requests.is_empty() {
            break;
        }
        for (id, request) in requests {
            let is_of_it = matches!(&request, Request::Get { key: of, .. } if *of == key);
            has_failed |= is_of_it;
            let answer = match is_of_it {
                true => Answer::Failed(String::from("no answer")),
                false => store.answer(&request),
            };
            other.answered(now, id, answer);
        }
    }
    assert!(has_failed);
    other.drop_snapshot("a").unwrap();
    for _ in 0..10 {
        now += GRACE / 2;
        other.tick(now);
        serve(&mut other, &mut store, now);
    }
    assert!(store.objects.contains_key(&key));
}
