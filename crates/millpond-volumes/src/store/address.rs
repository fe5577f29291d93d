//! What a URL names, and whether that can be a store.
//!
//! ```text
//!   s3://bucket/prefix     with the feature `s3`
//!   file:///folder         of one machine
//!   memory://name          of this process, for tests
//! ```

use super::bucket::Bucket;
use super::error::Error;
use super::message::say;
use super::options::StoreOptions;
use object_store::memory::InMemory;
use object_store::path::Path;
use object_store::{Error as StoreError, ObjectStore, ObjectStoreExt, PutMode};
use std::collections::BTreeMap;
use std::io::ErrorKind;
use std::sync::{Arc, Mutex, PoisonError};
use url::{ParseError, Url};

/// An object of each store, which is never written again.
const PROBE: &str = "probe";

/// Stores in memory by name.
static IN_MEMORY: Mutex<BTreeMap<String, Arc<InMemory>>> = Mutex::new(BTreeMap::new());

/// The bucket and prefix that a URL names.
///
/// # Errors
/// If it names none, or one that can't be had here.
pub(super) fn bucket(url: &str, options: &StoreOptions) -> Result<Bucket, Error> {
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
    let prefix = parsed.path().trim_matches('/');
    let (store, prefix): (Arc<dyn ObjectStore>, &str) = match parsed.scheme() {
        "memory" => {
            let mut stores = IN_MEMORY.lock().unwrap_or_else(PoisonError::into_inner);
            (stores.entry(name.to_owned()).or_default().clone(), prefix)
        }
        "file" => (folder(&parsed)?, ""),
        "s3" if name.is_empty() => {
            return Err(Error::Address(format!(
                "{parsed}: there is no bucket in it: s3://bucket/prefix"
            )));
        }
        #[cfg(feature = "s3")]
        "s3" => (super::aws::store(name, options)?, prefix),
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
    let prefix = Path::parse(prefix).map_err(|error| Error::Address(error.to_string()))?;
    Ok(Bucket::new(store, prefix, parsed.to_string(), options))
}

fn folder(url: &Url) -> Result<Arc<dyn ObjectStore>, Error> {
    let failed = |why: String| Error::Address(format!("{url}: {why}"));
    let path = url
        .to_file_path()
        .map_err(|()| failed(String::from("no folder of this machine")))?;
    // Not those above it: they are mistyped more often than missing.
    match std::fs::create_dir(&path) {
        Err(error) if error.kind() != ErrorKind::AlreadyExists => {
            return Err(failed(format!("the folder can't be made: {error}")));
        }
        _ => {}
    }
    let store = object_store::local::LocalFileSystem::new_with_prefix(&path);
    // What is created is on the disk before it is said to be.
    let store = store.map_err(|error| failed(error.to_string()))?.with_fsync(true);
    Ok(Arc::new(store))
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
        Err(StoreError::AlreadyExists { .. } | StoreError::Precondition { .. }) => Ok(()),
        Ok(_) | Err(StoreError::NotImplemented { .. } | StoreError::NotSupported { .. }) => {
            let _ = bucket.store.delete(&path).await;
            Err(Error::NoConditionalPut(bucket.name.clone()))
        }
        Err(error) => Err(Error::Address(format!("{}: {}", bucket.name, say(&error)))),
    }
}
