//! What watching clients ask for beside `stat`: the files that have most in memory, and what each device
//! does.
//!
//! What it costs is bounded: `devices` is a list of as many entries as there are devices, `files` looks at 2^20 frames at
//! most, a thousand of them at a time under the core lock, and names 1000 files at most.

use super::answer::{error, seconds};
use crate::control::cache::Cache;
use crate::device::{Device, DeviceClass, DeviceFigures, StoreFigure, StoreFigures, StoreValue, device_name};
use crate::observe::contents::{FRAMES_MAX, FileContents, More, Order, Pages, ReuseFigures};
use crate::observe::figures::{DEVICE, REUSE, Row};
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
    let mut value = fields(REUSE, reuse);
    value["more_pages"] = match reuse.more {
        More::Pages(pages) => pages.0.into(),
        More::None | More::AboveDouble => Value::Null,
    };
    value["more_than_double"] = (reuse.more == More::AboveDouble).into();
    value
}

/// An object with a field of each row.
fn fields<S>(rows: &[Row<S>], of: &S) -> Value {
    let field = |row: &Row<S>| (row.field(), (row.read)(of).into());
    Value::Object(rows.iter().map(field).collect())
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
    let mut value = fields(DEVICE, figures);
    value["name"] = device_name(figures.device).into();
    value["number"] = figures.device.into();
    value["class"] = figures.class.map(class).into();
    value
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
