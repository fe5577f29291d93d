//! Room and holes: made, found; and data copied from file to file without leaving the mount.

use crate::caller::Asks;
use crate::content::Result;
use crate::pond::{OpenFile, Pond};
use rustix::fs::{FallocateFlags, SeekFrom};
use rustix::io::Errno;
use std::sync::Arc;

/// Bytes that one answer of a copy comes to at most; who wants more asks again.
const COPY_BYTES_MAX: u64 = 16 << 20;

/// Bytes copied at a time.
const COPY_STEP: usize = 256 << 10;

impl Pond {
    pub(crate) fn allocate(
        &self,
        handle: u64,
        (offset, len): (u64, u64),
        mode: i32,
        asks: &Asks,
    ) -> Result<()> {
        let file = self.file(handle)?;
        if !file.content.is_writable {
            return Err(Errno::BADF);
        }
        let end = offset.checked_add(len).ok_or(Errno::FBIG)?;
        let flags = FallocateFlags::from_bits_retain(mode as u32);
        let keeps = flags.contains(FallocateFlags::KEEP_SIZE);
        let kind = flags - FallocateFlags::KEEP_SIZE;
        let is_hole = kind == FallocateFlags::PUNCH_HOLE;
        if !kind.is_empty() && !is_hole && kind != FallocateFlags::ZERO_RANGE {
            return Err(Errno::OPNOTSUPP);
        }
        self.drop_privileges(&file.node, asks, None)?;
        if is_hole {
            file.content.punch(offset, len)?;
            self.written(&file.node);
            return self.make_durable(&file, file.durable);
        }
        let below = self.reopen(&file.node, rustix::fs::OFlags::RDWR)?;
        if kind == FallocateFlags::ZERO_RANGE {
            // First below, which need not be able to; what is in memory of the range goes in any case.
            rustix::fs::fallocate(&below, kind | FallocateFlags::KEEP_SIZE, offset, len)?;
            file.content.punch(offset, len)?;
        }
        rustix::fs::fallocate(&below, FallocateFlags::KEEP_SIZE, offset, len)?;
        let present = match file.content.cached_len() {
            Some(len) => len,
            None => rustix::fs::fstat(&below)?.st_size as u64,
        };
        if !keeps && end > present {
            file.content.set_len(end)?;
        }
        self.written(&file.node);
        self.make_durable(&file, file.durable)
    }

    /// Where the next data or the next hole is. What is written has to be below, to be asked about there.
    pub(crate) fn seek(&self, handle: u64, offset: i64, whence: i32) -> Result<u64> {
        /// As in `lseek`.
        const DATA: i32 = 3;
        const HOLE: i32 = 4;
        let file = self.file(handle)?;
        let offset = u64::try_from(offset).map_err(|_| Errno::NXIO)?;
        let from = match whence {
            DATA => SeekFrom::Data(offset),
            HOLE => SeekFrom::Hole(offset),
            _ => return Err(Errno::INVAL),
        };
        file.content.write_out()?;
        rustix::fs::seek(self.descriptor(&file.node)?, from)
    }

    /// Copies up to `len` bytes from one file to another; how many.
    pub(crate) fn copy(&self, from: (u64, u64), to: (u64, u64), len: u64, asks: &Asks) -> Result<u32> {
        let (source, target): (Arc<OpenFile>, _) = (self.file(from.0)?, self.file(to.0)?);
        if !target.content.is_writable {
            return Err(Errno::BADF);
        }
        // Behind the answer the kernel drops its pages up to the edges, with what is stored in them beside the copy. Refused, it
        // copies by reads and writes (`fuse_copy_file_range`, Linux 6.18).
        if target.node.mapped.is_set() {
            return Err(Errno::OPNOTSUPP);
        }
        self.drop_privileges(&target.node, asks, None)?;
        let len = len.min(COPY_BYTES_MAX);
        let mut buffer = vec![0; COPY_STEP.min(len as usize)];
        let mut done = 0;
        while done < len {
            let step = buffer.len().min((len - done) as usize);
            let copied = source
                .content
                .read_into(&mut buffer[..step], from.1 + done)
                .and_then(|read| {
                    target.content.write(&buffer[..read], to.1 + done)?;
                    Ok(read as u64)
                });
            match copied {
                Ok(0) => break,
                Ok(copied) => done += copied,
                Err(error) if done == 0 => return Err(error),
                Err(_) => break,
            }
        }
        if done > 0 {
            self.written(&target.node);
            self.make_durable(&target, target.durable)?;
        }
        // Mapped since: once more, by the kernel.
        match target.node.mapped.is_set() {
            true => Err(Errno::OPNOTSUPP),
            false => Ok(done as u32),
        }
    }
}
