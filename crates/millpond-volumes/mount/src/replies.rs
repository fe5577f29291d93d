//! Answers that a reader's mount and a writer's give alike.

use fuser::{Errno, ReplyData};
use millpond::File;
use std::cell::RefCell;
use std::ops::Deref;

/// The largest request for data. The kernel reads ahead so far at most.
pub(crate) const REQUEST_BYTES: u32 = 1 << 20;

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
