//! Accepts writes, and handles answers for chunks.

use super::staging::{Staged, bytes_of};
use super::{SyncError, Told, WriteError, Writer};
use crate::format::op::FileNo;
use crate::format::{ObjectId, checksum};
use crate::layout::load::pause;
use crate::layout::requests::{Answer, Refusal, Request, RequestId};
use crate::layout::state::Place;
use crate::mutation::{self, Mutation};
use bytes::Bytes;
use std::time::Duration;

impl Writer {
    /// Takes bytes for a page, from its start; what is behind them is zeros. They are in no commit until a sync.
    ///
    /// # Errors
    /// If there is no such file, no room, or the store is another's.
    pub fn write(&mut self, now: Duration, file: FileNo, page: u64, bytes: Bytes) -> Result<(), WriteError> {
        self.open_or_why()?;
        assert!(
            !bytes.is_empty() && bytes.len() <= self.page_bytes as usize,
            "{} bytes for a page of {}",
            bytes.len(),
            self.page_bytes
        );
        if !self.state.files.contains_key(&file) {
            return Err(WriteError::Absent(format!("file {file}")));
        }
        if self.staging.written_bytes() + bytes.len() as u64 > self.writes_max() {
            self.is_full = true;
            // What is staged would wait for more.
            self.make_room(now);
            return Err(WriteError::Full);
        }
        self.seq += 1;
        self.staging.stage((file, page), self.seq, bytes);
        self.staging
            .seal_full(&self.options, self.epoch, now, &mut self.outbox);
        Ok(())
    }

    pub(super) fn make_room(&mut self, now: Duration) {
        let Writer {
            options,
            epoch,
            outbox,
            staging,
            ..
        } = self;
        while staging.seal(u64::MAX, options, *epoch, now, outbox) {}
    }

    pub(super) fn chunk_answered(&mut self, now: Duration, id: RequestId, answer: Answer) {
        let found = self
            .staging
            .flights
            .iter()
            .find(|(_, flight)| flight.request == Ok(id));
        let Some(number) = found.map(|(number, _)| *number) else {
            return;
        };
        let is_ours = |bytes: &[u8]| {
            let flight = self.staging.flights.get(&number);
            flight.is_some_and(|flight| flight.is_compared && flight.body().is(bytes))
        };
        match answer {
            Answer::Stored => {
                self.staging.window_grows(&self.options);
                self.chunk_stored(number);
            }
            Answer::Exists if mutation::is(Mutation::NameBelieved) => self.chunk_stored(number),
            // Ours, if an answer was lost; a copy of the store that is not whole may have brought another's.
            Answer::Exists => {
                let key = ObjectId::chunk(self.epoch, number).key();
                let request = self.outbox.ask(Request::Get { key, range: None });
                if let Some(flight) = self.staging.flights.get_mut(&number) {
                    (flight.request, flight.is_compared) = (Ok(request), true);
                }
            }
            Answer::Bytes(bytes) if is_ours(&bytes) => self.chunk_stored(number),
            Answer::Bytes(_) => self.staging.rename(number, self.epoch, now, &mut self.outbox),
            answer => {
                let refusal = answer.refusal();
                let why = answer.why("chunk");
                if refusal.is_none() {
                    self.staging.window_shrinks();
                }
                if let Some(flight) = self.staging.flights.get_mut(&number) {
                    flight.request = Err(now + pause(flight.failures));
                    flight.failures += 1;
                    let asked = flight.asked;
                    self.tell_failure(now, &why, asked, refusal);
                }
            }
        }
        self.reduce(now);
        self.staging.tick(now, self.epoch, &mut self.outbox);
    }

    /// What was cut off since it was put in vain needs no room any more.
    pub(super) fn reduce(&mut self, now: Duration) {
        for number in self.staging.reduce() {
            let key = ObjectId::chunk(self.epoch, number).key();
            self.garbage.die(key, 0, now + self.grace);
        }
    }

    fn chunk_stored(&mut self, number: u32) {
        let Some(flight) = self.staging.flights.remove(&number) else {
            return;
        };
        self.refusal = None;
        let object = ObjectId::chunk(self.epoch, number);
        if flight.is_moved {
            self.staging.moving -= bytes_of(&flight.pages);
            self.cleaner.has_moved = true;
        }
        self.stored.insert(object, bytes_of(&flight.pages));
        let mut offset = 0;
        for page in &flight.pages {
            let Staged { key, seq, bytes, .. } = page;
            let len = bytes.len() as u32;
            let is_there = self.state.files.contains_key(&key.0);
            if let Some(kept) = self.staging.may_place(*key, *seq, len).filter(|_| is_there) {
                let checksum = checksum(bytes);
                let place = Place {
                    object,
                    offset,
                    bytes: len,
                    kept,
                    checksum,
                };
                self.state.put(key.0, key.1, place, &mut self.emptied);
                self.delta.insert(*key);
                self.staging.placed.insert(*key, *seq);
            }
            offset += len;
            self.staging.let_go(page);
        }
        if !self.state.live.contains_key(&object) {
            self.emptied.push(object);
        }
        if self.staging.flights.is_empty() {
            self.staging.placed.clear();
            self.staging.cuts.clear();
        }
    }

    /// A request that was made at `asked` has failed. Syncs that waited then are told if they have waited for long, or if it
    /// is of no use to wait.
    pub(super) fn tell_failure(
        &mut self,
        now: Duration,
        why: &str,
        asked: Duration,
        refusal: Option<Refusal>,
    ) {
        self.trouble = Some(why.to_owned());
        self.refusal = refusal;
        let patience = match refusal {
            Some(_) => Duration::ZERO,
            None => self.options.patience,
        };
        let (told, later) = std::mem::take(&mut self.syncs)
            .into_iter()
            .partition(|sync| sync.at <= asked && now.saturating_sub(sync.at + sync.stopped) >= patience);
        self.syncs = later;
        for sync in told as Vec<super::Sync> {
            let error = SyncError::of(refusal, why);
            self.told.push(Told::Synced(sync.ticket, Err(error)));
        }
    }
}
