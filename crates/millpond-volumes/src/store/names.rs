//! Names of files as paths: a slash divides them, and what has something below it is a directory.
//!
//! ```text
//!   a/b  a/c/d  e      a/ ── b
//!                       │     └ c/ ── d
//!                      e
//! ```
//!
//! A store that was mounted for writing has a [`tree`](crate::tree) instead, and these functions go by it.
//!
//! A name that is no path, as it has a part that no file can have, or that is the name of a directory too, has no place there.

use super::writer::Entry;
use crate::format::op::{FileNo, RecordBytes};
use crate::layout::{File, State};
use crate::tree::{Below, Ino, NAME_BYTES_MAX, Node, Tree, data_ino, data_name};
use rustix::fs::FileType;
use std::collections::BTreeMap;
use std::ops::Bound;

/// The longest path in bytes (`PATH_MAX`, with its zero).
const PATH_BYTES_MAX: usize = 4095;

/// What there is at a path.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Child {
    /// A directory: the beginning of other names, where there is no tree.
    pub is_directory: bool,
    /// Its number, which no other file of the store ever has; 0 for a directory where there is no tree.
    pub number: u64,
    /// Its length in bytes.
    pub bytes: u64,
    /// Its attributes, if the store has a tree.
    pub node: Option<Node>,
}

impl Below for &State {
    fn get(&self, key: &[u8]) -> Option<RecordBytes> {
        self.records.get(key).cloned()
    }

    fn next(&self, after: Bound<&[u8]>) -> Option<(RecordBytes, RecordBytes)> {
        let mut behind = self.records.range::<[u8], _>((after, Bound::Unbounded));
        behind.next().map(|(key, value)| (key.clone(), value.clone()))
    }
}

fn tree(state: &State) -> Option<Tree<&State>> {
    Some(Tree(state)).filter(Tree::is_there)
}

fn is_part(part: &str) -> bool {
    !matches!(part, "" | "." | "..") && part.len() <= NAME_BYTES_MAX && !part.contains('\0')
}

fn has_below(names: &BTreeMap<String, FileNo>, name: &str) -> bool {
    let prefix = format!("{name}/");
    let first = names.range::<str, _>((Bound::Included(prefix.as_str()), Bound::Unbounded));
    first
        .map(|(name, _)| name)
        .next()
        .is_some_and(|name| name.starts_with(&prefix))
}

const DIRECTORY: Child = Child {
    is_directory: true,
    number: 0,
    bytes: 0,
    node: None,
};

fn file(state: &State, number: FileNo) -> Option<Child> {
    let bytes = state.files.get(&number)?.bytes;
    Some(Child {
        is_directory: false,
        number,
        bytes,
        node: None,
    })
}

/// The store's file with the bytes of a node.
pub(super) fn data(state: &State, ino: Ino) -> Option<FileNo> {
    state.names.get(&data_name(ino)).copied()
}

fn child_of(state: &State, ino: Ino, node: Node) -> Child {
    let bytes = match node.kind() {
        FileType::RegularFile => data(state, ino).and_then(|file| Some(state.files.get(&file)?.bytes)),
        FileType::Symlink => Some(node.target.len() as u64),
        _ => None,
    };
    Child {
        is_directory: node.kind() == FileType::Directory,
        number: ino,
        bytes: bytes.unwrap_or(0),
        node: Some(node),
    }
}

/// What there is at a path.
pub(super) fn child(state: &State, path: &[u8]) -> Option<Child> {
    if let Some(tree) = tree(state) {
        let ino = tree.walk(path)?;
        return Some(child_of(state, ino, tree.node(ino)?));
    }
    let path = std::str::from_utf8(path).ok()?;
    if path.is_empty() {
        return Some(DIRECTORY);
    }
    if !path.split('/').all(is_part) {
        return None;
    }
    match has_below(&state.names, path) {
        true => Some(DIRECTORY),
        false => file(state, *state.names.get(path)?),
    }
}

/// The file with the bytes of a child.
pub(super) fn file_of<'a>(state: &'a State, child: &Child) -> Option<&'a File> {
    let number = match &child.node {
        Some(node) if node.kind() == FileType::RegularFile => data(state, child.number)?,
        None if !child.is_directory => child.number,
        _ => return None,
    };
    state.files.get(&number)
}

pub(super) fn xattr(state: &State, path: &[u8], name: &[u8]) -> Option<Vec<u8>> {
    let tree = tree(state)?;
    Some(tree.xattr(tree.walk(path)?, name)?.to_vec())
}

pub(super) fn xattrs(state: &State, path: &[u8]) -> Vec<Vec<u8>> {
    let names = tree(state).and_then(|tree| Some(tree.xattrs(tree.walk(path)?)));
    names.unwrap_or_default()
}

/// The file of the store with the bytes of what there is at a path; else the file without a place that has this name.
pub(super) fn file_at(state: &State, path: &str) -> Option<FileNo> {
    let Some(tree) = tree(state) else {
        return state.names.get(path).copied();
    };
    let placed = tree.walk(path.as_bytes()).and_then(|ino| data(state, ino));
    let named = || state.names.get(path).filter(|_| is_beside(&tree, path)).copied();
    placed.or_else(named)
}

/// Whether no node of the tree has the bytes of the file with this name.
fn is_beside(tree: &Tree<&State>, name: &str) -> bool {
    data_ino(name).and_then(|ino| tree.node(ino)).is_none()
}

fn entry(state: &State, name: String, file: FileNo) -> Option<Entry> {
    let bytes = state.files.get(&file)?.bytes;
    Some(Entry { name, bytes })
}

/// The files by the names that the store has for them.
pub(super) fn by_name(state: &State) -> Vec<Entry> {
    let names = state.names.iter();
    names
        .filter_map(|(name, file)| entry(state, name.clone(), *file))
        .collect()
}

/// The files by path; those without a place, and all where there is no tree, by name. A path that is no UTF-8 is left out.
pub(super) fn entries(state: &State) -> Vec<Entry> {
    let Some(tree) = tree(state) else {
        return by_name(state);
    };
    let files = tree.files().into_iter();
    let placed = files.filter_map(|(path, ino)| entry(state, path, data(state, ino)?));
    let beside = state.names.iter().filter(|(name, _)| is_beside(&tree, name));
    placed
        .chain(beside.filter_map(|(name, file)| entry(state, name.clone(), *file)))
        .collect()
}

/// What there is in a directory, by name; an empty path is that of the root.
pub(super) fn children(state: &State, directory: &[u8]) -> Vec<(Vec<u8>, Child)> {
    if let Some(tree) = tree(state) {
        let listed = tree.walk(directory).map(|directory| tree.list(directory));
        let listed = listed.into_iter().flatten();
        return listed
            .filter_map(|entry| Some((entry.name, child_of(state, entry.ino, tree.node(entry.ino)?))))
            .collect();
    }
    let prefix = match std::str::from_utf8(directory) {
        Ok("") => String::new(),
        Ok(directory) => format!("{directory}/"),
        Err(_) => return Vec::new(),
    };
    let (mut found, mut from) = (Vec::new(), Bound::Included(prefix.clone()));
    loop {
        let mut behind = state.names.range::<String, _>((from.as_ref(), Bound::Unbounded));
        let Some((name, number)) = behind.next() else {
            return found;
        };
        let Some(rest) = name.strip_prefix(&prefix) else {
            return found;
        };
        match rest.split_once('/') {
            Some((part, _)) => {
                // Behind all that begins so: the next letter after a slash.
                from = Bound::Included(format!("{prefix}{part}0"));
                if is_part(part) {
                    found.push((part.as_bytes().to_vec(), DIRECTORY));
                }
            }
            None => {
                from = Bound::Excluded(name.clone());
                if is_part(rest) && !has_below(&state.names, name) {
                    found.extend(file(state, *number).map(|file| (rest.as_bytes().to_vec(), file)));
                }
            }
        }
    }
}

/// The names of files that have no place there; in a tree those that no node has its bytes in.
pub(super) fn without_place(state: &State) -> Vec<String> {
    let tree = tree(state);
    let is_without = |name: &&String| match &tree {
        Some(tree) => is_beside(tree, name),
        None => name.len() > PATH_BYTES_MAX || !name.split('/').all(is_part) || has_below(&state.names, name),
    };
    state.names.keys().filter(is_without).cloned().collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::format::Op;

    fn state(names: &[&str]) -> State {
        let mut state = State::default();
        for (file, name) in names.iter().enumerate() {
            let (file, name) = (file as u64, String::from(*name));
            state
                .apply(&Op::Create { file, name }, 4096, &mut Vec::new())
                .unwrap();
        }
        state
    }

    fn listed(state: &State, directory: &str) -> String {
        let shown = |(name, child): &(Vec<u8>, Child)| {
            let name = String::from_utf8(name.clone()).unwrap();
            if child.is_directory {
                format!("{name}/")
            } else {
                name
            }
        };
        let listed = children(state, directory.as_bytes());
        listed.iter().map(shown).collect::<Vec<_>>().join(" ")
    }

    #[test]
    fn what_is_below_a_name_makes_it_a_directory() {
        let state = state(&["a/b", "a/c/d", "a/c/e", "a-b", "a0", "e", "é/x"]);
        assert_eq!(listed(&state, ""), "a-b a/ a0 e é/");
        assert_eq!(listed(&state, "a"), "b c/");
        assert_eq!(listed(&state, "a/c"), "d e");
        assert_eq!(listed(&state, "e"), "");
        assert_eq!(child(&state, b"a/c"), Some(DIRECTORY));
        assert_eq!(child(&state, b"a/c/e"), file(&state, 2));
        assert_eq!((child(&state, b"a/c/"), child(&state, b"a/x")), (None, None));
        assert_eq!(without_place(&state), Vec::<String>::new());
    }

    #[test]
    fn a_name_that_is_no_path_has_no_place() {
        let long = "x".repeat(256);
        let names = ["a", "a/b", "c//d", "../e", "f/.", "g\0", &long, "h"];
        let state = state(&names);
        assert_eq!(listed(&state, ""), "a/ c/ f/ h");
        assert_eq!(listed(&state, "c"), "");
        let mut without = without_place(&state);
        without.sort_unstable();
        let mut hidden = vec!["a", "c//d", "../e", "f/.", "g\0", &long];
        hidden.sort_unstable();
        assert_eq!(without, hidden);
        assert!(
            hidden
                .iter()
                .all(|name| child(&state, name.as_bytes()).is_none() || *name == "a")
        );
    }
}
