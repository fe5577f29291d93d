//! Stores that have lost something, by name.

use crate::histories::{GRACE, open, options, page, serve, synced};
use crate::store::Store;
use bytes::Bytes;
use millpond_volumes::format::{Commit, Key, Kind};
use millpond_volumes::layout::{
    At, LoadError, OpenError, Pinning, ReadError, Reader, ReaderOptions, ReaderTold, Told, Uncommitted,
    Writer, WriterOptions,
};
use std::time::Duration;

const NOW: Duration = Duration::ZERO;

fn remove(store: &mut Store, is: impl Fn(&Key) -> bool) -> Vec<(Key, Bytes)> {
    let keys: Vec<Key> = store.objects.keys().filter(|key| is(key)).copied().collect();
    keys.iter()
        .filter_map(|key| store.objects.remove_entry(key))
        .collect()
}

/// Opens a store, or says why it can't be.
fn opened(store: &mut Store, options: WriterOptions) -> Result<Writer, OpenError> {
    let mut writer = Writer::new(NOW, options);
    match &serve(&mut writer, store, NOW)[..] {
        [Told::Opened(Ok(()))] => Ok(writer),
        [Told::Opened(Err(error))] => Err(error.clone()),
        other => panic!("{other:?}"),
    }
}

fn read(store: &mut Store, at: At, salvage: bool) -> Result<Reader, ReadError> {
    let options = ReaderOptions {
        at,
        poll: GRACE,
        grace: Some(GRACE),
        pinning: Pinning::Always,
        salvage,
        id: 7,
        owner: String::new(),
    };
    let mut reader = Reader::new(NOW, options);
    loop {
        let requests = reader.requests();
        if requests.is_empty() {
            break;
        }
        for (id, request) in requests {
            reader.answered(NOW, id, store.answer(&request));
        }
    }
    match &reader.told()[..] {
        [ReaderTold::Opened] => Ok(reader),
        [ReaderTold::Failed(error)] => Err(error.clone()),
        other => panic!("{other:?}"),
    }
}

fn salvaging(nonce: u128) -> WriterOptions {
    WriterOptions {
        salvage: true,
        ..options(nonce, true)
    }
}

/// Eight pages, more than a commit takes with it, all of this version.
fn write(writer: &mut Writer, store: &mut Store, file: u64, version: u8) {
    for n in 0..8 {
        writer.write(NOW, file, n, page(version)).unwrap();
    }
    writer.sync(NOW, version.into());
    assert_eq!(synced(&serve(writer, store, NOW)), &Ok(()));
}

fn are(writer: &Writer, store: &Store, file: u64, version: u8) {
    for n in 0..8 {
        let Uncommitted::At(place) = writer.page(file, n) else {
            panic!("page {n} is not there");
        };
        let bytes = crate::checker::Checker::bytes(store, place);
        assert_eq!(bytes.unwrap(), page(version), "page {n}");
    }
}

/// A store whose commits are gone was opened as a new one, whose chunks had the names of those that were there: it was told
/// that they exist, and that was taken for stored.
#[test]
fn a_store_that_has_lost_all_commits_is_no_empty_one() {
    let mut store = Store::default();
    let mut writer = open(&mut store, NOW, 1, false);
    let file = writer.create("a").unwrap();
    write(&mut writer, &mut store, file, 1);
    writer.close(NOW, 9);
    serve(&mut writer, &mut store, NOW);
    remove(&mut store, |key| key.kind() == Kind::Commit);
    let before = store.objects.clone();
    let error = opened(&mut store, options(2, true)).unwrap_err();
    let chunk = Key::Chunk { epoch: 1, number: 0 };
    assert_eq!(error, OpenError::Load(LoadError::NoCommits(chunk)));
    assert!(error.to_string().contains("salvage(true)"), "{error}");
    let error = read(&mut store, At::Newest, false).unwrap_err();
    assert_eq!(error, ReadError::Load(LoadError::NoCommits(chunk)));
    assert_eq!(store.objects, before, "nothing was changed");
    // From its checkpoint.
    let mut salvaged = opened(&mut store, salvaging(3)).unwrap();
    assert_eq!(salvaged.salvaged().unwrap().commit, 3);
    are(&salvaged, &store, file, 1);
    write(&mut salvaged, &mut store, file, 2);
    let again = open(&mut store, NOW, 4, true);
    are(&again, &store, file, 2);
    // There is none either.
    remove(&mut store, |key| !matches!(key, Key::Chunk { .. }));
    let before = store.objects.clone();
    let error = opened(&mut store, salvaging(5)).unwrap_err();
    assert!(matches!(error, OpenError::Load(LoadError::Lost(_))), "{error}");
    assert_eq!(store.objects, before, "nothing was changed");
}

/// The commits of the last writer are gone, and its chunks are there, or come later. The next has the same epoch.
#[test]
fn a_chunk_of_a_name_that_is_taken_gets_another() {
    taken_name();
}

pub(crate) fn taken_name() {
    let mut store = Store::default();
    let mut first = open(&mut store, NOW, 1, false);
    let file = first.create("a").unwrap();
    write(&mut first, &mut store, file, 1);
    first.close(NOW, 9);
    serve(&mut first, &mut store, NOW);
    let kept: Vec<Key> = store.objects.keys().copied().collect();
    let mut second = open(&mut store, NOW, 2, false);
    write(&mut second, &mut store, file, 2);
    let lost = remove(&mut store, |key| {
        !kept.contains(key) && key.kind() == Kind::Commit
    });
    assert!(!lost.is_empty());
    let error = opened(&mut store, options(3, true)).unwrap_err();
    assert!(
        matches!(
            &error,
            OpenError::Load(LoadError::Newer {
                key: Key::Chunk { epoch: 2, .. },
                ..
            })
        ),
        "{error}"
    );
    // They come when the next writer has opened the store.
    let late = remove(&mut store, |key| matches!(key, Key::Chunk { epoch: 2, .. }));
    assert!(!late.is_empty());
    let mut third = open(&mut store, NOW, 3, true);
    assert_eq!(third.epoch(), 2);
    store.objects.extend(late);
    write(&mut third, &mut store, file, 3);
    are(&third, &store, file, 3);
    third.close(NOW, 9);
    assert_eq!(serve(&mut third, &mut store, NOW), [Told::Synced(9, Ok(()))]);
    let again = open(&mut store, NOW, 4, false);
    are(&again, &store, file, 3);
}

/// As a bit on a disk does, for good.
fn flip(store: &mut Store, key: Key, byte: usize) {
    let mut bytes = store.objects[&key].to_vec();
    bytes[byte] ^= 1;
    store.objects.insert(key, bytes.into());
}

#[test]
fn a_store_whose_newest_commit_is_damaged_is_opened_as_of_the_one_before_where_that_is_asked_for() {
    let mut store = Store::default();
    let mut writer = open(&mut store, NOW, 1, false);
    let file = writer.create("a").unwrap();
    for version in 1..=3 {
        write(&mut writer, &mut store, file, version);
    }
    let newest = writer.number();
    flip(&mut store, Key::Commit(newest), 20);
    let error = opened(&mut store, options(2, true)).unwrap_err();
    assert!(
        matches!(&error, OpenError::Load(LoadError::Format { key, .. }) if *key == Key::Commit(newest)),
        "{error}"
    );
    let reader = read(&mut store, At::Newest, true).unwrap();
    assert_eq!(reader.number(), newest - 1);
    assert_eq!(reader.salvaged().unwrap().newest, newest);
    // Nobody knows whether its writer is done.
    let without = WriterOptions {
        take_over: false,
        ..salvaging(2)
    };
    assert!(matches!(opened(&mut store, without), Err(OpenError::Held { .. })));
    let mut salvaged = opened(&mut store, salvaging(2)).unwrap();
    let said = salvaged.salvaged().unwrap();
    assert_eq!((said.commit, said.newest), (newest - 1, newest));
    are(&salvaged, &store, file, 2);
    write(&mut salvaged, &mut store, file, 4);
    // It is whole again, and its writer before is told.
    let third = open(&mut store, NOW, 3, true);
    are(&third, &store, file, 4);
    assert_eq!(third.salvaged(), None);
    writer.sync(GRACE, 5);
    assert!(synced(&serve(&mut writer, &mut store, GRACE)).is_err());
}

#[test]
fn a_store_whose_checkpoint_is_damaged_or_gone_is_opened_from_the_one_before() {
    for is_gone in [false, true] {
        let mut store = Store::default();
        let mut writer = open(&mut store, NOW, 1, false);
        let file = writer.create("a").unwrap();
        let (mut version, mut named) = (0, (0, 0));
        // Until the newest commit names a second checkpoint.
        let mut checkpoints = 0;
        while checkpoints < 2 {
            version += 1;
            write(&mut writer, &mut store, file, version);
            let newest = &store.objects[&Key::Commit(writer.number())];
            let names = Commit::decode(newest).unwrap().0.checkpoint;
            checkpoints += u32::from(names != named);
            named = names;
        }
        let (number, epoch) = named;
        let key = Key::Checkpoint { number, epoch };
        match is_gone {
            true => drop(store.objects.remove(&key)),
            false => flip(&mut store, key, 30),
        }
        let error = opened(&mut store, options(2, true)).unwrap_err();
        let is_said = match &error {
            OpenError::Load(LoadError::Missing { key: said, newest }) => {
                is_gone && *said == key && *newest == writer.number()
            }
            OpenError::Load(LoadError::Format { key: said, .. }) => !is_gone && *said == key,
            _ => false,
        };
        assert!(is_said && error.to_string().contains(&key.to_string()), "{error}");
        // All commits behind the one before are there, so that nothing is left out.
        let salvaged = opened(&mut store, salvaging(2)).unwrap();
        let said = salvaged.salvaged().unwrap();
        assert_eq!((said.commit, said.newest), (writer.number(), writer.number()));
        are(&salvaged, &store, file, version);
        let third = open(&mut store, NOW, 3, true);
        are(&third, &store, file, version);
    }
}

/// A snapshot is made, and the commit that closes the store is damaged.
#[test]
fn a_snapshot_is_read_although_the_newest_commit_is_damaged() {
    let mut store = Store::default();
    let mut writer = open(&mut store, NOW, 1, false);
    let file = writer.create("a").unwrap();
    writer.snapshot("s").unwrap();
    write(&mut writer, &mut store, file, 1);
    writer.close(NOW, 9);
    serve(&mut writer, &mut store, NOW);
    flip(&mut store, Key::Commit(writer.number()), 20);
    let at = At::Snapshot(String::from("s"));
    assert!(read(&mut store, at.clone(), false).is_err());
    let reader = read(&mut store, at, true).unwrap();
    assert!(reader.state().names.contains_key("a"));
}

/// A bit flips in what comes back, once.
#[test]
fn what_a_bit_flipped_in_on_its_way_is_read_again() {
    let mut store = Store::default();
    let mut writer = open(&mut store, NOW, 1, false);
    let file = writer.create("a").unwrap();
    for version in 1..8 {
        write(&mut writer, &mut store, file, version);
    }
    writer.close(NOW, 9);
    serve(&mut writer, &mut store, NOW);
    // Each answer in turn.
    for flipped in 0.. {
        let mut second = Writer::new(NOW, options(2, false));
        let (mut answers, mut told) = (0, Vec::new());
        while told.is_empty() {
            for (id, request) in second.requests() {
                let mut answer = store.answer(&request);
                if let millpond_volumes::layout::Answer::Bytes(bytes) = &mut answer {
                    let mut changed = bytes.to_vec();
                    changed[12] ^= u8::from(answers == flipped);
                    *bytes = changed.into();
                    answers += 1;
                }
                second.answered(NOW, id, answer);
            }
            told = second.told();
        }
        assert_eq!(told, [Told::Opened(Ok(()))]);
        second.close(NOW, 1);
        serve(&mut second, &mut store, NOW);
        if flipped > answers {
            assert!(answers >= 2);
            return;
        }
    }
}
