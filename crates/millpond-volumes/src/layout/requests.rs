//! Requests to a store, and its answers.

use crate::format::{Key, Kind};
use bytes::Bytes;
use std::fmt;
use std::ops::{Deref, Range};
use std::sync::{Arc, LazyLock};

/// The number of a request, in the order of creation.
pub type RequestId = u64;

type Made = Box<dyn FnOnce() -> Vec<Bytes> + Send>;

/// The bytes of an object, in pieces. Pieces that take long to build are built on first use by the driver, which then
/// holds no lock.
#[derive(Clone)]
pub struct Body(Arc<LazyLock<Vec<Bytes>, Made>>);

impl Body {
    pub(super) fn later(make: impl FnOnce() -> Vec<Bytes> + Send + 'static) -> Body {
        Body(Arc::new(LazyLock::new(Box::new(make))))
    }

    /// Whether these are its bytes.
    pub(super) fn is(&self, mut bytes: &[u8]) -> bool {
        self.total() == bytes.len() as u64
            && self.iter().all(|piece| {
                let (first, rest) = bytes.split_at(piece.len());
                bytes = rest;
                first == piece
            })
    }

    /// All bytes.
    pub(super) fn total(&self) -> u64 {
        self.iter().map(|piece| piece.len() as u64).sum()
    }
}

impl From<Vec<Bytes>> for Body {
    fn from(pieces: Vec<Bytes>) -> Body {
        Body::later(|| pieces)
    }
}

impl Deref for Body {
    type Target = [Bytes];

    fn deref(&self) -> &[Bytes] {
        &self.0
    }
}

impl PartialEq for Body {
    fn eq(&self, other: &Body) -> bool {
        self[..] == other[..]
    }
}

impl Eq for Body {}

impl fmt::Debug for Body {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Body").field(&self.0).finish()
    }
}

/// A request to a store. The driver may repeat it as often as it likes.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Request {
    /// Creates an object if none has its name.
    Create {
        /// Its name.
        key: Key,
        /// Its bytes.
        body: Body,
    },
    /// Creates or replaces an object.
    Overwrite {
        /// Its name.
        key: Key,
        /// Its bytes.
        body: Body,
    },
    /// Reads an object, or part of it; returns fewer bytes only at its end.
    Get {
        /// Its name.
        key: Key,
        /// The bytes to read; `None`: all.
        range: Option<Range<u64>>,
    },
    /// Lists all objects of a kind, or those after `after`. A long list is answered in parts as it is read.
    List {
        /// The kind.
        kind: Kind,
        /// The list starts after this one.
        after: Option<Key>,
    },
    /// Deletes objects. A missing object counts as deleted.
    Delete {
        /// The objects.
        keys: Vec<Key>,
    },
}

/// An object in a list.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Listed {
    /// Its name.
    pub key: Key,
    /// Its size.
    pub bytes: u64,
    /// When it was put, in milliseconds since 1970 by the store's clock; 0 if the store does not say.
    pub put_unix_ms: u64,
}

/// The outcome of a request.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Answer {
    /// The object was created or replaced.
    Stored,
    /// An object with this name exists, or did a moment ago. This very request may have created it.
    Exists,
    /// The bytes.
    Bytes(Bytes),
    /// There is no such object.
    Absent,
    /// Part of a list, in any order. More parts follow as further answers to the same request.
    Part(Vec<Listed>),
    /// A list, or its last part.
    Listed(Vec<Listed>),
    /// The objects are deleted.
    Deleted,
    /// The outcome is unknown. Contains the reason.
    Failed(String),
    /// It was not done, and repeating it is useless. Contains the reason.
    Refused(Refusal, String),
}

/// What a refused request lacks.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Refusal {
    /// A right, or the bucket.
    Access,
    /// Room.
    Room,
}

impl Answer {
    /// Why this is not a success of a request for `what`.
    pub(super) fn why(self, what: &str) -> String {
        match self {
            Answer::Failed(why) | Answer::Refused(_, why) => why,
            other => format!("it answers {other:?} to a {what}"),
        }
    }

    /// Whether it was refused, and for want of what.
    pub(super) fn refusal(&self) -> Option<Refusal> {
        match self {
            Answer::Refused(refusal, _) => Some(*refusal),
            _ => None,
        }
    }
}

/// A request with its number, for the driver.
pub type Numbered = (RequestId, Request);

/// Requests on their way to the driver.
#[derive(Default, Debug)]
pub(super) struct Outbox {
    last: RequestId,
    made: Vec<Numbered>,
}

impl Outbox {
    pub(super) fn ask(&mut self, request: Request) -> RequestId {
        self.last += 1;
        self.made.push((self.last, request));
        self.last
    }

    pub(super) fn take(&mut self) -> Vec<Numbered> {
        std::mem::take(&mut self.made)
    }
}
