//! Checks of pages on their way to a file and back.

use super::handle;
use super::memory::{Extensible, Kept, out, sized};
use super::millpond_check;
use crate::code::millpond_code;
use crate::told::{Failure, attempt};
use millpond::PageCheck;
use std::ffi::{CStr, c_char, c_int, c_void};
use std::sync::Arc;

/// The size of the buffer for a check's text, in bytes.
pub const MILLPOND_CHECK_WHY: usize = 256;

/// Page number `page` is about to be written: `data` is a private copy of the whole page, which may be stamped.
pub type millpond_before_write =
    Option<extern "C" fn(kept_user: *mut c_void, page: u64, data: *mut c_void, len: usize)>;

/// Page number `page` was read: all of it, with zeros past the end of the file and where nothing was ever written.
/// Returns 0 if it is as it was written; otherwise its reader gets MILLPOND_CHECK with the text put into `why`, a
/// buffer of MILLPOND_CHECK_WHY bytes.
pub type millpond_after_read = Option<
    extern "C" fn(
        kept_user: *mut c_void,
        page: u64,
        data: *const c_void,
        len: usize,
        why: *mut c_char,
    ) -> c_int,
>;

/// Callbacks for every page of a file. Both are called by whichever thread writes or reads, by several at once, and
/// must not use the cache.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct millpond_check_options {
    /// sizeof(struct millpond_check_options).
    pub size: usize,
    /// NULL: pages are written as they are.
    pub before_write: millpond_before_write,
    /// NULL: all pages are accepted.
    pub after_read: millpond_after_read,
    /// Passed to both, and kept until the check is dropped and no file has it.
    pub kept_user: *mut c_void,
}

/// SAFETY: a number, a pointer that may be NULL, functions that may be none.
unsafe impl Extensible for millpond_check_options {
    const NAME: &'static str = "struct millpond_check_options";
    const FIRST: usize = std::mem::offset_of!(millpond_check_options, kept_user) + size_of::<usize>();
}

struct Callbacks {
    before_write: millpond_before_write,
    after_read: millpond_after_read,
    kept: Kept,
}

impl PageCheck for Callbacks {
    fn before_write(&self, page: u64, bytes: &mut [u8]) {
        if let Some(stamp) = self.before_write {
            stamp(self.kept.user(), page, bytes.as_mut_ptr().cast(), bytes.len());
        }
    }

    fn after_read(&self, page: u64, bytes: &[u8]) -> Result<(), String> {
        let Some(check) = self.after_read else {
            return Ok(());
        };
        let mut why = [0_u8; MILLPOND_CHECK_WHY];
        let data = bytes.as_ptr().cast();
        if check(self.kept.user(), page, data, bytes.len(), why.as_mut_ptr().cast()) == 0 {
            return Ok(());
        }
        // Whatever it has written over the end.
        why[MILLPOND_CHECK_WHY - 1] = 0;
        let said = CStr::from_bytes_until_nul(&why).map(CStr::to_string_lossy);
        Err(said.map_or_else(|_| String::new(), |said| said.into_owned()))
    }
}

/// The value behind a check handle.
pub struct Check(Arc<Callbacks>);

impl Check {
    pub(super) fn shared(&self) -> Arc<dyn PageCheck> {
        self.0.clone()
    }
}

/// Makes a check, for millpond_file_options.check. All handles of a file have the same one. The caller owns `*check`
/// and drops it with millpond_check_drop.
#[unsafe(no_mangle)]
pub extern "C-unwind" fn millpond_check_new(
    options: *const millpond_check_options,
    check: Option<&mut *mut millpond_check>,
) -> millpond_code {
    attempt(|| {
        let (check, options) = (out(check, "check")?, sized(options)?);
        if options.before_write.is_none() && options.after_read.is_none() {
            return Err(Failure::invalid(
                "the check has neither before_write nor after_read",
            ));
        }
        let callbacks = Callbacks {
            before_write: options.before_write,
            after_read: options.after_read,
            kept: Kept::new(options.kept_user),
        };
        handle::give(Check(Arc::new(callbacks)), check);
        Ok(())
    })
}

/// Drops the handle. Files that were opened with the check keep it.
#[unsafe(no_mangle)]
pub extern "C-unwind" fn millpond_check_drop(check: *mut millpond_check) -> millpond_code {
    attempt(|| handle::close(check).map(drop))
}
