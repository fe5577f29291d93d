//! Requests to a store, and its answers.

use crate::format::{Key, Kind};
use bytes::Bytes;
use std::fmt;
use std::ops::{Deref, Range};
use std::sync::{Arc, LazyLock};

/// Number of a request, in the order in which they are made.
pub type RequestId = u64;

type Made = Box<dyn FnOnce() -> Vec<Bytes> + Send>;

/// The bytes of an object, in pieces. Those that take long to make are made when they are first looked at: by the driver,
/// that holds no lock then.
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

/// What a store is asked to do. The driver may send a request again as often as it likes.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Request {
    /// Creates an object, if there is none of its name.
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
    /// Reads an object, or a part of it: fewer bytes only where it ends.
    Get {
        /// Its name.
        key: Key,
        /// Which bytes; `None`: all.
        range: Option<Range<u64>>,
    },
    /// Lists all objects of a kind, behind one of them if that is given. A long list is answered in parts, as it is read.
    List {
        /// Which.
        kind: Kind,
        /// The last that is not listed.
        after: Option<Key>,
    },
    /// Deletes objects. What is not there is deleted.
    Delete {
        /// Which.
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
    /// When it was put, in milliseconds since 1970 by the store's clock; 0: the store does not say.
    pub put_unix_ms: u64,
}

/// What became of a request.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Answer {
    /// It is created or replaced.
    Stored,
    /// An object of that name is there, or was a moment ago: perhaps of this very request.
    Exists,
    /// The bytes.
    Bytes(Bytes),
    /// There is no such object.
    Absent,
    /// Some of a list: more follow as further answers to the same request. Nothing is said of the order.
    Part(Vec<Listed>),
    /// A list, or the last part of one.
    Listed(Vec<Listed>),
    /// They are gone.
    Deleted,
    /// It is not known whether it was done. Says why.
    Failed(String),
    /// It was not done, and is not however often it is asked: for want of a right, or of the bucket. Says why.
    Refused(String),
}

impl Answer {
    /// Why this is no success of a request for `what`.
    pub(super) fn why(self, what: &str) -> String {
        match self {
            Answer::Failed(why) | Answer::Refused(why) => why,
            other => format!("it answers {other:?} to a {what}"),
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
