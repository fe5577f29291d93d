//! Links that are slow, folders that are full, writers that live shortly, and one that another waits for.

use crate::histories::{GRACE, open, options, page, serve, synced};
use crate::store::Store;
use millpond_volumes::format::{Key, Kind, Pin};
use millpond_volumes::layout::{Answer, Refusal, Request, SyncError, Told, Writer, WriterOptions};
use std::collections::VecDeque;
use std::time::Duration;

/// A link takes a chunk in a third of the time that a request has, and shares it among all that are sent.
#[test]
fn a_sync_over_a_slow_link_ends() {
    slow_link().unwrap();
}

pub(crate) fn slow_link() -> Result<(), String> {
    let (mut store, mut now) = (Store::default(), Duration::ZERO);
    let limit = Duration::from_secs(10);
    let mut writer = open(&mut store, now, 1, false);
    let file = writer.create("a").unwrap();
    for n in 0..60 {
        writer.write(now, file, n, page(1)).unwrap();
    }
    let (mut sent, mut tickets) = (VecDeque::new(), 0);
    writer.sync(now, tickets);
    for _ in 0..10_000 {
        sent.extend(writer.requests().into_iter().map(|request| (now, request)));
        // All that is sent gets on alike.
        now += limit / 3 * sent.len().max(1) as u32;
        for (at, (id, request)) in std::mem::take(&mut sent) {
            let answer = match now - at > limit {
                true => Answer::Failed(String::from("no answer")),
                false => store.answer(&request),
            };
            writer.answered(now, id, answer);
        }
        writer.tick(now);
        for told in writer.told() {
            match told {
                Told::Synced(_, Ok(())) => return Ok(()),
                Told::Synced(..) => {
                    tickets += 1;
                    writer.sync(now, tickets);
                }
                _ => {}
            }
        }
    }
    Err(format!("nothing was told in {now:?}"))
}

/// One that failed as the process went on was told to a sync that had waited for moments.
#[test]
fn a_stop_of_the_process_is_no_time_that_a_sync_has_waited() {
    let (mut store, now) = (Store::default(), Duration::ZERO);
    let patience = Duration::from_secs(30);
    let mut writer = Writer::new(
        now,
        WriterOptions {
            patience,
            ..options(1, false)
        },
    );
    serve(&mut writer, &mut store, now);
    let file = writer.create("a").unwrap();
    writer.write(now, file, 0, page(1)).unwrap();
    writer.sync(now, 7);
    let fails = |writer: &mut Writer, now| {
        writer.tick(now);
        for (id, _) in writer.requests() {
            writer.answered(now, id, Answer::Failed(String::from("reset")));
        }
        writer.told()
    };
    assert_eq!(fails(&mut writer, now), []);
    let stop = Duration::from_secs(3600);
    writer.stopped(stop);
    assert_eq!(fails(&mut writer, now + stop), []);
    assert_eq!(fails(&mut writer, now + stop + patience / 2), []);
    let told = fails(&mut writer, now + stop + patience);
    assert!(matches!(synced(&told), Err(SyncError::Store(_))), "{told:?}");
}

/// A request takes a while, and one writer makes a commit as soon as it can. The other takes the store over.
#[test]
fn a_store_is_taken_over_from_one_that_commits_without_a_pause() {
    takeover().unwrap();
}

pub(crate) fn takeover() -> Result<(), String> {
    let trip = Duration::from_millis(30);
    let (mut store, mut now) = (Store::default(), Duration::ZERO);
    let mut first = open(&mut store, now, 1, false);
    let file = first.create("a").unwrap();
    let mut second = Writer::new(now, options(2, true));
    let mut is_told = false;
    first.sync(now, 0);
    for round in 1..2000 {
        now += trip;
        // What the first has sent always comes before what the second has.
        for (writer, other) in [(&mut first, false), (&mut second, true)] {
            writer.tick(now);
            for (id, request) in writer.requests() {
                writer.answered(now, id, store.answer(&request));
            }
            for told in writer.told() {
                match (told, other) {
                    (Told::Opened(Ok(())), true) => is_told = true,
                    (Told::Synced(_, Err(error)), false) if is_told => {
                        assert!(error.to_string().contains("writer 2"), "{error}");
                        // There is no claim left.
                        assert!(!store.objects.keys().any(|key| key.kind() == Kind::Pin));
                        return Ok(());
                    }
                    (Told::Synced(..), false) => {
                        writer.write(now, file, round % 64, page(round as u8)).unwrap();
                        writer.sync(now, round);
                    }
                    _ => {}
                }
            }
        }
    }
    Err(format!("not in {now:?}"))
}

/// Writers live for a third of a grace, and each writes all anew. A reader that was killed has left its pin.
#[test]
fn writers_that_live_shorter_than_a_grace_delete_what_those_before_have_superseded() {
    short_lives().unwrap();
}

pub(crate) fn short_lives() -> Result<(), String> {
    let (mut store, mut now) = (Store::default(), GRACE);
    let pin = Pin {
        number: 1,
        beat: 1,
        owner: String::new(),
    };
    for life in 0..40u8 {
        let mut writer = open(&mut store, now, u128::from(life) + 1, false);
        if life == 0 {
            writer.create("a").unwrap();
        }
        if life == 3 {
            let (key, body) = (Key::Pin(9), vec![pin.encode().into()].into());
            store.answer(&Request::Overwrite { key, body });
        }
        let file = writer.state().names["a"];
        for n in 0..8 {
            writer.write(now, file, n, page(life)).unwrap();
        }
        writer.sync(now, 1);
        assert_eq!(synced(&serve(&mut writer, &mut store, now)), &Ok(()));
        now += GRACE / 3;
        writer.tick(now);
        serve(&mut writer, &mut store, now);
        writer.close(now, 2);
        assert_eq!(serve(&mut writer, &mut store, now), [Told::Synced(2, Ok(()))]);
    }
    // What is live, what is dead for less than a grace, and that once more in commits until there is a checkpoint.
    let stored: u64 = store.objects.values().map(|object| object.len() as u64).sum();
    let pages = 8 * 64;
    match stored < 32 * pages && !store.objects.contains_key(&Key::Pin(9)) {
        true => Ok(()),
        false => Err(format!(
            "{stored} bytes are stored for {pages}, in {} objects",
            store.objects.len()
        )),
    }
}

/// Commits carry all pages, and each supersedes the one before. Nobody writes after that.
#[test]
fn what_is_dead_in_commits_is_deleted_while_nobody_writes() {
    let (mut store, mut now) = (Store::default(), Duration::ZERO);
    let with = WriterOptions {
        checkpoint_commits: 1000,
        inline_bytes: 1024,
        ..options(1, false)
    };
    let mut writer = Writer::new(now, with);
    serve(&mut writer, &mut store, now);
    let file = writer.create("a").unwrap();
    for round in 0..20 {
        for n in 0..8 {
            writer.write(now, file, n, page(round)).unwrap();
        }
        writer.sync(now, round.into());
        assert_eq!(synced(&serve(&mut writer, &mut store, now)), &Ok(()));
    }
    for _ in 0..4 * GRACE.as_secs() {
        now += Duration::from_secs(1);
        writer.tick(now);
        serve(&mut writer, &mut store, now);
    }
    let usage = writer.usage();
    let stored: u64 = store.objects.values().map(|object| object.len() as u64).sum();
    assert_eq!(usage.stored_bytes, stored, "{usage:?}");
    assert!(stored < 4 * 8 * 64, "{usage:?}");
}

/// Chunks do not fit. What does not is removed, and a commit fits.
#[test]
fn a_folder_that_is_full_is_written_again_when_what_does_not_fit_was_cut_off() {
    for is_all in [true, false] {
        let (mut store, mut now) = (Store::default(), Duration::ZERO);
        let mut writer = open(&mut store, now, 1, false);
        let (file, other) = (writer.create("a").unwrap(), writer.create("b").unwrap());
        let full = |writer: &mut Writer, store: &mut Store, now| {
            let mut told = Vec::new();
            loop {
                let requests = writer.requests();
                if requests.is_empty() {
                    return told;
                }
                for (id, request) in requests {
                    let answer = match &request {
                        Request::Create {
                            key: Key::Chunk { .. },
                            body,
                        } if body.concat().len() > 128 => {
                            Answer::Refused(Refusal::Room, String::from("no space is left"))
                        }
                        request => store.answer(request),
                    };
                    writer.answered(now, id, answer);
                }
                told.extend(writer.told());
            }
        };
        // A chunk has four: the last has one of the other file.
        writer.set_len(file, 20 * 64).unwrap();
        for n in 0..if is_all { 20 } else { 19 } {
            writer.write(now, file, n, page(1)).unwrap();
        }
        if !is_all {
            writer.write(now, other, 0, page(2)).unwrap();
        }
        writer.sync(now, 1);
        let told = full(&mut writer, &mut store, now);
        // At once: it is of no use to wait.
        assert!(
            matches!(synced(&told), Err(error) if error.to_string().contains("no space is left")),
            "{told:?}"
        );
        writer.set_len(file, 0).unwrap();
        writer.sync(now, 2);
        let mut told = full(&mut writer, &mut store, now);
        for _ in 0..100 {
            now += Duration::from_secs(1);
            writer.tick(now);
            told.extend(full(&mut writer, &mut store, now));
        }
        assert!(told.contains(&Told::Synced(2, Ok(()))), "{told:?}");
    }
}
