//! Histories by name, each of which another layout got wrong, or this one once did.

use crate::draw::Draw;
use crate::store::Store;
use bytes::Bytes;
use millpond_volumes::format::{Commit, Key, Kind};
use millpond_volumes::layout::{
    Answer, At, LoadError, OpenError, Pinning, Reader, ReaderOptions, Request, SyncError, Told, Uncommitted,
    Writer, WriterOptions,
};
use std::time::Duration;

pub(crate) const GRACE: Duration = Duration::from_secs(60);

pub(crate) fn options(nonce: u128, take_over: bool) -> WriterOptions {
    WriterOptions {
        page_bytes: Some(64),
        patience: Duration::ZERO,
        chunk_bytes: 256,
        inline_bytes: 128,
        held_bytes: 4096,
        grace: Some(GRACE),
        checkpoint_commits: 4,
        owner: format!("writer {nonce}"),
        nonce,
        take_over,
        ..WriterOptions::default()
    }
}

/// Does all that a writer asks for, until it asks for nothing more.
pub(crate) fn serve(writer: &mut Writer, store: &mut Store, now: Duration) -> Vec<Told> {
    store.now = now;
    loop {
        let requests = writer.requests();
        if requests.is_empty() {
            return writer.told();
        }
        for (id, request) in requests {
            writer.answered(now, id, store.answer(&request));
        }
    }
}

pub(crate) fn open(store: &mut Store, now: Duration, nonce: u128, take_over: bool) -> Writer {
    let mut writer = Writer::new(now, options(nonce, take_over));
    assert_eq!(serve(&mut writer, store, now), [Told::Opened(Ok(()))]);
    writer
}

pub(crate) fn page(version: u8) -> Bytes {
    Bytes::from(vec![version; 64])
}

pub(crate) fn synced(told: &[Told]) -> &Result<(), SyncError> {
    match told {
        [Told::Synced(_, result), ..] => result,
        other => panic!("{other:?}"),
    }
}

/// A writer sleeps; another takes over, makes commits, and deletes what they supersede, the commit behind the sleeper's
/// among it. The sleeper's next commit finds its number free, and the store says that it is created.
#[test]
fn a_writer_that_slept_through_a_takeover_and_a_cleaning_is_never_told_ok() {
    let (mut store, mut now) = (Store::default(), Duration::ZERO);
    let mut sleeper = open(&mut store, now, 1, false);
    let file = sleeper.create("a").unwrap();
    sleeper.write(now, file, 0, page(1)).unwrap();
    sleeper.sync(now, 1);
    assert_eq!(serve(&mut sleeper, &mut store, now), [Told::Synced(1, Ok(()))]);
    let behind = Key::Commit(sleeper.number() + 1);

    let mut other = open(&mut store, now, 2, true);
    for round in 0..200u64 {
        now += Duration::from_secs(1);
        other.write(now, file, round % 4, page(round as u8)).unwrap();
        other.sync(now, round);
        assert_eq!(synced(&serve(&mut other, &mut store, now)), &Ok(()));
        other.tick(now);
        serve(&mut other, &mut store, now);
    }
    now += GRACE * 2;
    for _ in 0..10 {
        now += GRACE;
        other.tick(now);
        serve(&mut other, &mut store, now);
    }
    assert!(!store.objects.contains_key(&behind), "its number is free again");

    sleeper.write(now, file, 9, page(9)).unwrap();
    sleeper.sync(now, 2);
    let told = serve(&mut sleeper, &mut store, now);
    assert!(store.objects.contains_key(&behind), "the store took it");
    assert!(matches!(synced(&told), Err(SyncError::Fenced(_))), "{told:?}");
    assert!(matches!(told[1], Told::Fenced(_)));
    let lost = sleeper.lost();
    assert_eq!(
        (lost.len(), lost[0].page, &lost[0].bytes),
        (1, 9, &Uncommitted::Held(page(9)))
    );

    let third = open(&mut store, now, 3, true);
    assert_eq!(third.page(file, 9), Uncommitted::Zeros);
    for n in 0..4u64 {
        assert!(
            matches!(third.page(file, n), Uncommitted::At(_)),
            "page {n} of the other is whole"
        );
    }
}

/// The same without a change: a sync of nothing asks as well.
#[test]
fn a_sleeper_that_has_changed_nothing_is_told_too() {
    let (mut store, now) = (Store::default(), Duration::ZERO);
    let mut sleeper = open(&mut store, now, 1, false);
    open(&mut store, now, 2, true);
    sleeper.sync(GRACE, 1);
    assert!(matches!(
        synced(&serve(&mut sleeper, &mut store, GRACE)),
        Err(SyncError::Fenced(_))
    ));
}

/// It does not know the grace of the other, which is a fortieth of its own.
#[test]
fn one_that_found_no_store_does_not_believe_its_commit_when_another_has_made_and_cleaned_one_meanwhile() {
    let (mut store, mut now) = (Store::default(), Duration::ZERO);
    let long = WriterOptions {
        grace: Some(GRACE * 40),
        ..options(1, false)
    };
    let mut late = Writer::new(now, long);
    // Commits, and what may be there without one.
    for _ in 0..2 {
        for (id, request) in late.requests() {
            late.answered(now, id, store.answer(&request));
        }
    }
    let create = late.requests();
    assert!(
        matches!(
            &create[..],
            [(
                _,
                Request::Create {
                    key: Key::Commit(1),
                    ..
                }
            )]
        ),
        "{create:?}"
    );

    let mut other = open(&mut store, now, 2, false);
    let file = other.create("a").unwrap();
    for round in 0..200u64 {
        now += GRACE / 20;
        other.write(now, file, round % 4, page(round as u8)).unwrap();
        other.sync(now, round);
        assert_eq!(synced(&serve(&mut other, &mut store, now)), &Ok(()));
        other.tick(now);
        serve(&mut other, &mut store, now);
    }
    assert!(
        !store.objects.contains_key(&Key::Commit(1)),
        "its number is free again"
    );
    for (id, request) in create {
        late.answered(now, id, store.answer(&request));
    }
    let told = serve(&mut late, &mut store, now);
    let refused = |error: &OpenError| matches!(error, OpenError::Load(LoadError::Grace { stored, .. }) if *stored == GRACE);
    assert!(
        matches!(&told[..], [Told::Opened(Err(error))] if refused(error)),
        "{told:?}"
    );
}

/// An answer was lost: the commit is there, and it is found to be its own.
#[test]
fn a_commit_whose_answer_was_lost_is_found_and_acknowledged_once() {
    let (mut store, now) = (Store::default(), Duration::ZERO);
    let mut writer = open(&mut store, now, 1, false);
    let file = writer.create("a").unwrap();
    writer.write(now, file, 0, page(1)).unwrap();
    writer.sync(now, 1);
    let requests = writer.requests();
    let [(id, put)] = &requests[..] else {
        panic!("{requests:?}")
    };
    assert_eq!(store.answer(put), Answer::Stored);
    writer.answered(now, *id, Answer::Failed(String::from("lost")));
    assert!(writer.told().is_empty(), "nothing is said before it is found out");
    assert_eq!(serve(&mut writer, &mut store, now), [Told::Synced(1, Ok(()))]);
    let commits = store
        .objects
        .keys()
        .filter(|key| key.kind() == Kind::Commit)
        .count();
    assert_eq!(commits, 2, "the fence, and this one");
}

/// The store is away: the sync fails, what was written stays and is read, and the next sync has it.
#[test]
fn what_an_outage_kept_from_the_store_is_there_after_it() {
    let (mut store, now) = (Store::default(), Duration::ZERO);
    let mut writer = open(&mut store, now, 1, false);
    let file = writer.create("a").unwrap();
    for n in 0..10 {
        writer.write(now, file, n, page(n as u8)).unwrap();
    }
    writer.sync(now, 1);
    let mut later = now;
    let mut told = Vec::new();
    while told.is_empty() {
        for (id, _) in writer.requests() {
            writer.answered(later, id, Answer::Failed(String::from("no route")));
        }
        told = writer.told();
        later += Duration::from_millis(50);
        writer.tick(later);
    }
    assert!(
        matches!(synced(&told), Err(SyncError::Store(why)) if why == "no route"),
        "{told:?}"
    );
    assert!(matches!(writer.page(file, 3), Uncommitted::Held(bytes) if bytes == page(3)));
    // What is on its way is asked again before anything else is.
    for (id, request) in writer.requests() {
        writer.answered(later, id, store.answer(&request));
    }
    writer.sync(later, 2);
    for _ in 0..50 {
        later += Duration::from_millis(50);
        writer.tick(later);
        told.extend(serve(&mut writer, &mut store, later));
    }
    assert!(told.contains(&Told::Synced(2, Ok(()))), "{told:?}");
    assert!(matches!(writer.page(file, 3), Uncommitted::At(_)));
}

/// Pages that were overwritten in memory before they were stored: a sync of the first is not told while neither is there.
#[test]
fn a_page_that_is_overwritten_while_it_waits_keeps_its_place_before_the_sync() {
    let (mut store, now) = (Store::default(), Duration::ZERO);
    let mut writer = Writer::new(
        now,
        WriterOptions {
            inline_bytes: 64,
            in_transit: 1,
            ..options(1, false)
        },
    );
    serve(&mut writer, &mut store, now);
    let file = writer.create("a").unwrap();
    writer.write(now, file, 0, page(1)).unwrap();
    writer.sync(now, 1);
    // The commit of the first sync is on its way.
    let first = writer.requests();
    writer.write(now, file, 1, page(2)).unwrap();
    writer.sync(now, 2);
    for n in 1..4 {
        writer.write(now, file, n, page(3)).unwrap();
    }
    for (id, request) in first {
        writer.answered(now, id, store.answer(&request));
    }
    let told = serve(&mut writer, &mut store, now);
    assert_eq!(told, [Told::Synced(1, Ok(())), Told::Synced(2, Ok(()))]);
    assert!(
        matches!(writer.page(file, 1), Uncommitted::At(_)),
        "{:?}",
        writer.page(file, 1)
    );
}

#[test]
fn a_store_that_is_open_is_not_opened_again_unless_it_is_taken_over_or_was_closed() {
    let (mut store, now) = (Store::default(), Duration::ZERO);
    let mut first = open(&mut store, now, 1, false);
    let mut second = Writer::new(now, options(2, false));
    let told = serve(&mut second, &mut store, now);
    let [Told::Opened(Err(OpenError::Held { owner, epoch: 1, .. }))] = &told[..] else {
        panic!("{told:?}")
    };
    assert_eq!(owner, "writer 1");
    first.close(now, 1);
    assert_eq!(serve(&mut first, &mut store, now), [Told::Synced(1, Ok(()))]);
    assert!(first.create("b").is_err(), "it is closed");
    open(&mut store, now, 3, false);
}

/// Two that take over at the same moment: one has the store, and the other is told, whichever came first.
#[test]
fn of_two_that_take_over_at_once_one_has_the_store() {
    for seed in 0..50 {
        let (mut store, now, mut draw) = (Store::default(), Duration::ZERO, Draw(seed));
        let mut writers = [
            Writer::new(now, options(1, true)),
            Writer::new(now, options(2, true)),
        ];
        let mut queue: Vec<(usize, u64, Request)> = Vec::new();
        loop {
            for (who, writer) in writers.iter_mut().enumerate() {
                queue.extend(
                    writer
                        .requests()
                        .into_iter()
                        .map(|(id, request)| (who, id, request)),
                );
            }
            if queue.is_empty() {
                break;
            }
            let (who, id, request) = queue.swap_remove(draw.below(queue.len() as u64) as usize);
            writers[who].answered(now, id, store.answer(&request));
        }
        let newest = store
            .objects
            .iter()
            .rfind(|(key, _)| key.kind() == Kind::Commit)
            .unwrap();
        let (commit, _) = Commit::decode(newest.1).unwrap();
        for (who, writer) in writers.iter_mut().enumerate() {
            writer.create("a").unwrap();
            writer.sync(now, 1);
            let told = serve(writer, &mut store, now);
            let is_winner = commit.nonce == who as u128 + 1;
            let last = told
                .iter()
                .rfind(|told| matches!(told, Told::Synced(..)))
                .unwrap();
            assert_eq!(
                matches!(last, Told::Synced(_, Ok(()))),
                is_winner,
                "seed {seed}: {told:?}"
            );
        }
    }
}

/// Checkpoints are refused, and nothing else: no sync fails for it, and the figures and the reason are there.
#[test]
fn a_checkpoint_that_cannot_be_stored_is_said_by_the_figures_until_it_is() {
    let (mut store, mut now) = (Store::default(), Duration::ZERO);
    let mut writer = open(&mut store, now, 1, false);
    let file = writer.create("a").unwrap();
    let mut rounds = |writer: &mut Writer, rounds: u64, refused: bool| {
        for round in 0..rounds {
            now += Duration::from_secs(5);
            writer.tick(now);
            writer.write(now, file, round % 4, page(round as u8)).unwrap();
            writer.sync(now, round);
            let mut requests = writer.requests();
            while !requests.is_empty() {
                for (id, request) in requests {
                    let is_checkpoint =
                        matches!(&request, Request::Create { key, .. } if key.kind() == Kind::Checkpoint);
                    let answer = match is_checkpoint && refused {
                        true => Answer::Failed(String::from("too large")),
                        false => store.answer(&request),
                    };
                    writer.answered(now, id, answer);
                }
                requests = writer.requests();
            }
            assert_eq!(synced(&writer.told()), &Ok(()));
        }
        writer.usage()
    };
    let usage = rounds(&mut writer, 30, true);
    assert!(usage.checkpoint_failures > 10, "{usage:?}");
    assert!(usage.commits_since_checkpoint >= 30, "{usage:?}");
    assert_eq!(writer.trouble(), Some("too large"));
    let usage = rounds(&mut writer, 30, false);
    assert_eq!(usage.checkpoint_failures, 0);
    assert!(usage.commits_since_checkpoint < 10, "{usage:?}");
}

/// What it reads is as old as the last look that had an answer, from when that was asked.
#[test]
fn a_reader_that_has_no_answer_grows_older_until_it_has() {
    let (mut store, start) = (Store::default(), Duration::from_secs(100));
    open(&mut store, start, 1, false);
    let at = |secs: u64| start + Duration::from_secs(secs);
    let mut reader = Reader::new(
        start,
        ReaderOptions {
            at: At::Newest,
            poll: Duration::from_secs(1),
            grace: Some(GRACE),
            pinning: Pinning::Always,
            salvage: false,
            id: 7,
            owner: String::new(),
        },
    );
    let mut look = |now: Duration, is_down: bool| {
        reader.tick(now);
        let mut requests = reader.requests();
        while !requests.is_empty() {
            for (id, request) in requests {
                let answer = match is_down {
                    true => Answer::Failed(String::from("no route")),
                    false => store.answer(&request),
                };
                reader.answered(now, id, answer);
            }
            requests = reader.requests();
        }
        reader.age(now + Duration::from_millis(500))
    };
    assert_eq!(look(start, false), Duration::from_millis(500));
    assert_eq!(look(at(1), false), Duration::from_millis(500));
    for secs in 2..6 {
        assert_eq!(look(at(secs), true), Duration::from_millis(secs * 1000 - 500));
    }
    assert_eq!(look(at(6), false), Duration::from_millis(500));
}

/// A snapshot is given up and made anew under its name, in one commit.
#[test]
fn a_snapshot_that_is_made_anew_under_its_name_is_another() {
    let (mut store, mut now) = (Store::default(), Duration::ZERO);
    let mut writer = open(&mut store, now, 1, false);
    let file = writer.create("a").unwrap();
    for round in 0..20u64 {
        for n in 0..8 {
            writer.write(now, file, n, page(round as u8)).unwrap();
        }
        if round > 0 && round % 5 == 0 {
            let _ = writer.drop_snapshot("s");
            writer.snapshot("s").unwrap();
        }
        writer.sync(now, round);
        assert_eq!(synced(&serve(&mut writer, &mut store, now)), &Ok(()));
        now += GRACE / 4;
        writer.tick(now);
        serve(&mut writer, &mut store, now);
    }
    for _ in 0..10 {
        now += GRACE;
        writer.tick(now);
        serve(&mut writer, &mut store, now);
    }
    let at = At::Snapshot(String::from("s"));
    let (poll, owner) = (GRACE, String::new());
    let mut reader = Reader::new(
        now,
        ReaderOptions {
            at,
            poll,
            grace: Some(GRACE),
            pinning: Pinning::Always,
            salvage: false,
            id: 7,
            owner,
        },
    );
    loop {
        let requests = reader.requests();
        if requests.is_empty() {
            break;
        }
        for (id, request) in requests {
            reader.answered(now, id, store.answer(&request));
        }
    }
    assert!(reader.is_open(), "{:?}", reader.told());
    for n in 0..8 {
        let place = reader.state().place(file, n).unwrap();
        let range = place.offset as usize..(place.offset + place.bytes) as usize;
        assert_eq!(store.objects[&place.object.key()][range], [15; 64]);
    }
    let checkpoints = store
        .objects
        .keys()
        .filter(|key| key.kind() == Kind::Checkpoint)
        .count();
    assert!(
        checkpoints <= 3,
        "the newest, one that is to be named, and the snapshot's: {checkpoints}"
    );
}
