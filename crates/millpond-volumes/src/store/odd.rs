//! In-memory stores that each misbehave in one way, and how they are handled.

use super::bucket::Bucket;
use super::driver::wait_for;
use super::{Error, Pinning, Store, StoreOptions, StoreReader};
use crate::format::{Key, Kind};
use crate::layout::{Answer, Request};
use futures_util::stream::{self, BoxStream};
use futures_util::{FutureExt, StreamExt, TryStreamExt};
use object_store::memory::InMemory;
use object_store::path::Path;
use object_store::{
    CopyOptions, Error as StoreError, GetOptions, GetResult, GetResultPayload, ListResult, MultipartUpload,
    ObjectMeta, ObjectStore, ObjectStoreExt, PutMode, PutMultipartOptions, PutOptions, PutPayload, PutResult,
    Result,
};
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::{Duration, Instant};

#[derive(Clone, Copy, Debug)]
enum Oddity {
    /// `If-None-Match` does nothing.
    Overwrites,
    /// It is refused.
    RefusesConditions,
    /// What is deleted is there all the same, as if the process had ended before.
    KeepsAll,
    /// So long for a thousand names of a list.
    ListsSlowly(Duration),
    /// A list has other names than what is there.
    ListsOthers,
    /// So many puts fail, one after the other.
    Fails(&'static AtomicU64),
    /// Nothing may be put.
    IsReadOnly(&'static AtomicU64),
    /// A bit flips in so many answers, one after the other.
    Flips(&'static AtomicU64),
}

/// Whether it is one of so many.
fn is_one_of(left: &AtomicU64) -> bool {
    left.fetch_update(Relaxed, Relaxed, |left| left.checked_sub(1))
        .is_ok()
}

#[derive(Debug)]
struct Odd {
    inner: InMemory,
    oddity: Oddity,
}

impl fmt::Display for Odd {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}", self.oddity)
    }
}

#[async_trait::async_trait]
impl ObjectStore for Odd {
    async fn put_opts(&self, path: &Path, payload: PutPayload, options: PutOptions) -> Result<PutResult> {
        let options = match self.oddity {
            Oddity::RefusesConditions if options.mode == PutMode::Create => {
                return Err(StoreError::NotImplemented {
                    operation: String::from("PutMode::Create"),
                    implementer: self.to_string(),
                });
            }
            Oddity::Fails(left) if is_one_of(left) => {
                return Err(StoreError::Generic {
                    store: "odd",
                    source: "connection reset".into(),
                });
            }
            Oddity::IsReadOnly(is) if is.load(Relaxed) > 0 => {
                return Err(StoreError::PermissionDenied {
                    path: path.to_string(),
                    source: "AccessDenied".into(),
                });
            }
            Oddity::Overwrites => PutMode::Overwrite.into(),
            _ => options,
        };
        self.inner.put_opts(path, payload, options).await
    }

    async fn put_multipart_opts(
        &self,
        path: &Path,
        options: PutMultipartOptions,
    ) -> Result<Box<dyn MultipartUpload>> {
        self.inner.put_multipart_opts(path, options).await
    }

    async fn get_opts(&self, path: &Path, options: GetOptions) -> Result<GetResult> {
        let found = self.inner.get_opts(path, options).await?;
        if !matches!(self.oddity, Oddity::Flips(left) if is_one_of(left)) {
            return Ok(found);
        }
        let (meta, range, attributes) = (found.meta.clone(), found.range.clone(), found.attributes.clone());
        let extensions = found.extensions.clone();
        let mut bytes = found.bytes().await?.to_vec();
        if let Some(last) = bytes.last_mut() {
            *last ^= 1;
        }
        let payload = GetResultPayload::Stream(stream::iter([Ok(bytes.into())]).boxed());
        Ok(GetResult {
            payload,
            meta,
            range,
            attributes,
            extensions,
        })
    }

    fn delete_stream(&self, paths: BoxStream<'static, Result<Path>>) -> BoxStream<'static, Result<Path>> {
        match self.oddity {
            Oddity::KeepsAll => paths,
            _ => self.inner.delete_stream(paths),
        }
    }

    fn list(&self, prefix: Option<&Path>) -> BoxStream<'static, Result<ObjectMeta>> {
        let listed = self.inner.list(prefix);
        if matches!(self.oddity, Oddity::ListsOthers) {
            let others = listed.map_ok(|object| ObjectMeta {
                location: Path::from(object.location.as_ref().replace('o', "%6F")),
                ..object
            });
            return others.boxed();
        }
        let Oddity::ListsSlowly(pause) = self.oddity else {
            return listed;
        };
        let pages = listed.chunks(1000).then(move |page| async move {
            tokio::time::sleep(pause).await;
            stream::iter(page)
        });
        pages.flatten().boxed()
    }

    async fn list_with_delimiter(&self, prefix: Option<&Path>) -> Result<ListResult> {
        self.inner.list_with_delimiter(prefix).await
    }

    async fn copy_opts(&self, from: &Path, to: &Path, options: CopyOptions) -> Result<()> {
        self.inner.copy_opts(from, to, options).await
    }
}

fn odd(oddity: Oddity, options: &StoreOptions) -> (Arc<Odd>, Arc<Bucket>) {
    let inner = InMemory::new();
    let store = Arc::new(Odd { inner, oddity });
    let bucket = Bucket::new(
        store.clone(),
        None,
        Path::default(),
        String::from("here"),
        options,
    );
    (store, Arc::new(bucket))
}

/// The names beside those of commits, chunks, checkpoints and pins.
fn beside(store: &Odd) -> Vec<String> {
    let left = store.inner.list_with_delimiter(None).now_or_never();
    let left = left.unwrap().unwrap();
    left.objects
        .iter()
        .map(|object| object.location.to_string())
        .collect()
}

#[test]
fn a_store_without_a_conditional_put_that_works_is_refused_and_left_as_it_was() {
    for oddity in [Oddity::Overwrites, Oddity::RefusesConditions] {
        let options = StoreOptions::new();
        let (store, bucket) = odd(oddity, &options);
        let error = Store::open_in(bucket, options).unwrap_err();
        assert!(
            matches!(&error, Error::NoConditionalPut(name) if name == "here"),
            "{error}"
        );
        let left = store.inner.list_with_delimiter(None).now_or_never();
        let left = left.unwrap().unwrap();
        assert_eq!((left.objects.len(), left.common_prefixes.len()), (0, 0));
    }
}

#[test]
fn a_store_that_does_not_list_what_is_there_is_refused() {
    let options = StoreOptions::new();
    let (_, bucket) = odd(Oddity::ListsOthers, &options);
    let error = Store::open_in(bucket, options).unwrap_err();
    assert!(matches!(&error, Error::Lists(name) if name == "here"), "{error}");
}

/// Two in a row, and later for half of the time that a sync has.
#[test]
fn a_sync_goes_on_while_there_is_time() {
    static FAILS: AtomicU64 = AtomicU64::new(0);
    let limit = Duration::from_secs(4);
    let options = StoreOptions::new().sync_timeout(limit);
    let (_, bucket) = odd(Oddity::Fails(&FAILS), &options);
    let store = Store::open_in(bucket, options).unwrap();
    let file = store.create("a").unwrap();
    for fails in [2, 3] {
        FAILS.store(fails, Relaxed);
        file.write_at(b"pond", 0).unwrap();
        store.sync().unwrap();
    }
    FAILS.store(u64::MAX, Relaxed);
    file.write_at(b"lake", 0).unwrap();
    let begun = Instant::now();
    let error = store.sync().unwrap_err().to_string();
    assert!(
        error.contains("connection reset") && begun.elapsed() >= limit / 2,
        "{error}"
    );
    FAILS.store(0, Relaxed);
    store.sync().unwrap();
}

#[test]
fn one_that_may_only_read_reads_without_a_pin() {
    static IS: AtomicU64 = AtomicU64::new(0);
    let options = StoreOptions::new().sync_timeout(Duration::from_secs(100));
    let (store, bucket) = odd(Oddity::IsReadOnly(&IS), &options);
    let writer = Store::open_in(bucket.clone(), options.clone()).unwrap();
    writer.create("a").unwrap().write_at(b"pond", 0).unwrap();
    writer.sync().unwrap();
    let has_pin = || {
        let listed = store.inner.list(Some(&Path::from("p"))).next().now_or_never();
        listed.unwrap().is_some()
    };
    let read = |options: StoreOptions| {
        let reader = StoreReader::open_in(bucket.clone(), options)?;
        let mut bytes = [0; 4];
        reader.open_file("a")?.read_at(&mut bytes, 0)?;
        assert_eq!(&bytes, b"pond");
        Ok::<_, Error>((reader.unpinned(), has_pin()))
    };
    assert_eq!(read(options.clone()).unwrap(), (None, true));
    let (why, is_pinned) = read(options.clone().pinning(Pinning::Never)).unwrap();
    assert!(why.is_some() && !is_pinned);
    IS.store(1, Relaxed);
    let begun = Instant::now();
    let (why, _) = read(options.clone()).unwrap();
    assert!(why.is_some_and(|why| why.contains("p/") && why.contains("AccessDenied")));
    let error = read(options.clone().pinning(Pinning::Always))
        .unwrap_err()
        .to_string();
    assert!(
        error.contains("AccessDenied") && error.contains("StoreOptions::pinning"),
        "{error}"
    );
    // What is refused is said at once, to a writer as well.
    writer.open_file("a").unwrap().write_at(b"lake", 0).unwrap();
    let error = writer.sync().unwrap_err().to_string();
    assert!(error.contains("AccessDenied"), "{error}");
    let other = Store::open_in(bucket.clone(), options.take_over(true))
        .unwrap_err()
        .to_string();
    assert!(other.contains("AccessDenied"), "{other}");
    assert!(begun.elapsed() < Duration::from_secs(50));
    IS.store(0, Relaxed);
    writer.sync().unwrap();
}

#[test]
fn a_page_that_a_bit_flipped_in_on_its_way_is_read_again() {
    static FLIPS: AtomicU64 = AtomicU64::new(0);
    let options = StoreOptions::new();
    let (_, bucket) = odd(Oddity::Flips(&FLIPS), &options);
    let store = Store::open_in(bucket, options).unwrap();
    let file = store.create("a").unwrap();
    file.write_at(&[7; 100_000], 0).unwrap();
    store.sync().unwrap();
    let mut bytes = vec![0; 100_000];
    FLIPS.store(2, Relaxed);
    file.read_at(&mut bytes, 0).unwrap();
    assert!(bytes.iter().all(|byte| *byte == 7));
    FLIPS.store(u64::MAX, Relaxed);
    let error = file.read_at(&mut bytes, 0).unwrap_err().to_string();
    assert!(error.contains("damaged"), "{error}");
    FLIPS.store(0, Relaxed);
}

#[test]
fn however_often_a_store_is_opened_and_however_that_ends_one_object_is_for_the_test_of_its_conditions() {
    let options = StoreOptions::new().take_over(true);
    let (store, bucket) = odd(Oddity::KeepsAll, &options);
    for _ in 0..3 {
        drop(Store::open_in(bucket.clone(), options.clone()).unwrap());
        assert_eq!(beside(&store), ["probe"]);
    }
}

/// Each page of the list is in time, and all of it is not.
#[test]
fn a_list_of_any_length_is_read_page_by_page_each_of_which_has_the_time_of_a_request() {
    let limit = Duration::from_secs(1);
    let ask = |pause, names: u32| {
        let options = StoreOptions::new().request_timeout(limit);
        let (store, bucket) = odd(Oddity::ListsSlowly(pause), &options);
        for number in 0..names {
            let key = Key::Chunk { epoch: 1, number };
            let path = Path::from(key.to_string());
            let put = store.inner.put(&path, "page".into());
            put.now_or_never().unwrap().unwrap();
        }
        let runtime = super::driver::runtime().unwrap();
        let asked = wait_for(runtime.handle(), async move {
            let mut parts = Vec::new();
            let (kind, after) = (Kind::Chunk, None);
            let mut part = |listed: Vec<_>| parts.push(listed.len());
            let answer = bucket.answer(&Request::List { kind, after }, &mut part).await;
            (parts, answer, bucket.requests().lists)
        });
        asked.unwrap()
    };
    // Three times the limit is what a request may take.
    let (parts, answer, lists) = ask(limit * 3 / 2, 2500);
    assert!(
        matches!(&answer, Answer::Listed(rest) if rest.len() == 500),
        "{parts:?}"
    );
    assert_eq!((parts, lists), (vec![1000, 1000], 3));
    let (_, answer, _) = ask(limit * 20, 1);
    assert!(
        matches!(&answer, Answer::Failed(why) if why.contains("no answer in 3s")),
        "{answer:?}"
    );
}
