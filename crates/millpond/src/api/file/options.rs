//! Options for opening a file, and advice on its use.

use crate::device::{Access, Making};
use crate::files::check::PageCheck;
use crate::files::order::{Held, LogOrder};
use crate::files::{StablePages, WritebackRules};
use std::fmt;
use std::io;
use std::path::PathBuf;
use std::sync::Arc;

/// Options for opening a file.
///
/// ```
/// use millpond::{OpenOptions, PageCache, StablePages};
/// # let folder = tempfile::tempdir()?;
/// # let path = folder.path().join("data");
/// let cache = PageCache::builder().build()?;
/// // Made if it is missing, for this process alone, and no page is changed while the device reads it.
/// let options = OpenOptions::new().create(true).exclusive(true).stable_pages(StablePages::Copy);
/// let file = cache.open(&path, options)?;
/// file.write_at(&[1; 4096], 0)?;
///
/// let reader = cache.open(&path, OpenOptions::new())?; // the same pages, for reading only
/// assert_eq!(reader.page(0)?[0], 1);
/// assert!(reader.write_at(b"no", 0).is_err());
/// assert!(cache.open(&path, OpenOptions::new().create_new(true).mode(0o600)).is_err()); // it is there
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone)]
pub struct OpenOptions {
    write: bool,
    create: bool,
    making: Making,
    truncate: bool,
    exclusive: bool,
    beside_others: bool,
    stable: Option<StablePages>,
    log: Option<LogOrder>,
    check: Option<Arc<dyn PageCheck>>,
    shown: Option<PathBuf>,
}

impl Default for OpenOptions {
    fn default() -> Self {
        OpenOptions::new()
    }
}

impl OpenOptions {
    /// Opens an existing file for reading.
    pub fn new() -> OpenOptions {
        OpenOptions {
            write: false,
            create: false,
            making: Making::default(),
            truncate: false,
            exclusive: false,
            beside_others: false,
            stable: None,
            log: None,
            check: None,
            shown: None,
        }
    }

    /// Opens the file for reading and writing.
    pub fn write(mut self, write: bool) -> OpenOptions {
        self.write = write;
        self
    }

    /// Opens the file for reading and writing, and creates it if it does not exist.
    pub fn create(mut self, create: bool) -> OpenOptions {
        self.create = create;
        self.write |= create;
        self
    }

    /// Creates the file and opens it for reading and writing. If a file or a dangling link already exists, opening
    /// fails with [`Error::Open`](crate::Error::Open) of kind [`AlreadyExists`](std::io::ErrorKind::AlreadyExists). Of
    /// several concurrent attempts, exactly one succeeds.
    pub fn create_new(mut self, create_new: bool) -> OpenOptions {
        self.making.new = create_new;
        if create_new { self.create(true) } else { self }
    }

    /// Sets the permissions of a newly created file, before the process's umask applies. Default: `0o666`. An existing
    /// file keeps its own. If the mode denies the owner reading or writing, transfers go through the kernel's page
    /// cache ([`Notice`](crate::Notice)), because the system then refuses to open the file again for direct I/O.
    pub fn mode(mut self, mode: u32) -> OpenOptions {
        self.making.mode = mode;
        self
    }

    /// Truncates an existing file to length 0 once this cache has it open for writing, as
    /// [`File::set_len`](crate::File::set_len) does: for all its handles, after waiting for guards of its pages.
    /// Requires write access.
    pub fn truncate(mut self, truncate: bool) -> OpenOptions {
        self.truncate = truncate;
        self
    }

    /// Locks the file until its last handle is dropped. Another process, or another cache of this process, that opens
    /// the file with this option gets an error, and so does this cache while a handle opened with it, or a clone of that
    /// handle, is in use. Opening also fails if the file is already locked with `fcntl`. Requires write access. The lock is an open file description lock (`F_OFD_SETLK`) on the whole file. It does not
    /// keep out processes that take no lock, and a forked child does not share it.
    pub fn exclusive(mut self, exclusive: bool) -> OpenOptions {
        self.exclusive = exclusive;
        self
    }

    /// Opens the file for writing even if another cache of this process has it open for writing, with a
    /// [`Notice::WrittenTwice`](crate::host::Notice::WrittenTwice). Each cache has its own pages, and overwrites what
    /// the other wrote to the same page. The caller must make sure that the two write different pages, and that neither
    /// reads what the other writes without [`File::invalidate`](crate::File::invalidate).
    pub fn beside_other_caches(mut self, beside: bool) -> OpenOptions {
        self.beside_others = beside;
        self
    }

    /// Sets what happens when a page is changed while it is being written. Default: [`StablePages::Off`], or
    /// [`StablePages::Copy`] for files with a log or a check, which do not allow `Off`.
    ///
    /// This setting, the log and the check belong to the file: all its handles share what the first one was opened
    /// with. Later handles need not name them; if they do, the values must be the same.
    pub fn stable_pages(mut self, stable: StablePages) -> OpenOptions {
        self.stable = Some(stable);
        self
    }

    /// Makes pages depend on records of this log. A page with an order
    /// ([`PageMut::set_order`](crate::PageMut::set_order)) is not written to the file before the log is durable up to
    /// that order.
    pub fn log(mut self, log: &LogOrder) -> OpenOptions {
        self.log = Some(log.clone());
        self
    }

    /// Sets a check that processes every page of the file when it is written and when it is read.
    pub fn check(mut self, check: Arc<dyn PageCheck>) -> OpenOptions {
        self.check = Some(check);
        self
    }

    /// Sets the name that messages, metrics and [`File::path`](crate::File::path) use for a file that is passed already
    /// open ([`PageCache::open_file`](crate::PageCache::open_file)). The first handle's name counts. Without it, they
    /// use the system's name for the file.
    pub fn shown_as(mut self, name: impl Into<PathBuf>) -> OpenOptions {
        self.shown = Some(name.into());
        self
    }

    pub(crate) fn shown(&self) -> Option<&PathBuf> {
        self.shown.as_ref()
    }

    pub(crate) fn access(&self) -> Access {
        match (self.write, self.create) {
            (_, true) => Access::Create,
            (true, false) => Access::ReadWrite,
            (false, false) => Access::Read,
        }
    }

    /// Returns the writeback rules of the file's pages.
    ///
    /// # Errors
    /// If the options contradict each other.
    pub(crate) fn writeback_rules(&self) -> io::Result<WritebackRules> {
        let refused = |why: &str| Err(io::Error::new(io::ErrorKind::InvalidInput, why));
        if self.is_exclusive() && !self.writes() {
            return refused(
                "only a handle for writing can lock a file: set OpenOptions::write(true) with exclusive(true)",
            );
        }
        if self.truncates() && !self.writes() {
            return refused(
                "only a handle for writing can cut a file: set OpenOptions::write(true) with truncate(true)",
            );
        }
        let needs = self.log.is_some() || self.check.is_some();
        let stable = match self.stable {
            None if needs => StablePages::Copy,
            None => StablePages::Off,
            Some(StablePages::Wait) if self.check.is_some() => {
                return refused(
                    "a check stamps a private copy of each page: leave StablePages at Copy, its default then",
                );
            }
            Some(StablePages::Off) if needs => {
                return refused("a log and a check need stable pages: choose StablePages::Copy");
            }
            Some(stable) => stable,
        };
        Ok(WritebackRules {
            stable,
            held: self.log.as_ref().map(|order| Held::new(order.log().clone())),
            check: self.check.clone(),
        })
    }

    /// Checks that a handle with these options can join a file whose pages follow `kept`.
    ///
    /// # Errors
    /// If they differ from those of the first handle.
    pub(crate) fn agree_with(&self, kept: &WritebackRules) -> io::Result<()> {
        let log = self.log.as_ref().is_none_or(|order| {
            let held = kept.held.as_ref();
            held.is_some_and(|held| Arc::ptr_eq(&held.log, order.log()))
        });
        let check = self.check.as_ref().is_none_or(|check| {
            let own = kept.check.as_ref();
            own.is_some_and(|own| std::ptr::addr_eq(Arc::as_ptr(own), Arc::as_ptr(check)))
        });
        let stable = self.stable.is_none_or(|stable| stable == kept.stable);
        if log && check && stable {
            return Ok(());
        }
        let why = "it is open already with another log, check or choice of stable pages: all its handles share those of \
                   the first";
        Err(io::Error::new(io::ErrorKind::InvalidInput, why))
    }

    pub(crate) fn writes(&self) -> bool {
        self.write
    }

    pub(crate) fn making(&self) -> Making {
        self.making
    }

    pub(crate) fn makes_new(&self) -> bool {
        self.making.new
    }

    pub(crate) fn truncates(&self) -> bool {
        self.truncate
    }

    pub(crate) fn is_exclusive(&self) -> bool {
        self.exclusive
    }

    pub(crate) fn is_beside_others(&self) -> bool {
        self.beside_others
    }
}

impl fmt::Debug for OpenOptions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("OpenOptions")
            .field("write", &self.write)
            .field("create", &self.create)
            .field("create_new", &self.making.new)
            .field("mode", &format_args!("{:#o}", self.making.mode))
            .field("truncate", &self.truncate)
            .field("exclusive", &self.exclusive)
            .field("beside_other_caches", &self.beside_others)
            .field("stable", &self.stable)
            .field("log", &self.log)
            .field("check", &self.check.is_some())
            .field("shown_as", &self.shown)
            .finish()
    }
}

/// The expected access pattern of a file.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum Advice {
    /// Detect the pattern: read ahead when reads turn out to be sequential. The default.
    Normal,
    /// Never read ahead.
    Random,
    /// Read ahead with the largest window from the start.
    Sequential,
    /// Records of this many bytes, rounded up to whole pages, each at a multiple of its size. When a guard or a mapping
    /// misses a page, the cache reads the missing part of its record, in one request if possible, and reads nothing
    /// ahead. At most 4 MiB; 0 is the same as `Random`.
    Records(u64),
}
