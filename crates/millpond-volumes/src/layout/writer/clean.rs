//! Rewrites chunks that are mostly dead: their live pages are copied to a new chunk, and the old one is dead with the
//! next commit.
//!
//! Cleaning continues, emptiest chunks first, as long as the objects with live pages hold more than
//! `stored_percent_max` of the live bytes, even while nothing is written. What snapshots have is left out, because
//! copying it would free nothing.
//!
//! No sync waits for cleaning. Copies are not changes: they go into their own chunks, one in transit at a time, and the
//! pages they move are in the next commit. If no caller asks for a commit, one is made for them, provided that it would
//! not contain half of a change. Cleaning uses a share of the held bytes, which writes leave free while it has work.

use super::{PageKey, Phase, Writer};
use crate::format::{ObjectId, checksum};
use crate::layout::requests::{Answer, Request, RequestId};
use crate::mutation::{self, Mutation};
use bytes::Bytes;
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

/// The map is gone through so often while as much is moved as is live, at most: once for each batch.
const BATCHES: u64 = 32;

/// A live page, and where it was read.
#[derive(Debug)]
struct Copy {
    key: PageKey,
    from: ObjectId,
    bytes: Bytes,
}

#[derive(Debug)]
struct Reading {
    request: RequestId,
    object: ObjectId,
    pages: Vec<PageKey>,
}

/// Objects that are to be emptied.
#[derive(Default, Debug)]
struct Batch {
    queue: Vec<(ObjectId, Vec<PageKey>)>,
    reading: Option<Reading>,
    gathered: Vec<Copy>,
    gathered_bytes: u64,
    has_moved: bool,
    has_failed: bool,
}

/// What is known of cleaning.
#[derive(Default, Debug)]
pub(super) struct Cleaner {
    batch: Option<Batch>,
    /// It is not looked for what to clean before.
    at: Duration,
    /// The newest commit when it was found that there is nothing to clean.
    done: Option<u64>,
    /// Objects with a page that is damaged, which stays where it is.
    damaged: BTreeSet<ObjectId>,
    /// Pages were moved, and that is in no commit yet.
    pub(super) has_moved: bool,
    pub(super) moved_bytes: u64,
}

impl Cleaner {
    pub(super) fn is(&self, id: RequestId) -> bool {
        let reading = self.batch.as_ref().and_then(|batch| batch.reading.as_ref());
        reading.is_some_and(|reading| reading.request == id)
    }
}

impl Writer {
    /// Between looks for what to clean while there is nothing, and before a commit is made for what was moved.
    fn clean_pause(&self) -> Duration {
        self.grace / 64
    }

    /// Held bytes that are cleaning's.
    fn clean_share(&self) -> u64 {
        (self.options.chunk_bytes * 3).min(self.options.held_bytes / 2)
    }

    /// Bytes that may be held for writes.
    pub(super) fn writes_max(&self) -> u64 {
        match self.cleaner.batch {
            Some(_) => self.options.held_bytes - self.clean_share(),
            None => self.options.held_bytes,
        }
    }

    pub(super) fn clean_tick_at(&self) -> Option<Duration> {
        let is_look = self.cleaner.batch.is_none()
            && self.cleaner.done.is_none_or(|done| done < self.number)
            && self.garbage.is_swept();
        let commit = self
            .is_commit_for_moved()
            .then(|| self.fresh + self.clean_pause());
        let look = is_look.then_some(self.cleaner.at);
        [commit, look].into_iter().flatten().min()
    }

    fn is_commit_for_moved(&self) -> bool {
        let is_of_use = self.cleaner.has_moved || self.is_commit_for_checkpoint();
        is_of_use && self.covered >= self.seq && self.frozen.is_none()
    }

    /// Whether a commit is to be made although no sync waits for one. What was changed is in none that was not asked for.
    pub(super) fn is_commit_for_moved_due(&self, now: Duration) -> bool {
        self.is_commit_for_moved() && now >= self.fresh + self.clean_pause()
    }

    /// Looks whether there is something to clean, and goes on with it.
    pub(super) fn try_clean(&mut self, now: Duration) {
        if !matches!(self.phase, Phase::Open) {
            return;
        }
        if self.cleaner.batch.is_some() {
            self.clean_on(now);
        }
        let is_new = self.cleaner.done.is_none_or(|done| done < self.number);
        if self.cleaner.batch.is_none() && is_new && now >= self.cleaner.at && self.garbage.is_swept() {
            self.cleaner.batch = self.clean_batch();
            match self.cleaner.batch {
                Some(_) => self.clean_on(now),
                None => {
                    self.cleaner.done = Some(self.number);
                    self.cleaner.at = now + self.clean_pause();
                }
            }
        }
    }

    /// The emptiest objects, until what is stored is as it should be or the batch is full.
    fn clean_batch(&self) -> Option<Batch> {
        let (mut live, mut stored, mut by_share) = (0, 0, Vec::new());
        for (object, bytes) in &self.state.live {
            if self.cleaner.damaged.contains(object) || self.garbage.is_held(&object.key()) {
                continue;
            }
            let total = self.stored.get(object).copied().unwrap_or(*bytes).max(*bytes);
            live += bytes;
            stored += total;
            by_share.push((bytes * 1024 / total.max(1), total - bytes, *object));
        }
        let most = live * self.options.stored_percent_max / 100 + self.options.chunk_bytes;
        if stored <= most {
            return None;
        }
        by_share.sort_unstable();
        let (mut chosen, mut moved) = (BTreeMap::new(), 0);
        for (_, dead, object) in by_share {
            if stored <= most || dead == 0 || moved > live / BATCHES {
                break;
            }
            stored -= dead;
            moved += self.state.live.get(&object).copied().unwrap_or(0);
            chosen.insert(object, Vec::new());
        }
        for (&file, entry) in &self.state.files {
            for (page, place) in entry.pages.iter() {
                if let Some(pages) = chosen.get_mut(&place.object) {
                    pages.push((file, page));
                }
            }
        }
        let queue: Vec<_> = chosen.into_iter().collect();
        (!queue.is_empty()).then(|| Batch {
            queue,
            ..Batch::default()
        })
    }

    fn clean_on(&mut self, now: Duration) {
        let (share, chunk_bytes) = (self.clean_share(), self.options.chunk_bytes);
        let has_room = self.staging.written_bytes() <= self.writes_max();
        let moving = self.staging.moving_bytes();
        let Some(batch) = &mut self.cleaner.batch else {
            return;
        };
        if batch.reading.is_none() && !batch.queue.is_empty() {
            let size = |object| self.stored.get(object).copied().unwrap_or(chunk_bytes);
            let bytes = batch.queue.last().map_or(0, |(object, _)| size(object));
            let others = moving + batch.gathered_bytes;
            if others == 0 || others + bytes <= share {
                if !has_room {
                    return;
                }
                if let Some((object, pages)) = batch.queue.pop() {
                    let key = object.key();
                    let request = self.outbox.ask(Request::Get { key, range: None });
                    batch.reading = Some(Reading {
                        request,
                        object,
                        pages,
                    });
                }
            }
        }
        // A chunk that is full, or as much as there is.
        let is_due = batch.gathered_bytes >= chunk_bytes || batch.reading.is_none();
        if moving == 0 && is_due && !batch.gathered.is_empty() {
            self.move_gathered(now);
        }
        let is_done = self.cleaner.batch.as_ref().is_some_and(|batch| {
            batch.queue.is_empty() && batch.reading.is_none() && batch.gathered.is_empty()
        });
        if is_done
            && self.staging.moving_bytes() == 0
            && let Some(batch) = self.cleaner.batch.take()
        {
            // What can't be moved now is not asked for again and again.
            if batch.has_failed || !batch.has_moved {
                self.cleaner.at = now + self.clean_pause();
            }
            if mutation::is(Mutation::CleaningCapped) {
                self.cleaner.done = Some(u64::MAX);
            }
        }
    }

    /// Puts a chunk of what was gathered and is still where it was.
    fn move_gathered(&mut self, now: Duration) {
        let chunk_bytes = self.options.chunk_bytes;
        let Some(batch) = &mut self.cleaner.batch else {
            return;
        };
        let mut bytes = 0;
        let fits = batch.gathered.iter().take_while(|copy| {
            bytes += copy.bytes.len() as u64;
            bytes <= chunk_bytes
        });
        let fit = fits.count().max(1);
        let mut copies: Vec<Copy> = batch.gathered.drain(..fit).collect();
        batch.gathered_bytes -= copies.iter().map(|copy| copy.bytes.len() as u64).sum::<u64>();
        copies.sort_unstable_by_key(|copy| copy.key);
        let mut pages = Vec::new();
        for Copy { key, from, mut bytes } in copies {
            let place = self
                .state
                .place(key.0, key.1)
                .filter(|place| place.object == from);
            let is_newer = self.staging.held(key.0, key.1).is_some();
            if let Some(place) = place.filter(|_| !is_newer || mutation::is(Mutation::CleanedOverWrite)) {
                bytes.truncate(place.kept as usize);
                pages.push((key, bytes));
            }
        }
        if pages.is_empty() {
            return;
        }
        self.cleaner.moved_bytes += pages.iter().map(|(_, bytes)| bytes.len() as u64).sum::<u64>();
        batch.has_moved = true;
        self.staging
            .put_moved(pages, self.seq, self.epoch, now, &mut self.outbox);
    }

    pub(super) fn clean_answered(&mut self, answer: Answer) {
        let Some(batch) = &mut self.cleaner.batch else {
            return;
        };
        let Some(Reading { object, pages, .. }) = batch.reading.take() else {
            return;
        };
        let Answer::Bytes(bytes) = answer else {
            batch.queue.clear();
            batch.has_failed = true;
            return;
        };
        for key in pages {
            let place = self.state.place(key.0, key.1);
            let Some(place) = place.filter(|place| place.object == object) else {
                continue;
            };
            let range = place.offset as usize..(place.offset + place.bytes) as usize;
            // What is damaged stays where it is, and reading it says so.
            match bytes.get(range).filter(|page| checksum(page) == place.checksum) {
                // A copy, so that a page does not keep the whole chunk in memory.
                Some(page) if place.kept > 0 => {
                    let bytes = Bytes::copy_from_slice(&page[..place.kept as usize]);
                    batch.gathered_bytes += bytes.len() as u64;
                    let from = object;
                    batch.gathered.push(Copy { key, from, bytes });
                }
                _ => {
                    self.cleaner.damaged.insert(object);
                }
            }
        }
    }
}
