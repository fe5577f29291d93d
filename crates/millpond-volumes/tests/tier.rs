//! Disk tiers as programs use them: real files, which are damaged, killed and taken away.

#![allow(clippy::unwrap_used, missing_docs, reason = "a test fails by panicking")]

use millpond::{PageCache, device};
use millpond_volumes::{Error, Store, StoreOptions, StoreReader, Volumes};
use std::io::{BufRead, BufReader};
use std::num::NonZeroU64;
use std::os::unix::fs::{FileExt, MetadataExt, PermissionsExt};
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

const MIB: u64 = 1 << 20;
const PAGE: u64 = 4096;
/// The header, and behind it the first table: where the first slot is.
const FIRST_SLOT: u64 = 2 * 4096;

fn options() -> StoreOptions {
    StoreOptions::new()
        .page_bytes(PAGE as u32)
        .poll(Duration::from_millis(20))
}

fn with_tier(path: &Path, mib: u64) -> StoreOptions {
    options().disk_tier(path, NonZeroU64::new(mib * MIB).unwrap())
}

struct Draw(u64);

impl Draw {
    fn below(&mut self, n: u64) -> u64 {
        self.0 = self
            .0
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % n
    }
}

fn content(seed: u64, len: u64) -> Vec<u8> {
    let mut draw = Draw(seed << 8 | 1);
    (0..len).map(|_| draw.below(256) as u8).collect()
}

/// A store with a file `a`.
fn store(url: &str, bytes: &[u8]) {
    let store = Store::open(url, options()).unwrap();
    store.create("a").unwrap().write_at(bytes, 0).unwrap();
    store.close().unwrap();
}

fn read(reader: &StoreReader, bytes: &[u8], offset: u64, len: u64) {
    let mut found = vec![0; len as usize];
    reader
        .open_file("a")
        .unwrap()
        .read_at(&mut found, offset)
        .unwrap();
    assert!(
        found == bytes[offset as usize..][..len as usize],
        "other bytes at {offset}"
    );
}

/// All of it, in calls of a MiB. The requests that took.
fn read_all(reader: &StoreReader, bytes: &[u8]) -> u64 {
    let before = reader.requests().get_bytes;
    for offset in (0..bytes.len() as u64).step_by(MIB as usize) {
        read(reader, bytes, offset, MIB.min(bytes.len() as u64 - offset));
    }
    reader.requests().get_bytes - before
}

/// Reads until all is in the tier: one that is busy may be late with some.
fn read_until_it_is_there(reader: &StoreReader, bytes: &[u8]) {
    until(|| read_all(reader, bytes) == 0);
}

fn until(mut is: impl FnMut() -> bool) {
    let deadline = Instant::now() + Duration::from_secs(120);
    while !is() {
        assert!(Instant::now() < deadline, "it does not come");
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// The tier's file.
fn opened(path: &Path) -> std::fs::File {
    let mut options = std::fs::OpenOptions::new();
    options.read(true).write(true).open(path).unwrap()
}

fn open(url: &str, path: &Path, mib: u64) -> StoreReader {
    StoreReader::open(url, with_tier(path, mib)).unwrap()
}

#[test]
fn what_was_fetched_once_is_on_the_disk_also_for_the_next_process() {
    let folder = tempfile::tempdir().unwrap();
    let (path, bytes) = (folder.path().join("tier"), content(1, 6 * MIB + 100));
    store("memory://tier-once", &bytes);
    let reader = open("memory://tier-once", &path, 16);
    read_until_it_is_there(&reader, &bytes);
    let usage = reader.tier().unwrap();
    assert!(usage.hits > 0 && usage.written_bytes >= 6 * MIB, "{usage:?}");
    drop(reader);
    let reader = open("memory://tier-once", &path, 16);
    assert_eq!(read_all(&reader, &bytes), 0);
    let usage = reader.tier().unwrap();
    let pages = 6 * MIB / PAGE + 1;
    assert_eq!(
        (usage.hits, usage.hit_bytes, usage.damaged),
        (pages, 6 * MIB + 100, 0)
    );
    assert_eq!(usage.used_bytes, pages * PAGE);
    let about = std::fs::metadata(&path).unwrap();
    assert_eq!(
        (about.len(), about.permissions().mode() & 0o777),
        (16 * MIB, 0o600)
    );
    // A verification is of the store.
    let before = reader.requests().get_bytes;
    assert!(reader.verify().unwrap().damaged.is_empty());
    assert!(reader.requests().get_bytes - before >= 6 * MIB);
}

#[test]
fn a_writer_has_a_tier_too_and_reads_what_it_has_written() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("tier");
    let store = Store::open("memory://tier-writer", with_tier(&path, 16)).unwrap();
    let file = store.create("a").unwrap();
    for version in 0..12 {
        let bytes = content(version, MIB);
        file.write_at(&bytes, 0).unwrap();
        store.sync().unwrap();
        until(|| {
            let before = store.usage().requests.gets;
            let mut found = vec![0; MIB as usize];
            file.read_at(&mut found, 0).unwrap();
            assert!(found == bytes, "version {version}");
            store.usage().requests.gets == before
        });
    }
    assert!(store.tier().unwrap().hits >= 12 * MIB / PAGE);
}

#[test]
fn a_scan_does_not_wear_a_full_tier_and_leaves_what_is_there() {
    let folder = tempfile::tempdir().unwrap();
    let (path, bytes) = (folder.path().join("tier"), content(2, 64 * MIB));
    store("memory://tier-scan", &bytes);
    let reader = open("memory://tier-scan", &path, 16);
    let (hot, some) = (&bytes[..8 * MIB as usize], &bytes[..20 * MIB as usize]);
    read_until_it_is_there(&reader, hot);
    // Of 16 MiB, without header and tables.
    until(|| {
        read_all(&reader, some);
        reader.tier().unwrap().used_bytes == 4087 * PAGE
    });
    read_until_it_is_there(&reader, hot);
    let before = reader.tier().unwrap();
    for offset in (24 * MIB..64 * MIB).step_by(MIB as usize) {
        read(&reader, &bytes, offset, MIB);
    }
    let after = reader.tier().unwrap();
    assert_eq!(
        (after.refused - before.refused, after.evicted - before.evicted),
        (40 * MIB / PAGE, 0)
    );
    assert_eq!(read_all(&reader, hot), 0);
}

#[test]
fn a_bit_that_flips_anywhere_is_no_wrong_byte_and_is_mended() {
    let folder = tempfile::tempdir().unwrap();
    let (path, bytes) = (folder.path().join("tier"), content(3, 2 * MIB));
    store("memory://tier-flip", &bytes);
    let reader = open("memory://tier-flip", &path, 16);
    read_until_it_is_there(&reader, &bytes);
    drop(reader);
    // The first slot, one in the middle, two in their tables.
    let file = opened(&path);
    for at in [
        FIRST_SLOT + 5,
        FIRST_SLOT + 100 * PAGE + 4000,
        4096 + 8 * 200,
        4096 + 8 * 300 + 7,
    ] {
        let mut byte = [0];
        file.read_exact_at(&mut byte, at).unwrap();
        file.write_all_at(&[byte[0] ^ 0x10], at).unwrap();
    }
    let reader = open("memory://tier-flip", &path, 16);
    assert_eq!(read_all(&reader, &bytes), 4 * PAGE);
    assert_eq!(
        reader.tier().unwrap().damaged,
        2,
        "those of the tables are pages that are not known"
    );
    read_until_it_is_there(&reader, &bytes);
}

#[test]
fn slots_that_are_torn_or_have_the_bytes_of_others_are_read_from_the_store() {
    let folder = tempfile::tempdir().unwrap();
    let (path, bytes) = (folder.path().join("tier"), content(4, 2 * MIB));
    store("memory://tier-torn", &bytes);
    let reader = open("memory://tier-torn", &path, 16);
    read_until_it_is_there(&reader, &bytes);
    drop(reader);
    let file = opened(&path);
    let slot = |n: u64| FIRST_SLOT + n * PAGE;
    // Half of one; and the table is older than two slots.
    file.write_all_at(&[0; PAGE as usize / 2], slot(7)).unwrap();
    let (mut one, mut other) = ([0; PAGE as usize], [0; PAGE as usize]);
    file.read_exact_at(&mut one, slot(20)).unwrap();
    file.read_exact_at(&mut other, slot(30)).unwrap();
    file.write_all_at(&one, slot(30)).unwrap();
    file.write_all_at(&other, slot(20)).unwrap();
    let reader = open("memory://tier-torn", &path, 16);
    assert_eq!(read_all(&reader, &bytes), 3 * PAGE);
    assert_eq!(reader.tier().unwrap().damaged, 3);
}

#[test]
fn a_disk_that_fails_fails_no_read() {
    let folder = tempfile::tempdir().unwrap();
    let (path, bytes) = (folder.path().join("tier"), content(5, 4 * MIB));
    store("memory://tier-broken", &bytes);
    let reader = open("memory://tier-broken", &path, 16);
    read_until_it_is_there(&reader, &bytes);
    assert_eq!(reader.tier().unwrap().given_up, None);
    // What was there can't be read any more.
    std::fs::OpenOptions::new()
        .write(true)
        .open(&path)
        .unwrap()
        .set_len(3 * 4096)
        .unwrap();
    assert_eq!(read_all(&reader, &bytes), 4 * MIB);
    let usage = reader.tier().unwrap();
    let why = usage.given_up.unwrap();
    assert!(
        why.contains("can't be read") && why.contains(&*path.to_string_lossy()),
        "{why}"
    );
    assert_eq!(read_all(&reader, &bytes), 4 * MIB, "it is not asked again");
}

#[test]
fn a_page_whose_object_is_gone_is_still_what_its_commit_has() {
    let folder = tempfile::tempdir().unwrap();
    let (path, bytes) = (folder.path().join("tier"), content(6, 5 * MIB));
    let home = folder.path().join("store");
    let url = format!("file://{}", home.display());
    store(&url, &bytes);
    let reader = open(&url, &path, 16);
    read_until_it_is_there(&reader, &bytes);
    for chunk in std::fs::read_dir(home.join("c")).unwrap() {
        std::fs::remove_file(chunk.unwrap().path()).unwrap();
    }
    assert_eq!(read_all(&reader, &bytes), 0);
    drop(reader);
    // And where it is not in the tier, the error is the store's.
    let reader = StoreReader::open(&url, options()).unwrap();
    let read = reader.open_file("a").unwrap().read_at(&mut [0; 4096], 0);
    assert!(matches!(read, Err(Error::Read { .. })), "{read:?}");
}

#[test]
fn a_store_that_was_made_anew_in_the_same_place_has_nothing_of_the_old_one() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("tier");
    let home = folder.path().join("store");
    let url = format!("file://{}", home.display());
    for seed in 0..3 {
        let bytes = content(seed, 2 * MIB);
        store(&url, &bytes);
        let reader = open(&url, &path, 16);
        assert!(read_all(&reader, &bytes) >= 2 * MIB, "seed {seed}");
        read_until_it_is_there(&reader, &bytes);
        drop(reader);
        std::fs::remove_dir_all(&home).unwrap();
    }
}

#[test]
fn a_tier_grows_and_shrinks_and_keeps_what_fits() {
    let folder = tempfile::tempdir().unwrap();
    let (path, bytes) = (folder.path().join("tier"), content(7, 14 * MIB));
    store("memory://tier-sizes", &bytes);
    let reader = open("memory://tier-sizes", &path, 16);
    read_until_it_is_there(&reader, &bytes);
    drop(reader);
    for mib in [40, 16, 17] {
        let reader = open("memory://tier-sizes", &path, mib);
        assert_eq!(read_all(&reader, &bytes), 0, "{mib} MiB");
        assert_eq!(std::fs::metadata(&path).unwrap().len(), mib * MIB);
    }
}

fn refusal(path: &Path, url: &str, bytes: u64) -> String {
    let options = options().disk_tier(path, NonZeroU64::new(bytes).unwrap());
    match StoreReader::open(url, options) {
        Err(Error::DiskTier(why)) => why,
        other => panic!("{other:?}"),
    }
}

#[test]
fn what_can_be_no_tier_is_refused_and_left_as_it_is() {
    let folder = tempfile::tempdir().unwrap();
    let (path, bytes) = (folder.path().join("tier"), content(8, MIB));
    for url in ["memory://tier-one", "memory://tier-other"] {
        store(url, &bytes);
    }
    let refuse = |path: &Path, bytes| refusal(path, "memory://tier-one", bytes);
    let why = refuse(&path, MIB);
    assert!(why.contains("too small") && why.contains("16 MiB"), "{why}");
    let why = refuse(&path, 1 << 55);
    assert!(
        why.contains("there is no room") && why.contains("are free"),
        "{why}"
    );
    assert!(!path.exists(), "it leaves no file");
    let why = refuse(folder.path(), 16 * MIB);
    assert!(why.contains("can't be opened"), "{why}");
    let why = refuse(Path::new("/dev/null"), 16 * MIB);
    assert!(why.contains("no regular file"), "{why}");
    let why = refuse(&folder.path().join("no/tier"), 16 * MIB);
    assert!(
        why.contains("can't be opened") && why.contains("no/tier"),
        "{why}"
    );
    let mine = folder.path().join("mine");
    std::fs::write(&mine, b"a letter").unwrap();
    let why = refuse(&mine, 16 * MIB);
    assert!(
        why.contains("no disk tier") && std::fs::read(&mine).unwrap() == b"a letter",
        "{why}"
    );
    let first = open("memory://tier-one", &path, 16);
    let why = refuse(&path, 16 * MIB);
    assert!(why.contains("in use"), "{why}");
    drop(first);
    let why = refusal(&path, "memory://tier-other", 16 * MIB);
    assert!(
        why.contains("memory://tier-one") && why.contains("memory://tier-other"),
        "{why}"
    );
    // A file that has its size keeps it when there is no room for more.
    let why = refuse(&path, 1 << 55);
    assert!(why.contains("there is no room"), "{why}");
    assert_eq!(std::fs::metadata(&path).unwrap().len(), 16 * MIB);
    open("memory://tier-one", &path, 16);
}

#[test]
fn its_memory_is_of_the_caches_budget_and_its_figures_are_the_stores() {
    let folder = tempfile::tempdir().unwrap();
    let (path, bytes) = (folder.path().join("tier"), content(9, MIB));
    store("memory://tier-cache", &bytes);
    let volumes = Volumes::new(device::best()).unwrap();
    let cache = PageCache::builder().memory(64 * MIB).device(volumes.clone());
    let cache = cache.build().unwrap();
    let frames = || cache.stats().occupancy.frames.0;
    let without = volumes.reader(&cache, "memory://tier-cache", options()).unwrap();
    let frames_without = frames();
    drop(without);
    let reader = volumes
        .reader(&cache, "memory://tier-cache", with_tier(&path, 32))
        .unwrap();
    let memory = reader.reader().tier().unwrap().memory_bytes;
    // The queue, an eighth of the budget's transfers, and tables.
    assert!((4 * MIB..5 * MIB).contains(&memory), "{memory}");
    let taken = (frames_without - frames()) * 4096;
    assert!(taken >= memory * 9 / 10, "{taken} of {memory}");
    let file = reader.open("a").unwrap();
    until(|| {
        file.invalidate(..).unwrap();
        let before = reader.reader().requests().gets;
        let mut found = vec![0; MIB as usize];
        file.read_exact_at(&mut found, 0).unwrap();
        assert!(found == bytes);
        reader.reader().requests().gets == before
    });
    let [shown] = &cache.stores()[..] else {
        panic!("{:?}", cache.stores())
    };
    let value = |name: &str| {
        shown
            .figures
            .iter()
            .find(|figure| figure.name == name)
            .unwrap()
            .value
    };
    use millpond::device::StoreValue::{Number, Total};
    let Total(hits) = value("tier_hits") else { panic!() };
    assert!(hits >= MIB / PAGE, "{hits}");
    assert_eq!(
        (value("tier_given_up"), value("tier_evicted")),
        (Number(0), Total(0))
    );
    drop((file, reader));
    assert_eq!(cache.stores(), []);
}

/// Whatever is done to the file between two openings, readers see what a vector of bytes would have.
#[test]
fn any_damage_any_changes_and_any_sizes_show_what_a_vector_of_bytes_would() {
    let seeds = std::env::var("MILLPOND_TIERS").map_or(10, |text| text.parse().unwrap());
    let first = std::env::var("MILLPOND_FIRST_SEED").map_or(0, |text| text.parse().unwrap());
    for seed in first..first + seeds {
        eprintln!("MILLPOND_FIRST_SEED={seed} MILLPOND_TIERS=1");
        let folder = tempfile::tempdir().unwrap();
        let (path, url) = (folder.path().join("tier"), format!("memory://tier-any-{seed}"));
        let mut draw = Draw(seed);
        let mut model = content(seed, 24 * MIB);
        let written = Store::open(&url, options().grace(Duration::from_secs(1))).unwrap();
        let file = written.create("a").unwrap();
        file.write_at(&model, 0).unwrap();
        written.sync().unwrap();
        for round in 0..6 {
            let reader = open(&url, &path, 16 + draw.below(3) * 10);
            for _ in 0..60 {
                let offset = draw.below(model.len() as u64 / PAGE) * PAGE;
                let len = (1 + draw.below(64) * draw.below(16)) * 512;
                let len = len.min(model.len() as u64 - offset);
                match draw.below(8) {
                    0 => {
                        let new = content(draw.below(1 << 30), len);
                        file.write_at(&new, offset).unwrap();
                        model[offset as usize..][..len as usize].copy_from_slice(&new);
                        written.sync().unwrap();
                        reader.poll().unwrap();
                    }
                    // What is used often.
                    1..4 => read(&reader, &model, offset % (4 * MIB), len.min(MIB)),
                    _ => read(&reader, &model, offset, len),
                }
            }
            let usage = reader.tier().unwrap();
            assert_eq!(usage.given_up, None);
            drop(reader);
            let tier = std::fs::OpenOptions::new()
                .read(true)
                .write(true)
                .open(&path)
                .unwrap();
            let len = tier.metadata().unwrap().size();
            for _ in 0..draw.below(40) {
                // The tables are a small part: every second time one of them.
                let group = 4096 * 513;
                let at = match draw.below(2) {
                    0 => 4096 + draw.below(len - 4096),
                    _ => 4096 + draw.below((len - 4096) / group) * group + draw.below(4096),
                };
                tier.write_all_at(&content(at, 1 + draw.below(64).min(len - at - 1)), at)
                    .unwrap();
            }
            assert_eq!(tier.metadata().unwrap().size(), len, "round {round}");
        }
    }
}

const CHILD: &str = "MILLPOND_TEST_TIER";

/// Reads all of it again and again with a tier, and says each time how much that has, until it is killed.
#[test]
fn role_reads_until_it_is_killed() {
    let Ok(place) = std::env::var(CHILD) else { return };
    let (url, path) = place.split_once(' ').unwrap();
    let reader = open(url, Path::new(path), 16);
    let file = reader.open_file("a").unwrap();
    let mut draw = Draw(u64::from(std::process::id()));
    let (len, mut call) = (file.len().unwrap(), vec![0; 256 << 10]);
    loop {
        let offset = draw.below(len / PAGE) * PAGE;
        file.read_at(&mut call, offset).unwrap();
        let usage = reader.tier().unwrap();
        println!("tier: {} {}", usage.written_bytes, usage.hits);
    }
}

#[test]
fn what_was_written_before_a_kill_is_there_after_it_and_no_byte_is_wrong() {
    let kills = std::env::var("MILLPOND_KILLS").map_or(8, |text| text.parse().unwrap());
    let folder = tempfile::tempdir().unwrap();
    let (path, bytes) = (folder.path().join("tier"), content(10, 24 * MIB));
    let url = format!("file://{}", folder.path().join("store").display());
    store(&url, &bytes);
    let mut draw = Draw(5);
    for kill in 0..kills {
        let mut child = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "role_reads_until_it_is_killed", "--nocapture"])
            .env(CHILD, format!("{url} {}", path.display()))
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        // Somewhere: behind so many reads.
        let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
        let mut left = 20 + draw.below(400);
        let mut written = 0;
        while left > 0 {
            let line = lines.next().expect("it ended by itself").unwrap();
            if let Some(said) = line.strip_prefix("tier: ") {
                written = said.split_once(' ').unwrap().0.parse().unwrap();
                left -= 1;
            }
        }
        child.kill().unwrap();
        child.wait().unwrap();
        let reader = open(&url, &path, 16);
        let used = reader.tier().unwrap().used_bytes;
        // The table behind the last 64 pages may not have been written.
        assert!(
            used + 5 * MIB >= written.min(15 * MIB),
            "kill {kill}: {used} of {written}"
        );
        read_all(&reader, &bytes);
        let usage = reader.tier().unwrap();
        assert!(
            usage.hits > 0 && usage.given_up.is_none(),
            "kill {kill}: {usage:?}"
        );
    }
}
