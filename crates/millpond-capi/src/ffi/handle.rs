//! Opaque handles.
//!
//! ```text
//!   millpond_file *  ──►  tag: what it is, or that it is closed     never given back to the system: a handle that was
//!                         value ──► the engine's handle, boxed      closed can be told by its tag
//! ```
//!
//! All kinds have the same form, so a handle of the wrong kind can be detected. A closed one is used again after
//! [`KEPT_CLOSED`] others of its kind were closed, so most mistakes are seen and memory stays bounded.

use crate::told::Failure;
use parking_lot::Mutex;
use std::collections::VecDeque;
use std::sync::atomic::{AtomicPtr, AtomicU32, Ordering};

/// Closed handles of a kind before the first is used again. They take 16 KiB.
const KEPT_CLOSED: usize = 1024;

const CLOSED: u32 = 0x6d70_0000;

pub(crate) type Closed<T> = Mutex<VecDeque<&'static Handle<T>>>;

/// A type behind handles.
pub(crate) trait Kind: Sized + 'static {
    /// Differs between kinds, and from what memory is likely to hold.
    const TAG: u32;
    /// For messages.
    const NAME: &'static str;
    fn closed() -> &'static Closed<Self>;
}

/// The object whose address C has.
#[repr(C)]
pub struct Handle<T> {
    tag: AtomicU32,
    value: AtomicPtr<T>,
}

impl<T: Kind> Handle<T> {
    /// A handle that is open.
    fn new(value: T) -> &'static Handle<T> {
        let value = Box::into_raw(Box::new(value));
        let mut closed = T::closed().lock();
        let again = match closed.len() > KEPT_CLOSED {
            true => closed.pop_front(),
            false => None,
        };
        drop(closed);
        let handle = again.unwrap_or_else(|| {
            Box::leak(Box::new(Handle {
                tag: AtomicU32::new(CLOSED),
                value: AtomicPtr::default(),
            }))
        });
        handle.value.store(value, Ordering::Relaxed);
        handle.tag.store(T::TAG, Ordering::Release);
        handle
    }

    /// The value behind the handle.
    ///
    /// # Errors
    /// `MILLPOND_HANDLE` if it is closed, or of another kind.
    #[inline]
    fn value(&self) -> Result<&T, Failure> {
        if self.tag.load(Ordering::Acquire) != T::TAG {
            return Err(self.is_none());
        }
        let value = self.value.load(Ordering::Relaxed);
        // SAFETY: the tag says that `Handle::new` has put a `T` there and `close` has not taken it. It stays there during
        // the call, as the header asks of callers not to close a handle that is in use.
        Ok(unsafe { &*value })
    }

    #[cold]
    fn is_none(&self) -> Failure {
        let what = match self.tag.load(Ordering::Acquire) {
            CLOSED => "is closed already",
            _ => "is a handle of another kind, or none",
        };
        Failure::handle(format!("the {} {what}", T::NAME))
    }

    /// Closes the handle, and returns the value behind it.
    ///
    /// # Errors
    /// As [`Handle::value`].
    pub(crate) fn close(&'static self) -> Result<T, Failure> {
        let taken = self
            .tag
            .compare_exchange(T::TAG, CLOSED, Ordering::AcqRel, Ordering::Acquire);
        taken.map_err(|_| self.is_none())?;
        let value = self.value.swap(std::ptr::null_mut(), Ordering::Relaxed);
        T::closed().lock().push_back(self);
        // SAFETY: `Handle::new` has made it of a box, and the tag was changed by this thread alone, so it is taken once.
        Ok(*unsafe { Box::from_raw(value) })
    }
}

/// Gives C a handle, which it owns from now on.
pub(crate) fn give<T: Kind>(value: T, to: &mut *mut Handle<T>) {
    *to = std::ptr::from_ref(Handle::new(value)).cast_mut();
}

/// A handle from C.
///
/// # Errors
/// `MILLPOND_INVALID` of NULL.
#[inline]
fn given<T: Kind>(handle: *const Handle<T>) -> Result<&'static Handle<T>, Failure> {
    // SAFETY: NULL or a handle of some kind, all of which have this form and are never given back to the system.
    unsafe { handle.as_ref() }.ok_or_else(null::<T>)
}

#[cold]
fn null<T: Kind>() -> Failure {
    Failure::invalid(format!(
        "the {} is NULL: none was opened or made, or an object of millpond.hpp was closed or moved from",
        T::NAME
    ))
}

/// The value behind a handle from C.
///
/// # Errors
/// `MILLPOND_INVALID` of NULL, `MILLPOND_HANDLE`.
#[inline]
pub(crate) fn value<'a, T: Kind>(handle: *const Handle<T>) -> Result<&'a T, Failure> {
    given(handle)?.value()
}

/// Closes a handle from C.
///
/// # Errors
/// As [`value`].
pub(crate) fn close<T: Kind>(handle: *const Handle<T>) -> Result<T, Failure> {
    given(handle)?.close()
}

/// The kinds: the name in C, what the handle is of, its tag.
macro_rules! kinds {
    ($($name:ident: $of:ty, $tag:literal;)*) => {$(
        pub type $name = $crate::ffi::handle::Handle<$of>;

        impl $crate::ffi::handle::Kind for $of {
            const TAG: u32 = $tag;
            const NAME: &'static str = stringify!($name);
            fn closed() -> &'static $crate::ffi::handle::Closed<Self> {
                static CLOSED: $crate::ffi::handle::Closed<$of> =
                    parking_lot::Mutex::new(std::collections::VecDeque::new());
                &CLOSED
            }
        }
    )*};
}
pub(crate) use kinds;

#[cfg(test)]
mod tests {
    use super::*;

    pub struct Pebble(u8);
    kinds! { pebble: Pebble, 0x6d70_00ff; }
    pub struct Stone;
    kinds! { stone: Stone, 0x6d70_00fe; }

    #[test]
    fn a_closed_handle_is_detected_and_reused_only_after_many_others() {
        let first: &pebble = Handle::new(Pebble(1));
        assert_eq!(value(first).ok().map(|p| p.0), Some(1));
        assert_eq!(first.close().ok().map(|p| p.0), Some(1));
        assert!(value(first).is_err());
        assert!(first.close().is_err());
        let others = (0..=KEPT_CLOSED).map(|_| Handle::new(Pebble(2)));
        for other in others.collect::<Vec<_>>() {
            assert!(!std::ptr::eq(first, other));
            assert!(other.close().is_ok());
        }
        let again = Handle::new(Pebble(3));
        assert!(std::ptr::eq(first, again));
        assert!(again.close().is_ok());
    }

    #[test]
    fn null_and_handles_of_another_kind_are_detected() {
        assert!(value::<Pebble>(std::ptr::null()).is_err());
        let stone: &stone = Handle::new(Stone);
        assert_ne!(stone.tag.load(Ordering::Relaxed), Pebble::TAG);
        assert!(stone.close().is_ok());
    }
}
