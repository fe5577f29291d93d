//! The last error of each thread, and the border that no panic crosses.

use crate::code::{code_of, millpond_code};
use millpond::Error;
use millpond::internal::{CancelHeldOff, Surface, cancel_point};
use std::any::Any;
use std::cell::RefCell;
use std::ffi::{CString, c_char, c_int};
use std::panic::{AssertUnwindSafe, catch_unwind};

/// Why a call was not done.
pub(crate) enum Failure {
    /// The engine says so.
    Engine(Error),
    /// An argument, or what is on this side of the border.
    Here {
        code: millpond_code,
        errno: c_int,
        said: String,
    },
}

impl From<Error> for Failure {
    fn from(error: Error) -> Failure {
        Failure::Engine(error)
    }
}

impl Failure {
    pub(crate) fn invalid(said: impl Into<String>) -> Failure {
        Failure::Here {
            code: millpond_code::MILLPOND_INVALID,
            errno: libc::EINVAL,
            said: said.into(),
        }
    }

    pub(crate) fn range(said: impl Into<String>) -> Failure {
        Failure::Here {
            code: millpond_code::MILLPOND_RANGE,
            errno: libc::EINVAL,
            said: said.into(),
        }
    }

    pub(crate) fn handle(said: impl Into<String>) -> Failure {
        Failure::Here {
            code: millpond_code::MILLPOND_HANDLE,
            errno: libc::EBADF,
            said: said.into(),
        }
    }
}

pub(crate) type Outcome = Result<(), Failure>;

struct Told {
    errno: c_int,
    message: CString,
}

thread_local! {
    static LAST: RefCell<Told> = RefCell::new(Told { errno: 0, message: CString::default() });
}

/// The message of the thread's last error: until its next one.
pub(crate) fn message() -> *const c_char {
    LAST.try_with(|last| last.borrow().message.as_ptr())
        .unwrap_or(c"".as_ptr())
}

pub(crate) fn errno() -> c_int {
    LAST.try_with(|last| last.borrow().errno).unwrap_or(0)
}

/// Makes a call for C: its error becomes the thread's last one, and a panic an error. A thread that was cancelled ends before
/// it, and is not cancelled meanwhile.
#[inline]
pub(crate) fn attempt(call: impl FnOnce() -> Outcome) -> millpond_code {
    cancel_point();
    let _whole = CancelHeldOff::now();
    attempt_hit(call)
}

/// The same of a call in which the thread comes to no place where it could be cancelled: to hold that off costs more than a hit.
#[inline]
pub(crate) fn attempt_hit(call: impl FnOnce() -> Outcome) -> millpond_code {
    match catch_unwind(AssertUnwindSafe(call)) {
        Ok(Ok(())) => millpond_code::MILLPOND_OK,
        Ok(Err(failure)) => told(failure),
        Err(panic) => told(panicked(&*panic)),
    }
}

/// What is told may be words of a hook's or of another crate's: they must not end the program either.
#[cold]
fn told(failure: Failure) -> millpond_code {
    catch_unwind(AssertUnwindSafe(|| tell(failure))).unwrap_or(millpond_code::MILLPOND_PANIC)
}

#[cold]
fn panicked(panic: &(dyn Any + Send)) -> Failure {
    let said = panic
        .downcast_ref::<String>()
        .map(String::as_str)
        .or(panic.downcast_ref::<&str>().copied())
        .unwrap_or("no message");
    Failure::Here {
        code: millpond_code::MILLPOND_PANIC,
        errno: libc::EIO,
        said: format!("a mistake in millpond, please report it: {said}"),
    }
}

#[cold]
fn tell(failure: Failure) -> millpond_code {
    let (code, errno, said) = match failure {
        Failure::Engine(error) => (code_of(&error), error.errno(), error.told(Surface::C)),
        Failure::Here { code, errno, said } => (code, errno, said),
    };
    // A path may have any byte but this one.
    let message = CString::new(said.replace('\0', "?")).unwrap_or_default();
    // At the end of a thread there is no place for it any more.
    let _ = LAST.try_with(|last| *last.borrow_mut() = Told { errno, message });
    code
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::ffi::CStr;

    #[test]
    fn a_panic_is_a_code_with_its_words_and_leaves_the_call_no_other_way() {
        let code = attempt(|| panic!("of {}", 7));
        assert_eq!(code, millpond_code::MILLPOND_PANIC);
        assert_eq!(errno(), libc::EIO);
        let said = LAST.with(|last| last.borrow().message.clone());
        assert!(said.to_string_lossy().ends_with("of 7"), "{said:?}");
    }

    #[test]
    fn errors_use_the_words_of_c() {
        assert_eq!(
            attempt(|| Err(Error::NoSwap.into())),
            millpond_code::MILLPOND_SWAP
        );
        let said = LAST.with(|last| last.borrow().message.clone());
        let said: &CStr = &said;
        assert!(
            said.to_string_lossy()
                .contains("millpond_cache_options.swap_path"),
            "{said:?}"
        );
    }
}
