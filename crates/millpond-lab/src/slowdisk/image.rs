//! The bytes of a slow disk: in memory, or in a file.
//!
//! Memory is taken a mebibyte at a time when something is written there, and given back when all of it is discarded;
//! what was never written reads as zeros. A file is read and written past the page cache, at the moment a request
//! arrives, so it must be on a device that is faster than the modelled one.

use crate::error::{LabError, Result};
use millpond::device::{Access, Buffer, Device, DeviceFile, Op, Request, Segments, Threads};
use millpond_core::units::Bytes;
use parking_lot::RwLock;
use std::fs::OpenOptions;
use std::io;
use std::path::Path;
use std::sync::Arc;

/// 1 MiB: as much as a request has at most, so that most requests lie in one chunk and none in more than two.
pub(super) const CHUNK_BYTES: usize = 1 << 20;

/// A chunk of zeros, for what was never written.
static ZEROS: [u8; CHUNK_BYTES] = [0; CHUNK_BYTES];

#[derive(Debug)]
pub(super) enum Image {
    Memory(Memory),
    File(File),
}

/// Chunk by chunk; `None` is a chunk of zeros.
#[derive(Debug)]
pub(super) struct Memory(Vec<RwLock<Option<Box<[u8]>>>>);

#[derive(Debug)]
pub(super) struct File {
    file: Arc<DeviceFile>,
    device: Threads,
}

/// The data read when the request arrived; `None` where it is read when it is answered.
pub(super) type ReadEarly = Option<Arc<Buffer>>;

impl Image {
    /// `size` bytes of zeros in memory.
    pub(super) fn memory(size: Bytes) -> Image {
        let chunks = size.0.div_ceil(CHUNK_BYTES as u64);
        Image::Memory(Memory((0..chunks).map(|_| RwLock::new(None)).collect()))
    }

    /// The file at `path`, made if there is none, `size` bytes long.
    pub(super) fn file(path: &Path, size: Bytes) -> Result<Image> {
        let failed = |e: io::Error| LabError::path("cannot keep the disk in", path, e);
        let plain = OpenOptions::new()
            .create(true)
            .truncate(false)
            .write(true)
            .open(path)
            .map_err(failed)?;
        plain.set_len(size.0).map_err(failed)?;
        let file = Arc::new(DeviceFile::open(path, Access::ReadWrite).map_err(failed)?);
        let device = Threads::new("a slow disk's file");
        Ok(Image::File(File { file, device }))
    }

    /// Stores `data`.
    pub(super) fn write(&self, offset: u64, data: &[u8]) -> io::Result<()> {
        match self {
            Image::Memory(memory) => {
                memory.write(offset, data);
                Ok(())
            }
            Image::File(file) => {
                let mut buffer = Buffer::new(data.len().max(1));
                if let Some(bytes) = Buffer::bytes(&mut buffer) {
                    bytes[..data.len()].copy_from_slice(data);
                }
                file.transfer(Op::Write, &buffer, offset, data.len())
            }
        }
    }

    /// Reads now what can't be read in no time later.
    pub(super) fn read_early(&self, offset: u64, len: usize) -> io::Result<ReadEarly> {
        match self {
            Image::Memory(_) => Ok(None),
            Image::File(file) => {
                let buffer = Buffer::new(len.max(1));
                file.transfer(Op::Read, &buffer, offset, len)?;
                Ok(Some(buffer))
            }
        }
    }

    /// Lends `use_bytes` the `len` bytes at `offset`.
    pub(super) fn read(&self, early: ReadEarly, offset: u64, len: usize, use_bytes: impl FnOnce(&[u8])) {
        match (self, early) {
            (Image::Memory(memory), _) => memory.read(offset, len, use_bytes),
            (Image::File(_), Some(mut buffer)) => {
                if let Some(bytes) = Buffer::bytes(&mut buffer) {
                    use_bytes(&bytes[..len]);
                }
            }
            (Image::File(_), None) => use_bytes(&[]),
        }
    }

    /// Makes `len` bytes at `offset` zero.
    pub(super) fn discard(&self, offset: u64, len: u64) -> io::Result<()> {
        match self {
            Image::Memory(memory) => {
                memory.discard(offset, len);
                Ok(())
            }
            Image::File(file) => file.discard(offset, len),
        }
    }
}

impl Memory {
    fn write(&self, offset: u64, data: &[u8]) {
        for (index, from, part) in pieces(offset, data.len() as u64) {
            let mut chunk = self.0[index].write();
            let chunk = chunk.get_or_insert_with(|| vec![0; CHUNK_BYTES].into_boxed_slice());
            let (at, end) = (part.start as usize, part.end as usize);
            chunk[from..from + (end - at)].copy_from_slice(&data[at..end]);
        }
    }

    fn read(&self, offset: u64, len: usize, use_bytes: impl FnOnce(&[u8])) {
        let first = (offset / CHUNK_BYTES as u64) as usize;
        let from = (offset % CHUNK_BYTES as u64) as usize;
        if from + len <= CHUNK_BYTES {
            let chunk = self.0[first].read();
            return use_bytes(&chunk.as_deref().unwrap_or(&ZEROS)[from..from + len]);
        }
        let mut bytes = Vec::with_capacity(len);
        for (index, from, part) in pieces(offset, len as u64) {
            let chunk = self.0[index].read();
            let count = (part.end - part.start) as usize;
            bytes.extend_from_slice(&chunk.as_deref().unwrap_or(&ZEROS)[from..from + count]);
        }
        use_bytes(&bytes);
    }

    fn discard(&self, offset: u64, len: u64) {
        for (index, from, part) in pieces(offset, len) {
            let count = (part.end - part.start) as usize;
            let mut chunk = self.0[index].write();
            if count == CHUNK_BYTES {
                *chunk = None;
            } else if let Some(bytes) = chunk.as_deref_mut() {
                bytes[from..from + count].fill(0);
            }
        }
    }
}

impl File {
    fn transfer(&self, op: Op, buffer: &Arc<Buffer>, offset: u64, len: usize) -> io::Result<()> {
        let request = Request {
            token: 0,
            op,
            reason: None,
            file: self.file.clone(),
            offset,
            segments: Segments::of(buffer.clone(), 0, len),
        };
        self.device.transfer(&request).map(drop)
    }

    fn discard(&self, offset: u64, len: u64) -> io::Result<()> {
        // Zeros are written: the file need not be on a file system that can punch holes.
        pieces(offset, len).try_for_each(|(_, _, part)| {
            let count = (part.end - part.start) as usize;
            let zeros = Buffer::new(count);
            self.transfer(Op::Write, &zeros, offset + part.start, count)
        })
    }
}

/// The chunks that `len` bytes at `offset` lie in: which, from where in it, and which of the bytes.
fn pieces(offset: u64, len: u64) -> impl Iterator<Item = (usize, usize, std::ops::Range<u64>)> {
    let chunk_bytes = CHUNK_BYTES as u64;
    let mut done = 0;
    std::iter::from_fn(move || {
        let from = (offset + done) % chunk_bytes;
        let count = (chunk_bytes - from).min(len - done);
        let piece = (
            ((offset + done) / chunk_bytes) as usize,
            from as usize,
            done..done + count,
        );
        done += count;
        (count > 0).then_some(piece)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bytes(image: &Image, offset: u64, len: usize) -> Vec<u8> {
        let early = image.read_early(offset, len).unwrap();
        let mut seen = Vec::new();
        image.read(early, offset, len, |bytes| seen.extend_from_slice(bytes));
        seen
    }

    fn keeps_what_is_written(image: &Image) {
        let mib = CHUNK_BYTES as u64;
        assert_eq!(bytes(image, 0, 4096), [0; 4096], "never written");
        image.write(mib - 4096, &[7; 8192]).unwrap();
        assert_eq!(bytes(image, mib - 4096, 8192), [7; 8192], "over a seam");
        assert_eq!(bytes(image, mib + 4096, 4096), [0; 4096]);
        image.discard(mib - 4096, 4096).unwrap();
        assert_eq!(
            bytes(image, mib - 4096, 8192),
            [[0; 4096], [7; 4096]].concat(),
            "half of it is gone"
        );
        image.write(2 * mib, &[9; CHUNK_BYTES]).unwrap();
        image.discard(mib, 3 * mib).unwrap();
        assert_eq!(bytes(image, mib, CHUNK_BYTES), [0; CHUNK_BYTES]);
        assert_eq!(bytes(image, 2 * mib, CHUNK_BYTES), [0; CHUNK_BYTES]);
    }

    #[test]
    fn disk_in_memory_keeps_what_is_written_and_gives_back_what_is_discarded() {
        let image = Image::memory(Bytes::from_mib(4));
        keeps_what_is_written(&image);
        let Image::Memory(Memory(chunks)) = &image else {
            panic!("{image:?}");
        };
        let held = chunks.iter().filter(|chunk| chunk.read().is_some()).count();
        assert_eq!(held, 1, "only the first chunk, of which a part was discarded");
    }

    #[test]
    fn disk_in_a_file_keeps_what_is_written() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("disk");
        keeps_what_is_written(&Image::file(&path, Bytes::from_mib(4)).unwrap());
        let again = Image::file(&path, Bytes::from_mib(4)).unwrap();
        again.write(0, &[1; 4096]).unwrap();
        drop(again);
        let again = Image::file(&path, Bytes::from_mib(4)).unwrap();
        assert_eq!(bytes(&again, 0, 4096), [1; 4096], "what was there before stays");
        let error = Image::file(folder.path(), Bytes::from_mib(4)).unwrap_err();
        assert!(error.to_string().contains("cannot keep the disk in"), "{error}");
    }
}
