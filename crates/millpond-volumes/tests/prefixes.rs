//! A prefix may have any letters: what is made below it is found again, by the writer, by others and by readers.

#![allow(clippy::unwrap_used, missing_docs, reason = "a test fails by panicking")]

use millpond_volumes::layout::OpenError;
use millpond_volumes::{Error, Store};
use std::time::{Duration, Instant};

#[path = "shared/draw.rs"]
mod draw;
#[path = "shared/prefixes.rs"]
mod shared;

use shared::{encoded, is_found, options, prefixes};

#[test]
fn a_store_is_found_again_whatever_its_prefix_is() {
    for (n, prefix) in prefixes(60).iter().enumerate() {
        is_found(&format!("memory://prefixes/{n}/{}", encoded(prefix)));
    }
    // As it is, where an address may have it.
    for (n, prefix) in ["my data", "dü", "a~b", "a*b|{c}", "100%", "a%2Fb"]
        .iter()
        .enumerate()
    {
        is_found(&format!("memory://plain/{n}/{prefix}"));
    }
}

#[test]
fn a_folder_is_found_again_whatever_its_name_is() {
    for prefix in prefixes(60)
        .iter()
        .filter(|prefix| !prefix.contains('/'))
        .take(30)
    {
        let temp = tempfile::tempdir().unwrap();
        let name = temp.path().join(prefix);
        is_found(&format!("file://{}/{}", temp.path().display(), encoded(prefix)));
        assert!(name.join("probe").is_file(), "{name:?}");
    }
}

/// What superseded the first commit is older than a grace, and that is deleted: one that does not see what is there would make
/// a store of its own.
#[test]
fn a_second_writer_is_kept_out_when_the_first_commit_is_long_gone() {
    let url = format!("memory://fence/{}", encoded("ü~% *|{}"));
    let first = Store::open(&url, options().grace(Duration::from_secs(1))).unwrap();
    let file = first.create("a").unwrap();
    let deadline = Instant::now() + Duration::from_secs(120);
    for n in 0.. {
        file.write_at(&[1; 100], n * 4096).unwrap();
        first.sync().unwrap();
        if n > 150 && first.usage().requests.deletes > 0 {
            break;
        }
        assert!(Instant::now() < deadline, "{:?}", first.usage());
        if n > 150 {
            std::thread::sleep(Duration::from_millis(20));
        }
    }
    let beside = Store::open(&url, options()).unwrap_err();
    assert!(matches!(beside, Error::Open(OpenError::Held { .. })), "{beside}");
}

#[test]
fn an_address_that_would_be_read_as_another_is_refused() {
    for (url, said) in [
        ("memory://x/a/../b", "no . or .. between slashes"),
        ("memory://x/a/%2e%2E/b", "no . or .. between slashes"),
        ("memory://x/a%2F..%2Fb", "no . or .. between slashes"),
        ("file:///tmp/a/./b", "no . or .. between slashes"),
        ("s3://bucket/..", "no . or .. between slashes"),
        ("memory://x/a//b", "no two slashes in a row"),
        ("memory://x/a%00b", "no control characters"),
        ("memory://x/a\nb", "no control character"),
        ("memory://x/a\tb", "no control character"),
        (" memory://x/a", "no blank before"),
        ("memory://x/a ", "no blank before"),
        ("memory://x/a%ff", "a prefix is UTF-8"),
        ("file:///tmp/a\\b", "no backslash"),
    ] {
        let error = Store::open(url, options()).unwrap_err().to_string();
        assert!(error.contains(said), "{url:?}: {error}");
    }
    let long = format!("memory://x/{}", "a".repeat(1000));
    let error = Store::open(&long, options()).unwrap_err().to_string();
    assert!(error.contains("992 bytes at most, not 1000"), "{error}");
    #[cfg(feature = "s3")]
    for bucket in ["a%20b", "ü", "a~b"] {
        let error = Store::open(&format!("s3://{bucket}/p"), options())
            .unwrap_err()
            .to_string();
        assert!(error.contains("no name of a bucket"), "{error}");
    }
}

/// It is moved away, as a disk that is mounted no more, and another is in its place.
#[test]
fn a_folder_that_is_another_than_the_one_that_was_opened_is_refused() {
    let temp = tempfile::tempdir().unwrap();
    let (path, away) = (temp.path().join("store"), temp.path().join("away"));
    let store = Store::open(&format!("file://{}", path.display()), options()).unwrap();
    let file = store.create("a").unwrap();
    store.sync().unwrap();
    std::fs::rename(&path, &away).unwrap();
    for is_there in [false, true] {
        if is_there {
            std::fs::create_dir(&path).unwrap();
        }
        file.write_at(b"pond", 0).unwrap();
        let error = store.sync().unwrap_err().to_string();
        assert!(error.contains("is not the folder that was opened"), "{error}");
    }
    assert_eq!(
        std::fs::read_dir(&path).unwrap().count(),
        0,
        "nothing is put there"
    );
    std::fs::remove_dir(&path).unwrap();
    std::fs::rename(&away, &path).unwrap();
    store.sync().unwrap();
}
