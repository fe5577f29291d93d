//! Imports go down. Each crate's `lib.rs` has a table of its modules in rows; a file may name only what is in a lower row,
//! and files of different folders never form a circle.
//!
//! ```text
//!   3  manager
//!   2  reclaim  lru      what leaves          a row: its number, its modules with two spaces between them, and behind
//!   1  units             the vocabulary       three or more, what they are for
//! ```
//!
//! Calls of methods go down as well, but for what `methods` knows.
//!
//! A row may name a folder within a folder (`sys/arena`), which then is no part of the outer one. Names that a module hands
//! on (`pub use`) count for the file that defines them. Tests may look up, except those of the core.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    reason = "a test fails by panicking"
)]

mod code;
mod methods;

use code::{paths, single, tests_of, uses, without_comments_and_strings, without_tests};
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

/// Tests of this crate keep to the rows as well.
const TESTS_TOO: &str = "millpond-core";

/// `["engine", "driver"]` for `src/engine/driver/mod.rs`.
type Module = Vec<String>;

struct Source {
    path: String,
    /// Without comments, strings and, as a rule, tests.
    code: String,
}

/// A path in code: the line, and what it names from the root of its crate.
struct Named {
    line: usize,
    path: Module,
}

struct Crate {
    name: String,
    sources: BTreeMap<Module, Source>,
    /// From a name that a module hands on to the one that it stands for.
    handed_on: BTreeMap<Module, Module>,
}

fn module(path: &Path) -> Module {
    let mut parts: Module = path
        .with_extension("")
        .iter()
        .map(|part| part.to_string_lossy().into_owned())
        .collect();
    if parts
        .last()
        .is_some_and(|last| ["mod", "lib", "main"].contains(&&**last))
    {
        parts.pop();
    }
    parts
}

impl Crate {
    fn read(folder: &Path) -> Crate {
        let name = folder.file_name().unwrap().to_string_lossy().into_owned();
        let src = folder.join("src");
        let (mut sources, mut folders) = (BTreeMap::new(), vec![src.clone()]);
        while let Some(folder) = folders.pop() {
            for entry in fs::read_dir(folder).unwrap() {
                let path = entry.unwrap().path();
                if path.is_dir() {
                    folders.push(path);
                } else if path.extension().is_some_and(|end| end == "rs") {
                    let within = path.strip_prefix(&src).unwrap();
                    let source = Source {
                        path: format!("crates/{name}/src/{}", within.display()),
                        code: without_comments_and_strings(&fs::read_to_string(&path).unwrap()),
                    };
                    sources.insert(module(within), source);
                }
            }
        }
        if name != TESTS_TOO {
            let tests: Vec<Module> = sources.iter().flat_map(|(of, s)| tests_of(of, &s.code)).collect();
            sources.retain(|module, _| !tests.iter().any(|test| module.starts_with(test)));
            for source in sources.values_mut() {
                source.code = without_tests(&source.code);
            }
        }
        let mut read = Crate {
            name,
            sources,
            handed_on: BTreeMap::new(),
        };
        for (module, source) in &read.sources {
            for (_, _, tree) in uses(&source.code).into_iter().filter(|(_, on, _)| *on) {
                for (path, name) in single(tree) {
                    if let Some(path) = read.in_crate(module, &path) {
                        let handed = module.iter().cloned().chain([name]).collect();
                        read.handed_on.insert(handed, path);
                    }
                }
            }
        }
        read
    }

    /// The path from the crate's root, if it is one of this crate.
    fn in_crate(&self, module: &[String], path: &str) -> Option<Module> {
        let parts: Vec<String> = path.split("::").map(|part| part.trim().to_owned()).collect();
        let mut from = module.to_vec();
        let mut rest = &parts[..];
        match &*parts[0] {
            "crate" => (from, rest) = (Vec::new(), &rest[1..]),
            "self" => rest = &rest[1..],
            "super" => {
                while rest.first().is_some_and(|part| part == "super") {
                    from.pop();
                    rest = &rest[1..];
                }
            }
            child => {
                from.push(child.to_owned());
                if !self.sources.contains_key(&from) {
                    return None;
                }
                from.pop();
            }
        }
        from.extend_from_slice(rest);
        Some(from)
    }

    /// The file that defines what a path names.
    fn defines(&self, path: &[String]) -> &Module {
        let mut path = path.to_vec();
        // A name may be handed on by several modules, one after the other.
        for _ in 0..8 {
            let handed = (1..=path.len())
                .rev()
                .find(|&n| !self.sources.contains_key(&path[..n]) && self.handed_on.contains_key(&path[..n]));
            let Some(n) = handed else { break };
            path = [&self.handed_on[&path[..n]][..], &path[n..]].concat();
        }
        let known = (0..=path.len())
            .rev()
            .find_map(|n| self.sources.get_key_value(&path[..n]));
        known.expect("a crate has a root").0
    }

    fn names(&self, module: &Module) -> Vec<Named> {
        let code = &self.sources[module].code;
        let used = uses(code)
            .into_iter()
            .flat_map(|(line, _, tree)| single(tree).into_iter().map(move |(path, _)| (line, path)));
        let named = used.chain(paths(code));
        named
            .filter_map(|(line, path)| {
                let path = self.in_crate(module, &path)?;
                Some(Named { line, path })
            })
            .collect()
    }

    /// The imports of a file: each file, and the first line that imports it.
    fn imports(&self, module: &Module) -> BTreeMap<&Module, usize> {
        let mut imports = BTreeMap::new();
        for Named { line, path } in self.names(module) {
            let to = self.defines(&path);
            if to != module {
                let first: &mut usize = imports.entry(to).or_insert(line);
                *first = line.min(*first);
            }
        }
        imports
    }

    /// The table in `lib.rs`: each module, as `a/b`, with its row.
    fn rows(&self, root: &str) -> BTreeMap<String, usize> {
        let mut rows = BTreeMap::new();
        for line in root.lines().filter_map(|line| line.strip_prefix("//")) {
            let line = line.trim_start_matches('!').trim();
            let Some((row, rest)) = line.split_once("  ") else {
                continue;
            };
            let Ok(row) = row.parse() else { continue };
            let names = rest.trim_start().split("   ").next().unwrap();
            for name in names.split("  ") {
                let module: Module = name.split('/').map(str::to_owned).collect();
                assert!(
                    self.sources.contains_key(&module),
                    "{}: row {row} names {name}, which is no module",
                    self.name
                );
                assert!(
                    rows.insert(name.to_owned(), row).is_none(),
                    "{name} is in two rows"
                );
            }
        }
        rows
    }
}

/// The module of the table that `module` belongs to.
fn unit<'a>(rows: &'a BTreeMap<String, usize>, module: &[String]) -> Option<(&'a str, usize)> {
    let within = (1..=module.len()).rev().map(|n| module[..n].join("/"));
    let mut units = within.filter_map(|name| rows.get_key_value(&name));
    units.next().map(|(name, row)| (&**name, *row))
}

fn crates() -> Vec<(Crate, String)> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
    let mut folders: Vec<PathBuf> = fs::read_dir(folder).unwrap().map(|e| e.unwrap().path()).collect();
    folders.sort();
    let of = |folder: PathBuf| {
        let src = folder.join("src");
        let root = ["lib.rs", "main.rs"].map(|root| fs::read_to_string(src.join(root)));
        let root = root.into_iter().find_map(Result::ok)?;
        Some((Crate::read(&folder), root))
    };
    folders.into_iter().filter_map(of).collect()
}

#[test]
fn imports_go_down() {
    let mut breaks = Vec::new();
    for (of, root) in crates() {
        let rows = of.rows(&root);
        if rows.is_empty() {
            if of.sources.len() > 1 {
                breaks.push(format!("{}: lib.rs has no table of its modules in rows", of.name));
            }
            continue;
        }
        for (module, source) in of.sources.iter().filter(|(module, _)| !module.is_empty()) {
            let Some((from, row)) = unit(&rows, module) else {
                breaks.push(format!("{}: is in no row of the table in lib.rs", source.path));
                continue;
            };
            for (to, line) in of.imports(module) {
                let Some((to, below)) = unit(&rows, to) else {
                    continue;
                };
                if from != to && below >= row {
                    breaks.push(format!("{}:{line}: {from} -> {to}", source.path));
                }
            }
        }
    }
    assert!(
        breaks.is_empty(),
        "a file imports only from lower rows:\n  {}",
        breaks.join("\n  ")
    );
}

/// Files that import one another, directly or by others; a module and those within it aside.
fn circles<'a>(imports: &BTreeMap<&'a Module, BTreeSet<&'a Module>>) -> Vec<Vec<&'a Module>> {
    let reached = |from: &'a Module| {
        let (mut seen, mut next) = (BTreeSet::new(), vec![from]);
        while let Some(at) = next.pop() {
            next.extend(imports[at].iter().filter(|to| seen.insert(**to)));
        }
        seen
    };
    let reach: BTreeMap<_, _> = imports.keys().map(|from| (*from, reached(from))).collect();
    let mut found: Vec<Vec<&Module>> = Vec::new();
    for from in imports.keys() {
        if reach[from].contains(from) && !found.iter().any(|circle| circle.contains(from)) {
            let with = reach[from].iter().filter(|to| reach[**to].contains(from));
            found.push(with.copied().collect());
        }
    }
    found
}

/// The folder of a module: its own if there are modules within it.
fn folder<'a>(of: &Crate, module: &'a Module) -> &'a [String] {
    let is_within = |other: &Module| other.len() > module.len() && other.starts_with(module);
    match of.sources.keys().any(is_within) || module.is_empty() {
        true => module,
        false => &module[..module.len() - 1],
    }
}

#[test]
fn files_of_different_folders_form_no_circle() {
    let mut breaks = Vec::new();
    for (of, _) in crates() {
        let mut imports = BTreeMap::new();
        for module in of.sources.keys() {
            let all = of.imports(module).into_keys();
            let beside = all.filter(|to| !to.starts_with(module) && !module.starts_with(to));
            imports.insert(module, beside.collect());
        }
        let across = circles(&imports)
            .into_iter()
            .filter(|circle| circle.iter().any(|m| folder(&of, m) != folder(&of, circle[0])));
        for circle in across {
            let paths: Vec<_> = circle.iter().map(|m| &*of.sources[*m].path).collect();
            breaks.push(format!("{}: {}", of.name, paths.join(", ")));
        }
    }
    assert!(breaks.is_empty(), "files in circles:\n  {}", breaks.join("\n  "));
}
