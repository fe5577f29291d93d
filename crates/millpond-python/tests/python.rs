//! The Python package, as its users get it: built by maturin, installed by pip into an empty folder, its types checked by mypy,
//! and tested by pytest (`test_*.py`).
//!
//! Needs Python 3.10 or newer with numpy, pip, pytest and maturin, by default `python3`; the variable `MILLPOND_PYTHON` names
//! another, of a virtual environment say. Nothing is fetched, and what is missing is said: the test, or the check of types
//! without mypy, is skipped then.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::print_stdout,
    reason = "a test fails by panicking and prints why it was skipped"
)]

use std::env;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::thread;

fn python() -> OsString {
    env::var_os("MILLPOND_PYTHON").unwrap_or_else(|| "python3".into())
}

/// Why the package can't be built or tested here with these.
fn missing(modules: &[&str]) -> Option<String> {
    let look = "import sys, importlib.util as u; print(*[m for m in sys.argv[1:] if not u.find_spec(m)] \
                + ['Python 3.10'] * (sys.version_info < (3, 10)))";
    let python = python();
    match Command::new(&python).args(["-c", look]).args(modules).output() {
        Err(error) => Some(format!("{}: {error}", python.display())),
        Ok(found) if !found.status.success() => Some(format!("{} does not work", python.display())),
        Ok(found) => {
            let lacks = String::from_utf8_lossy(&found.stdout).trim().to_owned();
            (!lacks.is_empty()).then(|| format!("{} lacks {lacks}", python.display()))
        }
    }
}

/// Why there are no regions here, and so no arrays, according to the package in `packages`.
fn refused(packages: &Path, folder: &Path) -> Option<String> {
    let probe = "import millpond, sys; millpond.empty(1, memory='16M', swap=sys.argv[1])";
    let mut command = Command::new(python());
    command.args(["-B", "-c", probe]).arg(folder);
    let output = command.env("PYTHONPATH", packages).output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    // All else that can be wrong is for the tests.
    let last = said.lines().last().filter(|_| !output.status.success())?;
    last.contains("memory beyond RAM needs userfaultfd")
        .then(|| last.to_owned())
}

fn run(what: &str, command: &mut Command) {
    let output = command.output().unwrap();
    println!("{}", String::from_utf8_lossy(&output.stdout));
    assert!(
        output.status.success(),
        "{what}: {}\n{}{}",
        output.status,
        String::from_utf8_lossy(&output.stdout),
        String::from_utf8_lossy(&output.stderr)
    );
}

/// The file in `folder` with this ending: there is one.
fn only(ending: &str, folder: &Path) -> PathBuf {
    let mut found = folder
        .read_dir()
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.extension().is_some_and(|end| end == ending));
    let file = found.next().expect("maturin makes one");
    assert_eq!(found.next(), None);
    file
}

fn wheel(folder: &Path) -> PathBuf {
    let wheel = only("whl", folder);
    let name = wheel.file_name().unwrap().to_string_lossy().into_owned();
    assert!(
        name.contains("-abi3-"),
        "{name}: one wheel is for every Python from 3.10 on"
    );
    wheel
}

/// The type checkers' verdict on the package in `packages`.
fn check_types(packages: &Path, folder: &Path, tests: &Path) {
    if let Some(why) = missing(&["mypy"]) {
        println!("skipped: types of the Python package: {why}");
        return;
    }
    let tool = |module| {
        let mut tool = Command::new(python());
        tool.args(["-B", "-m", module])
            .current_dir(folder)
            .env("PYTHONPATH", packages);
        tool
    };
    let mut checker = tool("mypy");
    checker.args(["--strict", "--cache-dir"]).arg(folder.join("mypy"));
    run("mypy", checker.arg(tests.join("typed.py")));
    // That the stubs say what is there, and all of it.
    run("stubtest", tool("mypy.stubtest").arg("millpond"));
}

/// The result of the tests in Python.
fn check_behaviour(packages: &Path, folder: &Path, tests: &Path) {
    if let Some(why) = refused(packages, folder) {
        println!("skipped: the Python package: {why}");
        return;
    }
    let mut pytest = Command::new(python());
    pytest
        .args([
            "-B",
            "-m",
            "pytest",
            "-q",
            "-rs",
            "-p",
            "no:cacheprovider",
            "--import-mode=importlib",
        ])
        .arg(tests)
        .current_dir(folder)
        .env("PYTHONPATH", packages)
        .env("MILLPOND_TEST_FOLDER", folder);
    run("pytest", &mut pytest);
}

#[test]
fn the_python_package_does_what_it_promises() {
    if let Some(why) = missing(&["numpy", "pip", "pytest", "maturin"]) {
        println!("skipped: the Python package: {why}");
        return;
    }
    let crate_folder = Path::new(env!("CARGO_MANIFEST_DIR"));
    let folder = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let (wheels, packages) = (folder.path().join("wheels"), folder.path().join("packages"));
    let maturin = |command: &[&str]| {
        let mut maturin = Command::new(python());
        maturin.args(["-m", "maturin"]).args(command).arg("--out");
        run(command[0], maturin.arg(&wheels).current_dir(crate_folder));
    };
    maturin(&["build", "--quiet", "--profile", "dev"]);
    let mut install = Command::new(python());
    install.args(["-m", "pip", "install", "--quiet", "--disable-pip-version-check"]);
    install.args(["--no-index", "--no-deps", "--target"]);
    run("installing", install.arg(&packages).arg(wheel(&wheels)));
    maturin(&["sdist"]);
    let sources = Command::new(python())
        .args(["-m", "tarfile", "-l"])
        .arg(only("gz", &wheels))
        .output()
        .unwrap();
    let sources = String::from_utf8_lossy(&sources.stdout);
    for file in ["LICENSE-MIT", "LICENSE-APACHE", "PYTHON.md", "__init__.pyi"] {
        assert!(sources.contains(&format!("/{file}")), "{sources}");
    }
    let tests = crate_folder.join("tests");
    thread::scope(|scope| {
        scope.spawn(|| check_types(&packages, folder.path(), &tests));
        check_behaviour(&packages, folder.path(), &tests);
    });
}
