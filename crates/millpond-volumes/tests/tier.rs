//! Disk tiers as programs use them: real files, which are damaged, killed and taken away.

#![allow(
    clippy::unwrap_used,
    clippy::print_stderr,
    missing_docs,
    reason = "a test fails by panicking, and says what it skips"
)]

use draw::Draw;
use millpond::{PageCache, device};
use millpond_volumes::{Error, Store, StoreOptions, StoreReader, TierUsage, Volumes};
use std::io::{BufRead, BufReader};
use std::num::NonZeroU64;
use std::os::unix::fs::{FileExt, MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

#[path = "shared/draw.rs"]
mod draw;

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

/// A store with a file `a`, and the path of a tier for it.
struct Setup {
    folder: tempfile::TempDir,
    url: String,
    path: PathBuf,
    bytes: Vec<u8>,
}

impl Setup {
    fn new(name: &str, len: u64) -> Setup {
        Setup::at(name, |_| format!("memory://tier-{name}"), len)
    }

    fn in_a_folder(name: &str, len: u64) -> Setup {
        Setup::at(name, |folder| format!("file://{}/store", folder.display()), len)
    }

    fn at(name: &str, url: impl Fn(&Path) -> String, len: u64) -> Setup {
        let folder = tempfile::tempdir().unwrap();
        let mut setup = Setup {
            url: url(folder.path()),
            path: folder.path().join("tier"),
            folder,
            bytes: Vec::new(),
        };
        setup.made_anew(name, len);
        setup
    }

    /// The store is written, of bytes that the name says.
    fn made_anew(&mut self, name: &str, len: u64) {
        let seed = name.bytes().fold(0, |seed, byte| seed << 5 ^ u64::from(byte));
        self.bytes = Draw(seed).bytes(len as usize);
        let store = Store::open(&self.url, options()).unwrap();
        store.create("a").unwrap().write_at(&self.bytes, 0).unwrap();
        store.close().unwrap();
    }

    fn open(&self, mib: u64) -> StoreReader {
        StoreReader::open(&self.url, with_tier(&self.path, mib)).unwrap()
    }

    /// The same, when all is in the tier.
    fn filled(&self, mib: u64) -> StoreReader {
        let reader = self.open(mib);
        read_until_it_is_there(&reader, &self.bytes);
        reader
    }

    fn read_all(&self, reader: &StoreReader) -> u64 {
        read_all(reader, &self.bytes)
    }

    /// The tier's file.
    fn file(&self) -> std::fs::File {
        let mut options = std::fs::OpenOptions::new();
        options.read(true).write(true).open(&self.path).unwrap()
    }

    fn file_len(&self) -> u64 {
        std::fs::metadata(&self.path).unwrap().len()
    }
}

fn usage(reader: &StoreReader) -> TierUsage {
    reader.tier().unwrap()
}

fn read(reader: &StoreReader, bytes: &[u8], offset: u64, len: u64) {
    let mut found = vec![0; len as usize];
    let file = reader.open_file("a").unwrap();
    file.read_at(&mut found, offset).unwrap();
    assert!(
        found == bytes[offset as usize..][..len as usize],
        "other bytes at {offset}"
    );
}

/// Reads all of it in calls of a MiB. Returns how many bytes came from the store.
fn read_all(reader: &StoreReader, bytes: &[u8]) -> u64 {
    let before = reader.requests().get_bytes;
    for offset in (0..bytes.len() as u64).step_by(MIB as usize) {
        read(reader, bytes, offset, MIB.min(bytes.len() as u64 - offset));
    }
    reader.requests().get_bytes - before
}

/// Reads until all is in the tier: a busy disk may be late with some.
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

#[test]
fn what_was_fetched_once_is_on_the_disk_also_for_the_next_process() {
    let setup = Setup::new("once", 6 * MIB + 100);
    let reader = setup.filled(16);
    let used = usage(&reader);
    assert!(used.hits > 0 && used.written_bytes >= 6 * MIB, "{used:?}");
    drop(reader);
    let reader = setup.open(16);
    assert_eq!(setup.read_all(&reader), 0);
    let (used, pages) = (usage(&reader), 6 * MIB / PAGE + 1);
    assert_eq!(
        (used.hits, used.hit_bytes, used.damaged, used.used_bytes),
        (pages, 6 * MIB + 100, 0, pages * PAGE)
    );
    let about = std::fs::metadata(&setup.path).unwrap();
    assert_eq!(
        (about.len(), about.permissions().mode() & 0o777),
        (16 * MIB, 0o600)
    );
    // A verification reads the store.
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
        let bytes = Draw(version).bytes(MIB as usize);
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
    let setup = Setup::new("scan", 64 * MIB);
    let reader = setup.open(16);
    let (hot, some) = (
        &setup.bytes[..8 * MIB as usize],
        &setup.bytes[..20 * MIB as usize],
    );
    read_until_it_is_there(&reader, hot);
    // Of 16 MiB, without header and tables.
    until(|| {
        read_all(&reader, some);
        usage(&reader).used_bytes == 4087 * PAGE
    });
    read_until_it_is_there(&reader, hot);
    let before = usage(&reader);
    for offset in (24 * MIB..64 * MIB).step_by(MIB as usize) {
        read(&reader, &setup.bytes, offset, MIB);
    }
    let after = usage(&reader);
    assert_eq!(
        (after.refused - before.refused, after.evicted - before.evicted),
        (40 * MIB / PAGE, 0)
    );
    assert_eq!(read_all(&reader, hot), 0);
}

#[test]
fn a_bit_that_flips_anywhere_is_no_wrong_byte_and_is_mended() {
    let setup = Setup::new("flip", 2 * MIB);
    drop(setup.filled(16));
    // The first slot, one in the middle, two in their tables.
    let file = setup.file();
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
    let reader = setup.open(16);
    assert_eq!(setup.read_all(&reader), 4 * PAGE);
    assert_eq!(
        usage(&reader).damaged,
        2,
        "those of the tables are pages that are not known"
    );
    read_until_it_is_there(&reader, &setup.bytes);
}

#[test]
fn slots_that_are_torn_or_have_the_bytes_of_others_are_read_from_the_store() {
    let setup = Setup::new("torn", 2 * MIB);
    drop(setup.filled(16));
    let file = setup.file();
    let slot = |n: u64| FIRST_SLOT + n * PAGE;
    // Half of one; and the table is older than two slots.
    file.write_all_at(&[0; PAGE as usize / 2], slot(7)).unwrap();
    let (mut one, mut other) = ([0; PAGE as usize], [0; PAGE as usize]);
    file.read_exact_at(&mut one, slot(20)).unwrap();
    file.read_exact_at(&mut other, slot(30)).unwrap();
    file.write_all_at(&one, slot(30)).unwrap();
    file.write_all_at(&other, slot(20)).unwrap();
    let reader = setup.open(16);
    // With what is near them.
    let fetched = setup.read_all(&reader);
    assert!((3 * PAGE..MIB).contains(&fetched), "{fetched}");
    assert_eq!(usage(&reader).damaged, 3);
}

#[test]
fn a_disk_that_fails_fails_no_read() {
    let setup = Setup::new("broken", 4 * MIB);
    let reader = setup.filled(16);
    assert_eq!(usage(&reader).given_up, None);
    // What is there can't be read, whenever it is written.
    until(|| {
        setup.file().set_len(3 * 4096).unwrap();
        setup.read_all(&reader);
        usage(&reader).given_up.is_some()
    });
    let why = usage(&reader).given_up.unwrap();
    assert!(
        why.contains("can't be read") && why.contains(&*setup.path.to_string_lossy()),
        "{why}"
    );
    assert_eq!(setup.read_all(&reader), 4 * MIB, "it is not asked again");
}

#[test]
fn pages_that_cannot_be_read_once_do_not_end_the_tier() {
    let setup = Setup::new("sector", 4 * MIB);
    let reader = setup.filled(16);
    // The last page is cut off.
    setup.file().set_len(FIRST_SLOT + 4096 + 1023 * PAGE).unwrap();
    let fetched = setup.read_all(&reader);
    assert!((PAGE..=MIB).contains(&fetched), "{fetched}");
    read_until_it_is_there(&reader, &setup.bytes);
    let used = usage(&reader);
    assert_eq!((used.damaged * PAGE, used.given_up), (fetched, None));
}

/// Another file under its name, and zeros in what was there: neither is a wrong byte.
#[test]
fn a_tier_that_is_replaced_or_zeroed_while_it_is_used_shows_no_wrong_byte() {
    let setup = Setup::new("replaced", 4 * MIB);
    let reader = setup.filled(16);
    std::fs::rename(&setup.path, setup.folder.path().join("elsewhere")).unwrap();
    std::fs::write(&setup.path, b"a letter").unwrap();
    assert_eq!(setup.read_all(&reader), 0);
    std::fs::rename(setup.folder.path().join("elsewhere"), &setup.path).unwrap();
    let file = setup.file();
    file.set_len(4096).unwrap();
    file.set_len(16 * MIB).unwrap();
    assert_eq!(setup.read_all(&reader), 4 * MIB);
    let used = usage(&reader);
    assert_eq!((used.damaged, used.given_up), (4 * MIB / PAGE, None));
    assert_eq!(setup.file_len(), 16 * MIB);
}

#[test]
fn a_page_whose_object_is_gone_is_still_what_its_commit_has() {
    let setup = Setup::in_a_folder("gone", 5 * MIB);
    let reader = setup.filled(16);
    for chunk in std::fs::read_dir(setup.folder.path().join("store/c")).unwrap() {
        std::fs::remove_file(chunk.unwrap().path()).unwrap();
    }
    assert_eq!(setup.read_all(&reader), 0);
    drop(reader);
    // And where it is not in the tier, the error is the store's.
    let reader = StoreReader::open(&setup.url, options()).unwrap();
    let read = reader.open_file("a").unwrap().read_at(&mut [0; 4096], 0);
    assert!(matches!(read, Err(Error::Read { .. })), "{read:?}");
}

#[test]
fn a_store_that_was_made_anew_in_the_same_place_has_nothing_of_the_old_one() {
    let mut setup = Setup::in_a_folder("first", 2 * MIB);
    for name in ["second", "third"] {
        drop(setup.filled(16));
        std::fs::remove_dir_all(setup.folder.path().join("store")).unwrap();
        setup.made_anew(name, 2 * MIB);
        let reader = setup.open(16);
        assert!(setup.read_all(&reader) >= 2 * MIB, "{name}");
        assert_eq!(usage(&reader).damaged, 0, "they are not known, and not read");
        drop(reader);
    }
}

#[test]
fn a_tier_grows_and_shrinks_and_keeps_what_fits() {
    let setup = Setup::new("sizes", 14 * MIB);
    drop(setup.filled(16));
    for mib in [40, 16, 17] {
        assert_eq!(setup.read_all(&setup.open(mib)), 0, "{mib} MiB");
        assert_eq!(setup.file_len(), mib * MIB);
    }
}

/// Without space of its own it would fail when the disk is full.
#[test]
fn a_tier_that_shrinks_has_all_of_its_space_too() {
    let setup = Setup::new("sparse", MIB);
    drop(setup.filled(32));
    let file = setup.file();
    file.set_len(MIB).unwrap();
    file.set_len(32 * MIB).unwrap();
    let reader = setup.open(16);
    let about = std::fs::metadata(&setup.path).unwrap();
    assert_eq!((about.len(), about.blocks() * 512 / MIB), (16 * MIB, 16));
    assert_eq!(usage(&reader).given_up, None);
}

/// Somebody who made the file before, where all may make files, could read what is written to it.
#[test]
fn nobody_else_can_read_the_file_whoever_made_it() {
    let setup = Setup::new("private", MIB);
    std::fs::write(&setup.path, b"").unwrap();
    let set_mode = |mode| std::fs::set_permissions(&setup.path, PermissionsExt::from_mode(mode)).unwrap();
    let mode = || std::fs::metadata(&setup.path).unwrap().permissions().mode() & 0o777;
    for _ in 0..2 {
        set_mode(0o666);
        drop(setup.open(16));
        assert_eq!(mode(), 0o600);
    }
    if std::os::unix::fs::chown(&setup.path, Some(12_345), None).is_err() {
        eprintln!("skipped: a file of another user can't be made here");
        return;
    }
    let why = refusal(&setup.path, &setup.url, 16 * MIB);
    assert!(why.contains("another user (12345)"), "{why}");
}

/// One waits for the lock of a file that is removed meanwhile.
#[test]
fn a_file_that_is_removed_while_another_waits_for_it_is_made_anew() {
    let setup = Setup::new("removed", MIB);
    let first = setup.filled(16);
    std::thread::scope(|scope| {
        let second = scope.spawn(|| {
            loop {
                match StoreReader::open(&setup.url, with_tier(&setup.path, 16)) {
                    // The first one takes its time.
                    Err(Error::DiskTier(why)) if why.contains("in use") => {}
                    opened => return opened.unwrap(),
                }
            }
        });
        std::fs::remove_file(&setup.path).unwrap();
        drop(first);
        let second = second.join().unwrap();
        read_until_it_is_there(&second, &setup.bytes);
    });
    assert_eq!(setup.read_all(&setup.open(16)), 0);
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
    let (one, other) = (Setup::new("one", MIB), Setup::new("other", MIB));
    let (path, folder) = (one.path.as_path(), one.folder.path());
    let mine = folder.join("mine");
    std::fs::write(&mine, b"a letter").unwrap();
    let refused = |path: &Path, url: &str, bytes, says: &[&str]| {
        let why = refusal(path, url, bytes);
        assert!(says.iter().all(|words| why.contains(words)), "{why}: {says:?}");
    };
    let all: [(&Path, u64, &[&str]); 6] = [
        (path, MIB, &["too small", "16 MiB"]),
        (path, 1 << 55, &["there is no space", "are free"]),
        (folder, 16 * MIB, &["can't be opened"]),
        (Path::new("/dev/null"), 16 * MIB, &["not a regular file"]),
        (&folder.join("no/tier"), 16 * MIB, &["can't be opened", "no/tier"]),
        (&mine, 16 * MIB, &["not a disk tier"]),
    ];
    for (path, bytes, says) in all {
        refused(path, &one.url, bytes, says);
    }
    assert!(!path.exists(), "it leaves no file");
    assert_eq!(std::fs::read(&mine).unwrap(), b"a letter");
    let first = one.open(16);
    refused(path, &one.url, 16 * MIB, &["in use"]);
    drop(first);
    refused(path, &other.url, 16 * MIB, &[&one.url, &other.url]);
    // A file that has its size keeps it when there is no space for more.
    refused(path, &one.url, 1 << 55, &["there is no space"]);
    assert_eq!(one.file_len(), 16 * MIB);
    one.open(16);
}

#[test]
fn its_memory_is_of_the_caches_budget_and_its_figures_are_the_stores() {
    let Setup { path, url, bytes, .. } = &Setup::new("cache", MIB);
    let volumes = Volumes::new(device::best()).unwrap();
    let cache = PageCache::builder().memory(64 * MIB).device(volumes.clone());
    let cache = cache.build().unwrap();
    let frames = || cache.stats().occupancy.frames.0;
    let without = volumes.reader(&cache, url, options()).unwrap();
    let frames_without = frames();
    drop(without);
    let reader = volumes.reader(&cache, url, with_tier(path, 32)).unwrap();
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
        assert!(found == *bytes);
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
    let number = |name: &str| std::env::var(name).ok().map(|text| text.parse().unwrap());
    let first: u64 = number("MILLPOND_FIRST_SEED").unwrap_or(0);
    for seed in first..first + number("MILLPOND_TIERS").unwrap_or(10) {
        eprintln!("MILLPOND_FIRST_SEED={seed} MILLPOND_TIERS=1");
        let mut setup = Setup::new(&format!("any-{seed}"), 24 * MIB);
        let mut draw = Draw(seed);
        let written = Store::open(&setup.url, options()).unwrap();
        let file = written.open_file("a").unwrap();
        for round in 0..6 {
            let reader = setup.open(16 + draw.below(3) * 10);
            for _ in 0..60 {
                let offset = draw.below(setup.bytes.len() as u64 / PAGE) * PAGE;
                let len = (1 + draw.below(64) * draw.below(16)) * 512;
                let len = len.min(setup.bytes.len() as u64 - offset);
                match draw.below(8) {
                    0 => {
                        let new = draw.bytes(len as usize);
                        file.write_at(&new, offset).unwrap();
                        setup.bytes[offset as usize..][..len as usize].copy_from_slice(&new);
                        written.sync().unwrap();
                        reader.poll().unwrap();
                    }
                    // What is used often.
                    1..4 => read(&reader, &setup.bytes, offset % (4 * MIB), len.min(MIB)),
                    _ => read(&reader, &setup.bytes, offset, len),
                }
            }
            assert_eq!(usage(&reader).given_up, None);
            drop(reader);
            let (tier, len) = (setup.file(), setup.file_len());
            for _ in 0..draw.below(40) {
                // The tables are a small part: every second time one of them.
                let group = 4096 * 513;
                let at = match draw.below(2) {
                    0 => 4096 + draw.below(len - 4096),
                    _ => 4096 + draw.below((len - 4096) / group) * group + draw.below(4096),
                };
                let bytes = 1 + draw.below(64).min(len - at - 1);
                tier.write_all_at(&draw.bytes(bytes as usize), at).unwrap();
            }
            assert_eq!(setup.file_len(), len, "round {round}");
        }
    }
}

const CHILD: &str = "MILLPOND_TEST_TIER";

/// Reads anywhere with a tier until it is killed, and says after each read how much that has written.
#[test]
fn role_reads_until_it_is_killed() {
    let Ok(place) = std::env::var(CHILD) else { return };
    let (url, path) = place.split_once(' ').unwrap();
    let reader = StoreReader::open(url, with_tier(Path::new(path), 16)).unwrap();
    let file = reader.open_file("a").unwrap();
    let mut draw = Draw(u64::from(std::process::id()));
    let (len, mut call) = (file.len().unwrap(), vec![0; 256 << 10]);
    loop {
        let offset = draw.below(len / PAGE) * PAGE;
        file.read_at(&mut call, offset).unwrap();
        println!("tier: {}", usage(&reader).written_bytes);
    }
}

#[test]
fn what_was_written_before_a_kill_is_there_after_it_and_no_byte_is_wrong() {
    let kills = std::env::var("MILLPOND_KILLS").map_or(8, |text| text.parse().unwrap());
    let setup = Setup::in_a_folder("killed", 24 * MIB);
    let mut draw = Draw(5);
    for kill in 0..kills {
        let mut child = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "role_reads_until_it_is_killed", "--nocapture"])
            .env(CHILD, format!("{} {}", setup.url, setup.path.display()))
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        // After any number of reads.
        let lines = BufReader::new(child.stdout.take().unwrap()).lines();
        let mut said =
            lines.filter_map(|line| Some(line.unwrap().strip_prefix("tier: ")?.parse::<u64>().unwrap()));
        let written = said
            .nth(20 + draw.below(400) as usize)
            .expect("it ended by itself");
        child.kill().unwrap();
        child.wait().unwrap();
        let reader = setup.open(16);
        let used = usage(&reader).used_bytes;
        // The table behind the last 64 pages may not have been written.
        assert!(
            used + 5 * MIB >= written.min(15 * MIB),
            "kill {kill}: {used} of {written}"
        );
        setup.read_all(&reader);
        let used = usage(&reader);
        assert!(used.hits > 0 && used.given_up.is_none(), "kill {kill}: {used:?}");
    }
}
