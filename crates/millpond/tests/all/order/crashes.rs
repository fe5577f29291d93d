//! No crash and no kill leaves a page that is newer than its log, nor a mixture of two versions.

use super::PAGE;
use crate::support::{Draw, Kind, Place, bounded, seeds};
use millpond::device::{Access, DeviceFile, FileIdentity};
use millpond::{LogOrder, OpenOptions, PageCache, StablePages};
use millpond_testing::{Crashing, Fate};
use parking_lot::Mutex;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::SeqCst};

#[allow(
    dead_code,
    unreachable_pub,
    reason = "the example as it is, with a main that nobody calls here"
)]
#[path = "../../../examples/log_before_page.rs"]
mod example;

/// The folder of a child that does the example's work.
const CHILD: &str = "MILLPOND_ORDER_CHILD_FOLDER";

/// Not a test: what the child does.
#[test]
fn the_child_of_the_example_goes_on_until_it_is_killed() {
    use std::io::Write;
    if let Some(folder) = std::env::var_os(CHILD) {
        let tell = |n: u64| writeln!(std::io::stderr(), "acknowledged {n}").unwrap();
        example::work(folder.as_ref(), tell).unwrap();
    }
}

#[test]
fn the_example_has_what_it_acknowledged_when_it_is_killed_again_and_again() {
    use std::io::BufRead;
    bounded(|| {
        let folder = Place::Memory.folder();
        for round in 1..=5 {
            let mut child = std::process::Command::new(std::env::current_exe().unwrap());
            child.args(["order::crashes::the_child_of_the_example_goes_on", "--nocapture"]);
            child.env(CHILD, folder.path());
            child.stdout(std::process::Stdio::null());
            let mut child = child.stderr(std::process::Stdio::piped()).spawn().unwrap();
            let told = std::io::BufReader::new(child.stderr.take().unwrap());
            let numbers = told.lines().map_while(Result::ok);
            let numbers = numbers.filter_map(|line| line.strip_prefix("acknowledged ")?.parse::<u64>().ok());
            // At another place of its round each time.
            let acknowledged = numbers.take(20 + 7 * round).last().unwrap();
            child.kill().unwrap();
            child.wait().unwrap();
            example::verify(folder.path(), acknowledged).unwrap();
            std::fs::remove_file(folder.path().join("log")).unwrap();
            std::fs::remove_file(folder.path().join("pages")).unwrap();
        }
    });
}

/// A device that knows what a crash could leave, under a cache.
fn crashing(memory: u64) -> (Arc<Crashing>, PageCache, tempfile::TempDir) {
    let device = Arc::new(Crashing::new(Kind::Pool.device().unwrap(), 512));
    let cache = PageCache::builder()
        .memory(memory)
        .device(device.clone())
        .calibrate(false);
    (device, cache.build().unwrap(), Place::Memory.folder())
}

fn identity(path: &Path) -> FileIdentity {
    DeviceFile::open(path, Access::Read).unwrap().identity()
}

#[test]
fn in_every_crash_of_the_example_no_page_is_newer_than_the_durable_log_and_nothing_acknowledged_is_lost() {
    bounded(|| {
        let (device, cache, folder) = crashing(1 << 20);
        let mut acknowledged = vec![(0, 0)];
        let mut store = example::Store::open(&cache, folder.path()).unwrap();
        for n in 0..600 {
            let [page, slot, value] = example::nth(n);
            store.put(page, slot, value).unwrap();
            if n % 20 == 19 {
                store.commit().unwrap();
                acknowledged.push((device.position(), n + 1));
            }
            if n % 50 == 45 {
                store.checkpoint().unwrap();
            }
        }
        let journal = device.journal();
        let file = |name| journal.file(identity(&folder.path().join(name))).unwrap();
        let (mut log, mut pages) = (file("log"), file("pages"));
        let (mut recovered, mut newest) = (0, 0);
        for at in 0..=device.position() {
            log.advance_to(at);
            pages.advance_to(at);
            let durable = (example::records(log.durable()).len() * example::RECORD) as u64;
            let (image, _) = pages.image(Fate::Kept);
            for (n, page) in image.chunks_exact(PAGE).enumerate() {
                let lsn = example::lsn(page).unwrap();
                newest = newest.max(lsn);
                assert!(
                    lsn <= durable,
                    "page {n} has the log up to {lsn}, which is durable up to {durable}"
                );
            }
            if at % 25 != 0 && at != device.position() {
                continue;
            }
            for fate in [Fate::Lost, Fate::Kept, Fate::Drawn(at as u64)] {
                let after = Place::Memory.folder();
                std::fs::write(after.path().join("log"), log.image(fate).0).unwrap();
                std::fs::write(after.path().join("pages"), pages.image(fate).0).unwrap();
                let (_, promised) = acknowledged
                    .iter()
                    .rfind(|(position, _)| *position <= at)
                    .unwrap();
                example::verify(after.path(), *promised).unwrap();
                recovered += 1;
            }
        }
        assert!(
            recovered > 20 && newest > 0,
            "{recovered} recovered, {newest} seen"
        );
    });
}

/// Threads change pages, each change with the next record of a log that is made durable by and by; files are synced,
/// cut and grown, in memory that is too small for them. After every crash no page is newer than the log was durable when
/// it was written, and none is a mixture of two versions.
fn order_holds(seed: u64) -> u64 {
    const PAGES: u64 = 120;
    let mut draw = Draw(seed);
    let (device, cache, folder) = crashing((1 << 20) + draw.below(2) * (1 << 20));
    let stable = [StablePages::Copy, StablePages::Wait][draw.below(2) as usize];
    let asks = draw.below(2) == 0;
    // How far the log was made durable, and how many entries the journal had before.
    let advanced = Arc::new(Mutex::new(vec![(0, 0)]));
    let record = Arc::new(AtomicU64::new(0));
    let note = {
        let (device, advanced) = (device.clone(), advanced.clone());
        move |n: u64| advanced.lock().push((device.position(), n))
    };
    let log = if asks {
        let (note, record) = (note.clone(), record.clone());
        LogOrder::with_flush(move |n| {
            let end = record.load(SeqCst).max(n);
            note(end);
            Ok(end)
        })
        .unwrap()
    } else {
        LogOrder::new()
    };
    let path = folder.path().join("pages");
    let options = OpenOptions::new().create(true).log(&log).stable_pages(stable);
    let file = cache.open(&path, options).unwrap();
    file.set_len(PAGES * PAGE as u64).unwrap();
    let done = AtomicU64::new(0);
    const WRITERS: u64 = 2;
    std::thread::scope(|scope| {
        for writer in 0..WRITERS {
            let mut draw = Draw(seed ^ (writer + 1) << 32);
            let (file, record, done) = (&file, &record, &done);
            scope.spawn(move || {
                for _ in 0..400 {
                    // A few pages are changed often.
                    let pages = if draw.below(2) == 0 { 4 } else { PAGES };
                    let Ok(mut page) = file.page_mut(draw.below(pages)) else {
                        continue;
                    };
                    let n = record.fetch_add(1, SeqCst) + 1;
                    page.chunks_exact_mut(8)
                        .for_each(|word| word.copy_from_slice(&n.to_le_bytes()));
                    page.set_order(n).unwrap();
                }
                done.fetch_add(1, SeqCst);
            });
        }
        let (file, record, done, note, log) = (&file, &record, &done, &note, &log);
        scope.spawn(move || {
            while !asks && done.load(SeqCst) < WRITERS + 1 {
                let n = record.load(SeqCst);
                note(n);
                log.advance(n);
                std::thread::yield_now();
            }
        });
        scope.spawn(move || {
            while done.load(SeqCst) < WRITERS {
                match draw.below(3) {
                    0 => file
                        .set_len((PAGES / 2 + draw.below(PAGES / 2)) * PAGE as u64)
                        .unwrap(),
                    1 => file.set_len(PAGES * PAGE as u64).unwrap(),
                    _ => file.sync_data().unwrap(),
                }
            }
            file.sync_data().unwrap();
            done.fetch_add(1, SeqCst);
        });
    });
    let advanced = advanced.lock();
    let journal = device.journal();
    let mut pages = journal.file(identity(&path)).unwrap();
    let mut images = 0;
    let (mut next, mut durable) = (0, 0);
    loop {
        // A write that was begun before the end of this step: the log was made durable before that.
        let at = pages.until();
        while let Some((_, n)) = advanced.get(next).filter(|(position, _)| *position <= at) {
            durable = durable.max(*n);
            next += 1;
        }
        if pages.advance().is_none() {
            break;
        }
        images += 1;
        let (image, _) = pages.image(Fate::Kept);
        for (n, page) in image.chunks_exact(PAGE).enumerate() {
            let version = u64::from_le_bytes(page[..8].try_into().unwrap());
            assert!(
                version <= durable,
                "seed {seed}: page {n} has record {version}, the log was durable up to {durable}"
            );
            let is_whole = page.chunks_exact(8).all(|word| word == &page[..8]);
            assert!(is_whole, "seed {seed}, {stable:?}: page {n} is a mixture");
        }
    }
    images
}

#[test]
fn no_page_is_newer_than_its_log_nor_a_mixture_in_any_crash() {
    for seed in seeds("MILLPOND_HISTORIES", 12) {
        let images = bounded(move || order_holds(seed));
        assert!(images > 0, "seed {seed} has written nothing");
    }
}
