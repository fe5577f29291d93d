//! Answers that a reader's mount and a writer's give alike.

use fuser::{Errno, ReplyData};
use millpond::File;
use std::cell::RefCell;
use std::ops::Deref;

/// A request for data has as much at most; the kernel reads ahead so far by itself.
const REQUEST_BYTES_MAX: u64 = 128 << 10;
/// And as much at least, whatever the budget is.
const REQUEST_BYTES_MIN: u64 = 16 << 10;
/// Requests and the answers to them may take such a part of the budget.
const REQUESTS_SHARE: u64 = 16;
/// A thread keeps a buffer for each.
const BUFFERS: u64 = 2;

/// The largest request for data, and what the buffers of all threads take, of a budget.
pub(crate) fn request_bytes(budget: u64, threads: usize) -> (u32, u64) {
    let buffers = BUFFERS * threads.max(2) as u64;
    let fits = (budget / REQUESTS_SHARE / buffers).clamp(REQUEST_BYTES_MIN, REQUEST_BYTES_MAX);
    let request = 1 << fits.ilog2();
    (request as u32, buffers * request)
}

thread_local! {
    static BUFFER: RefCell<Vec<u8>> = const { RefCell::new(Vec::new()) };
}

pub(crate) fn errno(error: &millpond::Error) -> Errno {
    Errno::from_i32(error.errno())
}

/// Answers a read of `size` bytes at `offset`.
pub(crate) fn bytes(
    file: Result<impl Deref<Target = File>, Errno>,
    (offset, size): (u64, u32),
    reply: ReplyData,
) {
    let file = match file {
        Ok(file) => file,
        Err(error) => return reply.error(error),
    };
    BUFFER.with_borrow_mut(|buffer| {
        let size = size as usize;
        if buffer.len() < size {
            buffer.resize(size, 0);
        }
        match file.read_at(&mut buffer[..size], offset) {
            Ok(read) => reply.data(&buffer[..read]),
            Err(error) => reply.error(errno(&error)),
        }
    });
}

#[cfg(test)]
mod tests {
    use super::request_bytes;

    #[test]
    fn the_buffers_of_all_threads_are_a_small_part_of_the_budget() {
        for (mib, threads, kib) in [
            (64, 32, 64),
            (512, 32, 128),
            (512, 2, 128),
            (64, 256, 16),
            (8, 32, 16),
        ] {
            let (request, buffers) = request_bytes(mib << 20, threads);
            assert_eq!(
                (request >> 10, buffers),
                (kib, 2 * threads as u64 * u64::from(request))
            );
        }
    }
}
