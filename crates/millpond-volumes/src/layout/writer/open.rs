//! Loads the newest commit and creates the next one: the fence.

use super::ages::Ages;
use super::{Fence, OpenError, Phase, Told, Writer};
use crate::format::{Commit, ObjectId};
use crate::layout::loaded::{Loaded, Purpose};
use crate::layout::options::PAGE_BYTES;
use crate::layout::requests::{Answer, RequestId};
use crate::layout::salvage::Salvaged;
use std::time::Duration;

impl Writer {
    pub(super) fn purpose(options: &super::WriterOptions) -> Purpose {
        Purpose {
            grace: options.grace,
            writes: true,
            salvages: options.salvage,
        }
    }

    pub(super) fn load_answered(&mut self, now: Duration, id: RequestId, answer: Answer) {
        let Phase::Opening(load) = &mut self.phase else {
            return;
        };
        match load.answered(now, id, answer, &mut self.outbox) {
            None => {}
            Some(Ok(loaded)) => self.loaded(now, loaded),
            Some(Err(error)) => self.fails(error.into()),
        }
    }

    fn fails(&mut self, error: OpenError) {
        self.told.push(Told::Opened(Err(error)));
        self.phase = Phase::Failed;
    }

    pub(super) fn loaded(&mut self, now: Duration, mut loaded: Loaded) {
        if let (Some(stored), Some(said)) = (loaded.page_bytes, self.options.page_bytes)
            && stored != said
        {
            return self.fails(OpenError::PageSize(stored));
        }
        if let Some(last) = loaded.last_writer.as_ref().filter(|last| !last.closed)
            && !self.options.take_over
        {
            return self.fails(OpenError::Held {
                owner: last.owner.clone(),
                at_unix_ms: last.at_unix_ms,
                epoch: last.epoch,
            });
        }
        self.page_bytes = loaded
            .page_bytes
            .or(self.options.page_bytes)
            .unwrap_or(PAGE_BYTES);
        self.state = std::mem::take(&mut loaded.state);
        self.grace = loaded.grace;
        self.epoch = loaded.epoch + 1;
        (self.number, self.checksum, self.fresh) = (loaded.number, loaded.checksum, loaded.asked);
        self.checkpoint.begin(loaded.checkpoint, loaded.number);
        self.garbage
            .checkpoint_is_made(loaded.checkpoint.0, loaded.checkpoint.1);
        let sizes = loaded
            .commits
            .iter()
            .map(|(number, listed)| (*number, listed.bytes));
        self.commit_bytes = sizes.collect();
        let commits = loaded.commits.keys().filter(|&&commit| commit <= loaded.number);
        self.commits = commits.copied().collect();
        let live = &self.state.live;
        let empty = self
            .commits
            .iter()
            .filter(|&&commit| !live.contains_key(&ObjectId::commit(commit)));
        self.empty_commits = empty.copied().collect();
        self.stored = live.clone();
        self.salvaged = loaded.salvaged.clone();
        self.phase = Phase::Fencing(Box::new(loaded));
        match self.salvaged {
            Some(_) => self.freeze_salvaged(now),
            None => self.freeze(now, Vec::new()),
        }
    }

    /// The fence is ours.
    pub(super) fn opened(&mut self, now: Duration, fence: &Commit) {
        if let Phase::Fencing(loaded) = std::mem::replace(&mut self.phase, Phase::Open) {
            let ages = Ages::new(&loaded);
            self.garbage.is_fenced(now, fence.number, loaded.checkpoint, ages);
        }
        self.told.push(Told::Opened(Ok(())));
        if self.is_checkpoint_due() {
            let body = self.checkpoint_of(self.number);
            self.put_checkpoint(now, self.number, body, false);
        }
        self.drop_claim();
        self.sweep(now);
        self.go_on(now);
    }

    /// Another has the number that was to be ours, with `found`, if that can be read.
    pub(super) fn overtaken(&mut self, now: Duration, fence: Fence, found: Option<(Box<Commit>, u64)>) {
        if !matches!(self.phase, Phase::Fencing(_)) {
            return self.fenced(fence);
        }
        self.frozen = None;
        if let Phase::Fencing(loaded) = std::mem::replace(&mut self.phase, Phase::Failed) {
            self.catch_up(now, *loaded, found);
        }
    }

    /// What was opened of a store that was not whole.
    pub fn salvaged(&self) -> Option<&Salvaged> {
        self.salvaged.as_ref()
    }

    /// Bytes of a page of the store; 0 until it is open.
    pub fn page_bytes(&self) -> u32 {
        self.page_bytes
    }
}
