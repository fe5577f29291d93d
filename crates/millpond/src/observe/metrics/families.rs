//! The metrics: a family of each figure, named by one rule.

use super::Facts;
use super::text::Kind::{Counter, Gauge};
use super::text::{Family, Kind, Text};
use crate::device::{DeviceFigures, device_name};
use crate::observe::figures::{self, DEVICE, Figure, REUSE, Row, Unit};
use millpond_core::units::{Bytes, PageCount, PageSize};

/// Nanoseconds in the base unit.
pub(super) fn seconds(ns: u64) -> f64 {
    ns as f64 / 1e9
}

/// What a family of such figures is, and how its name ends.
fn kind_of(unit: Unit) -> (Kind, &'static str) {
    match unit {
        Unit::Total => (Counter, "_total"),
        Unit::TotalBytes => (Counter, "_bytes_total"),
        Unit::TotalTime => (Counter, "_seconds_total"),
        Unit::Longest => (Gauge, "_longest_seconds"),
        Unit::Number => (Gauge, ""),
        Unit::Pages | Unit::Bytes => (Gauge, "_bytes"),
        Unit::Time => (Gauge, "_seconds"),
    }
}

/// A value in the base unit; `NaN`, as the format has it, if there is none at this moment.
fn in_base(unit: Unit, value: Option<u64>, page: PageSize) -> f64 {
    let Some(value) = value else {
        return f64::NAN;
    };
    match unit {
        Unit::TotalTime | Unit::Longest | Unit::Time => seconds(value),
        Unit::Pages => {
            let Bytes(bytes) = PageCount(value).to_bytes(page);
            bytes as f64
        }
        Unit::Total | Unit::TotalBytes | Unit::Number | Unit::Bytes => value as f64,
    }
}

/// Everything, at this moment.
pub(super) fn text(facts: &Facts) -> String {
    let mut text = Text::default();
    let mut labels = vec![("version", env!("CARGO_PKG_VERSION"))];
    labels.extend(facts.name.as_deref().map(|name| ("name", name)));
    let about = "1; the version is a label, and the cache's name if it has one.";
    text.family("millpond_build_info", Gauge, about)
        .sample("", &labels, 1.0);
    let about = "Time since the cache was made.";
    text.one("millpond_uptime_seconds", Gauge, about, facts.age.as_secs_f64());
    let about = "The budget: frames, metadata and transfers.";
    text.one(
        "millpond_memory_budget_bytes",
        Gauge,
        about,
        facts.memory.0 as f64,
    );
    of_cache(facts, &mut text);
    let reuse = [
        ("file", &facts.stats.reuse_of_files),
        ("region", &facts.stats.reuse_of_regions),
    ];
    of_several("", "kind", REUSE, &reuse, facts.page_size, &mut text);
    let names = names_of(&facts.devices);
    let devices: Vec<_> = names.iter().map(|name| &**name).zip(&facts.devices).collect();
    of_several("device_", "device", DEVICE, &devices, facts.page_size, &mut text);
    super::stores::families(&facts.stores, &mut text);
    text.into_string()
}

fn of_cache(facts: &Facts, text: &mut Text) {
    // Those by reason come one reason after the other: a family of their own name each.
    let mut all: Vec<Figure> = Vec::new();
    figures::each(&facts.stats, |figure| all.push(figure));
    for family in all.chunk_by(|a, b| (a.name, a.unit) == (b.name, b.unit)) {
        let first = &family[0];
        let (kind, ending) = kind_of(first.unit);
        let linux = first.unit.counts() && first.linux.is_some();
        let vmstat = if linux { "vmstat_" } else { "" };
        let name = format!("millpond_{vmstat}{}{ending}", first.name);
        let mut samples: Family<'_> = text.family(&name, kind, first.about);
        for figure in family {
            let labels = figure.reason.map(|reason| ("reason", reason.name()));
            let value = in_base(figure.unit, figure.value, facts.page_size);
            samples.sample("", labels.as_slice(), value);
        }
    }
}

/// A family of each row, with a sample of each.
fn of_several<S>(
    group: &str,
    label: &str,
    rows: &[Row<S>],
    all: &[(&str, &S)],
    page: PageSize,
    text: &mut Text,
) {
    for row in rows {
        let (kind, ending) = kind_of(row.unit);
        let mut family = text.family(&format!("millpond_{group}{}{ending}", row.name), kind, row.about);
        for (name, of) in all {
            family.sample("", &[(label, name)], in_base(row.unit, (row.read)(of), page));
        }
    }
}

/// Two numbers may have one name: a device that was taken out and another that came.
fn names_of(devices: &[DeviceFigures]) -> Vec<String> {
    let mut names: Vec<String> = devices.iter().map(|d| device_name(d.device)).collect();
    for n in 1..names.len() {
        if names[..n].contains(&names[n]) {
            names[n] = format!("{} ({})", names[n], devices[n].device);
        }
    }
    names
}
