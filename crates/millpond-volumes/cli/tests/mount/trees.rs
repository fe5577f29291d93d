//! Random changes of a tree, beside a model of it. What is there after a kill is the model as of one moment, no earlier than
//! the last sync.

use super::draw::Draw;
use super::*;
use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::fs::{File, OpenOptions};
use std::os::unix::fs::{FileExt, MetadataExt, PermissionsExt, symlink};

/// Something with a name.
#[derive(Clone, PartialEq, Debug)]
enum Thing {
    /// The number of its bytes.
    File(usize),
    Directory,
    Link(String),
}

/// A tree in memory.
#[derive(Clone, PartialEq, Default, Debug)]
struct Model {
    things: BTreeMap<String, Thing>,
    /// Bytes and permissions, of all names of a file.
    files: Vec<(Vec<u8>, u32)>,
}

/// A tree in words: paths, kinds, permissions, sizes and sums of files, and which of them are one.
fn described(sizes: impl Iterator<Item = (String, String)>) -> String {
    let mut lines: Vec<String> = sizes.map(|(path, what)| format!("{path} {what}")).collect();
    lines.sort();
    lines.join("\n")
}

fn sum(bytes: &[u8]) -> u64 {
    let step = |sum: u64, byte: &u8| (sum ^ u64::from(*byte)).wrapping_mul(0x100_0000_01b3);
    bytes.iter().fold(0xcbf2_9ce4_8422_2325, step)
}

impl Model {
    fn describe(&self) -> String {
        described(self.things.iter().map(|(path, thing)| {
            let what = match thing {
                Thing::Directory => String::from("directory"),
                Thing::Link(to) => format!("-> {to}"),
                Thing::File(number) => {
                    let (bytes, mode) = &self.files[*number];
                    let is_it = |thing: &&Thing| **thing == Thing::File(*number);
                    let names = self.things.values().filter(is_it).count();
                    format!("{mode:o} {names} {} {:x}", bytes.len(), sum(bytes))
                }
            };
            (path.clone(), what)
        }))
    }

    fn pick(&self, draw: &mut Draw, is: impl Fn(&Thing) -> bool) -> Option<String> {
        let names: Vec<&String> = self
            .things
            .iter()
            .filter(|(_, thing)| is(thing))
            .map(|(name, _)| name)
            .collect();
        match names.len() {
            0 => None,
            n => Some(names[draw.below(n as u64) as usize].clone()),
        }
    }

    /// A directory: the root, or another.
    fn directory(&self, draw: &mut Draw) -> String {
        match draw.below(3) {
            0 => String::new(),
            _ => self
                .pick(draw, |thing| *thing == Thing::Directory)
                .map_or(String::new(), |name| name + "/"),
        }
    }

    fn has_below(&self, name: &str) -> bool {
        let prefix = format!("{name}/");
        self.things.keys().any(|name| name.starts_with(&prefix))
    }
}

fn describe(root: &Path) -> String {
    let (mut found, mut directories) = (Vec::new(), vec![root.to_owned()]);
    while let Some(directory) = directories.pop() {
        for entry in fs::read_dir(&directory).unwrap() {
            let path = entry.unwrap().path();
            let name = path.strip_prefix(root).unwrap().to_str().unwrap().to_owned();
            let about = path.symlink_metadata().unwrap();
            let what = if about.is_dir() {
                directories.push(path);
                String::from("directory")
            } else if about.is_symlink() {
                format!("-> {}", fs::read_link(&path).unwrap().display())
            } else {
                let bytes = fs::read(&path).unwrap();
                assert_eq!(bytes.len() as u64, about.len(), "{name}");
                let mode = about.permissions().mode() & 0o777;
                format!("{mode:o} {} {} {:x}", about.nlink(), bytes.len(), sum(&bytes))
            };
            found.push((name, what));
        }
    }
    described(found.into_iter())
}

/// One change that the kernel asks for at once, of the model and of the mount.
fn change(model: &mut Model, draw: &mut Draw, root: &Path) {
    let fresh = |model: &Model, draw: &mut Draw| format!("{}n{}", model.directory(draw), draw.below(12));
    let is_file = |thing: &Thing| matches!(thing, Thing::File(_));
    let at = |name: &str| root.join(name);
    match draw.below(16) {
        0..3 => {
            let name = fresh(model, draw);
            if !model.things.contains_key(&name) {
                File::create_new(at(&name)).unwrap();
                fs::set_permissions(at(&name), PermissionsExt::from_mode(0o644)).unwrap();
                model.things.insert(name, Thing::File(model.files.len()));
                model.files.push((Vec::new(), 0o644));
            }
        }
        3..7 => {
            let Some(name) = model.pick(draw, is_file) else {
                return;
            };
            let Thing::File(number) = model.things[&name] else {
                return;
            };
            let bytes = &mut model.files[number].0;
            let is_append = draw.below(3) == 0;
            let offset = if is_append {
                bytes.len() as u64
            } else {
                draw.below(200_000)
            } as usize;
            let written = vec![draw.below(255) as u8 + 1; draw.below(60_000) as usize + 1];
            bytes.resize(bytes.len().max(offset + written.len()), 0);
            bytes[offset..offset + written.len()].copy_from_slice(&written);
            let mut options = OpenOptions::new();
            match is_append {
                true => {
                    std::io::Write::write_all(&mut options.append(true).open(at(&name)).unwrap(), &written)
                        .unwrap()
                }
                false => {
                    let file = options.write(true).open(at(&name)).unwrap();
                    file.write_all_at(&written, offset as u64).unwrap();
                }
            }
        }
        7 => {
            let Some(name) = model.pick(draw, is_file) else {
                return;
            };
            let Thing::File(number) = model.things[&name] else {
                return;
            };
            let len = draw.below(250_000);
            model.files[number].0.resize(len as usize, 0);
            OpenOptions::new()
                .write(true)
                .open(at(&name))
                .unwrap()
                .set_len(len)
                .unwrap();
        }
        8 => {
            let Some(name) = model.pick(draw, is_file) else {
                return;
            };
            let Thing::File(number) = model.things[&name] else {
                return;
            };
            let bytes = &mut model.files[number].0;
            let (offset, len) = (draw.below(200_000) as usize, draw.below(100_000) as usize + 1);
            let end = bytes.len().min(offset + len);
            bytes[offset.min(end)..end].fill(0);
            let file = OpenOptions::new().write(true).open(at(&name)).unwrap();
            let flags = rustix::fs::FallocateFlags::PUNCH_HOLE | rustix::fs::FallocateFlags::KEEP_SIZE;
            rustix::fs::fallocate(file, flags, offset as u64, len as u64).unwrap();
        }
        9 => {
            let name = fresh(model, draw);
            if let Entry::Vacant(entry) = model.things.entry(name) {
                fs::create_dir(at(entry.key())).unwrap();
                entry.insert(Thing::Directory);
            }
        }
        10 => {
            let name = fresh(model, draw);
            if let Entry::Vacant(entry) = model.things.entry(name) {
                let to = format!("to/{}", draw.below(100));
                symlink(&to, at(entry.key())).unwrap();
                entry.insert(Thing::Link(to));
            }
        }
        11 => {
            let Some(from) = model.pick(draw, is_file) else {
                return;
            };
            let name = fresh(model, draw);
            if !model.things.contains_key(&name) {
                fs::hard_link(at(&from), at(&name)).unwrap();
                model.things.insert(name, model.things[&from].clone());
            }
        }
        12 => {
            let Some(name) = model.pick(draw, |_| true) else {
                return;
            };
            match &model.things[&name] {
                Thing::Directory if model.has_below(&name) => {
                    let error = fs::remove_dir(at(&name)).unwrap_err();
                    assert_eq!(error.kind(), std::io::ErrorKind::DirectoryNotEmpty);
                    return;
                }
                Thing::Directory => fs::remove_dir(at(&name)).unwrap(),
                _ => fs::remove_file(at(&name)).unwrap(),
            }
            model.things.remove(&name);
        }
        13..15 => {
            let Some(from) = model.pick(draw, |_| true) else {
                return;
            };
            let to = fresh(model, draw);
            let is_directory = |thing: Option<&Thing>| thing == Some(&Thing::Directory);
            let (moves, replaces) = (model.things.get(&from), model.things.get(&to));
            let is_fine = !format!("{to}/").starts_with(&format!("{from}/"))
                && (replaces.is_none() || is_directory(moves) == is_directory(replaces))
                && !model.has_below(&to);
            let renamed = fs::rename(at(&from), at(&to));
            if from == to {
                return renamed.unwrap();
            }
            assert_eq!(renamed.is_ok(), is_fine, "{from} to {to}: {renamed:?}");
            // Two names of one file stay (POSIX).
            if !is_fine || matches!(moves, Some(Thing::File(_))) && moves == replaces {
                return;
            }
            let prefix = format!("{from}/");
            let is_moved = |name: &String| *name == from || name.starts_with(&prefix);
            let names: Vec<String> = model
                .things
                .keys()
                .filter(|name| is_moved(name))
                .cloned()
                .collect();
            for name in names {
                let thing = model.things.remove(&name).unwrap();
                model.things.insert(format!("{to}{}", &name[from.len()..]), thing);
            }
        }
        _ => {
            let (Some(one), Some(other)) = (model.pick(draw, is_file), model.pick(draw, is_file)) else {
                return;
            };
            let cwd = rustix::fs::CWD;
            let flags = rustix::fs::RenameFlags::EXCHANGE;
            rustix::fs::renameat_with(cwd, at(&one), cwd, at(&other), flags).unwrap();
            let (first, second) = (model.things[&one].clone(), model.things[&other].clone());
            model.things.insert(one, second);
            model.things.insert(other, first);
        }
    }
}

fn histories() -> std::ops::Range<u64> {
    let number = |name: &str| std::env::var(name).ok().and_then(|value| value.parse().ok());
    let first = number("MILLPOND_FIRST_SEED").unwrap_or(0);
    match number("MILLPOND_SEED") {
        Some(seed) => seed..seed + 1,
        None => first..first + number("MILLPOND_TREES").unwrap_or(2),
    }
}

#[test]
fn after_a_kill_the_tree_is_one_that_was_no_older_than_the_last_sync() {
    if !can_mount() {
        return;
    }
    for seed in histories() {
        println!("MILLPOND_SEED={seed}");
        let temp = tempfile::tempdir().unwrap();
        let url = format!("file://{}/store", temp.path().display());
        let point = temp.path().join("mnt");
        let mut draw = Draw(seed);
        let mut model = Model::default();
        let mut lives = 0;
        while lives < 4 {
            lives += 1;
            let expire = ["20ms", "1s"][draw.below(2) as usize];
            let mounted = Mounted::new(
                &url,
                &point,
                &["--take-over", "--expire", expire, "--memory", "64M"],
            );
            assert_eq!(describe(&point), model.describe(), "seed {seed}: after a mount");
            // All that it has been since the last sync.
            let mut states = vec![model.clone()];
            for _ in 0..draw.below(150) + 20 {
                change(&mut model, &mut draw, &point);
                states.push(model.clone());
                if draw.below(12) == 0 {
                    match model.pick(&mut draw, |thing| matches!(thing, Thing::File(_))) {
                        Some(name) if draw.below(2) == 0 => {
                            File::open(point.join(name)).unwrap().sync_all().unwrap()
                        }
                        _ => File::open(&point).unwrap().sync_all().unwrap(),
                    }
                    states = vec![model.clone()];
                }
            }
            assert_eq!(describe(&point), model.describe(), "seed {seed}: as it is");
            if draw.below(4) == 0 {
                mounted.end();
                continue;
            }
            mounted.kill();
            let again = Mounted::new(&url, &point, &["--take-over", "--memory", "64M"]);
            let found = describe(&point);
            let was = states.iter().rev().find(|state| state.describe() == found);
            let Some(was) = was else {
                let newest = states.last().unwrap().describe();
                panic!(
                    "seed {seed}: it was never so:\n{found}\n\nof {} states the last:\n{newest}",
                    states.len()
                );
            };
            model = was.clone();
            again.end();
        }
        // A reader on another mount sees the same.
        let reader = Mounted::new(&url, &point, &["--read-only", "--memory", "64M"]);
        assert_eq!(describe(&point), model.describe(), "seed {seed}: read only");
        reader.end();
        let verified = store(&["verify", &url]);
        assert!(!verified.contains("damaged:"), "{verified}");
    }
}
