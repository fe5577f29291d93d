//! SQLite on stores, from Python, whose tests are in `vfs/`. Where its sqlite3 can't load extensions, that is said and they
//! are skipped.

#![allow(
    clippy::unwrap_used,
    clippy::print_stdout,
    reason = "a test fails by panicking and prints why it was skipped"
)]

#[path = "../../../millpond-sqlite/tests/extension/mod.rs"]
mod extension;

use extension::{links, none_is_left_out, passes};
use std::path::PathBuf;
use std::process::Command;

const HAS_S3: &str = if cfg!(feature = "s3") { "1" } else { "0" };

fn library() -> PathBuf {
    extension::library("millpond_volumes_sqlite")
}

/// Makes each of them a test: the function of this name in `vfs/`.
macro_rules! in_python {
    ($(fn $name:ident();)*) => {
        const IN_PYTHON: &[&str] = &[$(stringify!($name)),*];
        $(
            #[test]
            fn $name() {
                passes(&library(), stringify!($name), ("MILLPOND_HAS_S3", HAS_S3));
            }
        )*
    };
}

in_python! {
    fn the_usual_things_work_in_every_journal_mode();
    fn threads_see_whole_transactions();
    fn one_process_has_a_store_and_one_that_lost_it_is_told();
    fn committed_transactions_survive_a_kill();
    fn a_reader_follows_the_writer_by_whole_transactions();
    fn a_reader_only_reads();
    fn what_was_not_synced_is_committed_every_so_often();
    fn what_is_not_possible_is_an_error();
    fn all_of_it_on_a_server();
}

#[test]
fn no_test_in_python_is_left_out() {
    none_is_left_out(IN_PYTHON);
}

#[test]
fn a_program_that_links_sqlite_has_it_inside() {
    let folder = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let program = folder.path().join("app");
    if !links(&library().with_extension("a"), &[], &program) {
        return;
    }
    let store = format!("file://{}/store", folder.path().display());
    for count in ["1", "2"] {
        let output = Command::new(&program).arg(&store).output().unwrap();
        let errors = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{}: {errors}", output.status);
        let said = String::from_utf8_lossy(&output.stdout);
        assert_eq!(said, format!("wal\n{count}\n"), "{errors}");
    }
}
