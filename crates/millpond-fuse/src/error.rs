//! Why a directory can't be mounted, and what to do about it.

use millpond::internal::Surface;
use std::io;
use std::path::PathBuf;

/// Mounting, or unmounting, has failed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum MountError {
    /// One of the two directories can't be used as given.
    #[error("{path} can't be {role}: {why}", path = .path.display())]
    Directory {
        /// Which.
        path: PathBuf,
        /// What it was to be.
        role: &'static str,
        /// What is wrong, and the way out.
        why: String,
    },

    /// This host does not let us mount.
    #[error("can't mount at {path}: {source}; {hint}", path = .path.display())]
    Unavailable {
        /// Where.
        path: PathBuf,
        /// The system's answer.
        source: io::Error,
        /// What it needs.
        hint: &'static str,
    },

    /// The cache can't be made.
    #[error("{}", .0.told(Surface::CommandLine))]
    Cache(#[from] millpond::Error),

    /// The mount stays with the process that serves it.
    #[error("can't take over the mount at {path}: {why}; its process goes on", path = .path.display())]
    TakeOver {
        /// Where.
        path: PathBuf,
        /// What is in the way, and the way out.
        why: String,
    },

    /// A system call that has nothing to do with the user's choices.
    #[error("{what}: {source}")]
    System {
        /// What was tried.
        what: &'static str,
        /// The system's answer.
        source: io::Error,
    },
}

/// What this crate's calls return.
pub(crate) type Result<T> = std::result::Result<T, MountError>;

pub(crate) fn system(what: &'static str) -> impl Fn(io::Error) -> MountError {
    move |source| MountError::System { what, source }
}
