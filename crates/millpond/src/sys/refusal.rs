//! Explains refusals of system calls that every supported kernel has.

use std::io;

/// The error of `call` with its cause and the way out, where they are known.
pub(crate) fn explained(call: &str, error: io::Error) -> io::Error {
    let text = match error.raw_os_error() {
        Some(libc::EPERM | libc::EACCES | libc::ENOSYS | libc::EINVAL) => format!(
            "{call} is refused ({error}), as by a seccomp filter: allow it in the profile of the container or service"
        ),
        Some(libc::EMFILE) => format!("{call}: {error}; raise the limit of open files (ulimit -n)"),
        _ => return error,
    };
    io::Error::new(error.kind(), text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_refusal_names_the_call_and_the_way_out_and_other_errors_stay_as_they_are() {
        let said = |errno| explained("eventfd2", io::Error::from_raw_os_error(errno));
        let refused = said(libc::EPERM);
        assert_eq!(refused.kind(), io::ErrorKind::PermissionDenied);
        assert!(
            refused.to_string().starts_with("eventfd2 is refused"),
            "{refused}"
        );
        assert!(said(libc::EMFILE).to_string().ends_with("(ulimit -n)"));
        assert_eq!(said(libc::ENOMEM).raw_os_error(), Some(libc::ENOMEM));
    }
}
