use super::*;
use std::collections::{BTreeMap, BTreeSet};

#[derive(Default)]
struct Map {
    records: BTreeMap<RecordBytes, RecordBytes>,
    files: BTreeSet<String>,
}

impl Below for Map {
    fn get(&self, key: &[u8]) -> Option<RecordBytes> {
        self.records.get(key).cloned()
    }

    fn next(&self, after: Bound<&[u8]>) -> Option<(RecordBytes, RecordBytes)> {
        let mut behind = self.records.range::<[u8], _>((after, Bound::Unbounded));
        behind.next().map(|(key, value)| (key.clone(), value.clone()))
    }
}

impl BelowMut for Map {
    fn put(&mut self, key: &[u8], value: Option<&[u8]>) -> Result<()> {
        match value {
            Some(value) => self.records.insert(key.into(), value.into()),
            None => self.records.remove(key),
        };
        Ok(())
    }

    fn has_file(&self, name: &str) -> bool {
        self.files.contains(name)
    }

    fn create_file(&mut self, name: &str) -> Result<()> {
        assert!(self.files.insert(name.to_owned()));
        Ok(())
    }

    fn remove_file(&mut self, name: &str) -> Result<()> {
        assert!(self.files.remove(name));
        Ok(())
    }
}

const NOW: Time = Time {
    seconds: -5,
    nanos: 7,
};

fn new(kind: FileType) -> New<'static> {
    New {
        mode: kind.as_raw_mode() | 0o640,
        uid: 1,
        gid: 2,
        rdev: 0,
        target: b"",
    }
}

fn tree() -> Tree<Map> {
    let mut tree = Tree(Map::default());
    tree.make(1, 2, NOW).unwrap();
    tree
}

fn add(tree: &mut Tree<Map>, directory: Ino, name: &str, kind: FileType) -> Ino {
    tree.create(directory, name.as_bytes(), &new(kind), NOW)
        .unwrap()
        .0
}

fn names(tree: &Tree<Map>, directory: Ino) -> Vec<String> {
    let listed = tree.list(directory).into_iter();
    listed
        .map(|entry| String::from_utf8(entry.name).unwrap())
        .collect()
}

#[test]
fn a_node_is_as_it_was_put() {
    let node = Node {
        mode: 0o120_777,
        uid: u32::MAX,
        gid: 3,
        rdev: 4,
        links: 5,
        accessed: NOW,
        modified: Time { seconds: 1, nanos: 2 },
        changed: Time::default(),
        parent: 6,
        target: b"a/b".to_vec(),
    };
    assert_eq!(Node::decode(&node.encode()), Some(node.clone()));
    assert_eq!(Node::decode(&node.encode()[..60]), None);
}

#[test]
fn names_of_one_directory_are_not_those_of_another() {
    let mut tree = tree();
    let a = add(&mut tree, ROOT, "a", FileType::Directory);
    let b = add(&mut tree, a, "b", FileType::Directory);
    add(&mut tree, b, "\u{ff}", FileType::RegularFile);
    add(&mut tree, ROOT, "z", FileType::RegularFile);
    assert_eq!(
        (names(&tree, ROOT), names(&tree, a)),
        (vec!["a".into(), "z".into()], vec!["b".into()])
    );
    assert_eq!(tree.walk("a/b/\u{ff}".as_bytes()), Some(4));
    assert_eq!(
        tree.files(),
        [(String::from("a/b/\u{ff}"), 4), (String::from("z"), 5)]
    );
    assert_eq!(tree.node(ROOT).unwrap().links, 3);
}

#[test]
fn a_directory_is_not_moved_into_itself_and_knows_its_parent() {
    let mut tree = tree();
    let a = add(&mut tree, ROOT, "a", FileType::Directory);
    let b = add(&mut tree, a, "b", FileType::Directory);
    let over = Renaming::Over;
    assert_eq!(tree.rename((ROOT, b"a"), (b, b"c"), over, NOW), Err(Errno::INVAL));
    assert_eq!(
        tree.rename((ROOT, b"a"), (a, b"b"), Renaming::Exchange, NOW),
        Err(Errno::INVAL)
    );
    assert_eq!(
        tree.rename((a, b"b"), (ROOT, b"a"), Renaming::Exchange, NOW),
        Err(Errno::INVAL)
    );
    assert_eq!(
        tree.rename((a, b"b"), (ROOT, b"a"), over, NOW),
        Err(Errno::NOTEMPTY)
    );
    tree.rename((a, b"b"), (ROOT, b"c"), over, NOW).unwrap();
    let links = |tree: &Tree<Map>, ino| tree.node(ino).unwrap().links;
    assert_eq!(
        (tree.node(b).unwrap().parent, links(&tree, ROOT), links(&tree, a)),
        (ROOT, 4, 2)
    );
    // Over an empty one, which has no name then.
    assert_eq!(tree.rename((ROOT, b"c"), (ROOT, b"a"), over, NOW), Ok(Some(a)));
    assert_eq!(
        (links(&tree, a), links(&tree, ROOT), tree.orphans()),
        (0, 3, vec![a])
    );
    assert_eq!(
        tree.create(a, b"x", &new(FileType::RegularFile), NOW)
            .unwrap_err(),
        Errno::NOENT
    );
}

#[test]
fn of_what_has_no_name_any_more_nothing_is_left() {
    let mut tree = tree();
    let empty = tree.0.records.clone();
    let file = add(&mut tree, ROOT, "file", FileType::RegularFile);
    tree.link(file, ROOT, b"link", NOW).unwrap();
    tree.put_xattr(file, b"user.a", Some(b"1"), NOW).unwrap();
    let dir = add(&mut tree, ROOT, "dir", FileType::Directory);
    add(&mut tree, dir, "fifo", FileType::Fifo);
    assert_eq!(tree.remove(ROOT, b"dir", true, NOW), Err(Errno::NOTEMPTY));
    assert_eq!(tree.remove(ROOT, b"dir", false, NOW), Err(Errno::ISDIR));
    assert_eq!(tree.remove(ROOT, b"file", true, NOW), Err(Errno::NOTDIR));
    tree.remove(ROOT, b"file", false, NOW).unwrap();
    // It has another name.
    assert_eq!(tree.drop_orphan(file), Ok(false));
    tree.remove(ROOT, b"link", false, NOW).unwrap();
    tree.remove(dir, b"fifo", false, NOW).unwrap();
    tree.remove(ROOT, b"dir", true, NOW).unwrap();
    for orphan in tree.orphans() {
        assert_eq!(tree.drop_orphan(orphan), Ok(true));
    }
    assert_eq!(tree.0.files, BTreeSet::new());
    let next = &tree.0.records[&b"t"[..]];
    assert_eq!(number(next), Some(5), "no number is given twice");
    tree.0.put(b"t", Some(&2_u64.to_be_bytes())).unwrap();
    assert_eq!(tree.0.records, empty);
}
