//! The committed header is what the code says.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::fs;
use std::path::Path;

/// Set, it writes the header instead: `MILLPOND_BLESS=1 cargo test -p millpond-capi --test header`.
const WRITE: &str = "MILLPOND_BLESS";

fn generated(folder: &Path) -> String {
    let config = cbindgen::Config::from_file(folder.join("cbindgen.toml")).unwrap();
    let bindings = cbindgen::Builder::new()
        .with_crate(folder)
        .with_config(config)
        .generate()
        .unwrap();
    let mut text = Vec::new();
    bindings.write(&mut text);
    String::from_utf8(text).unwrap()
}

#[test]
fn the_header_is_made_from_the_code() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR"));
    let path = folder.join("include/millpond.h");
    let now = generated(folder);
    if std::env::var_os(WRITE).is_some() {
        return fs::write(path, now).unwrap();
    }
    let committed = fs::read_to_string(path).unwrap_or_default();
    let differs = committed.lines().zip(now.lines()).find(|(old, new)| old != new);
    assert!(
        committed == now,
        "include/millpond.h is not as the code has it: {differs:?}. If the change is meant, and docs/decisions/0017-c-abi.md \
         allows it, write the header: {WRITE}=1 cargo test -p millpond-capi --test header"
    );
}

#[test]
fn the_header_names_no_type_of_rust() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR"));
    let header = generated(folder);
    for word in ["Handle_", "Option", "MaybeUninit", "usize", "u64", "Held"] {
        let is_there = header
            .split(|c: char| !(c.is_alphanumeric() || c == '_'))
            .any(|part| part == word || (word.ends_with('_') && part.starts_with(word)));
        assert!(!is_there, "{word} is in the header");
    }
}
