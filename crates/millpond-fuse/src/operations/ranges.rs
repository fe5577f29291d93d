//! Ranges of a file: allocate, punch, zero (fallocate), seek (lseek), copy to another file (copy_file_range).

use crate::credentials::Credentials;
use crate::state::{MountState, OpenFile};
use rustix::fs::{FallocateFlags, SeekFrom};
use rustix::io::{Errno, Result};
use std::ops::Range;
use std::sync::Arc;

/// The most that one copy_file_range copies; the kernel asks again for more.
const COPY_BYTES_MAX: u64 = 16 << 20;

impl MountState {
    pub(crate) fn allocate(
        &self,
        handle: u64,
        (offset, len): (u64, u64),
        mode: i32,
        caller: &Credentials,
    ) -> Result<()> {
        let file = self.file(handle)?;
        let allocated = self.try_allocate(&file, (offset, len), mode, caller);
        // A part of it may be zeros, of which the kernel drops its pages only if all has worked.
        allocated.inspect_err(|_| self.drop_lent(&file.inode, &(offset..offset.saturating_add(len))))
    }

    fn try_allocate(
        &self,
        file: &OpenFile,
        (offset, len): (u64, u64),
        mode: i32,
        caller: &Credentials,
    ) -> Result<()> {
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
        self.drop_privileges(&file.inode, caller, None)?;
        if is_hole {
            file.content.punch(offset, len)?;
            self.room.note_given();
            self.data_changed(&file.inode);
            return self.make_durable(file, file.durability);
        }
        let below = self.reopen(&file.inode, rustix::fs::OFlags::RDWR)?;
        if kind == FallocateFlags::ZERO_RANGE {
            // First below, which may refuse; then what is in memory of the range.
            (self.room)
                .wait_for(|| rustix::fs::fallocate(&below, kind | FallocateFlags::KEEP_SIZE, offset, len))?;
            file.content.punch(offset, len)?;
        }
        (self.room).wait_for(|| rustix::fs::fallocate(&below, FallocateFlags::KEEP_SIZE, offset, len))?;
        if !keeps && end > file.content.len()? {
            file.content.set_len(end)?;
        }
        self.data_changed(&file.inode);
        self.make_durable(file, file.durability)
    }

    /// Where the next data or the next hole is. The file below is asked, so that everything is written first.
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
        self.fetch_kernel_pages(&file.inode);
        match file.content.write_out() {
            Ok(()) => rustix::fs::seek(self.any_descriptor(&file.inode)?, from),
            // What can't be written is nowhere but in memory: all is data then, as on a file system that knows no holes.
            Err(_) => {
                let len = file.content.len()?;
                let at = if whence == DATA { offset } else { len };
                (offset < len).then_some(at).ok_or(Errno::NXIO)
            }
        }
    }

    /// Copies up to `len` bytes from one file to another; how many.
    pub(crate) fn copy(
        &self,
        from: (u64, u64),
        to: (u64, u64),
        len: u64,
        caller: &Credentials,
    ) -> Result<u32> {
        let (source, target): (Arc<OpenFile>, _) = (self.file(from.0)?, self.file(to.0)?);
        if !target.content.is_writable {
            return Err(Errno::BADF);
        }
        // After the answer the kernel drops each of its pages of which something was copied, with what is stored there beside
        // the copy, also if the page is mapped only then. So none is copied in part, and none of a file that is mapped. Refused,
        // the kernel copies by reads and writes (`fuse_copy_file_range`, Linux 6.18).
        let len = len.min(COPY_BYTES_MAX);
        let may_copy = |len: u64| -> Result<bool> {
            let range = to.1..to.1.saturating_add(len);
            Ok(!target.inode.kernel_pages.is_mapped() && has_whole_pages(range, target.content.len()?))
        };
        if !may_copy(len)? {
            return Err(Errno::OPNOTSUPP);
        }
        self.drop_privileges(&target.inode, caller, None)?;
        self.retrying_emfile(|| source.content.begin_reading())?;
        let step = (self.request_memory.request_bytes as usize).min(len as usize);
        let _held = self.held_writes.hold(step as u64);
        let mut buffer = vec![0; step];
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
                Err(error) => {
                    // The kernel drops its pages of what was copied only.
                    let at = to.1 + done;
                    self.drop_lent(&target.inode, &(at..at + step as u64));
                    match done {
                        0 => return Err(error),
                        _ => break,
                    }
                }
            }
        }
        if done > 0 {
            self.data_changed(&target.inode);
            self.make_durable(&target, target.durability)?;
        }
        // Mapped since, or the source has ended within a page: once more, by the kernel.
        if done > 0 && !may_copy(done)? {
            return Err(Errno::OPNOTSUPP);
        }
        Ok(done as u32)
    }
}

/// Whether `range` has each page of a file of `len` bytes whole or not at all.
fn has_whole_pages(range: Range<u64>, len: u64) -> bool {
    let page = rustix::param::page_size() as u64;
    range.start.is_multiple_of(page) && (range.end.is_multiple_of(page) || range.end >= len)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_page_is_copied_whole_or_as_far_as_the_file_goes() {
        let page = rustix::param::page_size() as u64;
        let len = 10 * page + 100;
        for (range, is_whole) in [
            (0..2 * page, true),
            (page..len, true),
            (page..len - 1, false),
            (0..page - 1, false),
            (1..page, false),
            (10 * page..len + 7, true),
            (20 * page..20 * page + 3, true),
        ] {
            assert_eq!(has_whole_pages(range.clone(), len), is_whole, "{range:?}");
        }
    }
}
