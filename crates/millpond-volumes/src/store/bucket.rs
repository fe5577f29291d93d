//! Performs a state machine's requests, and counts them.

use super::clock;
use super::counters::{Counters, Requests};
use super::error::Error;
use super::home::Home;
use super::message::say;
use super::nearby::Nearby;
use super::options::StoreOptions;
use super::pace::Pace;
use crate::format::{Key, Kind};
use crate::layout::{Answer, Body, Listed, Refusal, Request};
use crate::tier::{Tier, TierFile, TierUsage};
use bytes::{Bytes, BytesMut};
use futures_util::{StreamExt, TryStreamExt, stream};
use object_store::path::Path;
use object_store::{Error as StoreError, GetOptions, GetRange, ObjectStore, PutMode, PutPayload};
use std::fmt;
use std::io::ErrorKind;
use std::ops::Range;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::Duration;

/// Names that are handed on at a time: as many as one request of S3 lists.
const LISTED_MAX: usize = 1000;

/// Takes names of a list that is not at its end.
pub(super) type Part<'a> = dyn FnMut(Vec<Listed>) + Send + 'a;

/// Why there is no answer.
enum Failure {
    Store(StoreError),
    /// None came in this time.
    Late(Duration),
    /// The folder is another than the one that was opened.
    Gone(String),
}

/// Why there are no bytes of an object.
#[derive(Clone, Debug)]
pub(super) enum NotRead {
    /// There is no such object.
    Absent,
    /// What the store says.
    Failed(String),
}

/// What a store says by an error.
pub(super) enum Said {
    /// There is no such object.
    Absent,
    /// There is one already.
    Exists,
    /// Nothing will come of it however often it is asked.
    Refused(Refusal),
    /// Nothing came of it this time.
    Failed,
}

pub(super) fn said(error: &StoreError) -> Said {
    match error {
        // Of an object or of all of it.
        StoreError::NotFound { .. } if say(error).contains("NoSuchBucket") => Said::Refused(Refusal::Access),
        StoreError::NotFound { .. } => Said::Absent,
        StoreError::AlreadyExists { .. } | StoreError::Precondition { .. } => Said::Exists,
        StoreError::PermissionDenied { .. } | StoreError::Unauthenticated { .. } => {
            Said::Refused(Refusal::Access)
        }
        error => match system(error).map(|error| error.kind()) {
            Some(ErrorKind::PermissionDenied | ErrorKind::ReadOnlyFilesystem) => {
                Said::Refused(Refusal::Access)
            }
            Some(ErrorKind::StorageFull | ErrorKind::QuotaExceeded) => Said::Refused(Refusal::Room),
            _ => Said::Failed,
        },
    }
}

/// What the system said, of a folder.
fn system(error: &StoreError) -> Option<&std::io::Error> {
    let mut error: Option<&(dyn std::error::Error + 'static)> = Some(error);
    while let Some(this) = error {
        if let Some(found) = this.downcast_ref() {
            return Some(found);
        }
        error = this.source();
    }
    None
}

/// Whether a request failed while the process was stopped, and is worth another: the other end may have given up meanwhile, and
/// the client's own timers went on. `stopped` are the stops that were known before it, and then those that are known now.
fn is_of_a_stop<T>(done: &Result<T, Failure>, stopped: &mut Duration) -> bool {
    let before = std::mem::replace(stopped, clock::look().stopped);
    let has_failed = match done {
        Ok(_) | Err(Failure::Gone(_)) => false,
        Err(Failure::Late(_)) => true,
        Err(Failure::Store(error)) => matches!(said(error), Said::Failed),
    };
    has_failed && before < *stopped
}

/// Objects below a prefix.
pub(super) struct Bucket {
    pub(super) store: Arc<dyn ObjectStore>,
    /// The same, for uploads: it gives none of them up by itself.
    uploads: Arc<dyn ObjectStore>,
    pace: Pace,
    prefix: Path,
    /// Of a folder.
    home: Option<Home>,
    /// For people.
    pub(super) name: String,
    timeout: Duration,
    /// The disk tier's, until the size of pages is known.
    tier_file: Mutex<Option<TierFile>>,
    tier: OnceLock<Arc<Tier>>,
    nearby: Nearby,
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
        uploads: Option<Arc<dyn ObjectStore>>,
        prefix: Path,
        name: String,
        options: &StoreOptions,
    ) -> Bucket {
        Bucket {
            uploads: uploads.unwrap_or_else(|| store.clone()),
            pace: Pace::default(),
            store,
            prefix,
            home: None,
            name,
            timeout: options.request_timeout * 3,
            tier_file: Mutex::default(),
            tier: OnceLock::new(),
            nearby: Nearby::new(options.nearby_bytes),
            delay: options.delay,
            counters: Counters::default(),
        }
    }

    /// The same, of a folder.
    /// Bytes that may still be put, where somebody can tell: of a folder.
    pub(super) fn available(&self) -> Option<u64> {
        self.home.as_ref().and_then(Home::available)
    }

    pub(super) fn at_home(mut self, home: Option<Home>) -> Bucket {
        self.home = home;
        self
    }

    /// The same, with a disk tier.
    ///
    /// # Errors
    /// As [`TierFile::open`].
    pub(super) fn with_tier(mut self, options: &StoreOptions) -> Result<Bucket, Error> {
        if let Some((path, bytes)) = &options.disk_tier {
            let file = TierFile::open(path, *bytes, &self.name).map_err(Error::DiskTier)?;
            self.tier_file = Mutex::new(Some(file));
        }
        Ok(self)
    }

    /// Begins to use the disk tier, in a store with pages of this size. Returns it to who is to close it.
    ///
    /// # Errors
    /// As [`Tier::new`].
    pub(super) fn begin_tier(
        &self,
        page_bytes: u32,
        options: &StoreOptions,
    ) -> Result<Option<Arc<Tier>>, Error> {
        let file = self
            .tier_file
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .take();
        let Some(file) = file else { return Ok(None) };
        let tier = Tier::new(file, page_bytes, options.tier_queue_bytes).map_err(Error::DiskTier)?;
        Ok(Some(self.tier.get_or_init(|| Arc::new(tier)).clone()))
    }

    pub(super) fn tier(&self) -> Option<&Arc<Tier>> {
        self.tier.get()
    }

    pub(super) fn tier_usage(&self) -> Option<TierUsage> {
        self.tier().map(|tier| tier.usage())
    }

    /// The longest that a disk tier may take to answer.
    pub(super) fn tier_timeout(&self) -> Duration {
        self.timeout / 3
    }

    /// Where an object is: the prefix as it is, and the name below it. The client encodes what its requests need, once.
    pub(super) fn path(&self, name: &str) -> Path {
        name.split('/').fold(self.prefix.clone(), Path::join)
    }

    /// Whose path that is: the other way round.
    fn key(&self, path: &Path) -> Option<Key> {
        let names: Vec<_> = path.prefix_match(&self.prefix)?.collect();
        let names: Vec<&str> = names.iter().map(AsRef::as_ref).collect();
        Key::parse(&names.join("/"))
    }

    /// Whether a list has what is there, under the name that it has.
    ///
    /// # Errors
    /// The store's.
    pub(super) async fn lists(&self, path: &Path) -> Result<bool, StoreError> {
        let all = path.as_ref();
        let before = all
            .char_indices()
            .next_back()
            .map_or("", |(last, _)| &all[..last]);
        let before = Path::parse(before).unwrap_or_default();
        let prefix = (!self.prefix.is_root()).then_some(&self.prefix);
        let mut listed = self.store.list_with_offset(prefix, &before);
        while let Some(object) = listed.try_next().await? {
            if object.location == *path {
                return Ok(true);
            }
        }
        Ok(false)
    }

    pub(super) fn requests(&self) -> Requests {
        self.counters.requests()
    }

    /// Does what is asked. Of a list that is long `part` gets all but the last names, as they come.
    pub(super) async fn answer(&self, request: &Request, part: &mut Part<'_>) -> Answer {
        let timed = self.counters.timed(match request {
            Request::Create { .. } | Request::Overwrite { .. } => Some(&self.counters.put_nanos),
            Request::Get { .. } => Some(&self.counters.get_nanos),
            Request::List { .. } | Request::Delete { .. } => None,
        });
        let mut stopped = clock::look().stopped;
        let mut done = self.done(request, part).await;
        // What a list has handed on it would hand on twice.
        let is_list = matches!(request, Request::List { .. });
        while is_of_a_stop(&done, &mut stopped) && !is_list {
            done = self.done(request, part).await;
        }
        drop(timed);
        let failed = match done {
            Ok(answer) => return answer,
            Err(failure) => failure,
        };
        let why = match failed {
            Failure::Late(limit) => format!("no answer in {limit:?}"),
            Failure::Gone(why) => {
                self.counters.failed.fetch_add(1, Relaxed);
                return Answer::Refused(Refusal::Access, why);
            }
            Failure::Store(error) => match (said(&error), request) {
                (Said::Absent, Request::Get { .. }) => return Answer::Absent,
                (Said::Exists, Request::Create { .. }) => return Answer::Exists,
                (Said::Failed, _) => say(&error),
                (said @ (Said::Absent | Said::Exists | Said::Refused(_)), _) => {
                    self.counters.failed.fetch_add(1, Relaxed);
                    let refusal = match said {
                        Said::Refused(refusal) => refusal,
                        _ => Refusal::Access,
                    };
                    return Answer::Refused(refusal, say(&error));
                }
            },
        };
        self.counters.failed.fetch_add(1, Relaxed);
        Answer::Failed(why)
    }

    async fn in_time<T>(&self, of: impl Future<Output = Result<T, StoreError>>) -> Result<T, Failure> {
        let done = clock::within(self.timeout, of).await;
        done.ok_or(Failure::Late(self.timeout))?.map_err(Failure::Store)
    }

    /// Part of an object, for a caller that waits for it; counted as those of the machine are.
    ///
    /// # Errors
    /// The store's.
    pub(super) async fn read(&self, key: Key, range: Range<u64>) -> Result<Bytes, NotRead> {
        let timed = self.counters.timed(Some(&self.counters.get_nanos));
        let mut stopped = clock::look().stopped;
        let mut read = self.get(key, Some(range.clone())).await;
        while is_of_a_stop(&read, &mut stopped) {
            read = self.get(key, Some(range.clone())).await;
        }
        drop(timed);
        let failed = match read {
            Ok(bytes) => return Ok(bytes),
            Err(Failure::Store(error)) if matches!(said(&error), Said::Absent) => {
                return Err(NotRead::Absent);
            }
            Err(Failure::Store(error)) => say(&error),
            Err(Failure::Late(limit)) => format!("no answer in {limit:?}"),
            Err(Failure::Gone(why)) => why,
        };
        self.counters.failed.fetch_add(1, Relaxed);
        Err(NotRead::Failed(failed))
    }

    /// The same. Small parts that are near one another are read together, and some are here before they are asked for.
    /// `is_again`: it is likely to be asked for once more.
    ///
    /// # Errors
    /// The store's.
    pub(super) async fn read_nearby(
        &self,
        key: Key,
        range: Range<u64>,
        is_again: bool,
    ) -> Result<Bytes, NotRead> {
        let wanted = match self.nearby.find(key, &range) {
            Ok(bytes) => return Ok(bytes),
            Err(wanted) => wanted,
        };
        let bytes = self.read(key, wanted.clone()).await?;
        if wanted != range || is_again {
            self.nearby.keep(key, wanted.start, &bytes);
        }
        let len = (range.end - range.start).min(bytes.len() as u64) as usize;
        Ok(bytes.slice(..len))
    }

    /// Bytes that have come or gone: whether anything gets on.
    pub(super) fn done_bytes(&self) -> u64 {
        self.counters.done_bytes.load(Relaxed)
    }

    /// Before each request.
    async fn begins(&self) -> Result<(), Failure> {
        if !self.delay.is_zero() {
            tokio::time::sleep(self.delay).await;
        }
        match &self.home {
            Some(home) if !home.is_there() => Err(Failure::Gone(home.gone())),
            _ => Ok(()),
        }
    }

    async fn done(&self, request: &Request, part: &mut Part<'_>) -> Result<Answer, Failure> {
        match request {
            Request::Create { key, body } => self.put(*key, body, PutMode::Create).await,
            Request::Overwrite { key, body } => self.put(*key, body, PutMode::Overwrite).await,
            Request::Get { key, range } => self.get(*key, range.clone()).await.map(Answer::Bytes),
            Request::List { kind, after } => self.list(*kind, *after, part).await,
            Request::Delete { keys } => self.delete(keys).await,
        }
    }

    async fn delete(&self, keys: &[Key]) -> Result<Answer, Failure> {
        self.begins().await?;
        self.counters.deletes.fetch_add(keys.len() as u64, Relaxed);
        let paths: Vec<_> = keys.iter().map(|key| Ok(self.path(&key.to_string()))).collect();
        let mut deleted = self.store.delete_stream(stream::iter(paths).boxed());
        while let Some(result) = clock::within(self.timeout, deleted.next())
            .await
            .ok_or(Failure::Late(self.timeout))?
        {
            match result {
                Ok(_) | Err(StoreError::NotFound { .. }) => {}
                Err(error) => return Err(Failure::Store(error)),
            }
        }
        Ok(Answer::Deleted)
    }

    async fn put(&self, key: Key, body: &Body, mode: PutMode) -> Result<Answer, Failure> {
        self.begins().await?;
        let payload: PutPayload = body.iter().cloned().collect();
        let bytes = payload.content_length() as u64;
        self.counters.puts.fetch_add(1, Relaxed);
        self.counters.put_bytes.fetch_add(bytes, Relaxed);
        let path = self.path(&key.to_string());
        let upload = self.pace.begins(bytes);
        let limit = upload.limit(self.timeout / 3);
        let put = self.uploads.put_opts(&path, payload, mode.into());
        match clock::within(limit, put).await {
            Some(Ok(_)) => {
                upload.is_there();
                self.counters.done_bytes.fetch_add(bytes, Relaxed);
                Ok(Answer::Stored)
            }
            Some(Err(error)) => Err(Failure::Store(error)),
            None => {
                drop(upload);
                if self.answers().await {
                    self.pace.is_slow();
                }
                Err(Failure::Late(limit))
            }
        }
    }

    /// Whether the store answers to something small.
    async fn answers(&self) -> bool {
        let options = GetOptions {
            head: true,
            ..GetOptions::default()
        };
        let probe = self.path(super::address::PROBE);
        let asked = self.store.get_opts(&probe, options);
        let answer = clock::within(self.timeout / 3, asked).await;
        matches!(answer, Some(Ok(_) | Err(StoreError::NotFound { .. })))
    }

    /// An object, or a part of it. However slow it comes: each piece of it has the time of a request.
    async fn get(&self, key: Key, range: Option<Range<u64>>) -> Result<Bytes, Failure> {
        self.begins().await?;
        let options = GetOptions {
            range: range.map(GetRange::Bounded),
            ..GetOptions::default()
        };
        self.counters.gets.fetch_add(1, Relaxed);
        let path = self.path(&key.to_string());
        let found = self.in_time(self.store.get_opts(&path, options)).await?;
        let len = found.range.end - found.range.start;
        let mut pieces = found.into_stream();
        let mut all = BytesMut::new();
        while let Some(piece) = self.in_time(pieces.try_next()).await? {
            self.counters.done_bytes.fetch_add(piece.len() as u64, Relaxed);
            self.counters.get_bytes.fetch_add(piece.len() as u64, Relaxed);
            // All of it in one piece needs no copy.
            if all.is_empty() && piece.len() as u64 == len {
                return Ok(piece);
            }
            if all.is_empty() {
                all.reserve(len as usize);
            }
            all.extend_from_slice(&piece);
        }
        Ok(all.freeze())
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
                self.begins().await?;
                self.counters.lists.fetch_add(1, Relaxed);
            }
            let Some(object) = self.in_time(found.try_next()).await? else {
                return Ok(Answer::Listed(listed));
            };
            names += 1;
            // What is there and is no object of a store is left alone.
            let (key, bytes) = (self.key(&object.location), object.size);
            let put_unix_ms = u64::try_from(object.last_modified.timestamp_millis()).unwrap_or(0);
            let key = key.filter(|key| key.kind() == kind);
            listed.extend(key.map(|key| Listed {
                key,
                bytes,
                put_unix_ms,
            }));
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
            None,
            Path::default(),
            String::from("s3://vol/"),
            &StoreOptions::new(),
        );
        assert_eq!(format!("{bucket:?}"), "Bucket { name: \"s3://vol/\", .. }");
    }
}
