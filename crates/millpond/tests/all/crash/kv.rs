//! The store of the examples does what it says, and a test of crashes finds what is taken out of it.

#[allow(
    dead_code,
    unreachable_pub,
    reason = "the example as it is, with a main that nobody calls here"
)]
#[path = "../../../examples/kv.rs"]
mod example;

use crate::support::{Place, bounded};
use example::{Index, Store};
use millpond::PageCache;
use std::fs;

fn cache() -> PageCache {
    PageCache::builder().memory(4 << 20).build().unwrap()
}

#[test]
fn every_crash_leaves_what_was_committed() {
    bounded(|| {
        let folder = Place::Memory.folder();
        let found = example::crash_everywhere(folder.path()).unwrap();
        assert!(found.starts_with("nothing, in "), "{found}");
    });
}

#[test]
fn a_store_has_the_last_value_of_each_key_also_when_it_is_opened_again() {
    bounded(|| {
        let folder = Place::Memory.folder();
        let (cache, path) = (cache(), folder.path().join("store"));
        let store = Store::open(&cache, &path).unwrap();
        assert!(store.is_empty());
        let long = vec![7; 3 << 20];
        for (key, value) in [("a", &b"1"[..]), ("b", &long), ("a", b""), ("c", b"3")] {
            store.put(key.as_bytes(), value).unwrap();
        }
        store.remove(b"c").unwrap();
        for refused in [store.put(b"", b"1"), store.put(b"d", &vec![0; (16 << 20) + 1])] {
            assert!(refused.unwrap_err().to_string().contains("16 MiB at most"));
        }
        let check = |store: &Store| {
            assert_eq!(store.len(), 2);
            assert_eq!(store.get(b"a").unwrap().as_deref(), Some(&b""[..]));
            assert_eq!(store.get(b"b").unwrap().as_deref(), Some(&long[..]));
            assert_eq!(store.get(b"c").unwrap(), None);
        };
        check(&store);
        store.close().unwrap();
        check(&Store::open(&cache, &path).unwrap());
    });
}

/// Each of two processes overwrote the records of the other, and both got success.
#[test]
fn a_store_that_another_process_has_can_not_be_opened() {
    bounded(|| {
        let folder = Place::Disk.folder();
        let path = folder.path().join("store");
        let open = || Store::open(&cache(), &path);
        drop(open().unwrap());
        // As another process: a lock of this one's is in the way all the same.
        let others = fs::File::options().read(true).write(true).open(&path).unwrap();
        rustix::fs::fcntl_lock(&others, rustix::fs::FlockOperation::NonBlockingLockExclusive).unwrap();
        let refused = open().map(drop).unwrap_err();
        assert!(refused.to_string().contains("lock"), "{refused}");
        drop(others);
        drop(open().unwrap());
    });
}

#[test]
fn a_record_torn_by_a_crash_is_cut_off_and_asks_for_no_memory() {
    bounded(|| {
        let folder = Place::Memory.folder();
        let (cache, path) = (cache(), folder.path().join("store"));
        let store = Store::open(&cache, &path).unwrap();
        store.put(b"a", b"1").unwrap();
        store.close().unwrap();
        let whole = fs::read(&path).unwrap();
        for torn in [&whole[..whole.len() - 1], &[0xff; 16], &[0; 100]] {
            fs::write(&path, [&whole, torn].concat()).unwrap();
            let store = Store::open(&cache, &path).unwrap();
            assert_eq!((store.len(), store.get(b"a").unwrap()), (1, Some(b"1".to_vec())));
            store.put(b"b", b"2").unwrap();
            store.close().unwrap();
            assert_eq!(Store::open(&cache, &path).unwrap().len(), 2);
        }
        assert!(Index::of(&[0xff; 64][..]).is_ok());
    });
}
