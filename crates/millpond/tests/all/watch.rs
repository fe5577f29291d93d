//! A cache watched from outside: its files and devices through the control socket, its figures for Prometheus.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use crate::made;
use millpond::control::Client;
use millpond::{Error, OpenOptions, PageCache};
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::process::{Command, Stdio};
use std::time::Duration;

const PAGE: usize = 4096;

fn ask(cache: &PageCache, line: &str) -> Value {
    let mut client = Client::connect(cache.control_path().unwrap()).unwrap();
    serde_json::from_str(&client.ask(line).unwrap()).unwrap()
}

#[test]
fn files_and_devices_are_told_as_they_are() {
    let folder = tempfile::tempdir().unwrap();
    let builder = PageCache::builder().memory(8 << 20);
    let cache = builder.control_at(folder.path().join("sock")).build().unwrap();
    let open = |name: &str, pages: usize| {
        let file = cache
            .open(folder.path().join(name), OpenOptions::new().create(true))
            .unwrap();
        file.write_at(&vec![1; pages * PAGE], 0).unwrap();
        file
    };
    let (clean, dirty) = (open("clean", 40), open("dirty", 7));
    clean.sync_data().unwrap();
    let files = ask(&cache, "files");
    let told = &files["files"][0];
    assert_eq!(told["path"], clean.path().display().to_string());
    assert_eq!(
        (&told["resident"], &told["dirty"]),
        (&40.into(), &0.into()),
        "{told}"
    );
    assert_eq!(
        (&told["bytes"], &told["refaults"]),
        (&(40 * PAGE).into(), &0.into())
    );
    assert_eq!(
        (&files["files_open"], &files["of_files"]["dirty"]),
        (&2.into(), &7.into())
    );
    assert_eq!(files["frames_scanned"], files["frames"]);
    let files = ask(&cache, "files 1 by dirty");
    assert_eq!(files["files"].as_array().unwrap().len(), 1);
    assert_eq!(files["files"][0]["path"], dirty.path().display().to_string());

    let devices = ask(&cache, "devices");
    let [device] = &devices["devices"].as_array().unwrap()[..] else {
        panic!("{devices}")
    };
    assert!(
        device["writes"].as_u64() >= Some(1) && device["syncs"].as_u64() >= Some(1),
        "{device}"
    );
    assert_eq!(device["write_bytes"], 40 * PAGE);
    assert_eq!(
        (&device["errors"], &device["writes_in_transit"]),
        (&0.into(), &0.into())
    );
    assert_eq!(device["name"], files["files"][0]["device"]);

    for line in [
        "files x",
        "files 1001",
        "files 3 by size",
        "files by",
        "files 3 dirty",
        "files -1",
    ] {
        let why = ask(&cache, line);
        let said = why["error"].as_str().unwrap();
        assert!(
            said.contains("by resident|dirty|tagged|refaults"),
            "{line}: {why}"
        );
    }
    let stat = ask(&cache, "stat");
    assert_eq!(stat["waiting"]["held_back"], Value::Null);
    assert_eq!(stat["counters"]["frame_waits"], 0);
}

#[test]
fn reclaim_s_decisions_are_reported_with_the_pages_of_samples() {
    let folder = tempfile::tempdir().unwrap();
    let builder = PageCache::builder().memory(8 << 20);
    let cache = builder.control_at(folder.path().join("sock")).build().unwrap();
    let none = ask(&cache, "reclaim");
    assert!(none["samples"].as_array().unwrap().is_empty(), "{none}");
    let path = folder.path().join("file");
    std::fs::write(&path, vec![1; 32 << 20]).unwrap();
    let file = cache.open(&path, OpenOptions::new()).unwrap();
    let mut bytes = vec![0; 1 << 20];
    (0..32).for_each(|n| assert_eq!(file.read_at(&mut bytes, n << 20).unwrap(), 1 << 20));
    let told = ask(&cache, "reclaim");
    let outcomes = told["outcomes"].as_array().unwrap();
    let freed = outcomes
        .iter()
        .find(|one| one["outcome"] == "clean: freed")
        .unwrap();
    let freed = freed["background_file"].as_u64().unwrap() + freed["direct_file"].as_u64().unwrap();
    // More may have been freed meanwhile.
    assert!(
        freed > 4000 && freed <= cache.stats().counters.pgsteal(),
        "{freed}: {told}"
    );
    let samples = told["samples"].as_array().unwrap();
    assert_eq!(samples.len(), 32);
    for sample in samples {
        assert_eq!(sample["path"], path.display().to_string(), "{sample}");
        assert!(
            sample["page"].as_u64().unwrap() < 8192 && sample["kind"] == "file",
            "{sample}"
        );
    }
}

fn get(address: SocketAddr, path: &str) -> (String, String) {
    let mut stream = TcpStream::connect(address).unwrap();
    // Longer than any answer takes on a slow day.
    stream.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
    write!(stream, "GET {path} HTTP/1.1\r\nHost: {address}\r\n\r\n").unwrap();
    let mut said = String::new();
    stream.read_to_string(&mut said).unwrap();
    let (head, body) = said.split_once("\r\n\r\n").unwrap();
    (head.to_owned(), body.to_owned())
}

/// Samples by their name and labels, of a text in format 0.0.4; panics where it is not as the format says.
fn parse(text: &str) -> BTreeMap<String, f64> {
    let is_name = |s: &str| {
        let first = s.chars().next().unwrap();
        (first.is_ascii_alphabetic() || first == '_')
            && s.chars().all(|c| c.is_ascii_alphanumeric() || c == '_')
    };
    assert!(text.ends_with('\n'));
    let (mut samples, mut seen) = (BTreeMap::new(), BTreeSet::new());
    let (mut family, mut kind, mut helped) = (String::new(), String::new(), String::new());
    for line in text.lines() {
        if let Some(rest) = line.strip_prefix("# HELP ") {
            let (name, help) = rest.split_once(' ').unwrap();
            assert!(
                help.len() > 5 && help.ends_with('.') && !help.starts_with(' '),
                "{line}"
            );
            name.clone_into(&mut helped);
            continue;
        }
        if let Some(rest) = line.strip_prefix("# TYPE ") {
            let (name, k) = rest.split_once(' ').unwrap();
            assert_eq!(name, helped, "help stands before its type");
            assert!(seen.insert(name.to_owned()), "{name} is there twice");
            assert!(
                is_name(name) && ["counter", "gauge", "summary"].contains(&k),
                "{line}"
            );
            assert_eq!(k == "counter", name.ends_with("_total"), "{line}");
            // Base units.
            for unit in ["ns", "ms", "us", "kib", "mib"] {
                assert!(name.split('_').all(|word| word != unit), "{line}");
            }
            name.clone_into(&mut family);
            k.clone_into(&mut kind);
            continue;
        }
        let (sample, value) = line.rsplit_once(' ').unwrap();
        let value: f64 = value.parse().unwrap();
        assert!(kind != "counter" || value >= 0.0, "{line}");
        let (name, labels) = sample.split_once('{').unwrap_or((sample, "}"));
        let ending = name
            .strip_prefix(family.as_str())
            .unwrap_or_else(|| panic!("{line} after {family}"));
        assert!(
            ending.is_empty() || (kind == "summary" && ["_sum", "_count"].contains(&ending)),
            "{line}"
        );
        let labels = labels.strip_suffix('}').unwrap();
        let mut rest = labels;
        while !rest.is_empty() {
            let (name, quoted) = rest.split_once("=\"").unwrap();
            assert!(is_name(name), "{line}");
            let mut end = None;
            let mut chars = quoted.char_indices();
            while let Some((at, c)) = chars.next() {
                match c {
                    '\\' => assert!(matches!(chars.next(), Some((_, '\\' | '"' | 'n'))), "{line}"),
                    '"' => {
                        end = Some(at);
                        break;
                    }
                    _ => {}
                }
            }
            rest = &quoted[end.unwrap() + 1..];
            rest = rest.strip_prefix(',').unwrap_or(rest);
        }
        assert!(
            samples.insert(sample.to_owned(), value).is_none(),
            "{sample} is there twice"
        );
    }
    samples
}

#[test]
fn metrics_are_in_the_format_of_prometheus_and_move_by_what_was_done() {
    let folder = tempfile::tempdir().unwrap();
    let builder = PageCache::builder().memory(8 << 20);
    let cache = builder
        .metrics(SocketAddr::from(([127, 0, 0, 1], 0)))
        .build()
        .unwrap();
    let address = cache.metrics_address().unwrap();
    let file = cache
        .open(folder.path().join("file"), OpenOptions::new().create(true))
        .unwrap();
    let (head, body) = get(address, "/metrics");
    assert!(head.starts_with("HTTP/1.1 200 OK\r\n"), "{head}");
    assert!(
        head.contains("\r\nContent-Type: text/plain; version=0.0.4; charset=utf-8\r\n"),
        "{head}"
    );
    let before = parse(&body);
    file.write_at(&[1; 3 * PAGE], 0).unwrap();
    let dirty = parse(&get(address, "/metrics").1);
    file.sync_data().unwrap();
    let after = parse(&get(address, "/metrics").1);
    let grown = |name: &str| after[name] - before[name];
    assert_eq!(dirty["millpond_dirty_bytes"], (3 * PAGE) as f64);
    assert_eq!(after["millpond_dirty_bytes"], 0.0);
    assert_eq!(grown("millpond_vmstat_nr_dirtied_total"), 3.0);
    assert_eq!(grown("millpond_vmstat_nr_written_total"), 3.0);
    assert_eq!(grown("millpond_io_requests_total{reason=\"sync\"}"), 1.0);
    assert_eq!(
        grown("millpond_io_bytes_total{reason=\"sync\"}"),
        (3 * PAGE) as f64
    );
    assert!(grown("millpond_io_seconds_total{reason=\"sync\"}") > 0.0);
    assert_eq!(after["millpond_memory_budget_bytes"], f64::from(8 << 20));
    for name in [
        "millpond_vmstat_pgscan_direct_total",
        "millpond_vmstat_workingset_refault_file_total",
        "millpond_kswapd_awake_seconds_total",
        "millpond_admission_wait_seconds_total{reason=\"background\"}",
        "millpond_refaults_total{kind=\"file\"}",
        "millpond_eviction_age_seconds{kind=\"region\"}",
    ] {
        assert!(after.contains_key(name), "{name} is not in {after:?}");
    }
    let device = after
        .keys()
        .find(|name| name.starts_with("millpond_device_write_bytes_total{device="));
    assert_eq!(after[device.unwrap()], (3 * PAGE) as f64);
    let mut page = [0; PAGE];
    for _ in 0..5 {
        file.read_at(&mut page, 0).unwrap();
    }
    let read = parse(&get(address, "/metrics").1);
    assert_eq!(
        read["millpond_page_requests_total"] - after["millpond_page_requests_total"],
        5.0
    );
    assert_eq!(read["millpond_page_misses_total"], 0.0);
    // The name of a file is not disclosed.
    assert!(
        !get(address, "/metrics")
            .1
            .contains(&*folder.path().to_string_lossy())
    );
    assert!(get(address, "/").1.contains("/metrics"));
    assert!(get(address, "/other").0.starts_with("HTTP/1.1 404 "));
}

/// A format checker's verdict: the rules of the exposition format, and those of `promtool check metrics`.
fn checked(body: &str) -> Vec<String> {
    let mut wrong = Vec::new();
    let mut families: Vec<(&str, &str)> = Vec::new();
    let mut helped = None;
    for line in body.lines() {
        if let Some(help) = line.strip_prefix("# HELP ") {
            let (name, help) = help.split_once(' ').unwrap_or((help, ""));
            if help.is_empty() {
                wrong.push(format!("{name}: no help"));
            }
            helped = Some(name);
        } else if let Some(head) = line.strip_prefix("# TYPE ") {
            let (name, kind) = head.split_once(' ').unwrap();
            if helped != Some(name) || families.iter().any(|(known, _)| *known == name) {
                wrong.push(format!("{name}: no help before it, or twice"));
            }
            if !["counter", "gauge", "summary", "histogram", "untyped"].contains(&kind) {
                wrong.push(format!("{name}: no type is called {kind}"));
            }
            if (kind == "counter") != name.ends_with("_total") {
                wrong.push(format!("{name}: `_total` is for counters, and all of them"));
            }
            let parts: Vec<_> = name.split('_').collect();
            for word in [
                "gauge",
                "counter",
                "summary",
                "histogram",
                "ms",
                "ns",
                "us",
                "kb",
                "mb",
                "kib",
                "mib",
            ] {
                if parts.contains(&word) {
                    wrong.push(format!("{name}: `{word}` in a name"));
                }
            }
            if name
                .chars()
                .any(|c| !(c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_'))
            {
                wrong.push(format!("{name}: not in lower case"));
            }
            let is_reserved = ["_sum", "_count", "_bucket", "_info"]
                .iter()
                .any(|end| name.ends_with(end));
            if is_reserved && name != "millpond_build_info" {
                wrong.push(format!("{name}: its ending means something else"));
            }
            families.push((name, kind));
        } else {
            let end = line.find(['{', ' ']).unwrap();
            let Some(&(family, kind)) = families.last() else {
                wrong.push(format!("{line}: before any family"));
                continue;
            };
            let ending = line[..end].strip_prefix(family);
            let is_part = match kind {
                "summary" => matches!(ending, Some("" | "_sum" | "_count")),
                _ => ending == Some(""),
            };
            if !is_part {
                wrong.push(format!("{line}: not of the family {family}"));
            }
            let has_quantile = line.contains("quantile=\"");
            if has_quantile != (kind == "summary" && ending == Some("")) {
                wrong.push(format!(
                    "{line}: `quantile` is for summaries, and all of their own samples"
                ));
            }
        }
    }
    wrong
}

#[test]
fn a_checker_of_the_format_finds_nothing_wrong() {
    let folder = tempfile::tempdir().unwrap();
    let builder = PageCache::builder().memory(8 << 20).name("a \"name\"\\");
    let cache = builder
        .metrics(SocketAddr::from(([127, 0, 0, 1], 0)))
        .build()
        .unwrap();
    let path = folder.path().join("file");
    std::fs::write(&path, [1; PAGE]).unwrap();
    let file = cache.open(path, OpenOptions::new()).unwrap();
    for are_there_reads in [false, true] {
        if are_there_reads {
            file.read_at(&mut [0; PAGE], 0).unwrap();
        }
        let (_, body) = get(cache.metrics_address().unwrap(), "/metrics");
        assert_eq!(checked(&body), [""; 0], "{body}");
        // The checker itself, where it is: it knows rules that this does not.
        let promtool = Command::new("promtool")
            .args(["check", "metrics"])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn();
        match promtool {
            Ok(mut promtool) => {
                promtool.stdin.take().unwrap().write_all(body.as_bytes()).unwrap();
                let said = promtool.wait_with_output().unwrap();
                let words = [said.stdout, said.stderr].concat();
                assert!(said.status.success(), "{}", String::from_utf8_lossy(&words));
            }
            Err(error) => crate::support::skip(format!("promtool: {error}")),
        }
    }
    // It does find what is wrong.
    for (text, why) in [
        (
            "# HELP a A.\n# TYPE a gauge\na{quantile=\"0.5\"} 1\n",
            "is for summaries",
        ),
        ("# HELP a A.\n# TYPE a counter\na 1\n", "_total"),
        ("# TYPE a gauge\na 1\n", "no help before it"),
        ("# HELP a_ms A.\n# TYPE a_ms gauge\na_ms 1\n", "`ms`"),
        ("# HELP a A.\n# TYPE a gauge\nb 1\n", "not of the family"),
    ] {
        assert!(checked(text).concat().contains(why), "{text}");
    }
}

#[test]
fn metrics_are_off_unless_asked_for_and_go_with_the_cache() {
    let cache = PageCache::builder().memory(2 << 20).build().unwrap();
    assert_eq!(cache.metrics_address(), None);
    let local = SocketAddr::from(([127, 0, 0, 1], 0));
    let cache = PageCache::builder()
        .memory(2 << 20)
        .metrics(local)
        .build()
        .unwrap();
    let address = cache.metrics_address().unwrap();
    let taken = PageCache::builder()
        .memory(2 << 20)
        .metrics(address)
        .build()
        .unwrap_err();
    assert!(matches!(taken, Error::Metrics { .. }), "{taken}");
    assert!(taken.to_string().contains(&address.to_string()), "{taken}");
    drop(cache);
    assert!(TcpStream::connect(address).is_err());
}

#[test]
fn the_document_lists_the_metrics() {
    let folder = tempfile::tempdir().unwrap();
    let local = SocketAddr::from(([127, 0, 0, 1], 0));
    let builder = PageCache::builder().memory(2 << 20).name("pond").metrics(local);
    let cache = builder.build().unwrap();
    // For the labels of devices.
    let file = cache
        .open(folder.path().join("a"), OpenOptions::new().create(true))
        .unwrap();
    file.write_at(&[1; PAGE], 0).unwrap();
    file.sync_data().unwrap();
    let (_, body) = get(cache.metrics_address().unwrap(), "/metrics");
    let table = made::metrics(&body, "millpond_");
    assert!(table.contains("millpond_device_reads_total{device}`"), "{table}");
    made::block("docs/WATCH.md", "metrics", &table);
    // And what the page says of them is of those that there are.
    let page = include_str!("../../../../docs/WATCH.md");
    let named = page.split('`').skip(1).step_by(2);
    for name in named.filter(|name| name.starts_with("millpond_")) {
        assert!(table.contains(name), "there is no {name}");
    }
}

/// With what it does and what is allowed, `inspect options` and `set` say the rest.
#[test]
fn the_document_lists_the_settings() {
    let mut table = "| setting | default | change it when |\n|---|---|---|\n".to_owned();
    for setting in millpond::settings::SETTINGS {
        let default = setting.default_value();
        let default = default.map_or("given".to_owned(), |value| format!("`{value}`"));
        table += &format!("| `{}` | {default} | {} |\n", setting.name, setting.change_when);
    }
    made::block("docs/CONTROL.md", "settings", &table);
}
