//! Names: operations on a store's tree beside a naive model of it, and kills at each request.
//!
//! Whatever happens, the tree of each commit is one that its writer had between two operations, and it is whole: each entry
//! names a node, links and parents are right, and nothing is left of what is gone.

use crate::checker::Checker;
use crate::draw::Draw;
use crate::histories::{GRACE, options, page, serve};
use crate::store::Store;
use millpond_volumes::Records;
use millpond_volumes::layout::{
    At, Pinning, Reader, ReaderOptions, ReaderTold, Request, State, Told, Uncommitted, Writer,
};
use millpond_volumes::tree::{Ino, New, ROOT, Renaming, Time, Tree, data_ino, data_name};
use rustix::fs::FileType;
use rustix::io::Errno;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;
use std::time::Duration;

/// So many nodes, and so many directories, fit into the smallest worlds.
const NODES_MAX: usize = 20;
const DIRECTORIES_MAX: usize = 5;

#[derive(Clone, PartialEq, Debug)]
struct Node {
    kind: FileType,
    mode: u32,
    target: Vec<u8>,
    /// Of a directory.
    entries: BTreeMap<String, Ino>,
    xattrs: BTreeMap<String, Vec<u8>>,
}

/// A tree, with links and parents found by searching for names.
#[derive(Clone, Default, Debug)]
pub(crate) struct Model {
    nodes: BTreeMap<Ino, Node>,
    /// Held open by a process: they stay when their last name is gone.
    open: BTreeSet<Ino>,
    /// This life has a tree, and nothing that an earlier one left.
    has_begun: bool,
}

fn now(draw: &mut Draw) -> Time {
    Time {
        seconds: draw.below(1000) as i64,
        nanos: 0,
    }
}

/// The tree of a state in words; nothing if there is none.
pub(crate) fn describe(state: &State) -> Result<String, String> {
    Ok(Model::read(state)?.describe())
}
impl Model {
    /// The tree of a state, if it is whole.
    pub(crate) fn read(state: &State) -> Result<Model, String> {
        let (tree, mut model) = (Tree(state), Model::default());
        if state.records.is_empty() {
            return Ok(model);
        }
        let mut left = tree.orphans();
        left.push(ROOT);
        while let Some(ino) = left.pop() {
            let node = tree.node(ino).ok_or_else(|| format!("there is no node {ino}"))?;
            let mut entries = BTreeMap::new();
            for entry in tree.list(ino) {
                let named = tree.node(entry.ino);
                if named.is_none_or(|named| named.kind() != entry.kind) {
                    return Err(format!("{entry:?} of {ino} names no such node"));
                }
                if !model.nodes.contains_key(&entry.ino) {
                    left.push(entry.ino);
                }
                entries.insert(String::from_utf8(entry.name).unwrap(), entry.ino);
            }
            let xattrs = tree.xattrs(ino).into_iter().map(|name| {
                let value = tree.xattr(ino, &name).unwrap().to_vec();
                (String::from_utf8(name).unwrap(), value)
            });
            let read = Node {
                kind: node.kind(),
                mode: node.mode & 0o7777,
                target: node.target,
                entries,
                xattrs: xattrs.collect(),
            };
            model.nodes.insert(ino, read);
        }
        for ino in model.nodes.keys() {
            let (node, links) = (tree.node(*ino).unwrap(), model.links(*ino));
            if node.links != links {
                return Err(format!("node {ino} has {links} links, and says {}", node.links));
            }
            if node.kind() == FileType::Directory && links > 0 && Some(node.parent) != model.parent(*ino) {
                return Err(format!("{} is not the parent of {ino}", node.parent));
            }
        }
        let records = 1 + model.nodes.values().map(Node::records).sum::<usize>();
        if state.records.len() != records {
            let has = state.records.len();
            return Err(format!("of {has} records {records} are of the tree"));
        }
        let is_file = |(ino, node): (&Ino, &Node)| (node.kind == FileType::RegularFile).then_some(*ino);
        let files: BTreeSet<Ino> = model.nodes.iter().filter_map(is_file).collect();
        let data: BTreeSet<Ino> = state.names.keys().filter_map(|name| data_ino(name)).collect();
        match data == files {
            true => Ok(model),
            false => Err(format!("nodes {files:?} are files, and {data:?} have bytes")),
        }
    }

    pub(crate) fn describe(&self) -> String {
        let mut text = String::new();
        for (ino, node) in &self.nodes {
            let (links, parent) = (self.links(*ino), self.parent(*ino));
            writeln!(text, "{ino}: {node:?}, {links} links, in {parent:?}").unwrap();
        }
        text
    }

    fn is_directory(&self, ino: Ino) -> bool {
        self.nodes[&ino].kind == FileType::Directory
    }

    /// The directories that have it, once for each name.
    fn names(&self, ino: Ino) -> impl Iterator<Item = Ino> {
        let names = self.nodes.iter().flat_map(|(directory, node)| {
            let entries = node.entries.values();
            entries.map(move |named| (*directory, *named))
        });
        names
            .filter(move |(_, named)| *named == ino)
            .map(|(directory, _)| directory)
    }

    fn parent(&self, ino: Ino) -> Option<Ino> {
        match self.is_directory(ino) {
            true if ino == ROOT => Some(ROOT),
            true => self.names(ino).next(),
            false => None,
        }
    }

    fn links(&self, ino: Ino) -> u32 {
        let names = self.names(ino).count();
        let links = match self.is_directory(ino) {
            true if names == 0 && ino != ROOT => 0,
            true => {
                2 + self.nodes[&ino]
                    .entries
                    .values()
                    .filter(|ino| self.is_directory(**ino))
                    .count()
            }
            false => names,
        };
        links as u32
    }

    fn contains(&self, ino: Ino, directory: Ino) -> bool {
        let mut up = std::iter::successors(Some(directory), |at| self.parent(*at).filter(|up| up != at));
        up.any(|at| at == ino)
    }

    fn entry(&self, directory: Ino, name: &str) -> Option<Ino> {
        self.nodes[&directory].entries.get(name).copied()
    }

    fn set(&mut self, directory: Ino, name: &str, ino: Option<Ino>) {
        let entries = &mut self.nodes.get_mut(&directory).unwrap().entries;
        match ino {
            Some(ino) => entries.insert(name.to_owned(), ino),
            None => entries.remove(name),
        };
    }

    fn may_add(&self, directory: Ino, name: &str) -> Result<(), Errno> {
        match self.entry(directory, name) {
            _ if self.links(directory) == 0 => Err(Errno::NOENT),
            Some(_) => Err(Errno::EXIST),
            None => Ok(()),
        }
    }

    fn link(&mut self, ino: Ino, directory: Ino, name: &str) -> Result<(), Errno> {
        if self.is_directory(ino) {
            return Err(Errno::PERM);
        }
        if self.links(ino) == 0 {
            return Err(Errno::NOENT);
        }
        self.may_add(directory, name)?;
        self.set(directory, name, Some(ino));
        Ok(())
    }

    /// Whether `ino` may go for `by`, a directory or not.
    fn may_go(&self, ino: Ino, by: bool) -> Result<(), Errno> {
        match (self.is_directory(ino), by) {
            (true, false) => Err(Errno::ISDIR),
            (false, true) => Err(Errno::NOTDIR),
            (true, true) if !self.nodes[&ino].entries.is_empty() => Err(Errno::NOTEMPTY),
            _ => Ok(()),
        }
    }

    fn remove(&mut self, directory: Ino, name: &str, of_directory: bool) -> Result<Ino, Errno> {
        let ino = self.entry(directory, name).ok_or(Errno::NOENT)?;
        self.may_go(ino, of_directory)?;
        self.set(directory, name, None);
        Ok(ino)
    }

    fn rename(
        &mut self,
        (from, old): (Ino, &str),
        (to, new): (Ino, &str),
        how: Renaming,
    ) -> Result<Option<Ino>, Errno> {
        let ino = self.entry(from, old).ok_or(Errno::NOENT)?;
        if self.links(to) == 0 {
            return Err(Errno::NOENT);
        }
        if self.contains(ino, to) {
            return Err(Errno::INVAL);
        }
        let there = self.entry(to, new);
        match (how, there) {
            (Renaming::Fresh, Some(_)) => return Err(Errno::EXIST),
            (Renaming::Exchange, None) => return Err(Errno::NOENT),
            (Renaming::Exchange, Some(there)) if self.contains(there, from) => return Err(Errno::INVAL),
            (Renaming::Over, Some(there)) if there == ino => return Ok(None),
            (Renaming::Over, Some(there)) => self.may_go(there, self.is_directory(ino))?,
            _ => {}
        }
        self.set(from, old, there.filter(|_| how == Renaming::Exchange));
        self.set(to, new, Some(ino));
        Ok(there.filter(|_| how == Renaming::Over))
    }

    /// A mount begins: a tree is made, and what the last mount left without a name goes.
    fn begin(&mut self, tree: &mut Tree<Records<'_>>, draw: &mut Draw) -> Result<(), Errno> {
        let is_new = !tree.is_there();
        tree.make(0, 0, now(draw))?;
        if is_new {
            self.nodes.insert(ROOT, Node::new(FileType::Directory, 0o755));
        }
        for ino in tree.orphans() {
            self.drop_orphan(tree, Some(ino))?;
        }
        self.has_begun = true;
        Ok(())
    }

    /// What lost a name goes when it has no other one, and is not open.
    fn drop_orphan(&mut self, tree: &mut Tree<Records<'_>>, ino: Option<Ino>) -> Result<(), Errno> {
        let Some(ino) = ino.filter(|ino| !self.open.contains(ino)) else {
            return Ok(());
        };
        let is_gone = self.links(ino) == 0;
        assert_eq!(tree.drop_orphan(ino)?, is_gone, "node {ino} is gone");
        if is_gone {
            self.nodes.remove(&ino);
        }
        Ok(())
    }

    fn pick(&self, draw: &mut Draw, is: impl Fn(&Node) -> bool) -> Option<Ino> {
        let all: Vec<Ino> = self
            .nodes
            .iter()
            .filter(|(_, node)| is(node))
            .map(|(ino, _)| *ino)
            .collect();
        all.get(draw.below(all.len().max(1) as u64) as usize).copied()
    }

    /// Does any one thing to a tree and to the model. `ESTALE`: the store is another's, and nothing was done.
    pub(crate) fn act(&mut self, tree: &mut Tree<Records<'_>>, draw: &mut Draw) -> Result<(), Errno> {
        if !self.has_begun {
            return self.begin(tree, draw);
        }
        let is_directory = |node: &Node| node.kind == FileType::Directory;
        let directory = |model: &Model, draw: &mut Draw| model.pick(draw, is_directory).unwrap_or(ROOT);
        let (from, to) = (directory(self, draw), directory(self, draw));
        let (old, new) = (format!("n{}", draw.below(4)), format!("n{}", draw.below(4)));
        let any = self.pick(draw, |_| true).unwrap_or(ROOT);
        let at = now(draw);
        // Names that are there are more interesting.
        let known = self.nodes[&from].entries.keys().next().cloned();
        let old = known.filter(|_| draw.one_in(2)).unwrap_or(old);
        match draw.below(16) {
            0..4 => {
                let kinds = [
                    FileType::RegularFile,
                    FileType::RegularFile,
                    FileType::Directory,
                    FileType::Symlink,
                ];
                let kind = kinds[draw.below(4) as usize];
                let directories = self.nodes.values().filter(|node| is_directory(node)).count();
                if self.nodes.len() >= NODES_MAX
                    || is_directory(&Node::new(kind, 0)) && directories >= DIRECTORIES_MAX
                {
                    return Ok(());
                }
                let mut node = Node::new(kind, 0o600 + draw.below(64) as u32);
                if kind == FileType::Symlink {
                    node.target = new.clone().into_bytes();
                }
                let wanted = New {
                    mode: kind.as_raw_mode() | node.mode,
                    uid: 0,
                    gid: 0,
                    rdev: 0,
                    target: &node.target,
                };
                let created = tree.create(to, new.as_bytes(), &wanted, at).map(|(ino, _)| ino);
                if same(created.map(drop), || self.may_add(to, &new))? {
                    let ino = created?;
                    assert!(!self.nodes.contains_key(&ino), "node {ino} is there twice");
                    self.nodes.insert(ino, node);
                    self.set(to, &new, Some(ino));
                }
            }
            4 => {
                let linked = tree.link(any, to, new.as_bytes(), at).map(drop);
                same(linked, || self.link(any, to, &new))?;
            }
            5..8 => {
                let is_it = self.entry(from, &old).is_some_and(|ino| self.is_directory(ino));
                let of_directory = is_it ^ draw.one_in(8);
                let removed = tree.remove(from, old.as_bytes(), of_directory, at);
                if same(removed, || self.remove(from, &old, of_directory))? {
                    self.drop_orphan(tree, removed.ok())?;
                }
            }
            8..12 => {
                let how = [
                    Renaming::Over,
                    Renaming::Over,
                    Renaming::Fresh,
                    Renaming::Exchange,
                ];
                let how = how[draw.below(4) as usize];
                let renamed = tree.rename((from, old.as_bytes()), (to, new.as_bytes()), how, at);
                if same(renamed, || self.rename((from, &old), (to, &new), how))? {
                    self.drop_orphan(tree, renamed.ok().flatten())?;
                }
            }
            12 => {
                let name = format!("user.{}", draw.below(2));
                let value = (!draw.one_in(3)).then(|| draw.bytes(3));
                tree.put_xattr(any, name.as_bytes(), value.as_deref(), at)?;
                let xattrs = &mut self.nodes.get_mut(&any).unwrap().xattrs;
                match value {
                    Some(value) => xattrs.insert(name, value),
                    None => xattrs.remove(&name),
                };
            }
            13 => {
                let mode = draw.below(0o1000) as u32;
                tree.change(any, |node| node.mode = mode)?;
                self.nodes.get_mut(&any).unwrap().mode = mode;
            }
            14 if any != ROOT => {
                self.open.insert(any);
            }
            _ => {
                if let Some(ino) = self.open.pop_first() {
                    self.drop_orphan(tree, Some(ino)).inspect_err(|_| {
                        self.open.insert(ino);
                    })?;
                }
            }
        }
        Ok(())
    }
}

/// Whether it was done, as the model says too. In a store that is another's nothing is.
fn same<T: PartialEq + std::fmt::Debug>(
    done: Result<T, Errno>,
    model: impl FnOnce() -> Result<T, Errno>,
) -> Result<bool, Errno> {
    if let Err(Errno::STALE) = done {
        return Err(Errno::STALE);
    }
    assert_eq!(done, model(), "what the tree does, and the model");
    Ok(done.is_ok())
}

impl Node {
    fn new(kind: FileType, mode: u32) -> Node {
        Node {
            kind,
            mode,
            target: Vec::new(),
            entries: BTreeMap::new(),
            xattrs: BTreeMap::new(),
        }
    }

    fn records(&self) -> usize {
        1 + self.entries.len() + self.xattrs.len()
    }
}

/// What may become of the request at which a writer is killed.
#[derive(Clone, Copy, PartialEq, Debug)]
enum Fate {
    Lost,
    /// It is done, and the answer is lost.
    Done,
    /// It arrives when the next writer has the store.
    Late,
}

/// A tree, and what the first page of each of its files has.
type Seen = (String, BTreeMap<Ino, u8>);

/// A writer of names and pages that may be killed at one of its requests.
struct Life {
    writer: Writer,
    model: Model,
    pages: BTreeMap<Ino, u8>,
    /// Requests until it is killed.
    left: Option<(u64, Fate)>,
    late: Vec<Request>,
}

impl Life {
    fn new(nonce: u128, left: Option<(u64, Fate)>) -> Life {
        Life {
            writer: Writer::new(Duration::ZERO, options(nonce, true)),
            model: Model::default(),
            pages: BTreeMap::new(),
            left,
            late: Vec::new(),
        }
    }

    /// Does what the writer asks for, in any order. `None`: it was killed.
    fn serve(&mut self, store: &mut Store, draw: &mut Draw) -> Option<Vec<Told>> {
        let mut queue = Vec::new();
        loop {
            queue.extend(self.writer.requests());
            if queue.is_empty() {
                return Some(self.writer.told());
            }
            let (id, request) = queue.swap_remove(draw.below(queue.len() as u64) as usize);
            match &mut self.left {
                Some((0, fate)) => {
                    match fate {
                        Fate::Lost => {}
                        Fate::Done => drop(store.answer(&request)),
                        Fate::Late => {
                            // What is sent with it is as late.
                            self.late = queue.into_iter().map(|(_, request)| request).collect();
                            self.late.push(request);
                        }
                    }
                    return None;
                }
                Some((left, _)) => *left -= 1,
                None => {}
            }
            self.writer.answered(Duration::ZERO, id, store.answer(&request));
        }
    }

    fn act(&mut self, draw: &mut Draw) {
        let mut tree = Tree(Records::new(&mut self.writer));
        self.model.act(&mut tree, draw).unwrap();
        self.pages.retain(|ino, _| self.model.nodes.contains_key(ino));
        let is_file = |node: &Node| node.kind == FileType::RegularFile;
        if let Some(ino) = self.model.pick(draw, is_file).filter(|_| draw.one_in(2)) {
            let file = self.writer.state().names[&data_name(ino)];
            let version = draw.below(256) as u8;
            self.writer.set_len(file, 64).unwrap();
            self.writer.write(Duration::ZERO, file, 0, page(version)).unwrap();
            self.pages.insert(ino, version);
        }
    }

    /// What is in the store as of this writer's newest commit, when nothing waits for the next.
    fn seen(&self, store: &Store) -> Seen {
        let state = self.writer.state();
        let pages = state.names.iter().filter_map(|(name, file)| {
            let Uncommitted::At(place) = self.writer.page(*file, 0) else {
                return None;
            };
            Some((data_ino(name)?, Checker::bytes(store, place).unwrap()[0]))
        });
        (describe(state).unwrap(), pages.collect())
    }

    fn begins(&mut self, store: &mut Store, draw: &mut Draw) -> Option<()> {
        let told = self.serve(store, draw)?;
        assert_eq!(told, [Told::Opened(Ok(()))]);
        (_, self.pages) = self.seen(store);
        self.model = Model::read(self.writer.state()).unwrap();
        Some(())
    }

    /// Some operations with a sync after them. `seen`: what was there at the last one, and what may be there when it is killed.
    fn goes_on(&mut self, store: &mut Store, draw: &mut Draw, seen: &mut Vec<Seen>) -> Option<()> {
        for _ in 0..1 + draw.below(6) {
            self.act(draw);
        }
        let next = (self.model.describe(), self.pages.clone());
        seen.push(next.clone());
        self.writer.sync(Duration::ZERO, 7);
        let told = self.serve(store, draw)?;
        assert_eq!(told, [Told::Synced(7, Ok(()))]);
        assert_eq!(self.seen(store), next);
        *seen = vec![next];
        Some(())
    }
}

fn read(store: &mut Store) -> Reader {
    let options = ReaderOptions {
        at: At::Newest,
        poll: GRACE,
        grace: Some(GRACE),
        pinning: Pinning::Never,
        salvage: false,
        id: 7,
        owner: String::new(),
    };
    let mut reader = Reader::new(Duration::ZERO, options);
    loop {
        let requests = reader.requests();
        if requests.is_empty() {
            assert_eq!(reader.told(), [ReaderTold::Opened]);
            return reader;
        }
        for (id, request) in requests {
            reader.answered(Duration::ZERO, id, store.answer(&request));
        }
    }
}

/// One history, in which the writer is killed at one request. Whether it was.
fn killed_at(seed: u64, request: u64, fate: Fate) -> bool {
    let (mut store, mut draw) = (Store::default(), Draw(seed));
    let mut first = Life::new(1, Some((request, fate)));
    let mut seen = vec![Seen::default()];
    let mut life = || {
        first.begins(&mut store, &mut draw)?;
        (0..8).try_for_each(|_| first.goes_on(&mut store, &mut draw, &mut seen))
    };
    let was_killed = life().is_none();
    let mut second = Life::new(2, None);
    second.begins(&mut store, &mut draw).unwrap();
    let found = second.seen(&store);
    assert!(seen.contains(&found), "it was never so: {found:?}\nof {seen:?}");
    for request in &first.late {
        store.answer(request);
    }
    for _ in 0..3 {
        second.goes_on(&mut store, &mut draw, &mut seen).unwrap();
    }
    // The first one wakes up, and goes on as if it had the store.
    if was_killed && first.writer.is_open() && first.writer.fence().is_none() {
        first.act(&mut draw);
        first.writer.sync(GRACE, 8);
        let told = serve(&mut first.writer, &mut store, GRACE);
        assert!(!told.contains(&Told::Synced(8, Ok(()))), "{told:?}");
    }
    let mut third = Life::new(3, None);
    third.begins(&mut store, &mut draw).unwrap();
    assert_eq!(seen, [third.seen(&store)]);
    assert_eq!(describe(read(&mut store).state()).unwrap(), seen[0].0);
    was_killed
}

#[test]
fn after_a_kill_at_any_request_the_tree_and_its_bytes_are_those_of_one_sync() {
    let (seeds, mut kills) = (crate::seeds(12), 0);
    let is_many = seeds.end - seeds.start >= 12;
    for seed in seeds {
        for fate in [Fate::Lost, Fate::Done, Fate::Late] {
            let request = (0..).find(|request| {
                let history = || killed_at(seed, *request, fate);
                match std::panic::catch_unwind(history) {
                    Ok(was_killed) => !was_killed,
                    Err(_) => panic!("MILLPOND_SEED={seed}: killed at request {request}: {fate:?}"),
                }
            });
            kills += request.unwrap();
        }
    }
    assert!(kills > 500 || !is_many, "{kills} kills");
}
