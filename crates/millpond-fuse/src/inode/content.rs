//! The data of one regular file: through the cache, or directly from the underlying file for comparison.
//!
//! A file that is open for reading only is opened in the cache when it is read: of a file whose pages are all lent to the kernel,
//! nothing is, and to open it there takes longer than all else of its opening.

use millpond::{OpenOptions, PageCache};
use parking_lot::Mutex;
use rustix::fs::FallocateFlags;
use rustix::io::{Errno, Result};
use std::fs;
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::fs::FileExt;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};

/// An open file.
pub(crate) struct Content {
    data: OnceLock<Data>,
    /// Of a file that is open for reading only, until it is read.
    unread: Mutex<Option<Unread>>,
    /// [`Room::given`](crate::room::Room::given) when the disk was last asked for room after a write had been refused.
    room_seen: AtomicU64,
    pub(crate) is_writable: bool,
}

enum Data {
    Cached(millpond::File),
    Direct(fs::File),
}

struct Unread {
    file: fs::File,
    cache: PageCache,
}

impl Content {
    /// Takes an open file.
    pub(crate) fn open(file: fs::File, is_writable: bool, cache: Option<&PageCache>) -> Result<Content> {
        let (data, unread) = match cache {
            Some(cache) if is_writable => (OnceLock::from(cached(cache, file, true)?), None),
            Some(cache) => {
                let cache = cache.clone();
                (OnceLock::new(), Some(Unread { file, cache }))
            }
            None => (OnceLock::from(Data::Direct(file)), None),
        };
        Ok(Content {
            data,
            unread: Mutex::new(unread),
            room_seen: AtomicU64::new(0),
            is_writable,
        })
    }

    /// To be called before it is read.
    ///
    /// # Errors
    /// It can't be opened in the cache.
    pub(crate) fn begin_reading(&self) -> Result<()> {
        self.data().map(drop)
    }

    /// Nothing of it was asked for since it was opened.
    pub(crate) fn is_unread(&self) -> bool {
        self.data.get().is_none()
    }

    fn data(&self) -> Result<&Data> {
        if let Some(data) = self.data.get() {
            return Ok(data);
        }
        let mut unread = self.unread.lock();
        if let Some(Unread { file, cache }) = &*unread {
            let file = file.try_clone().map_err(io_errno)?;
            let data = cached(cache, file, false)?;
            *unread = None;
            let _ = self.data.set(data);
        }
        self.data.get().ok_or(Errno::BADF)
    }

    /// A descriptor of the file below, for the process that takes over.
    pub(crate) fn descriptor(&self) -> io::Result<OwnedFd> {
        match (self.data.get(), &*self.unread.lock()) {
            (Some(Data::Cached(file)), _) => millpond::internal::descriptor(file),
            (Some(Data::Direct(file)), _) | (None, Some(Unread { file, .. })) => Ok(file.try_clone()?.into()),
            (None, None) => Err(Errno::BADF.into()),
        }
    }

    /// The length with everything that was written, where the file below may not have it yet.
    pub(crate) fn cached_len(&self) -> Option<u64> {
        match self.data.get()? {
            Data::Cached(file) => Some(file.len()),
            Data::Direct(_) => None,
        }
    }

    /// The length with everything that was written.
    pub(crate) fn len(&self) -> Result<u64> {
        match self.data()? {
            Data::Cached(file) => Ok(file.len()),
            Data::Direct(file) => file.metadata().map(|about| about.len()).map_err(io_errno),
        }
    }

    /// Calls `with` with the `len` bytes from `offset` on, or with fewer at the end of the file. A read that crosses pages
    /// goes through `buffer`.
    pub(crate) fn read(
        &self,
        offset: u64,
        len: usize,
        buffer: &mut Vec<u8>,
        with: impl FnOnce(&[u8]),
    ) -> Result<()> {
        /// Pages are as large or larger.
        const PAGE: u64 = 4096;
        let data = self.data()?;
        if let Data::Cached(file) = data
            && offset % PAGE + len as u64 <= PAGE
            && let Ok(page) = file.page(offset / PAGE)
        {
            let from = (offset % PAGE) as usize;
            let to = (from + len).min(page.len());
            with(page.get(from..to).unwrap_or_default());
            return Ok(());
        }
        if buffer.len() < len {
            buffer.resize(len, 0);
        }
        let buffer = &mut buffer[..len];
        let read = match data {
            Data::Cached(file) => file.read_at(buffer, offset).map_err(|e| errno(&e))?,
            Data::Direct(file) => read_direct(file, buffer, offset).map_err(io_errno)?,
        };
        with(&buffer[..read]);
        Ok(())
    }

    pub(crate) fn read_into(&self, buffer: &mut [u8], offset: u64) -> Result<usize> {
        match self.data()? {
            Data::Cached(file) => file.read_at(buffer, offset).map_err(|e| errno(&e)),
            Data::Direct(file) => read_direct(file, buffer, offset).map_err(io_errno),
        }
    }

    pub(crate) fn write(&self, bytes: &[u8], offset: u64) -> Result<()> {
        match self.data()? {
            Data::Cached(file) => file.write_at(bytes, offset).map_err(|e| errno(&e)),
            Data::Direct(file) => file.write_all_at(bytes, offset).map_err(io_errno),
        }
    }

    /// As `write`, for pages that the kernel writes back: it takes them for clean, whatever is answered.
    pub(crate) fn write_back(&self, bytes: &[u8], offset: u64) -> Result<()> {
        match self.data()? {
            Data::Cached(file) => file.write_promised(bytes, offset).map_err(|e| errno(&e)),
            Data::Direct(file) => file.write_all_at(bytes, offset).map_err(io_errno),
        }
    }

    pub(crate) fn set_len(&self, len: u64) -> Result<()> {
        match self.data()? {
            Data::Cached(file) => file.set_len(len).map_err(|e| errno(&e)),
            Data::Direct(file) => file.set_len(len).map_err(io_errno),
        }
    }

    pub(crate) fn punch(&self, offset: u64, len: u64) -> Result<()> {
        match self.data()? {
            Data::Cached(file) => file.punch(offset, len).map_err(|e| errno(&e)),
            Data::Direct(file) => {
                let flags = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
                rustix::fs::fallocate(file, flags, offset, len)
            }
        }
    }

    /// Makes durable what was written.
    pub(crate) fn sync(&self) -> Result<()> {
        match self.data()? {
            Data::Cached(file) => file.sync_data().map_err(|e| errno(&e)),
            Data::Direct(file) => file.sync_data().map_err(io_errno),
        }
    }

    /// A write was refused for want of room: whether some has been given back since it was last so, and it is worth it to ask
    /// the disk.
    pub(crate) fn may_have_room(&self, given: u64) -> bool {
        self.room_seen.swap(given, Ordering::SeqCst) != given
    }

    /// At most so many bytes of it are not in the file below.
    pub(crate) fn unwritten_bytes(&self) -> u64 {
        match self.data.get() {
            Some(Data::Cached(file)) if self.is_writable => millpond::internal::unwritten_bytes(file),
            _ => 0,
        }
    }

    /// Makes the file below hold what was written, so that it can be asked about it.
    pub(crate) fn write_out(&self) -> Result<()> {
        match self.data()? {
            Data::Cached(file) => file.write_out().map_err(|e| errno(&e)),
            Data::Direct(_) => Ok(()),
        }
    }

    /// Discards what could not be written.
    pub(crate) fn discard_unwritten(&self) -> Result<()> {
        match self.data()? {
            Data::Cached(file) => file.discard_unwritten().map(|_| ()).map_err(|e| errno(&e)),
            Data::Direct(_) => Ok(()),
        }
    }

    /// Why some of it can't be written, as far as that is known.
    pub(crate) fn failure(&self) -> Option<Errno> {
        match self.data.get()? {
            Data::Cached(file) => file.failure().map(|e| errno(&e)),
            Data::Direct(_) => None,
        }
    }

    /// Whether a sync has failed, and all that was written is on the disk or lost: every sync fails until it is dropped.
    pub(crate) fn has_failed_sync(&self) -> bool {
        let failure = match self.data.get() {
            Some(Data::Cached(file)) => file.failure(),
            Some(Data::Direct(_)) | None => None,
        };
        matches!(failure, Some(millpond::Error::Sync { .. })) && self.unwritten_bytes() == 0
    }

    /// Forgets what is in memory and not changed, since others have changed the file below.
    pub(crate) fn invalidate(&self) -> Result<()> {
        match self.data.get() {
            Some(Data::Cached(file)) => file.invalidate(..).map(|_| ()).map_err(|e| errno(&e)),
            Some(Data::Direct(_)) | None => Ok(()),
        }
    }
}

fn cached(cache: &PageCache, file: fs::File, is_writable: bool) -> Result<Data> {
    let options = OpenOptions::new().write(is_writable);
    cache
        .open_file(file, options)
        .map(Data::Cached)
        .map_err(|e| errno(&e))
}

fn read_direct(file: &fs::File, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
    let mut done = 0;
    while done < buffer.len() {
        match file.read_at(&mut buffer[done..], offset + done as u64) {
            Ok(0) => break,
            Ok(n) => done += n,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(done)
}

fn io_errno(error: io::Error) -> Errno {
    Errno::from_io_error(&error).unwrap_or(Errno::IO)
}

/// The error that a program gets.
fn errno(error: &millpond::Error) -> Errno {
    match error {
        // Longer than a file in the cache can be: as on a file system with such a limit.
        millpond::Error::OutOfRange { .. } => Errno::FBIG,
        other => Errno::from_raw_os_error(other.errno()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_for_reading_only_is_opened_in_the_cache_when_it_is_read_or_synced_and_has_what_writers_wrote_before()
     {
        let cache = PageCache::builder().memory(2 << 20).build().unwrap();
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("file");
        fs::write(&path, "text").unwrap();
        let open = |is_writable| {
            let file = fs::File::options().read(true).write(is_writable).open(&path);
            Content::open(file.unwrap(), is_writable, Some(&cache)).unwrap()
        };
        let [reader, syncer] = [open(false), open(false)];
        assert!(reader.is_unread() && reader.cached_len().is_none());
        let writer = open(true);
        writer.write(b"more text", 0).unwrap();
        let mut read = Vec::new();
        reader
            .read(0, 4096, &mut Vec::new(), |bytes| read.extend_from_slice(bytes))
            .unwrap();
        assert_eq!(read, b"more text");
        assert!(!reader.is_unread());
        assert_eq!(fs::read(&path).unwrap(), b"text");
        syncer.sync().unwrap();
        assert_eq!(fs::read(&path).unwrap(), b"more text");
    }
}
