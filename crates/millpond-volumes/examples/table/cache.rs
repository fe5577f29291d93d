//! Files of a store as files of a cache.

use crate::measure::{self, Result, Target, row};
use crate::store::{options, peak, stored};
use millpond::{File, PageCache};
use millpond_volumes::{CacheStore, Requests, Volumes};

const BUDGET: u64 = 512 << 20;

struct OfCache<'a>(&'a CacheStore, File);

impl Target for OfCache<'_> {
    fn write_at(&self, bytes: &[u8], offset: u64) -> Result<()> {
        Ok(self.1.write_at(bytes, offset)?)
    }

    fn read_at(&self, bytes: &mut [u8], offset: u64) -> Result<()> {
        Ok(self.1.read_exact_at(bytes, offset)?)
    }

    fn sync(&self) -> Result<()> {
        Ok(self.1.sync_data()?)
    }

    fn forget(&self) -> Result<bool> {
        self.1.invalidate(..)?;
        Ok(true)
    }

    fn requests(&self) -> Requests {
        self.0.store().usage().requests
    }
}

pub(crate) fn table(url: &str, mib: u64, delay_ms: u64) -> Result<()> {
    let url = &format!("{url}/cached-{delay_ms}ms-{}", std::process::id());
    println!("{url}: a cache of 512 MiB, {mib} MiB in pages of 64 KiB, {delay_ms} ms more a request");
    let volumes = Volumes::new(millpond::device::best())?;
    let cache = PageCache::builder()
        .memory(BUDGET)
        .page_size(measure::PAGE)
        .device(volumes.clone())
        .build()?;
    let store = volumes.store(&cache, url, options(delay_ms))?;
    let target = OfCache(&store, store.create("file")?);
    measure::write(&target, mib)?;
    measure::read(&target, mib)?;
    measure::random(&target, mib, measure::times(delay_ms))?;
    measure::sync(&target, mib, measure::times(delay_ms), 20)?;
    measure::overwrite(&target, mib)?;
    stored(store.store());
    row("the cache's budget", format!("{} MiB", BUDGET >> 20));
    peak(url);
    Ok(store.close()?)
}
