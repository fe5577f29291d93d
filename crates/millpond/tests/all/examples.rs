//! The examples, run as their users run them. `cargo test -p millpond` builds them; `--test all` does not.

use crate::support::{Place, bounded, skip};
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Each with arguments that make it short where it measures. `FOLDER` is the folder for its files.
const EXAMPLES: [(&str, &[&str]); 11] = [
    ("async_cost", &["FOLDER", "0", "1"]),
    ("find_a_bug", &[]),
    ("first", &[]),
    ("kv", &[]),
    ("log_before_page", &[]),
    ("one_budget", &["FOLDER/data", "FOLDER", "8", "1", "1"]),
    ("record_cost", &[]),
    ("records", &[]),
    (
        "region_faults",
        &["8", "4", "1", "1", "FOLDER", "floor,read1", "in-thread"],
    ),
    ("region_words", &["8", "4", "2", "1", "FOLDER/swap", "in-thread"]),
    ("retune", &["FOLDER", "1"]),
];

/// The program, if it was built of the sources as they are.
fn built(name: &str) -> io::Result<Option<PathBuf>> {
    let own = std::env::current_exe()?;
    let folder = own.ancestors().nth(2).ok_or(io::ErrorKind::NotFound)?;
    let program = folder.join("examples").join(name);
    let Ok(built) = fs::metadata(&program).and_then(|meta| meta.modified()) else {
        return Ok(None);
    };
    // As cargo lists them: `program: source source ...`.
    let sources = fs::read_to_string(program.with_extension("d"))?;
    let sources = sources.split_once(": ").map_or("", |(_, sources)| sources);
    let is_older = |source: &str| fs::metadata(source).and_then(|meta| Ok(meta.modified()? <= built));
    let is_fresh = sources
        .split_whitespace()
        .all(|source| is_older(source).unwrap_or(false));
    Ok(is_fresh.then_some(program))
}

/// The store's main reported a crash that lost data, and exited with 0.
#[test]
fn every_example_succeeds_and_leaves_no_file() {
    let sources = fs::read_dir(Path::new(env!("CARGO_MANIFEST_DIR")).join("examples")).unwrap();
    let stem = |path: PathBuf| path.file_stem().unwrap().to_str().unwrap().to_owned();
    let mut names: Vec<_> = sources.map(|entry| stem(entry.unwrap().path())).collect();
    names.sort();
    assert_eq!(
        names,
        EXAMPLES.map(|(name, _)| name),
        "an example without its arguments"
    );

    for (name, arguments) in EXAMPLES {
        let Some(program) = built(name).unwrap() else {
            skip(format_args!(
                "example {name} is not built as it is: cargo build -p millpond --examples"
            ));
            continue;
        };
        bounded(move || {
            let (folder, sockets) = (Place::Disk.folder(), Place::Memory.folder());
            let at = folder.path().to_str().unwrap();
            let arguments = arguments.iter().map(|argument| argument.replace("FOLDER", at));
            let ran = Command::new(program)
                .args(arguments)
                .env("TMPDIR", at)
                .env("XDG_RUNTIME_DIR", sockets.path())
                .output()
                .unwrap();
            let [said, complaint] = [&ran.stdout, &ran.stderr].map(|bytes| String::from_utf8_lossy(bytes));
            assert!(
                ran.status.success(),
                "{name}: {}\n{said}\n{complaint}",
                ran.status
            );
            let left: Vec<_> = fs::read_dir(at)
                .unwrap()
                .map(|entry| entry.unwrap().path())
                .collect();
            assert!(left.is_empty(), "{name} leaves {left:?}");
        });
    }
}
