//! SQLite on the VFS: from Python, whose tests are in `vfs/`, from SQLite's own shell, and from C. What is not there, or can't load
//! extensions, is said and skipped.

#![allow(
    clippy::unwrap_used,
    clippy::print_stdout,
    reason = "a test fails by panicking and prints why it was skipped"
)]

mod extension;

use extension::{links, none_is_left_out, passes};
use std::path::PathBuf;
use std::process::Command;

fn library() -> PathBuf {
    extension::library("millpond_sqlite")
}

/// Makes each of them a test: the function of this name in `vfs/`, with these settings.
macro_rules! in_python {
    ($(fn $name:ident() { $settings:literal })*) => {
        const IN_PYTHON: &[&str] = &[$(stringify!($name)),*];
        $(
            #[test]
            fn $name() {
                passes(&library(), stringify!($name), ("MILLPOND_SQLITE", $settings));
            }
        )*
    };
}

in_python! {
    fn each_vfs_reads_what_the_other_wrote() { "memory=8M" }
    fn a_database_is_one_processs_and_others_are_busy() { "memory=8M" }
    fn committed_transactions_survive_a_kill() { "memory=8M" }
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
    fn a_parameter_that_is_off_is_off_in_each_form_that_sqlite_knows() { "memory=8M,default=OFF,faults=no,control=0" }
    fn refusals_have_the_numbers_of_sqlite_s_own_vfs() { "memory=8M" }
    fn a_journal_that_may_not_be_made_is_a_folder_that_may_only_be_read() { "memory=8M" }
    fn a_wal_that_may_not_be_read_can_not_be_opened() { "memory=8M" }
    fn each_sqlite_of_a_process_that_loads_it_has_it() { "memory=8M" }
    fn a_named_database_in_memory_is_one_if_it_was_opened_after_the_library_was_loaded() { "memory=8M,default=1" }
}

#[test]
fn no_test_in_python_is_left_out() {
    none_is_left_out(IN_PYTHON);
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
    if !links(archives.last().unwrap(), &["-O1"], &program) {
        return;
    }
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
    // As docs/SQLITE.md has it on one line.
    command.args(["-bail", ":memory:", "-cmd"]);
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
