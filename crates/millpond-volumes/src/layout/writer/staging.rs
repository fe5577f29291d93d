//! Pages on their way into the store, and the bytes that are held for them.
//!
//! A written page is *staged*. Staged pages are made into chunks, which are *in transit* until the store has them. A
//! page written in the meantime is staged again. Each write has a number, and the later one wins, whichever lands
//! first. A chunk with an unknown outcome is put again under its name until it is there.

use super::PageKey;
use crate::format::Key;
use crate::format::op::FileNo;
use crate::layout::options::WriterOptions;
use crate::layout::requests::{Body, Outbox, Request, RequestId};
use crate::mutation::{self, Mutation};
use bytes::Bytes;
use std::collections::BTreeMap;
use std::time::Duration;

/// A page that is on its way.
#[derive(Clone, Debug)]
pub(super) struct Staged {
    pub(super) key: PageKey,
    /// The number of its write.
    pub(super) seq: u64,
    /// The number of the oldest write that it has taken the place of: until it is in a commit, none of them is. No write's
    /// where it was moved.
    first: u64,
    pub(super) bytes: Bytes,
}

#[derive(Debug)]
pub(super) struct Flight {
    pub(super) pages: Vec<Staged>,
    /// `Err`: it is asked again then.
    pub(super) request: Result<RequestId, Duration>,
    pub(super) asked: Duration,
    pub(super) failures: u32,
    /// Its pages were not written: cleaning moves them.
    pub(super) is_moved: bool,
    /// There was one of its name: it is read, to see whether it is this one.
    pub(super) is_compared: bool,
}

impl Flight {
    pub(super) fn body(&self) -> Body {
        let pieces: Vec<Bytes> = self.pages.iter().map(|page| page.bytes.clone()).collect();
        pieces.into()
    }
}

/// A file was cut, or pages were punched, while chunks were in transit.
#[derive(Debug)]
pub(super) struct Cut {
    seq: u64,
    file: FileNo,
    pages: std::ops::Range<u64>,
    /// The page before has so many bytes left.
    kept: Option<u32>,
}

/// How many chunks may be in transit at a time: what a link can take is not known before. It begins with two, grows by one with
/// each that is there, and is halved when one is not there in time, so that at last one has all of the link.
#[derive(Debug)]
struct Window(usize);

impl Default for Window {
    fn default() -> Window {
        Window(2)
    }
}

/// Pages on their way.
#[derive(Default, Debug)]
pub(super) struct Staging {
    staged: BTreeMap<PageKey, Staged>,
    staged_bytes: u64,
    pub(super) flights: BTreeMap<u32, Flight>,
    next_chunk: u32,
    /// Chunks that may be in transit.
    window: Window,
    /// How many names are left out when one is taken.
    taken: u32,
    /// The newest bytes of what is staged, in transit, or in a commit of which no answer has come.
    held: BTreeMap<PageKey, (u64, Bytes)>,
    bytes: u64,
    /// Those of them that are moved.
    pub(super) moving: u64,
    /// While chunks are in transit: which write is placed, and what was cut.
    pub(super) placed: BTreeMap<PageKey, u64>,
    pub(super) cuts: Vec<Cut>,
}

pub(super) fn bytes_of(pages: &[Staged]) -> u64 {
    pages.iter().map(|page| page.bytes.len() as u64).sum()
}

impl Staging {
    /// Held bytes, all copies of a page counted.
    pub(super) fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Held bytes of pages that cleaning moves.
    pub(super) fn moving_bytes(&self) -> u64 {
        self.moving
    }

    /// Held bytes of pages that were written.
    pub(super) fn written_bytes(&self) -> u64 {
        self.bytes - self.moving
    }

    pub(super) fn held(&self, file: FileNo, page: u64) -> Option<Bytes> {
        self.held.get(&(file, page)).map(|(_, bytes)| bytes.clone())
    }

    pub(super) fn held_keys(&self) -> impl Iterator<Item = PageKey> + '_ {
        self.held.keys().copied()
    }

    pub(super) fn is_of_chunk(&self, id: RequestId) -> bool {
        self.flights.values().any(|flight| flight.request == Ok(id))
    }

    pub(super) fn stage(&mut self, key: PageKey, seq: u64, bytes: Bytes) {
        self.bytes += bytes.len() as u64;
        self.staged_bytes += bytes.len() as u64;
        self.held.insert(key, (seq, bytes.clone()));
        let first = seq;
        if let Some(old) = self.staged.insert(
            key,
            Staged {
                key,
                seq,
                first,
                bytes,
            },
        ) {
            self.staged_bytes -= old.bytes.len() as u64;
            self.bytes -= old.bytes.len() as u64;
            if let Some(staged) = self.staged.get_mut(&key) {
                staged.first = old.first;
            }
        }
    }

    fn unstage(&mut self, keys: &[PageKey]) -> Vec<Staged> {
        let taken: Vec<_> = keys.iter().filter_map(|key| self.staged.remove(key)).collect();
        self.staged_bytes -= bytes_of(&taken);
        taken
    }

    /// The bytes of a page that was written as `seq` are elsewhere now, or are not wanted any more.
    pub(super) fn let_go(&mut self, page: &Staged) {
        self.bytes -= page.bytes.len() as u64;
        if self
            .held
            .get(&page.key)
            .is_some_and(|(held, _)| *held == page.seq)
        {
            self.held.remove(&page.key);
        }
    }

    pub(super) fn committed(&mut self, inline: &[Staged]) {
        inline.iter().for_each(|page| self.let_go(page));
    }

    /// Whether a page that was written as `seq` may be placed, and how many of its bytes: not if a later one is, or if it
    /// was cut off since.
    pub(super) fn may_place(&self, key: PageKey, seq: u64, bytes: u32) -> Option<u32> {
        let is_old = self.placed.get(&key).is_some_and(|&placed| placed > seq);
        if is_old && !mutation::is(Mutation::OldPageWins) {
            return None;
        }
        let mut kept = bytes;
        let since = self.cuts.iter().filter(|cut| cut.seq > seq && cut.file == key.0);
        for cut in since.filter(|_| !mutation::is(Mutation::CutForgotten)) {
            if cut.pages.contains(&key.1) {
                return None;
            }
            if let Some(end) = cut.kept
                && key.1 + 1 == cut.pages.start
            {
                kept = kept.min(end);
            }
        }
        Some(kept)
    }

    /// Pages of a file are gone; the one before them has `kept` bytes left.
    pub(super) fn cut(&mut self, seq: u64, file: FileNo, pages: std::ops::Range<u64>, kept: Option<u32>) {
        let gone: Vec<PageKey> = self
            .held
            .range((file, pages.start)..(file, pages.end))
            .map(|(key, _)| *key)
            .collect();
        for page in self.unstage(&gone) {
            self.let_go(&page);
        }
        gone.iter().for_each(|key| {
            self.held.remove(key);
        });
        if let Some(kept) = kept
            && let Some(last) = pages.start.checked_sub(1)
        {
            let key = (file, last);
            if let Some((_, bytes)) = self.held.get_mut(&key) {
                bytes.truncate(kept as usize);
            }
            if let Some(Staged { bytes, .. }) = self.staged.get_mut(&key) {
                let before = bytes.len();
                bytes.truncate(kept as usize);
                let less = (before - bytes.len()) as u64;
                (self.bytes, self.staged_bytes) = (self.bytes - less, self.staged_bytes - less);
            }
        }
        if !self.flights.is_empty() {
            self.cuts.push(Cut {
                seq,
                file,
                pages,
                kept,
            });
        }
    }

    /// Makes chunks while more is staged than one takes.
    pub(super) fn seal_full(
        &mut self,
        options: &WriterOptions,
        epoch: u32,
        now: Duration,
        outbox: &mut Outbox,
    ) {
        while self.staged_bytes > options.chunk_bytes.max(options.inline_bytes) {
            if !self.seal(u64::MAX, options, epoch, now, outbox) {
                return;
            }
        }
    }

    /// Makes a chunk of pages that were written up to `barrier`; false: there is none, or too much is in transit.
    pub(super) fn seal(
        &mut self,
        barrier: u64,
        options: &WriterOptions,
        epoch: u32,
        now: Duration,
        outbox: &mut Outbox,
    ) -> bool {
        let written = self.flights.values().filter(|flight| !flight.is_moved);
        if written.count() >= self.window.0.min(options.in_transit) {
            return false;
        }
        let mut bytes = 0;
        let chosen = self.staged.values().filter(|page| page.first <= barrier);
        let chosen = chosen.take_while(|page| {
            let is_first = bytes == 0;
            bytes += page.bytes.len() as u64;
            is_first || bytes <= options.chunk_bytes
        });
        let keys: Vec<PageKey> = chosen.map(|page| page.key).collect();
        let pages = self.unstage(&keys);
        if pages.is_empty() {
            return false;
        }
        self.fly(pages, false, epoch, now, outbox);
        true
    }

    fn fly(&mut self, pages: Vec<Staged>, is_moved: bool, epoch: u32, now: Duration, outbox: &mut Outbox) {
        let number = self.next_chunk;
        self.next_chunk += 1;
        let flight = Flight {
            pages,
            request: Err(now),
            asked: now,
            failures: 0,
            is_moved,
            is_compared: false,
        };
        self.flights.insert(number, flight);
        self.put(now, number, epoch, outbox);
    }

    /// Puts a chunk of pages that are where they were as of write `seq`.
    pub(super) fn put_moved(
        &mut self,
        pages: Vec<(PageKey, Bytes)>,
        seq: u64,
        epoch: u32,
        now: Duration,
        outbox: &mut Outbox,
    ) {
        let first = u64::MAX;
        let moved = pages.into_iter().map(|(key, bytes)| Staged {
            key,
            seq,
            first,
            bytes,
        });
        let pages: Vec<Staged> = moved.collect();
        self.moving += bytes_of(&pages);
        self.bytes += bytes_of(&pages);
        self.fly(pages, true, epoch, now, outbox);
    }

    fn put(&mut self, now: Duration, number: u32, epoch: u32, outbox: &mut Outbox) {
        if let Some(flight) = self.flights.get_mut(&number) {
            let key = Key::Chunk { epoch, number };
            let body = flight.body();
            flight.request = Ok(outbox.ask(Request::Create { key, body }));
            flight.is_compared = false;
            flight.asked = now;
        }
    }

    /// The name of a chunk is taken: it gets another. As others may be as well, each is further away than the last.
    pub(super) fn rename(&mut self, number: u32, epoch: u32, now: Duration, outbox: &mut Outbox) {
        if let Some(flight) = self.flights.remove(&number) {
            self.taken = self.taken.saturating_mul(2).max(1);
            let number = self.next_chunk.saturating_add(self.taken);
            self.next_chunk = number + 1;
            self.flights.insert(number, flight);
            self.put(now, number, epoch, outbox);
        }
    }

    /// Chunks of writes that are asked for at present.
    fn asked(&self) -> usize {
        let written = self.flights.values().filter(|flight| !flight.is_moved);
        written.filter(|flight| flight.request.is_ok()).count()
    }

    /// A chunk is there.
    pub(super) fn window_grows(&mut self, options: &WriterOptions) {
        self.window.0 = (self.window.0 + 1).min(options.in_transit);
    }

    /// One was not there in time, beside those that are still asked for.
    pub(super) fn window_shrinks(&mut self) {
        if !mutation::is(Mutation::WindowFixed) {
            let asked = self.asked() + 1;
            self.window.0 = self.window.0.min(asked / 2).max(1);
        }
    }

    /// What waits to be put again, if it may be.
    fn waiting(&self) -> impl Iterator<Item = (u32, Duration)> + '_ {
        let is_full = self.asked() >= self.window.0;
        let may = self
            .flights
            .iter()
            .filter(move |(_, flight)| flight.is_moved || !is_full);
        may.filter_map(|(number, flight)| Some((*number, flight.request.err()?)))
    }

    pub(super) fn next_tick(&self) -> Option<Duration> {
        self.waiting().map(|(_, until)| until).min()
    }

    /// What waits to be put again is due.
    pub(super) fn again(&mut self, now: Duration) {
        let waiting = self.flights.values_mut().filter(|flight| flight.request.is_err());
        waiting.for_each(|flight| flight.request = Err(now));
    }

    pub(super) fn tick(&mut self, now: Duration, epoch: u32, outbox: &mut Outbox) {
        loop {
            let due = self.waiting().find(|(_, until)| *until <= now);
            let Some((number, _)) = due else { return };
            self.put(now, number, epoch, outbox);
        }
    }

    /// Chunks that wait to be put again are made anew of what is still wanted of them, which is nothing if all of it was cut off.
    /// Says what they were called: they may be there all the same.
    pub(super) fn reduce(&mut self) -> Vec<u32> {
        let is_wanted = |staging: &Staging, page: &Staged| {
            let len = page.bytes.len() as u32;
            staging.may_place(page.key, page.seq, len).is_some()
        };
        let waiting = self.flights.iter().filter(|(_, flight)| flight.request.is_err());
        let reduced = waiting.filter(|(_, flight)| !flight.pages.iter().all(|page| is_wanted(self, page)));
        let reduced: Vec<u32> = reduced.map(|(number, _)| *number).collect();
        for number in &reduced {
            let Some(mut flight) = self.flights.remove(number) else {
                continue;
            };
            let pages = std::mem::take(&mut flight.pages);
            let (wanted, gone): (Vec<_>, Vec<_>) = pages.into_iter().partition(|page| is_wanted(self, page));
            if flight.is_moved {
                self.moving -= bytes_of(&gone);
            }
            gone.iter().for_each(|page| self.let_go(page));
            if !wanted.is_empty() {
                flight.pages = wanted;
                self.flights.insert(self.next_chunk, flight);
                self.next_chunk += 1;
            }
        }
        if self.flights.is_empty() {
            self.placed.clear();
            self.cuts.clear();
        }
        reduced
    }

    /// The oldest write in a chunk in transit.
    fn oldest_in_transit(&self) -> Option<u64> {
        let pages = self.flights.values().flat_map(|flight| &flight.pages);
        pages.map(|page| page.first).min()
    }

    pub(super) fn oldest_staged(&self) -> Option<u64> {
        self.staged.values().map(|page| page.first).min()
    }

    /// All writes up to this one are placed; `seq`: all.
    pub(super) fn placed_up_to(&self, seq: u64) -> u64 {
        let in_transit = self
            .oldest_in_transit()
            .filter(|_| !mutation::is(Mutation::SyncForgetsTransit));
        let oldest = [in_transit, self.oldest_staged()];
        oldest
            .into_iter()
            .flatten()
            .min()
            .map_or(seq, |oldest| seq.min(oldest - 1))
    }

    /// The pages that a commit of all writes up to `barrier` carries; `None`: chunks have to be stored before.
    pub(super) fn inline(
        &mut self,
        barrier: u64,
        options: &WriterOptions,
        epoch: u32,
        now: Duration,
        outbox: &mut Outbox,
    ) -> Option<Vec<Staged>> {
        let waits = self.oldest_in_transit().is_some_and(|oldest| oldest <= barrier);
        if waits && !mutation::is(Mutation::SyncForgetsTransit) {
            return None;
        }
        let barrier = match self.staged_bytes <= options.inline_bytes {
            true => u64::MAX,
            false => barrier,
        };
        let due = |staging: &Staging| -> Vec<PageKey> {
            let due = staging.staged.values().filter(|page| page.first <= barrier);
            due.map(|page| page.key).collect()
        };
        let bytes = |staging: &Staging, keys: &[PageKey]| -> u64 {
            let of = |key| staging.staged.get(key).map_or(0, |page| page.bytes.len() as u64);
            keys.iter().map(of).sum()
        };
        let mut keys = due(self);
        let mut has_sealed = false;
        while bytes(self, &keys) > options.inline_bytes {
            if !self.seal(barrier, options, epoch, now, outbox) {
                return None;
            }
            has_sealed = true;
            keys = due(self);
        }
        (!has_sealed).then(|| self.unstage(&keys))
    }

    /// A page of a commit is placed before the commit is stored.
    pub(super) fn inline_is_placed(&mut self, key: PageKey, seq: u64) {
        if !self.flights.is_empty() {
            self.placed.insert(key, seq);
        }
    }
}
