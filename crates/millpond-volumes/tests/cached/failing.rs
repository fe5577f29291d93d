//! What a sync through a cache says of a store that fails, by its errno.

use crate::{Folder, PAGE, cache_of, elsewhere, options};
use millpond_volumes::Store;
use rustix::io::Errno;
use std::time::{Duration, Instant};

fn errno(result: millpond::Result<()>) -> Option<Errno> {
    result.err().map(|error| Errno::from_raw_os_error(error.errno()))
}

#[test]
fn a_store_that_refuses_is_eio_one_that_does_not_answer_etimedout_one_that_was_taken_estale() {
    let (cache, volumes) = cache_of(64 << 20);
    let folder = Folder::new();
    let refuses = folder.open_impatient(&volumes, &cache);
    let file = refuses.create("a").unwrap();
    file.write_at(&[1; 100], 0).unwrap();
    file.sync_data().unwrap();
    folder.fails();
    file.write_at(&[2; 100], 0).unwrap();
    assert_eq!(errno(file.sync_data()), Some(Errno::IO));
    folder.works();
    assert_eq!(errno(file.sync_data()), None);
    assert_eq!(elsewhere(&folder.url, "a"), [2; 100]);

    // As much is held as may be, and does not get away in the time of a sync.
    let folder = Folder::new();
    let short = options().held_bytes(8 << 20).sync_timeout(Duration::from_secs(1));
    // A busy machine may take that long to open it.
    let open = |_| volumes.store(&cache, &folder.url, short.clone().take_over(true));
    let full = (0..100).find_map(|time| open(time).ok()).unwrap();
    let file = full.create("a").unwrap();
    let chunks = folder.path().join("c");
    std::fs::write(&chunks, b"no folder").unwrap();
    // Too much by 256 pages, of which not each waits.
    let content = vec![3; 9 << 20];
    file.write_at(&content, 0).unwrap();
    let began = Instant::now();
    assert_eq!(errno(file.sync_data()), Some(Errno::TIMEDOUT));
    assert!(
        began.elapsed() < Duration::from_secs(100),
        "{:?}",
        began.elapsed()
    );
    std::fs::remove_file(&chunks).unwrap();
    // The chunks are put again after a while.
    while let Some(error) = errno(file.sync_data()) {
        assert_eq!(error, Errno::TIMEDOUT);
        assert!(
            began.elapsed() < Duration::from_secs(200),
            "{:?}",
            began.elapsed()
        );
        std::thread::sleep(Duration::from_millis(100));
    }
    assert!(elsewhere(&folder.url, "a") == content);

    let url = "memory://stale";
    let taken = volumes.store(&cache, url, options()).unwrap();
    let file = taken.create("a").unwrap();
    file.write_at(&[5; PAGE], 0).unwrap();
    file.sync_data().unwrap();
    let _other = Store::open(url, options().take_over(true)).unwrap();
    file.write_at(&[6; PAGE], 0).unwrap();
    for _ in 0..2 {
        assert_eq!(errno(file.sync_data()), Some(Errno::STALE));
    }
    assert!(taken.store().fence().is_some());
}
