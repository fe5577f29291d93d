//! `millpond playground` as a user meets it: a page on this machine, and an address that names a state.
#![allow(
    clippy::unwrap_used,
    clippy::print_stdout,
    reason = "a test fails by panicking, and says why it was skipped"
)]

use crate::support::{scratch, text};
use driver::Browser;
use millpond_worlds::scene::Scene;
use rustix::process::{Pid, Signal, kill_process};
use serde_json::json;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::path::Path;
use std::process::{Child, Command, Output, Stdio};

#[allow(dead_code, reason = "of the browser this uses a part")]
#[path = "../../../millpond-playground/tests/browser/driver.rs"]
mod driver;

/// The program as just installed: no other files, no settings, no home.
fn playground(folder: &Path, arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_millpond"));
    command.env_clear().current_dir(folder);
    command.arg("playground").args(arguments);
    command
}

/// One that serves, until it is dropped.
struct Server {
    child: Child,
    url: String,
}

impl Server {
    fn start(folder: &Path, arguments: &[&str]) -> Server {
        let mut child = playground(folder, arguments)
            .args(["--at", "0"])
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let mut url = String::new();
        let mut stdout = BufReader::new(child.stdout.take().unwrap());
        stdout.read_line(&mut url).unwrap();
        let url = url.trim_end().to_owned();
        Server { child, url }
    }

    /// The content of `path`.
    fn get(&self, path: &str) -> String {
        let host = self.url.strip_prefix("http://").unwrap();
        let host = host.split('/').next().unwrap();
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

    /// Ends it as Ctrl-C does; its exit code.
    fn interrupted(mut self) -> Option<i32> {
        kill_process(Pid::from_child(&self.child), Signal::INT).unwrap();
        self.child.wait().unwrap().code()
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn is_the_page(text: &str) -> bool {
    text.contains("<title>Millpond: see it move</title>") && text.trim_end().ends_with("</html>")
}

#[test]
fn it_serves_one_page_and_prints_an_address_with_the_whole_link_until_it_is_ended() {
    let folder = scratch();
    let server = Server::start(folder.path(), &["scene=hills2015&ratio=30"]);
    let link = "/#scene=hills2015&ratio=30&seed=1&at=19000000000";
    let url = &server.url;
    assert!(
        url.starts_with("http://127.0.0.1:") && url.ends_with(link),
        "{url}"
    );
    let answer = server.get("/");
    assert!(answer.starts_with("HTTP/1.1 200") && is_the_page(&answer));
    assert!(server.get("/other").starts_with("HTTP/1.1 404"));
    assert_eq!(server.interrupted(), Some(130));
    // the page has it, and the program refused it
    let own = "scene=own&frames=2&pages=1.2.3";
    let server = Server::start(folder.path(), &[own]);
    assert!(server.url.ends_with(&format!("/#{own}")), "{}", server.url);
}

#[test]
fn a_page_that_is_saved_is_the_one_that_is_served() {
    let folder = scratch();
    let said = playground(folder.path(), &["scene=kim2020", "--save", "page.html"])
        .output()
        .unwrap();
    let file = folder.path().join("page.html").canonicalize().unwrap();
    assert!(said.status.success(), "{}", text(&said.stderr));
    let printed = text(&said.stdout);
    assert!(
        printed.starts_with(&format!("{}#scene=kim2020&", file.display())),
        "{printed}"
    );
    let saved = std::fs::read_to_string(file).unwrap();
    let server = Server::start(folder.path(), &[]);
    assert!(is_the_page(&saved) && server.get("/").ends_with(&saved));
}

#[test]
fn a_link_that_names_nothing_and_a_page_that_cannot_be_written_say_what_is_wrong() {
    let folder = scratch();
    for (arguments, code, says) in [
        (["scene=linux", "--at=0"], 2, "gorman2011, axboe2016"),
        (["scene=own&frames=x", "--at=0"], 2, "a whole number of pages"),
        (["scene=hills2015&ratio=22", "--at=0"], 2, "there are 5, 10"),
        (
            ["scene=hills2015", "--save=/not/there.html"],
            1,
            "/not/there.html",
        ),
    ] {
        let said: Output = playground(folder.path(), &arguments).output().unwrap();
        let complaint = text(&said.stderr);
        assert_eq!(said.status.code(), Some(code), "{arguments:?}: {complaint}");
        assert!(complaint.contains(says), "{arguments:?}: {complaint}");
    }
}

/// Over HTTP, as users open it: a server can forbid what a page from disk may do, such as to compile its module.
#[test]
fn a_scene_runs_in_a_browser() {
    let folder = scratch();
    let server = Server::start(folder.path(), &[]);
    let Some(mut browser) = Browser::start(folder.path()) else {
        return println!("\nskipped: no chromium");
    };
    browser.call("Page.navigate", json!({ "url": server.url }));
    browser.until("document.body !== null && document.body.dataset.ready === 'true'");
    // It plays on its own from where it opens.
    let opens = Scene::find("gorman2011").unwrap().opens_at_ms * 1_000_000;
    browser.until(&format!("Number(playground.address().split('at=')[1]) > {opens}"));
    assert_eq!(browser.value("document.getElementById('said').hidden"), true);
    let elsewhere = browser.complaints();
    assert!(
        elsewhere.iter().all(|asked| asked.starts_with(&server.url)),
        "{elsewhere:?}"
    );
}
