//! Cancellation of threads (`pthread_cancel`), held off.
//!
//! A thread that is cancelled ends at the next system call that waits, by an unwinding of its stack of which Rust knows
//! nothing: a function of ours that is met on the way ends the process, and what it had in hand would stay so. So a thread
//! ends before a call or after it.

use std::ffi::c_int;
use std::marker::PhantomData;

/// `PTHREAD_CANCEL_DISABLE`, which is the same in glibc and musl.
const DISABLE: c_int = 1;

unsafe extern "C" {
    /// The libc crate lacks it.
    fn pthread_setcancelstate(state: c_int, before: *mut c_int) -> c_int;
}

unsafe extern "C-unwind" {
    /// Nor this.
    fn pthread_testcancel();
}

/// A place where a thread that was cancelled ends, unless that is held off. No frame that it is called from may have anything
/// to drop, and each must let it through (`extern "C-unwind"`).
#[inline]
pub fn cancel_point() {
    // SAFETY: takes nothing. The frames are the caller's affair, and what is not dropped is leaked.
    unsafe { pthread_testcancel() };
}

/// While this lives the calling thread is not cancelled. Two calls of the C library and none of the kernel.
#[derive(Debug)]
pub struct CancelHeldOff {
    before: c_int,
    // The state is the thread's.
    _thread: PhantomData<*const ()>,
}

impl CancelHeldOff {
    /// Of the calling thread, from now on.
    #[inline]
    pub fn now() -> CancelHeldOff {
        let mut before = DISABLE;
        // SAFETY: a known state, and a number that outlives the call.
        unsafe { pthread_setcancelstate(DISABLE, &raw mut before) };
        CancelHeldOff {
            before,
            _thread: PhantomData,
        }
    }
}

impl Drop for CancelHeldOff {
    #[inline]
    fn drop(&mut self) {
        let mut held_off = 0;
        // SAFETY: the state that it had before, and a number that outlives the call.
        unsafe { pthread_setcancelstate(self.before, &raw mut held_off) };
    }
}
