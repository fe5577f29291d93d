//! Commits that are read whatever the reader has moved on to.

use std::collections::BTreeMap;

/// By commit, how many read it.
#[derive(Default, Debug)]
pub(super) struct Holds(BTreeMap<u64, usize>);

impl Holds {
    pub(super) fn hold(&mut self, commit: u64) {
        *self.0.entry(commit).or_default() += 1;
    }

    pub(super) fn release(&mut self, commit: u64) {
        if let Some(count) = self.0.get_mut(&commit) {
            *count -= 1;
            if *count == 0 {
                self.0.remove(&commit);
            }
        }
    }

    /// The oldest commit that is read, if the reader itself is at `current`.
    pub(super) fn oldest(&self, current: u64) -> u64 {
        let held = self.0.keys().next().copied();
        held.map_or(current, |held| held.min(current))
    }
}
