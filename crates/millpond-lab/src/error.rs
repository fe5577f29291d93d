//! The laboratory's errors, in words for users: the value, what is allowed, the way out.

use millpond_sim::unknown::UnknownName;
use std::fmt::Display;
use std::io;
use std::path::Path;

/// The laboratory's result.
pub type Result<T, E = LabError> = std::result::Result<T, E>;

/// An operating error of the laboratory.
#[derive(Debug, thiserror::Error)]
pub enum LabError {
    /// A name that nothing here has.
    #[error("unknown {what} `{value}`; allowed: {allowed}")]
    UnknownName {
        /// The kind of the name: "variant", "target".
        what: &'static str,
        /// The name given.
        value: String,
        /// The names that exist, separated by commas.
        allowed: String,
    },
    /// A value outside its range, or one that does not go with another.
    #[error("{option} {value}: {allowed}; {instead}")]
    BadValue {
        /// The option as it is typed: "--files".
        option: &'static str,
        /// The value given.
        value: String,
        /// The allowed range, or why this value is not in it.
        allowed: String,
        /// What to do instead.
        instead: String,
    },
    /// A target that was asked for by name and cannot run here.
    #[error("target `{target}` cannot run: {why}")]
    Unavailable {
        /// The target's name.
        target: String,
        /// What it needs, and how to get it.
        why: String,
    },
    /// A system call or a file that failed.
    #[error("{what}: {source}")]
    Io {
        /// The failed action, with the path.
        what: String,
        /// The system's answer.
        source: io::Error,
    },
    /// A run that ended without a result.
    #[error("{row}: {why}")]
    RunFailed {
        /// The target, variant and workload.
        row: String,
        /// Its process's message.
        why: String,
    },
    /// The user asked to stop.
    #[error("interrupted")]
    Interrupted,
}

impl From<UnknownName> for LabError {
    fn from(unknown: UnknownName) -> LabError {
        LabError::UnknownName {
            what: unknown.what,
            value: unknown.value,
            allowed: unknown.allowed,
        }
    }
}

impl LabError {
    /// An I/O error while doing `what`.
    pub fn io(what: impl Display, source: impl Into<io::Error>) -> LabError {
        LabError::Io {
            what: what.to_string(),
            source: source.into(),
        }
    }

    /// An I/O error while doing `what` to `path`.
    pub fn path(what: &str, path: &Path, source: impl Into<io::Error>) -> LabError {
        LabError::io(format_args!("{what} {}", path.display()), source)
    }

    /// What a program should exit with: 2 for a bad command line, 3 for a target that this machine or this
    /// build cannot run, 130 for an interruption (as shells report it), 1 for everything else.
    pub fn exit_code(&self) -> u8 {
        match self {
            LabError::UnknownName { .. } | LabError::BadValue { .. } => 2,
            LabError::Unavailable { .. } => 3,
            LabError::Interrupted => 130,
            LabError::Io { .. } | LabError::RunFailed { .. } => 1,
        }
    }
}
