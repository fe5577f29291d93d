//! The common part of the tests of loadable extensions: this crate's, and that for stores.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::OnceLock;

/// The path of cargo's library with this name.
pub(crate) fn library(name: &str) -> PathBuf {
    let test = std::env::current_exe().unwrap();
    let library = test.parent().unwrap().join(format!("lib{name}.so"));
    assert!(library.exists(), "no {}", library.display());
    library
}

/// A Python whose sqlite3 can load extensions, or why there is none.
fn python() -> &'static Result<String, String> {
    static PYTHON: OnceLock<Result<String, String>> = OnceLock::new();
    PYTHON.get_or_init(|| {
        let probe =
            "import sqlite3; c = sqlite3.connect(':memory:'); c.enable_load_extension(True); c.backup";
        let works = |name: &String| {
            let asked = Command::new(name).args(["-c", probe]).output();
            asked.is_ok_and(|answer| answer.status.success())
        };
        let own = std::env::var("MILLPOND_PYTHON").ok();
        let names = own
            .into_iter()
            .chain(["python3".into(), "/usr/bin/python3".into()]);
        let found = names.into_iter().find(works);
        found.ok_or_else(|| "no Python whose sqlite3 can load extensions".into())
    })
}

/// Runs a test of the package's `tests/vfs/` with the library, and with a variable of the environment.
pub(crate) fn passes(library: &Path, name: &str, (variable, value): (&str, &str)) {
    let python = match python() {
        Ok(python) => python,
        Err(why) => return println!("skipped: {name}: {why}"),
    };
    let folder = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/vfs/run.py");
    let mut command = Command::new(python);
    command
        .arg("-B")
        .arg(script)
        .arg(library)
        .arg(name)
        .arg(folder.path());
    let Output {
        status,
        stdout,
        stderr,
    } = command.env(variable, value).output().unwrap();
    let said = String::from_utf8_lossy(&stdout);
    print!("{said}");
    assert!(
        status.success(),
        "{name}: {status}\n{said}{}",
        String::from_utf8_lossy(&stderr)
    );
}

/// Checks that each function of `tests/vfs/` that needs only a folder is among those that are run.
pub(crate) fn none_is_left_out(run: &[&str]) {
    let files = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/vfs");
    let files = files.read_dir().unwrap().map(|entry| entry.unwrap().path());
    let python = files.filter(|path| path.extension().is_some_and(|ending| ending == "py"));
    let text: String = python
        .map(|path| std::fs::read_to_string(path).unwrap())
        .collect();
    let tests = text.lines().filter_map(|line| {
        let (name, arguments) = line.strip_prefix("def ")?.strip_suffix("):")?.split_once('(')?;
        let mut arguments = arguments.split(", ");
        let is_test =
            ["folder", "_folder"].contains(&arguments.next()?) && arguments.all(|more| more.contains('='));
        is_test.then_some(name)
    });
    let (tests, run) = (
        BTreeSet::from_iter(tests),
        BTreeSet::from_iter(run.iter().copied()),
    );
    assert_eq!(tests, run);
}

/// Links the package's `examples/app.c` with SQLite and the archive. If that can't be done here it says why, and it is false.
pub(crate) fn links(archive: &Path, flags: &[&str], program: &Path) -> bool {
    let skipped = |why: String| {
        println!("skipped: a program in C: {why}");
        false
    };
    let mut command = Command::new("cc");
    command
        .args(["-std=c11", "-Wall", "-Wextra", "-Werror"])
        .args(flags);
    command.arg(Path::new(env!("CARGO_MANIFEST_DIR")).join("examples/app.c"));
    command.arg(archive);
    command
        .args(["-lsqlite3", "-pthread", "-ldl", "-lm", "-o"])
        .arg(program);
    let said = match command.output() {
        Err(error) => return skipped(format!("cc: {error}")),
        Ok(done) if done.status.success() => return true,
        Ok(done) => String::from_utf8_lossy(&done.stderr).into_owned(),
    };
    if said.contains("sqlite3.h: No such file") || said.contains("cannot find -lsqlite3") {
        return skipped("no SQLite to link it with".into());
    }
    panic!("{said}");
}
