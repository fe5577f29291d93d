//! How a file is opened and used.

use crate::device::{Access, Making};
use crate::files::check::PageCheck;
use crate::files::order::{Held, LogOrder};
use crate::files::{StablePages, WritebackRules};
use std::fmt;
use std::io;
use std::path::PathBuf;
use std::sync::Arc;

/// How a file is opened.
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
    /// For reading a file that exists.
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

    /// Also for writing.
    pub fn write(mut self, write: bool) -> OpenOptions {
        self.write = write;
        self
    }

    /// Also for writing, and a file that does not exist is made.
    pub fn create(mut self, create: bool) -> OpenOptions {
        self.create = create;
        self.write |= create;
        self
    }

    /// Also for writing, and the file is made: one that exists already, a dangling link too, is an
    /// [`Error::Open`](crate::Error::Open) of [`AlreadyExists`](std::io::ErrorKind::AlreadyExists). Of several attempts
    /// at once, one succeeds.
    pub fn create_new(mut self, create_new: bool) -> OpenOptions {
        self.making.new = create_new;
        if create_new { self.create(true) } else { self }
    }

    /// The permissions of a file that is made, less those that the process's umask takes away: `0o666` by default. A file
    /// that exists keeps its own. Without read and write for the owner the file is reached through the kernel's cache
    /// ([`Notice`](crate::Notice)), since the system does not let it be opened for direct transfers too.
    pub fn mode(mut self, mode: u32) -> OpenOptions {
        self.making.mode = mode;
        self
    }

    /// A file that exists is cut to no bytes, once this cache has it for writing: as [`File::set_len`](crate::File::set_len),
    /// for all its handles, and waiting for guards of its pages. For handles that write.
    pub fn truncate(mut self, truncate: bool) -> OpenOptions {
        self.truncate = truncate;
        self
    }

    /// For this cache alone, as far as others ask: the file is locked until its last handle is dropped. Another
    /// process, or another cache of this one, gets an error if it opens the file with this option, too. So does this
    /// cache if the file is locked by `fcntl` already. For handles that write. The lock is one of the open file
    /// (`F_OFD_SETLK`) on all of it. It keeps out no process that does not lock, and a forked child has no part in it.
    pub fn exclusive(mut self, exclusive: bool) -> OpenOptions {
        self.exclusive = exclusive;
        self
    }

    /// The file is opened for writing also if another cache of this process has it open for writing, with a
    /// [`Notice::WrittenTwice`](crate::host::Notice::WrittenTwice). Each of the two has its own pages and overwrites what the
    /// other has written to the same page. The caller makes sure that they write different pages, and that neither
    /// reads what the other writes without [`File::invalidate`](crate::File::invalidate).
    pub fn beside_other_caches(mut self, beside: bool) -> OpenOptions {
        self.beside_others = beside;
        self
    }

    /// What happens when a page is changed while it is being written: [`StablePages::Off`] by default, and
    /// [`StablePages::Copy`] for files with a log or a check, which can't do with `Off`.
    ///
    /// This, the log and the check are those of the file: its handles share what the first one was opened with. Another
    /// handle need not name them; if it does, they must be the same.
    pub fn stable_pages(mut self, stable: StablePages) -> OpenOptions {
        self.stable = Some(stable);
        self
    }

    /// Pages depend on records of this log: those with an order ([`PageMut::set_order`](crate::PageMut::set_order)) are
    /// not written to the file before the log is durable up to it.
    pub fn log(mut self, log: &LogOrder) -> OpenOptions {
        self.log = Some(log.clone());
        self
    }

    /// Every page of the file passes this when it is written and when it is read.
    pub fn check(mut self, check: Arc<dyn PageCheck>) -> OpenOptions {
        self.check = Some(check);
        self
    }

    /// What messages, figures and [`File::path`](crate::File::path) call a file that is given open
    /// ([`PageCache::open_file`](crate::PageCache::open_file)), by its first handle. Without it they say what the system does.
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

    /// What the file's pages are kept to.
    ///
    /// # Errors
    /// If the options exclude one another.
    pub(crate) fn writeback_rules(&self) -> io::Result<WritebackRules> {
        let refused = |why: &str| Err(io::Error::new(io::ErrorKind::InvalidInput, why));
        if self.is_exclusive() && !self.writes() {
            return refused(
                "only a handle for writing can lock a file: say OpenOptions::write(true) beside exclusive(true)",
            );
        }
        if self.truncates() && !self.writes() {
            return refused(
                "only a handle for writing can cut a file: say OpenOptions::write(true) beside truncate(true)",
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

    /// Whether a handle with these options can be one of a file whose pages are kept to `kept`.
    ///
    /// # Errors
    /// If they ask for something else than the first handle did.
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

/// How a user expects to use a file.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum Advice {
    /// Find out: read ahead when reads turn out to be sequential. The default.
    Normal,
    /// Never read ahead.
    Random,
    /// Read ahead with the largest window at once.
    Sequential,
    /// It is read in records of so many bytes, rounded up to whole pages, each beginning at a multiple of that: a page that is
    /// missing for a guard or a mapping is read with what is missing of its record, by one request if it can be, and nothing
    /// is read ahead. At most 4 MiB; records of 0 bytes are as `Random`.
    Records(u64),
}
