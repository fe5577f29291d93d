//! Files of a reader: one that follows newer commits, and one as of a commit.

use super::clock::now;
use super::error::Error;
use super::file::{Found, failed, fill, pieces};
use super::names;
use super::pages;
use super::reader::StoreReader;
use crate::format::op::FileNo;
use crate::layout::{File, Place};
use crate::tree::Node;
use std::ops::Range;

/// How often a reader that was away for too long starts over within one call.
const TRIES: usize = 4;

/// A file as of one commit, which its reader's pin keeps as long as this lives.
#[derive(Debug)]
pub(crate) struct HeldFile {
    store: StoreReader,
    commit: u64,
    page_bytes: u64,
    file: File,
}

impl HeldFile {
    pub(super) fn new(store: &StoreReader, name: &str) -> Result<HeldFile, Error> {
        let found = store.driver().with(|side| {
            let state = side.reader.state();
            let file = state.files.get(&names::file_at(state, name)?)?.clone();
            Some((file, u64::from(side.reader.page_bytes()), side.reader.hold()))
        });
        let (file, page_bytes, commit) = found.ok_or_else(|| Error::NoFile(name.to_owned()))?;
        Ok(HeldFile {
            store: store.clone(),
            commit,
            page_bytes,
            file,
        })
    }

    /// A file as of a commit that the reader has left, perhaps. Its bytes are there for a grace at least since then.
    pub(crate) fn of(store: &StoreReader, version: &FileVersion, commit: u64) -> Option<HeldFile> {
        let file = version.file.clone()?;
        let page_bytes = store.driver().with(|side| {
            side.reader.hold_at(commit);
            u64::from(side.reader.page_bytes())
        });
        Some(HeldFile {
            store: store.clone(),
            commit,
            page_bytes,
            file,
        })
    }

    /// Whether it is this.
    pub(crate) fn is(&self, version: &FileVersion) -> bool {
        version.file.as_ref() == Some(&self.file)
    }

    pub(crate) fn len(&self) -> u64 {
        self.file.bytes
    }

    /// Whether these bytes are where `other` has them: in the same places of the store.
    pub(crate) fn has_kept(&self, other: &HeldFile, bytes: Range<u64>) -> bool {
        let mut pages = bytes.start / self.page_bytes..bytes.end.div_ceil(self.page_bytes);
        bytes.end <= self.len().min(other.len())
            && pages.all(|page| {
                let place = self.file.pages.get(page);
                place.is_some() && place == other.file.pages.get(page)
            })
    }

    pub(crate) fn page_bytes(&self) -> u64 {
        self.page_bytes
    }

    /// Whether the reader's commit has the same bytes under that name.
    pub(crate) fn is_current(&self) -> bool {
        self.store.driver().with(|side| {
            let state = side.reader.state();
            let file = state
                .names
                .get(&self.file.name)
                .and_then(|file| state.files.get(file));
            file == Some(&self.file)
        })
    }

    /// As [`StoreFile::read_with`].
    pub(crate) fn read_with(
        &self,
        offset: u64,
        len: u64,
        put: impl FnMut(usize, &[u8]),
    ) -> Result<usize, Error> {
        let range = offset..offset + self.len().saturating_sub(offset).min(len);
        if range.is_empty() {
            return Ok(0);
        }
        let len = (range.end - range.start) as usize;
        let pages = range.start / self.page_bytes..range.end.div_ceil(self.page_bytes);
        let found = pages.map(|page| {
            let place = self.file.pages.get(page);
            (page, place.map_or(Found::Zeros, |place| Found::At(*place)))
        });
        let driver = self.store.driver();
        let bytes = len as u64;
        let read = |wanted: &[(u64, Place)]| pages::read(driver.handle(), driver.bucket(), wanted, bytes);
        match pieces(range, self.page_bytes, found.collect(), read, put) {
            Ok(()) => Ok(len),
            Err(error) if error.is_absent => Err(Error::Deleted {
                file: self.file.name.clone(),
                commit: self.commit,
            }),
            Err(error) => Err(failed(&self.file.name, error)),
        }
    }
}

impl Drop for HeldFile {
    fn drop(&mut self) {
        let commit = self.commit;
        self.store.driver().with(|side| side.reader.release(commit));
    }
}

/// What a file has as of a commit: equal while its attributes are the same and its bytes where they were. It keeps nothing
/// from being deleted.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct FileVersion {
    pub(super) file: Option<File>,
    pub(super) node: Option<Node>,
}

impl FileVersion {
    /// The name of the store's file.
    pub(crate) fn name(&self) -> &str {
        self.file.as_ref().map_or("", |file| &file.name)
    }

    /// The length in bytes of a file; 0 for what is none.
    pub fn len(&self) -> u64 {
        self.file.as_ref().map_or(0, |file| file.bytes)
    }

    /// Whether there is not a byte in it.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

/// A file as seen by a reader.
#[derive(Debug)]
pub struct StoreFileReader {
    pub(super) store: StoreReader,
    pub(super) file: FileNo,
    pub(super) name: String,
}

impl StoreFileReader {
    /// Its length in bytes, as of the current commit.
    ///
    /// # Errors
    /// If it was removed.
    pub fn len(&self) -> Result<u64, Error> {
        let file = self.file;
        let len = self
            .store
            .driver()
            .with(|side| side.reader.state().files.get(&file).map(|file| file.bytes));
        len.ok_or_else(|| Error::NoFile(self.name.clone()))
    }

    /// Whether it has no bytes.
    ///
    /// # Errors
    /// As [`StoreFileReader::len`].
    pub fn is_empty(&self) -> Result<bool, Error> {
        Ok(self.len()? == 0)
    }

    /// Fills `buffer` from `offset` on, all of it as of one commit; returns fewer bytes only at the end of the file.
    ///
    /// # Errors
    /// If a page can't be read or is damaged, or the file was removed.
    pub fn read_at(&self, buffer: &mut [u8], offset: u64) -> Result<usize, Error> {
        let driver = self.store.driver();
        for tries in 1.. {
            let found = driver.with(|side| {
                let page_bytes = u64::from(side.reader.page_bytes());
                let file = side.reader.state().files.get(&self.file)?;
                let len = file.bytes.saturating_sub(offset).min(buffer.len() as u64);
                let pages = offset / page_bytes..(offset + len).div_ceil(page_bytes);
                let found: Vec<(u64, Found)> = pages
                    .map(|page| {
                        (
                            page,
                            file.pages
                                .get(page)
                                .map_or(Found::Zeros, |place| Found::At(*place)),
                        )
                    })
                    .collect();
                Some((page_bytes, len as usize, found))
            });
            let Some((page_bytes, len, found)) = found else {
                return Err(Error::NoFile(self.name.clone()));
            };
            if len == 0 {
                return Ok(0);
            }
            let bytes = len as u64;
            let read = |wanted: &[(u64, Place)]| pages::read(driver.handle(), driver.bucket(), wanted, bytes);
            match fill(&mut buffer[..len], offset, page_bytes, found, read) {
                Ok(()) => return Ok(len),
                // It was away for longer than a grace: it begins anew, at the newest commit.
                Err(error) if error.is_absent && tries < TRIES => {
                    self.store.begin_anew(now())?;
                }
                Err(error) => return Err(failed(&self.name, error)),
            }
        }
        Ok(0)
    }
}
