//! A store in memory that does what it is asked at once; what goes wrong on the way is the world's.

use bytes::Bytes;
use millpond_volumes::format::Key;
use millpond_volumes::layout::{Answer, Listed, Request};
use std::collections::BTreeMap;
use std::time::Duration;

#[derive(Default)]
pub(crate) struct Store {
    pub(crate) objects: BTreeMap<Key, Bytes>,
    /// When each was put, by the store's clock.
    put: BTreeMap<Key, Duration>,
    /// What that says.
    pub(crate) now: Duration,
}

impl Store {
    pub(crate) fn answer(&mut self, request: &Request) -> Answer {
        match request {
            Request::Create { key, .. } if self.objects.contains_key(key) => Answer::Exists,
            Request::Create { key, body } | Request::Overwrite { key, body } => {
                self.objects.insert(*key, Bytes::from(body.concat()));
                self.put.insert(*key, self.now);
                Answer::Stored
            }
            Request::Get { key, range } => match self.objects.get(key) {
                None => Answer::Absent,
                Some(bytes) => {
                    let len = bytes.len() as u64;
                    let range = range.clone().unwrap_or(0..len);
                    let range = range.start.min(len) as usize..range.end.min(len) as usize;
                    Answer::Bytes(bytes.slice(range))
                }
            },
            Request::List { kind, after } => {
                let of_kind = self.objects.iter().filter(|(key, _)| key.kind() == *kind);
                let behind = of_kind.filter(|(key, _)| after.is_none_or(|after| **key > after));
                let listed = behind.map(|(key, bytes)| Listed {
                    key: *key,
                    bytes: bytes.len() as u64,
                    // Whole seconds, as of S3, since a time long ago.
                    put_unix_ms: (1_000_000 + self.put.get(key).map_or(0, Duration::as_secs)) * 1000,
                });
                Answer::Listed(listed.collect())
            }
            Request::Delete { keys } => {
                keys.iter().for_each(|key| {
                    self.objects.remove(key);
                });
                Answer::Deleted
            }
        }
    }
}
