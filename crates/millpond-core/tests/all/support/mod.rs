//! A cache of nothing but pages' names, to count misses with; traces; and what a rule is measured against.
#![allow(dead_code, reason = "each test file uses a part")]

use millpond_core::frame::{ACCESSES_MAX, BeginWrite, FrameTable};
use millpond_core::lru::{
    Detection, InactiveRatio, LinuxOptions, Lru, MillpondOptions, Promotion, Refault, Replacement,
};
use millpond_core::units::{FileId, FrameNo, PageCount, PageIndex, PageKey};
use std::collections::{BTreeMap, BinaryHeap, HashMap};
use std::path::PathBuf;

/// Frames that hold no data: names and use counts.
pub(crate) struct Frames {
    keys: Vec<PageKey>,
    uses: Vec<u8>,
    table: HashMap<PageKey, FrameNo>,
}

impl FrameTable for Frames {
    fn key(&self, frame: FrameNo) -> PageKey {
        self.keys[frame.index()]
    }

    fn lookup(&self, key: PageKey) -> Option<FrameNo> {
        self.table.get(&key).copied()
    }

    fn test_and_clear_accessed(&mut self, frame: FrameNo) -> u8 {
        std::mem::take(&mut self.uses[frame.index()])
    }

    fn evict(&mut self, frames: &mut Vec<FrameNo>) {
        for frame in frames {
            let key = std::mem::replace(&mut self.keys[frame.index()], PageKey::NONE);
            self.table.remove(&key);
        }
    }

    fn begin_write(&mut self, _: FrameNo) -> BeginWrite {
        unreachable!("nothing is dirty")
    }
}

/// A cache of clean pages that makes room by whole batches of the scan, at full effort.
pub(crate) struct Cache {
    pub(crate) lru: Lru,
    frames: Frames,
    free: Vec<FrameNo>,
    victims: Vec<FrameNo>,
    batch: usize,
    /// Hits move pages at once, as the rule wants it.
    tells_hits: bool,
    pub(crate) misses: u64,
}

impl Cache {
    /// `batch` of 1: one page out for one page in, the exact model.
    pub(crate) fn new(replacement: Replacement, pages: u32, batch: usize) -> Cache {
        Cache {
            lru: Lru::new(replacement, PageCount(pages.into())),
            frames: Frames {
                keys: vec![PageKey::NONE; pages as usize],
                uses: vec![0; pages as usize],
                table: HashMap::new(),
            },
            free: (0..pages).rev().map(FrameNo).collect(),
            victims: Vec::with_capacity(batch),
            batch,
            tells_hits: matches!(
                replacement,
                Replacement::Linux(LinuxOptions {
                    promotion: Promotion::Immediate,
                    ..
                })
            ),
            misses: 0,
        }
    }

    /// Reads page `page` of the one file that there is; answers whether it was in memory.
    pub(crate) fn read(&mut self, page: u32) -> bool {
        let key = PageKey::new(FileId(0), PageIndex(page.into()));
        if let Some(frame) = self.frames.lookup(key) {
            if self.tells_hits {
                self.lru.mark_accessed(frame);
            } else {
                let uses = &mut self.frames.uses[frame.index()];
                *uses = (*uses + 1).min(ACCESSES_MAX);
            }
            return true;
        }
        self.misses += 1;
        let refault = self.lru.refault(key);
        let frame = self.room();
        self.admit(key, frame, refault);
        false
    }

    fn admit(&mut self, key: PageKey, frame: FrameNo, refault: Refault) {
        self.frames.keys[frame.index()] = key;
        self.frames.uses[frame.index()] = 0;
        self.frames.table.insert(key, frame);
        self.lru.insert(frame, key, refault, true, &mut self.frames);
    }

    fn room(&mut self) -> FrameNo {
        loop {
            if let Some(frame) = self.free.pop() {
                return frame;
            }
            let scanned = self
                .lru
                .isolate(0, self.batch, &mut self.frames, &mut self.victims);
            assert!(
                scanned.scanned + scanned.refilled > 0,
                "a full cache has something to look at"
            );
            for &frame in &self.victims {
                self.lru.evicted(frame, self.frames.key(frame));
            }
            self.frames.evict(&mut self.victims);
            self.free.append(&mut self.victims);
        }
    }
}

/// Linux with lists of equal length, which is what its square root comes to below 1 GiB.
pub(crate) const LINUX: Replacement = Replacement::Linux(LinuxOptions {
    promotion: Promotion::Lazy,
    inactive_ratio: InactiveRatio::Equal,
    detection: Detection::Linux4_19,
    refaults_deactivate: true,
});

/// The same, hits told at once.
pub(crate) const LINUX_IMMEDIATE: Replacement = Replacement::Linux(LinuxOptions {
    promotion: Promotion::Immediate,
    inactive_ratio: InactiveRatio::Equal,
    detection: Detection::Linux4_19,
    refaults_deactivate: true,
});

/// Millpond's own.
pub(crate) fn millpond() -> Replacement {
    Replacement::Millpond(MillpondOptions::default())
}

/// Misses of `replacement` with `pages` pages of memory.
pub(crate) fn misses(replacement: Replacement, trace: &[u32], pages: u32) -> u64 {
    let mut cache = Cache::new(replacement, pages, 1);
    for &page in trace {
        cache.read(page);
    }
    cache.lru.validate();
    cache.misses
}

/// Misses of the best that is possible: the page goes that is used again last (Belady 1966).
pub(crate) fn misses_opt(trace: &[u32], pages: u32) -> u64 {
    let mut next_use = vec![usize::MAX; trace.len()];
    let mut last = HashMap::new();
    for (at, page) in trace.iter().enumerate().rev() {
        next_use[at] = last.insert(page, at).unwrap_or(usize::MAX);
    }
    let (mut resident, mut by_next_use, mut misses) = (HashMap::new(), BinaryHeap::new(), 0);
    for (at, &page) in trace.iter().enumerate() {
        if !resident.contains_key(&page) {
            misses += 1;
            while resident.len() >= pages as usize {
                let (next, victim) = by_next_use.pop().expect("what is resident is in the heap");
                if resident.get(&victim) == Some(&next) {
                    resident.remove(&victim);
                }
            }
        }
        resident.insert(page, next_use[at]);
        by_next_use.push((next_use[at], page));
    }
    misses
}

/// Misses of one list in order of last use.
pub(crate) fn misses_lru(trace: &[u32], pages: u32) -> u64 {
    let (mut used_at, mut by_use, mut misses) = (HashMap::new(), BTreeMap::new(), 0);
    for (at, &page) in trace.iter().enumerate() {
        match used_at.insert(page, at) {
            Some(before) => {
                by_use.remove(&before);
            }
            None => {
                misses += 1;
                if by_use.len() == pages as usize {
                    let (_, victim) = by_use.pop_first().expect("memory is full");
                    used_at.remove(&victim);
                }
            }
        }
        by_use.insert(at, page);
    }
    misses
}

/// The number of different pages in a trace.
pub(crate) fn distinct(trace: &[u32]) -> u32 {
    let mut pages = trace.to_vec();
    pages.sort_unstable();
    pages.dedup();
    pages.len() as u32
}

/// A small generator with a seed (splitmix64): same seed, same numbers, everywhere.
pub(crate) struct Random(pub(crate) u64);

impl Random {
    pub(crate) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    pub(crate) fn below(&mut self, n: u32) -> u32 {
        (((self.next() >> 32) * u64::from(n)) >> 32) as u32
    }
}

/// Pages with zipf's law of exponent 1, by integers only: rank `r` has weight `2^32 / (r + 1)`.
pub(crate) struct Zipf(Vec<u64>);

impl Zipf {
    pub(crate) fn new(pages: u32) -> Zipf {
        let mut sum = 0;
        Zipf(
            (1..=u64::from(pages))
                .map(|rank| {
                    sum += (1 << 32) / rank;
                    sum
                })
                .collect(),
        )
    }

    pub(crate) fn page(&self, random: &mut Random) -> u32 {
        let total = self.0.last().copied().unwrap_or(1);
        let at = ((u128::from(random.next()) * u128::from(total)) >> 64) as u64;
        self.0.partition_point(|&sum| sum <= at) as u32
    }
}

/// Traces that anybody can make again, by name. 10,000 pages or so, 150,000 reads.
pub(crate) fn synthetic() -> Vec<(&'static str, Vec<u32>)> {
    const LEN: usize = 150_000;
    let mut random = Random(1);
    let zipf = Zipf::new(10_000);
    let stationary = (0..LEN).map(|_| zipf.page(&mut random)).collect();
    let drifting = (0..LEN)
        .map(|n| (zipf.page(&mut random) + n as u32 / 30) % 10_000)
        .collect();
    let looping = (0..LEN as u32).map(|n| n % 10_000).collect();
    let (small, mut scanned) = (Zipf::new(2_000), 0);
    // Every other 20,000 reads, three of four are of pages that were never read and will not be again.
    let scan_and_hot = (0..LEN)
        .map(|n| {
            if n / 20_000 % 2 == 1 && random.below(4) > 0 {
                scanned += 1;
                10_000 + scanned
            } else {
                small.page(&mut random)
            }
        })
        .collect();
    // Roots and leaves of an index, loops over ranges of it, and jumps: phases of 15,000 reads.
    let mut position = 0;
    let mix = (0..LEN)
        .map(|n| match n / 15_000 % 3 {
            0 if n % 2 == 0 => random.below(200),
            0 => 200 + random.below(6_000),
            1 => {
                position += 1;
                3_000 + position % 2_500
            }
            _ => zipf.page(&mut random),
        })
        .collect();
    // Most reads are of pages read lately: the distance in distinct pages has a long tail.
    let (mut stack, mut next): (Vec<u32>, u32) = (Vec::new(), 0);
    let lately = (0..LEN)
        .map(|_| {
            // 2^(0..13) pages back, small steps as likely as large ones.
            let reach = 1_usize << random.below(14);
            let back = random.below(reach as u32) as usize;
            let page = if back < stack.len() && random.below(100) > 0 {
                stack.remove(stack.len() - 1 - back)
            } else {
                next += 1;
                next
            };
            stack.push(page);
            page
        })
        .collect();
    vec![
        ("zipf", stationary),
        ("zipf drifting", drifting),
        ("loop", looping),
        ("scan and hot", scan_and_hot),
        ("mix", mix),
        ("lately", lately),
    ]
}

/// Recorded traces: the files `*.u32` in the folder that the environment variable `MILLPOND_TRACES` names, page numbers
/// of 32 bits, little endian, one a read. None, and a line that says so, without the variable.
#[allow(clippy::print_stdout, reason = "a test that cannot run says so")]
pub(crate) fn recorded() -> Vec<(String, Vec<u32>)> {
    let Some(folder) = std::env::var_os("MILLPOND_TRACES").filter(|folder| !folder.is_empty()) else {
        println!("skipped: MILLPOND_TRACES names no folder");
        return Vec::new();
    };
    let mut files: Vec<PathBuf> = std::fs::read_dir(&folder)
        .unwrap_or_else(|e| panic!("MILLPOND_TRACES {}: {e}", folder.display()))
        .map(|entry| entry.expect("the folder can be read").path())
        .filter(|path| path.extension().is_some_and(|e| e == "u32"))
        .collect();
    files.sort();
    let read = |path: PathBuf| {
        let name = path
            .file_stem()
            .unwrap_or_default()
            .to_string_lossy()
            .into_owned();
        let bytes = std::fs::read(&path).unwrap_or_else(|e| panic!("{}: {e}", path.display()));
        let (pages, _) = bytes.as_chunks::<4>();
        (name, pages.iter().map(|&page| u32::from_le_bytes(page)).collect())
    };
    files.into_iter().map(read).collect()
}

/// The trace that comes with the repository: what SQLite on a mount asked for, pages of 4 KiB, reads and writes. 3400 orders
/// in a shop of 12,000 items and 9000 customers, some of which are bought and buy much oftener than others (Zipf, 0.95), with
/// `cache_size=-64`; now and then the orders of a customer, twice a count of all customers, once a search of all items.
/// Recorded with `millpond record`.
pub(crate) fn orders() -> Vec<u32> {
    let pages = include_str!("../../traces/orders.pages").lines();
    pages.map(|page| page.parse().expect("a page's number")).collect()
}

/// A trace, an amount of memory, and what bounds the rules on it.
pub(crate) struct Case<'a> {
    pub(crate) name: &'a str,
    pub(crate) trace: &'a [u32],
    pub(crate) pages: u32,
    pub(crate) opt: u64,
    pub(crate) lru: u64,
}

impl<'a> Case<'a> {
    /// Memory for this many per mille of the trace's distinct pages, rounded.
    pub(crate) fn new(name: &'a str, trace: &'a [u32], per_mille: u32) -> Case<'a> {
        let pages = ((distinct(trace) * per_mille + 500) / 1000).max(1);
        let (opt, lru) = (misses_opt(trace, pages), misses_lru(trace, pages));
        Case {
            name,
            trace,
            pages,
            opt,
            lru,
        }
    }

    pub(crate) fn ratio(&self, misses: u64) -> f64 {
        misses as f64 / self.trace.len() as f64
    }

    /// How much of the way from last use to the best possible is left: 1 is as good as one list by last use, 0 the best
    /// possible. `None` if there is hardly any way to go.
    pub(crate) fn gap_left(&self, misses: u64) -> Option<f64> {
        let gap = self.ratio(self.lru) - self.ratio(self.opt);
        (gap > 0.005).then(|| (self.ratio(misses) - self.ratio(self.opt)) / gap)
    }
}

pub(crate) fn mean(values: impl Iterator<Item = f64>) -> f64 {
    let (sum, count) = values.fold((0.0, 0.0), |(sum, count), value| (sum + value, count + 1.0));
    sum / count
}
