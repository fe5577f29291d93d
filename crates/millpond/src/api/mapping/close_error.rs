//! What is left of a mapping whose end was not in order.

use super::Mapping;
use crate::error::Error;
use std::fmt;
use std::io;

/// A mapping that could not be closed, because what was stored in it is not all durable.
///
/// As an [`Error`], or an [`io::Error`], which `?` makes of it, it has dropped the mapping.
#[derive(Debug)]
pub struct MapCloseError {
    /// Why.
    pub error: Error,
    /// The mapping.
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
    fn from(failed: MapCloseError) -> Error {
        failed.error
    }
}

impl From<MapCloseError> for io::Error {
    fn from(failed: MapCloseError) -> io::Error {
        failed.error.into()
    }
}
