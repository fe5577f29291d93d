//! Reads a commit's head. An unreadable head is read again before it counts as damaged, because a bit may have flipped
//! on the way.

use super::loaded::LoadError;
use super::requests::{Answer, Outbox, Request, RequestId};
use crate::format::{Commit, FormatError, Key};

/// How much of a commit is asked for before it is known how long its head is.
pub(super) const HEAD_BYTES: u64 = 64 << 10;

/// What can't be read is damaged after so many readings.
pub(super) const READINGS: u32 = 3;

/// Reads a head: fetches the rest if it is long.
#[derive(Debug)]
pub(super) struct HeadFetch {
    pub(super) number: u64,
    pub(super) request: RequestId,
    readings: u32,
    /// All of a long one was asked for.
    is_all: bool,
}

/// An answer to a [`HeadFetch`].
pub(super) enum Head {
    Is(Box<Commit>, u64),
    Absent,
    Failed(String),
    More,
    Bad(LoadError),
}

impl HeadFetch {
    pub(super) fn new(number: u64, outbox: &mut Outbox) -> HeadFetch {
        let mut fetch = HeadFetch {
            number,
            request: 0,
            readings: 0,
            is_all: false,
        };
        fetch.ask(HEAD_BYTES, outbox);
        fetch
    }

    fn ask(&mut self, bytes: u64, outbox: &mut Outbox) {
        let (key, range) = (Key::Commit(self.number), Some(0..bytes));
        self.is_all = bytes > HEAD_BYTES;
        self.request = outbox.ask(Request::Get { key, range });
    }

    pub(super) fn answered(&mut self, answer: Answer, outbox: &mut Outbox) -> Head {
        let bytes = match answer {
            Answer::Absent => return Head::Absent,
            Answer::Bytes(bytes) => bytes,
            other => return Head::Failed(other.why("reading of a commit")),
        };
        let read = Commit::head_bytes(&bytes).and_then(|head| {
            let is_cut = !self.is_all && bytes.len() as u64 == HEAD_BYTES && head as u64 > HEAD_BYTES;
            match is_cut {
                true => Ok(Err(head as u64)),
                false => Commit::decode(&bytes).map(Ok),
            }
        });
        let error = match read {
            Ok(Err(head)) => {
                self.ask(head, outbox);
                return Head::More;
            }
            Ok(Ok((commit, checksum))) if commit.number == self.number => {
                return Head::Is(Box::new(commit), checksum);
            }
            Ok(Ok(_)) => FormatError::Value("number"),
            Err(error) => error,
        };
        self.readings += 1;
        if self.readings < READINGS {
            self.ask(HEAD_BYTES, outbox);
            return Head::More;
        }
        let key = Key::Commit(self.number);
        Head::Bad(LoadError::Format { key, error })
    }
}
