//! The store's own calls.

use crate::measure::{self, Result, Target, ms, row};
use millpond_volumes::{Requests, Store, StoreFile, StoreOptions, StoreReader};
use std::time::{Duration, Instant};

pub(crate) fn options(delay_ms: u64) -> StoreOptions {
    StoreOptions::new()
        .delay(Duration::from_millis(delay_ms))
        .grace(GRACE)
        .take_over(true)
}

const GRACE: Duration = Duration::from_secs(3);

/// What is stored: at once, with all that waits for its grace, and when that is over.
pub(crate) fn stored(store: &Store) {
    for (what, wait) in [
        ("  stored for a live byte", Duration::ZERO),
        ("    three graces later", GRACE * 3),
    ] {
        std::thread::sleep(wait);
        let usage = store.usage().layout;
        row(
            what,
            format!("{:.2}", usage.stored_bytes as f64 / usage.live_bytes as f64),
        );
    }
}

pub(crate) fn peak(url: &str) {
    let with = if url.starts_with("memory:") {
        " (the store's own memory is in it)"
    } else {
        ""
    };
    row(
        "peak memory of the process",
        format!("{} MiB{with}", measure::status_mib("VmHWM:")),
    );
}

struct OfStore<'a>(&'a Store, StoreFile);

impl Target for OfStore<'_> {
    fn write_at(&self, bytes: &[u8], offset: u64) -> Result<()> {
        Ok(self.1.write_at(bytes, offset)?)
    }

    fn read_at(&self, bytes: &mut [u8], offset: u64) -> Result<()> {
        self.1.read_at(bytes, offset)?;
        Ok(())
    }

    fn sync(&self) -> Result<()> {
        Ok(self.0.sync()?)
    }

    fn forget(&self) -> Result<bool> {
        Ok(false)
    }

    fn requests(&self) -> Requests {
        self.0.usage().requests
    }
}

pub(crate) fn table(url: &str, mib: u64, delay_ms: u64) -> Result<()> {
    let url = &format!("{url}/{delay_ms}ms-{}", std::process::id());
    println!("{url}: {mib} MiB in pages of 64 KiB, {delay_ms} ms more a request");
    if url.starts_with("memory:") {
        // What a virtual machine has not had from its host yet takes twice as long to get, which says nothing of the store.
        drop(vec![1_u8; (5 * mib * measure::MIB) as usize]);
    }
    let began = Instant::now();
    let store = Store::open(url, options(delay_ms))?;
    row("open, empty", ms(began.elapsed()));
    let target = OfStore(&store, store.create("file")?);
    measure::write(&target, mib)?;
    measure::read(&target, mib)?;
    measure::random(&target, mib, measure::times(delay_ms))?;
    measure::sync(&target, mib, measure::times(delay_ms), 20)?;
    measure::overwrite(&target, mib)?;
    stored(&store);
    let began = Instant::now();
    let reader = StoreReader::open(url, options(delay_ms))?;
    row("open a reader", ms(began.elapsed()));
    drop(reader);
    peak(url);
    Ok(store.close()?)
}
