//! A store whose files are files of a cache.

use super::device::{Backing, Quota, Volumes};
use super::share::Share;
use crate::store::{Entry, Error, LostPage, Store, StoreOptions};
use millpond::{File, OpenOptions, PageCache, SetAside};
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

/// What a store of a cache could not do.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum CacheError {
    /// The store's.
    #[error(transparent)]
    Store(#[from] Error),
    /// The cache's.
    #[error(transparent)]
    Cache(#[from] millpond::Error),
    /// The cache has another device, so that nothing that is written to it would come to the store. Nothing was changed.
    #[error(
        "the cache has another device, and nothing of it would come to the store: build it with \
         PageCache::builder().device(volumes.clone())"
    )]
    OtherDevice,
}

/// A store that is written, whose files are files of a cache: with its pages, guards, budget and background writing.
#[derive(Debug)]
pub struct CacheStore {
    store: Store,
    cache: PageCache,
    volumes: Arc<Volumes>,
    quota: Arc<Quota>,
    /// What the store has of the cache's budget.
    _set_aside: SetAside,
    /// Files by the names under which they are open: a file has one stand-in. It lives as long as a handle.
    open: Mutex<BTreeMap<String, Weak<Backing>>>,
}

impl Volumes {
    /// Opens a store for writing, whose files are files of `cache`, which must have this device. Best with pages as large as
    /// the store's: smaller ones are correct, and read the rest of a page of the store before they change a part of it.
    ///
    /// What the store holds and what is on its way is taken from the cache's budget, as it is now, until this is dropped: of 512
    /// MiB 82. It holds an eighth of the budget at most, whatever [`StoreOptions::held_bytes`] says, and 8 MiB at least.
    ///
    /// # Errors
    /// [`CacheError::OtherDevice`] if the cache was built without this device. As [`PageCache::set_aside`], and
    /// [`Store::open`].
    pub fn store(
        self: &Arc<Volumes>,
        cache: &PageCache,
        url: &str,
        options: StoreOptions,
    ) -> Result<CacheStore, CacheError> {
        if !cache.has_device(&**self) {
            return Err(CacheError::OtherDevice);
        }
        let memory = cache.memory();
        let least = memory.auto.map_or(memory.bytes, |range| range.min);
        let share = Share::of(least.0, options.held());
        let set_aside = cache.set_aside(share.bytes())?;
        let store = Store::open(url, options.held_bytes(share.held))?;
        self.watch(&store);
        Ok(CacheStore {
            store,
            cache: cache.clone(),
            volumes: self.clone(),
            quota: Quota::new(share),
            _set_aside: set_aside,
            open: Mutex::default(),
        })
    }
}

impl CacheStore {
    fn files(&self) -> MutexGuard<'_, BTreeMap<String, Weak<Backing>>> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn handle(&self, backing: &Arc<Backing>, options: OpenOptions) -> Result<File, CacheError> {
        let stand_in = backing.stand_in.try_clone().map_err(Error::System)?;
        let was_known = self.volumes.knows(backing);
        let options = options.write(true).shown_as(&backing.shown);
        match self.cache.open_file(stand_in, options) {
            Ok(file) => {
                // Its last handle may have been dropped just before this one was there.
                self.volumes.knows(backing);
                Ok(file)
            }
            Err(error) => {
                // Unless it is open by other handles.
                if !was_known {
                    self.volumes.forgets(backing.identity);
                }
                Err(error.into())
            }
        }
    }

    /// Makes an empty file. It is in the store with the next sync of any file.
    ///
    /// # Errors
    /// If there is one of that name.
    pub fn create(&self, name: &str) -> Result<File, CacheError> {
        self.create_with(name, OpenOptions::new())
    }

    /// As [`CacheStore::create`], with a log, a check or stable pages.
    ///
    /// # Errors
    /// If there is one of that name.
    pub fn create_with(&self, name: &str, options: OpenOptions) -> Result<File, CacheError> {
        let mut files = self.files();
        let backing = Volumes::stand_in((self.store.name(), name), self.store.create(name)?, &self.quota)?;
        files.insert(name.to_owned(), Arc::downgrade(&backing));
        self.handle(&backing, options)
    }

    /// Opens a file for reading and writing. All handles of a file share its pages.
    ///
    /// # Errors
    /// If there is none of that name.
    pub fn open(&self, name: &str) -> Result<File, CacheError> {
        self.open_with(name, OpenOptions::new())
    }

    /// As [`CacheStore::open`], with a log, a check or stable pages.
    ///
    /// # Errors
    /// If there is none of that name; if it is open with others.
    pub fn open_with(&self, name: &str, options: OpenOptions) -> Result<File, CacheError> {
        let mut files = self.files();
        let backing = match files.get(name).and_then(Weak::upgrade) {
            Some(backing) => backing,
            None => {
                let backing = Volumes::stand_in(
                    (self.store.name(), name),
                    self.store.open_file(name)?,
                    &self.quota,
                )?;
                files.insert(name.to_owned(), Arc::downgrade(&backing));
                backing
            }
        };
        self.handle(&backing, options)
    }

    /// Gives a file another name, with the next sync of any file, and what was written to it before comes with the name: it is
    /// written out first, so that the file that had the name is not replaced by one whose data are in memory. Its handles stay
    /// good; those of a file that had that name do not.
    ///
    /// # Errors
    /// If there is no such file; if it can't be written out: it keeps its name then.
    pub fn rename(&self, from: &str, to: &str) -> Result<(), CacheError> {
        // Without the lock: a log's callback may open files.
        let renamed = self.files().get(from).and_then(Weak::upgrade);
        if let Some(backing) = renamed {
            match self.handle(&backing, OpenOptions::new()) {
                Ok(file) => file.write_out()?,
                // It is open with a log, a check or stable pages.
                Err(_) => self.cache.sync_all()?,
            }
        }
        let mut files = self.files();
        self.store.rename(from, to)?;
        if from != to {
            // Handles of a file that is gone keep its stand-in, and are told so by the store.
            files.remove(to);
            if let Some(renamed) = files.remove(from) {
                files.insert(to.to_owned(), renamed);
            }
        }
        Ok(())
    }

    /// Removes a file, with the next sync. What its handles write is an error of their syncs.
    ///
    /// # Errors
    /// If there is no such file.
    pub fn remove(&self, name: &str) -> Result<(), CacheError> {
        let mut files = self.files();
        self.store.remove(name)?;
        files.remove(name);
        Ok(())
    }

    /// The files by name. Lengths are those that the store knows: a cache tells it ahead of its writes.
    pub fn list(&self) -> Vec<Entry> {
        self.store.list()
    }

    /// Writes all that is dirty in the cache, and keeps what the store has then under a name.
    ///
    /// # Errors
    /// As [`PageCache::sync_all`] and [`Store::snapshot`].
    pub fn snapshot(&self, name: &str) -> Result<(), CacheError> {
        self.cache.sync_all()?;
        Ok(self.store.snapshot(name)?)
    }

    /// The cache that its files are of.
    pub fn cache(&self) -> &PageCache {
        &self.cache
    }

    /// What was written and is in no commit, as [`Store::take_lost`] has it, and after that what the cache has not handed to
    /// the store, by pages of the cache: where both have a place it is the newer one. Of use when another writer has the
    /// store, and as long as the files are open: what is dirty of a file goes with its last handle.
    ///
    /// # Errors
    /// If the cache is of no use any more. What can't be read of its pages is left out.
    pub fn take_lost(&self) -> Result<Vec<LostPage>, CacheError> {
        let mut lost = self.store.take_lost();
        let open: Vec<_> = {
            let files = self.files();
            let alive = files
                .iter()
                .filter_map(|(name, file)| Some((name.clone(), file.upgrade()?)));
            alive.collect()
        };
        for (name, backing) in open {
            let file = self.handle(&backing, OpenOptions::new())?;
            let size = file.page_size();
            for range in file.unwritten()? {
                for offset in range.clone().step_by(size as usize) {
                    let mut bytes = vec![0; size.min(range.end - offset) as usize];
                    if let Ok(read) = file.read_at(&mut bytes, offset) {
                        bytes.truncate(read);
                        lost.push(LostPage {
                            file: name.clone(),
                            offset,
                            bytes: Some(bytes.into()),
                        });
                    }
                }
            }
        }
        Ok(lost)
    }

    /// The store below: its usage, snapshots, fence, `verify`. Not for its files while they are open here.
    pub fn store(&self) -> &Store {
        &self.store
    }

    /// Makes all of the cache durable and closes the store. What is written to its files later is an error of their syncs. The
    /// store stays open without it as long as the device lives.
    ///
    /// # Errors
    /// As [`Store::close`].
    pub fn close(&self) -> Result<(), CacheError> {
        self.cache.sync_all()?;
        Ok(self.store.close()?)
    }
}
