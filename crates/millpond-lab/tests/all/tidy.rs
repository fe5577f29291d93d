//! The house rules that a program can check. Each test reads the tree and lists all that breaks its rule.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    reason = "a test fails by panicking"
)]

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// No file under version control is larger: a picture has 145 KiB.
const BYTES_MAX: u64 = 200 << 10;

/// What is made from sources and kept all the same, and how large it may be: the playground's module, so that a build needs no
/// compiler for WebAssembly. It is made anew when it would do something else, not with every change.
const MADE: (&str, u64) = ("crates/millpond-playground/src/page/module.wasm.gz", 400 << 10);

/// Allowed names that begin with a dot.
const HIDDEN: &[&str] = &[".ci", ".gitignore"];

/// Cargo's build folders. Other folders of that name are sources.
const BUILT: &[&str] = &["target", "bench/target", "crates/millpond-volumes/target"];

/// Files of bytes, not of text.
const BINARY: &[&str] = &[".png"];

/// The only folders with unsafe code: what is asked of the system, and the borders to C.
const UNSAFE: [&str; 4] = [
    "crates/millpond/src/sys/",
    "crates/millpond-capi/src/ffi/",
    "crates/millpond-playground/src/ffi/",
    "crates/millpond-sqlite/src/ffi/",
];

struct Text {
    /// From the root of the repository, with slashes.
    path: String,
    text: String,
}

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../..")
        .canonicalize()
        .unwrap()
}

/// All texts of the repository: code, documents, settings, scripts.
fn texts() -> Vec<Text> {
    let root = root();
    let (mut texts, mut folders) = (Vec::new(), vec![root.clone()]);
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(&folder).unwrap() {
            let path = entry.unwrap().path();
            let name = path.file_name().unwrap().to_string_lossy().into_owned();
            if path.is_dir() {
                let is_built = BUILT.iter().any(|built| path == root.join(built));
                if !is_built && (!name.starts_with('.') || name == ".ci") {
                    folders.push(path);
                }
                continue;
            }
            let is_text = [
                ".rs", ".md", ".toml", ".lock", ".sh", ".c", ".h", ".cpp", ".hpp", ".py",
            ]
            .iter()
            .any(|end| name.ends_with(end))
                || name == "run";
            if is_text {
                texts.push(Text {
                    path: path.strip_prefix(&root).unwrap().to_string_lossy().into_owned(),
                    text: fs::read_to_string(&path).unwrap(),
                });
            }
        }
    }
    assert!(
        texts.len() > 100,
        "only {} texts below {}",
        texts.len(),
        root.display()
    );
    texts.sort_by(|a, b| a.path.cmp(&b.path));
    texts
}

fn code() -> impl Iterator<Item = Text> {
    texts().into_iter().filter(|t| t.path.ends_with(".rs"))
}

fn documents() -> impl Iterator<Item = Text> {
    texts().into_iter().filter(|t| t.path.ends_with(".md"))
}

fn assert_none(rule: &str, breaks: &[String]) {
    assert!(breaks.is_empty(), "{rule}:\n  {}", breaks.join("\n  "));
}

/// Lines with one of `words` in texts that `of` picks.
fn lines_with(words: &[&str], of: impl Fn(&str) -> bool) -> Vec<String> {
    let mut found = Vec::new();
    for Text { path, text } in texts() {
        for (n, line) in text.lines().enumerate() {
            if of(&path) && words.iter().any(|word| line.contains(word)) {
                found.push(format!("{path}:{}: {}", n + 1, line.trim()));
            }
        }
    }
    found
}

/// The text between backticks, without code blocks.
fn quoted(text: &str) -> Vec<&str> {
    let mut is_code = false;
    let mut spans = Vec::new();
    for line in text.lines() {
        is_code ^= line.trim_start().starts_with("```");
        if !is_code {
            spans.extend(line.split('`').skip(1).step_by(2));
        }
    }
    spans
}

/// The fault of a file with this path and these bytes under version control.
fn is_no_source(path: &str, bytes: &[u8]) -> Option<&'static str> {
    let hidden = path
        .split('/')
        .any(|part| part.starts_with('.') && !HIDDEN.contains(&part));
    let temporary = ["~", ".tmp", ".swp", ".orig", ".rej", ".bak", ".o", ".so", ".pyc"]
        .iter()
        .any(|end| path.ends_with(end));
    let is_text = !bytes.contains(&0) && std::str::from_utf8(bytes).is_ok();
    let is_made = path == MADE.0 && bytes.len() as u64 <= MADE.1;
    match () {
        () if is_made => None,
        () if hidden => Some("is hidden"),
        () if temporary => Some("is temporary, by its name"),
        () if bytes.len() as u64 > BYTES_MAX => Some("is large"),
        () if !is_text && !BINARY.iter().any(|end| path.ends_with(end)) => Some("is no text"),
        () => None,
    }
}

/// A test had died and left its folder in the sources, with a swap file of 33 MB, and a commit took it along.
#[test]
fn only_sources_are_under_version_control() {
    let listed = Command::new("git")
        .args(["ls-files", "-z", "--cached"])
        .current_dir(root())
        .output();
    let files = match listed {
        Ok(listed) if listed.status.success() => String::from_utf8(listed.stdout).unwrap(),
        Ok(listed) => return println!("skipped: git: {}", String::from_utf8_lossy(&listed.stderr).trim()),
        Err(error) => return println!("skipped: git: {error}"),
    };
    let files: Vec<_> = files.split_terminator('\0').collect();
    assert!(files.len() > 100, "only {files:?}");
    // What is listed and not there is about to be taken out.
    let there = files
        .iter()
        .filter_map(|&path| Some((path, fs::read(root().join(path)).ok()?)));
    let breaks: Vec<_> = there
        .filter_map(|(path, bytes)| Some(format!("{path} {}", is_no_source(path, &bytes)?)))
        .collect();
    assert_none("only sources are under version control", &breaks);
    for (path, bytes) in [
        ("crates/millpond/.tmpNKSFxj/swap", &b"x"[..]),
        (".env", b"x"),
        ("src/lib.rs.orig", b"x"),
        ("docs/data.txt", &[b'x'; (BYTES_MAX + 1) as usize]),
        ("docs/data.bin", b"a\0b"),
        (MADE.0, &[0; (MADE.1 + 1) as usize]),
    ] {
        assert!(is_no_source(path, bytes).is_some(), "{path}");
    }
}

/// It panics where standard error can't be written to: on a terminal that was closed.
#[test]
fn no_print_panics_when_the_terminal_is_gone() {
    let words = [concat!("eprint", "ln!("), concat!("eprint", "!(")];
    let mut found = lines_with(&words, |path| path.contains("/src/"));
    // An example in the documentation is another program's.
    found.retain(|line| !line.contains(" //! ") && !line.contains(" /// "));
    assert_none(
        "take `say!`, or writeln! to stderr and leave its error alone",
        &found,
    );
}

#[test]
fn tests_make_no_folders_among_the_sources() {
    let words = [concat!("tempdir_in(env!(\"CARGO_", "MANIFEST_DIR\"))")];
    assert_none(
        "make them below the build: CARGO_TARGET_TMPDIR, or scratch beside the code",
        &lines_with(&words, |_| true),
    );
}

#[test]
fn unsafe_code_is_where_the_system_and_c_are() {
    // Put together here, so that this file does not break its own rules.
    let keyword = concat!("un", "safe");
    let forms = ["{", "fn ", "impl ", "extern ", "trait ", "("].map(|after| match after {
        "(" => format!("#[{keyword}("),
        "{" => format!("{keyword} {{"),
        _ => format!("{keyword} {after}"),
    });
    let forms: Vec<&str> = forms.iter().map(String::as_str).collect();
    let is_allowed = |path: &str| UNSAFE.iter().any(|folder| path.starts_with(folder));
    let breaks = lines_with(&forms, |path| path.ends_with(".rs") && !is_allowed(path));
    assert_none(&format!("only {UNSAFE:?} have unsafe code"), &breaks);
    for folder in UNSAFE {
        let inside = lines_with(&forms, |path| path.starts_with(folder));
        assert!(
            inside.len() > 10,
            "the rule finds nothing where there is much: {inside:?}"
        );
    }
}

#[test]
fn no_notes_of_work_left_to_do() {
    let words = [concat!("TO", "DO"), concat!("FIX", "ME"), concat!("X", "XX")];
    assert_none("do it, or write an issue", &lines_with(&words, |_| true));
}

#[test]
fn no_place_of_one_machine_and_no_registry_is_named() {
    let places = [
        concat!("/wo", "rk/"),
        concat!("/tmp/", "wt"),
        concat!("/tmp/", "target"),
        concat!("/ro", "ot/"),
        concat!("/ho", "me/"),
    ];
    assert_none("paths of one machine", &lines_with(&places, |_| true));
    let registries = [
        concat!("crates", ".io"),
        concat!("pypi", ".org"),
        concat!("npmjs", "."),
        concat!("proxy.", "golang"),
    ];
    let is_usual = concat!("\"registry+https://github.com/rust-lang/crates", ".io-index\"");
    let breaks: Vec<_> = lines_with(&registries, |_| true)
        .into_iter()
        .filter(|line| {
            let locks = [
                "Cargo.lock:",
                "bench/Cargo.lock:",
                "crates/millpond-volumes/Cargo.lock:",
            ];
            let is_lock = locks.iter().any(|lock| line.starts_with(lock));
            !(is_lock && line.ends_with(is_usual))
        })
        .collect();
    assert_none("hosts of registries", &breaks);
}

#[test]
fn the_readme_shows_the_first_example_as_it_is() {
    let readme = fs::read_to_string(root().join("README.md")).unwrap();
    let example = fs::read_to_string(root().join("crates/millpond/examples/first.rs")).unwrap();
    let shown = readme
        .split("```rust\n")
        .nth(1)
        .and_then(|rest| rest.split("```").next())
        .expect("README.md has a Rust example");
    let code: Vec<_> = example
        .lines()
        .skip_while(|line| line.starts_with("//!") || line.starts_with("#!") || line.is_empty())
        .collect();
    assert_eq!(shown.lines().collect::<Vec<_>>(), code);
}

/// The anchor of each heading after a link's `#`, as GitHub makes it.
fn anchors(text: &str) -> impl Iterator<Item = String> {
    let headings = text.lines().filter(|line| line.starts_with('#'));
    headings.map(|line| {
        let words = line.trim_start_matches('#').trim().to_lowercase();
        let kept = words
            .chars()
            .filter(|c| c.is_alphanumeric() || " -_".contains(*c));
        kept.map(|c| if c == ' ' { '-' } else { c }).collect()
    })
}

#[test]
fn links_and_files_in_documents_exist() {
    let (root, texts) = (root(), texts());
    let mut breaks = Vec::new();
    for Text { path, text } in documents() {
        let folder = root.join(&path).parent().unwrap().to_owned();
        let links = text.split("](").skip(1).filter_map(|rest| rest.split(')').next());
        for link in links.filter(|link| !link.contains("://")) {
            let (file, heading) = link.split_once('#').unwrap_or((link, ""));
            let there = match file {
                "" => root.join(&path),
                _ => folder.join(file),
            };
            let is_heading =
                || fs::read_to_string(&there).is_ok_and(|text| anchors(&text).any(|a| a == heading));
            if !there.exists() || !(heading.is_empty() || is_heading()) {
                breaks.push(format!("{path}: link to {link}"));
            }
        }
        let is_name = |span: &&str| {
            span.ends_with(".rs")
                && span
                    .chars()
                    .all(|c| c.is_ascii_alphanumeric() || "_-./".contains(c))
        };
        for name in quoted(&text).into_iter().filter(is_name) {
            let ending = format!("/{name}");
            if !texts.iter().any(|t| t.path == name || t.path.ends_with(&ending)) {
                breaks.push(format!("{path}: file {name}"));
            }
        }
    }
    assert_none("documents name what is not there", &breaks);
}

#[test]
fn tests_that_documents_name_exist() {
    let code: Vec<_> = code().collect();
    let mut named = 0;
    let mut breaks = Vec::new();
    for Text { path, text } in documents() {
        for span in quoted(&text) {
            let is_name = |s: &str| {
                s.contains('_')
                    && s.chars()
                        .all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_')
            };
            let is_test = |(place, name): &(&str, &str)| is_name(name) && *place == place.to_lowercase();
            let Some((place, name)) = span.split_once("::").filter(is_test) else {
                continue;
            };
            named += 1;
            let is_there = |t: &Text| {
                t.path
                    .split('/')
                    .any(|part| part.trim_end_matches(".rs") == place)
                    && t.text.contains(&format!("fn {name}("))
            };
            if !code.iter().any(is_there) {
                breaks.push(format!("{path}: {span}"));
            }
        }
    }
    assert!(
        named > 50,
        "only {named} tests are named: does the rule still find them?"
    );
    assert_none("documents name tests that are not there", &breaks);
}
