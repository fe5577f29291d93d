//! The engine does a small job: writes four times its memory, syncs, reads back, and opens it again to measure a read.

use super::Check;
use millpond::Notice;
use millpond::device::Calibration;
use millpond::internal::quantity::micros;
use millpond::{OpenOptions, PageCache};
use std::path::Path;
use std::time::Duration;

const MEMORY: u64 = 2 << 20;
const BLOCK: usize = 64 << 10;
const BLOCKS: usize = 128;

/// The result of the engine's job.
struct Done {
    notices: Vec<Notice>,
    device: String,
    /// The device's measured properties.
    calibration: Option<Calibration>,
}

pub(super) fn checks(dir: &Path) -> Vec<Check> {
    let done = match work(&dir.join("trial")) {
        Ok(done) => done,
        Err(error) => {
            return vec![Check::missing(
                "engine",
                error.to_string(),
                "fix what it names, or give another --dir",
            )];
        }
    };
    let find = |is: fn(&Notice) -> bool| done.notices.iter().find(|notice| is(notice));
    let of = |name, notice: Option<&Notice>, found: String| match notice {
        Some(notice) => Check::without(name, notice.cause(), notice.effect(), notice.mend()),
        None => Check::ok(name, found),
    };
    let megabytes = (BLOCK * BLOCKS) >> 20;
    vec![
        of(
            "io_uring",
            find(|notice| matches!(notice, Notice::NoRing(_))),
            "a ring does the transfers".into(),
        ),
        of(
            "huge pages",
            find(|notice| matches!(notice, Notice::NoHugePages(_))),
            "frames are in them".into(),
        ),
        Check::ok("device", done.calibration.map_or(NOT_MEASURED.into(), facts)),
        Check::ok(
            "read latency",
            done.calibration.map_or(NOT_MEASURED.into(), read_latency),
        ),
        Check::ok(
            "engine",
            format!(
                "{megabytes} MiB written, synced and read back through {}",
                done.device
            ),
        ),
    ]
}

const NOT_MEASURED: &str = "not measured";

/// No rotating disk has random reads faster than this: half a revolution at 15,000 a minute is 2 ms. Virtual disks
/// report that they rotate all the same.
const ROTATING_READ_MIN: Duration = Duration::from_millis(1);

fn facts(calibration: Calibration) -> String {
    let facts = calibration.facts;
    let commands = match facts.queue_depth {
        1 => "takes one command at a time".into(),
        depth => format!("takes {depth} commands at a time"),
    };
    let rotates = match (facts.rotational, calibration.read_latency < ROTATING_READ_MIN) {
        (true, true) => "reports that it rotates, but its reads are too quick for that",
        (true, false) => "rotates",
        (false, _) => "does not rotate",
    };
    let cache = match facts.write_cache {
        true => "has a write cache that a flush empties",
        false => "has no write cache to flush",
    };
    format!("{commands}, {rotates}, {cache}")
}

fn read_latency(calibration: Calibration) -> String {
    let us = |span: Duration| micros(span.as_nanos() as f64 / 1e3);
    format!(
        "{} ({} reads in {}, the longest {}), which makes the goal {}: 16 times that, 2 to 60 ms",
        us(calibration.read_latency),
        calibration.reads,
        us(calibration.took),
        us(calibration.read_latency_max),
        us(calibration.read_latency_goal()),
    )
}

fn work(path: &Path) -> Result<Done, Box<dyn std::error::Error>> {
    let cache = || PageCache::builder().memory(MEMORY).on_notice(|_| {}).build();
    let first = cache()?;
    let file = first.open(path, OpenOptions::new().create(true))?;
    let block = |n: usize| vec![n as u8 + 1; BLOCK];
    for n in 0..BLOCKS {
        file.write_at(&block(n), (n * BLOCK) as u64)?;
    }
    file.sync_data()?;
    let mut read = vec![0; BLOCK];
    for n in 0..BLOCKS {
        file.read_at(&mut read, (n * BLOCK) as u64)?;
        if read != block(n) {
            return Err(format!("block {n} read back is not what was written").into());
        }
    }
    file.close()?;
    let (notices, device) = (first.notices(), first.stats().device);
    drop(first);
    // The first opened file with content is measured.
    let second = cache()?;
    let file = second.open(path, OpenOptions::new())?;
    let calibration = second.calibration();
    drop(file);
    Ok(Done {
        notices,
        device,
        calibration,
    })
}
