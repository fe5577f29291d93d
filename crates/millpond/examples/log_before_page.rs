//! A store of numbers that loses nothing it has acknowledged, whenever its process is killed: a log, and pages that wait
//! for it.
//!
//! ```text
//!   put ──► record at the end of the log ──► page changed, with set_order(end of the record)
//!   commit ──► the log is synced: acknowledged        the page goes to its file some time after that, never before
//!   open ──► records that are whole are done again on pages that are older; a page with a wrong sum is made anew
//! ```
//!
//! `cargo run -p millpond --example log_before_page` starts itself as a child, kills it in the middle of its work, and
//! looks whether everything that it had acknowledged is there.

use millpond::{Error, File, LogOrder, OpenOptions, PageCache, PageCheck};
use std::io::{self, BufRead, BufReader};
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::Arc;

/// Pages of a store.
pub const PAGES: u64 = 64;
/// Bytes of a page.
pub const PAGE: usize = 4096;
/// Bytes of a record of the log.
pub const RECORD: usize = 32;

/// A page begins with how much of the log is in it, and with a sum of the rest.
const LSN: std::ops::Range<usize> = 0..8;
const SUM: std::ops::Range<usize> = 8..16;

fn number(bytes: &[u8]) -> u64 {
    bytes
        .iter()
        .rev()
        .fold(0, |number, byte| number << 8 | u64::from(*byte))
}

fn sum<'a>(bytes: impl IntoIterator<Item = &'a u8>) -> u64 {
    let mix = |sum: u64, byte: &u8| (sum ^ u64::from(*byte)).wrapping_mul(0x0000_0100_0000_01b3);
    bytes.into_iter().fold(0xcbf2_9ce4_8422_2325, mix)
}

/// Stamps a page with its sum when it is written, and looks at it when it is read.
struct Sums;

/// The part of the log that is in a page, or what is wrong with the page.
pub fn lsn(bytes: &[u8]) -> Result<u64, String> {
    let is_new = bytes.iter().all(|byte| *byte == 0);
    let (found, right) = (number(&bytes[SUM]), sum(bytes[..8].iter().chain(&bytes[16..])));
    if is_new || found == right {
        Ok(number(&bytes[LSN]))
    } else {
        Err(format!("its sum is {found:x} and should be {right:x}"))
    }
}

impl PageCheck for Sums {
    fn before_write(&self, _: u64, bytes: &mut [u8]) {
        let sum = sum(bytes[..8].iter().chain(&bytes[16..]));
        bytes[SUM].copy_from_slice(&sum.to_le_bytes());
    }

    fn after_read(&self, _: u64, bytes: &[u8]) -> Result<(), String> {
        lsn(bytes).map(drop)
    }
}

/// A record of the log that begins at byte `at`: which page, which number of it, its new value, and a sum.
pub fn record(at: u64, page: u64, slot: u64, value: u64) -> [u8; RECORD] {
    let mut bytes = [0; RECORD];
    for (n, field) in [page, slot, value].into_iter().enumerate() {
        bytes[n * 8..n * 8 + 8].copy_from_slice(&field.to_le_bytes());
    }
    let sum = sum(bytes[..24].iter().chain(&at.to_le_bytes()));
    bytes[24..].copy_from_slice(&sum.to_le_bytes());
    bytes
}

/// The records of a log up to the first that is not whole.
pub fn records(log: &[u8]) -> Vec<[u64; 3]> {
    let whole = log.chunks_exact(RECORD).enumerate().map_while(|(n, bytes)| {
        let [page, slot, value] = [0, 8, 16].map(|at| number(&bytes[at..at + 8]));
        (record((n * RECORD) as u64, page, slot, value) == bytes).then_some([page, slot, value])
    });
    whole.collect()
}

/// Numbers that are changed one at a time: 500 on each page.
pub struct Store {
    log: Arc<File>,
    end: u64,
    order: LogOrder,
    pages: File,
}

impl Store {
    /// Opens it, and does again what the pages lack.
    pub fn open(cache: &PageCache, folder: &Path) -> Result<Store, Error> {
        let log = Arc::new(cache.open(folder.join("log"), OpenOptions::new().create(true))?);
        let flush = log.clone();
        let order = LogOrder::with_flush(move |_| {
            let end = flush.len();
            flush.sync_data().map_err(io::Error::other)?;
            Ok(end)
        })?;
        let options = OpenOptions::new().create(true).log(&order).check(Arc::new(Sums));
        let pages = cache.open(folder.join("pages"), options)?;
        if pages.len() < PAGES * PAGE as u64 {
            pages.set_len(PAGES * PAGE as u64)?;
        }
        let mut bytes = vec![0; log.len() as usize];
        log.read_at(&mut bytes, 0)?;
        let records = records(&bytes);
        let end = (records.len() * RECORD) as u64;
        log.set_len(end)?; // what is behind it was never acknowledged
        log.sync_data()?;
        order.advance(end);
        for (n, [page, slot, value]) in records.into_iter().enumerate() {
            // The whole log is here, so a page that is not as it was written can be made from nothing.
            if let Err(Error::Check { .. }) = pages.page(page) {
                pages.write_at(&[0; PAGE], page * PAGE as u64)?;
            }
            let end = ((n + 1) * RECORD) as u64;
            if number(&pages.page(page)?[LSN]) < end {
                change(&pages, [page, slot, value], end)?;
            }
        }
        Ok(Store {
            log,
            end,
            order,
            pages,
        })
    }

    /// Changes a number. It may be gone after a crash until [`Store::commit`] has returned.
    pub fn put(&mut self, page: u64, slot: u64, value: u64) -> Result<(), Error> {
        self.log
            .write_at(&record(self.end, page, slot, value), self.end)?;
        self.end += RECORD as u64;
        change(&self.pages, [page, slot, value], self.end)
    }

    /// A number as it was changed last; 0 at first.
    pub fn get(&self, page: u64, slot: u64) -> Result<u64, Error> {
        let at = 16 + slot as usize * 8;
        Ok(number(&self.pages.page(page)?[at..at + 8]))
    }

    /// Everything put so far survives.
    pub fn commit(&self) -> Result<(), Error> {
        self.log.sync_data()?;
        self.order.advance(self.end);
        Ok(())
    }

    /// Writes the pages. Nothing needs it; a log that is to be cut would.
    pub fn checkpoint(&self) -> Result<(), Error> {
        self.pages.sync_data()
    }
}

fn change(pages: &File, [page, slot, value]: [u64; 3], end: u64) -> Result<(), Error> {
    let mut page = pages.page_mut(page)?;
    let at = 16 + slot as usize * 8;
    page[at..at + 8].copy_from_slice(&value.to_le_bytes());
    page[LSN].copy_from_slice(&end.to_le_bytes());
    page.set_order(end)
}

/// The n-th change: which page, which number of it, its value.
pub fn nth(n: u64) -> [u64; 3] {
    let mixed = (n + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(29);
    [mixed % PAGES, mixed / PAGES % 500, n + 1]
}

/// A small one.
pub fn cache() -> Result<PageCache, Error> {
    PageCache::builder().memory(2 << 20).build()
}

/// Changes numbers for ever, and acknowledges how many are safe.
pub fn work(folder: &Path, mut acknowledge: impl FnMut(u64)) -> Result<(), Error> {
    let mut store = Store::open(&cache()?, folder)?;
    for n in 0.. {
        let [page, slot, value] = nth(n);
        store.put(page, slot, value)?;
        if n % 10 == 9 {
            store.commit()?;
            acknowledge(n + 1);
        }
        if n % 200 == 199 {
            store.checkpoint()?;
        }
    }
    Ok(())
}

/// Whether the first `acknowledged` changes are there, and after them only what came next. How many are.
pub fn verify(folder: &Path, acknowledged: u64) -> Result<u64, Box<dyn std::error::Error>> {
    let store = Store::open(&cache()?, folder)?;
    let there = store.end / RECORD as u64;
    if there < acknowledged {
        return Err(format!("{acknowledged} changes were acknowledged, and {there} are in the log").into());
    }
    let last: std::collections::BTreeMap<_, _> = (0..there).map(nth).map(|[p, s, v]| ((p, s), v)).collect();
    for ((page, slot), value) in last {
        let found = store.get(page, slot)?;
        if found != value {
            return Err(format!("number {slot} of page {page} is {found} and should be {value}").into());
        }
    }
    Ok(there)
}

#[allow(dead_code, reason = "a test has this file as a module, and a main of its own")]
fn main() -> Result<(), Box<dyn std::error::Error>> {
    if let Some(folder) = std::env::args_os().nth(1) {
        return Ok(work(Path::new(&folder), |n| eprintln!("{n}"))?);
    }
    let folder = std::env::temp_dir().join(format!("millpond-log-{}", std::process::id()));
    std::fs::create_dir(&folder)?;
    let mut child = Command::new(std::env::current_exe()?);
    let mut child = child.arg(&folder).stderr(Stdio::piped()).spawn()?;
    let told = BufReader::new(child.stderr.take().ok_or("no pipe")?);
    let mut acknowledged = 0;
    for line in told.lines().take(100) {
        acknowledged = line?.parse()?;
    }
    child.kill()?;
    child.wait()?;
    let there = verify(&folder, acknowledged)?;
    eprintln!(
        "killed after {acknowledged} changes were acknowledged; {there} are there, and all pages agree"
    );
    Ok(std::fs::remove_dir_all(&folder)?)
}
