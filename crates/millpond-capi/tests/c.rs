//! The library as C and C++ programs have it: compiled by the compilers that are there, linked in both ways, run, and run
//! under what watches memory. A machine without a C compiler skips all of it.
//!
//! The library is the one that cargo has built beside this test.

#![allow(
    clippy::unwrap_used,
    clippy::print_stdout,
    reason = "a test fails by panicking and prints why it was skipped"
)]

use seccompiler::{SeccompAction, SeccompFilter};
use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

const STRICT: [&str; 6] = ["-Wall", "-Wextra", "-Wpedantic", "-Werror", "-O1", "-g"];

fn here() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// Where cargo has put the libraries.
fn libraries() -> PathBuf {
    let test = std::env::current_exe().unwrap();
    let folder = test.parent().unwrap();
    assert!(
        folder.join("libmillpond_capi.so").exists(),
        "no libmillpond_capi.so beside {}",
        test.display()
    );
    folder.to_owned()
}

/// The static one.
fn archive() -> PathBuf {
    let files = std::fs::read_dir(libraries())
        .unwrap()
        .map(|entry| entry.unwrap().path());
    let archives = files.filter(|path| {
        let name = path.file_name().unwrap().to_string_lossy().into_owned();
        name.starts_with("libmillpond_capi") && name.ends_with(".a")
    });
    // The newest, as cargo keeps those of other profiles.
    archives
        .max_by_key(|path| path.metadata().unwrap().modified().unwrap())
        .unwrap()
}

fn is_there(program: &str) -> bool {
    let asked = Command::new(program).arg("--version").output();
    asked.is_ok_and(|answer| answer.status.success())
}

/// Compilers of C (or C++) that are there; says which are not.
fn compilers(names: [&'static str; 2]) -> Vec<&'static str> {
    let (there, missing): (Vec<_>, Vec<_>) = names.into_iter().partition(|name| is_there(name));
    for name in missing {
        println!("skipped: {name}: it is not there");
    }
    there
}

fn run(what: &str, command: &mut Command) -> Output {
    let output = command.output().unwrap();
    assert!(
        output.status.success(),
        "{what}: {}\n{command:?}\n{}{}",
        output.status,
        String::from_utf8_lossy(&output.stdout),
        String::from_utf8_lossy(&output.stderr)
    );
    output
}

/// A program, compiled and linked with the shared library.
fn compile(compiler: &str, standard: &str, source: &str, to: &Path, more: &[&str]) {
    let mut command = Command::new(compiler);
    command.arg(format!("-std={standard}")).args(STRICT).args(more);
    // POSIX beside the standard of C. The examples say so themselves, and the header needs none of it.
    if source.starts_with("tests/") {
        command.arg("-D_POSIX_C_SOURCE=200809L");
    }
    command
        .arg("-I")
        .arg(here().join("include"))
        .arg(here().join(source));
    command
        .arg("-L")
        .arg(libraries())
        .args(["-lmillpond_capi", "-pthread"]);
    command.arg(format!("-Wl,-rpath,{}", libraries().display()));
    run(source, command.arg("-o").arg(to));
}

/// The programs in C, and whether they want a folder rather than a file.
const PROGRAMS: [(&str, bool); 8] = [
    ("examples/first.c", false),
    ("examples/failing_disk.c", false),
    ("examples/log_store.c", true),
    ("tests/c/misuse.c", true),
    ("tests/c/calls.c", true),
    ("tests/c/threads.c", true),
    ("tests/c/callbacks.c", true),
    ("tests/c/cancelled.c", true),
];

/// Runs a program in a folder of its own, behind what watches it.
fn start(program: &Path, watcher: &[&str], wants_folder: bool) -> Output {
    let folder = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let given = match wants_folder {
        true => folder.path().to_owned(),
        false => folder.path().join("file.pond"),
    };
    let mut words = watcher.iter().map(OsStr::new).chain([program.as_os_str()]);
    let mut command = Command::new(words.next().unwrap());
    let output = run("the program", command.args(words).arg(given));
    let said = String::from_utf8_lossy(&output.stdout);
    said.lines()
        .filter(|line| line.starts_with("skipped"))
        .for_each(|line| println!("{line}"));
    output
}

#[test]
fn programs_in_c_do_what_they_say_as_each_compiler_makes_them() {
    let folder = tempfile::tempdir().unwrap();
    for compiler in compilers(["gcc", "clang"]) {
        for (source, wants_folder) in PROGRAMS {
            let program = folder.path().join("program");
            for standard in ["c99", "c11"] {
                compile(compiler, standard, source, &program, &[]);
            }
            start(&program, &[], wants_folder);
        }
    }
}

#[test]
fn programs_in_cpp_do_what_they_say_as_each_compiler_makes_them() {
    let folder = tempfile::tempdir().unwrap();
    for compiler in compilers(["g++", "clang++"]) {
        for (standard, source) in [
            ("c++11", "tests/c/header17.cpp"),
            ("c++17", "tests/c/header17.cpp"),
            ("c++20", "tests/c/header17.cpp"),
            ("c++20", "examples/first.cpp"),
            ("c++20", "tests/c/classes.cpp"),
            ("c++20", "tests/c/races.cpp"),
        ] {
            let program = folder.path().join("program");
            compile(compiler, standard, source, &program, &[]);
            start(&program, &[], false);
        }
    }
}

/// It was 28 lines of errors, the first of which named `std::span`.
#[test]
fn an_older_standard_of_cpp_gets_one_error_that_says_which_is_needed() {
    let folder = tempfile::tempdir().unwrap();
    let source = folder.path().join("old.cpp");
    std::fs::write(&source, "#include <millpond.hpp>\nint main() { return 0; }\n").unwrap();
    for compiler in compilers(["g++", "clang++"]) {
        let mut command = Command::new(compiler);
        command
            .args(["-std=c++17", "-fsyntax-only", "-I"])
            .arg(here().join("include"));
        let refused = command.arg(&source).output().unwrap();
        let said = String::from_utf8_lossy(&refused.stderr);
        assert!(
            !refused.status.success() && said.contains("needs C++20"),
            "{said}"
        );
        assert_eq!(said.matches("error:").count(), 1, "{said}");
    }
}

/// The library is compiled without it: its locks are not seen, and two threads that hold a page one after the other looked like
/// a race.
#[test]
fn programs_in_cpp_have_no_complaint_of_the_thread_sanitizer_about_pages() {
    let Some(compiler) = compilers(["g++", "clang++"]).into_iter().next() else {
        return;
    };
    let folder = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let (program, probe) = (folder.path().join("program"), folder.path().join("probe.cpp"));
    std::fs::write(&probe, "int main() { return 0; }").unwrap();
    let mut command = Command::new(compiler);
    command
        .arg("-fsanitize=thread")
        .arg(&probe)
        .arg("-o")
        .arg(&program);
    let works = command.output().unwrap().status.success()
        && Command::new(&program).output().unwrap().status.success();
    if !works {
        return println!("skipped: thread sanitizer: {compiler} has none that runs here");
    }
    compile(
        compiler,
        "c++20",
        "tests/c/races.cpp",
        &program,
        &["-fsanitize=thread"],
    );
    // As docs/C.md has it, with this library's name.
    let suppressions = folder.path().join("tsan.supp");
    std::fs::write(&suppressions, "race:libmillpond_capi.so\n").unwrap();
    let mut command = Command::new(&program);
    command
        .arg(folder.path().join("file"))
        .env("TSAN_OPTIONS", format!("suppressions={}", suppressions.display()));
    run("the program", &mut command);
}

/// What a program does not set is zero, and `= {0}` need not clear padding: a library that does not know the last fields of a
/// struct would take the bytes of padding for one of them.
#[test]
fn no_struct_of_the_header_has_padding() {
    for compiler in compilers(["gcc", "clang"]) {
        let mut command = Command::new(compiler);
        command.args(["-std=c11", "-fsyntax-only", "-Wpadded", "-Werror", "-x", "c"]);
        run("the header", command.arg(here().join("include/millpond.h")));
    }
}

/// Of the program and of what it lends the library: the library itself is compiled without.
#[test]
fn programs_in_c_have_no_complaint_of_the_address_sanitizer() {
    let Some(compiler) = compilers(["gcc", "clang"]).into_iter().next() else {
        return;
    };
    let folder = tempfile::tempdir().unwrap();
    let program = folder.path().join("program");
    let probe = folder.path().join("probe.c");
    std::fs::write(&probe, "int main(void) { return 0; }").unwrap();
    let watched = ["-fsanitize=address,undefined", "-fno-sanitize-recover=all"];
    let mut command = Command::new(compiler);
    command.args(watched).arg(&probe);
    if !command.arg("-o").arg(&program).output().unwrap().status.success() {
        return println!("skipped: address sanitizer: {compiler} has none");
    }
    for (source, wants_folder) in PROGRAMS {
        compile(compiler, "c11", source, &program, &watched);
        start(&program, &[], wants_folder);
    }
}

/// From now on no program that this thread starts has io_uring, for a thread that waits in it holds valgrind's own lock: the
/// others would never run.
fn refuse_rings() {
    let rules = std::iter::once((libc::SYS_io_uring_setup, Vec::new())).collect();
    let refusal = SeccompAction::Errno(libc::ENOSYS as u32);
    let arch = std::env::consts::ARCH.try_into().unwrap();
    let filter = SeccompFilter::new(rules, SeccompAction::Allow, refusal, arch).unwrap();
    let program: seccompiler::BpfProgram = filter.try_into().unwrap();
    seccompiler::apply_filter(&program).unwrap();
}

#[test]
fn programs_in_c_have_no_complaint_of_valgrind() {
    if !is_there("valgrind") || !is_there("gcc") {
        return println!("skipped: valgrind: it is not there, or no gcc");
    }
    let folder = tempfile::tempdir().unwrap();
    let program = folder.path().join("program");
    refuse_rings();
    for (source, wants_folder) in [PROGRAMS[0], PROGRAMS[1], PROGRAMS[3], PROGRAMS[6]] {
        compile("gcc", "c11", source, &program, &[]);
        let watcher = [
            "valgrind",
            "--quiet",
            "--error-exitcode=9",
            "--leak-check=full",
            "--errors-for-leak-kinds=definite",
            "--show-leak-kinds=definite",
        ];
        start(&program, &watcher, wants_folder);
    }
}

#[test]
fn a_program_can_have_the_library_inside() {
    if !is_there("gcc") {
        return println!("skipped: static linking: gcc is not there");
    }
    let folder = tempfile::tempdir().unwrap();
    let program = folder.path().join("program");
    let mut command = Command::new("gcc");
    command
        .args(["-std=c11", "-I"])
        .arg(here().join("include"))
        .arg(here().join("examples/first.c"));
    command.arg(archive());
    // As docs/C.md has it.
    run(
        "linking",
        command.args(["-pthread", "-ldl", "-lm", "-o"]).arg(&program),
    );
    start(&program, &[], false);
}

/// Puts the library that is built already below a `DESTDIR`, as `scripts/install library` does.
fn install(temp: &Path, root: &Path, prefix: &str) {
    let built = temp.join("built/release");
    std::fs::create_dir_all(&built).unwrap();
    std::fs::copy(
        libraries().join("libmillpond_capi.so"),
        built.join("libmillpond_capi.so"),
    )
    .unwrap();
    std::fs::copy(archive(), built.join("libmillpond_capi.a")).unwrap();
    let mut install = Command::new(here().join("../../scripts/install"));
    install
        .arg("library")
        .envs([("CARGO", "true"), ("PREFIX", prefix), ("LIBDIR", "lib")])
        .env("CARGO_TARGET_DIR", built.parent().unwrap())
        .env("DESTDIR", root)
        .env_remove("TARGET");
    run("scripts/install", &mut install);
}

/// pkg-config gave two words for each path.
#[test]
fn an_installation_below_a_folder_with_a_space_is_found_by_pkg_config_and_by_cmake() {
    if !is_there("gcc") || !is_there("pkg-config") {
        return println!("skipped: an installed library: gcc or pkg-config is not there");
    }
    let temp = tempfile::tempdir().unwrap();
    let prefix = temp.path().join("pre fix & more");
    install(temp.path(), Path::new("/"), prefix.to_str().unwrap());
    let libraries = prefix.join("lib");
    let program = temp.path().join("program");
    let mut shell = Command::new("sh");
    shell
        .arg("-c")
        .arg(r#"eval gcc "$SOURCE" $(pkg-config --cflags --libs millpond) "'-Wl,-rpath,$LIBRARIES'" -o "$PROGRAM""#)
        .env("SOURCE", here().join("examples/first.c"))
        .env("LIBRARIES", &libraries)
        .env("PROGRAM", &program)
        .env("PKG_CONFIG_PATH", libraries.join("pkgconfig"));
    run("gcc", &mut shell);
    start(&program, &[], false);

    if !is_there("cmake") {
        return println!("skipped: an installed library by CMake: cmake is not there");
    }
    let text = format!(
        "cmake_minimum_required(VERSION 3.10)\nproject(first C)\nfind_package(PkgConfig REQUIRED)\n\
         pkg_check_modules(MILLPOND REQUIRED IMPORTED_TARGET millpond)\nadd_executable(first {})\n\
         target_link_libraries(first PkgConfig::MILLPOND)\n",
        here().join("examples/first.c").display()
    );
    std::fs::write(temp.path().join("CMakeLists.txt"), text).unwrap();
    let made = temp.path().join("made");
    let mut cmake = Command::new("cmake");
    cmake.arg("-S").arg(temp.path()).arg("-B").arg(&made);
    cmake.env("PKG_CONFIG_PATH", libraries.join("pkgconfig"));
    run("cmake", &mut cmake);
    run("cmake --build", Command::new("cmake").arg("--build").arg(&made));
    start(&made.join("first"), &[], false);
}

#[test]
fn an_installed_library_is_found_by_pkg_config_and_by_cmake() {
    if !is_there("gcc") || !is_there("pkg-config") {
        return println!("skipped: an installed library: gcc or pkg-config is not there");
    }
    let temp = tempfile::tempdir().unwrap();
    let root = temp.path().join("root");
    install(temp.path(), &root, "/opt/pond");
    let (prefix, libraries) = (root.join("opt/pond"), root.join("opt/pond/lib"));
    let soname = format!("libmillpond.so.{}", env!("CARGO_PKG_VERSION"));
    assert_eq!(
        libraries.join("libmillpond.so").canonicalize().unwrap(),
        libraries.join(soname).canonicalize().unwrap()
    );

    let mut asked = Command::new("pkg-config");
    asked
        .args(["--cflags", "--libs", "millpond"])
        .env("PKG_CONFIG_SYSROOT_DIR", &root)
        .env("PKG_CONFIG_PATH", libraries.join("pkgconfig"));
    let flags = String::from_utf8(run("pkg-config", &mut asked).stdout).unwrap();
    let program = temp.path().join("program");
    let mut gcc = Command::new("gcc");
    gcc.arg(here().join("examples/first.c"))
        .args(flags.split_whitespace());
    gcc.arg(format!("-Wl,-rpath,{}", libraries.display()));
    run("gcc", gcc.arg("-o").arg(&program));
    start(&program, &[], false);

    if !is_there("cmake") {
        return println!("skipped: an installed library by CMake: cmake is not there");
    }
    let text = format!(
        "cmake_minimum_required(VERSION 3.10)\nproject(first C)\nfind_package(millpond 99 QUIET)\nif(millpond_FOUND)\n\
         message(FATAL_ERROR \"version 99\")\nendif()\nfind_package(millpond {}.{} REQUIRED)\n\
         add_executable(shared {source})\ntarget_link_libraries(shared millpond::millpond)\n\
         add_executable(static {source})\ntarget_link_libraries(static millpond::static)\n",
        env!("CARGO_PKG_VERSION_MAJOR"),
        env!("CARGO_PKG_VERSION_MINOR"),
        source = here().join("examples/first.c").display()
    );
    std::fs::write(temp.path().join("CMakeLists.txt"), text).unwrap();
    let made = temp.path().join("made");
    let mut cmake = Command::new("cmake");
    cmake.arg("-S").arg(temp.path()).arg("-B").arg(&made);
    cmake.arg(format!("-DCMAKE_PREFIX_PATH={}", prefix.display()));
    run("cmake", &mut cmake);
    run("cmake --build", Command::new("cmake").arg("--build").arg(&made));
    for program in ["shared", "static"] {
        start(&made.join(program), &[], false);
    }
}

#[test]
fn the_library_exports_what_the_header_declares_and_nothing_else() {
    if !is_there("nm") {
        return println!("skipped: exported symbols: nm is not there");
    }
    let listed = run(
        "nm",
        Command::new("nm")
            .args(["-D", "--defined-only"])
            .arg(libraries().join("libmillpond_capi.so")),
    );
    let listed = String::from_utf8(listed.stdout).unwrap();
    let mut exported: Vec<_> = listed
        .lines()
        .map(|line| line.rsplit(' ').next().unwrap())
        .collect();
    let header = std::fs::read_to_string(here().join("include/millpond.h")).unwrap();
    // A declaration begins a line, with the type of the answer.
    let declared = header.lines().filter(|line| {
        !line.starts_with([' ', '/', '#', '}']) && !line.starts_with("typedef") && line.contains('(')
    });
    let names = declared.map(|line| line.split('(').next().unwrap());
    let mut declared: Vec<_> = names
        .map(|line| line.rsplit([' ', '*']).next().unwrap())
        .collect();
    exported.sort_unstable();
    declared.sort_unstable();
    assert!(declared.len() > 50, "{declared:?}");
    assert_eq!(exported, declared);
}
