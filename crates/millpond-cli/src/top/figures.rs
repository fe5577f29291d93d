//! What `millpond top` shows of a cache at one moment: answers of its control socket, and their growth.
//!
//! ```text
//!   about, stat, files, devices ──► Sample ──┐
//!   the same, an interval later ──► Sample ──┴──► Figures ──► the screen, JSON
//! ```
//!
//! Sizes are bytes, times nanoseconds, rates are per second. What a cache of an older version does not answer is 0 or
//! missing here.

use crate::control::{Cache, Fit, Reuse, Span, Store, count, list, path_shown, shown, text, with_source};
use crate::failure::Failure;
use millpond_core::io::Reason;
use serde::Serialize;
use serde_json::{Value, json};

/// The number of files requested: more than a screen has lines.
const FILES: usize = 200;

/// A cache's answers.
#[derive(Clone, Debug)]
pub(crate) struct Sample {
    pub(super) socket: String,
    pub(super) about: Value,
    pub(super) stat: Value,
    pub(super) files: Value,
    pub(super) devices: Value,
}

/// The orders of files: the cache's names and those used here.
pub(super) const ORDERS: [(&str, &str); 4] = [
    ("resident", "in memory"),
    ("dirty", "dirty"),
    ("tagged", "second chance"),
    ("refaults", "refaults"),
];

impl Sample {
    /// Asks all four questions.
    pub(super) fn ask(cache: &mut Cache, order: &str) -> Result<Sample, Failure> {
        Ok(Sample {
            socket: cache.socket.display().to_string(),
            about: with_source(cache.ask("about")?.1),
            stat: cache.ask("stat")?.1,
            devices: cache.ask("devices")?.1,
            files: cache.ask(&format!("files {FILES} by {order}"))?.1,
        })
    }

    /// The beginning of the cache, when nothing had been done.
    pub(super) fn beginning(&self) -> Sample {
        let nothing = json!({ "age_s": 0.0, "counters": {}, "devices": [] });
        Sample {
            stat: nothing.clone(),
            devices: nothing.clone(),
            files: nothing,
            ..self.clone()
        }
    }
}

/// The content of a screen.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Figures {
    pub(super) program: String,
    /// Where it is mounted, if it is a mount's.
    pub(super) name: Option<String>,
    pub(super) pid: u64,
    pub(super) socket: String,
    pub(super) age_s: f64,
    pub(super) interval_s: f64,
    pub(super) memory_bytes: u64,
    pub(super) memory: Memory,
    pub(super) rates: Rates,
    pub(super) fit: Fit,
    pub(super) reads: Reads,
    pub(super) devices: Vec<Device>,
    pub(super) stores: Vec<Store>,
    pub(super) waits: Vec<Wait>,
    pub(super) order: String,
    pub(super) files_open: u64,
    pub(super) files: Vec<File>,
}

/// Bytes by state. The first ones add up to all memory; the last ones overlap with them.
#[derive(Clone, Debug, Serialize)]
pub(super) struct Memory {
    pub(super) frames: u64,
    pub(super) free: u64,
    pub(super) clean_active: u64,
    pub(super) clean_inactive: u64,
    pub(super) dirty: u64,
    pub(super) writing: u64,
    pub(super) loading: u64,
    pub(super) anonymous: u64,
    pub(super) failed: u64,
    pub(super) second_chance: u64,
    /// Lent to the kernel's page cache, beside the pool.
    pub(super) lent: u64,
    pub(super) dirty_background: u64,
    pub(super) dirty_hard: u64,
    /// Only a part of the frames was scanned, and was extrapolated.
    pub(super) is_estimate: bool,
}

#[derive(Clone, Debug, Serialize)]
pub(super) struct Rates {
    pub(super) faults: f64,
    pub(super) refaults: f64,
    pub(super) readahead_pages: f64,
    pub(super) scanned: f64,
    pub(super) freed: f64,
    pub(super) dirtied: f64,
    pub(super) read_bytes: f64,
    pub(super) write_bytes: f64,
}

/// Reads that callers wait for, and the limits of writes beside them.
#[derive(Clone, Debug, Serialize)]
pub(super) struct Reads {
    pub(super) p50_ns: Option<u64>,
    pub(super) p99_ns: Option<u64>,
    pub(super) goal_ns: Option<u64>,
    /// The goal's origin.
    pub(super) goal_source: Option<String>,
    pub(super) in_transit_bytes: u64,
    pub(super) in_transit_limit_bytes: Option<u64>,
}

#[derive(Clone, Debug, Serialize)]
pub(super) struct Device {
    pub(super) name: String,
    pub(super) reads: f64,
    pub(super) read_bytes: f64,
    pub(super) p50_ns: Option<u64>,
    pub(super) p99_ns: Option<u64>,
    pub(super) writes: f64,
    pub(super) write_bytes: f64,
    pub(super) write_mean_ns: Option<f64>,
    pub(super) syncs: f64,
    pub(super) reads_in_transit: u64,
    pub(super) writes_in_transit: u64,
    pub(super) write_bytes_in_transit: u64,
    pub(super) write_bytes_in_transit_limit: Option<u64>,
    /// The goal for 99 of 100 reads of it.
    pub(super) goal_ns: Option<u64>,
    /// Since the beginning.
    pub(super) errors: u64,
}

/// One kind of wait.
#[derive(Clone, Debug, Serialize)]
pub(super) struct Wait {
    pub(super) who: &'static str,
    pub(super) why: String,
    /// The present wait.
    pub(super) now: Option<String>,
    pub(super) times: f64,
    /// Milliseconds in each second; `None` where only occurrences are counted.
    pub(super) ms: Option<f64>,
}

#[derive(Clone, Debug, Serialize)]
pub(super) struct File {
    pub(super) path: String,
    pub(super) device: Option<String>,
    pub(super) bytes: u64,
    pub(super) resident: u64,
    pub(super) dirty: u64,
    pub(super) writing: u64,
    pub(super) second_chance: u64,
    /// Since it was opened.
    pub(super) refaults: u64,
    #[serde(flatten)]
    pub(super) reuse: Reuse,
}

impl Figures {
    /// The state in `now`, and the activity since `before`.
    pub(super) fn of(before: &Sample, now: &Sample) -> Figures {
        let span = Span {
            before: &before.stat,
            now: &now.stat,
        };
        let files = files(&before.files, now);
        let devices = |n: &Value| device(&before.devices, n, span.seconds());
        Figures {
            program: shown(text(&now.about, "program")),
            name: now.about["name"].as_str().map(shown),
            pid: count(&now.about, "pid"),
            socket: now.socket.clone(),
            age_s: now.stat["age_s"].as_f64().unwrap_or(0.0),
            interval_s: span.seconds(),
            memory_bytes: count(&now.about, "memory_bytes"),
            memory: memory(now),
            rates: Rates {
                faults: span.rate("pgmajfault"),
                refaults: span.rate("workingset_refault_file"),
                readahead_pages: span.rate("readahead_pages"),
                scanned: span.rate("pgscan_kswapd") + span.rate("pgscan_direct"),
                freed: span.rate("pgsteal_kswapd") + span.rate("pgsteal_direct"),
                dirtied: span.rate("nr_dirtied"),
                read_bytes: span.rates("io_bytes", Reason::is_read),
                write_bytes: span.rates("io_bytes", |reason| !reason.is_read()),
            },
            reads: Reads {
                p50_ns: now.stat["now"]["read_p50_ns"].as_u64(),
                p99_ns: now.stat["now"]["read_p99_ns"].as_u64(),
                goal_ns: now.stat["now"]["read_goal_ns"].as_u64(),
                goal_source: now.stat["now"]["read_goal_source"].as_str().map(shown),
                in_transit_bytes: count(&now.stat["now"], "in_transit_writes_bytes"),
                in_transit_limit_bytes: now.stat["now"]["in_transit_limit_bytes"].as_u64(),
            },
            devices: list(&now.devices, "devices").iter().map(devices).collect(),
            stores: Store::all(&span),
            waits: waits(&span, &now.stat["waiting"]),
            order: text(&now.files, "order").into(),
            files_open: count(&now.files, "files_open"),
            fit: Fit::of(&span, files.iter().map(|file| (&*file.path, &file.reuse))),
            files,
        }
    }
}

fn memory(now: &Sample) -> Memory {
    let page = count(&now.stat, "page_bytes");
    let there = |name: &str| count(&now.stat["now"], name) * page;
    let of_files = |name: &str| count(&now.files["of_files"], name) * page;
    let anonymous = |name: &str| count(&now.files["anonymous"], name) * page;
    let unclean = |name: &str| of_files(name).saturating_sub(of_files("redirtied"));
    Memory {
        frames: there("frames"),
        free: there("free"),
        clean_active: of_files("clean_active"),
        clean_inactive: of_files("clean_inactive"),
        // Pages changed since their write began count as being written here.
        dirty: unclean("dirty"),
        writing: of_files("writing"),
        loading: of_files("loading"),
        anonymous: anonymous("resident"),
        failed: there("failed"),
        second_chance: of_files("tagged") + anonymous("tagged"),
        lent: count(&now.stat["now"], "lent_bytes"),
        dirty_background: there("dirty_background"),
        dirty_hard: there("dirty_hard"),
        is_estimate: count(&now.files, "frames_scanned") < count(&now.files, "frames"),
    }
}

fn device(before: &Value, now: &Value, seconds: f64) -> Device {
    let nothing = Value::Null;
    let before = list(before, "devices").iter();
    let before = before
        .clone()
        .find(|d| d["number"] == now["number"])
        .unwrap_or(&nothing);
    let grown = |name: &str| count(now, name).saturating_sub(count(before, name)) as f64;
    let rate = |name: &str| grown(name) / seconds;
    Device {
        name: shown(text(now, "name")),
        reads: rate("reads"),
        read_bytes: rate("read_bytes"),
        p50_ns: now["read_p50_ns"].as_u64(),
        p99_ns: now["read_p99_ns"].as_u64(),
        writes: rate("writes"),
        write_bytes: rate("write_bytes"),
        write_mean_ns: (grown("writes") > 0.0).then(|| grown("write_ns") / grown("writes")),
        syncs: rate("syncs"),
        reads_in_transit: count(now, "reads_in_transit"),
        writes_in_transit: count(now, "writes_in_transit"),
        write_bytes_in_transit: count(now, "writes_in_transit_bytes"),
        write_bytes_in_transit_limit: now["writes_in_transit_limit_bytes"].as_u64(),
        goal_ns: now["read_goal_ns"].as_u64(),
        errors: count(now, "errors"),
    }
}

/// The waits, longest first, without those that neither occurred in the interval nor are present now.
fn waits(span: &Span<'_>, waiting: &Value) -> Vec<Wait> {
    let ms = |name: &str| Some(span.rate(name) / 1e6);
    let for_ms = |name: &str| waiting[name].as_f64().map(|ns| format!("{:.1} ms", ns / 1e6));
    // A present wait counts for its duration: all of each second.
    let for_s = |name: &str| {
        let ns = span.now["now"][name].as_f64().filter(|ns| *ns > 0.0)?;
        Some(format!("{:.1} s", ns / 1e9))
    };
    let blocked = count(waiting, "dirtiers_blocked");
    // A request that its disk does not answer is not a wait for anything else.
    let overdue = &span.now["overdue"];
    let is_held = |reason: Reason| waiting["held_back"] == reason.name();
    let mut waits = vec![
        Wait {
            who: "callers",
            why: "a page is missing: it is read".into(),
            now: None,
            times: span.rate("io_requests_fault"),
            ms: ms("io_ns_fault"),
        },
        Wait {
            who: "callers",
            why: "no frame is free".into(),
            now: (waiting["for_memory"] == true).then(|| "some".into()),
            times: span.rate("frame_waits"),
            ms: ms("frame_wait_ns"),
        },
        Wait {
            who: "callers",
            why: "they reclaim for themselves".into(),
            now: None,
            times: span.rate("allocstall"),
            ms: ms("direct_reclaim_ns"),
        },
        Wait {
            who: "dirtiers",
            why: "too much is dirty: they pause".into(),
            now: (blocked > 0).then(|| blocked.to_string()),
            times: span.rate("balance_dirty_pauses"),
            ms: None,
        },
        Wait {
            who: "syncs",
            why: "pages are busy, or their log is behind".into(),
            now: for_ms("sync_blocked_ns"),
            times: 0.0,
            ms: ms("sync_blocked_ns"),
        },
        Wait {
            who: "callers",
            why: "a page is busy".into(),
            now: for_s("guard_wait_ns"),
            times: 0.0,
            ms: for_s("guard_wait_ns").map(|_| 1e3),
        },
        Wait {
            who: "syncs",
            why: "their log does not advance".into(),
            now: for_s("log_wait_ns"),
            times: 0.0,
            ms: for_s("log_wait_ns").map(|_| 1e3),
        },
    ];
    for reason in Reason::ALL.into_iter().filter(|reason| !reason.is_read()) {
        let why = match reason {
            Reason::Background => "background",
            Reason::DirtierBlocked => "for a dirtier",
            Reason::Reclaim => "for reclaim",
            Reason::Sync => "for a sync",
            _ => "to swap",
        };
        waits.push(Wait {
            who: "writes",
            why: match overdue.is_object() {
                false => format!("{why}: held back for reads"),
                true => format!("{why}: held back"),
            },
            now: is_held(reason).then(|| for_ms("held_back_ns")).flatten(),
            times: span.rate(&format!("admission_waits_{}", reason.name())),
            ms: ms(&format!("admission_wait_ns_{}", reason.name())),
        });
    }
    waits.retain(|wait| wait.now.is_some() || wait.times > 0.0 || wait.ms.is_some_and(|ms| ms > 0.0));
    waits.sort_by(|a, b| {
        let weight = |wait: &Wait| wait.ms.unwrap_or(wait.times);
        weight(b).total_cmp(&weight(a))
    });
    if overdue.is_object() {
        let requests = count(overdue, "requests");
        waits.insert(
            0,
            Wait {
                who: "DISK",
                why: match requests {
                    1 => "a request gets no answer".into(),
                    requests => format!("{requests} requests get no answer"),
                },
                now: overdue["waited_s"].as_f64().map(|s| format!("{s:.1} s")),
                times: 0.0,
                ms: None,
            },
        );
    }
    waits
}

fn files(before: &Value, now: &Sample) -> Vec<File> {
    let files = &now.files;
    let page = count(files, "page_bytes");
    let one = |file: &Value| {
        let bytes = |name: &str| count(file, name) * page;
        File {
            path: path_shown(&now.about, file),
            device: file["device"].as_str().map(shown),
            bytes: count(file, "bytes"),
            resident: bytes("resident"),
            dirty: bytes("dirty"),
            writing: bytes("writing"),
            second_chance: bytes("tagged"),
            refaults: count(file, "refaults"),
            reuse: Reuse::of(before, file, page),
        }
    };
    list(files, "files").iter().map(one).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::top::tests::{after, before};

    #[test]
    fn rates_are_for_a_second_and_states_add_up_to_the_frames() {
        let figures = Figures::of(&before(), &after());
        let m = &figures.memory;
        let all = m.free + m.clean_active + m.clean_inactive + m.dirty + m.writing + m.loading + m.anonymous;
        // The answers came one after the other, and pages moved in between.
        assert!(all.abs_diff(m.frames) < m.frames / 20, "{all} of {}", m.frames);
        let span = Span {
            before: &before().stat,
            now: &after().stat,
        };
        assert!((figures.interval_s - span.seconds()).abs() < 1e-9);
        assert_eq!(figures.rates.faults, span.rate("pgmajfault"));
        assert_eq!(figures.devices.len(), 1);
        assert!(figures.devices[0].reads > 0.0 && figures.devices[0].p99_ns.is_some());
        assert!(figures.files[0].resident > 0);
    }

    #[test]
    fn waits_are_sorted_longest_first_without_absent_ones() {
        let stat = |times: u64| {
            json!({ "age_s": times as f64, "counters": {
                "frame_waits": times, "frame_wait_ns": 5_000_000 * times,
                "admission_waits_sync": 3 * times, "admission_wait_ns_sync": 7_000_000 * times,
            }, "now": { "guard_wait_ns": 0, "log_wait_ns": 12_300_000_000_u64 } })
        };
        let (before, now) = (stat(1), stat(2));
        let span = Span {
            before: &before,
            now: &now,
        };
        let waiting = json!({ "dirtiers_blocked": 2, "held_back": "sync", "held_back_ns": 1_500_000 });
        let waits = waits(&span, &waiting);
        let told: Vec<_> = waits.iter().map(|w| (w.who, w.now.as_deref(), w.ms)).collect();
        assert_eq!(
            told,
            [
                ("syncs", Some("12.3 s"), Some(1e3)),
                ("writes", Some("1.5 ms"), Some(7.0)),
                ("callers", None, Some(5.0)),
                ("dirtiers", Some("2"), None)
            ]
        );
    }

    #[test]
    fn a_path_can_not_move_the_cursor() {
        assert_eq!(shown("/a\u{1b}[2Jb\n"), "/a\\u{1b}[2Jb\\n");
    }
}
