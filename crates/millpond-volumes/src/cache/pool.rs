//! Buffers for what a store holds.
//!
//! They are reused, because an allocator keeps much of what is freed, in a heap per thread, and the budget would have
//! to cover that too.

use bytes::{Bytes, BytesMut};
use std::sync::{Arc, Mutex, PoisonError};

/// Buffers of one size that are not in use.
#[derive(Debug)]
pub(super) struct Pool {
    bytes: usize,
    free: Mutex<Vec<Vec<u8>>>,
}

/// One in use; free again when the last of its bytes is let go of.
struct Pooled {
    buffer: Vec<u8>,
    used: usize,
    pool: Arc<Pool>,
}

impl AsRef<[u8]> for Pooled {
    fn as_ref(&self) -> &[u8] {
        &self.buffer[..self.used]
    }
}

impl Drop for Pooled {
    fn drop(&mut self) {
        let buffer = std::mem::take(&mut self.buffer);
        let free = self.pool.free.lock();
        free.unwrap_or_else(PoisonError::into_inner).push(buffer);
    }
}

impl Pool {
    /// Of buffers of `bytes` bytes.
    pub(super) fn new(bytes: u64) -> Arc<Pool> {
        Arc::new(Pool {
            bytes: bytes as usize,
            free: Mutex::default(),
        })
    }

    /// `used` bytes, which `fill` writes. What is no more than half of a buffer takes none: it would hold the rest as well.
    pub(super) fn filled(self: &Arc<Pool>, used: usize, fill: impl FnOnce(&mut [u8])) -> Bytes {
        if used <= self.bytes / 2 || used > self.bytes {
            let mut bytes = BytesMut::zeroed(used);
            fill(&mut bytes);
            return bytes.freeze();
        }
        let free = self.free.lock().unwrap_or_else(PoisonError::into_inner).pop();
        let mut buffer = free.unwrap_or_else(|| vec![0; self.bytes]);
        fill(&mut buffer[..used]);
        let pool = self.clone();
        Bytes::from_owner(Pooled { buffer, used, pool })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_buffer_is_used_again_when_nothing_has_its_bytes_any_more() {
        let pool = Pool::new(100);
        let free = || pool.free.lock().unwrap().len();
        let first = pool.filled(80, |bytes| bytes.fill(1));
        let part = first.slice(70..);
        drop(first);
        assert_eq!((free(), &part[..]), (0, &[1; 10][..]));
        drop(part);
        assert_eq!(free(), 1);
        let small = pool.filled(50, |bytes| bytes.fill(2));
        assert_eq!((free(), small.len()), (1, 50), "it took none");
        let again = pool.filled(60, |bytes| bytes.fill(3));
        assert_eq!((free(), &again[..]), (0, &[3; 60][..]));
    }
}
