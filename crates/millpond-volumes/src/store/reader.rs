//! A store open for reading.

use super::address::Folder;
use super::bucket::Bucket;
use super::clock;
use super::driver::{self, Driver, Machine};
use super::error::Error;
use super::names::{self, Child};
use super::options::StoreOptions;
use super::reader_files::{FileVersion, HeldFile, StoreFileReader};
use super::stored::{self, Stored};
use super::verify::{self, Verified};
use super::writer::Entry;
use super::{Requests, address};
use crate::layout::{
    Answer, At, LastWriter, Numbered, ReadError, Reader, ReaderOptions, ReaderTold, Request, Salvaged,
};
use crate::tier::{Tier, TierUsage};
use std::ops::ControlFlow;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

/// A reader, and what its callers wait for.
#[derive(Debug)]
pub(super) struct Side {
    pub(super) reader: Reader,
    failed: Option<ReadError>,
    /// The number of times it has moved to another commit.
    pub(super) moved: u64,
}

impl Machine for Side {
    fn requests(&mut self) -> Vec<Numbered> {
        self.reader.requests()
    }

    fn answered(&mut self, now: Duration, id: u64, answer: Answer) {
        self.reader.answered(now, id, answer);
    }

    fn tick(&mut self, now: Duration) {
        self.reader.tick(now);
    }

    fn next_tick(&self) -> Option<Duration> {
        self.reader.next_tick()
    }

    fn hear(&mut self) {
        for told in self.reader.told() {
            match told {
                ReaderTold::Opened | ReaderTold::Moved => self.moved += 1,
                ReaderTold::Failed(error) => self.failed = Some(error),
            }
        }
    }

    // It gives nothing up after a while.
    fn stopped(&mut self, _: Duration) {}
}

#[derive(Debug)]
pub(super) struct Inner {
    pub(super) driver: Driver<Side>,
    options: StoreOptions,
    /// Its own, and not that of the writer that it is of.
    tier: OnceLock<Arc<Tier>>,
}

/// A store open for reading: at its newest commit, which it follows, or at a snapshot. Handles are cheap to clone.
#[derive(Clone, Debug)]
pub struct StoreReader {
    pub(super) inner: Arc<Inner>,
}

impl StoreReader {
    /// Opens the store at `url` for reading. Writes one object of its own, a pin, so that what it reads is not deleted.
    /// It goes without one if it may not write or is told not to ([`StoreOptions::pinning`]).
    ///
    /// # Errors
    /// If there is no store or no such snapshot, or the store does not answer.
    pub fn open(url: &str, options: StoreOptions) -> Result<StoreReader, Error> {
        let bucket = Arc::new(address::bucket(url, &options, Folder::Is)?);
        StoreReader::open_in(bucket, options)
    }

    pub(super) fn open_in(bucket: Arc<Bucket>, options: StoreOptions) -> Result<StoreReader, Error> {
        let machine = ReaderOptions {
            at: options.at.clone(),
            poll: options.poll,
            grace: options.layout.grace,
            pinning: options.pinning,
            salvage: options.layout.salvage,
            id: driver::random() as u64,
            owner: driver::owner(),
        };
        let side = Side {
            reader: Reader::new(clock::now(), machine),
            failed: None,
            moved: 0,
        };
        let driver = Driver::new(side, bucket, driver::runtime()?);
        let reader = StoreReader {
            inner: Arc::new(Inner {
                driver,
                options,
                tier: OnceLock::new(),
            }),
        };
        reader.opened()?;
        let (bucket, options) = (reader.inner.driver.bucket(), &reader.inner.options);
        if let Some(tier) = bucket.begin_tier(reader.page_bytes(), options)? {
            let _ = reader.inner.tier.set(tier);
        }
        Ok(reader)
    }

    pub(super) fn driver(&self) -> &Driver<Side> {
        &self.inner.driver
    }

    /// Waits until there is something to read. As for a writer, the store's answer to the first request is final.
    fn opened(&self) -> Result<(), Error> {
        let driver = &self.inner.driver;
        let named = |why: &str| Error::Address(format!("{}: {why}", driver.bucket().name));
        let timeout = self.inner.options.sync_timeout;
        let opened = driver.until_stuck(timeout, |side| {
            match (side.failed.clone(), side.reader.refused()) {
                (Some(error), _) => Some(Err(error.into())),
                (None, Some(why)) => Some(Err(named(why))),
                (None, None) => (side.moved > 0).then_some(Ok(())),
            }
        });
        opened.unwrap_or_else(|| {
            let trouble = driver.with(|side| side.reader.trouble().map(str::to_owned));
            let trouble = trouble.unwrap_or_else(|| String::from("the store does not answer"));
            Err(named(&format!("it is not open after {timeout:?}: {trouble}")))
        })
    }

    /// Waits until it has moved more than `moved` times.
    fn wait_beyond(&self, moved: u64) -> Result<(), Error> {
        let timeout = self.inner.options.sync_timeout;
        let opened = self
            .inner
            .driver
            .until(timeout, |side| match side.failed.clone() {
                Some(error) => Some(Err(error)),
                None => (side.moved > moved).then_some(Ok(())),
            });
        match opened {
            Some(result) => Ok(result?),
            None => {
                let trouble = self
                    .inner
                    .driver
                    .with(|side| side.reader.trouble().map(str::to_owned));
                let trouble = trouble.unwrap_or_else(|| String::from("the store does not answer"));
                Err(Error::TimedOut(timeout, trouble))
            }
        }
    }

    pub(super) fn begin_anew(&self, now: Duration) -> Result<(), Error> {
        let moved = self.inner.driver.with(|side| {
            side.reader.is_gone(now);
            side.moved
        });
        self.wait_beyond(moved)
    }

    /// The files by name, as of the current commit; of a store that has a tree, by path.
    pub fn list(&self) -> Vec<Entry> {
        self.inner.driver.with(|side| names::entries(side.reader.state()))
    }

    /// Opens a file. It follows newer commits as the reader does.
    ///
    /// # Errors
    /// If there is no file with this name.
    pub fn open_file(&self, name: &str) -> Result<StoreFileReader, Error> {
        let found = self
            .inner
            .driver
            .with(|side| names::file_at(side.reader.state(), name));
        let file = found.ok_or_else(|| Error::NoFile(name.to_owned()))?;
        Ok(StoreFileReader {
            store: self.clone(),
            file,
            name: name.to_owned(),
        })
    }

    /// What there is at a path, as of the current commit: by the store's tree, or where a slash in a file's name divides
    /// directories. An empty path is that of the root. With the number of that commit.
    pub fn child(&self, path: &[u8]) -> (u64, Option<Child>) {
        let side = |side: &mut Side| (side.reader.number(), names::child(side.reader.state(), path));
        self.inner.driver.with(side)
    }

    /// What there is in a directory, by name, as of the current commit.
    pub fn children(&self, directory: &[u8]) -> Vec<(Vec<u8>, Child)> {
        let side = |side: &mut Side| names::children(side.reader.state(), directory);
        self.inner.driver.with(side)
    }

    /// The files that are at no path: their names have a part that a path can't have, or are those of directories too; or
    /// the store has a tree, and they were put beside it.
    pub fn without_path(&self) -> Vec<String> {
        self.inner
            .driver
            .with(|side| names::without_place(side.reader.state()))
    }

    /// What there is at each of these paths as of the current commit, with the number of that.
    pub fn versions<const N: usize>(&self, paths: [&[u8]; N]) -> (u64, [Option<FileVersion>; N]) {
        self.inner.driver.with(|side| {
            let state = side.reader.state();
            let version = |path| {
                let child = names::child(state, path)?;
                Some(FileVersion {
                    file: names::file_of(state, &child).cloned(),
                    node: child.node,
                })
            };
            (side.reader.number(), paths.map(version))
        })
    }

    /// Whether this is there as of the current commit.
    pub fn has_version(&self, path: &[u8], version: &FileVersion) -> bool {
        self.inner.driver.with(|side| {
            let state = side.reader.state();
            names::child(state, path).is_some_and(|child| {
                child.node == version.node && names::file_of(state, &child) == version.file.as_ref()
            })
        })
    }

    /// An extended attribute of what there is at a path, if the store has a tree.
    pub fn xattr(&self, path: &[u8], name: &[u8]) -> Option<Vec<u8>> {
        let side = |side: &mut Side| names::xattr(side.reader.state(), path, name);
        self.inner.driver.with(side)
    }

    /// The names of the extended attributes of what there is at a path.
    pub fn xattrs(&self, path: &[u8]) -> Vec<Vec<u8>> {
        let side = |side: &mut Side| names::xattrs(side.reader.state(), path);
        self.inner.driver.with(side)
    }

    /// How many files there are as of the current commit, and their bytes.
    pub fn totals(&self) -> (u64, u64) {
        self.inner.driver.with(|side| {
            let files = &side.reader.state().files;
            (files.len() as u64, files.values().map(|file| file.bytes).sum())
        })
    }

    /// Opens a file as of the current commit, at which it stays.
    pub(crate) fn hold_file(&self, name: &str) -> Result<HeldFile, Error> {
        HeldFile::new(self, name)
    }

    /// Its address.
    pub(crate) fn name(&self) -> &str {
        &self.inner.driver.bucket().name
    }

    /// The snapshots by name.
    pub fn snapshots(&self) -> Vec<String> {
        self.inner
            .driver
            .with(|side| side.reader.state().snapshots.keys().cloned().collect())
    }

    /// The current commit; for a snapshot, the newest one when the snapshot was opened.
    pub fn commit(&self) -> u64 {
        self.inner.driver.with(|side| side.reader.number())
    }

    /// How long ago the current commit was known to be the newest. For a snapshot this only grows: the reader looks for
    /// nothing, and its data does not change.
    pub fn age(&self) -> Duration {
        self.inner.driver.with(|side| side.reader.age(clock::now()))
    }

    /// Looks for newer commits, and waits until the reader has the one that was newest at the time of the call. Does
    /// nothing for a snapshot.
    ///
    /// # Errors
    /// If the store does not answer.
    pub fn poll(&self) -> Result<(), Error> {
        if self.inner.options.at != At::Newest {
            return Ok(());
        }
        let asked = clock::now();
        let timeout = self.inner.options.sync_timeout;
        let done = self.inner.driver.until(timeout, |side| {
            side.reader.poll(clock::now());
            (side.reader.is_open() && side.reader.fresh() >= asked).then_some(())
        });
        let trouble = || {
            self.inner
                .driver
                .with(|side| side.reader.trouble().unwrap_or("no answer").to_owned())
        };
        done.ok_or_else(|| Error::TimedOut(timeout, trouble()))
    }

    /// Why a request for newer commits last failed, if one has since one succeeded.
    pub fn trouble(&self) -> Option<String> {
        let trouble = |side: &mut Side| side.reader.trouble().map(str::to_owned);
        self.inner.driver.with(trouble)
    }

    /// Why the reader has no pin to keep what it reads from being deleted, if it has none: [`StoreOptions::pinning`].
    pub fn unpinned(&self) -> Option<String> {
        self.inner
            .driver
            .with(|side| side.reader.unpinned().map(str::to_owned))
    }

    /// What was opened of an incomplete store with [`StoreOptions::salvage`]; `None` if the store is complete.
    pub fn salvaged(&self) -> Option<Salvaged> {
        self.inner.driver.with(|side| side.reader.salvaged().cloned())
    }

    /// Requests of this handle.
    pub fn requests(&self) -> Requests {
        self.inner.driver.bucket().requests()
    }

    /// The state of the disk tier, if it has one.
    pub fn tier(&self) -> Option<TierUsage> {
        self.inner.driver.bucket().tier_usage()
    }

    /// Page size in bytes, fixed for the life of the store.
    pub fn page_bytes(&self) -> u32 {
        self.inner.driver.with(|side| side.reader.page_bytes())
    }

    /// How long the store keeps superseded objects.
    pub fn grace(&self) -> Duration {
        self.inner.driver.with(|side| side.reader.grace())
    }

    /// The writer of the store's newest commit, and whether it has closed the store.
    pub fn last_writer(&self) -> LastWriter {
        let last = |side: &mut Side| side.reader.last_writer().cloned();
        self.inner.driver.with(last).unwrap_or_else(LastWriter::unknown)
    }

    /// The sizes of what is in the store, and of what its files have. Lists all objects.
    ///
    /// # Errors
    /// If the store does not answer.
    pub fn stored(&self) -> Result<Stored, Error> {
        stored::stored(&self.inner.driver)
    }

    /// Reads everything committed, and checks every checksum and every reference.
    ///
    /// # Errors
    /// If the store does not answer.
    pub fn verify(&self) -> Result<Verified, Error> {
        self.verify_while(|_| ControlFlow::Continue(()))
    }

    /// The same while `go_on` says so, which hears every few hundred pages what was verified so far. The result is as
    /// far as that when it breaks.
    ///
    /// # Errors
    /// As [`StoreReader::verify`].
    pub fn verify_while(&self, go_on: impl FnMut(&Verified) -> ControlFlow<()>) -> Result<Verified, Error> {
        verify::verify(self, self.inner.driver.bucket(), &self.inner.options, go_on)
    }
}

impl Drop for Inner {
    fn drop(&mut self) {
        if let Some(tier) = self.tier.get() {
            tier.close();
        }
        let pin = self.driver.with(|side| {
            let key = side.reader.pin_key();
            side.reader.unpinned().is_none().then_some(key)
        });
        let Some(pin) = pin else { return };
        let (bucket, keys) = (self.driver.bucket().clone(), vec![pin]);
        // A pin that stays is given up by the writer later.
        driver::wait_for(self.driver.handle(), async move {
            let delete = Request::Delete { keys };
            let _ = tokio::time::timeout(Duration::from_secs(1), bucket.answer(&delete, &mut |_| ())).await;
        });
    }
}
