//! Files of a store as files of a cache.

#![allow(clippy::unwrap_used, missing_docs, reason = "a test fails by panicking")]

use draw::Draw;
use millpond::control::Client;
use millpond::device::StoreValue;
use millpond::units::Bytes;
use millpond::{Advice, Error, OpenOptions, PageCache, device};
use millpond_volumes::{CacheStore, Store, StoreOptions, StoreReader, Volumes};
use std::io::{Read, Write};
use std::net::TcpStream;

#[path = "shared/draw.rs"]
mod draw;
#[path = "../../millpond/tests/all/made.rs"]
mod made;

fn cache(page_bytes: u64) -> (PageCache, std::sync::Arc<Volumes>) {
    let volumes = Volumes::new(device::best()).unwrap();
    let built = PageCache::builder()
        .memory(32 << 20)
        .page_size(page_bytes)
        .device(volumes.clone());
    (built.build().unwrap(), volumes)
}

fn options() -> StoreOptions {
    StoreOptions::new().page_bytes(65_536)
}

fn read(store: &Store, name: &str) -> Vec<u8> {
    let file = store.open_file(name).unwrap();
    let mut found = vec![0; file.len().unwrap() as usize];
    file.read_at(&mut found, 0).unwrap();
    found
}

/// A file several times as large as the budget, by any call, and a vector of bytes beside it.
fn model(url: &str, page_bytes: u64) {
    let (cache, volumes) = cache(page_bytes);
    let store = volumes.store(&cache, url, options()).unwrap();
    let file = store.create("a").unwrap();
    let mut bytes = vec![7; 48 << 20];
    file.write_at(&bytes, 0).unwrap();
    let mut draw = Draw(1);
    for round in 0..300u64 {
        let at = draw.below(bytes.len() as u64) as usize;
        let len = (draw.below(200_000) as usize).min(bytes.len() - at);
        match draw.below(10) {
            0 => file.sync_data().unwrap(),
            1 => {
                file.punch(at as u64, len as u64).unwrap();
                bytes[at..at + len].fill(0);
            }
            2 => {
                let to = bytes.len() - len / 16;
                file.set_len(to as u64).unwrap();
                bytes.truncate(to);
            }
            3 => {
                let some = vec![round as u8; len / 8 + 1];
                assert_eq!(file.append(&some).unwrap(), bytes.len() as u64);
                bytes.extend(some);
            }
            4 => {
                let page = at as u64 / page_bytes;
                let mut guard = file.page_mut(page).unwrap();
                guard[0] = round as u8;
                bytes[(page * page_bytes) as usize] = round as u8;
            }
            5 | 6 => {
                let mut found = vec![0; len];
                assert_eq!(file.read_at(&mut found, at as u64).unwrap(), len);
                assert!(found == bytes[at..at + len], "round {round}");
            }
            _ => {
                file.write_at(&vec![round as u8; len], at as u64).unwrap();
                bytes[at..at + len].fill(round as u8);
            }
        }
    }
    file.sync_data().unwrap();
    let reader = StoreReader::open(url, options()).unwrap();
    let seen = reader.open_file("a").unwrap();
    let mut found = vec![0; bytes.len()];
    assert_eq!(seen.read_at(&mut found, 0).unwrap(), bytes.len());
    assert!(found == bytes, "a reader elsewhere sees what was synced");
    file.close().unwrap();
    store.close().unwrap();
    let again = Store::open(url, options()).unwrap();
    assert!(read(&again, "a") == bytes);
    assert_eq!(again.verify().unwrap().damaged, []);
}

#[test]
fn a_file_of_a_store_is_a_file_of_a_cache_by_every_call() {
    model("memory://cached", 65_536);
}

#[test]
fn pages_smaller_than_the_stores_are_as_correct() {
    model("memory://small", 16_384);
}

#[test]
fn a_cache_that_was_built_without_the_device_is_refused_before_anything_is_stored() {
    let temp = tempfile::tempdir().unwrap();
    let url = format!("file://{}", temp.path().display());
    let (_, volumes) = cache(65_536);
    for device in [device::best(), Volumes::new(device::best()).unwrap()] {
        let other = PageCache::builder().memory(32 << 20).page_size(65_536);
        let other = other.device(device).build().unwrap();
        let error = volumes.store(&other, &url, options()).unwrap_err();
        assert!(error.to_string().contains(".device(volumes.clone())"), "{error}");
        assert_eq!(std::fs::read_dir(temp.path()).unwrap().count(), 0);
    }
    // It may be below another.
    let above = Volumes::new(volumes.clone()).unwrap();
    let built = PageCache::builder()
        .memory(64 << 20)
        .page_size(65_536)
        .device(above.clone());
    let both = built.build().unwrap();
    for volumes in [above, volumes] {
        let store = volumes.store(&both, &url, options()).unwrap();
        let file = store.create("a").unwrap();
        file.write_at(b"pond", 0).unwrap();
        file.sync_data().unwrap();
        drop(file);
        store.remove("a").unwrap();
        store.close().unwrap();
    }
}

fn opened(store: &CacheStore) -> millpond::File {
    store.create("a").unwrap()
}

#[test]
fn files_of_a_disk_are_beside_those_of_a_store() {
    let temp = tempfile::tempdir().unwrap();
    let (cache, volumes) = cache(65_536);
    let store = volumes.store(&cache, "memory://beside", options()).unwrap();
    let (there, here) = (opened(&store), temp.path().join("here"));
    let here = cache.open(here, OpenOptions::new().create(true)).unwrap();
    let content: Vec<u8> = (0..3_000_000u32).map(|n| n as u8).collect();
    here.write_at(&content, 0).unwrap();
    there.write_at(&content, 0).unwrap();
    cache.sync_all().unwrap();
    assert!(std::fs::read(temp.path().join("here")).unwrap() == content);
    store.rename("a", "b").unwrap();
    let same = store.open("b").unwrap();
    same.write_at(b"by its other name", 0).unwrap();
    let mut found = [0; 17];
    there.read_at(&mut found, 0).unwrap();
    assert_eq!(&found, b"by its other name");
}

/// The next sync of another file committed the name, and the data only when they were synced themselves: until then the file
/// that had the name was gone, and the one that has it was empty.
#[test]
fn a_file_that_gets_another_name_has_its_data_in_the_commit_that_has_the_name() {
    let url = "memory://renamed";
    let (cache, volumes) = cache(65_536);
    let store = volumes.store(&cache, url, options()).unwrap();
    let old = opened(&store);
    old.write_at(b"the old content", 0).unwrap();
    old.sync_data().unwrap();
    let new = store.create("new").unwrap();
    new.write_at(b"the new content", 0).unwrap();
    store.rename("new", "a").unwrap();
    let other = store.create("other").unwrap();
    other.write_at(b"x", 0).unwrap();
    other.sync_data().unwrap();
    let reader = StoreReader::open(url, options()).unwrap();
    let file = reader.open_file("a").unwrap();
    let mut found = [0; 15];
    file.read_at(&mut found, 0).unwrap();
    assert_eq!(&found, b"the new content");
    drop(new);
}

/// Nothing is measured of a store, nor is it held to a goal; the disk beside it is, as if it were there alone.
#[test]
fn a_store_has_a_limit_in_bytes_and_no_goal_and_the_disk_beside_it_has_its_own() {
    let (cache, volumes) = cache(65_536);
    let url = "memory://facts";
    let store = volumes.store(&cache, url, options()).unwrap();
    let there = opened(&store);
    there.write_at(&vec![1; 4 << 20], 0).unwrap();
    there.sync_data().unwrap();
    drop(there);
    let gets = store.store().usage().requests.gets;
    let there = store.open("a").unwrap();
    assert_eq!(store.store().usage().requests.gets, gets);
    assert_eq!(cache.calibration(), None);
    // There is a disk below it, most often.
    let temp = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let path = temp.path().join("disk");
    std::fs::write(&path, vec![1; 2 << 20]).unwrap();
    let here = cache.open(&path, OpenOptions::new().write(true)).unwrap();
    assert!(cache.calibration().is_some(), "it is the first disk");
    let (mut found, mut other) = ([0; 4096], [0; 4096]);
    there.read_at(&mut found, 1 << 20).unwrap();
    here.read_at(&mut other, 1 << 20).unwrap();
    assert_eq!(found, other);
    let figures = cache.devices();
    let (stores, disks): (Vec<_>, Vec<_>) = figures
        .into_iter()
        .partition(|figures| figures.read_goal.is_none());
    assert_eq!((stores.len(), disks.len()), (1, 1), "{stores:?}, {disks:?}");
    // Eight clusters of a 128th of the budget.
    assert_eq!(
        stores[0].write_bytes_in_transit_limit,
        Some(millpond::units::Bytes(2 << 20))
    );
    assert_eq!(stores[0].class, None);
}

/// A MiB a call: 48 chunks and a commit, and reads that grow to 4 MiB at a time.
#[test]
fn what_is_written_and_read_in_order_goes_in_requests_of_four_mib() {
    let large = || {
        let volumes = Volumes::new(device::best()).unwrap();
        let builder = PageCache::builder().memory(512 << 20).populate(false);
        let cache = builder.page_size(65_536).device(volumes.clone()).build().unwrap();
        volumes.store(&cache, "memory://in-order", options()).unwrap()
    };
    let (store, mib) = (large(), 1 << 20);
    let (file, before) = (opened(&store), store.store().usage().requests.puts);
    for at in 0..192 {
        file.write_at(&vec![at as u8; mib], at * mib as u64).unwrap();
    }
    file.sync_data().unwrap();
    let puts = store.store().usage().requests.puts - before;
    assert!((48..=54).contains(&puts), "{puts} requests for 192 MiB");
    drop(file);
    store.close().unwrap();
    let store = large();
    let (file, before) = (store.open("a").unwrap(), store.store().usage().requests.gets);
    let mut found = vec![0; mib];
    for at in 0..192 {
        file.read_at(&mut found, at * mib as u64).unwrap();
        assert!(found.iter().all(|&byte| byte == at as u8), "{at}");
    }
    let gets = store.store().usage().requests.gets - before;
    assert!((48..=128).contains(&gets), "{gets} requests for 192 MiB");
}

/// It was once for the cache's page, and again for the rest of the store's.
#[test]
fn a_change_of_part_of_a_page_reads_it_from_the_store_once() {
    let url = "memory://part-of-a-page";
    let store = Store::open(url, options()).unwrap();
    let written = store.create("a").unwrap();
    let mut expected = vec![7; 1 << 20];
    written.write_at(&expected, 0).unwrap();
    store.close().unwrap();
    let (cache, volumes) = cache(16 << 10);
    let store = volumes.store(&cache, url, options()).unwrap();
    let file = store.open("a").unwrap();
    file.advise(Advice::Random).unwrap();
    let gets = || store.store().usage().requests.gets;
    let before = gets();
    // Each in another page of the store.
    for at in [0, 200_000, 400_000, 600_000, 800_000] {
        file.write_at(b"pond", at as u64).unwrap();
        file.sync_data().unwrap();
        expected[at..at + 4].copy_from_slice(b"pond");
    }
    assert_eq!(gets() - before, 5);
    drop(file);
    store.close().unwrap();
    let store = Store::open(url, options()).unwrap();
    assert!(read(&store, "a") == expected);
}

#[test]
fn syncs_that_wait_for_one_another_share_a_commit() {
    let (cache, volumes) = cache(65_536);
    // In which all threads come to run, on a busy machine as well.
    let options = options().delay(std::time::Duration::from_millis(100));
    let store = volumes.store(&cache, "memory://group", options).unwrap();
    let files: Vec<_> = (0..8).map(|n| store.create(&n.to_string()).unwrap()).collect();
    let before = store.store().usage().layout.commit;
    std::thread::scope(|scope| {
        for file in &files {
            scope.spawn(move || {
                for round in 0..10 {
                    file.write_at(&[round; 100], u64::from(round) * 65_536).unwrap();
                    file.sync_data().unwrap();
                }
            });
        }
    });
    let commits = store.store().usage().layout.commit - before;
    assert!(commits <= 40, "{commits} commits for 80 syncs");
}

/// The store can't be written for a while: each sync says so, the pages stay, and the same handle goes on after it.
#[test]
fn a_sync_that_failed_is_followed_by_one_that_succeeds_on_the_same_handle() {
    let temp = tempfile::tempdir().unwrap();
    let (cache, volumes) = cache(65_536);
    let url = format!("file://{}", temp.path().display());
    // What fails is tried again for half of it.
    let impatient = options().sync_timeout(std::time::Duration::from_secs(10));
    let store = volumes.store(&cache, &url, impatient).unwrap();
    let file = opened(&store);
    file.write_at(&[1; 1000], 0).unwrap();
    file.sync_data().unwrap();
    // Commits can't be created.
    let (commits, away) = (temp.path().join("m"), temp.path().join("away"));
    std::fs::rename(&commits, &away).unwrap();
    std::fs::write(&commits, b"no folder").unwrap();
    file.write_at(&[2; 1000], 0).unwrap();
    for _ in 0..2 {
        let error = file.sync_data().unwrap_err();
        assert!(matches!(error, Error::Sync { is_kept: true, .. }), "{error}");
        let text = error.to_string();
        assert!(
            text.starts_with(&format!("can't make {url}/a durable: ")),
            "{text}"
        );
        assert!(text.contains(&store.store().trouble().unwrap()), "{text}");
        assert!(
            text.ends_with("; what could not be stored is kept: sync again"),
            "{text}"
        );
    }
    assert_eq!(file.path().to_str(), Some(&*format!("{url}/a")));
    let mut found = [0; 1000];
    file.read_at(&mut found, 0).unwrap();
    assert_eq!(found, [2; 1000]);
    std::fs::remove_file(&commits).unwrap();
    std::fs::rename(&away, &commits).unwrap();
    file.sync_data().unwrap();
    let reader = StoreReader::open(&url, options()).unwrap();
    reader.open_file("a").unwrap().read_at(&mut found, 0).unwrap();
    assert_eq!(found, [2; 1000]);
}

#[test]
fn a_takeover_is_an_error_of_the_next_sync_and_stays_one() {
    let (cache, volumes) = cache(65_536);
    let store = volumes.store(&cache, "memory://taken", options()).unwrap();
    let file = opened(&store);
    file.write_at(&[1; 1000], 0).unwrap();
    file.sync_data().unwrap();
    let other = Store::open("memory://taken", options().take_over(true)).unwrap();
    file.write_at(&[2; 1000], 0).unwrap();
    for _ in 0..2 {
        let error = file.sync_data().unwrap_err();
        assert_eq!(error.errno(), rustix::io::Errno::STALE.raw_os_error());
        let owner = format!("process {} on ", std::process::id());
        assert!(error.to_string().contains(&owner), "{error}");
        // The next one's pages are not taken.
        file.write_at(&[3; 1000], 0).unwrap();
    }
    let fence = store.store().fence().unwrap().to_string();
    for error in [file.write_out().unwrap_err(), file.failure().unwrap()] {
        assert!(error.to_string().contains(&fence), "{error}");
    }
    assert_eq!(store.store().fence().unwrap().epoch, 2);
    assert_eq!(&read(&other, "a")[..1000], [1; 1000]);
}

/// `docs/VOLUMES.md` lists them.
#[test]
fn a_cache_shows_what_its_store_does() {
    let folder = tempfile::tempdir().unwrap();
    let volumes = Volumes::new(device::best()).unwrap();
    let builder = PageCache::builder().memory(16 << 20).page_size(65_536);
    let builder = builder.control_at(folder.path().join("sock"));
    let builder = builder.metrics(([127, 0, 0, 1], 0).into());
    let cache = builder.device(volumes.clone()).build().unwrap();
    let value = |cache: &PageCache, name: &str| {
        let [store] = &cache.stores()[..] else {
            panic!("{:?}", cache.stores())
        };
        assert_eq!(store.name, "memory://watched");
        let figure = store.figures.iter().find(|figure| figure.name == name);
        figure.unwrap_or_else(|| panic!("no {name}")).value
    };
    assert_eq!(cache.stores(), []);
    let tier = std::num::NonZeroU64::new(16 << 20).unwrap();
    let with_tier = options().disk_tier(folder.path().join("tier"), tier);
    let store = volumes.store(&cache, "memory://watched", with_tier).unwrap();
    assert_eq!(value(&cache, "commits"), StoreValue::Total(1));
    let file = store.create("a").unwrap();
    file.write_at(&[1; 3 << 16], 0).unwrap();
    file.sync_data().unwrap();
    assert_eq!(value(&cache, "commits"), StoreValue::Total(2));
    assert_eq!(value(&cache, "live"), StoreValue::Bytes(Bytes(3 << 16)));
    // Commits are beside pages.
    let garbage = |cache: &PageCache| match value(cache, "garbage") {
        StoreValue::Bytes(Bytes(bytes)) => bytes / 4096 * 4096,
        other => panic!("{other:?}"),
    };
    assert_eq!(garbage(&cache), 0);
    assert_eq!(value(&cache, "uncommitted"), StoreValue::Bytes(Bytes(0)));
    file.write_at(&[2; 3 << 16], 0).unwrap();
    file.sync_data().unwrap();
    assert_eq!(garbage(&cache), 3 << 16);
    let StoreValue::Timed(gets, _) = value(&cache, "get") else {
        panic!()
    };
    drop(file);
    let mut found = vec![0; 3 << 16];
    store.open("a").unwrap().read_at(&mut found, 0).unwrap();
    assert_eq!(found, vec![2; 3 << 16]);
    let StoreValue::Timed(more, took) = value(&cache, "get") else {
        panic!()
    };
    assert!(more > gets && took.0 > 0, "{more} {took:?}");
    let StoreValue::Time(age) = value(&cache, "commit_age") else {
        panic!()
    };
    std::thread::sleep(std::time::Duration::from_millis(20));
    let StoreValue::Time(later) = value(&cache, "commit_age") else {
        panic!()
    };
    assert!(later > age, "{age:?} {later:?}");
    assert_eq!(value(&cache, "fenced"), StoreValue::Number(0));
    let other = Store::open("memory://watched", options().take_over(true)).unwrap();
    // Without those of the writer before: a rate since the beginning is of this process.
    let usage = other.usage();
    assert!(usage.commits == 1 && usage.layout.commit > 3, "{usage:?}");
    let file = store.open("a").unwrap();
    file.write_at(&[3; 1000], 0).unwrap();
    assert!(file.sync_data().is_err());
    assert_eq!(value(&cache, "fenced"), StoreValue::Number(1));

    let mut client = Client::connect(cache.control_path().unwrap()).unwrap();
    let stat = client.ask("stat").unwrap();
    for figure in &cache.stores()[0].figures {
        assert!(stat.contains(&format!("\"name\":\"{}\"", figure.name)), "{stat}");
    }
    let mut metrics = TcpStream::connect(cache.metrics_address().unwrap()).unwrap();
    metrics
        .write_all(b"GET /metrics HTTP/1.1\r\nHost: localhost\r\n\r\n")
        .unwrap();
    let mut body = String::new();
    metrics.read_to_string(&mut body).unwrap();
    made::block(
        "docs/VOLUMES.md",
        "figures",
        &made::metrics(&body, "millpond_store_"),
    );
}
