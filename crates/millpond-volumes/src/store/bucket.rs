//! Does what a machine asks for, and counts it.

use super::message::say;
use super::options::StoreOptions;
use crate::format::{Key, Kind};
use crate::layout::{Answer, Body, Listed, Request};
use bytes::Bytes;
use futures_util::{StreamExt, TryStreamExt, stream};
use object_store::path::Path;
use object_store::{Error as StoreError, GetOptions, GetRange, ObjectStore, PutMode, PutPayload};
use std::fmt;
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::{Duration, Instant};

/// Names that are handed on at a time: as many as one request of S3 lists.
const LISTED_MAX: usize = 1000;

/// Takes names of a list that is not at its end.
pub(super) type Part<'a> = dyn FnMut(Vec<Listed>) + Send + 'a;

/// Why there is no answer.
enum Failure {
    Store(StoreError),
    /// None came in time.
    Late,
}

/// Requests since a store was opened.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Requests {
    /// Objects that were put.
    pub puts: u64,
    /// Their bytes.
    pub put_bytes: u64,
    /// Reads of objects and of parts of them.
    pub gets: u64,
    /// Their bytes.
    pub get_bytes: u64,
    /// Pages of lists, of 1000 names each.
    pub lists: u64,
    /// Objects that were deleted.
    pub deletes: u64,
    /// Requests of which no answer came, or that were refused.
    pub failed: u64,
    /// What puts took together, in nanoseconds.
    pub put_nanos: u64,
    /// What reads took together, in nanoseconds.
    pub get_nanos: u64,
    /// What all requests took together, in nanoseconds.
    pub nanos: u64,
    /// The longest, in nanoseconds.
    pub nanos_max: u64,
}

#[derive(Default, Debug)]
struct Counters {
    puts: AtomicU64,
    put_bytes: AtomicU64,
    gets: AtomicU64,
    get_bytes: AtomicU64,
    lists: AtomicU64,
    deletes: AtomicU64,
    failed: AtomicU64,
    put_nanos: AtomicU64,
    get_nanos: AtomicU64,
    nanos: AtomicU64,
    nanos_max: AtomicU64,
}

/// A request under way, also one that its caller gives up.
struct Timed<'a> {
    began: Instant,
    of_its_kind: Option<&'a AtomicU64>,
    counters: &'a Counters,
}

impl Drop for Timed<'_> {
    fn drop(&mut self) {
        let nanos = self.began.elapsed().as_nanos() as u64;
        if let Some(of_its_kind) = self.of_its_kind {
            of_its_kind.fetch_add(nanos, Relaxed);
        }
        self.counters.nanos.fetch_add(nanos, Relaxed);
        self.counters.nanos_max.fetch_max(nanos, Relaxed);
    }
}

/// Objects below a prefix.
pub(super) struct Bucket {
    pub(super) store: Arc<dyn ObjectStore>,
    prefix: Path,
    /// For people.
    pub(super) name: String,
    timeout: Duration,
    /// Each request takes so much longer, for measurements.
    delay: Duration,
    counters: Counters,
}

/// A store's own says its keys.
impl fmt::Debug for Bucket {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Bucket")
            .field("name", &self.name)
            .finish_non_exhaustive()
    }
}

impl Bucket {
    pub(super) fn new(
        store: Arc<dyn ObjectStore>,
        prefix: Path,
        name: String,
        options: &StoreOptions,
    ) -> Bucket {
        Bucket {
            store,
            prefix,
            name,
            timeout: options.request_timeout * 3,
            delay: options.delay,
            counters: Counters::default(),
        }
    }

    pub(super) fn path(&self, name: &str) -> Path {
        let prefix = self.prefix.as_ref();
        match prefix.is_empty() {
            true => Path::from(name),
            false => Path::from(format!("{prefix}/{name}")),
        }
    }

    fn key(&self, path: &Path) -> Option<Key> {
        let rest = path.as_ref().strip_prefix(self.prefix.as_ref())?;
        Key::parse(rest.trim_start_matches('/'))
    }

    pub(super) fn requests(&self) -> Requests {
        let c = &self.counters;
        Requests {
            puts: c.puts.load(Relaxed),
            put_bytes: c.put_bytes.load(Relaxed),
            gets: c.gets.load(Relaxed),
            get_bytes: c.get_bytes.load(Relaxed),
            lists: c.lists.load(Relaxed),
            deletes: c.deletes.load(Relaxed),
            failed: c.failed.load(Relaxed),
            put_nanos: c.put_nanos.load(Relaxed),
            get_nanos: c.get_nanos.load(Relaxed),
            nanos: c.nanos.load(Relaxed),
            nanos_max: c.nanos_max.load(Relaxed),
        }
    }

    /// Does what is asked. Of a list that is long `part` gets all but the last names, as they come.
    pub(super) async fn answer(&self, request: &Request, part: &mut Part<'_>) -> Answer {
        let timed = self.timed(match request {
            Request::Create { .. } | Request::Overwrite { .. } => Some(&self.counters.put_nanos),
            Request::Get { .. } => Some(&self.counters.get_nanos),
            Request::List { .. } | Request::Delete { .. } => None,
        });
        let done = self.done(request, part).await;
        drop(timed);
        let failed = match done {
            Ok(answer) => return answer,
            Err(Failure::Store(StoreError::NotFound { .. })) => return Answer::Absent,
            Err(Failure::Store(StoreError::AlreadyExists { .. } | StoreError::Precondition { .. })) => {
                return Answer::Exists;
            }
            Err(Failure::Store(error)) => say(&error),
            Err(Failure::Late) => format!("no answer in {:?}", self.timeout),
        };
        self.counters.failed.fetch_add(1, Relaxed);
        Answer::Failed(failed)
    }

    async fn in_time<T>(&self, of: impl Future<Output = Result<T, StoreError>>) -> Result<T, Failure> {
        let done = tokio::time::timeout(self.timeout, of).await;
        done.map_err(|_| Failure::Late)?.map_err(Failure::Store)
    }

    /// Part of an object, for a caller that waits for it; counted as those of the machine are.
    ///
    /// # Errors
    /// The store's.
    pub(super) async fn read(&self, key: Key, range: Range<u64>) -> Result<Bytes, StoreError> {
        let timed = self.timed(Some(&self.counters.get_nanos));
        let read = self.get(key, Some(range)).await;
        drop(timed);
        if read
            .as_ref()
            .is_err_and(|error| !matches!(error, StoreError::NotFound { .. }))
        {
            self.counters.failed.fetch_add(1, Relaxed);
        }
        read
    }

    /// Counts the time until it is dropped.
    fn timed<'a>(&'a self, of_its_kind: Option<&'a AtomicU64>) -> Timed<'a> {
        Timed {
            began: Instant::now(),
            of_its_kind,
            counters: &self.counters,
        }
    }

    async fn pause(&self) {
        if !self.delay.is_zero() {
            tokio::time::sleep(self.delay).await;
        }
    }

    async fn done(&self, request: &Request, part: &mut Part<'_>) -> Result<Answer, Failure> {
        match request {
            Request::Create { key, body } => self.in_time(self.put(*key, body, PutMode::Create)).await,
            Request::Overwrite { key, body } => self.in_time(self.put(*key, body, PutMode::Overwrite)).await,
            Request::Get { key, range } => {
                let got = self.in_time(self.get(*key, range.clone())).await;
                got.map(Answer::Bytes)
            }
            Request::List { kind, after } => self.list(*kind, *after, part).await,
            Request::Delete { keys } => self.in_time(self.delete(keys)).await,
        }
    }

    async fn delete(&self, keys: &[Key]) -> Result<Answer, StoreError> {
        self.pause().await;
        self.counters.deletes.fetch_add(keys.len() as u64, Relaxed);
        let paths: Vec<_> = keys.iter().map(|key| Ok(self.path(&key.to_string()))).collect();
        let mut deleted = self.store.delete_stream(stream::iter(paths).boxed());
        while let Some(result) = deleted.next().await {
            match result {
                Ok(_) | Err(StoreError::NotFound { .. }) => {}
                Err(error) => return Err(error),
            }
        }
        Ok(Answer::Deleted)
    }

    async fn put(&self, key: Key, body: &Body, mode: PutMode) -> Result<Answer, StoreError> {
        self.pause().await;
        let payload: PutPayload = body.iter().cloned().collect();
        self.counters.puts.fetch_add(1, Relaxed);
        self.counters
            .put_bytes
            .fetch_add(payload.content_length() as u64, Relaxed);
        self.store
            .put_opts(&self.path(&key.to_string()), payload, mode.into())
            .await?;
        Ok(Answer::Stored)
    }

    /// An object, or a part of it.
    pub(super) async fn get(&self, key: Key, range: Option<Range<u64>>) -> Result<Bytes, StoreError> {
        self.pause().await;
        let options = GetOptions {
            range: range.map(GetRange::Bounded),
            ..GetOptions::default()
        };
        self.counters.gets.fetch_add(1, Relaxed);
        let found = self.store.get_opts(&self.path(&key.to_string()), options).await?;
        let bytes = found.bytes().await?;
        self.counters.get_bytes.fetch_add(bytes.len() as u64, Relaxed);
        Ok(bytes)
    }

    /// As many names at a time as a page of S3 has, so that neither the time of a request nor memory is for all of a list.
    async fn list(&self, kind: Kind, after: Option<Key>, part: &mut Part<'_>) -> Result<Answer, Failure> {
        let folder = self.path(kind.folder());
        let mut found = match after {
            Some(after) => self
                .store
                .list_with_offset(Some(&folder), &self.path(&after.to_string())),
            None => self.store.list(Some(&folder)),
        };
        let (mut listed, mut names) = (Vec::new(), 0);
        loop {
            if names % LISTED_MAX == 0 {
                self.pause().await;
                self.counters.lists.fetch_add(1, Relaxed);
            }
            let Some(object) = self.in_time(found.try_next()).await? else {
                return Ok(Answer::Listed(listed));
            };
            names += 1;
            // What is there and is no object of a store is left alone.
            let (key, bytes) = (self.key(&object.location), object.size);
            let key = key.filter(|key| key.kind() == kind);
            listed.extend(key.map(|key| Listed { key, bytes }));
            if listed.len() == LISTED_MAX {
                part(std::mem::take(&mut listed));
            }
        }
    }
}

#[cfg(all(test, feature = "s3"))]
#[allow(clippy::unwrap_used, reason = "a test fails by panicking")]
mod tests {
    use super::*;

    #[test]
    fn what_a_store_is_shown_as_has_no_key_in_it() {
        let builder = object_store::aws::AmazonS3Builder::new()
            .with_bucket_name("vol")
            .with_access_key_id("AKIDABC")
            .with_secret_access_key("secret")
            .with_ssec_encryption("MDEyMzQ1Njc4OTAxMjM0NTY3ODkwMTIzNDU2Nzg5MDE=");
        let store = Arc::new(builder.build().unwrap());
        assert!(format!("{store:?}").contains("AKIDABC"), "its own says it");
        let bucket = Bucket::new(
            store,
            Path::default(),
            String::from("s3://vol/"),
            &StoreOptions::new(),
        );
        assert_eq!(format!("{bucket:?}"), "Bucket { name: \"s3://vol/\", .. }");
    }
}
