//! The basis of a directory: file system, block device, scheduler, and the kernel's settings for it.

use crate::error::{LabError, Result};
use crate::measure::disk::block_device;
use crate::measure::process;
use crate::outcome::Setting;
use millpond::host;
use millpond::internal::mounts;
use millpond::internal::quantity::size;
use millpond_core::units::{Bytes, PageCount};
use std::fs;
use std::path::{Path, PathBuf};

/// The memory of a simulated frame, its place in the lists and in the table of pages: measured, with a quarter to
/// spare.
const FRAME_BYTES: u64 = 128;
/// The memory of a simulated file's page, wherever it is: the frame that it is in, while the table grows.
const PAGE_BYTES: u64 = 16;

/// Refuses a machine of `frames` frames and files of `pages` pages for which there is no memory to simulate it, before any
/// of it is taken.
///
/// # Errors
/// [`LabError::BadValue`] about `option`.
pub fn check_simulated(
    option: &'static str,
    value: impl Into<String>,
    frames: PageCount,
    pages: PageCount,
) -> Result<()> {
    let frames = frames.0.saturating_mul(FRAME_BYTES);
    check_free(
        option,
        value,
        Bytes(frames.saturating_add(pages.0.saturating_mul(PAGE_BYTES))),
    )
}

/// Refuses what takes more memory than this process could have now.
///
/// # Errors
/// [`LabError::BadValue`] about `option`.
pub fn check_free(option: &'static str, value: impl Into<String>, needs: Bytes) -> Result<()> {
    match host::memory_free().map(Bytes).filter(|free| *free < needs) {
        None => Ok(()),
        Some(free) => Err(LabError::BadValue {
            option,
            value: value.into(),
            allowed: format!(
                "that takes {} of memory here, and {} are free",
                size(needs),
                size(free)
            ),
            instead: "give something smaller".into(),
        }),
    }
}

/// The type of the file system that holds `dir`, such as `ext4`, if the kernel reports it.
pub fn file_system(dir: &Path) -> Option<String> {
    let dir = dir.canonicalize().ok()?;
    // of mounts over each other the last one is seen
    let mounts = mounts().ok()?.into_iter();
    let holds = mounts.filter(|mount| dir.starts_with(&mount.point));
    holds
        .max_by_key(|mount| mount.point.components().count())
        .map(|mount| mount.fs_type)
}

/// Whether files in `dir` are in memory, so no disk takes part.
pub fn is_in_memory(dir: &Path) -> bool {
    matches!(file_system(dir).as_deref(), Some("tmpfs" | "ramfs"))
}

/// The queue of the block device that holds `dir`: a partition's is its disk's.
pub fn block_queue(dir: &Path) -> Option<PathBuf> {
    let device = block_device(dir)?;
    let candidates = [Some(device.as_path()), device.parent()];
    candidates
        .into_iter()
        .flatten()
        .map(|d| d.join("queue"))
        .find(|q| q.is_dir())
}

/// The I/O scheduler of the device under `dir`: the one in brackets of `none [mq-deadline] bfq`.
pub fn scheduler(dir: &Path) -> Option<String> {
    let text = fs::read_to_string(block_queue(dir)?.join("scheduler")).ok()?;
    chosen(&text).map(str::to_owned)
}

/// The word in brackets.
pub(crate) fn chosen(text: &str) -> Option<&str> {
    let (_, rest) = text.split_once('[')?;
    rest.split_once(']').map(|(name, _)| name)
}

/// The goal of the kernel's writeback throttling for the device under `dir`, in microseconds; 0 is off.
pub fn writeback_latency_us(dir: &Path) -> Option<u64> {
    number_in(&block_queue(dir)?.join("wbt_lat_usec"))
}

/// A number in a file of one line.
fn number_in(path: &Path) -> Option<u64> {
    fs::read_to_string(path).ok()?.trim().parse().ok()
}

/// The kernel's settings that shape buffered writing to `dir`, as they are now.
pub fn kernel_settings(dir: &Path) -> Vec<Setting> {
    let mut settings = Vec::new();
    let names = [
        ("dirty_ratio", "%"),
        ("dirty_bytes", "B"),
        ("dirty_background_ratio", "%"),
        ("dirty_background_bytes", "B"),
        ("dirty_expire_centisecs", "cs"),
        ("dirty_writeback_centisecs", "cs"),
    ];
    for (name, unit) in names {
        // of ratio and bytes one is in force, the other reads 0
        if let Some(value) = number_in(&Path::new("/proc/sys/vm").join(name)).filter(|&v| v != 0) {
            settings.push(Setting::new(name, format_args!("{value} {unit}")));
        }
    }
    if let Some(queue) = block_queue(dir) {
        for name in ["nr_requests", "rotational", "write_cache", "read_ahead_kb"] {
            if let Ok(value) = fs::read_to_string(queue.join(name)) {
                settings.push(Setting::new(name, value.trim()));
            }
        }
    }
    settings.extend(scheduler(dir).map(|name| Setting::new("scheduler", name)));
    settings.extend(writeback_latency_us(dir).map(|us| Setting::new("wbt_lat_usec", us)));
    settings
}

/// The machine in lines of (what, value): processors, memory, kernel, the file system and device of `dir`.
pub fn describe(dir: Option<&Path>) -> Vec<Setting> {
    let mut facts = Vec::new();
    let processors = process::processors();
    let name = process::processor_name().unwrap_or_else(|| std::env::consts::ARCH.to_owned());
    facts.push(Setting::new("processors", format_args!("{processors} × {name}")));
    if let Some(mib) = process::machine_memory_mib() {
        facts.push(Setting::new("memory", format_args!("{:.1} GiB", mib / 1024.0)));
    }
    let system = rustix::system::uname();
    let words = [system.sysname(), system.release(), system.machine()].map(|w| w.to_string_lossy());
    facts.push(Setting::new("system", words.join(" ")));
    let lru_gen = fs::read_to_string("/sys/kernel/mm/lru_gen/enabled").ok();
    facts.push(Setting::new("MGLRU", mglru(lru_gen.as_deref())));
    if let Some(dir) = dir {
        if let Some(name) = file_system(dir) {
            facts.push(Setting::new("file system", name));
        }
        if let Some(device) = block_device(dir).and_then(|d| d.file_name().map(|n| n.to_owned())) {
            facts.push(Setting::new("block device", device.to_string_lossy()));
        }
        // the default of the kernel's throttling (wbt) is by this: 75 ms, and 2 ms where it is 0
        if let Some(rotational) = block_queue(dir).and_then(|queue| number_in(&queue.join("rotational"))) {
            facts.push(Setting::new("rotational", rotational));
        }
    }
    if let Some(load) = process::load_average() {
        facts.push(Setting::new(
            "load before the first run",
            format_args!("{load:.1}"),
        ));
    }
    facts
}

/// The kernel's replacement policy, from its file; none: the kernel has only the older one.
fn mglru(enabled: Option<&str>) -> &'static str {
    let bits = enabled.map(|text| text.trim().trim_start_matches("0x"));
    match bits.and_then(|hex| u32::from_str_radix(hex, 16).ok()) {
        Some(bits) if bits & 1 == 1 => "on",
        Some(_) => "off: two lists",
        None => "not built: two lists",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_machine_says_which_replacement_the_kernel_has() {
        let table = [
            (Some("0x0007\n"), "on"),
            (Some("0x0000\n"), "off: two lists"),
            (Some("0x0006\n"), "off: two lists"),
            (None, "not built: two lists"),
        ];
        for (enabled, told) in table {
            assert_eq!(mglru(enabled), told);
        }
        assert!(describe(None).iter().any(|fact| fact.name == "MGLRU"));
    }

    #[test]
    fn the_scheduler_in_force_stands_in_brackets() {
        assert_eq!(chosen("none [mq-deadline] kyber bfq\n"), Some("mq-deadline"));
        assert_eq!(chosen("[none] mq-deadline\n"), Some("none"));
        assert_eq!(chosen("none\n"), None);
    }

    #[test]
    fn proc_is_no_disk() {
        assert_eq!(file_system(Path::new("/proc/self")).as_deref(), Some("proc"));
        assert_eq!(block_device(Path::new("/proc")), None);
        assert!(!is_in_memory(Path::new("/proc")));
    }
}
