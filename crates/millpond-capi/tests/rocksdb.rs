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

/// `LD_PRELOAD` of the installed library ended with "cannot open shared object file"; without `libmillpond` there was a stack of
/// CMake's own files.
#[test]
fn an_installed_file_system_finds_its_library_and_cmake_says_what_it_lacks() {
    if !Path::new("/usr/include/rocksdb/file_system.h").exists() {
        return println!("skipped: RocksDB's headers (librocksdb-dev) are not there");
    }
    if Command::new("cmake").arg("--version").output().is_err() {
        return println!("skipped: cmake: it is not there");
    }
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    let test = std::env::current_exe().unwrap();
    let libraries = test.parent().unwrap();
    let folder = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let configure = |build: &Path| {
        let mut cmake = Command::new("cmake");
        cmake.arg("-S").arg(here.join("../../integrations/rocksdb"));
        cmake.arg("-B").arg(build).arg("-DCMAKE_BUILD_TYPE=Debug");
        cmake
    };
    let lacking = configure(&folder.path().join("lacking"))
        .env("PKG_CONFIG_LIBDIR", folder.path())
        .env_remove("PKG_CONFIG_PATH")
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&lacking.stderr);
    assert!(
        !lacking.status.success() && said.contains("-DMILLPOND_LIBRARY=FILE"),
        "{said}"
    );
    assert!(!said.contains("FindPkgConfig.cmake"), "{said}");

    let (build, prefix) = (folder.path().join("build"), folder.path().join("prefix"));
    let library = libraries.join("libmillpond_capi.so");
    let mut cmake = configure(&build);
    cmake.arg(format!("-DMILLPOND_INCLUDE={}", here.join("include").display()));
    cmake.arg(format!("-DMILLPOND_LIBRARY={}", library.display()));
    cmake.args(["-DCMAKE_INSTALL_LIBDIR=lib"]);
    run("cmake", &mut cmake);
    run("cmake --build", Command::new("cmake").arg("--build").arg(&build));
    let mut install = Command::new("cmake");
    install.arg("--install").arg(&build).arg("--prefix").arg(&prefix);
    run("cmake --install", &mut install);
    let mut program = Command::new("true");
    program.env("LD_PRELOAD", prefix.join("lib/librocksdb_millpond.so"));
    let preloaded = program.env_remove("LD_LIBRARY_PATH").output().unwrap();
    let said = String::from_utf8_lossy(&preloaded.stderr);
    assert!(preloaded.status.success() && said.is_empty(), "{said}");
}
