//! `millpond store` as people use it: a process for each command, on a folder and on servers that speak S3.

#![allow(clippy::unwrap_used, missing_docs, reason = "a test fails by panicking")]
#![allow(clippy::print_stdout, reason = "a test says what it skips")]

#[path = "../../tests/servers/server.rs"]
#[allow(dead_code, reason = "other tests use the rest")]
mod server;

use server::Server;
use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

fn program(server: &Server) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_millpond-store"));
    command.envs(server.environment.iter().map(|(name, value)| (name, value)));
    command
}

fn run(server: &Server, args: &[&str]) -> Output {
    program(server).args(args).stdin(Stdio::null()).output().unwrap()
}

fn said(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

/// What a command that succeeds writes.
fn done(server: &Server, args: &[&str]) -> String {
    let output = run(server, args);
    assert!(
        output.status.success(),
        "{args:?} on {}: {}",
        server.name,
        said(&output)
    );
    String::from_utf8(output.stdout).unwrap()
}

/// What a command that fails says.
fn refused(server: &Server, code: i32, args: &[&str]) -> String {
    let output = run(server, args);
    let said = said(&output);
    assert_eq!(
        output.status.code(),
        Some(code),
        "{args:?} on {}: {said}",
        server.name
    );
    said
}

fn bytes(len: usize) -> Vec<u8> {
    (0..len).map(|n| ((n * 2_654_435_761_usize) >> 7) as u8).collect()
}

/// Waits for something that comes.
fn until(what: &str, mut is: impl FnMut() -> bool) {
    let deadline = Instant::now() + Duration::from_secs(120);
    while !is() {
        assert!(Instant::now() < deadline, "it does not come: {what}");
        std::thread::sleep(Duration::from_millis(50));
    }
}

/// One that copies from its input, and has the store meanwhile.
fn holder(server: &Server, place: &str) -> Child {
    let mut command = program(server);
    command.args(["cp", "-", place]);
    command
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    let mut child = command.spawn().unwrap();
    until("the store is open", || {
        assert!(child.try_wait().unwrap().is_none(), "it has ended");
        let stat = run(server, &["stat", &server.url]);
        String::from_utf8_lossy(&stat.stdout).contains("has not closed it")
    });
    child
}

#[test]
fn files_go_in_and_come_out_as_they_were() {
    for server in server::all() {
        let (server, url) = (&server, &server.url);
        let temp = tempfile::tempdir().unwrap();
        let (large, small) = (temp.path().join("large"), temp.path().join("small"));
        // More than a commit has beside it, and no whole page.
        fs::write(&large, bytes(9_000_001)).unwrap();
        fs::write(&small, "pond").unwrap();
        let (large, small) = (large.to_str().unwrap(), small.to_str().unwrap());
        let place = |name: &str| format!("{url}//{name}");

        done(server, &["cp", large, small, &place("dir/")]);
        done(server, &["cp", small, &place("a b")]);
        assert_eq!(done(server, &["ls", url]), "a b\ndir/large\ndir/small\n");
        assert_eq!(
            done(server, &["ls", "--long", &place("dir")]),
            "9000001  dir/large\n      4  dir/small\n"
        );
        assert_eq!(
            done(server, &["ls", "--json", &place("a b")]),
            "{\"bytes\":4,\"name\":\"a b\"}\n"
        );
        let both = run(server, &["cat", &place("dir/small"), &place("dir/large")]).stdout;
        assert!(
            both == [b"pond".to_vec(), bytes(9_000_001)].concat(),
            "{}",
            server.name
        );

        // What a name had is there as long as a snapshot has it.
        done(server, &["snapshot", url, "monday"]);
        done(server, &["cp", &place("a b"), &place("dir/large")]);
        assert_eq!(done(server, &["cat", &place("dir/large")]), "pond");
        let out = temp.path().join("out");
        fs::create_dir(&out).unwrap();
        let into = out.to_str().unwrap();
        done(
            server,
            &[
                "cp",
                "--snapshot",
                "monday",
                &place("dir/large"),
                &place("dir/small"),
                into,
            ],
        );
        assert!(fs::read(out.join("large")).unwrap() == bytes(9_000_001));
        assert_eq!(fs::read(out.join("small")).unwrap(), b"pond");
        assert_eq!(
            fs::read_dir(&out).unwrap().count(),
            2,
            "nothing is left beside them"
        );

        let verified = done(server, &["verify", url]);
        assert!(
            verified.ends_with(" 0 damaged\n") && verified.contains(": 6 files, "),
            "{verified}"
        );
        let stat: serde_json::Value = serde_json::from_str(&done(server, &["stat", "--json", url])).unwrap();
        assert_eq!(
            (&stat["files"], &stat["writer"]["closed"]),
            (&3.into(), &true.into())
        );
        let usage: serde_json::Value =
            serde_json::from_str(&done(server, &["usage", "--json", url])).unwrap();
        // The pages of the snapshot are stored, and no file has them.
        assert_eq!(usage["live"]["bytes"], 12, "{usage}");
        assert!(usage["all"]["bytes"].as_u64().unwrap() > 9_000_001, "{usage}");

        assert_eq!(done(server, &["snapshot", url]), "monday\n");
        done(server, &["snapshot", url, "monday", "--drop"]);
        assert_eq!(done(server, &["snapshot", url]), "");
        done(server, &["rm", &place("a b"), &place("dir/small")]);
        assert_eq!(done(server, &["ls", url]), "dir/large\n");
    }
}

#[test]
fn a_store_that_is_being_written_is_refused_until_it_is_taken_over() {
    for server in server::all() {
        let (server, url) = (&server, &server.url);
        let place = format!("{url}//held");
        let mut holder = holder(server, &place);
        let process = format!("process {}", holder.id());
        for args in [
            &["rm", &place][..],
            &["snapshot", url, "a"],
            &["cp", "/dev/null", &place],
        ] {
            let said = refused(server, 4, args);
            let way_out = format!("`millpond store take-over {url}`");
            assert!(said.contains(&process) && said.contains(&way_out), "{said}");
        }
        let taken = done(server, &["take-over", url]);
        assert!(taken.contains(&process), "{taken}");
        holder.stdin.take().unwrap().write_all(b"too late").unwrap();
        let ended = holder.wait_with_output().unwrap();
        let words = said(&ended);
        assert_eq!(ended.status.code(), Some(4), "{words}");
        assert!(
            words.contains("another writer has taken the store over"),
            "{words}"
        );
        assert!(
            words.contains("nothing of this command is in the store"),
            "{words}"
        );
        assert_eq!(done(server, &["ls", url]), "");
        let again = done(server, &["take-over", url]);
        assert!(again.contains("nobody has it"), "{again}");
    }
}

#[test]
fn a_copy_that_is_interrupted_leaves_what_was_there_and_a_closed_store() {
    let server = server::folder();
    let place = format!("{}//a", server.url);
    let temp = tempfile::tempdir().unwrap();
    let old = temp.path().join("old");
    fs::write(&old, "old").unwrap();
    done(&server, &["cp", old.to_str().unwrap(), &place]);
    let mut child = holder(&server, &place);
    child.stdin.as_mut().unwrap().write_all(&bytes(6 << 20)).unwrap();
    let process = rustix::process::Pid::from_child(&child);
    rustix::process::kill_process(process, rustix::process::Signal::INT).unwrap();
    // Its input stays open.
    let stdin = child.stdin.take();
    let ended = child.wait_with_output().unwrap();
    drop(stdin);
    assert_eq!(ended.status.code(), Some(130), "{}", said(&ended));
    assert_eq!(done(&server, &["ls", &server.url]), "a\n");
    assert_eq!(done(&server, &["cat", &place]), "old");
    let stat = done(&server, &["stat", &server.url]);
    assert!(stat.contains(", has closed it"), "{stat}");
}

/// All files below a folder.
fn files(folder: &Path) -> Vec<PathBuf> {
    let mut files = Vec::new();
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        match path.is_dir() {
            true => files.extend(self::files(&path)),
            false => files.push(path),
        }
    }
    files.sort();
    files
}

fn folder_of(server: &Server) -> PathBuf {
    PathBuf::from(server.url.strip_prefix("file://").unwrap())
}

#[test]
fn a_look_puts_nothing_into_a_store_and_makes_none() {
    let server = server::folder();
    let (url, folder) = (&server.url, folder_of(&server));
    for args in [
        &["ls", url][..],
        &["stat", url],
        &["usage", url],
        &["verify", url],
        &["cat", &format!("{url}//a")],
        &["rm", &format!("{url}//a")],
        &["snapshot", url, "a"],
        &["take-over", url],
    ] {
        let said = refused(&server, 1, args);
        assert!(said.contains("there is no store"), "{said}");
        assert!(said.contains(url.as_str()), "{said}");
    }
    assert!(!folder.exists());
    done(&server, &["cp", "/dev/null", &format!("{url}//a")]);
    let before = files(&folder);
    for args in [
        &["ls", url][..],
        &["stat", url],
        &["usage", url],
        &["snapshot", url],
        &["take-over", url],
    ] {
        done(&server, args);
    }
    assert_eq!(files(&folder), before);
}

#[test]
fn what_is_damaged_is_named_and_the_way_out_with_it() {
    let server = server::folder();
    let (url, place) = (&server.url, format!("{}//a", server.url));
    let temp = tempfile::tempdir().unwrap();
    let from = temp.path().join("a");
    fs::write(&from, bytes(6 << 20)).unwrap();
    done(&server, &["cp", from.to_str().unwrap(), &place]);
    let flip = |path: &Path, at: usize| {
        let mut content = fs::read(path).unwrap();
        content[at] ^= 1;
        fs::write(path, content).unwrap();
    };
    let below = |kind: &str| files(&folder_of(&server).join(kind));
    flip(&below("c")[0], 1000);
    let verified = run(&server, &["verify", url]);
    let found = String::from_utf8_lossy(&verified.stdout).into_owned();
    assert_eq!(verified.status.code(), Some(1));
    assert!(
        found.contains("page 0 of a: c/") && found.contains(" 1 damaged"),
        "{found}"
    );
    let said = refused(&server, 1, &["cat", &place]);
    assert!(said.contains("page 0 of a can't be read: c/"), "{said}");
    assert!(said.contains("`millpond store verify` names all"), "{said}");
    flip(&below("c")[0], 1000);
    done(&server, &["verify", url]);

    // The newest commit.
    done(&server, &["cp", "/dev/null", &format!("{url}//b")]);
    flip(below("m").last().unwrap(), 30);
    let said = refused(&server, 1, &["ls", url]);
    assert!(said.contains("m/0") && said.contains("with --salvage"), "{said}");
    assert!(!said.contains("StoreOptions"), "{said}");
    assert_eq!(
        done(&server, &["ls", "--salvage", url]),
        "a\n",
        "b is in the commit that is damaged"
    );
    done(&server, &["take-over", "--salvage", url]);
    assert!(done(&server, &["verify", url]).contains(" 0 damaged"));
}

#[test]
fn a_command_line_that_is_wrong_says_what_would_be_right() {
    let server = server::folder();
    for (args, words) in [
        (
            &["ls", "folder"][..],
            "folder is no store: one is s3://bucket/prefix or file:///folder",
        ),
        (
            &["cat", "s3://b/p/a"],
            "two slashes and its name behind the store",
        ),
        (&["rm", "s3://b/p"], "names no file"),
        (&["usage", "s3://b/p//a"], "leave //a out"),
        (&["cp", "/dev/null", "s3://b/p"], "s3://b/p is a whole store"),
        (
            &["cp", "/dev/null", "/dev/zero", "file:///x//a"],
            "end it with a slash",
        ),
        (
            &["cp", "/dev/null", "elsewhere"],
            "neither elsewhere nor what is to be copied there is in a store",
        ),
        (&["cp", "/", "file:///x//a"], "/ is a directory"),
        (
            &["cp", "--page-size", "3K", "/dev/null", "file:///x//a"],
            "a power of two from 4K to 1M",
        ),
        (
            &["rm", "file:///x//a", "file:///y//a"],
            "file:///x and file:///y are two stores",
        ),
    ] {
        let said = refused(&server, 2, args);
        assert!(said.contains(words), "{args:?}: {said}");
    }
    let said = refused(&server, 1, &["ls", "gs://bucket/prefix"]);
    assert!(said.contains("there are s3, file and memory"), "{said}");
    let said = refused(
        &server,
        1,
        &["cp", "/nowhere/at/all", &format!("{}//a", server.url)],
    );
    assert!(said.contains("/nowhere/at/all: No such file"), "{said}");
    assert!(!folder_of(&server).exists(), "a store was made for nothing");
}

#[cfg(feature = "s3")]
#[test]
fn a_bucket_that_is_not_there_and_a_wrong_key_are_said_at_once() {
    for server in [server::versitygw(), server::moto()].into_iter().flatten() {
        let words = refused(&server, 1, &["ls", "s3://nowhere/store"]);
        assert!(words.contains("NoSuchBucket"), "{words}");
        // Not every server minds.
        if server.name == "versitygw" {
            let mut command = program(&server);
            command
                .args(["ls", &server.url])
                .env("AWS_SECRET_ACCESS_KEY", "SECRETWRONG");
            let output = command.output().unwrap();
            let words = said(&output);
            assert!(
                words.contains("SignatureDoesNotMatch") && !words.contains("SECRETWRONG"),
                "{words}"
            );
        }
    }
    let server = server::folder();
    let mut command = program(&server);
    command.args(["ls", "--endpoint", "http://127.0.0.1:1", "s3://bucket/store"]);
    command
        .env("AWS_ACCESS_KEY_ID", "a")
        .env("AWS_SECRET_ACCESS_KEY", "b");
    let output = command.output().unwrap();
    assert!(said(&output).contains("s3://bucket/store"), "{}", said(&output));
    assert_eq!(output.status.code(), Some(1));
}
