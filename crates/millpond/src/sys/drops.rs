//! Single pages of memory given back to the kernel, many with one system call.
//!
//! Each call to give a page back makes every processor that runs this process forget addresses, by an
//! interrupt: with a second thread running that took 13 us a page, and 1 us a page for 32 of them in one call
//! (a virtual machine, Linux 6.18).

use crate::sys::mapping::{give_back, kernel_page};

/// Pages of one call.
const BATCH: usize = 64;
/// Means this process, in place of a descriptor of it (Linux 6.14).
const SELF: libc::c_int = -10001;

/// Pages that are to be given back, as soon as this is full or dropped.
pub(super) struct Drops {
    pages: [libc::iovec; BATCH],
    count: usize,
}

impl Drops {
    pub(super) fn new() -> Drops {
        let none = libc::iovec {
            iov_base: std::ptr::null_mut(),
            iov_len: 0,
        };
        Drops {
            pages: [none; BATCH],
            count: 0,
        }
    }

    /// Gives the page at an address back, some time until `self` is dropped.
    ///
    /// # Safety
    /// It is a page of private anonymous memory to which there is no reference, or whose content comes from
    /// elsewhere when it is touched.
    pub(super) unsafe fn push(&mut self, address: usize) {
        if self.count == BATCH {
            self.all();
        }
        self.pages[self.count] = libc::iovec {
            iov_base: std::ptr::without_provenance_mut(address),
            iov_len: kernel_page(),
        };
        self.count += 1;
    }

    fn all(&mut self) {
        let pages = &self.pages[..std::mem::take(&mut self.count)];
        if let [_, _, ..] = pages {
            let advice = libc::MADV_DONTNEED;
            // SAFETY: addresses and lengths that outlive the call; the caller of `push` answers for their
            // content.
            let done = unsafe {
                libc::syscall(
                    libc::SYS_process_madvise,
                    SELF,
                    pages.as_ptr(),
                    pages.len(),
                    advice,
                    0,
                )
            };
            if usize::try_from(done) == Ok(pages.len() * kernel_page()) {
                return;
            }
        }
        // There is only one, or the kernel can't do it, or did a part.
        for page in pages {
            // If it is refused at first, it is locked: the program has had its memory locked. If it is
            // refused again, there is no such memory. SAFETY: as above.
            unsafe { give_back(page.iov_base, page.iov_len) };
        }
    }
}

impl Drop for Drops {
    fn drop(&mut self) {
        self.all();
    }
}
