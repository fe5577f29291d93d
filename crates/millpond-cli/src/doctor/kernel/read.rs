//! What the running kernel, or a saved machine, reports: zones, settings, devices.
//!
//! A saved machine is the text of `/proc/zoneinfo`, and optionally that of `/proc/meminfo` and of `sysctl -a`.
//! Indentation may be lost, as in mail.

use crate::failure::Failure;
use millpond_core::units::{Bytes, PageCount};
use millpond_kernels::linux::dirty::limits::{KernelLimit, KernelLimits, KernelVersion};
use millpond_kernels::linux::dirty::zone::{Zone, ZoneKind};
use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

/// Linux from here on takes percent rounded down to 4096ths (4.2: limits for control groups).
const ROUNDS_SINCE: (u32, u32) = (4, 2);

/// A machine.
#[derive(Debug, PartialEq)]
pub(super) struct Machine {
    pub(super) zones: Vec<Zone>,
    pub(super) limits: KernelLimits,
    pub(super) highmem_counts: bool,
    pub(super) version: KernelVersion,
    /// Processors online.
    pub(super) processors: u32,
    /// Pages dirty or being written.
    pub(super) unclean: Option<PageCount>,
    /// The limits that the kernel itself reports, background and hard.
    pub(super) own: Option<(PageCount, PageCount)>,
    pub(super) devices: Vec<Device>,
    /// Whether settings were missing and Linux's defaults are used.
    pub(super) is_default: bool,
}

/// A device with limits of its own.
#[derive(Debug, PartialEq)]
pub(super) struct Device {
    pub(super) name: String,
    /// The number of its backing device: `8:0`.
    pub(super) bdi: String,
    /// The percentage of the limits that it may have.
    pub(super) max_ratio: u32,
    pub(super) is_strict: bool,
    pub(super) rotates: Option<bool>,
    /// Writeback throttling's target.
    pub(super) wbt_us: Option<u64>,
}

/// The zones in the text of `/proc/zoneinfo`, and the processors that it lists.
pub(super) fn zones(text: &str) -> (Vec<Zone>, u32) {
    // Later kernels also count file pages by node in the same text: there the zones' own counts have another name.
    let by_zone = text.contains("nr_zone_inactive_file");
    let (inactive, active) = match by_zone {
        true => ("nr_zone_inactive_file", "nr_zone_active_file"),
        false => ("nr_inactive_file", "nr_active_file"),
    };
    let mut zones: Vec<Zone> = Vec::new();
    let (mut processors, mut most) = (0, 0);
    for line in text.lines() {
        let words: Vec<&str> = line.split_whitespace().collect();
        if let ["Node", _, "zone", name] = words[..] {
            processors = 0;
            let none = PageCount(0);
            zones.push(Zone {
                kind: kind(name),
                managed: none,
                free: none,
                inactive_file: none,
                active_file: none,
                high: none,
                protection: none,
            });
            continue;
        }
        let Some(zone) = zones.last_mut() else { continue };
        if let Some(list) = line.trim().strip_prefix("protection:") {
            let numbers = list
                .split(|c: char| !c.is_ascii_digit())
                .filter_map(|n| n.parse().ok());
            zone.protection = PageCount(numbers.max().unwrap_or(0));
        }
        if words.first() == Some(&"cpu:") {
            processors += 1;
            most = most.max(processors);
        }
        let (name, value) = match words[..] {
            ["pages", name, value] | [name, value] => (name, value),
            _ => continue,
        };
        let Ok(value) = value.parse().map(PageCount) else {
            continue;
        };
        match name {
            "free" => zone.free = value,
            "managed" => zone.managed = value,
            // A processor's own lists have a `high:` too.
            "high" => zone.high = value,
            _ if name == inactive => zone.inactive_file = value,
            _ if name == active => zone.active_file = value,
            _ => {}
        }
    }
    zones.retain(|zone| zone.managed > PageCount(0));
    (zones, most)
}

fn kind(name: &str) -> ZoneKind {
    match name {
        "DMA" => ZoneKind::Dma,
        "DMA32" => ZoneKind::Dma32,
        "HighMem" => ZoneKind::HighMem,
        "Movable" => ZoneKind::Movable,
        _ => ZoneKind::Normal,
    }
}

/// `name = value` or `name=value` by line.
fn settings(text: &str) -> BTreeMap<String, String> {
    let pair = |line: &str| {
        let (name, value) = line.split_once('=')?;
        Some((name.trim().to_owned(), value.trim().to_owned()))
    };
    text.lines().filter_map(pair).collect()
}

fn limit(settings: &BTreeMap<String, String>, which: &str, percent: u32) -> KernelLimit {
    let of = |name: String| settings.get(&name).and_then(|value| value.parse::<u64>().ok());
    match of(format!("vm.{which}_bytes")) {
        Some(bytes) if bytes > 0 => KernelLimit::Bytes(Bytes(bytes)),
        _ => KernelLimit::Percent(of(format!("vm.{which}_ratio")).map_or(percent, |n| n as u32)),
    }
}

fn version(release: Option<&str>, by_zone: bool) -> KernelVersion {
    let numbers = |release: &str| {
        let mut parts = release.split(|c: char| !c.is_ascii_digit());
        Some((
            parts.next()?.parse::<u32>().ok()?,
            parts.next()?.parse::<u32>().ok()?,
        ))
    };
    let rounds = release
        .and_then(numbers)
        .map_or(by_zone, |release| release >= ROUNDS_SINCE);
    if rounds {
        KernelVersion::Linux7
    } else {
        KernelVersion::Linux4
    }
}

/// Pages that are dirty or being written, of the text of `/proc/meminfo`.
fn unclean(meminfo: &str) -> Option<PageCount> {
    let of = |name: &str| {
        let line = meminfo.lines().find_map(|line| line.trim().strip_prefix(name))?;
        line.split_whitespace().next()?.parse::<u64>().ok()
    };
    Some(PageCount((of("Dirty:")? + of("Writeback:")?) / 4))
}

/// A saved machine.
pub(super) fn saved(
    zoneinfo: &Path,
    meminfo: Option<&Path>,
    sysctl: Option<&Path>,
) -> Result<Machine, Failure> {
    let read = |path: &Path| {
        fs::read_to_string(path)
            .map_err(|e| Failure::bad_usage(format!("cannot read {}: {e}", path.display())))
    };
    let text = read(zoneinfo)?;
    let (zones, processors) = zones(&text);
    if zones.is_empty() {
        return Err(Failure::bad_usage(format!(
            "--zoneinfo {}: no zone in it; give the text of /proc/zoneinfo",
            zoneinfo.display()
        )));
    }
    let settings = sysctl
        .map(read)
        .transpose()?
        .map(|text| settings(&text))
        .unwrap_or_default();
    let meminfo = meminfo.map(read).transpose()?;
    let release = settings.get("kernel.osrelease").map(String::as_str);
    let is_since_4_8 = text.contains("nr_zone_inactive_file");
    Ok(Machine {
        unclean: meminfo.and_then(|text| unclean(&text)),
        is_default: sysctl.is_none(),
        ..Machine::of(zones, processors, &settings, version(release, is_since_4_8))
    })
}

impl Machine {
    /// Without what only the running kernel reports.
    fn of(
        zones: Vec<Zone>,
        processors: u32,
        settings: &BTreeMap<String, String>,
        version: KernelVersion,
    ) -> Machine {
        Machine {
            zones,
            limits: KernelLimits {
                background: limit(settings, "dirty_background", 10),
                hard: limit(settings, "dirty", 20),
            },
            highmem_counts: settings
                .get("vm.highmem_is_dirtyable")
                .is_some_and(|value| value != "0"),
            version,
            processors: processors.max(1),
            unclean: None,
            own: None,
            devices: Vec::new(),
            is_default: false,
        }
    }
}

/// The running kernel.
pub(super) fn running() -> Result<Machine, Failure> {
    let path = Path::new("/proc/zoneinfo");
    let text = fs::read_to_string(path).map_err(|e| Failure {
        code: 1,
        message: Some(format!(
            "cannot read {}: {e}; give --zoneinfo FILE of another machine",
            path.display()
        )),
    })?;
    let (zones, processors) = zones(&text);
    let names = [
        "dirty_background_bytes",
        "dirty_background_ratio",
        "dirty_bytes",
        "dirty_ratio",
        "highmem_is_dirtyable",
    ];
    let of = |name: &&str| {
        let value = fs::read_to_string(Path::new("/proc/sys/vm").join(name)).ok()?;
        Some((format!("vm.{name}"), value.trim().to_owned()))
    };
    let settings: BTreeMap<String, String> = names.iter().filter_map(of).collect();
    let release = rustix::system::uname().release().to_string_lossy().into_owned();
    let vmstat = fs::read_to_string("/proc/vmstat").unwrap_or_default();
    let own = |name: &str| {
        let value = vmstat.lines().find_map(|line| line.strip_prefix(name))?;
        value.trim().parse().ok().map(PageCount)
    };
    let meminfo = fs::read_to_string("/proc/meminfo").ok();
    Ok(Machine {
        unclean: meminfo.and_then(|text| unclean(&text)),
        own: own("nr_dirty_background_threshold ").zip(own("nr_dirty_threshold ")),
        devices: devices(),
        is_default: !settings.contains_key("vm.dirty_ratio"),
        ..Machine::of(zones, processors, &settings, version(Some(&release), true))
    })
}

/// Block devices that have a backing device of their own.
fn devices() -> Vec<Device> {
    let text = |path: &Path| fs::read_to_string(path).ok().map(|text| text.trim().to_owned());
    let mut devices: Vec<Device> = Vec::new();
    for entry in fs::read_dir("/sys/block").into_iter().flatten().flatten() {
        let disk = entry.path();
        let Some(bdi) = text(&disk.join("dev")) else {
            continue;
        };
        let own = Path::new("/sys/class/bdi").join(&bdi);
        let size = text(&disk.join("size"));
        if size.as_deref() == Some("0") || !own.exists() {
            continue;
        }
        devices.push(Device {
            name: entry.file_name().to_string_lossy().into_owned(),
            max_ratio: text(&own.join("max_ratio"))
                .and_then(|n| n.parse().ok())
                .unwrap_or(100),
            is_strict: text(&own.join("strict_limit")).is_some_and(|n| n != "0"),
            rotates: text(&disk.join("queue/rotational")).map(|n| n == "1"),
            wbt_us: text(&disk.join("queue/wbt_lat_usec")).and_then(|n| n.parse().ok()),
            bdi,
        });
    }
    devices.sort_by(|a, b| a.name.cmp(&b.name));
    devices
}

#[cfg(test)]
mod tests {
    use super::*;
    use millpond_kernels::linux::dirty::zone::{DirtyableRule, dirtyable};

    const LATER: &str = "\
Node 0, zone   Normal
  per-node stats
      nr_inactive_file 5
      nr_active_file 6
  pages free     100
        high     30
        managed  1000
        protection: (0, 7, 9)
      nr_zone_inactive_file 50
      nr_zone_active_file 60
  pagesets
    cpu: 0
              count: 1
              high:  186
    cpu: 1
Node 0, zone  Movable
  pages free     0
        managed  0
";

    #[test]
    fn zones_are_read_with_the_files_of_the_zone_and_not_of_the_node() {
        let (zones, processors) = zones(LATER);
        assert_eq!((zones.len(), processors), (1, 2));
        let zone = zones[0];
        assert_eq!(
            (zone.free.0, zone.high.0, zone.managed.0, zone.protection.0),
            (100, 30, 1000, 9)
        );
        assert_eq!((zone.inactive_file.0, zone.active_file.0), (50, 60));
        assert_eq!(
            dirtyable(DirtyableRule::Bug404, &zones, false),
            PageCount(100 - 39 + 110 + 1)
        );
    }

    #[test]
    fn settings_are_read_as_sysctl_prints_them() {
        let read = settings("vm.dirty_ratio = 30\nvm.dirty_background_bytes=4096\nvm.dirty_bytes = 0\n");
        assert_eq!(limit(&read, "dirty", 20), KernelLimit::Percent(30));
        assert_eq!(
            limit(&read, "dirty_background", 10),
            KernelLimit::Bytes(Bytes(4096))
        );
        assert_eq!(
            unclean("MemTotal: 1 kB\nDirty:   400 kB\nWriteback: 8 kB\n"),
            Some(PageCount(102))
        );
        assert_eq!(version(Some("4.0.5"), true), KernelVersion::Linux4);
        assert_eq!(version(Some("6.18.0-rc1"), false), KernelVersion::Linux7);
    }
}
