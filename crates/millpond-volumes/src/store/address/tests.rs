use super::super::Store;
use super::*;
use futures_util::stream::BoxStream;
use object_store::{
    CopyOptions, GetOptions, GetResult, ListResult, MultipartUpload, ObjectMeta, PutMultipartOptions,
    PutOptions, PutPayload, PutResult, Result,
};
use std::fmt;

/// A store whose `If-None-Match` does nothing, or is refused.
#[derive(Debug)]
struct Unconditional {
    inner: InMemory,
    is_refused: bool,
}

impl fmt::Display for Unconditional {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("no conditional PUT")
    }
}

#[async_trait::async_trait]
impl ObjectStore for Unconditional {
    async fn put_opts(&self, path: &Path, payload: PutPayload, options: PutOptions) -> Result<PutResult> {
        if self.is_refused && options.mode == PutMode::Create {
            return Err(StoreError::NotImplemented {
                operation: String::from("PutMode::Create"),
                implementer: self.to_string(),
            });
        }
        self.inner
            .put_opts(path, payload, PutMode::Overwrite.into())
            .await
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
        self.inner.delete_stream(paths)
    }

    fn list(&self, prefix: Option<&Path>) -> BoxStream<'static, Result<ObjectMeta>> {
        self.inner.list(prefix)
    }

    async fn list_with_delimiter(&self, prefix: Option<&Path>) -> Result<ListResult> {
        self.inner.list_with_delimiter(prefix).await
    }

    async fn copy_opts(&self, from: &Path, to: &Path, options: CopyOptions) -> Result<()> {
        self.inner.copy_opts(from, to, options).await
    }
}

#[test]
fn a_store_without_a_conditional_put_that_works_is_refused_and_left_as_it_was() {
    for is_refused in [false, true] {
        let inner = InMemory::new();
        let store = Arc::new(Unconditional { inner, is_refused });
        let options = StoreOptions::new();
        let bucket = Bucket::new(store.clone(), Path::default(), String::from("here"), &options);
        let error = Store::open_in(Arc::new(bucket), options).unwrap_err();
        assert!(
            matches!(&error, Error::NoConditionalPut(name) if name == "here"),
            "{error}"
        );
        let left = store.inner.list_with_delimiter(None);
        let left = futures_util::FutureExt::now_or_never(left).unwrap().unwrap();
        assert_eq!((left.objects.len(), left.common_prefixes.len()), (0, 0));
    }
}
