//! The refusals of `scripts/release`. `.ci/nightly` checks what it makes.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::fs;
use std::path::Path;
use std::process::Command;
use tempfile::TempDir;

const MANIFEST: &str = "[workspace.package]\nversion = \"0.2.0\"\n";
const CHANGES: &str =
    "# Changelog\n\n## [0.3.0]\n\n## [0.2.0]\n\n- All is new.\n\n## [0.1.0]\n\n- It is there.\n";

/// The packages of Debian, of each of these versions.
const PACKAGES: &str = r#"
"libmillpond0.1 (= 0.2.0-1)"
"libmillpond0.1 (= 0.3.0-1)"
"libmillpond0.1 (= 0.4.0-1)"
"#;

/// A checkout with only the files that the script checks before it makes anything. `None`: there is no git.
fn checkout() -> Option<TempDir> {
    let folder = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let root = folder.path();
    fs::create_dir(root.join("scripts")).unwrap();
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../scripts/release");
    fs::copy(script, root.join("scripts/release")).unwrap();
    fs::write(root.join("Cargo.toml"), MANIFEST).unwrap();
    fs::write(root.join("CHANGELOG.md"), CHANGES).unwrap();
    fs::create_dir_all(root.join("crates/millpond-capi")).unwrap();
    fs::write(root.join("crates/millpond-capi/Cargo.toml"), PACKAGES).unwrap();
    commit(root).then_some(folder)
}

fn commit(root: &Path) -> bool {
    let git = |args: &[&str]| {
        let mut git = Command::new("git");
        git.args(["-c", "user.name=test", "-c", "user.email=test"])
            .args(args);
        git.current_dir(root)
            .output()
            .is_ok_and(|said| said.status.success())
    };
    git(&["init", "--quiet"]) && git(&["add", "."]) && git(&["commit", "--quiet", "-m", "a version"])
}

/// Why the script refuses, and its exit code.
fn refusal(root: &Path, args: &[&str]) -> (Option<i32>, String) {
    let said = Command::new(root.join("scripts/release"))
        .args(args)
        .current_dir(root)
        .output()
        .unwrap();
    (said.status.code(), String::from_utf8(said.stderr).unwrap())
}

#[test]
fn a_release_that_can_not_be_is_refused_before_anything_is_made() {
    let Some(checkout) = checkout() else {
        return println!("skipped: refusals of scripts/release: no commit can be made with git");
    };
    let root = checkout.path();
    // Where git does not look.
    let out = root.join(".git/out");
    let out_text = out.display().to_string();
    let refused = |args: &[&str], why: &str| {
        let (code, said) = refusal(root, args);
        assert_eq!(code, Some(if args.len() < 2 { 2 } else { 1 }), "{said}");
        assert!(said.contains(why), "{args:?}: {said}");
        assert!(!out.exists());
    };
    refused(&["0.2.0"], "call it as scripts/release VERSION FOLDER");
    refused(
        &["0.9.0", &out_text],
        "no such version: 0.9.0 was asked for, and Cargo.toml has 0.2.0",
    );
    refused(&["0.2.0", "scripts"], "scripts is not empty");
    fs::write(root.join("left.rs"), "").unwrap();
    refused(&["0.2.0", &out_text], "not committed:\n?? left.rs");
    fs::remove_file(root.join("left.rs")).unwrap();
    for version in ["0.3.0", "0.4.0"] {
        fs::write(root.join("Cargo.toml"), MANIFEST.replace("0.2.0", version)).unwrap();
        assert!(commit(root));
        let why = format!("CHANGELOG.md has no section ## [{version}], or nothing in it");
        refused(&[version, &out_text], &why);
    }
}
