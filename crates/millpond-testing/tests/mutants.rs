//! Whatever reads bytes from outside, by its public calls, with inputs that are nearly right. What is refused is refused with
//! a sentence, what is accepted is written as it was, and a server goes on.
//!
//! `MILLPOND_MUTANTS=100000 cargo test --release -p millpond-testing --test mutants` tries more; a failure says how to replay
//! it.

#![allow(clippy::unwrap_used, missing_docs, reason = "a test fails by panicking")]

use millpond::internal::http::{Answer, Server};
use millpond::internal::quantity::{parse_size, parse_time, size_typed};
use millpond::settings::SETTINGS;
use millpond::trace::{Trace, What};
use millpond::units::PageSize;
use millpond::{OpenOptions, PageCache};
use millpond_sim::traces::{Format, Ids, Options, parse};
use millpond_testing::mutants::check;
use millpond_worlds::link::Link;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{Shutdown, TcpStream};
use std::os::unix::net::UnixStream;
use std::path::Path;

fn says_something(error: &str) {
    assert!(
        error.len() > 10 && error.is_ascii() || error.chars().count() > 10,
        "the error is {error:?}"
    );
}

fn texts(samples: &[&str]) -> Vec<Vec<u8>> {
    samples.iter().map(|sample| sample.as_bytes().to_vec()).collect()
}

/// Two records of each format of traces of others.
fn traces() -> Vec<Vec<u8>> {
    let words = |words: &[u32]| {
        words
            .iter()
            .flat_map(|word| word.to_le_bytes())
            .collect::<Vec<u8>>()
    };
    let mut samples = vec![
        words(&[7, 3, 7]),
        words(&[
            7,
            1,
            0,
            100,
            u32::MAX,
            u32::MAX,
            8,
            8,
            0,
            8192,
            u32::MAX,
            u32::MAX,
        ]),
    ];
    samples.extend(texts(&[
        "# pages\n7\n\n0x10\r\n7\n",
        "128166372003061629,usr,0,Read,8192,4096,41286\n128166372016853766,usr,1,Write,0,6144,1963\n",
        "  8,0 3 1 0.000000000 697 Q R 16 + 8 [k]\n  8,16 3 5 0.1 697 Q WS 1 + 2 [k]\nCPU0 (8,0):\n Reads Queued: 1\n",
    ]));
    samples
}

#[test]
fn traces_of_others_are_read_or_refused_by_line_or_record() {
    let words = ["Read", "Write", "Q", " + ", "\t", ";", ","];
    check(
        "traces_of_others_are_read_or_refused_by_line_or_record",
        &traces(),
        &words,
        |bytes| {
            for format in Format::ALL.into_iter().map(Some).chain([None]) {
                for ids in [None, Some(Ids::Sector), Some(Ids::Byte)] {
                    let options = Options {
                        format,
                        ids,
                        ..Options::default()
                    };
                    match parse(Path::new("a trace"), bytes, &options) {
                        Err(why) => says_something(&why),
                        Ok(trace) => {
                            // A request takes some bytes at least, and lies within its file.
                            assert!(
                                trace.requests.len() <= bytes.len(),
                                "{} requests",
                                trace.requests.len()
                            );
                            for request in &trace.requests {
                                let end = request.page + u64::from(request.pages);
                                assert!(
                                    request.pages > 0 && end <= trace.files[request.file as usize],
                                    "{request:?}"
                                );
                            }
                        }
                    }
                }
            }
        },
    );
}

/// What a cache has recorded of a few calls.
fn recording() -> Vec<u8> {
    let folder = tempfile::tempdir().unwrap();
    let cache = PageCache::builder().memory(4 << 20).build().unwrap();
    let path = folder.path().join("trace");
    let recording = cache.record(&path).unwrap();
    let file = cache
        .open(folder.path().join("data"), OpenOptions::new().create(true))
        .unwrap();
    file.write_at(&[1; 20_000], 5000).unwrap();
    file.read_at(&mut [0; 9000], 0).unwrap();
    file.sync_data().unwrap();
    file.set_len(100).unwrap();
    recording.stop().unwrap();
    std::fs::read(&path).unwrap()
}

#[test]
fn recordings_are_read_as_far_as_they_are_whole() {
    let sample = recording();
    assert!(Trace::parse(&sample).unwrap().accesses.len() > 2);
    let words = [
        "about",
        "page_bytes",
        "4096",
        "memory_bytes",
        "began_ns",
        "lost",
        "{",
        "}",
        "null",
    ];
    check(
        "recordings_are_read_as_far_as_they_are_whole",
        &[sample],
        &words,
        |bytes| match Trace::parse(bytes) {
            Err(why) => says_something(&why.to_string()),
            Ok(trace) => {
                assert!(PageSize::from_bytes(trace.page_bytes).is_some());
                for access in &trace.accesses {
                    let file = &trace.files[access.file as usize];
                    assert!(
                        file.is_region || access.what != What::Region,
                        "{access:?} of {file:?}"
                    );
                }
                trace.distinct();
                if let Some(why) = &trace.torn {
                    says_something(why);
                }
            }
        },
    );
}

#[test]
fn links_of_the_playground_are_read_and_written_as_they_are_or_refused() {
    let samples = texts(&[
        "#scene=gorman2011&rule=vanilla&load=fs-mark&seed=3&at=9000000000",
        "scene=axboe2016&wb_percent=25&seed=5&scale=50&at=4000000000",
        "scene=kim2020%26patches%3Dlinux-5.5%2Banon&example=detection",
        "scene=dillon2000&rule=two-laps",
        "scene=hills2015&ratio=30&seed=1&at=21500000000",
        "scene=swarm&seed=42",
        "",
    ]);
    let words = [
        "scene=", "seed=", "at=", "scale=", "rule=", "&", "=", "%", "%2", "%26", "#",
    ];
    check(
        "links_of_the_playground_are_read_and_written_as_they_are_or_refused",
        &samples,
        &words,
        |bytes| {
            let text = String::from_utf8_lossy(bytes);
            match Link::parse(&text) {
                Ok(link) => assert_eq!(Link::parse(&link.to_string()), Ok(link), "{text:?}"),
                Err(why) => says_something(&why),
            }
        },
    );
}

#[test]
fn sizes_and_times_are_read_as_they_are_typed() {
    let samples = texts(&[
        "512M", "1.5G", "64KiB", "100MB", " 2 T ", "4096", "40ms", "2s", "500us", "1.5s", "2min",
    ]);
    let words = [
        "K", "Mi", "GiB", "TB", "ns", "us", "ms", "s", "min", "h", ".", " ",
    ];
    check(
        "sizes_and_times_are_read_as_they_are_typed",
        &samples,
        &words,
        |bytes| {
            let text = String::from_utf8_lossy(bytes);
            match parse_size(&text) {
                Ok(size) => assert_eq!(parse_size(&size_typed(size)), Ok(size), "{text:?}"),
                Err(why) => says_something(&why),
            }
            if let Err(why) = parse_time(&text) {
                says_something(&why);
            }
        },
    );
}

/// Every setting with a value that it can have.
fn pairs(cache: &PageCache) -> Vec<Vec<u8>> {
    let now = cache.settings().into_iter();
    let now = now.filter_map(|(setting, value)| Some(format!("{}={}", setting.name, value?)));
    let others = [
        "dirty.hard=64M",
        "dirty.hard=10%",
        "admission=off",
        "admission=bytes",
        "memory=auto",
        "memory=1M..4M",
    ];
    now.chain(others.map(String::from))
        .map(String::into_bytes)
        .collect()
}

#[test]
fn settings_are_taken_and_say_the_same_again_or_nothing_changes() {
    let cache = PageCache::builder().memory(4 << 20).build().unwrap();
    let words: Vec<&str> = SETTINGS
        .iter()
        .map(|setting| setting.name)
        .chain(["%", "K", "ms", "auto", "..", "="])
        .collect();
    check(
        "settings_are_taken_and_say_the_same_again_or_nothing_changes",
        &pairs(&cache),
        &words,
        |bytes| {
            let text = String::from_utf8_lossy(bytes);
            let (name, value) = text.split_once('=').unwrap_or((&text, ""));
            // As much as the machine has may be asked for, and more than this process may have here.
            if name == "memory" && value.len() > 4 {
                return;
            }
            let before: Vec<_> = cache.settings().into_iter().map(|(_, value)| value).collect();
            let taken = cache.set(&[(name, value)]);
            let now = cache.settings();
            match taken {
                Err(why) => {
                    says_something(&why.to_string());
                    let now: Vec<_> = now.into_iter().map(|(_, value)| value).collect();
                    assert_eq!(now, before, "{text:?} was refused: {why}");
                }
                Ok(_) => {
                    let (setting, value) = now.iter().find(|(setting, _)| setting.name == name).unwrap();
                    let value = value.clone().unwrap();
                    cache.set(&[(setting.name, &value)]).unwrap();
                    let again: Vec<_> = cache.settings().into_iter().map(|(_, value)| value).collect();
                    let now: Vec<_> = now.into_iter().map(|(_, value)| value).collect();
                    assert_eq!(again, now, "{text:?} is {value}");
                }
            }
        },
    );
}

#[test]
fn the_socket_answers_every_line_and_goes_on() {
    let folder = tempfile::tempdir().unwrap();
    let socket = folder.path().join("socket");
    let cache = PageCache::builder()
        .memory(4 << 20)
        .control_at(&socket)
        .build()
        .unwrap();
    let lines = [
        "help",
        "about",
        "set dirty.hard=20% admission=goal",
        "inspect limits",
        "inspect options",
        "stat",
        "reclaim",
        "record state",
        "files 3 by dirty",
        "devices",
    ];
    let samples = texts(
        &lines
            .map(|line| format!("{line}\n"))
            .each_ref()
            .map(String::as_str),
    );
    let words = [
        "\n",
        " ",
        "set ",
        "inspect ",
        "history",
        "files ",
        "by ",
        "resident",
        "memory=1K",
    ];
    let ask = |bytes: &[u8]| {
        let mut stream = UnixStream::connect(&socket).unwrap();
        // It may have said goodbye before all was sent.
        let _ = stream.write_all(bytes);
        let _ = stream.shutdown(Shutdown::Write);
        let answers: Vec<String> = BufReader::new(stream).lines().map_while(Result::ok).collect();
        answers
    };
    check(
        "the_socket_answers_every_line_and_goes_on",
        &samples,
        &words,
        |bytes| {
            // What would write files of any name, or take as much memory as it says.
            let text = String::from_utf8_lossy(bytes);
            if text.contains("record") || text.contains("memory") {
                return;
            }
            for answer in ask(bytes) {
                assert!(answer.starts_with('{') && answer.ends_with('}'), "{answer}");
            }
            let about = ask(b"about\n");
            assert!(about.len() == 1 && about[0].contains("\"protocol\""), "{about:?}");
        },
    );
    drop(cache);
}

#[test]
fn a_server_answers_what_is_a_request_and_goes_on() {
    let answer = |asked: &millpond::internal::http::Asked<'_>| {
        Answer::ok("text/plain", format!("{}?{}", asked.path, asked.query))
    };
    let server = Server::start("127.0.0.1:0".parse().unwrap(), "mutants", answer).unwrap();
    let samples = texts(&[
        "GET /metrics HTTP/1.1\r\nHost: localhost\r\nAccept: */*\r\n\r\n",
        "GET /key/figures?cache=%2Frun%2Fa&sort=dirty HTTP/1.0\r\n\r\n",
        "HEAD / HTTP/1.1\r\nConnection: close\r\n\r\n",
        "POST /x HTTP/1.1\r\nContent-Length: 5\r\n\r\nhello",
    ]);
    let words = [
        "\r\n",
        "GET ",
        "HTTP/1.1",
        "Content-Length: 99999999999\r\n",
        "Transfer-Encoding: chunked\r\n",
        "Host: x\r\n",
        "%",
    ];
    let ask = |bytes: &[u8]| {
        let mut stream = TcpStream::connect(server.address()).unwrap();
        let _ = stream.write_all(bytes);
        let _ = stream.shutdown(Shutdown::Write);
        let mut answer = Vec::new();
        let _ = stream.read_to_end(&mut answer);
        String::from_utf8_lossy(&answer).into_owned()
    };
    check(
        "a_server_answers_what_is_a_request_and_goes_on",
        &samples,
        &words,
        |bytes| {
            let answer = ask(bytes);
            assert!(answer.is_empty() || answer.starts_with("HTTP/1.1 "), "{answer}");
            let again = ask(b"GET /again HTTP/1.1\r\nHost: localhost\r\n\r\n");
            assert!(again.ends_with("/again?"), "{again}");
        },
    );
}
