//! Histories of calls, drawn from a seed, and what a file may hold after a crash in one of them.
//!
//! Every call that changes a file makes a new version of it. After a crash each sector must be as some version has it
//! that is not older than what the last sync has promised, and not younger than the last call that had begun; so must
//! be the length. Where a version has ended before a sector it counts as zeros there; where the
//! file has, or had, its end inside a sector, that counts as two.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]
#![allow(dead_code, reason = "each test uses its part of it")]

use crate::support::Draw;
use std::collections::BTreeMap;
use std::ops::{Range, RangeInclusive};

/// The actions. Files and handles are numbers, taken modulo what there is.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Op {
    Write {
        at: u64,
        len: u64,
        seed: u64,
    },
    /// Bytes `from..to` of a page, by a guard.
    Change {
        page: u64,
        from: usize,
        to: usize,
        seed: u64,
    },
    SetLen {
        len: u64,
    },
    Read {
        at: u64,
        len: u64,
    },
    Prefetch {
        at: u64,
        len: u64,
    },
    Sync,
    SyncAll,
    /// Closes a handle, which syncs, and opens the file anew if that was the last one.
    Close,
    /// Drops all handles of the file and opens it anew.
    Drop,
    /// One more handle.
    Open,
}

/// The sizes in a history.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Sizes {
    pub(crate) page: u64,
    pub(crate) len_max: u64,
    /// Pages that one write has at most.
    pub(crate) write_pages_max: u64,
}

impl Op {
    /// The next one, for a file of `len` bytes.
    pub(crate) fn draw(draw: &mut Draw, len: u64, sizes: Sizes) -> Op {
        let page = sizes.page;
        match draw.below(100) {
            0..36 => {
                let at = place(draw, len, sizes).min(sizes.len_max - 1);
                let wanted = match draw.below(8) {
                    0..2 => 1 + draw.below(100),
                    2 => page,
                    3..7 => 1 + draw.below(3 * page),
                    _ => 1 + draw.below(sizes.write_pages_max * page),
                };
                let (len, seed) = (wanted.min(sizes.len_max - at), draw.bits());
                Op::Write { at, len, seed }
            }
            36..56 if len > 0 => {
                let page_number = draw.below(len.div_ceil(page));
                let bytes = page.min(len - page_number * page);
                let from = draw.below(bytes);
                let to = from + 1 + draw.below(bytes - from);
                Op::Change {
                    page: page_number,
                    from: from as usize,
                    to: to as usize,
                    seed: draw.bits(),
                }
            }
            56..66 => Op::SetLen {
                len: place(draw, len, sizes),
            },
            66..72 => Op::Read {
                at: place(draw, len, sizes),
                len: draw.below(5 * page),
            },
            72..75 => Op::Prefetch {
                at: place(draw, len, sizes),
                len: draw.below(20 * page),
            },
            75..78 => Op::SyncAll,
            78..81 => Op::Close,
            81..83 => Op::Drop,
            83..86 => Op::Open,
            _ => Op::Sync,
        }
    }

    /// The file's next version, if this makes one.
    pub(crate) fn change(self, bytes: &[u8], page_size: u64) -> Option<Vec<u8>> {
        let mut bytes = bytes.to_vec();
        match self {
            Op::Write { at, len, seed } => {
                let (start, end) = (at as usize, (at + len) as usize);
                bytes.resize(bytes.len().max(end), 0);
                bytes[start..end].copy_from_slice(&content(end - start, seed));
            }
            Op::Change { page, from, to, seed } => {
                let start = (page * page_size) as usize;
                bytes[start + from..start + to].copy_from_slice(&content(to - from, seed));
            }
            Op::SetLen { len } => bytes.resize(len as usize, 0),
            _ => return None,
        }
        Some(bytes)
    }
}

/// Anywhere in the file, at a page's start, near the end, or past it.
fn place(draw: &mut Draw, len: u64, sizes: Sizes) -> u64 {
    let anywhere = draw.below(len + 1);
    match draw.below(10) {
        0..4 => anywhere,
        4..7 => anywhere / sizes.page * sizes.page,
        7 => len.saturating_sub(draw.below(9_000)),
        8 => len,
        _ => (len + draw.below(9_000)).min(sizes.len_max),
    }
}

/// Bytes in which no two sectors are alike.
pub(crate) fn content(len: usize, seed: u64) -> Vec<u8> {
    let mut draw = Draw(seed);
    let mut bytes = vec![0; len];
    for part in bytes.chunks_mut(8) {
        part.copy_from_slice(&draw.bits().to_le_bytes()[..part.len()]);
    }
    bytes
}

/// How often events occurred.
#[derive(Clone, Default, Debug)]
pub(crate) struct Seen(BTreeMap<&'static str, u64>);

impl Seen {
    pub(crate) fn add(&mut self, what: &'static str, times: u64) {
        *self.0.entry(what).or_default() += times;
    }

    pub(crate) fn merge(&mut self, other: Seen) {
        other
            .0
            .into_iter()
            .for_each(|(what, times)| self.add(what, times));
    }

    pub(crate) fn times(&self, what: &str) -> u64 {
        self.0.get(what).copied().unwrap_or(0)
    }

    /// One line.
    pub(crate) fn line(&self) -> String {
        let each = self.0.iter().map(|(what, times)| format!("{what} {times}"));
        each.collect::<Vec<_>>().join(", ")
    }

    /// A test that never comes near what it is about checks nothing.
    pub(crate) fn assert_all(&self, whats: &[&str]) {
        let missing: Vec<_> = whats.iter().filter(|what| self.times(what) == 0).collect();
        assert!(missing.is_empty(), "never came about: {missing:?}");
    }
}

/// What a file held, and what was promised to which thread, by positions in some journal.
pub(crate) struct Story {
    versions: Vec<Version>,
    promises: Vec<Promise>,
}

struct Version {
    bytes: Vec<u8>,
    begun: usize,
    ended: usize,
    /// Whether it came about by a write, which makes a file longer in steps.
    by_write: bool,
}

/// From `position` on, nothing older than `version`.
struct Promise {
    position: usize,
    version: usize,
}

/// Memory that a device read while these positions went by.
#[derive(Clone, Debug)]
pub(crate) struct Taken {
    pub(crate) bytes: Range<u64>,
    pub(crate) positions: RangeInclusive<usize>,
}

impl Story {
    /// A file that holds `bytes`, which is safe.
    pub(crate) fn new(bytes: Vec<u8>) -> Story {
        let version = Version {
            bytes,
            begun: 0,
            ended: 0,
            by_write: false,
        };
        Story {
            versions: vec![version],
            promises: Vec::new(),
        }
    }

    /// The file's content for its users.
    pub(crate) fn bytes(&self) -> &[u8] {
        &self.versions[self.version()].bytes
    }

    /// Its initial content.
    pub(crate) fn first(&self) -> &[u8] {
        &self.versions[0].bytes
    }

    pub(crate) fn len(&self) -> u64 {
        self.bytes().len() as u64
    }

    /// The youngest version.
    pub(crate) fn version(&self) -> usize {
        self.versions.len() - 1
    }

    /// A call begins that will leave the file like this.
    pub(crate) fn begin(&mut self, position: usize, bytes: Vec<u8>, by_write: bool) {
        self.versions.push(Version {
            bytes,
            begun: position,
            ended: usize::MAX,
            by_write,
        });
    }

    /// It has returned.
    pub(crate) fn end(&mut self, position: usize) {
        self.versions.last_mut().unwrap().ended = position;
    }

    /// A sync has succeeded that was called when the youngest version was `version`.
    pub(crate) fn promise(&mut self, position: usize, version: usize) {
        self.promises.push(Promise { position, version });
    }

    /// Positions from which on something else is allowed.
    pub(crate) fn turns(&self) -> impl Iterator<Item = usize> + '_ {
        let begun = self.versions.iter().map(|version| version.begun);
        begun.chain(self.promises.iter().map(|promise| promise.position))
    }

    /// All of it, for people.
    pub(crate) fn told(&self) -> String {
        let mut all = Vec::new();
        for (n, version) in self.versions.iter().enumerate() {
            let (Version { begun, ended, .. }, len) = (version, version.bytes.len());
            all.push((
                *begun,
                format!("before {begun} to before {ended}: version {n}, {len} bytes"),
            ));
        }
        for Promise { position, version } in &self.promises {
            all.push((
                *position,
                format!("before {position}: version {version} is promised"),
            ));
        }
        all.sort_by_key(|(position, _)| *position);
        let lines: Vec<_> = all.into_iter().map(|(_, line)| line).collect();
        lines.join("\n")
    }

    /// The versions that may be there after a crash at `position`.
    fn allowed(&self, position: usize) -> RangeInclusive<usize> {
        let given = self
            .promises
            .iter()
            .filter(|promise| promise.position <= position);
        let oldest = given.map(|promise| promise.version).max().unwrap_or(0);
        let begun = self
            .versions
            .iter()
            .rposition(|version| version.begun <= position);
        oldest..=begun.unwrap_or(0)
    }

    /// Whether the file may be `image` after a crash at `position`. How many sectors were mixed in memory: they changed
    /// while the device was reading them, which it did at `taken`.
    ///
    /// # Errors
    /// The fault.
    pub(crate) fn check(
        &self,
        image: &[u8],
        position: usize,
        sector: usize,
        taken: &[Taken],
    ) -> Result<u64, String> {
        let allowed = self.allowed(position);
        if !self.may_be_so_long(image.len(), allowed.clone()) {
            let lengths: Vec<_> = self.versions[allowed.clone()]
                .iter()
                .map(|v| v.bytes.len())
                .collect();
            return Err(format!(
                "it is {} bytes long; versions {allowed:?} have {lengths:?}",
                image.len()
            ));
        }
        let mut mixed = 0;
        for (n, part) in image.chunks(sector).enumerate() {
            let at = n * sector;
            let is = |version: &usize| self.versions[*version].has(part, at);
            if allowed.clone().rev().any(|version| is(&version)) {
                continue;
            }
            if self.is_cut(part, at, allowed.clone(), taken) {
                continue;
            }
            if !self.is_mixed(part, at, allowed.clone(), taken) {
                let all: Vec<_> = (0..self.versions.len()).filter(is).collect();
                return Err(format!(
                    "bytes {at}..{} of {} are as in versions {all:?}; must be one of {allowed:?} of {}",
                    at + part.len(),
                    image.len(),
                    self.versions.len()
                ));
            }
            mixed += 1;
        }
        Ok(mixed)
    }

    /// A write makes a file longer in steps, and one that is on its way when the file is cut makes it longer again, for
    /// a moment: anything in between will do until the length is promised.
    fn may_be_so_long(&self, len: usize, allowed: RangeInclusive<usize>) -> bool {
        let first = *allowed.start();
        allowed.into_iter().any(|n| {
            let version = &self.versions[n];
            let new = version.bytes.len();
            let old = if n > first {
                self.versions[n - 1].bytes.len()
            } else {
                new
            };
            let in_steps = version.by_write || new < old;
            len == new || in_steps && (new.min(old)..=new.max(old)).contains(&len)
        })
    }

    /// Whether it is as in one version up to where a version or a write has its end, and behind that as in another: the
    /// length of a cut may be there without the writes before it, and a write goes as far as the file did when it was
    /// made, with what the file had behind that.
    fn is_cut(&self, part: &[u8], at: usize, allowed: RangeInclusive<usize>, taken: &[Taken]) -> bool {
        let versions = &self.versions[allowed];
        let ends = versions.iter().map(|version| version.bytes.len());
        let ends = ends.chain(taken.iter().map(|taken| taken.bytes.end as usize));
        let mut inside = ends.filter(|end| (at + 1..at + part.len()).contains(end));
        inside.any(|end| {
            let (before, behind) = part.split_at(end - at);
            versions.iter().any(|version| version.has(before, at))
                && versions.iter().any(|version| version.has(behind, end))
        })
    }

    /// Whether every byte is as in one of the versions between which the page was when the device read it.
    fn is_mixed(&self, part: &[u8], at: usize, allowed: RangeInclusive<usize>, taken: &[Taken]) -> bool {
        taken.iter().any(|taken| {
            let overlaps = taken.bytes.start < (at + part.len()) as u64 && (at as u64) < taken.bytes.end;
            let beside = |n: &usize| {
                let Version { begun, ended, .. } = self.versions[*n];
                begun <= *taken.positions.end() && *taken.positions.start() <= ended
            };
            let Some(first) = allowed.clone().find(beside).filter(|_| overlaps) else {
                return false;
            };
            let last = allowed.clone().rfind(beside).unwrap_or(first);
            let between = &self.versions[first.saturating_sub(1).max(*allowed.start())..=last];
            (0..part.len()).all(|n| between.iter().any(|version| version.byte(at + n) == part[n]))
        })
    }
}

impl Version {
    fn byte(&self, at: usize) -> u8 {
        self.bytes.get(at).copied().unwrap_or(0)
    }

    fn has(&self, part: &[u8], at: usize) -> bool {
        let have = &self.bytes[at.min(self.bytes.len())..(at + part.len()).min(self.bytes.len())];
        part[..have.len()] == *have && part[have.len()..].iter().all(|&byte| byte == 0)
    }
}
