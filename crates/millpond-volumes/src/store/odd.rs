//! Stores in memory that do one thing as they should not, and what is made of them.

use super::bucket::Bucket;
use super::driver::wait_for;
use super::{Error, Store, StoreOptions};
use crate::format::{Key, Kind};
use crate::layout::{Answer, Request};
use futures_util::stream::{self, BoxStream};
use futures_util::{FutureExt, StreamExt};
use object_store::memory::InMemory;
use object_store::path::Path;
use object_store::{
    CopyOptions, Error as StoreError, GetOptions, GetResult, ListResult, MultipartUpload, ObjectMeta,
    ObjectStore, ObjectStoreExt, PutMode, PutMultipartOptions, PutOptions, PutPayload, PutResult, Result,
};
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Oddity {
    /// `If-None-Match` does nothing.
    Overwrites,
    /// It is refused.
    RefusesConditions,
    /// What is deleted is there all the same, as if the process had ended before.
    KeepsAll,
    /// So long for a thousand names of a list.
    ListsSlowly(Duration),
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
        self.inner.get_opts(path, options).await
    }

    fn delete_stream(&self, paths: BoxStream<'static, Result<Path>>) -> BoxStream<'static, Result<Path>> {
        match self.oddity {
            Oddity::KeepsAll => paths,
            _ => self.inner.delete_stream(paths),
        }
    }

    fn list(&self, prefix: Option<&Path>) -> BoxStream<'static, Result<ObjectMeta>> {
        let listed = self.inner.list(prefix);
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
    let bucket = Bucket::new(store.clone(), Path::default(), String::from("here"), options);
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
