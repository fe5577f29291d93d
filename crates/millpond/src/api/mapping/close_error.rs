//! The error of a mapping that could not be closed.

use super::Mapping;
use crate::api::file::dropped;
use crate::error::Error;
use std::fmt;
use std::io;

/// A mapping that could not be closed because not all stores to it are durable.
///
/// Converting it into an [`Error`] or an [`io::Error`], as `?` does, drops the mapping. If no handle of the file and no
/// other mapping of it is left, that gives up its unwritten changes, and the converted error says so, as that of a
/// [`CloseError`](crate::CloseError).
#[derive(Debug)]
pub struct MapCloseError {
    /// The error.
    pub error: Error,
    /// The mapping, still open.
    pub mapping: Box<Mapping>,
}

impl fmt::Display for MapCloseError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.error.fmt(f)
    }
}

impl std::error::Error for MapCloseError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        std::error::Error::source(&self.error)
    }
}

impl From<MapCloseError> for Error {
    fn from(MapCloseError { error, mapping }: MapCloseError) -> Error {
        dropped(error, mapping, |mapping| &mapping.file)
    }
}

impl From<MapCloseError> for io::Error {
    fn from(failed: MapCloseError) -> io::Error {
        Error::from(failed).into()
    }
}
