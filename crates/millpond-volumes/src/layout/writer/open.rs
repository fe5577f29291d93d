//! The newest commit is loaded, and the next one created: the fence. Where another was faster it begins anew.

use super::{Fence, OpenError, Phase, Told, Writer};
use crate::format::ObjectId;
use crate::layout::load::{Load, Loaded};
use crate::layout::requests::{Answer, RequestId};
use std::time::Duration;

impl Writer {
    pub(super) fn load_answered(&mut self, now: Duration, id: RequestId, answer: Answer) {
        let Phase::Opening(load) = &mut self.phase else {
            return;
        };
        match load.answered(now, id, answer, &mut self.outbox) {
            None => {}
            Some(Ok(loaded)) => self.loaded(now, loaded),
            Some(Err(error)) => self.refused(error.into()),
        }
    }

    fn refused(&mut self, error: OpenError) {
        self.told.push(Told::Opened(Err(error)));
        self.phase = Phase::Failed;
    }

    fn loaded(&mut self, now: Duration, loaded: Loaded) {
        let Loaded {
            state,
            grace,
            number,
            checksum,
            newest,
            commits,
            asked,
        } = loaded;
        let mut epoch = 1;
        if let Some(newest) = &newest {
            if newest.page_bytes != self.options.page_bytes {
                return self.refused(OpenError::PageSize(newest.page_bytes));
            }
            if !newest.closed && !self.options.take_over {
                return self.refused(OpenError::Held {
                    owner: newest.owner.clone(),
                    at_unix_ms: newest.at_unix_ms,
                    epoch: newest.epoch,
                });
            }
            epoch = newest.epoch + 1;
            self.checkpoint.newest = newest.checkpoint;
            self.garbage
                .checkpoint_is_made(newest.checkpoint.0, newest.checkpoint.1);
        }
        self.state = state;
        self.grace = grace;
        self.epoch = epoch;
        (self.number, self.checksum, self.fresh) = (number, checksum, asked);
        self.checkpoint.commits = number - self.checkpoint.newest.0;
        self.commits = commits.into_iter().filter(|&commit| commit <= number).collect();
        let live = &self.state.live;
        let empty = self
            .commits
            .iter()
            .filter(|&&commit| !live.contains_key(&ObjectId::commit(commit)));
        self.empty_commits = empty.copied().collect();
        self.stored = live.clone();
        self.phase = Phase::Fencing;
        self.freeze(now, Vec::new());
    }

    /// The fence is ours.
    pub(super) fn opened(&mut self, now: Duration) {
        self.phase = Phase::Open;
        self.told.push(Told::Opened(Ok(())));
        self.sweep(now);
        self.go_on(now);
    }

    /// Another has the number that was to be ours.
    pub(super) fn overtaken(&mut self, now: Duration, fence: Fence) {
        match self.phase {
            Phase::Fencing => {
                self.frozen = None;
                let load = Load::new(now, self.options.grace, &mut self.outbox);
                self.phase = Phase::Opening(Box::new(load));
            }
            _ => self.fenced(fence),
        }
    }
}
