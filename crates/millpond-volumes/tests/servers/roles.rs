//! What a process does.

use crate::{in_role, prefixes};
use millpond::{PageCache, device};
use millpond_volumes::{Error, Store, StoreFile, StoreOptions, StoreReader, Volumes};
use std::io::{BufRead, BufReader, Write};
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

/// Pages of a round, which go into the store together.
const PAGES: u64 = 20;
const PAGE: usize = 4096;

/// Of the store of which a writer sleeps. A reader has half of it to read 64 commits in, which a slow server on a busy machine
/// takes a second for.
const SLEPT_GRACE: Duration = Duration::from_secs(4);

fn options() -> StoreOptions {
    StoreOptions::new()
        .page_bytes(PAGE as u32)
        .poll(Duration::from_millis(20))
        .take_over(true)
}

pub(crate) fn take(role: &str, url: &str) {
    match role {
        "kills" => kills(url),
        "writes" => writes(url),
        "fight" => fight(url),
        "fights" => fights(url),
        "follows" => follows(url),
        "sleeps" => sleeps(url),
        "counts" => counts(url),
        "loses" => loses(url),
        "takes" => takes(url),
        "names" => names(url),
        #[cfg(feature = "s3")]
        "outlasts" => crate::stops::outlasts(url),
        "opens" => {
            let opened = Store::open(url, options().retries(0)).and_then(|store| store.close());
            say(&format!("seen: {opened:?}"));
        }
        "refused" => {
            let error = Store::open(url, options().retries(0)).unwrap_err();
            say(&format!("seen: {error}"));
        }
        other => panic!("no role {other}"),
    }
}

/// Stores with any prefix, and files of any name in each.
fn names(url: &str) {
    let prefixes = prefixes::prefixes(10);
    for (n, prefix) in prefixes.iter().enumerate() {
        // A folder is made where the one above it is there.
        if let Some(folder) = url.strip_prefix("file://") {
            let path = std::path::PathBuf::from(format!("{folder}{n}/{prefix}"));
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        }
        prefixes::is_found(&format!("{url}{n}/{}", prefixes::encoded(prefix)));
    }
    say(&format!("seen: {} prefixes", prefixes.len()));
}

pub(crate) fn say(line: &str) {
    // The test beside it writes to the same place, so that a line begins anew.
    let mut out = std::io::stdout().lock();
    let _ = out
        .write_all(format!("\n{line}\n").as_bytes())
        .and_then(|()| out.flush());
}

fn start(role: &str, url: &str) -> Child {
    start_with(role, url, |_| {})
}

pub(crate) fn start_with(role: &str, url: &str, more: impl FnOnce(&mut Command)) -> Child {
    let mut command: Command = in_role(role, url);
    command
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .stdin(Stdio::null());
    more(&mut command);
    command.spawn().unwrap()
}

/// The numbers behind a word in what a process says until it ends.
fn numbers(child: &mut Child, word: &'static str) -> impl Iterator<Item = u64> + use<> {
    let lines = BufReader::new(child.stdout.take().unwrap())
        .lines()
        .map_while(Result::ok);
    lines.filter_map(move |line| line.strip_prefix(word)?.trim().parse().ok())
}

fn page(round: u64, page: u64) -> Vec<u8> {
    let mut bytes = (round * PAGES + page + 1).to_le_bytes().repeat(PAGE / 8);
    bytes[0] ^= round as u8;
    bytes
}

fn file(store: &Store) -> StoreFile {
    store.open_file("a").or_else(|_| store.create("a")).unwrap()
}

/// Rounds without end, each acknowledged one said.
fn writes(url: &str) {
    let store = Store::open(url, options()).unwrap();
    let file = file(&store);
    let rounds = file.len().unwrap() / (PAGES * PAGE as u64);
    for round in rounds.. {
        for n in 0..PAGES {
            file.write_at(&page(round, n), (round * PAGES + n) * PAGE as u64)
                .unwrap();
        }
        store.sync().unwrap();
        say(&format!("round {round}"));
    }
}

fn kills(url: &str) {
    let kills = std::env::var("MILLPOND_KILLS")
        .ok()
        .and_then(|n| n.parse().ok())
        .unwrap_or(5u64);
    let mut acknowledged = 0;
    let mut checked = 0;
    for kill in 0..kills {
        let mut child = start("writes", url);
        let mut said = numbers(&mut child, "round ");
        // Half of them come to a round, however slow the machine is; the others may be killed as they open the store.
        let first = if kill % 2 == 0 { said.next() } else { None };
        let killer = std::thread::spawn({
            let id = rustix::process::Pid::from_child(&child);
            move || {
                std::thread::sleep(Duration::from_millis(300 + kill * 37 % 400));
                rustix::process::kill_process(id, rustix::process::Signal::KILL).unwrap();
            }
        });
        let last = said.last().or(first);
        killer.join().unwrap();
        child.wait().unwrap();
        acknowledged = last.map_or(acknowledged, |round| round + 1);
        let store = Store::open(url, options()).unwrap();
        let file = file(&store);
        let len = file.len().unwrap();
        assert!(
            len >= acknowledged * PAGES * PAGE as u64,
            "{len} bytes after {acknowledged} rounds"
        );
        // What was acknowledged since the last time, and the one beyond, which is there whole or not at all.
        let rounds = len / (PAGES * PAGE as u64);
        assert!(
            len.is_multiple_of(PAGES * PAGE as u64) && rounds <= acknowledged + 1,
            "{len}"
        );
        for round in checked..rounds {
            for n in 0..PAGES {
                let mut found = vec![0; PAGE];
                file.read_at(&mut found, (round * PAGES + n) * PAGE as u64)
                    .unwrap();
                assert!(
                    found == page(round, n),
                    "page {n} of round {round}, {acknowledged} acknowledged"
                );
            }
        }
        (checked, acknowledged) = (rounds, rounds);
        store.close().unwrap();
    }
    let store = Store::open(url, options()).unwrap();
    assert_eq!(store.verify().unwrap().damaged, []);
    say(&format!(
        "seen: {kills} kills, {acknowledged} syncs acknowledged, none lost"
    ));
    assert!(acknowledged > 0);
}

/// One that adds to a count, takes the store again when it has lost it, and says each count that was acknowledged: for four
/// seconds, and a minute at most until there is one.
fn fights(url: &str) {
    let began = Instant::now();
    let goes_on = |counted| began.elapsed() < Duration::from_secs(if counted == 0 { 60 } else { 4 });
    let (mut fenced, mut counted) = (0, 0);
    while goes_on(counted) {
        let Ok(store) = Store::open(url, options()) else {
            continue;
        };
        let Ok(file) = store.open_file("count") else {
            panic!("no count")
        };
        loop {
            let mut bytes = [0; 8];
            file.read_at(&mut bytes, 0).unwrap();
            let next = u64::from_le_bytes(bytes) + 1;
            let written = file.write_at(&next.to_le_bytes(), 0).and_then(|()| store.sync());
            match written {
                Ok(()) => {
                    counted += 1;
                    say(&format!("count {next}"));
                }
                Err(error) if error.is_fenced() => {
                    fenced += 1;
                    break;
                }
                Err(error) => panic!("{error}"),
            }
            if !goes_on(counted) {
                break;
            }
            // The other gets its turn.
            if next % 16 == 0 {
                std::thread::sleep(Duration::from_millis(20));
            }
        }
    }
    say(&format!("fenced {fenced}"));
}

fn fight(url: &str) {
    let store = Store::open(url, options()).unwrap();
    store
        .create("count")
        .unwrap()
        .write_at(&0u64.to_le_bytes(), 0)
        .unwrap();
    store.close().unwrap();
    drop(store);
    let mut children = [start("fights", url), start("fights", url)];
    let mut all: Vec<u64> = children
        .iter_mut()
        .flat_map(|child| numbers(child, "count "))
        .collect();
    for child in children {
        let output = child.wait_with_output().unwrap();
        assert!(
            output.status.success(),
            "{}",
            String::from_utf8_lossy(&output.stderr)
        );
    }
    let number = all.len();
    all.sort_unstable();
    all.dedup();
    assert_eq!(
        all.len(),
        number,
        "two were told that they had made the same count"
    );
    let store = Store::open(url, options()).unwrap();
    let mut bytes = [0; 8];
    store.open_file("count").unwrap().read_at(&mut bytes, 0).unwrap();
    let last = u64::from_le_bytes(bytes);
    assert!(
        last >= *all.last().unwrap(),
        "{last}, and {all:?} were acknowledged"
    );
    // A count that is in the store and was not acknowledged: its writer was told of the fence, or closed.
    let epochs = store.usage().layout.commit;
    say(&format!(
        "seen: {number} counts acknowledged, none twice, none lost; {last} in the store, commit {epochs}"
    ));
}

fn follows(url: &str) {
    const FILE: usize = 64 * PAGE;
    let store = Store::open(url, options().grace(Duration::from_secs(2))).unwrap();
    let file = store.create("follow").unwrap();
    file.write_at(&vec![0; FILE], 0).unwrap();
    store.sync().unwrap();
    let reader = StoreReader::open(url, options().grace(Duration::from_secs(2))).unwrap();
    let written = Arc::new(OnceLock::<Instant>::new());
    let all_written = written.clone();
    let read = std::thread::spawn(move || {
        let file = reader.open_file("follow").unwrap();
        let (mut last, mut versions, mut reads) = (0, 1, 0u64);
        // A minute after the last was written, however long that took.
        let is_late = || written.get().is_some_and(|at| at.elapsed().as_secs() > 60);
        while last < 40 && !is_late() {
            let mut found = vec![0; FILE];
            assert_eq!(file.read_at(&mut found, 0).unwrap(), FILE);
            assert!(found.iter().all(|byte| *byte == found[0]), "a mixture");
            assert!(found[0] >= last, "it goes back from {last} to {}", found[0]);
            versions += u64::from(found[0] > last);
            last = found[0];
            reads += 1;
        }
        (last, versions, reads)
    });
    // All of it twice over, page by page, with a commit when all have the same version.
    for version in 1..=40u8 {
        for n in 0..64 {
            file.write_at(&[version; PAGE], n * PAGE as u64).unwrap();
        }
        store.sync().unwrap();
        std::thread::sleep(Duration::from_millis(30));
    }
    all_written.set(Instant::now()).unwrap();
    let (last, versions, reads) = read.join().unwrap();
    assert_eq!(last, 40, "it follows to the end");
    assert_eq!(store.verify().unwrap().damaged, []);
    say(&format!("seen: {versions} versions in {reads} reads, each whole"));
}

/// Adds to a count, and says each that was acknowledged, until it is fenced.
fn counts(url: &str) {
    let store = Store::open(url, options().grace(SLEPT_GRACE)).unwrap();
    let file = file(&store);
    for count in 1u64.. {
        match file.write_at(&count.to_le_bytes(), 0).and_then(|()| store.sync()) {
            Ok(()) => say(&format!("count {count}")),
            Err(error) if error.is_fenced() => {
                let lost = store.take_lost();
                return say(&format!("fenced {}", lost.len()));
            }
            Err(Error::Read { .. }) => return say("fenced 0"),
            Err(error) => panic!("{error}"),
        }
        std::thread::sleep(Duration::from_millis(5));
    }
}

fn sleeps(url: &str) {
    let mut sleeper = start("counts", url);
    let id = rustix::process::Pid::from_child(&sleeper);
    let mut said = numbers(&mut sleeper, "count ");
    let before = said.nth(9).unwrap();
    rustix::process::kill_process(id, rustix::process::Signal::STOP).unwrap();
    let store = Store::open(url, options()).unwrap();
    let file = file(&store);
    let mut bytes = [0; 8];
    file.read_at(&mut bytes, 0).unwrap();
    let taken_at = u64::from_le_bytes(bytes);
    for round in 0..150u64 {
        file.write_at(&page(round, 1), 0).unwrap();
        store.sync().unwrap();
    }
    let deadline = Instant::now() + Duration::from_secs(30);
    while store.usage().requests.deletes < 100 && Instant::now() < deadline {
        std::thread::sleep(Duration::from_millis(50));
        file.write_at(&page(9, 9), 0).unwrap();
        store.sync().unwrap();
    }
    let deleted = store.usage().requests.deletes;
    rustix::process::kill_process(id, rustix::process::Signal::CONT).unwrap();
    let last = said.last().unwrap_or(before);
    let output = sleeper.wait_with_output().unwrap();
    assert!(
        output.status.success(),
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
    assert!(deleted > 0, "nothing was deleted in time");
    assert!(
        last <= taken_at,
        "told Ok for {last}, and {taken_at} was there when it was taken over"
    );
    let mut found = vec![0; PAGE];
    file.read_at(&mut found, 0).unwrap();
    assert!(
        found == page(9, 9) || found == page(149, 1),
        "the other's page is whole"
    );
    assert_eq!(store.verify().unwrap().damaged, []);
    say(&format!(
        "seen: {last} acknowledged before, {deleted} deletions, then fenced"
    ));
}

/// Pages of a file in a cache: all of them synced, then one written anew that the store has taken, and one that the cache has.
/// Then another process takes the store; and one that is written when that is known.
fn loses(url: &str) {
    let volumes = Volumes::new(device::best()).unwrap();
    let built = PageCache::builder().memory(16 << 20).device(volumes.clone());
    let cache = built.build().unwrap();
    let store = volumes.store(&cache, url, options()).unwrap();
    let file = store.create("a").unwrap();
    let write = |round, n: u64| file.write_at(&page(round, n), n * PAGE as u64).unwrap();
    (0..3).for_each(|n| write(1, n));
    file.sync_data().unwrap();
    write(2, 1);
    file.write_out().unwrap();
    write(2, 2);
    let mut child = start("takes", url);
    let same: Vec<u64> = numbers(&mut child, "same ").collect();
    assert_eq!(same, [3], "pages as they were synced");
    assert!(child.wait().unwrap().success());
    for n in [0, 1] {
        let error = file.sync_data().unwrap_err();
        assert_eq!(error.errno(), rustix::io::Errno::STALE.raw_os_error(), "{error}");
        let lost = store.take_lost().unwrap();
        assert_eq!(
            lost.iter().any(|lost| lost.offset == 0),
            n > 0,
            "page 0 was synced"
        );
        write(3, 0);
    }
    let lost = store.take_lost().unwrap();
    for (round, n) in [(3, 0), (2, 1), (2, 2)] {
        let newest = lost.iter().rfind(|lost| lost.offset == n * PAGE as u64).unwrap();
        assert_eq!(newest.file, "a");
        assert!(newest.bytes.as_deref() == Some(&page(round, n)[..]), "page {n}");
    }
    say(&format!("seen: {} pages lost, and had", lost.len()));
}

fn takes(url: &str) {
    let store = Store::open(url, options()).unwrap();
    let file = store.open_file("a").unwrap();
    let mut found = vec![0; PAGE];
    let same = (0..3).filter(|&n| {
        file.read_at(&mut found, n * PAGE as u64).unwrap();
        found == page(1, n)
    });
    say(&format!("same {}", same.count()));
}
