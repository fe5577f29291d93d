//! The engine does a small job: writes four times its memory, syncs, reads back, and opens it again to measure a read.

use super::Check;
use millpond::core::admission::AdmissionOptions;
use millpond::host::Notice;
use millpond::{OpenOptions, PageCache};
use millpond_lab::quantity::micros;
use std::path::Path;

const MEMORY: u64 = 2 << 20;
const BLOCK: usize = 64 << 10;
const BLOCKS: usize = 128;

/// What the engine said and did.
struct Done {
    notices: Vec<Notice>,
    device: String,
    /// The goal for read latency that this disk gives, in microseconds.
    goal_us: Option<f64>,
}

pub(super) fn checks(dir: &Path) -> Vec<Check> {
    let done = match work(&dir.join("trial")) {
        Ok(done) => done,
        Err(error) => {
            return vec![Check::missing(
                "engine",
                error.to_string(),
                "mend what it names, or give another --dir",
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
        Check::ok(
            "read latency",
            match done.goal_us {
                Some(us) => format!("goal {}: 16 times what a read takes here, 2 to 60 ms", micros(us)),
                None => "no goal with these options".into(),
            },
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
    // The first file with content that is opened is measured.
    let second = cache()?;
    let file = second.open(path, OpenOptions::new())?;
    let goal_us = match second.options().admission {
        AdmissionOptions::Goal(goal) => Some(goal.read_latency.0 as f64 / 1e3),
        _ => None,
    };
    drop(file);
    Ok(Done {
        notices,
        device,
        goal_us,
    })
}
