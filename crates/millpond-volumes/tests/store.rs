//! Stores as programs use them, in memory and in folders.

#![allow(clippy::unwrap_used, missing_docs, reason = "a test fails by panicking")]

use draw::Draw;
use millpond_volumes::layout::{LoadError, OpenError, ReadError, SyncError, WriteError};
use millpond_volumes::{Error, Store, StoreOptions, StoreReader};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

#[path = "shared/draw.rs"]
mod draw;

fn options() -> StoreOptions {
    StoreOptions::new()
        .page_bytes(4096)
        .poll(Duration::from_millis(20))
}

fn bytes(seed: u64, len: usize) -> Vec<u8> {
    Draw(seed).bytes(len)
}

fn read(store: &Store, name: &str) -> Vec<u8> {
    let file = store.open_file(name).unwrap();
    let mut found = vec![0; file.len().unwrap() as usize];
    assert_eq!(file.read_at(&mut found, 0).unwrap(), found.len());
    found
}

/// Milliseconds since a time in milliseconds since 1970.
fn since(unix_ms: u64) -> u64 {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap();
    (now.as_millis() as u64).abs_diff(unix_ms)
}

/// What comes of a call to a store that gives up after two seconds, in the end: a busy disk may take as long. What was not done
/// is done by the next.
fn in_the_end<T>(does: impl Fn() -> Result<T, Error>) -> T {
    let deadline = Instant::now() + Duration::from_secs(120);
    loop {
        match does() {
            Err(Error::TimedOut(..)) if Instant::now() < deadline => {}
            done => return done.unwrap(),
        }
    }
}

fn folder(of: &tempfile::TempDir) -> String {
    format!("file://{}", of.path().display())
}

#[test]
fn what_is_written_anywhere_is_read_as_a_vector_of_bytes_would_be() {
    let store = Store::open("memory://vector", options()).unwrap();
    let file = store.create("a").unwrap();
    let mut model: Vec<u8> = Vec::new();
    let mut draw = Draw(1);
    for round in 0..400 {
        let at = draw.below(40_000) as usize;
        let len = draw.below(9_000) as usize;
        match draw.below(8) {
            0 => {
                model.resize(at, 0);
                file.set_len(at as u64).unwrap();
            }
            1 => {
                let end = (at + len).min(model.len());
                if at < end {
                    model[at..end].fill(0);
                }
                file.punch(at as u64..(at + len) as u64).unwrap();
            }
            2 => file.sync_data().unwrap(),
            _ => {
                let some = bytes(round, len);
                if !some.is_empty() {
                    model.resize(model.len().max(at + len), 0);
                    model[at..at + len].copy_from_slice(&some);
                }
                file.write_at(&some, at as u64).unwrap();
            }
        }
        assert_eq!(file.len().unwrap(), model.len() as u64, "round {round}");
        assert!(read(&store, "a") == model, "round {round}");
    }
    store.close().unwrap();
    let again = Store::open("memory://vector", options()).unwrap();
    assert!(read(&again, "a") == model);
    assert_eq!(again.verify().unwrap().damaged, []);
}

#[test]
fn files_live_in_a_folder_and_are_there_when_it_is_opened_again() {
    let temp = tempfile::tempdir().unwrap();
    let url = folder(&temp);
    let content = bytes(1, 9_000_001);
    {
        let store = Store::open(&url, options()).unwrap();
        store.create("a/b").unwrap().write_at(&content, 0).unwrap();
        store.create("c").unwrap();
        store.create("d").unwrap().write_at(b"gone", 0).unwrap();
        store.rename("a/b", "d").unwrap();
        store.sync().unwrap();
        store.close().unwrap();
    }
    let store = Store::open(&url, options()).unwrap();
    let names: Vec<(String, u64)> = store
        .list()
        .into_iter()
        .map(|entry| (entry.name, entry.bytes))
        .collect();
    assert_eq!(names, [(String::from("c"), 0), (String::from("d"), 9_000_001)]);
    assert!(read(&store, "d") == content);
    store.remove("d").unwrap();
    assert!(matches!(store.open_file("d"), Err(Error::NoFile(name)) if name == "d"));
}

#[test]
fn a_reader_follows_whole_commits_and_says_how_old_it_is() {
    let store = Store::open("memory://follow", options()).unwrap();
    assert!(matches!(
        StoreReader::open("memory://nothing", options()),
        Err(Error::Reader(ReadError::Empty))
    ));
    let file = store.create("a").unwrap();
    file.write_at(&[1; 40_960], 0).unwrap();
    store.sync().unwrap();
    let reader = StoreReader::open("memory://follow", options()).unwrap();
    let seen = reader.open_file("a").unwrap();
    for version in 2..60u8 {
        file.write_at(&[version; 40_960], 0).unwrap();
        let mut found = vec![0; 40_960];
        assert_eq!(seen.read_at(&mut found, 0).unwrap(), 40_960);
        assert!(found.iter().all(|byte| *byte == found[0]), "a mixture");
        store.sync().unwrap();
    }
    reader.poll().unwrap();
    let mut found = vec![0; 40_960];
    seen.read_at(&mut found, 0).unwrap();
    assert_eq!(found[0], 59);
    assert!(reader.age() < Duration::from_secs(30), "{:?}", reader.age());
    assert_eq!(reader.commit(), store.usage().layout.commit);
}

/// The reader neither looks nor renews its pin, as one that was suspended: it can't be put.
#[test]
fn a_reader_that_was_away_for_too_long_begins_anew_at_the_newest_commit() {
    let temp = tempfile::tempdir().unwrap();
    let url = folder(&temp);
    let store = Store::open(&url, options().grace(Duration::from_secs(1))).unwrap();
    let (file, removed) = (store.create("a").unwrap(), store.create("b").unwrap());
    file.write_at(&vec![1; 5 << 20], 0).unwrap();
    removed.write_at(b"gone", 0).unwrap();
    store.sync().unwrap();
    let chunk = std::fs::read_dir(temp.path().join("c")).unwrap().next();
    let chunk = chunk.unwrap().unwrap().path();
    let long = Duration::from_secs(1000);
    let reader = StoreReader::open(&url, options().poll(long)).unwrap();
    let (seen, gone) = (reader.open_file("a").unwrap(), reader.open_file("b").unwrap());
    let pins = temp.path().join("p");
    std::fs::remove_dir_all(&pins).unwrap();
    std::fs::write(&pins, b"no folder").unwrap();
    store.remove("b").unwrap();
    let deadline = Instant::now() + Duration::from_secs(60);
    while chunk.exists() {
        assert!(Instant::now() < deadline, "{:?}", store.usage());
        file.write_at(&vec![2; 5 << 20], 0).unwrap();
        store.sync().unwrap();
        std::thread::sleep(Duration::from_millis(200));
    }
    assert!(reader.commit() < store.usage().layout.commit, "it was not away");
    let mut found = vec![0; 5 << 20];
    let gets = reader.requests().gets;
    std::thread::scope(|scope| {
        let reading = scope.spawn(|| seen.read_at(&mut found, 0));
        // It has asked for what is gone, before it can begin anew.
        while reader.requests().gets == gets {
            assert!(Instant::now() < deadline && !reading.is_finished());
            std::thread::yield_now();
        }
        std::fs::remove_file(&pins).unwrap();
        assert_eq!(reading.join().unwrap().unwrap(), 5 << 20);
    });
    assert!(found.iter().all(|byte| *byte == 2));
    let error = gone.read_at(&mut found, 0).unwrap_err();
    assert!(matches!(&error, Error::NoFile(name) if name == "b"), "{error}");
}

#[test]
fn a_snapshot_stays_as_it_was_while_all_is_written_anew() {
    let store = Store::open("memory://snapshot", options()).unwrap();
    let file = store.create("a").unwrap();
    let before = bytes(1, 100_000);
    file.write_at(&before, 0).unwrap();
    store.snapshot("monday").unwrap();
    for round in 0..5 {
        file.write_at(&bytes(round, 100_000), 0).unwrap();
        store.sync().unwrap();
    }
    let reader = StoreReader::open("memory://snapshot", options().snapshot("monday")).unwrap();
    let mut found = vec![0; 100_000];
    reader.open_file("a").unwrap().read_at(&mut found, 0).unwrap();
    assert!(found == before);
    let verified = store.verify().unwrap();
    assert_eq!((verified.files, verified.damaged.len()), (2, 0));
    store.drop_snapshot("monday").unwrap();
    assert!(matches!(
        StoreReader::open("memory://snapshot", options().snapshot("monday")),
        Err(Error::Reader(ReadError::NoSnapshot(_)))
    ));
}

#[test]
fn a_takeover_fences_and_what_was_not_committed_can_be_had() {
    let first = Store::open("memory://fence", options()).unwrap();
    let file = first.create("a").unwrap();
    file.write_at(&[1; 4096], 0).unwrap();
    first.sync().unwrap();
    let held = Store::open("memory://fence", options()).unwrap_err();
    assert!(
        matches!(&held, Error::Open(OpenError::Held { owner, epoch: 1, at_unix_ms }) if owner.contains("process") && since(*at_unix_ms) < 60_000),
        "{held:?}"
    );

    let second = Store::open("memory://fence", options().take_over(true)).unwrap();
    file.write_at(&[2; 4096], 4096).unwrap();
    let fenced = file.sync_data().unwrap_err();
    assert!(
        matches!(&fenced, Error::Sync(SyncError::Fenced(fence)) if fence.epoch == 2),
        "{fenced}"
    );
    assert!(
        file.write_at(&[3; 4096], 0).unwrap_err().is_fenced(),
        "it is latched"
    );
    let lost = first.take_lost();
    assert_eq!(
        (lost.len(), lost[0].file.as_str(), lost[0].offset),
        (1, "a", 4096)
    );
    assert_eq!(lost[0].bytes.as_deref(), Some(&[2; 4096][..]));
    assert_eq!(read(&second, "a"), [1; 4096]);
    second.open_file("a").unwrap().write_at(&[4; 4096], 0).unwrap();
    second.sync().unwrap();
}

#[test]
fn an_object_that_was_changed_is_an_error_and_verify_names_it() {
    let temp = tempfile::tempdir().unwrap();
    let url = folder(&temp);
    let store = Store::open(&url, options()).unwrap();
    let file = store.create("a").unwrap();
    file.write_at(&bytes(1, 6 << 20), 0).unwrap();
    store.sync().unwrap();
    let chunks: Vec<_> = std::fs::read_dir(temp.path().join("c")).unwrap().collect();
    let chunk = chunks[0].as_ref().unwrap().path();
    let mut content = std::fs::read(&chunk).unwrap();
    content[10_000] ^= 1;
    std::fs::write(&chunk, content).unwrap();
    let damaged = store.verify().unwrap().damaged;
    assert_eq!((damaged.len(), damaged[0].file.as_str()), (1, "a"));
    let mut page = [0; 4096];
    let error = file.read_at(&mut page, damaged[0].page * 4096).unwrap_err();
    assert!(error.to_string().contains("damaged"), "{error}");
    let other = (damaged[0].page + 1) % 1536;
    file.read_at(&mut page, other * 4096).unwrap();
    std::fs::remove_file(&chunk).unwrap();
    let error = file.read_at(&mut page, damaged[0].page * 4096).unwrap_err();
    assert!(
        matches!(&error, Error::Read { file, page, why, .. } if file == "a" && *page == damaged[0].page && why.contains("no such object")),
        "{error}"
    );
}

/// Chunks can't be created for a while.
#[test]
fn what_a_store_that_is_down_cannot_take_is_refused_in_time_and_what_was_taken_is_in_the_next_sync() {
    let temp = tempfile::tempdir().unwrap();
    let url = folder(&temp);
    let impatient = options().held_bytes(8 << 20).sync_timeout(Duration::from_secs(2));
    let store = in_the_end(|| Store::open(&url, impatient.clone().take_over(true)));
    let file = store.create("a").unwrap();
    let chunks = temp.path().join("c");
    std::fs::write(&chunks, b"no folder").unwrap();
    let content = bytes(1, 1 << 20);
    let mut taken = 0;
    let error = loop {
        match file.write_at(&content, taken << 20) {
            Ok(()) => taken += 1,
            Err(error) => break error,
        }
        assert!(taken <= 8, "{taken} MiB are held");
    };
    assert!(matches!(error, Error::TimedOut(..)), "{error}");
    assert_eq!(taken, 8);
    std::fs::remove_file(&chunks).unwrap();
    in_the_end(|| store.sync());
    let reader = StoreReader::open(&url, StoreOptions::new()).unwrap();
    let mut found = vec![0; 8 << 20];
    reader.open_file("a").unwrap().read_at(&mut found, 0).unwrap();
    assert!(found.chunks(1 << 20).all(|part| part == content));
}

/// Chunks can't be created for a while.
#[test]
fn a_write_of_which_a_part_was_taken_says_how_much_and_the_file_has_that_and_no_more() {
    let temp = tempfile::tempdir().unwrap();
    let url = folder(&temp);
    let impatient = options().held_bytes(8 << 20).sync_timeout(Duration::from_secs(2));
    let store = in_the_end(|| Store::open(&url, impatient.clone().take_over(true)));
    let file = store.create("a").unwrap();
    file.write_at(&[7; 100], 0).unwrap();
    in_the_end(|| store.sync());
    let chunks = temp.path().join("c");
    std::fs::write(&chunks, b"no folder").unwrap();
    let content = bytes(1, 20 << 20);
    let error = file.write_at(&content, 50).unwrap_err();
    let Error::Short { written, bytes, why } = &error else {
        panic!("{error}")
    };
    assert!(matches!(**why, Error::TimedOut(..)), "{error}");
    assert_eq!(*bytes, 20 << 20);
    assert!((7 << 20..=8 << 20).contains(written), "{error}");
    let model = [&[7; 50][..], &content[..*written as usize]].concat();
    assert_eq!(file.len().unwrap(), model.len() as u64);
    assert!(read(&store, "a") == model);
    // Nothing of this one.
    let error = file.write_at(b"behind", 30 << 20).unwrap_err();
    assert!(matches!(error, Error::TimedOut(..)), "{error}");
    assert_eq!(file.len().unwrap(), model.len() as u64);
    std::fs::remove_file(&chunks).unwrap();
    in_the_end(|| store.sync());
    let reader = StoreReader::open(&url, StoreOptions::new()).unwrap();
    let seen = reader.open_file("a").unwrap();
    let mut found = vec![0; model.len()];
    assert_eq!(seen.len().unwrap(), model.len() as u64);
    seen.read_at(&mut found, 0).unwrap();
    assert!(found == model);
}

#[test]
fn all_that_open_a_store_have_the_grace_that_it_was_made_with() {
    let (url, minute) = ("memory://grace", Duration::from_secs(60));
    Store::open(url, options().grace(minute))
        .unwrap()
        .close()
        .unwrap();
    // The same, or none.
    Store::open(url, options().grace(minute))
        .unwrap()
        .close()
        .unwrap();
    Store::open(url, options()).unwrap().close().unwrap();
    StoreReader::open(url, options()).unwrap();
    let hour = options().grace(minute * 60);
    let writer = Store::open(url, hour.clone()).unwrap_err();
    let reader = StoreReader::open(url, hour.clone()).unwrap_err();
    let grace = LoadError::Grace {
        stored: minute,
        said: minute * 60,
    };
    assert!(
        matches!(&writer, Error::Open(OpenError::Load(why)) if *why == grace),
        "{writer}"
    );
    assert!(
        matches!(&reader, Error::Reader(ReadError::Load(why)) if *why == grace),
        "{reader}"
    );
    let said = writer.to_string();
    assert!(said.contains("60s") && said.contains("3600s"), "{said}");
    // A store that was made without one has a quarter of an hour.
    Store::open("memory://default-grace", options())
        .unwrap()
        .close()
        .unwrap();
    let error = Store::open("memory://default-grace", hour).unwrap_err();
    assert!(error.to_string().contains("900s"), "{error}");
}

#[test]
fn the_pages_of_a_store_are_those_that_it_was_made_with() {
    let store = Store::open("memory://pages", options()).unwrap();
    store.close().unwrap();
    let other = Store::open("memory://pages", options().page_bytes(65_536)).unwrap_err();
    assert!(matches!(other, Error::Open(OpenError::PageSize(4096))), "{other}");
    assert!(other.to_string().contains("pages of 4096 bytes"), "{other}");
    // Without a word they are the store's.
    let same = Store::open("memory://pages", StoreOptions::new()).unwrap();
    assert_eq!(same.page_bytes(), 4096);
    same.create("a").unwrap().write_at(&[7; 10_000], 0).unwrap();
    same.close().unwrap();
    let new = Store::open("memory://pages-new", StoreOptions::new()).unwrap();
    assert_eq!(new.page_bytes(), 65_536);
    for none in [0, 2048, 3000, 2 << 20] {
        let error = Store::open("memory://pages", options().page_bytes(none)).unwrap_err();
        assert!(
            matches!(error, Error::PageBytes(given) if given == none),
            "{error}"
        );
    }
}

#[test]
fn an_address_that_is_none_says_what_is() {
    for (url, said) in [
        ("nothing", "s3://bucket/prefix"),
        ("/some/where", "a path is not"),
        ("ftp://here", "no such kind of store"),
        ("s3://", "there is no bucket in it"),
        ("s3:bucket/prefix", "there is no bucket in it"),
        ("file:///no/such/folder/above", "the folder can't be made"),
        ("memory://x?key=secret", "nothing behind its prefix"),
        ("file://elsewhere/folder", "no folder of this machine"),
    ] {
        let error = Store::open(url, options()).unwrap_err().to_string();
        assert!(error.contains(said) && !error.contains("secret"), "{error}");
    }
    let error = Store::open("memory://user:secret@x", options())
        .unwrap_err()
        .to_string();
    assert!(
        error.contains("credentials are read as") && !error.contains("secret"),
        "{error}"
    );
}

#[test]
fn a_write_beyond_the_longest_file_is_an_error_and_changes_nothing() {
    let store = Store::open("memory://long", options()).unwrap();
    let file = store.create("a").unwrap();
    let error = file.write_at(b"pond", u64::MAX - 2).unwrap_err();
    assert!(matches!(error, Error::Write(WriteError::TooLong)), "{error}");
    assert_eq!(file.len().unwrap(), 0);
}

#[test]
fn dropping_the_last_handle_closes_the_store() {
    let store = Store::open("memory://dropped", options()).unwrap();
    let file = store.create("a").unwrap();
    file.write_at(b"kept", 0).unwrap();
    drop((store, file));
    let again = Store::open("memory://dropped", options()).unwrap();
    assert_eq!(read(&again, "a"), b"kept");
}

/// A page each, and each a sync: what is superseded goes after the grace.
#[test]
fn garbage_is_gone_after_the_grace_and_what_is_stored_stays_near_what_is_live() {
    let options = options().grace(Duration::from_secs(1));
    let store = Store::open("memory://garbage", options).unwrap();
    let file = store.create("a").unwrap();
    for round in 0..300u64 {
        file.write_at(&bytes(round, 65_536), (round * 65_536) % (1 << 20))
            .unwrap();
        store.sync().unwrap();
    }
    let deadline = Instant::now() + Duration::from_secs(60);
    while store.usage().requests.deletes == 0 {
        assert!(Instant::now() < deadline, "{:?}", store.usage());
        std::thread::sleep(Duration::from_millis(100));
        file.write_at(b"x", 0).unwrap();
        store.sync().unwrap();
    }
    assert_eq!(store.verify().unwrap().damaged, []);
}
