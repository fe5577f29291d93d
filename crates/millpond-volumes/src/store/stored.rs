//! The sizes of what is in a store, by its lists.
//!
//! A writer knows what it has put and deleted ([`Store::usage`](super::Store::usage)); everyone else has to look.

use super::driver::{Driver, wait_for};
use super::error::Error;
use super::reader::Side;
use crate::format::Kind;
use crate::layout::{Answer, Listed, Request};

/// Objects of a kind.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Objects {
    /// How many.
    pub count: u64,
    /// Their bytes.
    pub bytes: u64,
}

/// The sizes of what is in a store.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Stored {
    /// Pages of files, as of the reader's commit.
    pub live_pages: u64,
    /// Their bytes, in chunks and commits.
    pub live_bytes: u64,
    /// Chunks: pages, live and dead.
    pub chunks: Objects,
    /// Commits, with the pages of small ones.
    pub commits: Objects,
    /// Checkpoints, including those of snapshots.
    pub checkpoints: Objects,
    /// Readers' pins.
    pub pins: Objects,
}

impl Stored {
    /// All objects.
    pub fn all(&self) -> Objects {
        let kinds = [self.chunks, self.commits, self.checkpoints, self.pins];
        kinds.iter().fold(Objects::default(), |all, kind| Objects {
            count: all.count + kind.count,
            bytes: all.bytes + kind.bytes,
        })
    }
}

pub(super) fn stored(driver: &Driver<Side>) -> Result<Stored, Error> {
    let mut stored = driver.with(|side| {
        let files = side.reader.state().files.values();
        let pages = files.flat_map(|file| file.pages.iter());
        pages.fold(Stored::default(), |stored, (_, place)| Stored {
            live_pages: stored.live_pages + 1,
            live_bytes: stored.live_bytes + u64::from(place.bytes),
            ..stored
        })
    });
    for kind in Kind::ALL {
        let listed = list(driver, kind)?;
        *match kind {
            Kind::Chunk => &mut stored.chunks,
            Kind::Commit => &mut stored.commits,
            Kind::Checkpoint => &mut stored.checkpoints,
            Kind::Pin => &mut stored.pins,
        } = listed;
    }
    Ok(stored)
}

fn list(driver: &Driver<Side>, kind: Kind) -> Result<Objects, Error> {
    let bucket = driver.bucket().clone();
    let name = bucket.name.clone();
    let answered = wait_for(driver.handle(), async move {
        let mut objects = Objects::default();
        let mut count = |listed: Vec<Listed>| {
            objects.count += listed.len() as u64;
            objects.bytes += listed.iter().map(|listed| listed.bytes).sum::<u64>();
        };
        let list = Request::List { kind, after: None };
        match bucket.answer(&list, &mut count).await {
            Answer::Listed(last) => {
                count(last);
                Ok(objects)
            }
            other => Err(other),
        }
    });
    match answered {
        Some(Ok(objects)) => Ok(objects),
        Some(Err(Answer::Failed(why) | Answer::Refused(_, why))) => {
            Err(Error::Address(format!("{name}: {why}")))
        }
        Some(Err(_)) | None => Err(Error::Address(format!(
            "{name}: no usable answer to a list request"
        ))),
    }
}
