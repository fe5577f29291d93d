//! What a URL names, and whether that can be a store.
//!
//! ```text
//!   s3://bucket/prefix     with the feature `s3`
//!   file:///folder         of one machine
//!   memory://name          of this process, for tests
//! ```

use super::bucket::Bucket;
use super::error::Error;
use super::home::Home;
use super::message::say;
use super::options::StoreOptions;
use crate::layout::ReadError;
use object_store::memory::InMemory;
use object_store::path::Path;
use object_store::{Error as StoreError, ObjectStore, ObjectStoreExt, PutMode};
use percent_encoding::percent_decode_str;
use std::collections::BTreeMap;
use std::io::ErrorKind;
use std::sync::{Arc, Mutex, PoisonError};
use url::{ParseError, Url};

/// An object of each store, which is never written again.
pub(super) const PROBE: &str = "probe";

/// A key has 1024 bytes in S3, of which 32 are the longest name below a prefix and its slash.
const PREFIX_BYTES_MAX: usize = 1024 - 32;

/// Stores in memory by name.
static IN_MEMORY: Mutex<BTreeMap<String, Arc<InMemory>>> = Mutex::new(BTreeMap::new());

/// What becomes of a folder that is not there.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Folder {
    /// There is no store.
    Is,
    /// It is made, if the one above it is there.
    IsMade,
}

/// The bucket and prefix that a URL names.
///
/// # Errors
/// If it names none, or one that can't be had here.
pub(super) fn bucket(url: &str, options: &StoreOptions, as_folder: Folder) -> Result<Bucket, Error> {
    check_text(url)?;
    let parsed = Url::parse(url).map_err(|error| {
        let why = match error {
            ParseError::RelativeUrlWithoutBase => String::from("a path is not"),
            error => error.to_string(),
        };
        Error::Address(format!(
            "a store is s3://bucket/prefix, file:///folder or memory://name: {why}"
        ))
    })?;
    if !parsed.username().is_empty() || parsed.password().is_some() {
        let why = "a store's address has no user and password: credentials are read as AWS' tools read them";
        return Err(Error::Address(String::from(why)));
    }
    if parsed.query().is_some() || parsed.fragment().is_some() {
        return Err(Error::Address(String::from(
            "a store's address has nothing behind its prefix",
        )));
    }
    let name = parsed.host_str().unwrap_or_default();
    let prefix = percent_decode_str(parsed.path()).collect::<Vec<u8>>();
    check_path(&prefix)?;
    let prefix = match parsed.scheme() {
        "file" => Ok(Path::ROOT),
        _ => self::prefix(&prefix),
    }?;
    #[cfg_attr(
        not(feature = "s3"),
        expect(unused_mut, reason = "folders and memory have none")
    )]
    let mut uploads = None;
    let mut home = None;
    let store: Arc<dyn ObjectStore> = match parsed.scheme() {
        "memory" => {
            let mut stores = IN_MEMORY.lock().unwrap_or_else(PoisonError::into_inner);
            stores.entry(name.to_owned()).or_default().clone()
        }
        "file" => {
            let (store, of_folder) = folder(&parsed, as_folder)?;
            home = Some(of_folder);
            store
        }
        "s3" if name.is_empty() => {
            return Err(Error::Address(format!(
                "{parsed}: there is no bucket in it: s3://bucket/prefix"
            )));
        }
        #[cfg(feature = "s3")]
        "s3" if !is_bucket(name) => {
            let why = "no name of a bucket: letters, digits, dots, hyphens and underscores";
            return Err(Error::Address(format!("{name}: {why}")));
        }
        #[cfg(feature = "s3")]
        "s3" => {
            let (store, of_uploads) = super::aws::store(name, options)?;
            uploads = Some(of_uploads);
            store
        }
        #[cfg(not(feature = "s3"))]
        "s3" => {
            let why = "this program was built without the feature `s3` of millpond-volumes";
            return Err(Error::Address(format!("{parsed}: {why}")));
        }
        other => {
            let known = "s3, file and memory";
            return Err(Error::Address(format!(
                "{other}: no such kind of store; there are {known}"
            )));
        }
    };
    let bucket = Bucket::new(store, uploads, prefix, parsed.to_string(), options);
    bucket.at_home(home).with_tier(options)
}

/// An address is read as it is written: a URL's parser would leave out line feeds and blanks, and turn a backslash of a folder
/// into a slash.
fn check_text(url: &str) -> Result<(), Error> {
    let refused = |why: &str| Err(Error::Address(format!("{url:?}: a store's address has {why}")));
    if url.trim() != url {
        return refused("no blank before or behind it: a prefix that ends with one is written with %20");
    }
    if url.contains(char::is_control) {
        return refused("no control character in it, such as a tab or a line feed");
    }
    if url.starts_with("file:") && url.contains('\\') {
        return refused("no backslash in it: one in a folder's name is written %5C");
    }
    // Before they are resolved: `a/../b` is another store than `b`, or meant to be the same by mistake.
    let path = url.split_once("://").map_or(url, |(_, rest)| rest);
    check_path(&percent_decode_str(path).collect::<Vec<u8>>())
}

fn check_path(path: &[u8]) -> Result<(), Error> {
    let is_relative = |part: &&[u8]| *part == b"." || *part == b"..";
    match path.split(|byte| *byte == b'/').find(is_relative) {
        Some(part) => {
            let part = String::from_utf8_lossy(part);
            let why = "a store's address has no . or .. between slashes";
            Err(Error::Address(format!("{part}: {why}")))
        }
        None => Ok(()),
    }
}

/// The prefix that a path of an address names: the keys of objects begin with it, as it is and not encoded.
fn prefix(path: &[u8]) -> Result<Path, Error> {
    let shown = String::from_utf8_lossy(path).into_owned();
    let refused = |why: String| Error::Address(format!("{shown:?}: {why}"));
    let text = std::str::from_utf8(path).map_err(|_| refused(String::from("a prefix is UTF-8")))?;
    let text = text.trim_matches('/');
    if text.contains("//") {
        return Err(refused(String::from("a prefix has no two slashes in a row")));
    }
    // A list is XML, which can't have them.
    if text.contains(|c: char| c.is_control() || matches!(c, '\u{fffe}' | '\u{ffff}')) {
        return Err(refused(String::from("a prefix has no control characters")));
    }
    if text.len() > PREFIX_BYTES_MAX {
        let len = text.len();
        return Err(refused(format!(
            "a prefix has {PREFIX_BYTES_MAX} bytes at most, not {len}"
        )));
    }
    Path::parse(text).map_err(|error| refused(error.to_string()))
}

#[cfg(feature = "s3")]
fn is_bucket(name: &str) -> bool {
    let is_of_name = |byte: u8| byte.is_ascii_alphanumeric() || b".-_".contains(&byte);
    name.bytes().all(is_of_name)
}

fn folder(url: &Url, as_folder: Folder) -> Result<(Arc<dyn ObjectStore>, Home), Error> {
    let failed = |why: String| Error::Address(format!("{url}: {why}"));
    let path = url
        .to_file_path()
        .map_err(|()| failed(String::from("no folder of this machine")))?;
    match as_folder {
        Folder::Is if !path.exists() => return Err(ReadError::Empty.into()),
        Folder::Is => {}
        // Not those above it: they are mistyped more often than missing.
        Folder::IsMade => match std::fs::create_dir(&path) {
            Err(error) if error.kind() != ErrorKind::AlreadyExists => {
                return Err(failed(format!("the folder can't be made: {error}")));
            }
            _ => {}
        },
    }
    let store = object_store::local::LocalFileSystem::new_with_prefix(&path);
    // What is created is on the disk before it is said to be.
    let store = store.map_err(|error| failed(error.to_string()))?.with_fsync(true);
    let home = Home::of(path).map_err(|error| failed(error.to_string()))?;
    Ok((Arc::new(store), home))
}

/// Creates an object that is there: a store that lets it can't have a fence. The object stays, the same for all openings.
///
/// # Errors
/// If it has none, or can't be reached.
pub(super) async fn probe(bucket: &Bucket) -> Result<(), Error> {
    let path = bucket.path(PROBE);
    let create = || {
        let content = bytes::Bytes::from_static(b"what creates this once more must be refused");
        bucket
            .store
            .put_opts(&path, content.into(), PutMode::Create.into())
    };
    let created = match create().await {
        Ok(_) => create().await,
        // Of an opening before, or the answer to an attempt was lost.
        refused => refused,
    };
    match created {
        Err(StoreError::AlreadyExists { .. } | StoreError::Precondition { .. }) => {
            match bucket.lists(&path).await {
                Ok(true) => Ok(()),
                Ok(false) => Err(Error::Lists(bucket.name.clone())),
                Err(error) => Err(Error::Address(format!("{}: {}", bucket.name, say(&error)))),
            }
        }
        Ok(_) | Err(StoreError::NotImplemented { .. } | StoreError::NotSupported { .. }) => {
            let _ = bucket.store.delete(&path).await;
            Err(Error::NoConditionalPut(bucket.name.clone()))
        }
        // As some servers answer to a condition that they do not know.
        Err(error) if say(&error).contains("NotImplemented") || say(&error).contains("501") => {
            Err(Error::NoConditionalPut(bucket.name.clone()))
        }
        Err(error) => Err(Error::Address(format!("{}: {}", bucket.name, say(&error)))),
    }
}
