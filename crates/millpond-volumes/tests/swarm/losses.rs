//! A store loses what it has, or a bit of it.

use crate::checker::Checker;
use crate::faults::Loss;
use crate::store::Store;
use crate::world::{Event, World};
use bytes::Bytes;
use millpond_volumes::format::{Checkpoint, Commit, Key, Kind};
use millpond_volumes::layout::State;
use std::time::Duration;

/// What a checkpoint has, if it is one.
pub(crate) fn checkpoint_of(store: &Store, key: Key) -> Option<State> {
    let checkpoint = Checkpoint::decode(store.objects.get(&key)?).ok()?;
    State::from_ops(&checkpoint.ops, checkpoint.page_bytes).ok()
}

impl Checker {
    /// Whether there is a checkpoint of a commit that was, or the first commit.
    fn has_base(&self, store: &Store, but: Option<Key>) -> bool {
        let is_base = |key: &Key| match *key {
            Key::Commit(number) => number == 1 && Some(*key) != but,
            Key::Checkpoint { number, .. } => {
                let made = self.history.get(&number).map(|made| &made.state);
                Some(*key) != but && made.is_some() && made == checkpoint_of(store, *key).as_ref()
            }
            _ => false,
        };
        store.objects.keys().any(is_base)
    }
}

impl World {
    fn keys(&self, kind: Kind) -> Vec<Key> {
        let keys = self.store.objects.keys();
        keys.filter(|key| key.kind() == kind).copied().collect()
    }

    pub(crate) fn loses(&mut self, loss: Loss) {
        let commits = self.keys(Kind::Commit);
        let Some(&newest) = commits.last() else { return };
        let named = Commit::decode(&self.store.objects[&newest]).map(|(commit, _)| commit.checkpoint);
        let (number, epoch) = named.unwrap_or_default();
        let named = Key::Checkpoint { number, epoch };
        match loss {
            Loss::Newest(_) | Loss::All => {
                let kept = match loss {
                    Loss::Newest(lost) => commits.len().saturating_sub(lost as usize).max(1),
                    _ => 0,
                };
                // Not of a commit with a snapshot that was never made.
                let has_checkpoint = self.keys(Kind::Checkpoint).last().is_some_and(|key| {
                    let Key::Checkpoint { number, .. } = key else {
                        return false;
                    };
                    let made = self.checker.history.get(number).map(|made| &made.state);
                    made.is_some() && made == checkpoint_of(&self.store, *key).as_ref()
                });
                if kept == commits.len() || !has_checkpoint {
                    return;
                }
                // A copy is made while nobody is at it, and nothing is on its way to that.
                for who in 0..self.slots.len() {
                    self.ends(who);
                }
                self.events
                    .retain(|_, event| !matches!(event, Event::Arrives { .. }));
                for key in &commits[kept..] {
                    self.store.objects.remove(key);
                }
                let last = match commits[..kept].last() {
                    Some(Key::Commit(number)) => Some(*number),
                    _ => None,
                };
                self.checker.loses(last);
                self.some_come_later(last);
            }
            Loss::CommitDamaged | Loss::CheckpointDamaged => {
                let (key, within) = match loss {
                    Loss::CommitDamaged => {
                        let head = Commit::head_bytes(&self.store.objects[&newest]);
                        (newest, head.unwrap_or(16) as u64)
                    }
                    _ => match self.store.objects.get(&named) {
                        Some(bytes) => (named, bytes.len() as u64),
                        None => return,
                    },
                };
                if !self.checker.has_base(&self.store, Some(key)) {
                    return;
                }
                let bytes = self.store.objects[&key].clone();
                let bytes = self.flipped(&bytes, within.min(bytes.len() as u64));
                self.store.objects.insert(key, bytes);
                self.checker.loses(None);
            }
        }
        self.seen.losses += 1;
    }

    /// Of chunks that no commit has which is there some are not there yet.
    fn some_come_later(&mut self, last: Option<u64>) {
        for key in self.keys(Kind::Chunk) {
            let is_live = |number: &u64| {
                let made = self.checker.history.get(number);
                made.is_some_and(|made| made.state.live.keys().any(|object| object.key() == key))
            };
            let is_needed = last.is_none_or(|last| is_live(&last)) || self.checker.is_of_snapshot(&key);
            if !is_needed
                && self.draw.one_in(2)
                && let Some(bytes) = self.store.objects.remove(&key)
            {
                let at = self.within(Duration::from_secs(100));
                self.at(at, Event::Comes(key, bytes));
            }
        }
    }

    pub(crate) fn comes(&mut self, key: Key, bytes: Bytes) {
        self.store.objects.entry(key).or_insert(bytes);
    }
}
