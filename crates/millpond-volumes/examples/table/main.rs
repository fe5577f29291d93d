//! What a store does on this machine, and what others do with the same objects:
//!
//! ```sh
//! cargo run --release --manifest-path crates/millpond-volumes/Cargo.toml --example table -- memory://table 1024
//! ```
//!
//! | arguments | what is measured |
//! |---|---|
//! | a URL, MiB, and what a request takes longer, in ms (0, 5 and 30) | the store's own calls |
//! | `cache`, URL, MiB, ms | files of a cache of 512 MiB |
//! | `reader`, URL, MiB, ms | files of a reader in calls of 128 KiB, without a cache and with one of 512 MiB |
//! | `tier`, URL, MiB, file, ms | files of a reader in a cache of 128 MiB, with a disk tier in that file and without |
//! | `plain`, URL, MiB, ms | one object, read by GETs of 8 MiB and of pages, no cache |
//! | `file`, path, MiB, phase | a file of a mount: `write`, `read`, `random`, `sync` |
//! | `delay`, address, server's address, ms | nothing: hands requests on that much later |
//! | `map`, GiB | what the map of so many takes |
//!
//! On S3 the server's address and the credentials are in the environment, as AWS' tools read them. `compare.sh`, beside this,
//! measures all of them through versitygw, with rclone and s3backer where they are installed.

#![allow(clippy::print_stdout, reason = "that is what it is for")]

mod cache;
mod delay;
mod file;
mod map;
mod measure;
#[cfg(feature = "s3")]
mod plain;
mod reader;
mod store;
mod tier;

use measure::Result;

fn main() -> Result<()> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let mib = |text: Option<&&str>| text.map_or(Ok(1024), |text| text.parse::<u64>());
    let delays = |text: Option<&&str>| match text {
        Some(text) => text.parse().map(|ms| vec![ms]),
        None => Ok(vec![0, 5, 30]),
    };
    match words.as_slice() {
        ["map", gib] => map::map(gib.parse()?),
        ["delay", from, to, ms] => return delay::serve(from, to, ms.parse()?),
        ["file", path, mib, phase] => return file::table(path, mib.parse()?, phase),
        ["cache", url, rest @ ..] => {
            for ms in delays(rest.get(1))? {
                cache::table(url, mib(rest.first())?, ms)?;
            }
        }
        ["reader", url, rest @ ..] => {
            for ms in delays(rest.get(1))? {
                reader::table(url, mib(rest.first())?, ms)?;
            }
        }
        ["tier", url, mib, path, rest @ ..] => {
            for ms in delays(rest.first())? {
                tier::table(url, mib.parse()?, path, ms)?;
            }
        }
        #[cfg(feature = "s3")]
        ["plain", url, rest @ ..] => {
            for ms in delays(rest.get(1))? {
                plain::table(url, mib(rest.first())?, ms)?;
            }
        }
        [url, rest @ ..] => {
            for ms in delays(rest.get(1))? {
                store::table(url, mib(rest.first())?, ms)?;
            }
        }
        [] => {
            for ms in delays(None)? {
                store::table("memory://table", 1024, ms)?;
            }
        }
    }
    Ok(())
}
