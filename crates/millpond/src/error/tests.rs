//! What each error answers to code that asks for its number.

use super::*;

/// Code that looks for a full disk found no number, and a number was lost where an error went through two of ours.
#[test]
fn the_number_of_an_error_is_found_wherever_it_went() {
    let check = || Error::Check {
        path: PathBuf::from("file"),
        page: 3,
        what: "stale".into(),
    };
    let full = |source| Error::Write {
        path: PathBuf::from("file"),
        source,
        is_kept: true,
    };
    for errno in [
        libc::ENOSPC,
        libc::EDQUOT,
        libc::EIO,
        libc::EFBIG,
        libc::EROFS,
        libc::ESTALE,
    ] {
        let system = io::Error::from_raw_os_error(errno);
        let (kind, error) = (system.kind(), io::Error::from(full(system)));
        assert_eq!((error.kind(), Error::errno_of(&error)), (kind, errno));
        let twice = again(&again(&io::Error::from(full(error))));
        assert_eq!((twice.kind(), Error::errno_of(&twice)), (kind, errno), "{twice}");
    }
    // No kind stands for it.
    let error = full(io::Error::from(check()));
    assert_eq!(error.errno(), libc::EBADMSG);
    assert_eq!(Error::errno_of(&again(&error.into())), libc::EBADMSG);
    assert_eq!(
        Error::errno_of(&io::ErrorKind::QuotaExceeded.into()),
        libc::EDQUOT
    );
}

#[test]
fn each_error_has_the_number_that_a_system_call_would_give_for_the_same() {
    let (path, source) = (PathBuf::from, io::Error::from);
    let busy = Error::Swap {
        path: path("swap"),
        source: source(io::ErrorKind::ResourceBusy),
    };
    let out_of_range = |what| Error::OutOfRange {
        path: path("file"),
        what,
        given: u64::MAX,
        max: None,
    };
    let region = |given| Error::SwapTooSmall {
        given,
        left: 4096,
        swap: 4096,
    };
    let fixed = |given| Error::FixedLength {
        path: path("disk"),
        len: 4096,
        given,
    };
    for (error, errno) in [
        (busy, libc::EBUSY),
        (out_of_range("length"), libc::EFBIG),
        (out_of_range("page"), libc::EINVAL),
        (region(0), libc::EINVAL),
        (region(8192), libc::ENOMEM),
        (fixed(0), libc::EINVAL),
        (fixed(8192), libc::ENOSPC),
    ] {
        assert_eq!(error.errno(), errno, "{error}");
    }
}
