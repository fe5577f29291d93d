//! Crashes at boundaries of the device's journal: the database opens, and holds what was committed.

use crate::support::{self, BUDGET, content, database};
use millpond::PageCache;
use millpond_testing::{Crashing, Fate};
use redb::backends::InMemoryBackend;
use redb::{Database, StorageBackend};
use std::collections::BTreeMap;
use std::sync::Arc;

const COMMITS: u64 = 10;

#[test]
fn after_a_crash_at_any_moment_the_database_is_as_some_commit_left_it_and_no_returned_one_is_lost() {
    let folder = tempfile::tempdir().unwrap();
    let device = Arc::new(Crashing::new(millpond::device::best(), 512));
    let cache = PageCache::builder().memory(BUDGET).device(device.clone());
    let open = database(&cache.build().unwrap(), &folder.path().join("rows"));
    // Entries of the journal before commit n was begun, and when it had returned.
    let (mut begun, mut returned, mut states) = (vec![0], vec![device.position()], vec![BTreeMap::new()]);
    for n in 1..=COMMITS {
        begun.push(device.position());
        // Some are replaced, some are new; large ones move pages of the tree.
        support::put(&open, n % 7, &vec![n as u8; 300 * n as usize]);
        returned.push(device.position());
        states.push(content(&open));
    }
    drop(open);

    let journal = device.journal();
    let file = journal.files().next().unwrap();
    let mut crash = journal.file(file).unwrap();
    let mut random = fastrand::Rng::with_seed(31);
    let (mut images, mut in_between) = (0, 0);
    loop {
        let until = crash.until();
        // Before the file is a database it can be anything.
        if until > returned[0] {
            for fate in [Fate::Lost, Fate::Kept, Fate::Drawn(random.u64(..))] {
                let (image, _) = crash.image(fate);
                let found = content(&opened(&image));
                let promised = returned.iter().rposition(|&at| at <= until).unwrap();
                let possible = begun.iter().rposition(|&at| at <= until).unwrap();
                let is = (promised..=possible).find(|&n| states[n] == found);
                let state = is.unwrap_or_else(|| {
                    panic!(
                        "{fate:?} before entry {until}: {} rows, none of commits {promised} to {possible}",
                        found.len()
                    )
                });
                images += 1;
                in_between += u64::from(state > promised);
            }
        }
        if crash.advance().is_none() {
            break;
        }
    }
    println!("{images} images, {in_between} with a commit that had not returned");
    assert!(images > 100 && in_between > 0, "{images} images, {in_between}");
}

/// The database in `image`, as redb finds it after the crash. The cache is not needed for that.
fn opened(image: &[u8]) -> Database {
    let memory = InMemoryBackend::new();
    memory.set_len(image.len() as u64).unwrap();
    memory.write(0, image).unwrap();
    Database::builder().create_with_backend(memory).unwrap()
}
