//! SQLite on the VFS: from Python, whose tests are in `vfs/`, from SQLite's own shell, and from C. What is not there, or can't load
//! extensions, is said and skipped.

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
    let library = test.parent().unwrap().join("libmillpond_sqlite.so");
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

/// Runs a test of `vfs/`, with these settings.
fn passes(name: &str, settings: &str) {
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
        .arg(folder.path());
    let Output {
        status,
        stdout,
        stderr,
    } = command.env("MILLPOND_SQLITE", settings).output().unwrap();
    let said = String::from_utf8_lossy(&stdout);
    print!("{said}");
    assert!(
        status.success(),
        "{name}: {status}\n{said}{}",
        String::from_utf8_lossy(&stderr)
    );
}

/// Makes each of them a test: the function of this name in `vfs/`, with these settings.
macro_rules! in_python {
    ($(fn $name:ident() { $settings:literal })*) => {
        const IN_PYTHON: &[&str] = &[$(stringify!($name)),*];
        $(
            #[test]
            fn $name() {
                passes(stringify!($name), $settings);
            }
        )*
    };
}

in_python! {
    fn what_one_vfs_has_written_the_other_reads() { "memory=8M" }
    fn a_database_is_one_processs_and_others_are_busy() { "memory=8M" }
    fn what_was_committed_is_there_after_a_kill() { "memory=8M" }
    fn threads_with_connections_of_their_own_see_whole_transactions() { "memory=4M" }
    fn a_disk_that_fails_is_an_error_and_what_was_committed_stays() { "memory=8M faults=1" }
    fn threads_on_a_disk_that_fails_now_and_then_lose_nothing_that_was_committed() { "memory=4M faults=1" }
    fn all_databases_of_a_process_have_one_budget_and_settings_by_name() { "memory=24M" }
    fn the_usual_things_work() { "memory=8M" }
    fn a_database_that_may_only_be_read_keeps_writers_out_while_it_is_open() { "memory=8M" }
    fn a_forked_child_has_a_cache_of_its_own() { "memory=8M" }
    fn a_forked_child_that_closes_its_parents_connections_takes_nothing_from_the_parent() { "memory=8M" }
    fn a_forked_child_that_closes_a_database_for_reading_leaves_its_parents_lock() { "memory=8M" }
    fn a_wal_that_may_only_be_read_is_refused_in_every_locking_mode() { "memory=8M" }
    fn a_journal_is_its_databases_owners_and_no_link_is_followed() { "memory=8M" }
    fn settings_of_a_uri_count_when_the_database_is_opened_and_no_more() { "memory=8M" }
    fn it_can_be_the_vfs_of_every_database() { "memory=8M,default=1" }
}

#[test]
fn no_test_in_python_is_left_out() {
    let files = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/vfs");
    let files = files.read_dir().unwrap().map(|entry| entry.unwrap().path());
    let python = files.filter(|path| path.extension().is_some_and(|ending| ending == "py"));
    let text: String = python
        .map(|path| std::fs::read_to_string(path).unwrap())
        .collect();
    let tests = text
        .lines()
        .filter_map(|line| line.strip_prefix("def ")?.strip_suffix("(folder):"));
    let (tests, run) = (
        BTreeSet::from_iter(tests),
        BTreeSet::from_iter(IN_PYTHON.iter().copied()),
    );
    assert_eq!(tests, run);
}

/// Threads that Python's lock does not keep apart.
#[test]
fn a_program_in_c_has_it_inside_and_its_threads_see_whole_transactions() {
    let folder = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let program = folder.path().join("app");
    let archives = library().parent().unwrap().read_dir().unwrap();
    let mut archives: Vec<PathBuf> = archives.map(|entry| entry.unwrap().path()).collect();
    archives.retain(|path| {
        let name = path.file_name().unwrap().to_string_lossy().into_owned();
        name.starts_with("libmillpond_sqlite") && name.ends_with(".a")
    });
    // The newest, as cargo keeps those of other profiles.
    archives.sort_by_key(|path| path.metadata().unwrap().modified().unwrap());
    let mut command = Command::new("cc");
    command.args(["-std=c11", "-D_GNU_SOURCE", "-Wall", "-Wextra", "-Werror", "-O1"]);
    command.arg(Path::new(env!("CARGO_MANIFEST_DIR")).join("examples/app.c"));
    command.arg(archives.last().unwrap());
    command
        .args(["-lsqlite3", "-pthread", "-ldl", "-lm", "-o"])
        .arg(&program);
    let said = match command.output() {
        Err(error) => return println!("skipped: a program in C: cc: {error}"),
        Ok(done) if done.status.success() => String::new(),
        Ok(done) => String::from_utf8_lossy(&done.stderr).into_owned(),
    };
    if said.contains("sqlite3.h: No such file") || said.contains("cannot find -lsqlite3") {
        return println!("skipped: a program in C: no SQLite to link it with");
    }
    assert!(said.is_empty(), "{said}");
    let seconds = std::env::var("MILLPOND_SECONDS").unwrap_or("1".into());
    let seconds = seconds.split('.').next().unwrap().to_owned();
    let output = Command::new(&program)
        .arg(folder.path())
        .arg(seconds)
        .output()
        .unwrap();
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{}: {errors}", output.status);
}

#[test]
fn the_shell_of_sqlite_loads_it_and_uses_it() {
    let folder = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let database = folder.path().join("data.db");
    let library = library();
    let mut command = Command::new("sqlite3");
    command.args(["-bail", ":memory:"]);
    command.arg(format!(".load {}", library.with_extension("").display()));
    command.arg(format!(
        ".open file:{}?vfs=millpond&memory=8M",
        database.display()
    ));
    command.args([
        ".vfsname",
        "create table t(a); insert into t values(42); select a from t; pragma millpond=memory;",
    ]);
    let output = match command.output() {
        Ok(output) => output,
        Err(error) => return println!("skipped: sqlite3: {error}"),
    };
    let said = String::from_utf8_lossy(&output.stdout);
    let errors = String::from_utf8_lossy(&output.stderr);
    if errors.contains("unknown command") {
        return println!("skipped: sqlite3: it can't load extensions");
    }
    assert_eq!(
        (&*said, output.status.code()),
        ("millpond\n42\n8M\n", Some(0)),
        "{errors}"
    );
}
