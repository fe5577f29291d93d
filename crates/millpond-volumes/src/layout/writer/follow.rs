//! Takes a store over from a writer that commits without a pause.
//!
//! A writer that opens a store and finds its number taken does not reload. It applies the commit with that number, asks
//! for the following ones at once, and tries the next number. A busy writer makes its next commit sooner than another
//! can learn of the last one, so this alone may never succeed. The opening writer therefore leaves a *claim*. The busy
//! writer looks for claims from time to time and yields to each one once: it makes no commit for a while. It then finds
//! that it was taken over, or continues.
//!
//! A claim is a pin that holds nothing; leftover claims are removed like pins.

use super::{Phase, Writer};
use crate::format::{Commit, Key, Pin};
use crate::layout::head::{Head, HeadFetch};
use crate::layout::load::Load;
use crate::layout::loaded::Loaded;
use crate::layout::requests::{Answer, Listed, Request, RequestId};
use crate::mutation::{self, Mutation};
use bytes::Bytes;
use std::collections::BTreeMap;
use std::time::Duration;

/// The claim's name.
const CLAIM: Key = Key::Pin(u64::MAX);

/// A claim is left after so many numbers that were taken.
const TAKEN: u32 = 2;

/// A writer looks for a claim after so many commits, ...
const COMMITS: u32 = 16;

/// ... and not before this has passed: a request in a second beside those of its commits.
const LOOK: Duration = Duration::from_secs(1);

/// So long it makes no commit then: some requests of one that is far away.
const WAY: Duration = Duration::from_secs(3);

/// The most commits that are asked for at once.
const AHEAD_MAX: u32 = 64;

/// One that catches up with another writer's commits.
#[derive(Debug)]
pub(super) struct Catching {
    loaded: Loaded,
    heads: BTreeMap<u64, HeadFetch>,
    read: BTreeMap<u64, (Box<Commit>, u64)>,
}

/// What is known of claims.
#[derive(Default, Debug)]
pub(super) struct Claims {
    /// How often the number was taken while the store was opened, and whether a claim was left for it.
    taken: u32,
    is_left: bool,
    /// Commits since it was looked for one, when that was, and by which request.
    commits: u32,
    looked: Duration,
    looking: Option<RequestId>,
    /// The last one that way was given to, and until when.
    given: u64,
    until: Duration,
    /// A sync waits for it.
    waits: bool,
}

impl Claims {
    pub(super) fn is(&self, id: RequestId) -> bool {
        self.looking == Some(id)
    }

    /// Until when a sync waits.
    pub(super) fn waits_until(&self) -> Option<Duration> {
        self.waits.then_some(self.until)
    }
}

impl Writer {
    /// Another has the number that was to be ours, with `found`, if that can be read: catches up from there, or loads anew.
    pub(super) fn catch_up(&mut self, now: Duration, loaded: Loaded, found: Option<(Box<Commit>, u64)>) {
        self.claims.taken += 1;
        if self.claims.taken >= TAKEN && self.options.take_over {
            self.claim();
        }
        let Some(loaded) = self.followed(now, loaded, found) else {
            return self.load_anew(now);
        };
        let ahead = u64::from(2u32.saturating_pow(self.claims.taken).min(AHEAD_MAX));
        let numbers = loaded.number + 1..=loaded.number + ahead;
        let heads = numbers.map(|number| (number, HeadFetch::new(number, &mut self.outbox)));
        self.phase = Phase::Catching(Box::new(Catching {
            heads: heads.collect(),
            loaded,
            read: BTreeMap::new(),
        }));
    }

    pub(super) fn load_anew(&mut self, now: Duration) {
        let load = Load::new(now, Writer::purpose(&self.options), &mut self.outbox);
        self.phase = Phase::Opening(Box::new(load));
    }

    /// What holds with one commit more.
    fn followed(
        &mut self,
        now: Duration,
        mut loaded: Loaded,
        found: Option<(Box<Commit>, u64)>,
    ) -> Option<Loaded> {
        let (commit, checksum) = found?;
        // Nothing newer than what was loaded was there then.
        if !self.is_known(now) || loaded.salvaged.is_some() {
            return None;
        }
        loaded.state = std::mem::take(&mut self.state);
        follow(&mut loaded, &commit, checksum).then_some(loaded)
    }

    pub(super) fn catching_answered(&mut self, now: Duration, id: RequestId, answer: Answer) {
        let Phase::Catching(catching) = &mut self.phase else {
            return;
        };
        let Some(number) = catching
            .heads
            .values()
            .find(|f| f.request == id)
            .map(|f| f.number)
        else {
            return;
        };
        let head = catching.heads.get_mut(&number);
        match head.map(|fetch| fetch.answered(answer, &mut self.outbox)) {
            Some(Head::More) => return,
            Some(Head::Is(commit, checksum)) => {
                catching.read.insert(number, (commit, checksum));
            }
            Some(Head::Absent) => {}
            _ => return self.load_anew(now),
        }
        catching.heads.remove(&number);
        if !catching.heads.is_empty() {
            return;
        }
        let Phase::Catching(catching) = std::mem::replace(&mut self.phase, Phase::Failed) else {
            return;
        };
        let Catching { mut loaded, read, .. } = *catching;
        for (commit, checksum) in read.into_values() {
            if commit.number != loaded.number + 1 {
                break;
            }
            if !follow(&mut loaded, &commit, checksum) {
                return self.load_anew(now);
            }
        }
        match self.is_known(now) {
            true => self.loaded(now, loaded),
            false => self.load_anew(now),
        }
    }

    fn claim(&mut self) {
        self.claims.is_left = true;
        let pin = Pin {
            number: u64::MAX,
            beat: self.options.nonce as u64,
            owner: self.options.owner.clone(),
        };
        let (key, body) = (CLAIM, vec![Bytes::from(pin.encode())].into());
        // Whatever becomes of it.
        self.outbox.ask(Request::Overwrite { key, body });
    }

    /// The store is ours.
    pub(super) fn drop_claim(&mut self) {
        if std::mem::take(&mut self.claims.is_left) {
            self.outbox.ask(Request::Delete { keys: vec![CLAIM] });
        }
    }

    /// A commit was made: is there a claim?
    pub(super) fn look_for_claim(&mut self, now: Duration) {
        self.claims.commits += 1;
        let is_due = self.claims.commits >= COMMITS && now >= self.claims.looked + LOOK;
        if is_due && self.claims.looking.is_none() && !mutation::is(Mutation::ClaimIgnored) {
            (self.claims.commits, self.claims.looked) = (0, now);
            let (key, range) = (CLAIM, None);
            self.claims.looking = Some(self.outbox.ask(Request::Get { key, range }));
        }
    }

    pub(super) fn claim_answered(&mut self, now: Duration, answer: Answer) {
        self.claims.looking = None;
        let Answer::Bytes(bytes) = answer else {
            return;
        };
        let claim = Pin::decode(&bytes).map(|pin| pin.beat);
        let is_new = |beat: &u64| *beat != self.claims.given && *beat != self.options.nonce as u64;
        if let Some(beat) = claim.ok().filter(is_new) {
            (self.claims.given, self.claims.until) = (beat, now + WAY);
        }
    }

    /// Whether another is given its time to take the store over.
    pub(super) fn gives_way(&mut self, now: Duration) -> bool {
        self.claims.waits = now < self.claims.until;
        self.claims.waits
    }
}

/// Applies a commit, if it is the next. Otherwise what was loaded is of no use.
fn follow(loaded: &mut Loaded, commit: &Commit, checksum: u64) -> bool {
    let is_next = commit.previous == loaded.checksum && commit.number == loaded.number + 1;
    let is_alike = loaded.page_bytes == Some(commit.page_bytes)
        && u128::from(commit.grace_ms) == loaded.grace.as_millis();
    let listed = Listed {
        key: Key::Commit(commit.number),
        bytes: 0,
        put_unix_ms: 0,
    };
    loaded.commits.insert(commit.number, listed);
    is_next && is_alike && loaded.follow(commit, checksum).is_ok()
}
