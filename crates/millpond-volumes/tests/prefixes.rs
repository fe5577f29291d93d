//! A prefix may have any letters: what is made below it is found again, by the writer, by others and by readers.

#![allow(clippy::unwrap_used, missing_docs, reason = "a test fails by panicking")]

use millpond_volumes::layout::OpenError;
use millpond_volumes::{Error, Store, StoreOptions, StoreReader};
use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};
use std::time::{Duration, Instant};

/// Letters of which something makes another thing than itself.
const LETTERS: &str = " ~%*|{}[]<>^`\\\"'#?&=+,;:@!$()-_.äßé日🌊aZ0/";

const FIXED: [&str; 14] = [
    "my data",
    "dü",
    "a~b",
    "a*b",
    "a|b",
    "a{b}",
    "100%",
    "a%20b",
    "%2e%2e",
    " a",
    "a ",
    "..a",
    "m",
    "c/m/00000000000000000001",
];

/// Names of files.
const NAMES: [&str; 5] = ["a", "m/00000000000000000001", "../x", " ü~%*|{}\n\0", "日本"];

fn encoded(prefix: &str) -> String {
    let parts = prefix
        .split('/')
        .map(|part| utf8_percent_encode(part, NON_ALPHANUMERIC).to_string());
    parts.collect::<Vec<_>>().join("/")
}

fn drawn(seed: u64) -> String {
    let letters: Vec<char> = LETTERS.chars().collect();
    let mut draw = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    let mut below = |n: usize| {
        draw ^= draw << 13;
        draw ^= draw >> 7;
        draw ^= draw << 17;
        draw as usize % n
    };
    let len = 1 + below(12);
    let drawn: String = (0..len).map(|_| letters[below(letters.len())]).collect();
    let parts = drawn.split('/').filter(|part| !matches!(*part, "" | "." | ".."));
    let drawn = parts.collect::<Vec<_>>().join("/");
    if drawn.is_empty() {
        String::from("~")
    } else {
        drawn
    }
}

fn prefixes() -> Vec<String> {
    let fixed = FIXED.iter().map(|prefix| (*prefix).to_owned());
    fixed.chain((0..60).map(drawn)).collect()
}

fn options() -> StoreOptions {
    StoreOptions::new()
        .page_bytes(4096)
        .sync_timeout(Duration::from_secs(10))
}

/// A store at `url`, as all that open it find it.
fn is_found(url: &str) {
    let first = Store::open(url, options()).unwrap_or_else(|error| panic!("{url}: {error}"));
    for name in NAMES {
        first.create(name).unwrap().write_at(name.as_bytes(), 0).unwrap();
    }
    first.sync().unwrap();
    let beside = Store::open(url, options()).unwrap_err();
    assert!(
        matches!(beside, Error::Open(OpenError::Held { .. })),
        "{url}: {beside}"
    );
    let reader = StoreReader::open(url, options()).unwrap();
    for name in NAMES {
        let mut found = vec![0; name.len()];
        reader.open_file(name).unwrap().read_at(&mut found, 0).unwrap();
        assert_eq!(found, name.as_bytes(), "{url}");
    }
    first.close().unwrap();
    let second = Store::open(url, options()).unwrap_or_else(|error| panic!("{url}: {error}"));
    assert_eq!(second.list().len(), NAMES.len(), "{url}");
    assert_eq!(second.verify().unwrap().damaged, []);
}

#[test]
fn a_store_is_found_again_whatever_its_prefix_is() {
    for (n, prefix) in prefixes().iter().enumerate() {
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
    for prefix in prefixes().iter().filter(|prefix| !prefix.contains('/')).take(30) {
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
