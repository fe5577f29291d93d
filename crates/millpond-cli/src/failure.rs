//! Why a command ends with something else than its result: an exit code and a message.

use millpond_fuse::DeadMount;
use std::io;
use std::path::Path;
use std::process::ExitCode;

/// The exit code of what can't run on this machine or in this build.
pub(crate) const EXIT_UNAVAILABLE: u8 = 3;

/// Why the program ends with something else than its result.
pub(crate) struct Failure {
    pub(crate) code: u8,
    /// `None` where no reader is left.
    pub(crate) message: Option<String>,
}

/// How a message ends if the error was the kernel's word that a mount has lost its process (`ENOTCONN`).
const NO_PROCESS: &str = "(os error 107)";

/// A text as it can be shown in a line: nothing in it moves the cursor, or begins another line.
pub(crate) fn shown(text: &str) -> String {
    let mut shown = String::with_capacity(text.len());
    for c in text.chars() {
        match c.is_control() {
            true => shown.extend(c.escape_default()),
            false => shown.push(c),
        }
    }
    shown
}

/// The same of a path.
pub(crate) fn shown_path(path: &Path) -> String {
    shown(&path.display().to_string())
}

/// What has become of a mount whose process is gone, and what to do.
pub(crate) fn gone(mount: &DeadMount) -> String {
    let (point, source) = (shown_path(&mount.point), shown_path(&mount.source));
    format!(
        "{point}: the process that served it is gone, killed perhaps: {}. `millpond mount {source} {point}` with the options \
         that it had mounts it anew; `millpond umount {point}` only clears it away",
        millpond_fuse::AFTER_KILL
    )
}

impl Failure {
    /// Writes the message, and what an error means that only mounts give.
    pub(crate) fn report(self) -> ExitCode {
        if let Some(message) = self.message {
            say!("millpond: {message}");
            if message.contains(NO_PROCESS) {
                for mount in millpond_fuse::dead_mounts() {
                    say!("millpond: {}", gone(&mount));
                }
            }
        }
        ExitCode::from(self.code)
    }

    /// Something failed: 1.
    pub(crate) fn failed(message: impl Into<String>) -> Failure {
        Failure {
            code: 1,
            message: Some(message.into()),
        }
    }

    /// The command line is wrong: 2.
    pub(crate) fn bad_usage(message: impl Into<String>) -> Failure {
        Failure {
            code: 2,
            message: Some(message.into()),
        }
    }
}

impl From<io::Error> for Failure {
    fn from(error: io::Error) -> Failure {
        // `millpond lab list | head -1`: the reader has what it wanted
        let is_closed = error.kind() == io::ErrorKind::BrokenPipe;
        Failure {
            code: u8::from(!is_closed),
            message: (!is_closed).then(|| format!("cannot write: {error}")),
        }
    }
}
