//! Why a command ends with something else than its result: an exit code and a message.

use std::io;
use std::process::ExitCode;

/// The exit code of what can't run on this machine or in this build.
pub(crate) const EXIT_UNAVAILABLE: u8 = 3;

/// Why the program ends with something else than its result.
pub(crate) struct Failure {
    pub(crate) code: u8,
    /// `None` where no reader is left.
    pub(crate) message: Option<String>,
}

impl Failure {
    /// Writes the message.
    pub(crate) fn report(self) -> ExitCode {
        if let Some(message) = self.message {
            say!("millpond: {message}");
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
