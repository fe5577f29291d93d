//! User-defined checks of pages on their way to and from a file.

/// Processes every page of a file when it is written and when it is read, typically for checksums.
///
/// Set with [`OpenOptions::check`](crate::OpenOptions::check). Any thread that reads or writes calls these methods,
/// concurrently; they must not use files of the cache. Their run time adds to that of a fault, a sync or the cache's
/// thread. If one panics, the cache is poisoned.
///
/// ```
/// use millpond::{OpenOptions, PageCache, PageCheck};
/// use std::sync::Arc;
///
/// /// The sum of the others in the last byte.
/// struct Sum;
///
/// fn sum(bytes: &[u8]) -> u8 {
///     bytes[..bytes.len() - 1].iter().fold(0, |sum, byte| sum.wrapping_add(*byte))
/// }
///
/// impl PageCheck for Sum {
///     fn before_write(&self, _: u64, bytes: &mut [u8]) {
///         *bytes.last_mut().unwrap() = sum(bytes);
///     }
///
///     fn after_read(&self, _: u64, bytes: &[u8]) -> Result<(), String> {
///         let (is, shall) = (bytes[bytes.len() - 1], sum(bytes));
///         if is == shall { Ok(()) } else { Err(format!("its sum is {is} and should be {shall}")) }
///     }
/// }
///
/// # let folder = tempfile::tempdir()?;
/// # let path = folder.path().join("pages");
/// let cache = PageCache::builder().build()?;
/// let options = OpenOptions::new().create(true).check(Arc::new(Sum));
/// let file = cache.open(&path, options.clone())?;
/// file.set_len(4096)?;
/// file.page_mut(0)?[0] = 7;
/// file.close()?;
///
/// std::fs::OpenOptions::new().write(true).open(&path).and_then(|mut file| std::io::Write::write(&mut file, b"?"))?;
/// let error = cache.open(&path, options)?.page(0).unwrap_err().to_string();
/// assert!(error.ends_with("is not as it was written: its sum is 7 and should be 63"), "{error}");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub trait PageCheck: Send + Sync {
    /// Called before page number `page` is written. `bytes` is a private copy of the whole page, with zeros past the
    /// end of the file. Its content after the call is written, up to the end of the file. The page in memory does not
    /// change.
    fn before_write(&self, page: u64, bytes: &mut [u8]);

    /// Called after page number `page` was read. `bytes` is the whole page, with zeros past the end of the file. Holes
    /// of the file also read as zeros.
    ///
    /// # Errors
    /// A description of the problem. The page's reader gets it as [`Error::Check`](crate::Error::Check), and the page
    /// does not enter memory.
    fn after_read(&self, page: u64, bytes: &[u8]) -> Result<(), String>;
}
