//! A file that is written through a mapping: the kernel's own page cache, page by page, as programs use it with mmap(2).
//!
//! This crate does nothing this way: it is here for comparisons. Bytes are copied in, words are read, and no
//! reference into the mapping is given out, so what others do to the file meanwhile is no matter of memory
//! safety. It is one of signals: the process gets SIGBUS if the file is cut, or the file system has no space
//! left, below a page that is touched.

use super::mapping::kernel_page;
use std::fs::File;
use std::io;
use std::os::fd::AsRawFd;
use std::ptr::{self, NonNull};
use std::sync::atomic::{AtomicU64, Ordering};

/// A file mapped for reading and writing, shared with the page cache. Unmapped when dropped.
#[derive(Debug)]
pub struct MappedFile {
    start: NonNull<u8>,
    len: usize,
}

// SAFETY: a range of addresses belongs to no thread.
unsafe impl Send for MappedFile {}
// SAFETY: methods that take `&self` make system calls or store atomically; copying takes `&mut`.
unsafe impl Sync for MappedFile {}

impl MappedFile {
    /// Maps the first `len` bytes of `file`, which has as many and was opened for reading and writing. Takes no memory
    /// before it is touched.
    ///
    /// # Errors
    /// What mmap(2) says; `InvalidInput` if `len` is 0 or more than the file has.
    pub fn new(file: &File, len: u64) -> io::Result<MappedFile> {
        let invalid = || io::Error::from(io::ErrorKind::InvalidInput);
        let bytes = usize::try_from(len).map_err(|_| invalid())?;
        if bytes == 0 || file.metadata()?.len() < len {
            return Err(invalid());
        }
        let protection = libc::PROT_READ | libc::PROT_WRITE;
        // SAFETY: a new mapping at an address of the kernel's choice touches nothing that exists.
        let address = unsafe {
            libc::mmap(
                ptr::null_mut(),
                bytes,
                protection,
                libc::MAP_SHARED,
                file.as_raw_fd(),
                0,
            )
        };
        if address == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        let start = NonNull::new(address.cast()).ok_or_else(invalid)?;
        Ok(MappedFile { start, len: bytes })
    }

    /// Tells the kernel that pages are touched at unpredictable places: each is read alone then, without its neighbours.
    ///
    /// # Errors
    /// What madvise(2) says.
    pub fn advise_random(&self) -> io::Result<()> {
        let len = self.len.next_multiple_of(kernel_page());
        // SAFETY: the mapping is ours, up to the end of its last page; the call changes no memory.
        let answer = unsafe { libc::madvise(self.start.as_ptr().cast(), len, libc::MADV_RANDOM) };
        match answer {
            -1 => Err(io::Error::last_os_error()),
            _ => Ok(()),
        }
    }

    /// Copies `bytes` to `offset`, as a program's own store does: the kernel brings each page in at its first
    /// touch, and makes a thread that touches too many wait.
    ///
    /// # Panics
    /// If that is not inside the mapping.
    pub fn write(&mut self, offset: u64, bytes: &[u8]) {
        let at = usize::try_from(offset).unwrap_or(usize::MAX);
        assert!(
            at.checked_add(bytes.len()).is_some_and(|end| end <= self.len),
            "{} bytes at {offset} are not inside a mapping of {}",
            bytes.len(),
            self.len
        );
        let to = self.start.as_ptr().wrapping_add(at);
        // SAFETY: inside the mapping, as asserted, which is readable and writable until the drop. No reference points into
        // it, as none is ever given away, so `bytes` lies elsewhere.
        unsafe { ptr::copy_nonoverlapping(bytes.as_ptr(), to, bytes.len()) };
    }

    /// Stores a word at `offset`, as one of a program's threads does while others store elsewhere, or there.
    ///
    /// # Panics
    /// If that is not a whole word inside the mapping, at a multiple of its size.
    #[inline]
    pub fn store(&self, offset: u64, word: u64) {
        self.word(offset).store(word, Ordering::Relaxed);
    }

    #[inline]
    fn word(&self, offset: u64) -> &AtomicU64 {
        let at = usize::try_from(offset).unwrap_or(usize::MAX);
        assert!(
            at.is_multiple_of(size_of::<u64>())
                && self
                    .len
                    .checked_sub(size_of::<u64>())
                    .is_some_and(|last| at <= last),
            "no word is at {offset} in a mapping of {}",
            self.len
        );
        let word = self.start.as_ptr().wrapping_add(at).cast::<AtomicU64>();
        // SAFETY: a whole word inside the mapping, as asserted, which is readable and writable until the
        // drop; aligned, as the mapping begins with a page. Other threads that use it while `self` is shared
        // do so here, atomically.
        unsafe { &*word }
    }

    /// The word at `offset`, as one of a program's threads reads it while others store elsewhere, or there. The kernel reads
    /// the page from the file if it is not in memory; where it can't, the process gets SIGBUS.
    ///
    /// # Panics
    /// As [`MappedFile::store`].
    #[inline]
    pub fn load(&self, offset: u64) -> u64 {
        self.word(offset).load(Ordering::Relaxed)
    }

    /// Brings what was written to the device, as msync(2) does; returns when it would survive a loss of power.
    ///
    /// # Errors
    /// What msync(2) says.
    pub fn sync(&self) -> io::Result<()> {
        let len = self.len.next_multiple_of(kernel_page());
        // SAFETY: the mapping is ours, up to the end of its last page; the call changes no memory.
        let answer = unsafe { libc::msync(self.start.as_ptr().cast(), len, libc::MS_SYNC) };
        match answer {
            -1 => Err(io::Error::last_os_error()),
            _ => Ok(()),
        }
    }
}

impl Drop for MappedFile {
    fn drop(&mut self) {
        // SAFETY: ours, and nothing refers into it now.
        unsafe { libc::munmap(self.start.as_ptr().cast(), self.len) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::FileExt;

    #[test]
    fn writes_through_the_mapping_are_in_the_file() {
        let file = tempfile::tempfile().unwrap();
        file.set_len(10_000).unwrap();
        let mut mapped = MappedFile::new(&file, 10_000).unwrap();
        mapped.advise_random().unwrap();
        mapped.write(4090, b"over the edge");
        mapped.write(9_999, b"!");
        mapped.sync().unwrap();
        drop(mapped);
        let mut bytes = [0; 13];
        file.read_exact_at(&mut bytes, 4090).unwrap();
        assert_eq!(&bytes, b"over the edge");
        file.read_exact_at(&mut bytes[..1], 9_999).unwrap();
        assert_eq!(bytes[0], b'!');
    }

    #[test]
    fn words_are_stored_from_several_threads_and_read_again() {
        let file = tempfile::tempfile().unwrap();
        file.set_len(8192).unwrap();
        let mapped = MappedFile::new(&file, 8192).unwrap();
        std::thread::scope(|scope| {
            for n in 0..4 {
                let mapped = &mapped;
                scope.spawn(move || (0..256).for_each(|word| mapped.store((word * 4 + n) * 8, word * 4 + n)));
            }
        });
        mapped.sync().unwrap();
        let mut bytes = [0; 8];
        for word in 0..1024 {
            assert_eq!(mapped.load(word * 8), word);
            file.read_exact_at(&mut bytes, word * 8).unwrap();
            assert_eq!(u64::from_ne_bytes(bytes), word);
        }
    }

    #[test]
    #[should_panic(expected = "no word is at 4092 in a mapping of 4096")]
    fn a_word_that_is_not_aligned_is_refused() {
        let file = tempfile::tempfile().unwrap();
        file.set_len(4096).unwrap();
        MappedFile::new(&file, 4096).unwrap().store(4092, 1);
    }

    #[test]
    fn no_more_is_mapped_than_the_file_has() {
        let file = tempfile::tempfile().unwrap();
        file.set_len(4096).unwrap();
        for len in [0, 4097] {
            let error = MappedFile::new(&file, len).unwrap_err();
            assert_eq!(error.kind(), io::ErrorKind::InvalidInput, "{len}");
        }
    }

    #[test]
    #[should_panic(expected = "2 bytes at 4095 are not inside a mapping of 4096")]
    fn writing_beyond_the_mapping_is_refused() {
        let file = tempfile::tempfile().unwrap();
        file.set_len(4096).unwrap();
        MappedFile::new(&file, 4096).unwrap().write(4095, &[1, 2]);
    }
}
