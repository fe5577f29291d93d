//! What must hold. It sees each object as it is made and deleted, each promise, and what readers see.
//!
//! The history is the chain of commits that were created as the next of the newest. A commit that is created under a number
//! that was there before is none of it, and nothing may believe it.

use crate::store::Store;
use bytes::Bytes;
use millpond_volumes::format::{Commit, Key, ObjectId, Op, checksum};
use millpond_volumes::layout::{Place, Reader, Request, State, Writer, WriterOptions};
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

pub(crate) const PAGE: u32 = 64;

/// Files by name, with number and length.
pub(crate) type Names = BTreeMap<String, (u64, u64)>;

pub(crate) fn names(state: &State) -> Names {
    let names = state.names.iter();
    names
        .map(|(name, file)| (name.clone(), (*file, state.files[file].bytes)))
        .collect()
}

pub(crate) struct Made {
    pub(crate) state: State,
    pub(crate) nonce: u128,
}

#[derive(Default)]
pub(crate) struct Checker {
    pub(crate) history: BTreeMap<u64, Made>,
    pub(crate) newest: u64,
    /// All pages that were ever committed, by object and offset: what is superseded is deleted.
    pages: BTreeMap<(ObjectId, u32), Bytes>,
    /// Commits that were created under a number that had been there.
    pub(crate) bogus: u64,
    pub(crate) broken: Option<String>,
}

impl Checker {
    pub(crate) fn fail(&mut self, what: String) {
        self.broken.get_or_insert(what);
    }

    /// A request is done: `store` is as before it.
    pub(crate) fn before(&mut self, store: &Store, request: &Request) {
        match request {
            Request::Create {
                key: Key::Commit(number),
                body,
            } if !store.objects.contains_key(&Key::Commit(*number)) => {
                self.created(store, *number, &Bytes::from(body.concat()));
            }
            Request::Delete { keys } if keys.contains(&Key::Commit(self.newest)) => {
                self.fail(format!("the newest commit {} is deleted", self.newest));
            }
            _ => {}
        }
    }

    fn created(&mut self, store: &Store, number: u64, bytes: &Bytes) {
        if number <= self.newest {
            self.bogus += 1;
            return;
        }
        if number > self.newest + 1 {
            return self.fail(format!("commit {number} is made behind {}", self.newest));
        }
        let (commit, _) = Commit::decode(bytes).unwrap();
        let mut state = self
            .history
            .get(&self.newest)
            .map(|made| made.state.clone())
            .unwrap_or_default();
        for op in &commit.ops {
            if let Err(error) = state.apply(op, PAGE, &mut Vec::new()) {
                return self.fail(format!("commit {number}: {error}"));
            }
            let Op::Pages { entries, .. } = op else { continue };
            for entry in entries {
                let (from, to) = (entry.offset as usize, (entry.offset + entry.bytes) as usize);
                let object = match entry.object == ObjectId::commit(number) {
                    true => Some(bytes),
                    false => store.objects.get(&entry.object.key()),
                };
                let page = object.filter(|object| to <= object.len());
                let page = page.map(|object| object.slice(from..to));
                match page.filter(|page| checksum(page) == entry.checksum) {
                    Some(page) => {
                        self.pages.insert((entry.object, entry.offset), page);
                    }
                    None => self.fail(format!(
                        "commit {number} names what is not in the store: {entry:?}"
                    )),
                }
            }
        }
        let (checkpoint, epoch) = commit.checkpoint;
        let key = Key::Checkpoint {
            number: checkpoint,
            epoch,
        };
        if checkpoint > 0 && !store.objects.contains_key(&key) {
            self.fail(format!("commit {number} names {key}, which is not there"));
        }
        for (name, snapshot) in &state.snapshots {
            let key = Key::Checkpoint {
                number: snapshot.number,
                epoch: snapshot.epoch,
            };
            if !store.objects.contains_key(&key) {
                self.fail(format!("snapshot {name} of commit {number} has lost {key}"));
            }
        }
        let nonce = commit.nonce;
        self.history.insert(number, Made { state, nonce });
        self.newest = number;
    }

    /// The bytes of a place.
    pub(crate) fn bytes(store: &Store, place: Place) -> Option<Vec<u8>> {
        let (from, to) = (place.offset as usize, (place.offset + place.bytes) as usize);
        let page = store.objects.get(&place.object.key())?.get(from..to)?;
        (checksum(page) == place.checksum).then(|| page[..place.kept as usize].to_vec())
    }

    /// A writer begins from the newest commit, as it was made.
    pub(crate) fn opened(&mut self, writer: &Writer) {
        let is = self.history.get(&(writer.number())).map(|made| &made.state);
        if is != Some(writer.state()) {
            self.fail(format!(
                "a writer begins from another state than commit {} has",
                writer.number()
            ));
        }
    }

    /// The bytes of a place of a commit: as they were, if a newer commit has another for the page.
    fn committed(&self, store: &Store, file: u64, page: u64, place: Place) -> Option<Vec<u8>> {
        if self.history[&self.newest].state.place(file, page) == Some(place) {
            return Checker::bytes(store, place);
        }
        let bytes = self.pages.get(&(place.object, place.offset))?;
        Some(bytes[..place.kept as usize].to_vec())
    }

    /// A writer was told that its changes are committed. `pages` and `names` say what may be there. It may have slept since
    /// the store took the commit, and others have gone on from there and cleaned.
    pub(crate) fn promised(
        &mut self,
        store: &Store,
        writer: &Writer,
        nonce: u128,
        pages: &BTreeMap<(u64, u64), Vec<Option<Vec<u8>>>>,
        catalogs: &[Names],
    ) {
        let number = writer.number();
        let Some(made) = self.history.get(&number) else {
            return self.fail(format!(
                "a sync is Ok as of commit {number}, which was never made"
            ));
        };
        if made.nonce != nonce {
            return self.fail(format!(
                "a sync is Ok as of commit {number}, which another writer has made"
            ));
        }
        for (&(file, page), allowed) in pages {
            let there = made.state.place(file, page).map(|place| {
                let bytes = self.committed(store, file, page, place);
                bytes.ok_or_else(|| format!("{place:?} is not there"))
            });
            let there = match there.transpose() {
                Ok(there) => there,
                Err(error) => {
                    return self.fail(format!(
                        "acknowledged page {page} of file {file}, commit {number} of {}: {error}",
                        self.newest
                    ));
                }
            };
            if !allowed.contains(&there) {
                let said =
                    format!("page {page} of file {file} is {there:?} in commit {number}: of {allowed:?}");
                return self.fail(format!("lost: {said}"));
            }
        }
        let there = names(&made.state);
        if !catalogs.contains(&there) {
            self.fail(format!(
                "lost: files are {there:?} in commit {number}, of {catalogs:?}"
            ));
        }
    }

    /// A reader sees another state than before.
    pub(crate) fn moved(&mut self, reader: &Reader, snapshot: Option<u64>) {
        let number = snapshot.unwrap_or(reader.number());
        match self.history.get(&number) {
            None => self.fail(format!("a reader sees commit {number}, which was never made")),
            Some(made) if made.state != *reader.state() => {
                self.fail(format!("a reader sees another state than commit {number} has"));
            }
            Some(_) => {}
        }
    }

    /// A reader reads one of its pages, as `pick` says.
    pub(crate) fn seen(
        &mut self,
        store: &Store,
        reader: &Reader,
        local: Duration,
        grace: Duration,
        pick: u64,
    ) {
        let files: Vec<_> = reader
            .state()
            .files
            .values()
            .filter(|file| !file.pages.is_empty())
            .collect();
        let Some(file) = files.get(pick as usize % files.len().max(1)) else {
            return;
        };
        let Some((_, place)) = file.pages.iter().nth((pick >> 32) as usize % file.pages.len()) else {
            return;
        };
        let is_held = reader.pin_age(local) <= grace;
        if is_held && Checker::bytes(store, *place).is_none() {
            self.fail(format!(
                "{place:?} is deleted while a reader of commit {} has its pin",
                reader.number()
            ));
        }
    }

    /// What has live pages, and is of no snapshot, holds little else.
    pub(crate) fn is_bounded(&mut self, store: &Store, options: &WriterOptions) {
        let state = &self.history[&self.newest].state;
        let of_snapshots: BTreeSet<ObjectId> = state
            .snapshots
            .values()
            .flat_map(|snapshot| self.history[&snapshot.number].state.live.keys().copied())
            .collect();
        let (mut live, mut stored) = (0, 0);
        for (object, bytes) in state
            .live
            .iter()
            .filter(|(object, _)| !of_snapshots.contains(object))
        {
            let key = object.key();
            let object = &store.objects[&key];
            let head = match key {
                Key::Commit(_) => Commit::head_bytes(object).unwrap() as u64,
                _ => 0,
            };
            live += bytes;
            stored += object.len() as u64 - head;
        }
        let most = live * options.stored_percent_max / 100 + options.chunk_bytes;
        if stored > most {
            let said = format!("{stored} bytes are stored for {live} that are live, {most} at most");
            self.fail(said);
        }
    }

    /// Nothing is left that nothing needs: neither the newest commit nor what the writer has not committed yet.
    pub(crate) fn is_clean(&mut self, store: &Store, writer: &Writer) {
        let (commit, _) = Commit::decode(&store.objects[&Key::Commit(self.newest)]).unwrap();
        let state = &self.history[&self.newest].state;
        let mut of_snapshots = Vec::new();
        for snapshot in state.snapshots.values() {
            of_snapshots.extend(
                self.history[&snapshot.number]
                    .state
                    .live
                    .keys()
                    .map(|object| object.key()),
            );
            of_snapshots.push(Key::Checkpoint {
                number: snapshot.number,
                epoch: snapshot.epoch,
            });
        }
        let is_needed = |key: &Key| match *key {
            key if of_snapshots.contains(&key) => true,
            Key::Chunk { epoch, number } => {
                let object = ObjectId::chunk(epoch, number);
                [state, writer.state()]
                    .iter()
                    .any(|state| state.live.contains_key(&object))
            }
            Key::Commit(number) => {
                number > commit.checkpoint.0 || state.live.contains_key(&ObjectId::commit(number))
            }
            // The next commit will name one that was made since.
            Key::Checkpoint { number, epoch } => {
                let is_named = (number, epoch) == commit.checkpoint;
                is_named || epoch == commit.epoch && number > commit.checkpoint.0
            }
            Key::Pin(_) => true,
        };
        let left: Vec<String> = store
            .objects
            .keys()
            .filter(|key| !is_needed(key))
            .map(Key::to_string)
            .collect();
        if !left.is_empty() {
            self.fail(format!("never deleted, at commit {}: {left:?}", self.newest));
        }
    }
}
