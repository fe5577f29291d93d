//! Why a command ends with something else than its result: an exit code and a message, in the words of the command line.

use millpond_volumes::layout::{OpenError, ReadError};
use millpond_volumes::{Error, LastWriter};
use std::io;
use std::process::ExitCode;

/// Another writer has the store.
pub(crate) const EXIT_HELD: u8 = 4;

/// Why the program ends with something else than its result.
#[derive(Debug)]
pub(crate) struct Failure {
    code: u8,
    /// `None` where no reader is left, or a signal has ended it.
    pub(crate) message: Option<String>,
}

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

impl Failure {
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

    /// Something failed, with a code of its own.
    pub(crate) fn with_code(code: u8, message: String) -> Failure {
        Failure {
            code,
            message: Some(message),
        }
    }

    /// Another process has said why.
    pub(crate) fn said(code: u8) -> Failure {
        Failure { code, message: None }
    }

    /// Another writer has the store: 4.
    pub(crate) fn held(url: &str, by: &LastWriter) -> Failure {
        let message = format!(
            "{url} is being written: {by}, has not closed it. Wait until it has; or, if it is gone, `millpond store take-over \
             {url}`, after which it can write no more"
        );
        Failure {
            code: EXIT_HELD,
            message: Some(message),
        }
    }

    /// The same, with other words.
    pub(crate) fn said_as(self, words: impl FnOnce(String) -> String) -> Failure {
        Failure {
            message: self.message.map(words),
            ..self
        }
    }

    /// Ended by a signal: as a shell says it.
    pub(crate) fn signalled(signal: u8) -> Failure {
        Failure {
            code: 128 + signal,
            message: None,
        }
    }

    /// A commit of which it is not known whether it is in the store.
    pub(crate) fn unsettled(url: &str, error: &Error) -> Failure {
        let said = Failure::of(url, error).message.unwrap_or_default();
        Failure::failed(format!(
            "{said}. Whether that is in the store is not known: `millpond store stat {url}` says what is, and `millpond store \
             take-over {url}` closes it"
        ))
    }

    /// What a store says.
    pub(crate) fn of(url: &str, error: &Error) -> Failure {
        if let Error::Open(OpenError::Held {
            owner,
            at_unix_ms,
            epoch,
        }) = error
        {
            let by = LastWriter {
                owner: owner.clone(),
                epoch: *epoch,
                at_unix_ms: *at_unix_ms,
                closed: false,
            };
            return Failure::held(url, &by);
        }
        let said = error.to_string();
        // The way out of a library's caller is that of the command line by another name.
        let said = said.replace("StoreOptions::salvage(true)", "--salvage");
        let is_named = said.contains(url.trim_end_matches('/'));
        let message = match is_named {
            true => said,
            false => format!("{url}: {said}"),
        };
        let (code, more) = match (error.is_fenced(), error) {
            (true, _) => (EXIT_HELD, "; nothing of this command is in the store"),
            (false, Error::Reader(ReadError::Empty)) => (
                1,
                "; check its address: `millpond store cp` and `millpond store mount` make a store where none is",
            ),
            (false, Error::NoFile(_)) => (1, "; `millpond store ls` names those that there are"),
            (false, Error::Read { .. }) => (1, "; `millpond store verify` names all that is damaged"),
            (false, _) => (1, ""),
        };
        Failure {
            code,
            message: Some(format!("{}{more}", shown(&message))),
        }
    }
}

impl From<io::Error> for Failure {
    fn from(error: io::Error) -> Failure {
        // `millpond store ls … | head -1`: the reader has what it wanted.
        let is_closed = error.kind() == io::ErrorKind::BrokenPipe;
        Failure {
            code: u8::from(!is_closed),
            message: (!is_closed).then(|| format!("cannot write: {error}")),
        }
    }
}
