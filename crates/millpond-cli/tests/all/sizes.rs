//! Sizes that can't be, on the command line: refused at once, with what can be, before memory is taken for them.
#![allow(clippy::unwrap_used, reason = "these are tests, helpers included")]

use crate::support::{scratch, text, words};
use std::process::Command;

#[test]
fn sizes_larger_than_this_machine_are_refused_before_memory_is_taken() {
    let folder = scratch();
    let at = folder.path().display();
    for name in ["source", "point"] {
        std::fs::create_dir(folder.path().join(name)).unwrap();
    }
    // A page of a file of 16 TiB.
    std::fs::write(folder.path().join("far.u32"), [0xff; 4]).unwrap();
    std::fs::write(folder.path().join("near.u32"), [0; 4]).unwrap();
    let report = format!("--runs 1 --report {at}/report.html");
    for (line, words_of_it) in [
        (
            format!("mount {at}/source {at}/point --memory 5T"),
            "a budget of 5T is more than this machine's",
        ),
        (
            format!("mount {at}/source {at}/point --memory 8000T"),
            "a budget of 8000T",
        ),
        (
            format!("lab run axboe2016 --on sim --memory 8000T {report}"),
            "--memory 8000T: that takes",
        ),
        (
            format!("lab run axboe2016 --on sim --read-file-size 8000T {report}"),
            "--read-file-size 8000T",
        ),
        (
            format!("lab run hills2015 --on sim --memory 8000T {report}"),
            "--memory 8000T: that takes",
        ),
        (
            format!("replay {at}/near.u32 --memory 8000T"),
            "--memory 8000 TiB: that takes",
        ),
        (
            format!("replay {at}/near.u32 --memory 999999999999999pages"),
            "that takes",
        ),
        ("replay /dev/zero".into(), "it is no trace"),
        (format!("slowdisk {at}/point --size 8000T"), "kept in memory"),
    ] {
        // What it took before would be more than this; the tool itself needs a few hundred MiB of addresses.
        let output = Command::new("prlimit")
            .args(["--data=2147483648", env!("CARGO_BIN_EXE_millpond")])
            .args(words(&line))
            .env("TMPDIR", folder.path())
            .output();
        let Ok(output) = output else {
            return println!("skipped: no prlimit(1)");
        };
        let said = text(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{line}: {said}");
        assert!(
            said.contains(words_of_it) && !said.contains("::"),
            "{line}: {said}"
        );
    }
    // The file is long, and the machine may be large enough to simulate it: it does what it says.
    let far = Command::new("prlimit")
        .args(["--data=2147483648", env!("CARGO_BIN_EXE_millpond"), "replay"])
        .args([&format!("{at}/far.u32"), "--policy", "opt", "--memory", "64M"])
        .output();
    assert_eq!(far.unwrap().status.code(), Some(0));
}
