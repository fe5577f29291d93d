//! The Python package, as its users get it: built by maturin, unpacked into a folder, and tested by pytest
//! (`test_millpond.py`).
//!
//! Needs Python 3.10 or newer with numpy, pytest and maturin, by default `python3`; the variable `MILLPOND_PYTHON` names
//! another, of a virtual environment say. Nothing is fetched, and what is missing is said: the test is skipped then.

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

fn python() -> OsString {
    env::var_os("MILLPOND_PYTHON").unwrap_or_else(|| "python3".into())
}

/// Why the package can't be built or tested here.
fn missing() -> Option<String> {
    let look = "import sys, importlib.util as u; print(*[m for m in ('numpy', 'pytest', 'maturin') if not u.find_spec(m)] \
                + ['Python 3.10'] * (sys.version_info < (3, 10)))";
    let python = python();
    match Command::new(&python).args(["-c", look]).output() {
        Err(error) => Some(format!("{}: {error}", python.display())),
        Ok(found) if !found.status.success() => Some(format!("{} does not work", python.display())),
        Ok(found) => {
            let lacks = String::from_utf8_lossy(&found.stdout).trim().to_owned();
            (!lacks.is_empty()).then(|| format!("{} lacks {lacks}", python.display()))
        }
    }
}

/// Why there are no regions here, and so no arrays, if the package in `packages` says that.
fn refused(packages: &Path, folder: &Path) -> Option<String> {
    let probe = "import millpond, sys; millpond.empty(1, memory='16M', swap=sys.argv[1])";
    let mut command = Command::new(python());
    command.args(["-B", "-c", probe]).arg(folder);
    let output = command.env("PYTHONPATH", packages).output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    // All else that can be wrong is for the tests.
    let last = said.lines().last().filter(|_| !output.status.success())?;
    last.contains("can't set up the cache: userfaultfd")
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

/// The wheel in `folder`: there is one.
fn wheel(folder: &Path) -> PathBuf {
    let mut wheels = folder
        .read_dir()
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.extension().is_some_and(|end| end == "whl"));
    let wheel = wheels.next().expect("maturin makes a wheel");
    assert_eq!(wheels.next(), None);
    let name = wheel.file_name().unwrap().to_string_lossy().into_owned();
    assert!(
        name.contains("-abi3-"),
        "{name}: one wheel is for every Python from 3.10 on"
    );
    wheel
}

#[test]
fn the_python_package_does_what_it_promises() {
    if let Some(why) = missing() {
        println!("skipped: the Python package: {why}");
        return;
    }
    let crate_folder = Path::new(env!("CARGO_MANIFEST_DIR"));
    let folder = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let (wheels, packages) = (folder.path().join("wheels"), folder.path().join("packages"));
    let mut build = Command::new(python());
    build
        .args(["-m", "maturin", "build", "--quiet", "--profile", "dev", "--out"])
        .arg(&wheels);
    run("maturin build", build.current_dir(crate_folder));
    // A wheel is an archive, and needs no more than to be unpacked.
    let mut unpack = Command::new(python());
    unpack
        .args(["-m", "zipfile", "-e"])
        .arg(wheel(&wheels))
        .arg(&packages);
    run("unpacking", &mut unpack);
    if let Some(why) = refused(&packages, folder.path()) {
        println!("skipped: the Python package: {why}");
        return;
    }
    let mut tests = Command::new(python());
    tests
        .args([
            "-B",
            "-m",
            "pytest",
            "-q",
            "-p",
            "no:cacheprovider",
            "--import-mode=importlib",
        ])
        .arg(crate_folder.join("tests/test_millpond.py"))
        .current_dir(folder.path())
        .env("PYTHONPATH", &packages)
        .env("MILLPOND_TEST_FOLDER", folder.path());
    run("pytest", &mut tests);
}
