//! `millpond playground` as a user meets it: a page on this machine, and an address that names a state.
#![allow(
    clippy::unwrap_used,
    clippy::print_stdout,
    reason = "a test fails by panicking, and says why it was skipped"
)]

use crate::support::{scratch, text};
use rustix::process::{Pid, Signal, kill_process};
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::process::{Command, Stdio};

/// What is at `path` of the server behind `url`.
fn get(url: &str, path: &str) -> String {
    let host = url.strip_prefix("http://").unwrap().split('/').next().unwrap();
    let mut stream = TcpStream::connect(host).unwrap();
    write!(
        stream,
        "GET {path} HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n"
    )
    .unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    answer
}

#[test]
fn it_serves_one_page_and_prints_an_address_with_the_whole_link_until_it_is_ended() {
    let folder = scratch();
    let page = folder.path().join("page.html");
    std::fs::write(&page, "<!doctype html><title>here</title>").unwrap();
    let mut server = Command::new(env!("CARGO_BIN_EXE_millpond"))
        .args(["playground", "scene=hills2015&ratio=30", "--at", "0", "--page"])
        .arg(&page)
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let mut url = String::new();
    BufReader::new(server.stdout.take().unwrap())
        .read_line(&mut url)
        .unwrap();
    let link = "/#scene=hills2015&ratio=30&seed=1&at=14000000000";
    assert!(
        url.starts_with("http://127.0.0.1:") && url.trim_end().ends_with(link),
        "{url}"
    );
    assert!(get(&url, "/").contains("<title>here</title>"));
    assert!(get(&url, "/other").starts_with("HTTP/1.1 404"));
    kill_process(Pid::from_child(&server), Signal::INT).unwrap();
    assert_eq!(server.wait().unwrap().code(), Some(130));
}

#[test]
fn a_link_that_names_nothing_and_a_page_that_is_not_there_say_what_is_wrong() {
    for (arguments, says) in [
        (["playground", "scene=linux", "--at=0"], "gorman2011, axboe2016"),
        (
            ["playground", "scene=hills2015&ratio=22", "--at=0"],
            "there are 5, 10",
        ),
        (
            ["playground", "--page=/not/there.html", "--at=0"],
            "/not/there.html",
        ),
    ] {
        let said = Command::new(env!("CARGO_BIN_EXE_millpond"))
            .args(arguments)
            .output()
            .unwrap();
        assert_eq!(said.status.code(), Some(2), "{arguments:?}");
        assert!(
            text(&said.stderr).contains(says),
            "{arguments:?}: {}",
            text(&said.stderr)
        );
    }
}

/// What the page is made of is compiled in the browser, which a server can forbid: a page that is opened from disk says nothing
/// about that.
#[test]
fn a_browser_may_compile_the_module_of_the_page_that_is_served() {
    let browser = ["chromium", "chromium-browser", "google-chrome"]
        .into_iter()
        .find(|name| {
            Command::new(name)
                .arg("--version")
                .output()
                .is_ok_and(|said| said.status.success())
        });
    let Some(browser) = browser else {
        return println!("skipped: the page over HTTP: no chromium");
    };
    let folder = scratch();
    let page = folder.path().join("page.html");
    // The least module: a magic number and a version.
    let script = "WebAssembly.compile(new Uint8Array([0, 97, 115, 109, 1, 0, 0, 0]))
        .then(() => document.body.textContent = 'compiled', why => document.body.textContent = 'refused: ' + why)";
    std::fs::write(&page, format!("<!doctype html><body><script>{script}</script>")).unwrap();
    let mut server = Command::new(env!("CARGO_BIN_EXE_millpond"))
        .args(["playground", "--at", "0", "--page"])
        .arg(&page)
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let mut url = String::new();
    BufReader::new(server.stdout.take().unwrap())
        .read_line(&mut url)
        .unwrap();
    let shown = Command::new(browser)
        .args([
            "--headless",
            "--no-sandbox",
            "--disable-gpu",
            "--disable-dev-shm-usage",
            "--no-first-run",
        ])
        .args([
            "--disable-background-networking",
            "--disable-component-update",
            "--disable-sync",
        ])
        .args(["--virtual-time-budget=10000", "--dump-dom"])
        .arg(format!(
            "--user-data-dir={}",
            folder.path().join("profile").display()
        ))
        .arg(url.trim_end())
        .output()
        .unwrap();
    kill_process(Pid::from_child(&server), Signal::INT).unwrap();
    server.wait().unwrap();
    let shown = text(&shown.stdout);
    assert!(shown.contains("compiled"), "{shown}");
}
