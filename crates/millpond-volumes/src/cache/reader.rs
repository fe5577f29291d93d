//! A store that is read, whose files are files of a cache.

use super::CacheError;
use super::below::Below;
use super::device::{Backing, Quota, Volumes, lock};
use crate::store::{Entry, Error, FileVersion, HeldFile, StoreOptions, StoreReader, WeakStore};
use bytes::Bytes;
use millpond::{Advice, File, OpenOptions, PageCache, SetAside};
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

/// A store open for reading whose files are files of a cache: with its pages, budget and read-ahead.
///
/// A file stays as of the commit at which it was opened. The reader goes on ([`StoreReader::age`]): opening the file again is
/// how to have what is newer. While an earlier version is open, pages in memory that have not changed since are copied: only
/// changed ones are read from the store. The reader's pin keeps what open files have; without a pin their reads fail with `ESTALE` once
/// that was superseded and a grace has passed ([`StoreOptions::pinning`]).
#[derive(Debug)]
pub struct CacheReader {
    reader: StoreReader,
    cache: PageCache,
    volumes: Arc<Volumes>,
    quota: Arc<Quota>,
    /// The reader's part of the cache's budget, and that of its disk tier.
    _set_aside: (SetAside, Option<SetAside>),
    /// Files as they were opened last, by name.
    open: Mutex<Open>,
}

type Open = BTreeMap<String, Weak<Backing>>;

impl Volumes {
    /// Opens a store for reading whose files are files of `cache`, which must use this device.
    ///
    /// The memory for transfers is taken from the cache's current budget until this is dropped: 44 of 512 MiB. The map of
    /// the store is beside it.
    ///
    /// # Errors
    /// [`CacheError::OtherDevice`] if the cache was built without this device. As [`PageCache::set_aside`], and
    /// [`StoreReader::open`].
    pub fn reader(
        self: &Arc<Volumes>,
        cache: &PageCache,
        url: &str,
        options: StoreOptions,
    ) -> Result<CacheReader, CacheError> {
        let share = self.share_of(cache, options.held())?;
        let set_aside = cache.set_aside(share.reading_bytes())?;
        let reader = StoreReader::open(
            url,
            options
                .tier_queue_bytes(share.tier())
                .nearby_bytes(share.nearby()),
        )?;
        let of_tier = reader.tier().map(|tier| cache.set_aside(tier.memory_bytes));
        self.watch(WeakStore::of_reader(&reader));
        Ok(CacheReader {
            reader,
            cache: cache.clone(),
            volumes: self.clone(),
            quota: Quota::new(share),
            _set_aside: (set_aside, of_tier.transpose()?),
            open: Mutex::default(),
        })
    }
}

impl CacheReader {
    /// Opens a file for reading, as of the reader's current commit. Handles that have the same bytes share their pages.
    ///
    /// # Errors
    /// If there is no file with this name.
    pub fn open(&self, name: &str) -> Result<File, CacheError> {
        let mut files = self.files();
        match files.get(name).and_then(Weak::upgrade) {
            Some(known) if known.file.is_current() => self.handle(&known),
            earlier => {
                let backing = self.back(&mut files, name, self.reader.hold_file(name)?)?;
                drop(files);
                self.after(earlier, &backing)
            }
        }
    }

    /// Opens a file for reading, as of a version that it had when the reader was at `commit`, or earlier. Its bytes are there
    /// for as long as [`StoreOptions::pinning`] says, at least for a grace.
    ///
    /// # Errors
    /// If that is no file.
    pub fn open_version(&self, version: &FileVersion, commit: u64) -> Result<File, CacheError> {
        let (mut files, name) = (self.files(), version.name());
        match files.get(name).and_then(Weak::upgrade) {
            Some(known) if known.file.is(version) => self.handle(&known),
            earlier => {
                let held = HeldFile::of(&self.reader, version, commit);
                let held = held.ok_or_else(|| Error::NoFile(name.to_owned()))?;
                let backing = self.back(&mut files, name, held)?;
                drop(files);
                self.after(earlier, &backing)
            }
        }
    }

    /// A handle of a new version, with the pages in memory that an earlier one has, too.
    fn after(&self, earlier: Option<Arc<Backing>>, backing: &Arc<Backing>) -> Result<File, CacheError> {
        let file = self.handle(backing)?;
        if let Some(earlier) = earlier {
            // What fails here is read from the store when it is asked for.
            let _ = self.carry(&earlier, backing, &file);
        }
        Ok(file)
    }

    /// Copies pages in memory that have stayed where they were.
    fn carry(&self, earlier: &Arc<Backing>, backing: &Arc<Backing>, file: &File) -> Result<(), CacheError> {
        let cached = self.handle(earlier)?;
        let size = self.cache.page_size();
        // Each alone: what is ahead of it may have changed.
        file.advise(Advice::Random)?;
        for page in 0..cached.len().min(file.len()) / size {
            let bytes = page * size..(page + 1) * size;
            let Some(found) = cached.try_page(page)? else {
                continue;
            };
            if !backing.file.has_kept(&earlier.file, bytes.clone()) {
                continue;
            }
            let copy = Bytes::copy_from_slice(&found);
            drop(found);
            *lock(&backing.carried) = Some((bytes.start, copy));
            // Read, so that it is there; nobody needs the guard.
            drop(file.page(page)?);
        }
        lock(&backing.carried).take();
        Ok(file.advise(Advice::Normal)?)
    }

    fn files(&self) -> MutexGuard<'_, Open> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn back(&self, files: &mut Open, name: &str, held: HeldFile) -> Result<Arc<Backing>, CacheError> {
        let backing = Volumes::stand_in((self.reader.name(), name), Below::Held(held), &self.quota)?;
        files.retain(|_, backing| backing.strong_count() > 0);
        files.insert(name.to_owned(), Arc::downgrade(&backing));
        Ok(backing)
    }

    fn handle(&self, backing: &Arc<Backing>) -> Result<File, CacheError> {
        let stand_in = backing.stand_in.try_clone().map_err(Error::System)?;
        let was_known = self.volumes.knows(backing);
        let options = OpenOptions::new().shown_as(&backing.shown);
        match self.cache.open_file(stand_in, options) {
            Ok(file) => {
                // Its last handle may have been dropped just before this one was there.
                self.volumes.knows(backing);
                Ok(file)
            }
            Err(error) => {
                if !was_known {
                    self.volumes.forgets(backing.identity);
                }
                Err(error.into())
            }
        }
    }

    /// The files by name, as of the reader's current commit.
    pub fn list(&self) -> Vec<Entry> {
        self.reader.list()
    }

    /// The cache that has its pages.
    pub fn cache(&self) -> &PageCache {
        &self.cache
    }

    /// The reader below: its commit and age, `poll`, snapshots, `verify`.
    pub fn reader(&self) -> &StoreReader {
        &self.reader
    }
}
