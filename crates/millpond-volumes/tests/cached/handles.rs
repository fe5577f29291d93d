//! What stands for a file of a store lives as long as its handles.

use crate::{PAGE, cache, options, pattern};
use std::path::PathBuf;

/// Files in memory of this process whose names begin with this.
fn stand_ins(name: &str) -> usize {
    let open = std::fs::read_dir("/proc/self/fd").unwrap();
    let links = open.filter_map(|link| std::fs::read_link(link.ok()?.path()).ok());
    let begin = PathBuf::from(format!("/memfd:{name}"));
    links
        .filter(|link| link.to_string_lossy().starts_with(&*begin.to_string_lossy()))
        .count()
}

#[test]
fn a_file_that_is_closed_removed_or_of_a_closed_store_has_no_descriptor_left() {
    let (cache, volumes) = cache();
    let store = volumes.store(&cache, "memory://handles", options()).unwrap();
    let content = pattern(100_000);
    for n in 0..50 {
        let file = store.create(&format!("left-{n}")).unwrap();
        file.write_at(&content, 0).unwrap();
    }
    assert_eq!(stand_ins("left-"), 0, "dropped");
    for n in 0..50 {
        let file = store.open(&format!("left-{n}")).unwrap();
        let mut found = vec![0; content.len()];
        file.read_at(&mut found, 0).unwrap();
        assert!(found == content, "file {n}");
        let again = store.open(&format!("left-{n}")).unwrap();
        file.close().unwrap();
        again.write_at(&[7], 99_999).unwrap();
        assert!(stand_ins("left-") > 0, "it is open");
        store.remove(&format!("left-{n}")).unwrap();
    }
    assert_eq!(stand_ins("left-"), 0, "removed");
    let last = store.create("left-last").unwrap();
    last.write_at(&content, 0).unwrap();
    store.close().unwrap();
    drop((store, last));
    assert_eq!(stand_ins("left-"), 0, "closed");
}

/// One thread's last handle goes while another's comes: each finds what is in the store.
#[test]
fn a_file_that_is_opened_as_its_last_handle_is_dropped_is_the_stores() {
    let (cache, volumes) = cache();
    let store = volumes
        .store(&cache, "memory://coming-and-going", options())
        .unwrap();
    let page = |n: u8| [n; PAGE];
    store.create("a").unwrap().write_at(&page(1), 0).unwrap();
    std::thread::scope(|scope| {
        for _ in 0..3 {
            scope.spawn(|| {
                for _ in 0..300 {
                    let file = store.open("a").unwrap();
                    let mut found = page(0);
                    assert_eq!(file.read_at(&mut found, 0).unwrap(), PAGE);
                    assert_eq!(found, page(1));
                    file.write_at(&page(1), PAGE as u64).unwrap();
                }
            });
        }
    });
    let file = store.open("a").unwrap();
    file.sync_data().unwrap();
    assert_eq!(crate::elsewhere("memory://coming-and-going", "a"), [1; 2 * PAGE]);
}
