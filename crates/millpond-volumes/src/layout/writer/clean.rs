//! Chunks that are mostly dead are written anew: their live pages become ordinary writes, and the chunk is dead with the
//! next commit.
//!
//! It begins when the objects that have live pages hold more than `stored_percent_max` of these, and takes the emptiest
//! first. A page that is written meanwhile is left alone.

use super::{PageKey, Phase, Writer};
use crate::format::{ObjectId, checksum};
use crate::layout::requests::{Answer, Request, RequestId};
use crate::mutation::{self, Mutation};
use std::collections::BTreeMap;
use std::time::Duration;

/// The map is gone through once for so many objects.
const BATCH: usize = 16;

/// An object that is being read, and those after it.
#[derive(Debug)]
pub(super) struct Cleaning {
    pub(super) request: RequestId,
    object: ObjectId,
    pages: Vec<PageKey>,
    queue: Vec<(ObjectId, Vec<PageKey>)>,
}

impl Writer {
    /// Looks whether there is something to clean, when commits have been made since it last did.
    pub(super) fn try_clean(&mut self, _now: Duration) {
        let is_idle = self.cleaning.is_none() && self.garbage.is_swept();
        let is_time = self.number >= self.clean_at;
        if !is_idle || !is_time || !matches!(self.phase, Phase::Open) {
            return;
        }
        self.clean_at = self.number + self.options.checkpoint_commits / 2;
        let (mut live, mut stored, mut by_share) = (0, 0, Vec::new());
        for (object, bytes) in &self.state.live {
            let total = self.stored.get(object).copied().unwrap_or(*bytes).max(*bytes);
            live += bytes;
            stored += total;
            by_share.push((bytes * 1024 / total.max(1), total - bytes, *object));
        }
        let most = live * self.options.stored_percent_max / 100 + self.options.chunk_bytes;
        if stored <= most {
            return;
        }
        by_share.sort();
        let mut chosen = BTreeMap::new();
        for (_, dead, object) in by_share.into_iter().take(BATCH) {
            if stored <= most || dead == 0 {
                break;
            }
            stored -= dead;
            chosen.insert(object, Vec::new());
        }
        for (&file, entry) in &self.state.files {
            for (page, place) in entry.pages.iter() {
                if let Some(pages) = chosen.get_mut(&place.object) {
                    pages.push((file, page));
                }
            }
        }
        self.clean_next(chosen.into_iter().collect());
    }

    fn clean_next(&mut self, mut queue: Vec<(ObjectId, Vec<PageKey>)>) {
        self.cleaning = None;
        let has_room = self.staging.bytes() + self.options.chunk_bytes <= self.options.held_bytes;
        if !has_room {
            return;
        }
        if let Some((object, pages)) = queue.pop() {
            let key = object.key();
            let request = self.outbox.ask(Request::Get { key, range: None });
            self.cleaning = Some(Cleaning {
                request,
                object,
                pages,
                queue,
            });
        }
    }

    pub(super) fn clean_answered(&mut self, answer: Answer) {
        let Some(Cleaning {
            object, pages, queue, ..
        }) = self.cleaning.take()
        else {
            return;
        };
        if let Answer::Bytes(bytes) = answer {
            for (file, page) in pages {
                let place = self
                    .state
                    .place(file, page)
                    .filter(|place| place.object == object);
                let is_newer = self.staging.held(file, page).is_some();
                let Some(place) = place.filter(|_| !is_newer || mutation::is(Mutation::CleanedOverWrite))
                else {
                    continue;
                };
                let range = place.offset as usize..(place.offset + place.bytes) as usize;
                // What is damaged stays where it is, and reading it says so.
                let whole = (bytes.get(range.clone())).filter(|page| checksum(page) == place.checksum);
                if whole.is_some() {
                    let kept = range.start..range.start + place.kept as usize;
                    self.seq += 1;
                    self.staging.stage((file, page), self.seq, bytes.slice(kept));
                    self.cleaned_bytes += u64::from(place.kept);
                }
            }
        }
        if self.is_open() {
            self.clean_next(queue);
        }
    }
}
