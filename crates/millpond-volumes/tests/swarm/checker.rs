//! What must hold. It sees each object as it is made and deleted, each promise, and what readers see.
//!
//! The history is the chain of commits that were created as the next of the newest. A commit that is created under a number
//! that was there before is none of it, and nothing may believe it.

use crate::losses::checkpoint_of;
use crate::names::describe;
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

/// Whether a state is one that was, but for snapshots that were given up since.
fn is_of(salvaged: &State, was: &State) -> bool {
    let mut was = was.clone();
    was.snapshots
        .retain(|name, _| salvaged.snapshots.contains_key(name));
    was == *salvaged
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
    /// All trees that a writer has had between two operations.
    pub(crate) trees: BTreeSet<String>,
    /// Commits that were created under a number that had been there.
    pub(crate) bogus: u64,
    /// The store has lost something: one that salvages it may go on from any commit that was.
    pub(crate) has_lost: bool,
    /// How often one did.
    pub(crate) salvaged: u64,
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

    /// The store has lost what is behind this commit, or some of what it has.
    pub(crate) fn loses(&mut self, newest: Option<u64>) {
        self.has_lost = true;
        self.newest = newest.unwrap_or(self.newest);
    }

    pub(crate) fn is_of_snapshot(&self, key: &Key) -> bool {
        let snapshots = self
            .history
            .values()
            .flat_map(|made| made.state.snapshots.values());
        let mut states = snapshots.filter_map(|snapshot| self.history.get(&snapshot.number));
        states.any(|made| made.state.live.keys().any(|object| object.key() == *key))
    }

    /// What one goes on from that has salvaged a store: a commit that was.
    fn salvaged(&mut self, store: &Store, commit: &Commit) -> Option<State> {
        let (number, epoch) = commit.checkpoint;
        // Its own checkpoint, and not its own commit before it.
        let is_own = self
            .history
            .get(&number)
            .is_some_and(|made| made.nonce == commit.nonce);
        // Another's that comes late is behind what is there.
        let newest = store.objects.keys().filter_map(|key| match key {
            Key::Commit(number) => Some(*number),
            _ => None,
        });
        let is_late = newest.max().is_some_and(|newest| newest > commit.number);
        if !self.has_lost || number + 1 != commit.number || epoch != commit.epoch || is_own || is_late {
            return None;
        }
        let state = checkpoint_of(store, Key::Checkpoint { number, epoch })?;
        if !self.history.values().any(|made| is_of(&state, &made.state)) {
            self.fail(format!(
                "commit {} salvages a state that never was",
                commit.number
            ));
        }
        self.salvaged += 1;
        Some(state)
    }

    fn created(&mut self, store: &Store, number: u64, bytes: &Bytes) {
        let (commit, _) = Commit::decode(bytes).unwrap();
        let salvaged = self.salvaged(store, &commit);
        if salvaged.is_none() {
            let is_empty = !store.objects.keys().any(|key| matches!(key, Key::Commit(_)));
            if is_empty && self.newest > 0 {
                return self.fail(String::from("an empty store is made where there was one"));
            }
            if number <= self.newest {
                self.bogus += 1;
                return;
            }
            if number > self.newest + 1 {
                return self.fail(format!("commit {number} is made behind {}", self.newest));
            }
        }
        let before = self.history.get(&self.newest).map(|made| made.state.clone());
        let mut state = salvaged.or(before).unwrap_or_default();
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
        match describe(&state) {
            Ok(tree) if tree.is_empty() || self.trees.contains(&tree) => {}
            Ok(tree) => self.fail(format!("commit {number} has a tree that never was: {tree}")),
            Err(broken) => self.fail(format!("commit {number}: {broken}")),
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

    /// A writer was told that its changes are committed. `pages`, `catalogs` and `trees` say what may be there. It may have slept since
    /// the store took the commit, and others have gone on from there and cleaned.
    pub(crate) fn promised(
        &mut self,
        store: &Store,
        writer: &Writer,
        nonce: u128,
        pages: &BTreeMap<(u64, u64), Vec<Option<Vec<u8>>>>,
        catalogs: &[Names],
        trees: &[String],
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
                // One whose store was salvaged under its hands deletes what is in use again.
                let is_own = match place.object.key() {
                    Key::Chunk { epoch, .. } => epoch == writer.epoch(),
                    Key::Commit(number) => self.history.get(&number).is_some_and(|made| made.nonce == nonce),
                    _ => false,
                };
                if bytes.is_none() && self.has_lost && !is_own {
                    return Ok(allowed.first().cloned().flatten().unwrap_or_default());
                }
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
        let tree = describe(&made.state).unwrap_or_default();
        if !catalogs.contains(&there) {
            self.fail(format!(
                "lost: files are {there:?} in commit {number}, of {catalogs:?}"
            ));
        } else if !trees.contains(&tree) {
            self.fail(format!(
                "lost: the tree is {tree} in commit {number}, of {trees:?}"
            ));
        }
    }

    /// A reader sees another state than before.
    pub(crate) fn moved(&mut self, reader: &Reader, snapshot: Option<u64>) {
        let number = snapshot.unwrap_or(reader.number());
        match self.history.get(&number) {
            None => self.fail(format!("a reader sees commit {number}, which was never made")),
            Some(made) if self.has_lost && is_of(reader.state(), &made.state) => {}
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
        let is_held = match reader.unpinned() {
            // A grace since it was superseded.
            Some(_) => reader.age(local) <= grace / 2,
            None => reader.pin_age(local) <= grace,
        };
        if is_held && !self.has_lost && Checker::bytes(store, *place).is_none() {
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
            // Of one that was salvaged it may be gone, and is not cleaned.
            let Some(object) = store.objects.get(&key) else {
                return;
            };
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
        let left = self.left(store, writer);
        self.are_gone(left);
    }

    /// The same of writers each of which lived for less than a grace, but for commits of the last of them.
    pub(crate) fn is_clean_of_old(&mut self, store: &Store, writer: &Writer) {
        let mut left = self.left(store, writer);
        let newest = self.newest;
        left.retain(|key| match *key {
            Key::Commit(number) | Key::Checkpoint { number, .. } => number + 40 < newest,
            _ => true,
        });
        self.are_gone(left);
    }

    fn are_gone(&mut self, left: Vec<Key>) {
        if !left.is_empty() {
            let left: Vec<String> = left.iter().map(Key::to_string).collect();
            self.fail(format!("never deleted, at commit {}: {left:?}", self.newest));
        }
    }

    fn left(&self, store: &Store, writer: &Writer) -> Vec<Key> {
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
        store
            .objects
            .keys()
            .filter(|key| !is_needed(key))
            .copied()
            .collect()
    }
}
