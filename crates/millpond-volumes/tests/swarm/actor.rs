//! A writer with the model of what it has written, and a reader.

use crate::checker::{Checker, Names, PAGE, names};
use crate::draw::Draw;
use crate::names::{Model, describe};
use crate::store::Store;
use bytes::Bytes;
use millpond_volumes::Records;
use millpond_volumes::layout::{
    At, OpenError, Reader, ReaderOptions, ReaderTold, Told, Uncommitted, Writer, WriterOptions,
};
use millpond_volumes::tree::{Tree, data_ino};
use std::collections::BTreeMap;
use std::time::Duration;

type Key = (u64, u64);

/// What became of a page with a change: its bytes, or zeros.
type Change = (u64, Option<Vec<u8>>);

pub(crate) struct WriterActor {
    pub(crate) writer: Writer,
    pub(crate) nonce: u128,
    pub(crate) is_open: bool,
    pub(crate) is_over: bool,
    /// What is there can't be read.
    pub(crate) is_refused: bool,
    pub(crate) error: Option<String>,
    pages: BTreeMap<Key, Vec<u8>>,
    log: BTreeMap<Key, Vec<Change>>,
    /// Cuts inside a page: a later cut may be committed with an earlier write.
    cuts: Vec<(u64, Key, usize)>,
    catalogs: Vec<(u64, Names)>,
    /// The tree that it makes, if it makes one, and all that this was.
    tree: Option<Model>,
    trees: Vec<(u64, String)>,
    tickets: BTreeMap<u64, u64>,
    last_ticket: u64,
    pub(crate) synced: u64,
    pub(crate) failed: u64,
}

impl WriterActor {
    pub(crate) fn new(local: Duration, options: WriterOptions, has_tree: bool) -> WriterActor {
        WriterActor {
            nonce: options.nonce,
            writer: Writer::new(local, options),
            is_open: false,
            is_over: false,
            is_refused: false,
            error: None,
            pages: BTreeMap::new(),
            log: BTreeMap::new(),
            cuts: Vec::new(),
            catalogs: Vec::new(),
            tree: has_tree.then(Model::default),
            trees: Vec::new(),
            tickets: BTreeMap::new(),
            last_ticket: 0,
            synced: 0,
            failed: 0,
        }
    }

    fn changed(&mut self, key: Key, bytes: Option<Vec<u8>>) {
        let seq = self.writer.changes();
        self.log.entry(key).or_default().push((seq, bytes.clone()));
        match bytes {
            Some(bytes) => self.pages.insert(key, bytes),
            None => self.pages.remove(&key),
        };
    }

    fn catalog(&mut self) {
        let names = names(self.writer.state());
        self.catalogs.push((self.writer.changes(), names));
    }

    fn gone(&mut self, file: u64, pages: std::ops::Range<u64>) {
        let keys: Vec<Key> = self
            .pages
            .range((file, pages.start)..(file, pages.end))
            .map(|(k, _)| *k)
            .collect();
        keys.into_iter().for_each(|key| self.changed(key, None));
    }

    /// Does anything with the tree.
    fn act_on_tree(&mut self, draw: &mut Draw, checker: &mut Checker) {
        let Some(model) = &mut self.tree else { return };
        let before = self.writer.state().names.clone();
        // Where the store is another's nothing is done.
        let _ = model.act(&mut Tree(Records::new(&mut self.writer)), draw);
        let tree = model.describe();
        for (name, file) in before {
            if !self.writer.state().names.contains_key(&name) {
                self.gone(file, 0..u64::MAX);
            }
        }
        self.catalog();
        self.trees.push((self.writer.changes(), tree.clone()));
        checker.trees.insert(tree);
    }

    /// Does anything.
    pub(crate) fn act(&mut self, local: Duration, draw: &mut Draw, version: &mut u64, checker: &mut Checker) {
        if self.tree.is_some() && draw.one_in(3) {
            return self.act_on_tree(draw, checker);
        }
        let files: Vec<(String, u64, u64)> = {
            let state = self.writer.state();
            let files = state
                .names
                .iter()
                .map(|(name, no)| (name.clone(), *no, state.files[no].bytes));
            files.collect()
        };
        let file = files.get(draw.below(files.len().max(1) as u64) as usize).cloned();
        let name = format!("f{}", draw.below(4));
        // Names of the tree's files are the tree's.
        let is_named = |file: &(String, u64, u64)| data_ino(&file.0).is_none();
        let act = draw.below(24);
        match (act, file.filter(|file| act != 3 || is_named(file))) {
            (0, _) | (_, None) => {
                if self.writer.create(&name).is_ok() {
                    self.catalog();
                }
            }
            (1, Some((_, no, len))) => {
                let to = draw.below(len + 1);
                if self.writer.set_len(no, to).is_ok() {
                    self.gone(no, to.div_ceil(u64::from(PAGE))..u64::MAX);
                    let (last, kept) = (to / u64::from(PAGE), (to % u64::from(PAGE)) as usize);
                    self.cuts.push((self.writer.changes(), (no, last), kept));
                    if let Some(bytes) = self.pages.get(&(no, last)).cloned()
                        && bytes.len() > kept
                    {
                        self.changed((no, last), Some(bytes[..kept].to_vec()));
                    }
                    self.catalog();
                }
            }
            (2, Some((_, no, _))) => {
                let from = draw.below(8);
                let pages = from..from + draw.below(4);
                if self.writer.punch(no, pages.clone()).is_ok() {
                    self.gone(no, pages);
                }
            }
            (3, Some((old, _, _))) if draw.one_in(2) => {
                let replaced = self
                    .writer
                    .state()
                    .names
                    .get(&name)
                    .copied()
                    .filter(|_| old != name);
                if self.writer.rename(&old, &name).is_ok() {
                    if let Some(replaced) = replaced {
                        self.gone(replaced, 0..u64::MAX);
                    }
                    self.catalog();
                }
            }
            (3, Some((old, no, _))) => {
                if self.writer.remove(&old).is_ok() {
                    self.gone(no, 0..u64::MAX);
                    self.catalog();
                }
            }
            (4, _) if draw.one_in(3) => {
                let name = format!("s{}", draw.below(2));
                let _ = match draw.one_in(2) {
                    true => self.writer.snapshot(&name),
                    false => self.writer.drop_snapshot(&name),
                };
            }
            (5..=9, _) => self.sync(local),
            (_, Some((_, no, len))) => {
                let page = draw.below(10);
                let end = (page + 1) * u64::from(PAGE);
                if end > len && self.writer.set_len(no, end).is_ok() {
                    self.catalog();
                }
                *version += 1;
                let mut bytes = version.to_le_bytes().repeat(PAGE as usize / 8);
                bytes.truncate(8 + draw.below(u64::from(PAGE) - 7) as usize);
                if self
                    .writer
                    .write(local, no, page, Bytes::from(bytes.clone()))
                    .is_ok()
                {
                    self.changed((no, page), Some(bytes));
                }
            }
        }
    }

    pub(crate) fn sync(&mut self, local: Duration) {
        self.last_ticket += 1;
        self.tickets.insert(self.last_ticket, self.writer.changes());
        self.writer.sync(local, self.last_ticket);
    }

    pub(crate) fn close(&mut self, local: Duration) {
        self.last_ticket += 1;
        self.tickets.insert(self.last_ticket, self.writer.changes());
        self.writer.close(local, self.last_ticket);
    }

    /// Hears what the writer has to say.
    pub(crate) fn hear(&mut self, store: &Store, checker: &mut Checker) {
        for told in self.writer.told() {
            match told {
                Told::Opened(Ok(())) => {
                    self.is_open = true;
                    checker.opened(&self.writer);
                    for (&file, entry) in &self.writer.state().files {
                        for (page, &place) in entry.pages.iter() {
                            match Checker::bytes(store, place) {
                                Some(bytes) => {
                                    self.pages.insert((file, page), bytes.clone());
                                    self.log.insert((file, page), vec![(0, Some(bytes))]);
                                }
                                // Its page may be gone where an older commit was salvaged.
                                None if checker.has_lost => {}
                                None => checker.fail(format!("a writer begins without {place:?}")),
                            }
                        }
                    }
                    self.catalogs.push((0, names(self.writer.state())));
                    match Model::read(self.writer.state()) {
                        Ok(model) => {
                            self.trees.push((0, model.describe()));
                            self.tree = self.tree.take().map(|_| model);
                        }
                        Err(broken) => checker.fail(format!("a writer begins with a broken tree: {broken}")),
                    }
                }
                Told::Opened(Err(error)) => {
                    self.is_over = true;
                    self.is_refused = matches!(error, OpenError::Load(_));
                    self.error = Some(error.to_string());
                }
                Told::Fenced(_) => self.is_over = true,
                Told::Synced(ticket, Ok(())) => {
                    self.synced += 1;
                    let barrier = self.tickets.remove(&ticket).unwrap();
                    self.promised(barrier, store, checker);
                }
                Told::Synced(ticket, Err(_)) => {
                    self.failed += 1;
                    self.tickets.remove(&ticket);
                }
                Told::Room => {}
            }
        }
    }

    /// All changes up to `barrier` are there, or later ones.
    fn promised(&mut self, barrier: u64, store: &Store, checker: &mut Checker) {
        let mut pages = BTreeMap::new();
        for (&key, changes) in &mut self.log {
            let later = changes
                .iter()
                .position(|(seq, _)| *seq > barrier)
                .unwrap_or(changes.len());
            changes.drain(..later.saturating_sub(1));
            let is_base = changes.first().is_some_and(|(seq, _)| *seq <= barrier);
            let mut allowed: Vec<_> = changes.iter().map(|(_, bytes)| bytes.clone()).collect();
            // Before its first change it was zeros.
            if !is_base {
                allowed.push(None);
            }
            let later = self
                .cuts
                .iter()
                .filter(|(seq, of, _)| *seq > barrier && *of == key);
            for (_, _, kept) in later {
                let cut: Vec<_> = allowed
                    .iter()
                    .flatten()
                    .map(|bytes| Some(bytes[..bytes.len().min(*kept)].to_vec()))
                    .collect();
                allowed.extend(cut);
            }
            pages.insert(key, allowed);
        }
        self.cuts.retain(|(seq, _, _)| *seq > barrier);
        let later = self
            .catalogs
            .iter()
            .position(|(seq, _)| *seq > barrier)
            .unwrap_or(self.catalogs.len());
        self.catalogs.drain(..later.saturating_sub(1));
        let catalogs: Vec<Names> = self.catalogs.iter().map(|(_, names)| names.clone()).collect();
        let later = self.trees.iter().position(|(seq, _)| *seq > barrier);
        let later = later.unwrap_or(self.trees.len());
        self.trees.drain(..later.saturating_sub(1));
        let trees: Vec<String> = self.trees.iter().map(|(_, tree)| tree.clone()).collect();
        checker.promised(store, &self.writer, self.nonce, &pages, &catalogs, &trees);
    }

    /// What it says of a page is what was written last, and its tree is what was made last.
    pub(crate) fn reads_itself(&self, store: &Store, checker: &mut Checker) {
        let tree = describe(self.writer.state());
        if let Some(model) = &self.tree
            && tree.as_ref() != Ok(&model.describe())
        {
            let model = model.describe();
            checker.fail(format!("a writer's tree is {tree:?}, not {model}"));
        }
        for (&(file, page), bytes) in &self.pages {
            let there = match self.writer.page(file, page) {
                Uncommitted::Held(bytes) => Some(bytes.to_vec()),
                Uncommitted::At(place) => Checker::bytes(store, place),
                Uncommitted::Zeros => None,
            };
            // One that was taken over, and does not know, may find pages missing; never others.
            let made = checker.history.get(&checker.newest);
            let is_fenced = made.is_none_or(|made| made.nonce != self.nonce);
            if there.is_none() && (is_fenced || checker.has_lost) {
                continue;
            }
            if there.as_ref() != Some(bytes) {
                checker.fail(format!(
                    "a writer reads {there:?} for page {page} of file {file}, not {bytes:?}"
                ));
            }
        }
    }
}

pub(crate) struct ReaderActor {
    pub(crate) reader: Reader,
    pub(crate) at: At,
    snapshot: Option<u64>,
    pub(crate) is_open: bool,
    pub(crate) is_over: bool,
    pub(crate) moved: u64,
}

impl ReaderActor {
    pub(crate) fn new(local: Duration, options: ReaderOptions) -> ReaderActor {
        ReaderActor {
            at: options.at.clone(),
            reader: Reader::new(local, options),
            snapshot: None,
            is_open: false,
            is_over: false,
            moved: 0,
        }
    }

    pub(crate) fn hear(&mut self, checker: &mut Checker) {
        for told in self.reader.told() {
            match told {
                ReaderTold::Opened | ReaderTold::Moved => {
                    self.is_open = true;
                    self.moved += 1;
                    if let At::Snapshot(name) = &self.at {
                        let newest = checker.history.get(&self.reader.number());
                        let snapshot = newest.and_then(|made| made.state.snapshots.get(name));
                        match snapshot {
                            Some(snapshot) => self.snapshot = Some(snapshot.number),
                            None => checker.fail(format!("snapshot {name} was opened, and there is none")),
                        }
                    }
                    checker.moved(&self.reader, self.snapshot);
                }
                ReaderTold::Failed(_) => self.is_over = true,
            }
        }
    }

    pub(crate) fn look(
        &mut self,
        store: &Store,
        checker: &mut Checker,
        local: Duration,
        grace: Duration,
        pick: u64,
    ) {
        if self.is_open && !self.is_over {
            checker.seen(store, &self.reader, local, grace, pick);
        }
    }
}
