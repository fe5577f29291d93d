//! The page of `top --web` in a browser that runs its script.

#![allow(
    dead_code,
    clippy::unwrap_used,
    clippy::print_stdout,
    reason = "each test uses its part of it; a test fails by panicking and says what it skips"
)]

use super::terminal::of_folder;
use super::text;
use rustix::process::{Pid, Signal};
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Command, Stdio};

/// The rendered page, of the one cache whose socket is in the folder; `None`: there is no browser, which is printed.
pub(crate) fn page(folder: &Path) -> Option<String> {
    let browsers = ["chromium", "chromium-browser", "google-chrome"];
    let version = |name: &&str| {
        Command::new(name)
            .arg("--version")
            .output()
            .is_ok_and(|o| o.status.success())
    };
    let Some(browser) = browsers.into_iter().find(version) else {
        println!("\nskipped: no chromium");
        return None;
    };
    let mut command = Command::new(env!("CARGO_BIN_EXE_millpond"));
    let mut server = of_folder(command.args(["top", "100ms", "--web", "0"]), folder)
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut url = String::new();
    BufReader::new(server.stdout.take().unwrap())
        .read_line(&mut url)
        .unwrap();
    let profile = folder.join("profile");
    let dom = Command::new(browser)
        .args([
            "--headless",
            "--no-sandbox",
            "--disable-gpu",
            "--disable-dev-shm-usage",
        ])
        .args([
            "--virtual-time-budget=4000",
            "--window-size=1280,1500",
            "--dump-dom",
        ])
        .arg(format!("--user-data-dir={}", profile.display()))
        .arg(url.trim())
        .env("HOME", folder)
        .output()
        .unwrap();
    let dom = text(&dom.stdout);
    rustix::process::kill_process(Pid::from_child(&server), Signal::TERM).unwrap();
    assert_eq!(server.wait().unwrap().code(), Some(143));
    // The page says so if something failed.
    let alert = dom
        .split("<div id=\"said\"")
        .nth(1)
        .and_then(|rest| rest.split("</div>").next());
    assert!(
        alert.is_some_and(|alert| alert.ends_with("style=\"display: none;\">")),
        "{alert:?}"
    );
    Some(dom)
}
