//! RocksDB on the C library: a database that is written, compacted, copied, killed and refused by its disk. Where RocksDB's
//! headers, or a compiler of C++, are missing it is skipped.

#![allow(
    clippy::unwrap_used,
    clippy::print_stdout,
    reason = "a test fails by panicking and prints why it was skipped"
)]

use std::path::Path;
use std::process::Command;

fn run(what: &str, command: &mut Command) -> String {
    let output = command.output().unwrap();
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(
        output.status.success(),
        "{what}: {}\n{said}{}",
        output.status,
        String::from_utf8_lossy(&output.stderr)
    );
    said
}

#[test]
fn a_database_on_millpond_loses_nothing_that_was_synced_and_outlives_a_full_disk() {
    if !Path::new("/usr/include/rocksdb/file_system.h").exists() {
        println!("skipped: RocksDB's headers (librocksdb-dev) are not there");
        return;
    }
    if Command::new("c++").arg("--version").output().is_err() {
        println!("skipped: c++: it is not there");
        return;
    }
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    let source = here.join("../../integrations/rocksdb");
    let test = std::env::current_exe().unwrap();
    let libraries = test.parent().unwrap();
    let folder = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let program = folder.path().join("test");
    let mut compiler = Command::new("c++");
    compiler.args(["-std=c++17", "-Wall", "-Wextra", "-Werror", "-O1"]);
    compiler
        .arg("-I")
        .arg(&source)
        .arg("-I")
        .arg(here.join("include"));
    compiler.args([source.join("millpond_file_system.cc"), source.join("test.cc")]);
    compiler
        .arg("-L")
        .arg(libraries)
        .args(["-lmillpond_capi", "-lrocksdb", "-pthread"]);
    compiler.arg(format!("-Wl,-rpath,{}", libraries.display()));
    run("compiling", compiler.arg("-o").arg(&program));
    let said = run(
        "the database",
        Command::new(&program).arg(folder.path().join("database")),
    );
    assert!(said.ends_with("all is well\n"), "{said}");
}
