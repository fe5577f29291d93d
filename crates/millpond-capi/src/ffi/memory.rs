//! Memory of the caller's: bytes, texts, structs that say their size.

use crate::code::millpond_code;
use crate::told::Failure;
use std::ffi::{CStr, OsStr, c_char, c_void};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

/// A struct whose first field is its size, as the caller's header has it.
///
/// # Safety
/// It is `repr(C)`, its first field is a `usize`, and all of it may be zero.
pub(crate) unsafe trait Extensible: Copy {
    const NAME: &'static str;
    /// How large it was in the first header that had it.
    const FIRST: usize;
}

/// The size of the struct that begins here.
fn size<T: Extensible>(given: *const T) -> Result<usize, Failure> {
    if given.is_null() {
        return Err(Failure::invalid(format!("{} is NULL", T::NAME)));
    }
    // SAFETY: not NULL, so the caller has a struct there, whose first field is its size, by `Extensible`.
    let size = unsafe { given.cast::<usize>().read() };
    if size < T::FIRST {
        return Err(Failure::invalid(format!(
            "{}.size is {size}, and it has at least {} bytes: set it to sizeof({})",
            T::NAME,
            T::FIRST,
            T::NAME
        )));
    }
    Ok(size)
}

/// A struct from a caller whose header may be older or newer: fields that the caller lacks are zero, and fields that
/// this library does not know must be.
///
/// # Errors
/// `MILLPOND_INVALID`.
pub(crate) fn sized<T: Extensible>(given: *const T) -> Result<T, Failure> {
    let given_size = size(given)?;
    let known = given_size.min(size_of::<T>());
    let from = given.cast::<u8>();
    let mut own = std::mem::MaybeUninit::<T>::zeroed();
    // SAFETY: the caller vouches for that many bytes, and `own` has no fewer.
    unsafe { std::ptr::copy_nonoverlapping(from, own.as_mut_ptr().cast(), known) };
    for at in known..given_size {
        // SAFETY: below the size that the caller gives.
        let byte = unsafe { from.add(at) };
        // SAFETY: the same.
        if unsafe { byte.read() } != 0 {
            return Err(Failure::invalid(format!(
                "{} asks for something at byte {at} that this version of libmillpond ({}) does not know",
                T::NAME,
                env!("CARGO_PKG_VERSION")
            )));
        }
    }
    // SAFETY: zeros are a `T` by `Extensible`, and so are the bytes of one.
    Ok(unsafe { own.assume_init() })
}

/// Fills in a struct of a caller whose header may be older or newer. The size stays the caller's.
///
/// # Errors
/// `MILLPOND_INVALID`.
pub(crate) fn fill<T: Extensible>(given: *mut T, own: &T) -> Result<(), Failure> {
    let given_size = size(given.cast_const())?;
    let header = size_of::<usize>();
    let len = given_size.min(size_of::<T>()) - header;
    // SAFETY: both have at least the first header's size, which is more than one field.
    let from = unsafe { std::ptr::from_ref(own).cast::<u8>().add(header) };
    // SAFETY: the same.
    let to = unsafe { given.cast::<u8>().add(header) };
    // SAFETY: `len` bytes are left behind the size in both.
    unsafe { std::ptr::copy_nonoverlapping(from, to, len) };
    // SAFETY: within the size that the caller gives.
    let rest = unsafe { to.add(len) };
    // SAFETY: the same.
    unsafe { rest.write_bytes(0, given_size - header - len) };
    Ok(())
}

/// Bytes that the caller lends for reading. None of them need be anywhere.
///
/// # Errors
/// `MILLPOND_INVALID`.
pub(crate) fn bytes<'a>(data: *const c_void, len: usize) -> Result<&'a [u8], Failure> {
    check(data, len)?;
    if len == 0 {
        return Ok(&[]);
    }
    // SAFETY: the caller lends `len` bytes for the call.
    Ok(unsafe { std::slice::from_raw_parts(data.cast(), len) })
}

/// Bytes that the caller lends for writing.
///
/// # Errors
/// `MILLPOND_INVALID`.
pub(crate) fn bytes_mut<'a>(data: *mut c_void, len: usize) -> Result<&'a mut [u8], Failure> {
    check(data, len)?;
    if len == 0 {
        return Ok(&mut []);
    }
    // SAFETY: the caller lends `len` bytes for the call, alone. The engine only writes them, so that they may be anything.
    Ok(unsafe { std::slice::from_raw_parts_mut(data.cast(), len) })
}

fn check(data: *const c_void, len: usize) -> Result<(), Failure> {
    if data.is_null() && len > 0 {
        return Err(Failure::invalid(format!(
            "the buffer is NULL and should have {len} bytes"
        )));
    }
    if isize::try_from(len).is_err() {
        return Err(Failure::invalid(format!("no buffer has {len} bytes")));
    }
    Ok(())
}

/// A list of the caller's.
///
/// # Errors
/// `MILLPOND_INVALID`.
pub(crate) fn list<'a, T>(first: *const T, count: usize) -> Result<&'a [T], Failure> {
    if count == 0 {
        return Ok(&[]);
    }
    if first.is_null() || count > isize::MAX as usize / size_of::<T>() {
        return Err(Failure::invalid(format!(
            "the list of {count} is NULL or too long"
        )));
    }
    // SAFETY: the caller lends `count` of them for the call.
    Ok(unsafe { std::slice::from_raw_parts(first, count) })
}

/// A text of the caller's, if there is one.
pub(crate) fn text_or_none<'a>(given: *const c_char) -> Option<&'a CStr> {
    // SAFETY: not NULL, so it is a text that ends, for the call.
    (!given.is_null()).then(|| unsafe { CStr::from_ptr(given) })
}

/// A text of the caller's, in UTF-8.
///
/// # Errors
/// `MILLPOND_INVALID`.
pub(crate) fn text<'a>(given: *const c_char, what: &str) -> Result<&'a str, Failure> {
    let text = text_or_none(given).ok_or_else(|| Failure::invalid(format!("{what} is NULL")))?;
    text.to_str()
        .map_err(|_| Failure::invalid(format!("{what} {text:?} is no UTF-8")))
}

/// A path of the caller's.
///
/// # Errors
/// `MILLPOND_INVALID` of NULL and of no bytes.
pub(crate) fn path<'a>(given: *const c_char) -> Result<&'a Path, Failure> {
    let text = text_or_none(given).ok_or_else(|| Failure::invalid("the path is NULL"))?;
    if text.is_empty() {
        return Err(Failure::invalid("the path is empty"));
    }
    Ok(Path::new(OsStr::from_bytes(text.to_bytes())))
}

/// Gives the caller a text, with a zero at its end. `needed` has its length without that, also if it does not fit.
///
/// # Errors
/// `MILLPOND_BUFFER` if it does not fit, `MILLPOND_INVALID`.
pub(crate) fn give_text(
    text: &str,
    (buffer, size): (*mut c_char, usize),
    needed: Option<&mut usize>,
) -> Result<(), Failure> {
    if let Some(needed) = needed {
        *needed = text.len();
    }
    let buffer = bytes_mut(buffer.cast(), size)?;
    if buffer.len() <= text.len() {
        return Err(Failure::Here {
            code: millpond_code::MILLPOND_BUFFER,
            errno: libc::ERANGE,
            said: format!(
                "the text has {} bytes with the zero at its end, and the buffer {size}",
                text.len() + 1
            ),
        });
    }
    buffer[..text.len()].copy_from_slice(text.as_bytes());
    buffer[text.len()] = 0;
    Ok(())
}

/// The caller's output argument.
///
/// # Errors
/// `MILLPOND_INVALID` if it is NULL.
#[inline]
pub(crate) fn out<'a, T>(given: Option<&'a mut T>, what: &str) -> Result<&'a mut T, Failure> {
    given.ok_or_else(|| Failure::invalid(format!("{what} is NULL: there is no place for the answer")))
}

/// Converts the caller's number into one of the enum's values, `known`.
///
/// # Errors
/// `MILLPOND_INVALID`.
pub(crate) fn one_of<T: Copy>(name: &str, given: u32, known: &[(u32, T)]) -> Result<T, Failure> {
    let meaning = known.iter().find(|&&(number, _)| number == given);
    meaning.map(|&(_, meaning)| meaning).ok_or_else(|| {
        let numbers: Vec<_> = known.iter().map(|(number, _)| number.to_string()).collect();
        Failure::invalid(format!(
            "{given} is not a {name}: must be one of {}",
            numbers.join(", ")
        ))
    })
}

/// Checks that all of the caller's flags are known.
///
/// # Errors
/// `MILLPOND_INVALID`.
pub(crate) fn only_flags(of: &str, given: u32, known: u32) -> Result<(), Failure> {
    match given & !known {
        0 => Ok(()),
        _ => Err(Failure::invalid(format!(
            "{of} has unknown flags in {given:#x}: the known ones are {known:#x}"
        ))),
    }
}

/// That a field without a meaning yet is 0, so that it can get one.
///
/// # Errors
/// `MILLPOND_INVALID`.
pub(crate) fn zero_reserved(of: &str, given: u32) -> Result<(), Failure> {
    match given {
        0 => Ok(()),
        _ => Err(Failure::invalid(format!(
            "`reserved` of {of} is {given}: it must be 0"
        ))),
    }
}

/// What a program gives its callbacks. It is the program's to use, on whichever thread.
#[derive(Clone, Copy)]
pub(crate) struct Kept(usize);

impl Kept {
    pub(crate) fn new(user: *mut c_void) -> Kept {
        Kept(user.expose_provenance())
    }

    pub(crate) fn user(self) -> *mut c_void {
        std::ptr::with_exposed_provenance_mut(self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[repr(C)]
    #[derive(Clone, Copy, PartialEq, Debug)]
    struct Form<const N: usize> {
        size: usize,
        fields: [u64; N],
    }

    /// SAFETY: numbers.
    unsafe impl<const N: usize> Extensible for Form<N> {
        const NAME: &'static str = "form";
        const FIRST: usize = 16;
    }

    fn form<const N: usize>(fields: [u64; N]) -> Form<N> {
        let size = size_of::<Form<N>>();
        Form { size, fields }
    }

    #[test]
    fn a_struct_of_an_older_header_has_zeros_where_it_ends_and_one_of_a_newer_may_ask_for_nothing_new() {
        let old = form([7]);
        let known = sized(std::ptr::from_ref(&old).cast::<Form<3>>()).ok();
        assert_eq!(known.map(|form| form.fields), Some([7, 0, 0]));
        let new = form([7, 8, 9, 0]);
        let known = sized(std::ptr::from_ref(&new).cast::<Form<3>>()).ok();
        assert_eq!(known.map(|form| form.fields), Some([7, 8, 9]));
        let asks = form([7, 8, 9, 1]);
        assert!(sized(std::ptr::from_ref(&asks).cast::<Form<3>>()).is_err());
        let none = Form {
            size: 8,
            fields: [0; 3],
        };
        assert!(sized(&none).is_err());
        assert!(sized::<Form<3>>(std::ptr::null()).is_err());
    }

    #[test]
    fn a_struct_is_filled_as_far_as_the_callers_goes() {
        let own = form([1, 2, 3]);
        let mut old = form([0]);
        assert!(fill(std::ptr::from_mut(&mut old).cast::<Form<3>>(), &own).is_ok());
        assert_eq!(old, form([1]));
        let mut new = form([9; 5]);
        assert!(fill(std::ptr::from_mut(&mut new).cast::<Form<3>>(), &own).is_ok());
        assert_eq!(new, form([1, 2, 3, 0, 0]));
    }
}
