//! A cache looked into and retuned from outside, through its control socket.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use crate::support::{Draw, skip};
use millpond::control::{CLIENTS_MAX, Client, LINE_BYTES_MAX};
use millpond::history::By;
use millpond::{Error, OpenOptions, PageCache};
use serde_json::Value;
use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

struct Pond {
    cache: PageCache,
    folder: tempfile::TempDir,
}

impl Pond {
    fn new() -> Pond {
        let folder = tempfile::tempdir().unwrap();
        let builder = PageCache::builder().memory(4 << 20);
        let cache = builder.control_at(folder.path().join("sock")).build().unwrap();
        Pond { cache, folder }
    }

    fn socket(&self) -> PathBuf {
        let path = self.folder.path().join("sock");
        assert_eq!(self.cache.control_path(), Some(path.as_path()));
        path
    }

    fn client(&self) -> Client {
        Client::connect(&self.socket()).unwrap()
    }

    fn raw(&self) -> BufReader<UnixStream> {
        let stream = UnixStream::connect(self.socket()).unwrap();
        // Longer than any answer takes on a slow day.
        stream.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
        BufReader::new(stream)
    }
}

fn ask(client: &mut Client, line: &str) -> Value {
    serde_json::from_str(&client.ask(line).unwrap()).unwrap()
}

fn answer(raw: &mut BufReader<UnixStream>) -> Value {
    let mut line = String::new();
    raw.read_line(&mut line).unwrap();
    serde_json::from_str(&line).unwrap()
}

fn error(answer: &Value) -> &str {
    answer["error"].as_str().unwrap_or_else(|| panic!("{answer}"))
}

#[test]
fn a_setting_is_set_from_outside_and_the_answer_says_what_became_of_it() {
    let pond = Pond::new();
    let mut client = pond.client();
    let answer = ask(&mut client, "set dirty.hard=2M dirty.background=1M");
    assert_eq!(
        answer["settings"][0],
        serde_json::json!({ "name": "dirty.background", "old": "10%", "new": "1M" })
    );
    let limits = answer["limits"].as_array().unwrap();
    let hard = limits.iter().find(|limit| limit["name"] == "dirty.hard").unwrap();
    assert_eq!(hard["new_bytes"], 2 << 20);
    assert_eq!(pond.cache.stats().derived.dirty.hard.0, 512);
    assert_eq!(pond.cache.stats().derived.dirty.background.0, 256);

    let limits = ask(&mut client, "inspect limits");
    let limits = limits["limits"].as_array().unwrap();
    let hard = limits.iter().find(|limit| limit["name"] == "dirty.hard").unwrap();
    assert_eq!(
        (&hard["setting"], &hard["set_last"]),
        (&"2 MiB".into(), &"dirty.hard".into())
    );
    let by = hard["set_by"].as_str().unwrap();
    assert!(by.contains(&format!("pid {}", std::process::id())), "{by}");
    let options = ask(&mut client, "inspect options");
    let options = options["options"].as_array().unwrap();
    let hard = options
        .iter()
        .find(|option| option["name"] == "dirty.hard")
        .unwrap();
    assert_eq!((&hard["value"], &hard["default"]), (&"2M".into(), &"20%".into()));
}

#[test]
fn memory_is_changed_with_options_or_neither_is() {
    let pond = Pond::new();
    let mut client = pond.client();
    let before = (pond.cache.options(), pond.cache.stats().derived);
    for (line, why) in [
        ("set dirty.hard=2M memory=100K", "a budget of 100K is too small"),
        (
            "set memory=8M watermarks.scale=31%",
            "option watermarks.scale can't be 31 %: must be 0 to 30 %",
        ),
        ("set memory=8M dirty.hart=2M", "did you mean dirty.hard?"),
        ("set memory=8M dirty.hard", "is not NAME=VALUE"),
        ("set memory=8000T", "memory"),
    ] {
        let answer = ask(&mut client, line);
        assert!(error(&answer).contains(why), "{line}: {answer}");
        assert_eq!(answer["kind"], "setting");
        assert!(
            (pond.cache.options(), pond.cache.stats().derived) == before,
            "{line}"
        );
    }
    assert!(pond.cache.history().changes.is_empty());
    ask(&mut client, "set memory=8M dirty.hard=50%");
    let derived = pond.cache.stats().derived;
    assert!(derived.frames > before.1.frames && derived.dirty.hard.0 > derived.frames.0 * 2 / 5);
    assert_eq!(pond.cache.history().changes.len(), 1, "one change");
}

#[test]
fn the_history_has_who_and_what_and_what_became_of_it() {
    let pond = Pond::new();
    pond.cache.set_memory(5 << 20).unwrap();
    let mut options = pond.cache.options();
    options.flusher.expire = millpond::units::Nanos::from_secs(16);
    pond.cache.set_options(options.clone()).unwrap();
    // Setting the same again is no change.
    pond.cache.set_options(options).unwrap();
    ask(&mut pond.client(), "set dirty.hard=1M");
    let history = pond.cache.history();
    let told: Vec<_> = history
        .changes
        .iter()
        .map(|c| (c.number, c.settings[0].name))
        .collect();
    assert_eq!(told, [(1, "memory"), (2, "flusher.expire"), (3, "dirty.hard")]);
    assert_eq!(history.changes[0].by, By::Program);
    assert!(
        history.changes[0]
            .limits
            .iter()
            .any(|limit| limit.name == "frames")
    );
    assert_eq!(history.changes[1].limits, []);
    let By::Process { pid, uid, .. } = history.changes[2].by else {
        panic!("{:?}", history.changes[2])
    };
    assert_eq!(
        (pid, uid),
        (std::process::id(), rustix::process::geteuid().as_raw())
    );
    let told = ask(&mut pond.client(), "inspect history");
    assert_eq!(told["changes"].as_array().unwrap().len(), 3);
    assert_eq!(told["changes"][0]["settings"][0]["new"], "5M");
}

/// A thread that changes one setting reads all of them and writes all of them.
#[test]
fn two_who_change_different_settings_at_a_time_lose_neither() {
    let pond = Pond::new();
    let rounds = 300;
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let mut client = pond.client();
            for round in 1..=rounds {
                ask(&mut client, &format!("set flusher.expire={round}s"));
            }
        });
        scope.spawn(|| {
            for round in 1..=rounds {
                let share = format!("1/{}", 1000 + round);
                pond.cache.set(&[("dirty.failed", &share)]).unwrap();
            }
        });
        scope.spawn(|| {
            for round in 1..=rounds {
                pond.cache.set_memory((4 << 20) + (round << 13)).unwrap();
            }
        });
    });
    let options = pond.cache.options();
    assert_eq!(
        (
            options.flusher.expire.0 / 1_000_000_000,
            u64::from(options.dirty.failed.den)
        ),
        (rounds, 1000 + rounds)
    );
    let history = pond.cache.history();
    assert_eq!(history.forgotten + history.changes.len() as u64, 3 * rounds);
}

/// Each setting and all of them, by every way: what was listed, set again, is what was there.
#[test]
fn a_b_and_a_again_through_the_socket_is_a() {
    let pond = Pond::new();
    let mut client = pond.client();
    let list = |client: &mut Client| -> Vec<String> {
        let options = ask(client, "inspect options");
        let options = options["options"].as_array().unwrap().clone();
        let pair = |o: &Value| Some(format!("{}={}", o["name"].as_str()?, o["value"].as_str()?));
        options.iter().filter_map(pair).collect()
    };
    let texts = [
        "1M",
        "2M",
        "3%",
        "40%",
        "1/7",
        "16",
        "60",
        "8ms",
        "1.5s",
        "on",
        "off",
        "goal",
        "bytes",
        "latency",
        "v2",
        "v3",
        "linux",
        "linux-3",
        "linux-4.6",
        "millpond",
        "default",
        "6M",
        "128K",
    ];
    let mut draw = Draw(7);
    let mut was_set = 0;
    for _ in 0..150 {
        let a = list(&mut client);
        let there = (pond.cache.options(), pond.cache.stats().derived);
        for _ in 0..draw.below(6) {
            let options = ask(&mut client, "inspect options");
            let options = options["options"].as_array().unwrap();
            let name = options[draw.below(options.len() as u64) as usize]["name"]
                .as_str()
                .unwrap();
            let text = texts[draw.below(texts.len() as u64) as usize];
            let answer = ask(&mut client, &format!("set {name}={text}"));
            was_set += u32::from(answer["number"].as_u64().is_some_and(|number| number > 0));
        }
        let answer = ask(&mut client, &format!("set {}", a.join(" ")));
        assert!(answer["error"].is_null(), "{answer}");
        assert!(
            (pond.cache.options(), pond.cache.stats().derived) == there,
            "{a:?}"
        );
        // The next round begins elsewhere.
        let (memory, hard) = (2 + draw.below(4), 1 + draw.below(99));
        ask(&mut client, &format!("set memory={memory}M dirty.hard={hard}%"));
    }
    assert!(was_set > 20, "{was_set}");
}

#[test]
fn stat_has_what_was_done_by_reason() {
    let pond = Pond::new();
    let file = pond
        .cache
        .open(pond.folder.path().join("data"), OpenOptions::new().create(true))
        .unwrap();
    file.write_at(&[1; 3 * 4096], 0).unwrap();
    let mut client = pond.client();
    let stat = ask(&mut client, "stat");
    assert_eq!(
        (&stat["now"]["dirty"], &stat["now"]["read_p99_ns"]),
        (&3.into(), &Value::Null)
    );
    file.sync_data().unwrap();
    let stat = ask(&mut client, "stat");
    assert_eq!(stat["now"]["dirty"], 0);
    assert_eq!(stat["counters"]["io_bytes_sync"], 12288);
    let about = ask(&mut client, "about");
    assert_eq!(
        (&about["pid"], &about["page_bytes"]),
        (&std::process::id().into(), &4096.into())
    );
    assert_eq!(about["memory_bytes"], 4 << 20);
}

#[test]
fn an_unknown_command_is_answered_with_an_error_and_the_next_line_is_served() {
    let pond = Pond::new();
    let mut raw = pond.raw();
    raw.get_mut()
        .write_all(b"frobnicate\n\xff\xfe\n\n{\"set\":1}\nhelp\n")
        .unwrap();
    for why in [
        "\"frobnicate\" is not a command; the commands are: help, ",
        "UTF-8",
        "\"\" is no",
        "is no",
    ] {
        let answer = answer(&mut raw);
        assert!(error(&answer).contains(why), "{answer}");
        assert_eq!(answer["kind"], "request");
    }
    assert!(answer(&mut raw)["commands"].is_array());
}

#[test]
fn half_a_line_waits_for_its_rest_and_is_refused_if_that_never_comes() {
    let pond = Pond::new();
    let (mut slow, mut other) = (pond.raw(), pond.client());
    for piece in ["set dirty.fa", "iled=", "2%"] {
        slow.get_mut().write_all(piece.as_bytes()).unwrap();
        // Others are served meanwhile.
        assert!(ask(&mut other, "about")["error"].is_null());
    }
    assert_eq!(pond.cache.history().changes.len(), 0);
    slow.get_mut().write_all(b"\nset dirty.failed=3%").unwrap();
    assert_eq!(answer(&mut slow)["settings"][0]["new"], "2%");
    slow.get_mut().shutdown(std::net::Shutdown::Write).unwrap();
    assert!(error(&answer(&mut slow)).contains("the last line is not terminated"));
    let mut rest = Vec::new();
    assert_eq!(slow.read_to_end(&mut rest).unwrap(), 0);
    assert_eq!(pond.cache.history().changes.len(), 1);
}

#[test]
fn a_line_that_is_too_long_is_refused_once_and_the_next_is_served() {
    let pond = Pond::new();
    let mut raw = pond.raw();
    for len in [LINE_BYTES_MAX + 1, 10 * LINE_BYTES_MAX] {
        let mut line = vec![b'x'; len];
        line.extend_from_slice(b"\nabout\n");
        raw.get_mut().write_all(&line).unwrap();
        assert!(
            error(&answer(&mut raw)).contains("a line has 8192 bytes at most"),
            "{len}"
        );
        assert!(answer(&mut raw)["pid"].is_u64());
    }
    let mut line = b"about".to_vec();
    line.resize(LINE_BYTES_MAX, b' ');
    line.push(b'\n');
    raw.get_mut().write_all(&line).unwrap();
    assert!(answer(&mut raw)["pid"].is_u64());
}

#[test]
fn a_client_that_does_not_read_delays_no_other_and_loses_no_answer() {
    const QUESTIONS: usize = 400;
    let pond = Pond::new();
    let rude = pond.raw();
    let mut writer = rude.get_ref().try_clone().unwrap();
    // More than fits into the sockets: the writer waits until the answers are read.
    let asking = std::thread::spawn(move || {
        for _ in 0..QUESTIONS {
            writer.write_all(b"inspect options\n").unwrap();
        }
    });
    let mut other = pond.client();
    for percent in 1..=5 {
        ask(&mut other, &format!("set dirty.failed={percent}%"));
    }
    assert_eq!(pond.cache.history().changes.len(), 5);
    let answers = rude.lines().take(QUESTIONS).map(|line| line.unwrap());
    assert!(
        answers
            .map(|line| serde_json::from_str::<Value>(&line).unwrap())
            .all(|a| a["options"].is_array())
    );
    asking.join().unwrap();
}

#[test]
fn one_client_too_many_takes_the_place_of_the_one_that_was_silent_for_longest() {
    let pond = Pond::new();
    let mut clients: Vec<_> = (0..CLIENTS_MAX).map(|_| pond.client()).collect();
    for client in &mut clients {
        ask(client, "about");
    }
    ask(&mut clients[0], "about");
    let mut one_more = pond.client();
    ask(&mut one_more, "about");
    ask(&mut clients[0], "about");
    assert!(clients[1].ask("about").is_err());
    ask(&mut clients[2], "about");
}

#[test]
fn the_socket_and_its_clients_go_with_the_cache() {
    let pond = Pond::new();
    let (mut client, socket) = (pond.client(), pond.socket());
    ask(&mut client, "about");
    let file = pond
        .cache
        .open(pond.folder.path().join("data"), OpenOptions::new().create(true))
        .unwrap();
    let Pond { cache, folder } = pond;
    drop(cache);
    // The file keeps the cache.
    ask(&mut client, "set dirty.failed=2%");
    drop(file);
    assert!(!socket.exists());
    assert_eq!(
        client.ask("about").unwrap_err().kind(),
        std::io::ErrorKind::UnexpectedEof
    );
    drop(folder);
}

#[test]
fn a_path_where_a_cache_listens_is_an_error_and_one_that_is_free_again_is_none() {
    let pond = Pond::new();
    let again = || {
        PageCache::builder()
            .memory(2 << 20)
            .control_at(pond.socket())
            .build()
    };
    let error = again().unwrap_err();
    assert!(matches!(error, Error::Control { .. }), "{error}");
    assert!(
        error.to_string().contains("another cache listens there"),
        "{error}"
    );
    ask(&mut pond.client(), "about");
    let path = pond.socket();
    drop(pond.cache);
    let cache = PageCache::builder()
        .memory(2 << 20)
        .control_at(&path)
        .build()
        .unwrap();
    ask(&mut Client::connect(&path).unwrap(), "about");
    drop(cache);
}

#[test]
fn without_being_asked_for_there_is_no_socket() {
    let cache = PageCache::builder().memory(2 << 20).build().unwrap();
    assert_eq!(cache.control_path(), None);
}

/// In the other user's process: the socket that it asks.
const ASKS: &str = "MILLPOND_TEST_ASKS";

#[test]
fn another_user_is_refused() {
    if let Some(socket) = std::env::var_os(ASKS) {
        let told =
            Client::connect(Path::new(&socket)).and_then(|mut client| client.ask("set dirty.failed=2%"));
        return println!("told: {told:?}");
    }
    if !rustix::process::geteuid().is_root() {
        return skip("only root can become another user");
    }
    let pond = Pond::new();
    let socket = pond.socket();
    // The file's mode and its folder's keep others away; here only the user of the connection is
    // checked.
    fs::set_permissions(&socket, fs::Permissions::from_mode(0o666)).unwrap();
    fs::set_permissions(pond.folder.path(), fs::Permissions::from_mode(0o755)).unwrap();
    let output = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "control::another_user_is_refused", "--nocapture"])
        .env(ASKS, &socket)
        .current_dir("/")
        .uid(65_534)
        .gid(65_534)
        .output();
    let output = match output {
        Ok(output) => String::from_utf8_lossy(&output.stdout).into_owned(),
        Err(why) => return skip(format_args!("another user can't run this test: {why}")),
    };
    assert!(output.contains("only user 0, whose cache this is"), "{output}");
    assert_eq!(pond.cache.history().changes.len(), 0);
}
