//! What watching clients ask for beside `stat`: the files that have most in memory, and what each device
//! does.
//!
//! What it costs is bounded: `devices` is a list of as many entries as there are devices, `files` looks at 2^20 frames at
//! most, a thousand of them at a time under the core lock, and names 1000 files at most.

use super::answer::{error, seconds};
use crate::control::cache::Cache;
use crate::device::{Device, DeviceClass, DeviceFigures, StoreFigure, StoreFigures, StoreValue, device_name};
use crate::observe::contents::{FRAMES_MAX, FileContents, More, Order, Pages, ReuseFigures};
use millpond_core::units::Nanos;
use serde_json::{Value, json};
use std::collections::HashMap;

/// Files in an answer, where no number is given.
const FILES: usize = 20;

/// And at most.
const FILES_MAX: usize = 1000;

/// `files [COUNT] [by ORDER]`.
pub(super) fn files(cache: &Cache, words: &[&str]) -> Value {
    let (count, words) = match words {
        [count, rest @ ..] if *count != "by" => (count.parse().ok(), rest),
        rest => (Some(FILES), rest),
    };
    let order = match words {
        [] => Some(Order::default()),
        ["by", name] => Order::ALL.into_iter().find(|order| order.name() == *name),
        _ => None,
    };
    let (Some(count), Some(order)) = (count.filter(|&count| count <= FILES_MAX), order) else {
        let orders: Vec<_> = Order::ALL.iter().map(|order| order.name()).collect();
        let why = format!(
            "files takes a number up to {FILES_MAX} and an order: `files 20 by {}`",
            orders.join("|")
        );
        return error("request", &why);
    };
    // Asked for once each: few devices have many files.
    let mut names = HashMap::new();
    let contents = cache.engine.contents(count, order, FRAMES_MAX);
    json!({
        "age_s": seconds(cache.engine.age()),
        "page_bytes": cache.engine.page_size.bytes(),
        "frames": contents.frames.0,
        "frames_scanned": contents.frames_scanned.0,
        "order": order.name(),
        "of_files": pages(&contents.of_files),
        "anonymous": pages(&contents.anonymous),
        "files_open": contents.files_open,
        "files": contents.files.iter().map(|one| file(one, &mut names)).collect::<Vec<_>>(),
    })
}

fn file(file: &FileContents, names: &mut HashMap<u64, String>) -> Value {
    let mut value = pages(&file.pages);
    value["path"] = match &file.path {
        Some(path) => path.display().to_string().into(),
        None => Value::Null,
    };
    let mut name = |device| names.entry(device).or_insert_with(|| device_name(device)).clone();
    value["device"] = file.device.map(&mut name).into();
    value["bytes"] = file.len.into();
    value["requests"] = file.requests.into();
    let reuse = reuse(&file.reuse);
    for (name, figure) in reuse.as_object().into_iter().flatten() {
        value[name] = figure.clone();
    }
    value
}

/// How pages leave and come back: pages, and ns.
pub(super) fn reuse(reuse: &ReuseFigures) -> Value {
    let ns = |span: Option<Nanos>| span.map(|span| span.0);
    json!({
        "misses": reuse.misses,
        "evicted": reuse.evicted,
        "refaults": reuse.refaults,
        "refaults_kept_by_double": reuse.refaults_kept_by_double,
        "refaults_forgotten": reuse.refaults_forgotten,
        "eviction_age_ns": ns(reuse.eviction_age),
        "away_ns": ns(reuse.away),
        "more_pages": match reuse.more {
            More::Pages(pages) => Some(pages.0),
            More::None | More::AboveDouble => None,
        },
        "more_than_double": reuse.more == More::AboveDouble,
    })
}

/// In pages.
fn pages(pages: &Pages) -> Value {
    json!({
        "resident": pages.resident().0,
        "clean_active": pages.clean_active.0,
        "clean_inactive": pages.clean_inactive.0,
        "dirty": pages.unsaved().0,
        "writing": (pages.writing + pages.redirtied).0,
        "redirtied": pages.redirtied.0,
        "loading": pages.loading.0,
        "tagged": pages.tagged.0,
    })
}

/// `devices`.
pub(super) fn devices(cache: &Cache) -> Value {
    let devices: Vec<_> = cache.engine.device_figures().iter().map(device).collect();
    json!({
        "age_s": seconds(cache.engine.age()),
        "devices": devices,
    })
}

/// Its name for people.
fn class(class: DeviceClass) -> &'static str {
    match class {
        DeviceClass::Arm => "one arm",
        DeviceClass::Channels => "many channels",
    }
}

fn device(figures: &DeviceFigures) -> Value {
    let ns = |span: Option<Nanos>| span.map(|span| span.0);
    json!({
        "name": device_name(figures.device),
        "number": figures.device,
        "reads": figures.reads,
        "read_bytes": figures.read_bytes,
        "waited_reads": figures.waited_reads,
        "waited_read_ns": figures.waited_read_time.0,
        "writes": figures.writes,
        "write_bytes": figures.write_bytes,
        "write_ns": figures.write_time.0,
        "syncs": figures.syncs,
        "sync_ns": figures.sync_time.0,
        "errors": figures.errors,
        "reads_in_transit": figures.reads_in_transit,
        "writes_in_transit": figures.writes_in_transit,
        "write_bytes_in_transit": figures.write_bytes_in_transit,
        "read_p50_ns": ns(figures.read_p50),
        "read_p99_ns": ns(figures.read_p99),
        "read_goal_ns": ns(figures.read_goal),
        "write_bytes_in_transit_limit": figures.write_bytes_in_transit_limit.map(|bytes| bytes.0),
        "class": figures.class.map(class),
    })
}

/// The stores that the device stands on, for `stat`: each figure with its name and unit, in the device's order.
pub(super) fn stores(cache: &Cache) -> Vec<Value> {
    let figure = |figure: &StoreFigure| {
        let (unit, value) = match figure.value {
            StoreValue::Total(value) => ("total", value),
            StoreValue::TotalBytes(value) => ("total_bytes", value.0),
            StoreValue::Timed(value, _) => ("timed", value),
            StoreValue::Number(value) => ("number", value),
            StoreValue::Bytes(value) => ("bytes", value.0),
            StoreValue::Time(value) => ("ns", value.0),
        };
        let mut told = json!({ "name": figure.name, "unit": unit, "value": value });
        if let StoreValue::Timed(_, time) = figure.value {
            told["ns"] = time.0.into();
        }
        told
    };
    let store = |store: &StoreFigures| {
        let figures: Vec<_> = store.figures.iter().map(figure).collect();
        json!({ "name": store.name, "figures": figures })
    };
    cache.engine.device.stores().iter().map(store).collect()
}

/// The threads that wait, for `stat`.
pub(super) fn waiting(waiting: &crate::observe::stats::Waiting) -> Value {
    json!({
        "held_back": waiting.held_back.map(|(reason, _)| reason.name()),
        "held_back_ns": waiting.held_back.map(|(_, span)| span.0),
        "sync_blocked_ns": waiting.sync_blocked.map(|span| span.0),
        "dirtiers_blocked": waiting.dirtiers_blocked,
        "for_memory": waiting.memory,
    })
}

/// Counters that are not the core's own: of the replacement, and what threads have waited for frames.
pub(super) fn more_counters(stats: &crate::Stats) -> [(&'static str, u64); 15] {
    let (lru, waits) = (&stats.replacement, &stats.frame_waits);
    let ns = |span: std::time::Duration| span.as_nanos() as u64;
    [
        ("pgactivate", lru.pgactivate),
        ("pgdeactivate", lru.pgdeactivate),
        ("pgrefill", lru.pgrefill),
        ("pgrotated", lru.pgrotated),
        ("workingset_refault_file", lru.workingset_refault_file),
        ("workingset_activate_file", lru.workingset_activate_file),
        ("workingset_restore_file", lru.workingset_restore_file),
        ("bimodal_activate_file", lru.bimodal_activate_file),
        ("no_reuse_file", lru.no_reuse_file),
        ("scan_balance_rotated", lru.scan_balance_rotated),
        ("frame_waits", waits.count),
        ("frame_wait_ns", ns(waits.total)),
        ("direct_reclaim_ns", ns(waits.reclaiming)),
        ("swap_ra_hit", stats.swap_ahead_hits),
        ("page_requests", stats.page_requests),
    ]
}
