//! One transfer as a row of calls: what the next call is, and what its result means.
//!
//! ```text
//!   request   ├────────────────────────────────────────────┤
//!   calls     ├─ direct: whole blocks ────────────────┤├ buffered: the odd end ┤
//! ```
//!
//! The odd end of a write begins at a page of the kernel's, though blocks may be smaller. When the file's length
//! leaves such a page, the kernel clears the rest of it in its page cache (`ext4_setattr`, Linux 6.18). A direct write
//! into the same page that is on its way then has cached content in its way: the kernel says so once, by failing the
//! next `fdatasync` with `EIO` (`dio_warn_stale_pagecache`), and may later write the old bytes over the new.
//!
//! A call that transfers less than asked is followed by one for the rest, until all is done, the file ends, or
//! an error comes. `EINTR` and `EAGAIN` are asked again. Every device runs its transfers through here, whether by
//! system call or by ring, so that they agree on the odd cases.

use super::{Op, Request};
use crate::sys::direct::{RANGES_MAX, Step, transfer_some};
use crate::sys::mapping::kernel_page;
use millpond_core::mutation::{self, Mutation};
use std::io;

/// The most one call is given: below the kernel's limit of 2 GiB less a page (`MAX_RW_COUNT`), and a multiple of
/// every block size.
const CALL_BYTES_MAX: usize = 1 << 30;

/// How far a request has come.
#[derive(Clone, Copy, Default, Debug)]
pub(crate) struct Progress {
    done: usize,
}

impl Progress {
    /// The next call.
    pub(crate) fn step(&self, request: &Request) -> Step {
        let Progress { done } = *self;
        let Request { file, segments, .. } = request;
        let offset = request.offset + done as u64;
        let len = segments.bytes_within(done, RANGES_MAX).min(CALL_BYTES_MAX);
        if let Some((memory, block)) = file.direct() {
            let unit = match request.op {
                Op::Read => block,
                Op::Write => block.max(kernel_page()),
            } as u64;
            let end = offset.saturating_add(len as u64);
            let whole = (end - end % unit).saturating_sub(offset) as usize;
            let on_block = offset.is_multiple_of(block as u64) && done.is_multiple_of(memory);
            if whole > 0 && on_block && segments.is_aligned(memory, block) {
                return Step {
                    direct: true,
                    offset,
                    skip: done,
                    len: whole,
                    flags: 0,
                };
            }
        }
        Step {
            direct: false,
            offset,
            skip: done,
            len,
            flags: file.flags(),
        }
    }

    /// Takes the result of the step's call. `Some`: the request is over.
    pub(crate) fn account(
        &mut self,
        request: &Request,
        step: &Step,
        result: io::Result<usize>,
    ) -> Option<io::Result<usize>> {
        let transferred = match result {
            Ok(transferred) => transferred,
            Err(error) if is_transient(&error) => return None,
            Err(error) => return Some(Err(error)),
        };
        if !step.direct {
            request.file.drop_cached(step.offset, transferred);
        }
        self.done += transferred;
        let at_end = match request.op {
            Op::Read => {
                // Direct reads end inside a block only where the file does.
                let cut = step.direct && transferred % request.file.block_bytes() != 0;
                transferred == 0 || cut
            }
            Op::Write if transferred == 0 && step.len > 0 => {
                return Some(Err(io::ErrorKind::WriteZero.into()));
            }
            Op::Write => mutation::is(Mutation::ShortWriteIsWhole),
        };
        (at_end || self.done == request.segments.bytes()).then_some(Ok(self.done))
    }
}

/// `ECANCELED`: the ring gives up what a thread has handed in when that thread ends.
fn is_transient(error: &io::Error) -> bool {
    matches!(
        error.raw_os_error(),
        Some(libc::EINTR | libc::EAGAIN | libc::ECANCELED)
    )
}

/// The whole request on the calling thread.
pub(crate) fn run_here(request: &Request) -> io::Result<usize> {
    let mut progress = Progress::default();
    loop {
        let step = progress.step(request);
        let file = request.file.descriptor(step.direct);
        let window = (step.skip, step.len);
        let result = transfer_some(
            file,
            request.op,
            &request.segments,
            window,
            step.offset,
            step.flags,
        );
        if let Some(result) = progress.account(request, &step, result) {
            return result;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::{Access, Buffer, DeviceFile, Segments};
    use super::*;
    use std::sync::Arc;

    fn request(file: &Arc<DeviceFile>, op: Op, offset: u64, len: usize) -> Request {
        let segments = Segments::of(Buffer::new(len.max(1)), 0, len);
        Request {
            token: 0,
            op,
            reason: None,
            file: file.clone(),
            offset,
            segments,
        }
    }

    fn direct_file() -> Option<Arc<DeviceFile>> {
        let folder = tempfile::tempdir().unwrap();
        let file = DeviceFile::open(&folder.path().join("file"), Access::Create).unwrap();
        if !file.is_direct() {
            println!("skipped: {}", file.path_taken());
        }
        file.is_direct().then(|| Arc::new(file))
    }

    #[test]
    fn odd_end_goes_through_the_page_cache() {
        let Some(file) = direct_file() else { return };
        let (block, page) = (file.block_bytes(), kernel_page());
        // Also where blocks are smaller than pages, and the end has whole ones of them.
        let odd = page / 2 + 100;
        let write = request(&file, Op::Write, 0, 2 * page + odd);
        let mut progress = Progress::default();
        let first = progress.step(&write);
        assert_eq!((first.direct, first.skip, first.len), (true, 0, 2 * page));
        assert!(progress.account(&write, &first, Ok(2 * page)).is_none());
        let second = progress.step(&write);
        assert_eq!((second.direct, second.skip, second.len), (false, 2 * page, odd));
        assert_eq!(
            progress.account(&write, &second, Ok(odd)).unwrap().unwrap(),
            2 * page + odd
        );
        let read = request(&file, Op::Read, 0, 2 * page + block);
        assert_eq!(
            Progress::default().step(&read).len,
            2 * page + block,
            "reads leave nothing behind"
        );
        assert!(
            !Progress::default()
                .step(&request(&file, Op::Write, 1, block))
                .direct,
            "odd offset"
        );
    }

    /// The whole blocks of a file's odd end went past the page cache. When the length was set meanwhile, even to what it
    /// was, the next sync failed: found by the engine's stress test.
    #[test]
    fn odd_end_is_written_while_the_length_is_set() {
        let Some(file) = direct_file() else { return };
        let len = kernel_page() - 100;
        std::thread::scope(|scope| {
            let writing = scope.spawn(|| {
                for _ in 0..500 {
                    let write = request(&file, Op::Write, 0, len);
                    assert_eq!(run_here(&write).unwrap(), len);
                }
            });
            while !writing.is_finished() {
                file.set_len(len as u64).unwrap();
                file.set_len(2 * kernel_page() as u64).unwrap();
            }
        });
        file.sync().unwrap();
    }

    #[test]
    fn short_call_is_followed_by_one_for_the_rest() {
        let Some(file) = direct_file() else { return };
        let block = file.block_bytes();
        let read = request(&file, Op::Read, 0, 8 * block);
        let mut progress = Progress::default();
        let first = progress.step(&read);
        assert!(progress.account(&read, &first, Ok(3 * block)).is_none());
        let second = progress.step(&read);
        assert_eq!(
            (second.offset, second.skip, second.len),
            (3 * block as u64, 3 * block, 5 * block)
        );
        let end = progress.account(&read, &second, Ok(block + 7));
        assert_eq!(
            end.unwrap().unwrap(),
            4 * block + 7,
            "the file ends inside a block"
        );
    }

    #[test]
    fn transient_errors_are_asked_again_and_others_are_final() {
        let file = Arc::new(DeviceFile::memory("file", 0).unwrap());
        let read = request(&file, Op::Read, 0, 4096);
        let mut progress = Progress::default();
        let step = progress.step(&read);
        for errno in [libc::EINTR, libc::EAGAIN, libc::ECANCELED] {
            assert!(
                progress
                    .account(&read, &step, Err(io::Error::from_raw_os_error(errno)))
                    .is_none()
            );
        }
        assert_eq!(progress.step(&read), step);
        let error = progress.account(&read, &step, Err(io::Error::from_raw_os_error(libc::EIO)));
        assert_eq!(error.unwrap().unwrap_err().raw_os_error(), Some(libc::EIO));
        let write = request(&file, Op::Write, 0, 4096);
        let error = progress.account(&write, &step, Ok(0)).unwrap().unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::WriteZero);
    }

    #[test]
    fn more_ranges_than_a_call_takes_are_several_calls() {
        let file = Arc::new(DeviceFile::memory("file", 0).unwrap());
        let mut segments = Segments::new(Buffer::new(4 << 20));
        (0..1500).for_each(|n| segments.push(n * 2048, 1024));
        let write = Request {
            token: 0,
            op: Op::Write,
            reason: None,
            file: file.clone(),
            offset: 0,
            segments,
        };
        assert_eq!(Progress::default().step(&write).len, 1024 << 10);
        assert_eq!(run_here(&write).unwrap(), 1500 << 10);
        assert_eq!(file.len().unwrap(), 1500 << 10);
    }
}
