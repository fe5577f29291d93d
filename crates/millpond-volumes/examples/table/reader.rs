//! Files of a reader: by its own calls, and as files of a cache.

use crate::measure::{MIB, PAGE, Result, content, rate, row};
use crate::store::{options, peak};
use millpond::PageCache;
use millpond_volumes::{Requests, Store, StoreReader, Volumes};
use std::time::{Duration, Instant};

const BUDGET: u64 = 512 << 20;
const CALL: u64 = 128 << 10;

/// One after the other, each of 128 KiB, with its content.
fn in_order(
    what: &str,
    mib: u64,
    requests: impl Fn() -> Requests,
    read: impl Fn(&mut [u8], u64) -> Result<()>,
) -> Result<()> {
    let mut call = vec![1; CALL as usize];
    let before = requests();
    let mut took = Duration::ZERO;
    for at in (0..mib * MIB).step_by(call.len()) {
        let began = Instant::now();
        read(&mut call, at)?;
        took += began.elapsed();
        let same = (0..CALL / PAGE).all(|n| {
            let page = &call[(n * PAGE) as usize..][..PAGE as usize];
            page == content(at / PAGE + n, 0)
        });
        if !same {
            return Err(format!("other bytes at {at}").into());
        }
    }
    row(what, rate(mib, took));
    row("  gets", (requests().gets - before.gets).to_string());
    Ok(())
}

pub(crate) fn table(url: &str, mib: u64, delay_ms: u64) -> Result<()> {
    let url = &format!("{url}/read-{delay_ms}ms-{}", std::process::id());
    println!("{url}: {mib} MiB in pages of 64 KiB, read in calls of 128 KiB, {delay_ms} ms more a request");
    let store = Store::open(url, options(0))?;
    let file = store.create("file")?;
    for page in 0..mib * MIB / PAGE {
        file.write_at(&content(page, 0), page * PAGE)?;
    }
    store.close()?;
    let reader = StoreReader::open(url, options(delay_ms))?;
    let file = reader.open_file("file")?;
    let read = |bytes: &mut [u8], at| Ok(file.read_at(bytes, at).map(drop)?);
    in_order("a reader", mib, || reader.requests(), read)?;
    let volumes = Volumes::new(millpond::device::best())?;
    let builder = PageCache::builder().memory(BUDGET).page_size(PAGE);
    let cache = builder.device(volumes.clone()).build()?;
    let reader = volumes.reader(&cache, url, options(delay_ms))?;
    let file = reader.open("file")?;
    let requests = || reader.reader().requests();
    in_order("a reader in a cache of 512 MiB", mib, requests, |bytes, at| {
        Ok(file.read_exact_at(bytes, at)?)
    })?;
    peak(url);
    Ok(())
}
