//! What a file may hold after a crash: the durable image, plus any part of what came later.
//!
//! [`Fate`] has the rules C1 to C5.

use super::Event;
use std::ops::Range;

/// What a crash does to data without a promise.
///
/// - C1. Everything that had completed when a sync was requested is there, if that sync succeeded.
/// - C2. Of every other write, completed or in transit, any subset of its sectors is there, whatever is there of
///   earlier or later writes. So writes can be lost, kept, torn and reordered.
/// - C3. A sector is there completely or not at all, with the content of the live file when the write completed.
/// - C4. Changes of the length, by a call or by a write beyond the end, survive in order: those up to some moment are
///   there and no later one, as on a file system that logs its metadata. A write beyond the end may leave the length at
///   any number of its sectors.
/// - C5. Bytes past the end are gone, and read as zeros if the file grows again: no old bytes come back.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum Fate {
    /// All of it is lost.
    Lost,
    /// All of it survives.
    Kept,
    /// A random choice from this seed: per write, per sector, and how many changes of the length survive.
    Drawn(u64),
}

/// What happened in an image, for tests that want to know that they have covered everything.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
#[non_exhaustive]
pub struct Survived {
    /// Unsynced writes that survive completely.
    pub kept: u64,
    /// Writes that are lost completely.
    pub lost: u64,
    /// Writes of which some sectors survive.
    pub torn: u64,
    /// Writes that survive, at least in part, while an earlier one does not.
    pub reordered: u64,
    /// Of the writes above, those that were in transit.
    pub in_transit: u64,
    /// Changes of the length that survive.
    pub lengths_kept: u64,
    /// Changes of the length that are lost.
    pub lengths_lost: u64,
    /// Writes beyond the end that left the length at a part of theirs.
    pub lengths_torn: u64,
}

/// An entry of the journal.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Happened {
    /// A write of these bytes began. Its memory was read between the entry `since` and this one.
    Begun {
        /// The range in the file.
        bytes: Range<u64>,
        /// The number of entries before its memory was read.
        since: usize,
    },
    /// A write has ended.
    Done {
        /// The entry at which it began.
        begun: usize,
        /// Whether it failed.
        failed: bool,
        /// Whether it extended the file.
        extended: bool,
    },
    /// A call changed the length of the file.
    Length {
        /// The old length.
        from: u64,
        /// The new length.
        to: u64,
    },
    /// Everything that had completed when this sync was requested is durable.
    Synced {
        /// The number of entries at that time.
        asked: usize,
    },
}

/// A file at a crash that moves through the journal, from before its first entry to after the last.
#[derive(Clone, Debug)]
pub struct AfterCrash<'a> {
    sector: usize,
    events: Vec<(usize, &'a Event)>,
    next: usize,
    durable: Vec<u8>,
    live: Vec<u8>,
    /// Completed but not durable, in order.
    pending: Vec<Pending>,
    in_transit: Vec<InTransit<'a>>,
}

#[derive(Clone, Debug)]
struct Pending {
    /// The entry at which it completed.
    at: usize,
    change: Change,
}

#[derive(Clone, Debug)]
enum Change {
    /// Whole sectors from byte `start` on, and the new length if the write extended the file.
    Write {
        start: usize,
        sectors: Vec<u8>,
        extended: Option<usize>,
    },
    Length(usize),
}

#[derive(Clone, Copy, Debug)]
struct InTransit<'a> {
    begun: usize,
    offset: u64,
    bytes: &'a [u8],
}

impl<'a> AfterCrash<'a> {
    pub(super) fn new(sector: usize, base: &[u8], events: Vec<(usize, &'a Event)>) -> AfterCrash<'a> {
        AfterCrash {
            sector,
            events,
            next: 0,
            durable: base.to_vec(),
            live: base.to_vec(),
            pending: Vec::new(),
            in_transit: Vec::new(),
        }
    }

    /// The sector size in bytes.
    pub fn sector_bytes(&self) -> usize {
        self.sector
    }

    /// The journal position, over all files, up to which nothing else happens to this file.
    pub fn until(&self) -> usize {
        self.events.get(self.next).map_or(usize::MAX, |&(at, _)| at)
    }

    /// The content of the real file, if nothing is in transit.
    pub fn live(&self) -> &[u8] {
        &self.live
    }

    /// The promised content.
    pub fn durable(&self) -> &[u8] {
        &self.durable
    }

    /// Moves on to the crash that comes when the journal has `position` entries. An earlier one changes nothing. The
    /// images of several files belong together if all of them were moved to one position.
    ///
    /// ```
    /// # use millpond_testing::{Crashing, Fate};
    /// # use millpond::{OpenOptions, PageCache, device};
    /// # use std::sync::Arc;
    /// # let folder = tempfile::tempdir()?;
    /// # let disk = Arc::new(Crashing::new(device::best(), 512));
    /// # let cache = PageCache::builder().device(disk.clone()).build()?;
    /// # let open = |name| cache.open(folder.path().join(name), OpenOptions::new().create(true));
    /// let (log, pages) = (open("log")?, open("pages")?);
    /// log.write_at(b"record", 0)?;
    /// log.sync_data()?;
    /// pages.write_at(b"page", 0)?;
    /// pages.sync_data()?;
    ///
    /// let journal = disk.journal();
    /// let after = |file: &millpond::File| journal.file(file.identity()).expect("it was used");
    /// let (mut log, mut pages) = (after(&log), after(&pages));
    /// for position in 0..=disk.position() {
    ///     log.advance_to(position);
    ///     pages.advance_to(position);
    ///     let [log, pages] = [&log, &pages].map(|file| file.image(Fate::Drawn(1)).0);
    ///     assert!(pages.is_empty() || log == b"record"); // no page without its record
    /// }
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn advance_to(&mut self, position: usize) {
        while self.until() < position && self.advance().is_some() {}
    }

    /// Moves past the next entry. `None` after the last.
    pub fn advance(&mut self) -> Option<Happened> {
        let &(at, event) = self.events.get(self.next)?;
        self.next += 1;
        Some(match event {
            Event::Begun { offset, bytes, since } => {
                self.in_transit.push(InTransit {
                    begun: at,
                    offset: *offset,
                    bytes,
                });
                Happened::Begun {
                    bytes: *offset..offset + bytes.len() as u64,
                    since: *since,
                }
            }
            Event::Done { begun, len, failed } => {
                let mut extended = false;
                if let Some(n) = self.in_transit.iter().position(|write| write.begun == *begun) {
                    let write = self.in_transit.remove(n);
                    let bytes = failed.as_deref().unwrap_or(write.bytes);
                    let within = len.saturating_sub(write.offset).min(bytes.len() as u64);
                    extended = self.complete(at, write.offset, &bytes[..within as usize]);
                }
                Happened::Done {
                    begun: *begun,
                    failed: failed.is_some(),
                    extended,
                }
            }
            Event::Length(len) => {
                let (len, before) = (*len as usize, self.live.len());
                self.live.resize(len, 0);
                let change = Change::Length(len);
                self.pending.push(Pending { at, change });
                Happened::Length {
                    from: before as u64,
                    to: len as u64,
                }
            }
            Event::Synced { asked } => {
                let promised = self
                    .pending
                    .iter()
                    .take_while(|pending| pending.at < *asked)
                    .count();
                let mut fates = Fates::new(Fate::Kept, 0);
                for Pending { change, .. } in self.pending.drain(..promised) {
                    change.apply(self.sector, &mut self.durable, &mut fates, false);
                }
                Happened::Synced { asked: *asked }
            }
        })
    }

    /// A write completes. Returns whether it extended the file.
    fn complete(&mut self, at: usize, offset: u64, bytes: &[u8]) -> bool {
        let change = write(self.sector, &mut self.live, offset as usize, bytes);
        let extended = matches!(
            change,
            Change::Write {
                extended: Some(_),
                ..
            }
        );
        self.pending.push(Pending { at, change });
        extended
    }

    /// What the file holds after a crash at this point.
    pub fn image(&self, fate: Fate) -> (Vec<u8>, Survived) {
        let lengths = self
            .pending
            .iter()
            .filter(|pending| pending.change.changes_length());
        let mut fates = Fates::new(fate, lengths.count());
        let mut image = self.durable.clone();
        for Pending { change, .. } in &self.pending {
            change.apply(self.sector, &mut image, &mut fates, false);
        }
        let mut live = self.live.clone();
        for in_transit in &self.in_transit {
            let change = write(
                self.sector,
                &mut live,
                in_transit.offset as usize,
                in_transit.bytes,
            );
            change.apply(self.sector, &mut image, &mut fates, true);
        }
        (image, fates.survived)
    }
}

/// Writes to `live`, and returns what can be found of it after a crash.
fn write(sector: usize, live: &mut Vec<u8>, offset: usize, bytes: &[u8]) -> Change {
    let (end, before) = (offset + bytes.len(), live.len());
    let extended = (!bytes.is_empty() && end > before).then_some(end);
    if !bytes.is_empty() {
        live.resize(end.max(before), 0);
        live[offset..end].copy_from_slice(bytes);
    }
    let (first, last) = (offset / sector * sector, end.next_multiple_of(sector));
    let mut sectors = live[first.min(live.len())..last.min(live.len())].to_vec();
    sectors.resize(if bytes.is_empty() { 0 } else { last - first }, 0);
    Change::Write {
        start: first,
        sectors,
        extended,
    }
}

impl Change {
    fn changes_length(&self) -> bool {
        matches!(
            self,
            Change::Length(_)
                | Change::Write {
                    extended: Some(_),
                    ..
                }
        )
    }

    fn apply(&self, sector: usize, image: &mut Vec<u8>, fates: &mut Fates, is_in_transit: bool) {
        match self {
            Change::Length(len) => {
                if fates.length() {
                    image.resize(*len, 0);
                }
            }
            Change::Write {
                start,
                sectors,
                extended,
            } => {
                if let Some(end) = extended {
                    if is_in_transit {
                        fates.one_more_length();
                    }
                    let so_far = fates.extension(image.len(), *end, sector);
                    image.resize(so_far.max(image.len()), 0);
                }
                let kept = fates.write(sectors.len() / sector, is_in_transit);
                for (n, content) in sectors.chunks(sector).enumerate().filter(|(n, _)| kept[*n]) {
                    let at = start + n * sector;
                    let end = (at + sector).min(image.len());
                    if at < end {
                        image[at..end].copy_from_slice(&content[..end - at]);
                    }
                }
            }
        }
    }
}

/// The random choices, in the order in which they are made.
struct Fates {
    fate: Fate,
    random: u64,
    /// The number of further changes of the length that survive.
    lengths_left: usize,
    any_lost: bool,
    survived: Survived,
}

impl Fates {
    /// For `lengths` changes of the length.
    fn new(fate: Fate, lengths: usize) -> Fates {
        let mut fates = Fates {
            fate,
            random: match fate {
                Fate::Drawn(seed) => seed,
                Fate::Lost | Fate::Kept => 0,
            },
            lengths_left: 0,
            any_lost: false,
            survived: Survived::default(),
        };
        fates.lengths_left = match fate {
            Fate::Lost => 0,
            Fate::Kept => usize::MAX,
            Fate::Drawn(_) => fates.below(lengths + 1),
        };
        fates
    }

    /// Splitmix64.
    fn below(&mut self, n: usize) -> usize {
        self.random = self.random.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let z = (self.random ^ (self.random >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        ((u128::from(z ^ (z >> 31)) * n as u128) >> 64) as usize
    }

    /// A write in transit would extend the file. If all earlier changes of the length survived, this one may.
    fn one_more_length(&mut self) {
        if self.survived.lengths_lost == 0 && matches!(self.fate, Fate::Drawn(_)) {
            self.lengths_left = self.below(2);
        }
    }

    /// Whether the next change of the length survives.
    fn length(&mut self) -> bool {
        let survives = self.lengths_left > 0;
        self.lengths_left = self.lengths_left.saturating_sub(1);
        *(if survives {
            &mut self.survived.lengths_kept
        } else {
            &mut self.survived.lengths_lost
        }) += 1;
        survives
    }

    /// The length of the file after a write that extended it from `before` to `end`.
    fn extension(&mut self, before: usize, end: usize, sector: usize) -> usize {
        if !self.length() {
            return before;
        }
        let whole = before.next_multiple_of(sector);
        // The last one to survive may have come a part of the way.
        if self.lengths_left == 0 && whole < end && matches!(self.fate, Fate::Drawn(_)) && self.below(2) == 0
        {
            self.survived.lengths_torn += 1;
            return whole + self.below((end - whole).div_ceil(sector)) * sector;
        }
        end
    }

    /// Which sectors of a write survive.
    fn write(&mut self, sectors: usize, is_in_transit: bool) -> Vec<bool> {
        let kept: Vec<bool> = match self.fate {
            Fate::Lost => vec![false; sectors],
            Fate::Kept => vec![true; sectors],
            Fate::Drawn(_) => match self.below(3) {
                0 => vec![false; sectors],
                1 => vec![true; sectors],
                _ => (0..sectors).map(|_| self.below(2) == 0).collect(),
            },
        };
        let count = kept.iter().filter(|&&kept| kept).count();
        self.survived.in_transit += u64::from(is_in_transit);
        self.survived.reordered += u64::from(count > 0 && self.any_lost);
        match count {
            0 => self.survived.lost += 1,
            n if n == sectors => self.survived.kept += 1,
            _ => self.survived.torn += 1,
        }
        self.any_lost |= count < sectors;
        kept
    }
}

#[cfg(test)]
mod tests;
