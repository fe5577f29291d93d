//! A store whose files are files of a cache.

use super::below::Below;
use super::device::{Backing, Quota, Volumes};
use crate::store::{Entry, Error, LostPage, Store, StoreOptions, WeakStore};
use millpond::{File, OpenOptions, PageCache, SetAside};
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

/// Errors of a store in a cache.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum CacheError {
    /// An error of the store.
    #[error(transparent)]
    Store(#[from] Error),
    /// An error of the cache.
    #[error(transparent)]
    Cache(#[from] millpond::Error),
    /// The cache has another device, so nothing written to it would reach the store. Nothing was changed.
    #[error(
        "the cache has another device, and nothing of it would come to the store: build it with \
         PageCache::builder().device(volumes.clone())"
    )]
    OtherDevice,
}

/// A store open for writing whose files are files of a cache: with its pages, guards, budget and background writeback.
#[derive(Debug)]
pub struct CacheStore {
    store: Store,
    cache: PageCache,
    volumes: Arc<Volumes>,
    quota: Arc<Quota>,
    /// The store's part of the cache's budget, and that of its disk tier.
    _set_aside: (SetAside, Option<SetAside>),
    /// Open files by name. A file has one stand-in, which lives as long as a handle.
    open: Mutex<BTreeMap<String, Weak<Backing>>>,
}

impl Volumes {
    /// Opens a store for writing whose files are files of `cache`, which must use this device. Pages of the store's
    /// size are best: smaller ones are correct, but changing part of a store page first reads the rest of it.
    ///
    /// The memory for what the store holds and for transfers is taken from the cache's current budget until this is
    /// dropped: 86 of 512 MiB. The store holds at most an eighth of the budget, whatever [`StoreOptions::held_bytes`]
    /// says, and at least 8 MiB.
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
        let share = self.share_of(cache, options.held())?;
        let set_aside = cache.set_aside(share.bytes())?;
        let options = options
            .held_bytes(share.held)
            .tier_queue_bytes(share.tier())
            .nearby_bytes(share.nearby());
        let store = Store::open(url, options)?;
        let of_tier = store.tier().map(|tier| cache.set_aside(tier.memory_bytes));
        let of_tier = of_tier.transpose().inspect_err(|_| {
            // Nothing was written: the next need not take it over. The error to report is the one that brought us here.
            let _ = store.close();
        })?;
        self.watch(WeakStore::of_writer(&store));
        Ok(CacheStore {
            store,
            cache: cache.clone(),
            volumes: self.clone(),
            quota: Quota::new(share),
            _set_aside: (set_aside, of_tier),
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

    /// Creates an empty file. It is in the store after the next sync of any file.
    ///
    /// # Errors
    /// If a file with this name exists.
    pub fn create(&self, name: &str) -> Result<File, CacheError> {
        self.create_with(name, OpenOptions::new())
    }

    /// As [`CacheStore::create`], with a log, a check or stable pages.
    ///
    /// # Errors
    /// If a file with this name exists.
    pub fn create_with(&self, name: &str, options: OpenOptions) -> Result<File, CacheError> {
        let mut files = self.files();
        let backing = Volumes::stand_in(
            (self.store.name(), name),
            Below::Written(self.store.create(name)?),
            &self.quota,
        )?;
        files.insert(name.to_owned(), Arc::downgrade(&backing));
        self.handle(&backing, options)
    }

    /// Opens a file for reading and writing. All handles of a file share its pages.
    ///
    /// # Errors
    /// If there is no file with this name.
    pub fn open(&self, name: &str) -> Result<File, CacheError> {
        self.open_with(name, OpenOptions::new())
    }

    /// As [`CacheStore::open`], with a log, a check or stable pages.
    ///
    /// # Errors
    /// If there is no file with this name, or it is open with other options.
    pub fn open_with(&self, name: &str, options: OpenOptions) -> Result<File, CacheError> {
        let mut files = self.files();
        let backing = match files.get(name).and_then(Weak::upgrade) {
            Some(backing) => backing,
            None => {
                let backing = Volumes::stand_in(
                    (self.store.name(), name),
                    Below::Written(self.store.open_file(name)?),
                    &self.quota,
                )?;
                files.insert(name.to_owned(), Arc::downgrade(&backing));
                backing
            }
        };
        self.handle(&backing, options)
    }

    /// Renames a file, with the next sync of any file. Earlier writes to it are written out first, so that no file is
    /// replaced by one whose data is only in memory. Handles of the renamed file stay valid; those of a file that had
    /// the new name do not.
    ///
    /// # Errors
    /// If there is no such file, or if it can't be written out. It then keeps its name.
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

    /// Removes a file, with the next sync. Later writes through its handles make their syncs fail.
    ///
    /// # Errors
    /// If there is no such file.
    pub fn remove(&self, name: &str) -> Result<(), CacheError> {
        let mut files = self.files();
        self.store.remove(name)?;
        files.remove(name);
        Ok(())
    }

    /// Forgets the names of files that no handle has open, for a program that has opened very many.
    pub fn forget_closed(&self) {
        self.files().retain(|_, backing| backing.strong_count() > 0);
    }

    /// The files by name. Lengths are those the store knows: a cache reports a new length ahead of its writes.
    pub fn list(&self) -> Vec<Entry> {
        self.store.list()
    }

    /// Writes all dirty pages of the cache, and keeps the resulting content of the store under a name.
    ///
    /// # Errors
    /// As [`PageCache::sync_all`] and [`Store::snapshot`].
    pub fn snapshot(&self, name: &str) -> Result<(), CacheError> {
        self.cache.sync_all()?;
        Ok(self.store.snapshot(name)?)
    }

    /// The cache of its files.
    pub fn cache(&self) -> &PageCache {
        &self.cache
    }

    /// Returns what was written and is in no commit: first the pages from [`Store::take_lost`], then those that the
    /// cache has not handed to the store, in pages of the cache. Where both have a range, the later entry is newer.
    /// Useful when another writer has the store, and only as long as the files are open, because a file's dirty pages
    /// go with its last handle.
    ///
    /// # Errors
    /// If the cache is unusable. Pages that can't be read are left out.
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

    /// The store below: its usage, snapshots, fence, `verify`. Don't use it for files while they are open here.
    pub fn store(&self) -> &Store {
        &self.store
    }

    /// Makes the whole cache durable and closes the store. Later writes to its files make their syncs fail. Without
    /// this call the store stays open as long as the device lives.
    ///
    /// # Errors
    /// As [`Store::close`].
    pub fn close(&self) -> Result<(), CacheError> {
        self.cache.sync_all()?;
        Ok(self.store.close()?)
    }
}
