//! Prefixes and names with any letters.

use crate::draw::Draw;
use millpond_volumes::layout::OpenError;
use millpond_volumes::{Error, Store, StoreOptions, StoreReader};
use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};
use std::collections::BTreeSet;
use std::time::Duration;

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

/// Names of files, beside those that are drawn.
const NAMES: [&str; 5] = ["a", "m/00000000000000000001", "../x", " ü~%*|{}\n\0", "日本"];

pub(crate) fn encoded(prefix: &str) -> String {
    let parts = prefix
        .split('/')
        .map(|part| utf8_percent_encode(part, NON_ALPHANUMERIC).to_string());
    parts.collect::<Vec<_>>().join("/")
}

/// Letters in an order that `seed` says.
fn letters(seed: u64) -> String {
    let letters: Vec<char> = LETTERS.chars().collect();
    let mut draw = Draw(seed);
    let mut below = |n: usize| draw.below(n as u64) as usize;
    let len = 1 + below(12);
    (0..len).map(|_| letters[below(letters.len())]).collect()
}

fn drawn(seed: u64) -> String {
    let drawn = letters(seed);
    let parts = drawn.split('/').filter(|part| !matches!(*part, "" | "." | ".."));
    let drawn = parts.collect::<Vec<_>>().join("/");
    if drawn.is_empty() {
        String::from("~")
    } else {
        drawn
    }
}

/// Those that were once wrong, and so many that are drawn.
pub(crate) fn prefixes(how_many: u64) -> Vec<String> {
    let fixed = FIXED.iter().map(|prefix| (*prefix).to_owned());
    fixed.chain((0..how_many).map(drawn)).collect()
}

pub(crate) fn options() -> StoreOptions {
    StoreOptions::new()
        .page_bytes(4096)
        .sync_timeout(Duration::from_secs(10))
}

/// A store at `url`, as all that open it find it, with files of any name.
pub(crate) fn is_found(url: &str) {
    let first = Store::open(url, options()).unwrap_or_else(|error| panic!("{url}: {error}"));
    let drawn = (0..4).map(|n| letters(url.len() as u64 * 4 + n));
    let names: BTreeSet<String> = NAMES.map(String::from).into_iter().chain(drawn).collect();
    for name in &names {
        first.create(name).unwrap().write_at(name.as_bytes(), 0).unwrap();
    }
    first.sync().unwrap();
    let beside = Store::open(url, options()).unwrap_err();
    assert!(
        matches!(beside, Error::Open(OpenError::Held { .. })),
        "{url}: {beside}"
    );
    let reader = StoreReader::open(url, options()).unwrap();
    for name in &names {
        let mut found = vec![0; name.len()];
        reader.open_file(name).unwrap().read_at(&mut found, 0).unwrap();
        assert_eq!(found, name.as_bytes(), "{url}");
    }
    first.close().unwrap();
    let second = Store::open(url, options()).unwrap_or_else(|error| panic!("{url}: {error}"));
    let listed: BTreeSet<String> = second.list().into_iter().map(|entry| entry.name).collect();
    assert_eq!(listed, names, "{url}");
    assert_eq!(second.verify().unwrap().damaged, []);
}
