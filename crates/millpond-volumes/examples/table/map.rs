//! What the map of a store takes.

use crate::measure::{PAGE, status_mib};
use millpond_volumes::format::op::Op;
use millpond_volumes::format::{Checkpoint, ObjectId, PageEntry};
use millpond_volumes::layout::State;
use std::time::Instant;

/// What the map of so many GiB takes.
pub(crate) fn map(gib: u64) {
    let entries = (0..gib << 14).map(|page| PageEntry {
        page,
        object: ObjectId::chunk(1, (page / 64) as u32),
        offset: (page % 64 * PAGE) as u32,
        bytes: PAGE as u32,
        kept: PAGE as u32,
        checksum: page,
    });
    let ops = vec![
        Op::Create {
            file: 0,
            name: String::from("file"),
        },
        Op::Length {
            file: 0,
            bytes: gib << 30,
        },
        Op::Pages {
            file: 0,
            entries: entries.collect(),
        },
    ];
    let checkpoint = Checkpoint {
        number: 1,
        epoch: 1,
        page_bytes: PAGE as u32,
        ops,
    };
    let began = Instant::now();
    let bytes = checkpoint.encode();
    let encoded = began.elapsed();
    drop(checkpoint);
    let began = Instant::now();
    let Ok(checkpoint) = Checkpoint::decode(&bytes) else {
        return;
    };
    let before = status_mib("VmRSS:");
    let Ok(state) = State::from_ops(&checkpoint.ops, PAGE as u32) else {
        return;
    };
    let (read, mapped) = (began.elapsed(), status_mib("VmRSS:") - before);
    // More than a checkpoint keeps, which needs neither names nor what is live of objects.
    let began = Instant::now();
    let kept = state.clone();
    let copied = began.elapsed();
    let began = Instant::now();
    let walked = kept.ops().len();
    println!(
        "{gib} GiB: a checkpoint of {:.1} MB, copied for in {:.4} s, walked in {:.3} s ({walked} changes), written in {:.3} s, read in {:.2} s; \
         the map takes {mapped} MiB, {} objects",
        bytes.len() as f64 / 1e6,
        copied.as_secs_f64(),
        began.elapsed().as_secs_f64(),
        encoded.as_secs_f64(),
        read.as_secs_f64(),
        state.live.len()
    );
}
