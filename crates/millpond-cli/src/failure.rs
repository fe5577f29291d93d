//! Why a command ends without its result: an exit code and a message.

use millpond_fuse::{DeadMount, MountKind};
use std::io;
use std::path::Path;
use std::process::ExitCode;

/// The exit code if this machine or this build can't run it.
pub(crate) const EXIT_UNAVAILABLE: u8 = 3;

/// Why the program ends without its result.
pub(crate) struct Failure {
    pub(crate) code: u8,
    /// `None` where no reader is left.
    pub(crate) message: Option<String>,
}

/// The end of a message whose error was `ENOTCONN`, from a mount that has lost its process.
const NO_PROCESS: &str = "(os error 107)";

/// A text that is safe to show in a line: nothing in it moves the cursor, or begins another line.
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
    let kind = millpond_fuse::kind(&mount.point);
    let again = match kind {
        MountKind::Directory => "mount",
        MountKind::Store => "store mount --take-over",
        MountKind::StoreReader => "store mount --read-only",
    };
    format!(
        "{point}: the process that served it is gone, perhaps killed: {}. `millpond {again} {source} {point}` with the options \
         that it had mounts it again; `millpond umount {point}` only removes it",
        kind.after_kill()
    )
}

impl Failure {
    /// Writes the message, and explains an error that only mounts give.
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
