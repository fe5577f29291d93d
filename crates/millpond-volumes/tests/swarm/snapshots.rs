//! A snapshot with two names.

use crate::histories::{GRACE, open, page, serve};
use crate::store::Store;
use millpond_volumes::format::Key;
use millpond_volumes::layout::Told;
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
