//! What a crate needs before it can be published: the registry refuses some of it, and readers miss the rest.
//!
//! A new crate: the lines under `[package]` of a neighbour's Cargo.toml, a README.md of its own, and in its folder
//! `ln -s ../../LICENSE-MIT ../../LICENSE-APACHE .`, which cargo packs as files.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use serde_json::Value;
use std::fs;
use std::path::Path;
use std::process::Command;

/// Beside code: what cargo adds, and what a reader of the package wants first.
const BESIDE_CODE: [&str; 7] = [
    ".cargo_vcs_info.json",
    "Cargo.lock",
    "Cargo.toml",
    "Cargo.toml.orig",
    "LICENSE-APACHE",
    "LICENSE-MIT",
    "README.md",
];

/// The output of a `cargo` command for the workspace.
fn cargo(args: &[&str]) -> String {
    let said = Command::new(env!("CARGO"))
        .args(args)
        .current_dir(env!("CARGO_MANIFEST_DIR"))
        .output()
        .unwrap();
    let errors = String::from_utf8_lossy(&said.stderr);
    assert!(said.status.success(), "cargo {args:?}: {errors}");
    String::from_utf8(said.stdout).unwrap()
}

/// The crates of the workspace that are to be published, as `cargo metadata` has them.
fn published() -> Vec<Value> {
    let metadata: Value =
        serde_json::from_str(&cargo(&["metadata", "--no-deps", "--format-version", "1"])).unwrap();
    let mut packages = metadata["packages"].as_array().unwrap().clone();
    // `publish = false` is an empty list of registries.
    packages.retain(|package| package["publish"].is_null());
    assert!(packages.len() > 3, "only {} crates", packages.len());
    packages
}

fn name(package: &Value) -> &str {
    package["name"].as_str().unwrap()
}

/// What a crate's manifest or folder lacks.
fn missing(package: &Value) -> Vec<String> {
    let folder = Path::new(package["manifest_path"].as_str().unwrap())
        .parent()
        .unwrap();
    let is_library = package["targets"]
        .as_array()
        .unwrap()
        .iter()
        .any(|target| target["kind"][0] == "lib");
    let from_root = |file: &str| fs::read(folder.join("../..").join(file)).ok();
    let has = [
        (
            "a description in one line without a full stop",
            package["description"]
                .as_str()
                .is_some_and(|text| !text.is_empty() && !text.ends_with('.') && !text.contains('\n')),
        ),
        ("license.workspace", package["license"] == "MIT OR Apache-2.0"),
        ("rust-version.workspace", package["rust_version"].is_string()),
        (
            "one to five keywords",
            (1..=5).contains(&package["keywords"].as_array().unwrap().len()),
        ),
        (
            "one to five categories",
            (1..=5).contains(&package["categories"].as_array().unwrap().len()),
        ),
        (
            "a README.md of its own",
            package["readme"] == "README.md" && folder.join("README.md").exists(),
        ),
        (
            "[package.metadata.docs.rs] with targets, for Linux alone is what it is for",
            !is_library || package["metadata"]["docs"]["rs"]["targets"].is_array(),
        ),
        (
            "both licences: ln -s ../../LICENSE-MIT ../../LICENSE-APACHE .",
            ["LICENSE-MIT", "LICENSE-APACHE"]
                .iter()
                .all(|file| fs::read(folder.join(file)).ok() == from_root(file)),
        ),
    ];
    has.iter()
        .filter(|(_, is_there)| !is_there)
        .map(|(what, _)| format!("{}: {what}", name(package)))
        .collect()
}

#[test]
fn crates_say_what_a_registry_and_its_readers_want_to_know() {
    let missing: Vec<_> = published().iter().flat_map(missing).collect();
    assert!(missing.is_empty(), "missing:\n  {}", missing.join("\n  "));
}

/// A swap file of 33 MB was once in a package, and tests that can't run there.
#[test]
fn packages_have_code_and_nothing_else() {
    for package in published() {
        let listed = cargo(&["package", "--list", "--allow-dirty", "-p", name(&package)]);
        let others: Vec<_> = listed
            .lines()
            .filter(|path| {
                !BESIDE_CODE.contains(path) && !path.starts_with("src/") && !path.starts_with("examples/")
            })
            .collect();
        assert!(
            others.is_empty(),
            "{}: is `include.workspace = true` in its Cargo.toml? {others:?}",
            name(&package)
        );
        assert!(listed.lines().any(|path| path == "README.md"), "{listed}");
    }
}

/// The libraries for other languages are loaded into programs in production: of what tests need they have the faults alone.
#[test]
fn the_libraries_for_c_and_sqlite_link_no_simulator() {
    for package in ["millpond-capi", "millpond-sqlite"] {
        let tree = cargo(&[
            "tree",
            "--offline",
            "-p",
            package,
            "-e",
            "normal",
            "--prefix",
            "none",
        ]);
        let own: Vec<_> = tree
            .lines()
            .filter(|line| line.starts_with("millpond-"))
            .collect();
        assert!(
            own.iter().any(|line| line.starts_with("millpond-core ")),
            "{tree}"
        );
        assert!(
            !own.iter().any(|line| line.starts_with("millpond-sim ")),
            "{own:?}"
        );
    }
}
