//! A store open for writing.

use super::address::Folder;
use super::bucket::Bucket;
use super::clock;
use super::counters::Requests;
use super::driver::{self, Driver, Machine};
use super::error::Error;
use super::file::StoreFile;
use super::options::StoreOptions;
use super::pages;
use super::records::{Records, adopt};
use super::verify::Verified;
use super::{StoreReader, address, names};
use crate::format::op::FileNo;
use crate::layout::{
    Answer, Fence, Lost, Numbered, OpenError, Salvaged, SyncError, Ticket, Told, Uncommitted, Usage,
    WriteError, Writer,
};
use crate::tier::TierUsage;
use crate::tree::{Time, Tree};
use bytes::Bytes;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

/// The longest that closing waits for due deletions.
const SETTLE: Duration = Duration::from_secs(2);

/// A file of a store.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Entry {
    /// Its name.
    pub name: String,
    /// Its length in bytes.
    pub bytes: u64,
}

/// Sizes and requests of a store.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct StoreUsage {
    /// Sizes, and the newest commit.
    pub layout: Usage,
    /// Requests of this handle.
    pub requests: Requests,
    /// Commits made by this handle, including the one that opening makes.
    pub commits: u64,
    /// How long ago this handle made the newest commit.
    pub commit_age: Duration,
}

/// A page that was written and is in no commit.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct LostPage {
    /// The file's name; empty if the file was removed.
    pub file: String,
    /// The page's offset in the file.
    pub offset: u64,
    /// The page's content; `None` if it can't be read, as when the store's new writer has deleted it.
    pub bytes: Option<Bytes>,
}

/// A writer, and what its callers wait for.
#[derive(Debug)]
pub(super) struct Side {
    pub(super) writer: Writer,
    opened: Option<Result<(), OpenError>>,
    results: BTreeMap<Ticket, Option<Result<(), SyncError>>>,
    last_ticket: Ticket,
    /// Since when a write has had to wait for space.
    full_since: Option<Duration>,
    /// The newest commit, and when it became the newest.
    pub(super) committed: (u64, Duration),
    /// The commit made by opening.
    first_commit: u64,
}

impl Machine for Side {
    fn requests(&mut self) -> Vec<Numbered> {
        self.writer.requests()
    }

    fn answered(&mut self, now: Duration, id: u64, answer: Answer) {
        self.writer.answered(now, id, answer);
    }

    fn tick(&mut self, now: Duration) {
        self.writer.tick(now);
    }

    fn next_tick(&self) -> Option<Duration> {
        self.writer.next_tick()
    }

    fn stopped(&mut self, time: Duration) {
        self.writer.stopped(time);
    }

    fn hear(&mut self) {
        if self.committed.0 != self.writer.number() {
            self.committed = (self.writer.number(), clock::now());
        }
        for told in self.writer.told() {
            match told {
                Told::Opened(result) => {
                    self.first_commit = self.writer.number();
                    self.opened = Some(result);
                }
                Told::Synced(ticket, result) => {
                    // A caller that has given up does not ask.
                    if let Some(waits) = self.results.get_mut(&ticket) {
                        *waits = Some(result);
                    }
                }
                Told::Room | Told::Fenced(_) => {}
            }
        }
    }
}

#[derive(Debug)]
pub(super) struct Inner {
    pub(super) driver: Driver<Side>,
    pub(super) options: StoreOptions,
}

/// A store open for writing, by its one writer. Handles are cheap to clone. Dropping the last handle of a store and its
/// files closes it if possible; [`Store::close`] reports whether it worked.
#[derive(Clone, Debug)]
pub struct Store {
    pub(super) inner: Arc<Inner>,
}

impl Store {
    /// Opens the store at `url` for writing, or creates it. A fence excludes all other writers: whichever opens last
    /// has the store. Costs about 9 requests, plus one for each commit since the last checkpoint.
    ///
    /// # Errors
    /// [`OpenError::Held`] if the last writer has not closed the store and [`StoreOptions::take_over`] is not set. Also
    /// if the store has no conditional PUT, or does not answer.
    pub fn open(url: &str, options: StoreOptions) -> Result<Store, Error> {
        options.check()?;
        let bucket = Arc::new(address::bucket(url, &options, Folder::IsMade)?);
        Store::open_in(bucket, options)
    }

    pub(super) fn open_in(bucket: Arc<Bucket>, options: StoreOptions) -> Result<Store, Error> {
        let runtime = driver::runtime()?;
        let probed = bucket.clone();
        let probing = driver::wait_for(runtime.handle(), async move { address::probe(&probed).await });
        if let Some(Err(error)) = probing {
            runtime.shutdown_background();
            return Err(error);
        }
        let mut layout = options.layout.clone();
        layout.patience = options.sync_timeout / 2;
        layout.nonce = driver::random();
        layout.owner = driver::owner();
        layout.unix_ms_at_zero = clock::unix_ms_at_zero();
        let side = Side {
            writer: Writer::new(clock::now(), layout),
            opened: None,
            results: BTreeMap::new(),
            last_ticket: 0,
            full_since: None,
            committed: (0, clock::now()),
            first_commit: 0,
        };
        let driver = Driver::new(side, bucket, runtime);
        let timeout = options.sync_timeout;
        let inner = Arc::new(Inner { driver, options });
        let opened = inner
            .driver
            .until_stuck(timeout, |side| match side.writer.refused() {
                Some(why) => Some(Err(Error::Address(format!(
                    "{}: {why}",
                    inner.driver.bucket().name
                )))),
                None => side.opened.take().map(|opened| opened.map_err(Error::from)),
            });
        opened.unwrap_or_else(|| Err(inner.timed_out()))?;
        inner
            .driver
            .bucket()
            .begin_tier(inner.page_bytes(), &inner.options)?;
        Ok(Store { inner })
    }

    /// Creates an empty file. It is in the store after the next sync of any file.
    ///
    /// # Errors
    /// If a file with this name exists.
    pub fn create(&self, name: &str) -> Result<StoreFile, Error> {
        let file = self.inner.driver.with(|side| side.writer.create(name))?;
        Ok(StoreFile::new(self.inner.clone(), file, name))
    }

    /// Opens a file.
    ///
    /// # Errors
    /// If there is no file with this name.
    pub fn open_file(&self, name: &str) -> Result<StoreFile, Error> {
        let found = self
            .inner
            .driver
            .with(|side| side.writer.state().names.get(name).copied());
        let file = found.ok_or_else(|| Error::NoFile(name.to_owned()))?;
        Ok(StoreFile::new(self.inner.clone(), file, name))
    }

    /// Renames a file, with the next sync. A file that has the new name is removed in the same commit.
    ///
    /// # Errors
    /// If there is no such file.
    pub fn rename(&self, from: &str, to: &str) -> Result<(), Error> {
        Ok(self.inner.driver.with(|side| side.writer.rename(from, to))?)
    }

    /// Removes a file, with the next sync. Its handles are unusable from here on.
    ///
    /// # Errors
    /// If there is no such file.
    pub fn remove(&self, name: &str) -> Result<(), Error> {
        Ok(self.inner.driver.with(|side| side.writer.remove(name))?)
    }

    /// The files by name; those of a tree by the store's own names, `inode:N`.
    pub fn list(&self) -> Vec<Entry> {
        self.inner
            .driver
            .with(|side| super::names::by_name(side.writer.state()))
    }

    /// Commits all earlier changes of all files. Takes one request if they amount to 4 MiB or less.
    ///
    /// # Errors
    /// [`SyncError::Store`] if the store can't be written at present. Everything is kept, and retried automatically and
    /// by the next sync. [`SyncError::Fenced`] if another writer has the store: [`Store::take_lost`] returns what is in
    /// no commit.
    pub fn sync(&self) -> Result<(), Error> {
        self.inner.sync(|side, now, ticket| side.writer.sync(now, ticket))
    }

    /// Commits, and keeps that commit's content under a name until the snapshot is dropped.
    ///
    /// # Errors
    /// As [`Store::sync`]; or if a snapshot with this name exists.
    pub fn snapshot(&self, name: &str) -> Result<(), Error> {
        self.inner.driver.with(|side| side.writer.snapshot(name))?;
        self.sync()
    }

    /// Drops a snapshot, with a commit.
    ///
    /// # Errors
    /// As [`Store::sync`]; or if there is no snapshot with this name.
    pub fn drop_snapshot(&self, name: &str) -> Result<(), Error> {
        self.inner.driver.with(|side| side.writer.drop_snapshot(name))?;
        self.sync()
    }

    /// The snapshots by name.
    pub fn snapshots(&self) -> Vec<String> {
        self.inner
            .driver
            .with(|side| side.writer.state().snapshots.keys().cloned().collect())
    }

    /// Commits, and records in the store that this writer is done, so that the next one need not take over.
    ///
    /// # Errors
    /// As [`Store::sync`]. Closing can be retried.
    pub fn close(&self) -> Result<(), Error> {
        self.inner.close()
    }

    /// Reads or changes the store's tree: its names and attributes, which are in the next commit with all else. What `act`
    /// does is done at once for all others. A tree is made by [`Tree::make`].
    pub fn tree<T>(&self, act: impl FnOnce(&mut Tree<Records<'_>>) -> T) -> T {
        self.inner
            .driver
            .with(|side| act(&mut Tree(Records::new(&mut side.writer))))
    }

    /// The length of a file in bytes.
    pub fn len_of(&self, name: &str) -> Option<u64> {
        self.inner.driver.with(|side| {
            let state = side.writer.state();
            Some(state.files.get(state.names.get(name)?)?.bytes)
        })
    }

    /// As of [`StoreReader::without_path`], and of the changes since the last commit.
    pub fn without_path(&self) -> Vec<String> {
        let without = |side: &mut Side| names::without_place(side.writer.state());
        self.inner.driver.with(without)
    }

    /// How many files there are, and their bytes.
    pub fn totals(&self) -> (u64, u64) {
        self.inner.driver.with(|side| {
            let files = &side.writer.state().files;
            (files.len() as u64, files.values().map(|file| file.bytes).sum())
        })
    }

    /// Bytes that the file system of a store in a folder has left; `None` for a bucket, which does not tell.
    pub fn available(&self) -> Option<u64> {
        self.inner.driver.bucket().available()
    }

    /// Whether something has changed that no commit has.
    pub fn is_changed(&self) -> bool {
        self.inner
            .driver
            .with(|side| side.writer.changes() > side.writer.covered())
    }

    /// Makes the files of a store into a tree, if it has none: each is at the path that its name is. Files that were put into
    /// a store beside its tree come to theirs in the same way, and replace what is there. The names that are no paths, or
    /// whose paths are in the way of others, are left alone, and returned.
    ///
    /// # Errors
    /// If another writer has the store.
    pub fn adopt(&self, uid: u32, gid: u32, now: Time) -> Result<Vec<String>, Error> {
        let adopted = self
            .inner
            .driver
            .with(|side| adopt(&mut side.writer, (uid, gid), now));
        adopted.map_err(|_| self.refused())
    }

    /// Why a change of the tree was refused.
    fn refused(&self) -> Error {
        match self.fence() {
            Some(fence) => SyncError::Fenced(fence).into(),
            None => SyncError::Store(String::from("the store is closed")).into(),
        }
    }

    /// Its address.
    pub(crate) fn name(&self) -> &str {
        &self.inner.driver.bucket().name
    }

    /// What was opened of an incomplete store with [`StoreOptions::salvage`]; `None` if the store was complete.
    pub fn salvaged(&self) -> Option<Salvaged> {
        self.inner.driver.with(|side| side.writer.salvaged().cloned())
    }

    /// The state of the disk tier, if it has one.
    pub fn tier(&self) -> Option<TierUsage> {
        self.inner.driver.bucket().tier_usage()
    }

    /// Page size in bytes, fixed for the life of the store.
    pub fn page_bytes(&self) -> u32 {
        self.inner.page_bytes()
    }

    /// The writer that has taken the store, if any.
    pub fn fence(&self) -> Option<Fence> {
        self.inner.driver.with(|side| side.writer.fence().cloned())
    }

    /// Why a request last failed, if one has, including requests that no call reports, such as those of a checkpoint or
    /// a deletion. [`Store::usage`] tells whether these still fail.
    pub fn trouble(&self) -> Option<String> {
        self.inner
            .driver
            .with(|side| side.writer.trouble().map(str::to_owned))
    }

    /// Returns what was written and is in no commit, including writes that were reported as accepted. Useful when
    /// another writer has the store. Reads from the store what it needs.
    pub fn take_lost(&self) -> Vec<LostPage> {
        let lost: Vec<Lost> = self.inner.driver.with(|side| side.writer.lost());
        let page_bytes = u64::from(self.inner.page_bytes());
        let lost = lost.into_iter().map(|lost| LostPage {
            offset: lost.page * page_bytes,
            bytes: match lost.bytes {
                Uncommitted::Held(bytes) => Some(bytes),
                Uncommitted::At(place) => {
                    let driver = &self.inner.driver;
                    let wanted = [(lost.page, place)];
                    let mut read = pages::read(driver.handle(), driver.bucket(), &wanted, page_bytes);
                    read.pop().and_then(Result::ok)
                }
                Uncommitted::Zeros => None,
            },
            file: lost.name,
        });
        lost.collect()
    }

    /// Sizes and requests. Costs a visit to each object's record.
    pub fn usage(&self) -> StoreUsage {
        let side = |side: &mut Side| {
            (
                side.writer.usage(),
                (side.writer.number() + 1).saturating_sub(side.first_commit),
                clock::now().saturating_sub(side.committed.1),
            )
        };
        let (layout, commits, commit_age) = self.inner.driver.with(side);
        StoreUsage {
            layout,
            commits,
            requests: self.inner.driver.bucket().requests(),
            commit_age,
        }
    }

    /// Reads everything committed, and checks every checksum and every reference.
    ///
    /// # Errors
    /// If there is no commit, or it can't be read.
    pub fn verify(&self) -> Result<Verified, Error> {
        let reader = StoreReader::open_in(self.inner.driver.bucket().clone(), self.inner.options.clone())?;
        reader.verify()
    }
}

impl Inner {
    /// Bytes of a page.
    pub(super) fn page_bytes(&self) -> u32 {
        self.driver.with(|side| side.writer.page_bytes())
    }

    pub(super) fn timed_out(&self) -> Error {
        let trouble = self.driver.with(|side| side.writer.trouble().map(str::to_owned));
        let trouble = trouble.unwrap_or_else(|| String::from("the store does not answer"));
        Error::TimedOut(self.options.sync_timeout, trouble)
    }

    pub(super) fn sync(&self, ask: impl FnOnce(&mut Side, Duration, Ticket)) -> Result<(), Error> {
        let ticket = self.driver.with(|side| {
            side.last_ticket += 1;
            let ticket = side.last_ticket;
            side.results.insert(ticket, None);
            ask(side, clock::now(), ticket);
            ticket
        });
        let told = self.driver.until_stuck(self.options.sync_timeout, |side| {
            let is_there = side.results.get(&ticket).is_some_and(Option::is_some);
            is_there.then(|| side.results.remove(&ticket)).flatten().flatten()
        });
        match told {
            Some(result) => Ok(result?),
            None => {
                self.driver.with(|side| side.results.remove(&ticket));
                Err(self.timed_out())
            }
        }
    }

    fn close(&self) -> Result<(), Error> {
        self.sync(|side, now, ticket| side.writer.close(now, ticket))?;
        // What is due to be deleted is, also by a writer that lives no longer than that takes.
        let is_settled = |side: &mut Side| side.writer.is_settled(clock::now()).then_some(());
        self.driver.until(SETTLE, is_settled);
        Ok(())
    }

    /// Writes a page of a file that then reaches to `end`, and waits for space. Consecutive writes of a file, as a
    /// cache makes them, wait no longer in total than one: once there has been no space for that long, or while the store
    /// refuses to be written, a write fails immediately.
    pub(super) fn write(&self, file: FileNo, page: u64, bytes: Bytes, end: u64) -> Result<(), Error> {
        let since = self.driver.with(|side| side.full_since);
        let waited = since.map_or(Duration::ZERO, |since| clock::awake().saturating_sub(since));
        let timeout = self.options.sync_timeout.saturating_sub(waited);
        let written = self.driver.until(timeout, |side| {
            let writer = &mut side.writer;
            let taken = writer.write(clock::now(), file, page, bytes.clone());
            side.full_since = match taken {
                Err(WriteError::Full) => side.full_since.or_else(|| Some(clock::awake())),
                _ => None,
            };
            match taken {
                Err(WriteError::Full) => writer.refusal().map(|refusal| Err(refusal.into())),
                Err(error) => Some(Err(Error::from(error))),
                Ok(()) => {
                    let len = writer.state().files.get(&file).map_or(end, |file| file.bytes);
                    Some(if len < end {
                        writer.set_len(file, end).map_err(Error::from)
                    } else {
                        Ok(())
                    })
                }
            }
        });
        written.unwrap_or_else(|| Err(self.timed_out()))
    }
}

impl Drop for Inner {
    fn drop(&mut self) {
        if let Some(tier) = self.driver.bucket().tier() {
            tier.close();
        }
        if self.driver.with(|side| side.writer.is_open()) {
            // What it says, close would have said.
            let _ = self.close();
        }
    }
}
