//! Arrows that no import shows: a file that has an `impl` of a type, or a value of it, calls its methods wherever they are.
//!
//! A call counts if its name says which method it is: `self.name(…)` and `Self::name(…)` of a type that has it, and any other
//! `….name(…)` if only one type of the crate has a method of that name, and no trait, no crate below and not the standard
//! library.

use super::{Crate, Module, circles, crates};
use std::collections::{BTreeMap, BTreeSet};

/// The crates that are looked at: the policy, and the engine above it.
const CRATES: [&str; 2] = ["millpond-core", "millpond"];

/// Circles of files by their methods' calls: a file of each, and how many there are. Each is to be cut, and the row says how
/// far that is: a change that ties one more file to a circle fails, and so does a row that says more than there are.
const KNOWN: &[(&str, usize)] = &[
    ("crates/millpond-core/src/manager/anonymous.rs", 5),
    ("crates/millpond/src/api/file/guards.rs", 3),
    ("crates/millpond/src/control/budget.rs", 2),
    ("crates/millpond/src/device/file.rs", 2),
    ("crates/millpond/src/engine/driver/core.rs", 3),
];

/// Types with methods outside of the file that defines them, and in how many files: a mechanism is a type with its own state, not
/// files of methods of another. As above, a row may only fall.
#[rustfmt::skip]
const SPREAD: &[(&str, usize)] = &[
    // millpond-core
    ("FileWork", 2), ("Flusher", 5), ("GoalState", 1), ("Manager", 14), ("Millpond", 2), ("ReadAhead", 1),
    // millpond
    ("Cache", 7), ("CoreGuard", 5), ("DeviceFile", 3), ("Engine", 6), ("Error", 2), ("Exchange", 4), ("File", 12),
    ("FileInner", 1), ("Files", 1), ("Frames", 1), ("Handle", 3), ("MemoryGroup", 1), ("PageCache", 8),
    ("PageMut", 1), ("PageRef", 1), ("Setting", 1), ("Table", 3), ("Watched", 1), ("What", 1),
];

/// Names that the standard library has, too.
const STD: &[&str] = &[
    "add",
    "all",
    "any",
    "append",
    "as_mut_slice",
    "as_slice",
    "bytes",
    "chunks",
    "clear",
    "clone",
    "close",
    "contains",
    "count",
    "drain",
    "end",
    "entry",
    "extend",
    "fill",
    "filter",
    "find",
    "first",
    "flush",
    "get",
    "insert",
    "into_inner",
    "is_empty",
    "iter",
    "join",
    "last",
    "len",
    "lines",
    "load",
    "lock",
    "map",
    "max",
    "min",
    "name",
    "next",
    "new",
    "of",
    "open",
    "parse",
    "peek",
    "pop",
    "position",
    "push",
    "read",
    "remove",
    "replace",
    "reset",
    "resize",
    "retain",
    "rev",
    "send",
    "set",
    "set_len",
    "sort",
    "spawn",
    "split",
    "start",
    "store",
    "sum",
    "swap",
    "sync_all",
    "sync_data",
    "take",
    "update",
    "wait",
    "write",
];

fn is_part(c: char) -> bool {
    c.is_alphanumeric() || c == '_'
}

/// The name with which the text begins.
fn word(text: &str) -> &str {
    &text[..text.find(|c| !is_part(c)).unwrap_or(text.len())]
}

/// The text from an opening bracket to the one that closes it.
fn bracketed(text: &str, open: char, close: char) -> &str {
    let mut depth = 0;
    for (at, c) in text.char_indices() {
        // `->` closes nothing.
        let is_arrow = c == '>' && text[..at].ends_with('-');
        depth += i32::from(c == open) - i32::from(c == close && !is_arrow);
        if depth == 0 {
            return &text[..at + c.len_utf8()];
        }
    }
    text
}

/// The blocks of `impl` and `trait` items: what stands before the brace, and from the brace on.
fn blocks(code: &str) -> Vec<(&str, &str)> {
    let mut found = Vec::new();
    for (at, _) in code.match_indices('\n').map(|(at, _)| (at + 1, ())) {
        let line = code[at..]
            .trim_start_matches("pub ")
            .trim_start_matches("pub(crate) ");
        let line = line
            .trim_start_matches("pub(super) ")
            .trim_start_matches("unsafe ");
        if ["impl", "trait"].contains(&word(line))
            && let Some(brace) = line.find('{')
        {
            found.push((&line[..brace], bracketed(&line[brace..], '{', '}')));
        }
    }
    found
}

/// The type of an `impl` that is of no trait.
fn inherent(head: &str) -> Option<String> {
    let behind = head.strip_prefix("impl")?;
    let generics = if behind.starts_with('<') {
        bracketed(behind, '<', '>').len()
    } else {
        0
    };
    let of = behind[generics..].trim();
    if of.contains(" for ") {
        return None;
    }
    let path = of.split(['<', ' ', '\n']).next()?;
    Some(path.rsplit("::").next()?.to_owned())
}

/// The functions of a block, with their bodies.
fn functions(block: &str) -> Vec<(&str, &str)> {
    let mut found = Vec::new();
    let (mut depth, mut at) = (0, 0);
    while at < block.len() {
        let rest = &block[at..];
        let begins = depth == 1 && rest.starts_with("fn ") && !block[..at].ends_with(is_part);
        if begins {
            let end = rest.find(['{', ';']).unwrap_or(rest.len() - 1);
            let body = match rest[end..].starts_with('{') {
                true => bracketed(&rest[end..], '{', '}'),
                false => &rest[end..=end],
            };
            found.push((word(&rest[3..]), body));
            at += end + body.len();
            continue;
        }
        let c = rest.chars().next().expect("it is not at its end");
        depth += i32::from(c == '{') - i32::from(c == '}');
        at += c.len_utf8();
    }
    found
}

/// Where a body calls methods: whether of `Self`, and the name.
fn calls(body: &str) -> BTreeSet<(bool, &str)> {
    let of = |dot: &'static str| {
        body.match_indices(dot).filter_map(move |(at, _)| {
            let name = word(&body[at + dot.len()..]);
            let behind = &body[at + dot.len() + name.len()..];
            let receiver = &body[..at];
            let is_self = ["self", "Self"]
                .iter()
                .any(|own| receiver.ends_with(own) && !receiver[..receiver.len() - 4].ends_with(['.', '_']));
            let is_call = behind.starts_with('(') || behind.starts_with("::<");
            (is_call && !name.is_empty() && (dot == "." || is_self)).then_some((is_self, name))
        })
    };
    of(".").chain(of("::")).collect()
}

/// The names of a crate's functions in blocks.
fn names(of: &Crate) -> BTreeSet<&str> {
    let blocks = of.sources.values().flat_map(|source| blocks(&source.code));
    blocks
        .flat_map(|(_, block)| functions(block))
        .map(|(name, _)| name)
        .collect()
}

/// What each file calls of others: the file that has the method, and one of the names. `below`: names of the crates below.
fn called<'a>(
    of: &'a Crate,
    below: &BTreeSet<&'a str>,
) -> BTreeMap<&'a Module, BTreeMap<&'a Module, &'a str>> {
    let mut shared: BTreeSet<&str> = STD.iter().chain(below).copied().collect();
    let (mut methods, mut bodies) = (Vec::new(), Vec::new());
    for (file, source) in &of.sources {
        for (head, block) in blocks(&source.code) {
            let of = inherent(head);
            for (name, body) in functions(block) {
                match &of {
                    Some(of) => methods.push((name, of.clone(), file)),
                    None => _ = shared.insert(name),
                }
                bodies.push((file, of.clone(), body));
            }
        }
    }
    let mut called: BTreeMap<_, BTreeMap<_, _>> =
        of.sources.keys().map(|file| (file, BTreeMap::new())).collect();
    for (file, own, body) in bodies {
        for (is_self, name) in calls(body) {
            let all: Vec<_> = methods.iter().filter(|method| method.0 == name).collect();
            let of_own = |method: &&&(_, String, _)| is_self && own.as_ref() == Some(&method.1);
            let to = match (&all.iter().filter(of_own).collect::<Vec<_>>()[..], &all[..]) {
                ([method], _) => method.2,
                ([], [method]) if !shared.contains(name) => method.2,
                _ => continue,
            };
            // A module and those within it aside, as with imports.
            if !to.starts_with(file) && !file.starts_with(to) {
                called.get_mut(file).expect("each file is there").insert(to, name);
            }
        }
    }
    called
}

#[test]
fn the_circles_of_method_calls_are_those_that_are_known() {
    let (mut breaks, mut found) = (Vec::new(), BTreeSet::new());
    let crates = crates();
    let of = |name| {
        &crates
            .iter()
            .find(|(of, _)| of.name == name)
            .expect("it is here")
            .0
    };
    let mut below = BTreeSet::new();
    for of in CRATES.map(of) {
        let called = called(of, &below);
        below.extend(names(of));
        let edges = called
            .iter()
            .map(|(from, to)| (*from, to.keys().copied().collect()))
            .collect();
        for circle in circles(&edges) {
            let path = |file: &Module| &*of.sources[file].path;
            let row = KNOWN
                .iter()
                .find(|row| circle.iter().any(|file| path(file) == row.0));
            let known = row.map_or(0, |row| row.1);
            found.extend(row.map(|row| row.0));
            if circle.len() != known {
                breaks.push(format!("{} files, and {known} were known:", circle.len()));
                for from in &circle {
                    let within = called[*from].iter().filter(|(to, _)| circle.contains(to));
                    breaks
                        .extend(within.map(|(to, name)| format!("  {} -> {}: {name}", path(from), path(to))));
                }
            }
        }
    }
    let gone = KNOWN.iter().filter(|row| !found.contains(row.0));
    breaks.extend(gone.map(|row| format!("{} is in no circle any more: take its row out", row.0)));
    assert!(
        breaks.is_empty(),
        "circles by method calls:\n  {}",
        breaks.join("\n  ")
    );
}

/// Whether the code has the type's definition.
fn defines(code: &str, name: &str) -> bool {
    let of = |kind: &&str| {
        code.match_indices(*kind)
            .any(|(at, _)| word(&code[at + kind.len()..]) == name)
    };
    ["struct ", "enum ", "union "].iter().any(of)
}

#[test]
fn the_methods_of_a_type_are_in_its_file() {
    let mut spread: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    for (of, _) in crates().into_iter().filter(|(of, _)| CRATES.contains(&&*of.name)) {
        let is_test = |file: &Module| file.iter().any(|part| part.contains("tests"));
        for (_, source) in of.sources.iter().filter(|(file, _)| !is_test(file)) {
            let types = blocks(&source.code)
                .into_iter()
                .filter_map(|(head, _)| inherent(head));
            for name in types.filter(|name| !defines(&source.code, name)) {
                spread.entry(name).or_default().insert(source.path.clone());
            }
        }
    }
    let mut breaks = Vec::new();
    for (name, files) in &spread {
        let known = SPREAD.iter().find(|row| row.0 == name).map_or(0, |row| row.1);
        if files.len() != known {
            let files: Vec<_> = files.iter().map(|path| &**path).collect();
            breaks.push(format!(
                "{name}: {} files, and {known} were known: {}",
                files.len(),
                files.join(", ")
            ));
        }
    }
    let gone = SPREAD.iter().filter(|row| !spread.contains_key(row.0));
    breaks.extend(gone.map(|row| format!("{} has all of its methods: take its row out", row.0)));
    assert!(
        breaks.is_empty(),
        "methods outside of their type's file:\n  {}",
        breaks.join("\n  ")
    );
}

#[test]
fn calls_are_told_apart_by_their_receivers() {
    let code = "\nimpl<T: Fn() -> u8> A<T> {\n    pub(crate) fn one(&self) -> u8 { self.two(); a.self_made(); Self::three(); b.four::<u8>(); c.five }\n    fn two(&self) {}\n}\n\
                impl fmt::Debug for A {\n    fn fmt(&self) {}\n}\n";
    let blocks = blocks(code);
    let types: Vec<_> = blocks.iter().map(|(head, _)| inherent(head)).collect();
    assert_eq!(types, [Some("A".to_owned()), None]);
    let functions = functions(blocks[0].1);
    assert_eq!(
        functions.iter().map(|(name, _)| *name).collect::<Vec<_>>(),
        ["one", "two"]
    );
    let found: Vec<_> = calls(functions[0].1).into_iter().collect();
    assert_eq!(
        found,
        [
            (false, "four"),
            (false, "self_made"),
            (true, "three"),
            (true, "two")
        ]
    );
}
