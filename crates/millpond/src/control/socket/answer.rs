//! A cache's answers to lines of words.
//!
//! | line | answer |
//! |---|---|
//! | `help` | the lines that are understood |
//! | `about` | which process and version this is, since when |
//! | `set NAME=VALUE …` | what has changed, and what the limits became |
//! | `inspect limits` | every derived value: formula, inputs, settings, the last change and its author |
//! | `inspect options` | every setting, what it is, what it may be |
//! | `inspect history` | the last changes of settings |
//! | `stat` | how full the cache is and with what, which threads wait, its counters, and the figures of its stores |
//! | `files [COUNT] [by ORDER]` | pages in memory by state, and the files that have most of them |
//! | `devices` | what each device has done, and how long reads of it take |
//! | `record start BYTES PATH` | calls are recorded into a new file, of that size at most; the path is the rest of the line |
//! | `record state` | how the recording goes, or how the last one has ended |
//! | `record stop` | the same, after its end |
//!
//! An answer is an object; one with `error` says what was wrong and what is allowed, and nothing was changed. `kind` is
//! `request` if the line was not understood, `setting` if a value can't be, `refused`, or `cache` for whatever else.

use super::{reclaim, watch};
use crate::control::cache::Cache;
use crate::control::calibration::is_too_long;
use crate::control::tuning::asks_to_measure;
use crate::device::Warning;
use crate::error::Error;
use crate::error::told::Surface;
use crate::observe::figures;
use crate::observe::history::{By, Change, LimitChange, SettingChange};
use crate::observe::trace::{Ended, Progress};
use crate::settings::Limit;
use crate::settings::{Kind, Value as SettingValue, pair};
use millpond_core::dirty::limits::DirtyLimit;
use millpond_core::units::{Nanos, PageCount};
use serde_json::{Map, Value, json};
use std::path::Path;
use std::time::{Duration, SystemTime};

/// The version of lines and answers: it changes when clients' assumptions no longer hold.
const PROTOCOL: u32 = 1;

const COMMANDS: [&str; 13] = [
    "help",
    "about",
    "set NAME=VALUE ...",
    "inspect limits",
    "inspect options",
    "inspect history",
    "stat",
    "reclaim",
    "record start BYTES PATH",
    "record state",
    "record stop",
    "files [COUNT] [by ORDER]",
    "devices",
];

pub(super) fn error(kind: &str, why: &str) -> Value {
    json!({ "error": why, "kind": kind })
}

/// Whether the answer may wait for a disk.
pub(super) fn is_slow(line: &str) -> bool {
    line.split_ascii_whitespace().next() == Some("record")
}

pub(super) fn answer(cache: &Cache, by: &By, line: &str) -> Value {
    let words: Vec<&str> = line.split_ascii_whitespace().collect();
    match words[..] {
        ["help"] => json!({ "commands": COMMANDS }),
        ["about"] => about(cache),
        ["set", ref pairs @ ..] => match set(cache, by, pairs) {
            Ok(change) => {
                let mut answer = changed(&change, cache);
                let mut notes = cuts(cache, &change);
                notes.extend(on_goal(cache, &change, pairs));
                answer["notes"] = notes.into();
                answer
            }
            Err(why) => {
                let kind = match why {
                    Error::Poisoned { .. } | Error::Setup { .. } => "cache",
                    _ => "setting",
                };
                error(kind, &why.told(Surface::CommandLine))
            }
        },
        ["inspect", "limits"] => limits(cache),
        ["inspect", "options"] => options(cache),
        ["inspect", "history"] => history(cache),
        ["stat"] => stat(cache),
        ["reclaim"] => reclaim::reclaim(cache),
        ["record", "start", bytes, ..] => record(cache, bytes, line),
        ["record", "state"] => recording(cache.recordings.lock().progress()),
        ["record", "stop"] => recording(cache.record_stop(None).as_ref().map(Progress::from)),
        ["files", ref words @ ..] => watch::files(cache, words),
        ["devices"] => watch::devices(cache),
        _ => {
            let shown: String = line.chars().take(60).collect();
            let why = format!(
                "{shown:?} is not a command; the commands are: {}",
                COMMANDS.join(", ")
            );
            error("request", &why)
        }
    }
}

fn about(cache: &Cache) -> Value {
    let program = std::env::current_exe().ok();
    let program = program.and_then(|path| Some(path.file_name()?.to_string_lossy().into_owned()));
    let stats = cache.engine.stats();
    json!({
        "protocol": PROTOCOL,
        "version": env!("CARGO_PKG_VERSION"),
        "pid": std::process::id(),
        "program": program,
        "name": cache.name.get(),
        "age_s": seconds(cache.engine.age()),
        "memory_bytes": cache.budget.lock().memory.0,
        "page_bytes": cache.engine.page_size.bytes(),
        "device": stats.device,
        "overdue": overdue(cache),
        "failed_bytes": stats.occupancy.failed.to_bytes(cache.engine.page_size).0,
    })
}

/// Requests that the devices have not answered for `hung_io_timeout`; null if there are none.
fn overdue(cache: &Cache) -> Value {
    cache
        .engine
        .device
        .overdue()
        .map_or(Value::Null, |(requests, longest)| {
            let waited = match &longest {
                Warning::Overdue { waited, .. } => *waited,
                _ => Duration::ZERO,
            };
            json!({ "requests": requests, "waited_s": seconds(waited), "longest": longest.to_string() })
        })
}

fn set(cache: &Cache, by: &By, pairs: &[&str]) -> Result<Change, Error> {
    let pairs: Result<Vec<_>, _> = pairs.iter().map(|text| pair(text)).collect();
    cache.set(by.clone(), &pairs?)
}

/// A note about a goal for reads that was set, or is to be measured.
fn on_goal(cache: &Cache, change: &Change, pairs: &[&str]) -> Option<String> {
    let goal = cache.inspect_goal()?.setting;
    let now = SettingValue::Time(goal);
    let pairs: Vec<_> = pairs.iter().filter_map(|text| pair(text).ok()).collect();
    if asks_to_measure(&pairs) {
        return Some(format!(
            "the goal for reads is {now} until reads of the idle disk are measured, in some seconds or once the disk is idle; \
             inspect limits admission.goal shows the result"
        ));
    }
    let is_set = change
        .settings
        .iter()
        .any(|setting| setting.name == "admission.read_latency");
    let idle = cache.calibrating.lock().goal_when_idle().filter(|_| is_set)?;
    is_too_long(Duration::from_nanos(goal.0), idle).then(|| {
        let idle = SettingValue::Time(Nanos(idle.as_nanos() as u64));
        format!(
            "a goal for reads of {now} is more than five times the {idle} that this disk needed when it was measured: reads beside \
             writers may take that long; admission.read_latency=measure goes by the disk"
        )
    })
}

/// Limits on dirty pages that were just set and are not what was asked for, because others bound them: in sentences.
fn cuts(cache: &Cache, change: &Change) -> Vec<String> {
    let dirty = cache.options().dirty;
    let asked = |name: &str| match name {
        "dirty.hard" => Some(dirty.hard),
        "dirty.background" => Some(dirty.background),
        _ => None,
    };
    let is_set = |name: &str| change.settings.iter().any(|setting| setting.name == name);
    let cut = |limit: &Limit| {
        let derived = &limit.derived;
        let asked = asked(derived.name).filter(|_| is_set(derived.name))?;
        let dirtyable = derived.inputs.iter().find(|(name, _)| *name == "dirtyable")?.1;
        let pages = match asked {
            DirtyLimit::Share(share) => PageCount(share.of(dirtyable)),
            DirtyLimit::Size(bytes) => bytes.to_pages(cache.engine.page_size),
        };
        // Its bounds follow the comma.
        let bounds = derived.formula.rsplit_once(", ").map_or("", |(_, bounds)| bounds);
        (pages != derived.pages).then(|| {
            format!(
                "{} is now {} pages, not the {} that this asks for: it is {bounds}",
                derived.name, derived.pages.0, pages.0
            )
        })
    };
    cache.inspect_limits().iter().filter_map(cut).collect()
}

fn changed(change: &Change, cache: &Cache) -> Value {
    let page = cache.engine.page_size;
    let setting = |s: &SettingChange| json!({ "name": s.name, "old": s.old, "new": s.new });
    let limit = |l: &LimitChange| {
        json!({
            "name": l.name,
            "old_pages": l.old.0,
            "new_pages": l.new.0,
            "old_bytes": l.old.to_bytes(page).0,
            "new_bytes": l.new.to_bytes(page).0,
        })
    };
    let since = change.at.duration_since(SystemTime::UNIX_EPOCH);
    json!({
        "number": change.number,
        "at_unix_s": seconds(since.unwrap_or_default()),
        "age_s": seconds(change.age),
        "by": change.by.to_string(),
        "settings": change.settings.iter().map(setting).collect::<Vec<_>>(),
        "limits": change.limits.iter().map(limit).collect::<Vec<_>>(),
    })
}

fn limits(cache: &Cache) -> Value {
    let history = cache.history();
    let one = |limit: &Limit| {
        let d = &limit.derived;
        let inputs: Map<String, Value> = d.inputs.iter().map(|(n, v)| ((*n).into(), (*v).into())).collect();
        let is_last = |change: &&Change| {
            let named = |s: &SettingChange| d.set_last.is_some_and(|last| s.name.starts_with(last));
            let is_own = matches!(change.by, By::File | By::Region | By::Host | By::Lending);
            (is_own && d.set_last == Some("memory")) || change.settings.iter().any(named)
        };
        let by = history.changes.iter().rev().find(is_last);
        // Settings from the cache's creation have no change.
        let (set_last, set_ago) = match by {
            None if history.forgotten == 0 => (None, cache.engine.age()),
            _ => (d.set_last, limit.set_ago),
        };
        json!({
            "name": d.name,
            "pages": d.pages.0,
            "bytes": limit.bytes.0,
            "formula": d.formula,
            "inputs": inputs,
            "setting": d.setting,
            "settings": d.settings,
            "set_last": set_last,
            "set_by": by.map(|change| change.by.to_string()),
            "set_ago_s": seconds(set_ago),
        })
    };
    let limits: Vec<_> = cache.inspect_limits().iter().map(one).collect();
    let goal = cache.inspect_goal().map(|goal| {
        let named = |s: &SettingChange| s.name == "admission.read_latency";
        let by = history
            .changes
            .iter()
            .rev()
            .find(|change| change.settings.iter().any(named));
        json!({
            "name": "admission.goal",
            "ns": goal.goal.0,
            "formula": goal.formula,
            "inputs": { "unloaded_p95_ns": goal.unloaded_p95.0, "admission.read_latency_ns": goal.setting.0 },
            "setting": SettingValue::Time(goal.setting).to_string(),
            "source": cache.goal_source().map(|source| source.to_string()),
            "set_by": by.map(|change| change.by.to_string()),
            "set_ago_s": seconds(by.map_or(cache.engine.age(), |change| cache.engine.age() - change.age)),
        })
    });
    json!({
        "age_s": seconds(cache.engine.age()),
        "page_bytes": cache.engine.page_size.bytes(),
        "limits": limits,
        "goal": goal,
    })
}

fn options(cache: &Cache) -> Value {
    let one = |(setting, value): (&'static crate::settings::Setting, Option<String>)| {
        let allowed = match setting.kind {
            Kind::Word(_) | Kind::Switch => setting.kind.syntax(),
            _ => setting.allowed(),
        };
        json!({
            "name": setting.name,
            "value": value,
            "default": setting.default_value().map(|value| value.to_string()),
            "allowed": allowed,
            "about": setting.about,
            "belongs_to": setting.of.map(|(choice, forms)| format!("{choice}={}", forms.join("|"))),
        })
    };
    json!({ "options": cache.settings_now().into_iter().map(one).collect::<Vec<_>>() })
}

fn history(cache: &Cache) -> Value {
    let history = cache.history();
    let changes: Vec<_> = history
        .changes
        .iter()
        .map(|change| changed(change, cache))
        .collect();
    json!({
        "age_s": seconds(cache.engine.age()),
        "page_bytes": cache.engine.page_size.bytes(),
        "forgotten": history.forgotten,
        "changes": changes,
    })
}

fn stat(cache: &Cache) -> Value {
    let stats = cache.engine.stats();
    let (mut now, mut counters) = (Map::new(), Map::new());
    figures::each(&stats, |figure| {
        let to = if figure.unit.counts() {
            &mut counters
        } else {
            &mut now
        };
        to.insert(figure.field(), figure.value.into());
    });
    let costs = &stats.refault_costs;
    now.insert(
        "scan_balance_per_mille".into(),
        costs.scan_balance_per_mille.into(),
    );
    let source = cache.goal_source().map(|source| source.to_string());
    now.insert("read_goal_source".into(), source.into());
    json!({
        "age_s": seconds(cache.engine.age()),
        "page_bytes": cache.engine.page_size.bytes(),
        "memory": memory(cache),
        "now": now,
        "reuse": {
            "files": watch::reuse(&stats.reuse_of_files),
            "regions": watch::reuse(&stats.reuse_of_regions),
        },
        "waiting": watch::waiting(&stats.waiting),
        "overdue": overdue(cache),
        "stores": watch::stores(cache),
        "counters": counters,
    })
}

fn memory(cache: &Cache) -> Value {
    let memory = cache.memory_in_force();
    json!({
        "bytes": memory.bytes.0,
        "auto": memory.auto.map(|range| json!({ "min_bytes": range.min.0, "max_bytes": range.max.0 })),
        "why": memory.why,
    })
}

fn record(cache: &Cache, bytes: &str, line: &str) -> Value {
    // The path as it is, with whatever blanks it has.
    let path = line.split_once(bytes).map_or("", |(_, path)| path);
    let (Ok(bytes), Some(path)) = (bytes.parse(), path.strip_prefix(' ')) else {
        return error("request", "the form is record start BYTES PATH");
    };
    match cache.record_start(Path::new(path), bytes) {
        Ok(_) => recording(cache.recordings.lock().progress()),
        Err(why) => error("refused", &why.told(Surface::CommandLine)),
    }
}

fn recording(progress: Option<Progress>) -> Value {
    let Some(progress) = progress else {
        return error("refused", "no recording was made of this cache");
    };
    let failed = match &progress.ended {
        Some(Ended::Failed(why)) => Some(why.clone()),
        _ => None,
    };
    json!({
        "path": progress.path.display().to_string(),
        "accesses": progress.accesses,
        "lost": progress.lost,
        "bytes": progress.bytes,
        "took_s": seconds(progress.took),
        "ended": progress.ended.map(|ended| match ended {
            Ended::Failed(_) => "failed".to_owned(),
            other => other.to_string(),
        }),
        "failed": failed,
    })
}

pub(super) fn seconds(span: Duration) -> f64 {
    // Microseconds are enough, and shorter to read.
    (span.as_secs_f64() * 1e6).round() / 1e6
}
