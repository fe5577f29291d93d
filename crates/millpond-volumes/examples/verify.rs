//! Reads all of a store, and compares every checksum and every reference.
//!
//! ```text
//! verify s3://bucket/prefix              what is damaged of it
//! verify --salvage s3://bucket/prefix    the same of the newest commit that is whole, if the newest is not
//! ```
//!
//! Ends with 1 if anything is damaged or left out, or can't be read.

#![allow(clippy::print_stdout, reason = "it is a program")]

use millpond_volumes::{StoreOptions, StoreReader};
use std::process::ExitCode;

fn main() -> ExitCode {
    let (options, addresses): (Vec<String>, Vec<String>) = std::env::args()
        .skip(1)
        .partition(|argument| argument.starts_with("--"));
    let (salvage, url) = match (&options[..], &addresses[..]) {
        ([], [url]) => (false, url),
        ([salvage], [url]) if salvage == "--salvage" => (true, url),
        _ => {
            println!("verify [--salvage] s3://bucket/prefix or file:///folder");
            return ExitCode::FAILURE;
        }
    };
    let reader = StoreReader::open(url, StoreOptions::new().salvage(salvage));
    let verified = match reader.and_then(|reader| reader.verify()) {
        Ok(verified) => verified,
        Err(error) => {
            println!("{error}");
            return ExitCode::FAILURE;
        }
    };
    if let Some(salvaged) = &verified.salvaged {
        let (commit, newest) = (salvaged.commit, salvaged.newest);
        println!(
            "as of commit {commit}; what is behind it, up to {newest}, is left out: {}",
            salvaged.why
        );
    }
    for damage in &verified.damaged {
        let snapshot = damage.snapshot.as_ref();
        let of = snapshot.map_or(String::new(), |snapshot| format!(" of snapshot {snapshot}"));
        println!(
            "page {} of {}{of}: {}: {}",
            damage.page, damage.file, damage.key, damage.why
        );
    }
    let (files, pages, damaged) = (verified.files, verified.pages, verified.damaged.len());
    println!(
        "commit {}: {files} files, {pages} pages, {damaged} damaged",
        verified.commit
    );
    match verified.damaged.is_empty() && verified.salvaged.is_none() {
        true => ExitCode::SUCCESS,
        false => ExitCode::FAILURE,
    }
}
