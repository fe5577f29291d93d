//! SQLite on stores, from Python, whose tests are in `vfs/`. Where its sqlite3 can't load extensions, that is said and they
//! are skipped.

#![allow(
    clippy::unwrap_used,
    clippy::print_stdout,
    reason = "a test fails by panicking and prints why it was skipped"
)]

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::OnceLock;

/// Where cargo has put the library.
fn library() -> PathBuf {
    let test = std::env::current_exe().unwrap();
    let library = test.parent().unwrap().join("libmillpond_volumes_sqlite.so");
    assert!(library.exists(), "no {}", library.display());
    library
}

/// A Python whose sqlite3 can load extensions, or why there is none.
fn python() -> &'static Result<String, String> {
    static PYTHON: OnceLock<Result<String, String>> = OnceLock::new();
    PYTHON.get_or_init(|| {
        let probe = "import sqlite3; c = sqlite3.connect(':memory:'); c.enable_load_extension(True)";
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

/// Runs a test of `vfs/`.
fn passes(name: &str) {
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
        .arg(library())
        .arg(name)
        .arg(folder.path())
        .env("MILLPOND_HAS_S3", if cfg!(feature = "s3") { "1" } else { "0" });
    let Output {
        status,
        stdout,
        stderr,
    } = command.output().unwrap();
    let said = String::from_utf8_lossy(&stdout);
    print!("{said}");
    assert!(
        status.success(),
        "{name}: {status}\n{said}{}",
        String::from_utf8_lossy(&stderr)
    );
}

/// Makes each of them a test: the function of this name in `vfs/`.
macro_rules! in_python {
    ($(fn $name:ident();)*) => {
        const IN_PYTHON: &[&str] = &[$(stringify!($name)),*];
        $(
            #[test]
            fn $name() {
                passes(stringify!($name));
            }
        )*
    };
}

in_python! {
    fn the_usual_things_work_in_every_journal_mode();
    fn threads_see_whole_transactions();
    fn one_process_has_a_store_and_one_that_lost_it_is_told();
    fn what_was_committed_is_there_after_a_kill();
    fn what_is_not_possible_is_an_error();
    fn all_of_it_on_a_server();
}

#[test]
fn no_test_in_python_is_left_out() {
    let text = include_str!("vfs/stores.py");
    let tests = text
        .lines()
        .filter_map(|line| line.strip_prefix("def ")?.split_once('(').map(|(name, _)| name));
    let (tests, run) = (
        BTreeSet::from_iter(tests),
        BTreeSet::from_iter(IN_PYTHON.iter().copied()),
    );
    assert_eq!(tests, run);
}

#[test]
fn a_program_that_links_sqlite_has_it_inside() {
    let folder = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let program = folder.path().join("app");
    let archive = library().with_extension("a");
    let mut command = Command::new("cc");
    command.args(["-std=c11", "-Wall", "-Wextra", "-Werror"]);
    command.arg(Path::new(env!("CARGO_MANIFEST_DIR")).join("examples/app.c"));
    command.arg(archive);
    command
        .args(["-lsqlite3", "-pthread", "-ldl", "-lm", "-o"])
        .arg(&program);
    let said = match command.output() {
        Err(error) => return println!("skipped: a program that links SQLite: cc: {error}"),
        Ok(done) if done.status.success() => String::new(),
        Ok(done) => String::from_utf8_lossy(&done.stderr).into_owned(),
    };
    if said.contains("sqlite3.h: No such file") || said.contains("cannot find -lsqlite3") {
        return println!("skipped: a program that links SQLite: there is none");
    }
    assert!(said.is_empty(), "{said}");
    let store = format!("file://{}/store", folder.path().display());
    for count in ["1", "2"] {
        let output = Command::new(&program).arg(&store).output().unwrap();
        let errors = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{}: {errors}", output.status);
        let said = String::from_utf8_lossy(&output.stdout);
        assert_eq!(said, format!("wal\n{count}\n"), "{errors}");
    }
}
