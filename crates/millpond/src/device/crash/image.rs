//! What a file may hold after a crash: the durable image, and any part of what came since.
//!
//! - C1. What was completed when a sync was asked for, and that sync has succeeded: all of it is there.
//! - C2. Of every other write, whether completed or in transit, any sectors are there and the others are not, whatever is
//!   there of earlier or later ones. So writes are lost, kept, torn and reordered.
//! - C3. A sector that is there is there whole, as the live file had it when the write was completed.
//! - C4. Changes of the length, by a call or by a write beyond the end, survive in order: those up to some moment are
//!   there and no later one, as a file system that logs its metadata has it. A write beyond the end may leave any
//!   number of its sectors' length.
//! - C5. What is behind the end is gone, and reads as zeros if the file is longer again: no old bytes come back.

use super::Event;
use std::ops::Range;

/// What a crash does to that of which nobody had a promise.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Fate {
    /// All of it is lost.
    Lost,
    /// All of it is there.
    Kept,
    /// Chance decides, from this seed: per write, per sector, and how far changes of the length have come.
    Drawn(u64),
}

/// What came about in an image: for tests that want to know that they have seen everything.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Survived {
    /// Writes of which no promise was given, and which are there whole.
    pub kept: u64,
    /// Writes of which nothing is there.
    pub lost: u64,
    /// Writes of which some sectors are there.
    pub torn: u64,
    /// Writes that are there, at least in part, while an earlier one is not.
    pub reordered: u64,
    /// Writes, of those above, that were in transit.
    pub in_transit: u64,
    /// Changes of the length that are there.
    pub lengths_kept: u64,
    /// Changes of the length that are not.
    pub lengths_lost: u64,
    /// Writes beyond the end that have left a part of their length.
    pub lengths_torn: u64,
}

/// What an entry of the journal was.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Happened {
    /// A write of these bytes of the file was begun. Its memory was read between the entry `since` and this one.
    Begun {
        /// Of the file.
        bytes: Range<u64>,
        /// How many entries there were before its memory was looked at.
        since: usize,
    },
    /// A write is over.
    Done {
        /// The entry with which it began.
        begun: usize,
        /// Whether it failed.
        failed: bool,
        /// Whether it has made the file longer.
        extended: bool,
    },
    /// A call has made the file so long.
    Length {
        /// How long it was.
        from: u64,
        /// How long it is.
        to: u64,
    },
    /// What was completed when this was asked for is durable.
    Synced {
        /// How many entries there were then.
        asked: usize,
    },
}

/// A file at a crash, from before the first entry of the journal about it to after the last.
#[derive(Clone, Debug)]
pub struct AfterCrash<'a> {
    sector: usize,
    events: Vec<(usize, &'a Event)>,
    next: usize,
    durable: Vec<u8>,
    live: Vec<u8>,
    /// Completed and not durable, in order.
    pending: Vec<Pending>,
    in_transit: Vec<InTransit<'a>>,
}

#[derive(Clone, Debug)]
struct Pending {
    /// The entry with which it was completed.
    at: usize,
    change: Change,
}

#[derive(Clone, Debug)]
enum Change {
    /// Whole sectors from byte `start` on, and the length that the file got by it, if it got longer.
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

    /// Sectors have so many bytes.
    pub fn sector_bytes(&self) -> usize {
        self.sector
    }

    /// Up to how many entries of the journal, all files', nothing else happens to this file.
    pub fn until(&self) -> usize {
        self.events.get(self.next).map_or(usize::MAX, |&(at, _)| at)
    }

    /// What the real file holds, if nothing is in transit.
    pub fn live(&self) -> &[u8] {
        &self.live
    }

    /// What is promised.
    pub fn durable(&self) -> &[u8] {
        &self.durable
    }

    /// Lets the next thing happen. `None` after the last.
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

    /// A write is completed; whether it has made the file longer.
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

    /// What the file holds if the crash is now.
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

/// Writes to `live`, and what of it can be found after a crash.
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

/// What chance decides, in the order in which it is asked.
struct Fates {
    fate: Fate,
    random: u64,
    /// So many changes of the length survive.
    lengths_left: usize,
    any_lost: bool,
    survived: Survived,
}

impl Fates {
    /// There are `lengths` changes of the length.
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

    /// A write in transit would make the file longer; if all lengths before have survived, this one may.
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

    /// How long the file is after a write that made it longer, from `before` to `end`.
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
mod tests {
    use super::super::super::{
        Access, Buffer, Device, DeviceFile, Fault, FaultRule, FaultTarget, Faulty, Op,
    };
    use super::super::super::{Request, Segments, Threads};
    use super::super::Crashing;
    use super::*;
    use std::collections::BTreeSet;
    use std::sync::Arc;

    const SECTOR: usize = 512;

    struct Bench {
        device: Crashing,
        file: Arc<DeviceFile>,
        _folder: tempfile::TempDir,
    }

    impl Bench {
        fn over(inner: Arc<dyn Device>, base: &[u8]) -> Bench {
            let folder = tempfile::tempdir().unwrap();
            let path = folder.path().join("file");
            std::fs::write(&path, base).unwrap();
            Bench {
                device: Crashing::new(inner, SECTOR),
                file: Arc::new(DeviceFile::open(&path, Access::ReadWrite).unwrap()),
                _folder: folder,
            }
        }

        fn new(base: &[u8]) -> Bench {
            Bench::over(Arc::new(Threads::new("a test")), base)
        }

        fn write(&self, offset: usize, len: usize, byte: u8) {
            let mut buffer = Buffer::new(len);
            Buffer::bytes(&mut buffer).unwrap().fill(byte);
            let request = Request {
                token: 1,
                op: Op::Write,
                file: self.file.clone(),
                offset: offset as u64,
                segments: Segments::of(buffer, 0, len),
            };
            let _ = self.device.transfer(&request);
        }

        /// Every image at the end that 200 seeds give, and the two extremes.
        fn images(&self) -> BTreeSet<Vec<u8>> {
            let journal = self.device.journal();
            let mut crash = journal.file(self.file.identity()).unwrap();
            while crash.advance().is_some() {}
            let fates = (0..200).map(Fate::Drawn).chain([Fate::Lost, Fate::Kept]);
            fates.map(|fate| crash.image(fate).0).collect()
        }
    }

    /// Each sector's byte, or `None` if the sector is not all the same.
    fn sectors(image: &[u8]) -> Vec<Option<u8>> {
        let same = |part: &[u8]| part.iter().all(|byte| *byte == part[0]).then_some(part[0]);
        image.chunks(SECTOR).map(same).collect()
    }

    #[test]
    fn what_was_synced_is_there_in_every_image() {
        let bench = Bench::new(&[1; 2 * SECTOR]);
        bench.write(0, 2 * SECTOR, 2);
        bench.device.sync(&bench.file).unwrap();
        assert_eq!(bench.images(), BTreeSet::from([vec![2; 2 * SECTOR]]));
    }

    /// C2: all 3 x 3 outcomes of two writes to two sectors, of which the second overwrites the first.
    #[test]
    fn writes_without_a_sync_are_lost_kept_torn_and_reordered() {
        let bench = Bench::new(&[1; 2 * SECTOR]);
        bench.write(0, 2 * SECTOR, 2);
        bench.write(0, 2 * SECTOR, 3);
        let seen: BTreeSet<_> = bench.images().iter().map(|image| sectors(image)).collect();
        let each = [Some(1), Some(2), Some(3)];
        let all = each.iter().flat_map(|&a| each.map(|b| vec![a, b]));
        assert_eq!(seen, all.collect());
    }

    /// C3: the sector is the live one, whose other bytes had been written before.
    #[test]
    fn a_write_of_a_part_of_a_sector_takes_the_live_rest_along() {
        let bench = Bench::new(&[1; SECTOR]);
        bench.write(0, 100, 2);
        bench.write(100, 100, 3);
        let part = |a: u8, b: u8| [vec![a; 100], vec![b; 100], vec![1; SECTOR - 200]].concat();
        assert_eq!(
            bench.images(),
            BTreeSet::from([part(1, 1), part(2, 1), part(2, 3)])
        );
    }

    /// C4 and C5.
    #[test]
    fn lengths_survive_in_order_and_no_old_bytes_come_back() {
        let bench = Bench::new(&[1; 4 * SECTOR]);
        bench.device.set_len(&bench.file, SECTOR as u64).unwrap();
        bench.device.set_len(&bench.file, 3 * SECTOR as u64).unwrap();
        let seen: BTreeSet<_> = bench.images().iter().map(|image| sectors(image)).collect();
        let (one, zero) = (Some(1), Some(0));
        assert_eq!(
            seen,
            BTreeSet::from([vec![one; 4], vec![one], vec![one, zero, zero]])
        );
    }

    #[test]
    fn a_write_beyond_the_end_may_leave_a_part_of_its_length_and_zeros() {
        let bench = Bench::new(&[1; SECTOR]);
        bench.write(SECTOR, SECTOR + 9, 2);
        let images = bench.images();
        let lengths: BTreeSet<_> = images.iter().map(Vec::len).collect();
        assert_eq!(lengths, BTreeSet::from([SECTOR, 2 * SECTOR, 2 * SECTOR + 9]));
        assert!(images.contains(&[vec![1; SECTOR], vec![0; SECTOR], vec![2; 9]].concat()));
    }

    /// A sync promises what was completed before it was asked for, nothing more.
    #[test]
    fn a_write_that_is_in_transit_at_a_sync_is_not_promised() {
        let faulty = Arc::new(Faulty::new(Arc::new(Threads::new("a test")), 1));
        faulty.add(FaultRule::always(FaultTarget::Writes, Fault::Hold));
        let bench = Bench::over(faulty.clone(), &[1; SECTOR]);
        std::thread::scope(|scope| {
            scope.spawn(|| bench.write(0, SECTOR, 2));
            while faulty.held() == 0 {
                std::thread::yield_now();
            }
            bench.device.sync(&bench.file).unwrap();
            assert_eq!(bench.images().len(), 2, "old or new");
            faulty.release().unwrap();
        });
        assert_eq!(bench.images().len(), 2, "still, for the sync came before its end");
        bench.device.sync(&bench.file).unwrap();
        assert_eq!(bench.images(), BTreeSet::from([vec![2; SECTOR]]));
    }

    #[test]
    fn a_write_that_fails_has_left_what_the_file_holds() {
        let faulty = Arc::new(Faulty::new(Arc::new(Threads::new("a test")), 1));
        faulty.add(FaultRule::always(FaultTarget::Writes, Fault::Cut(SECTOR)));
        let bench = Bench::over(faulty, &[1; 2 * SECTOR]);
        bench.write(0, 2 * SECTOR, 2);
        let seen: BTreeSet<_> = bench.images().iter().map(|image| sectors(image)).collect();
        assert_eq!(seen, BTreeSet::from([vec![Some(1); 2], vec![Some(2), Some(1)]]));
        bench.device.sync(&bench.file).unwrap();
        assert_eq!(bench.images().len(), 1);
    }

    /// What the image of all that was written has is the file.
    #[test]
    fn the_live_image_is_the_real_file() {
        let bench = Bench::new(&[1; 3000]);
        bench.write(2500, 4000, 2);
        bench.device.set_len(&bench.file, 5001).unwrap();
        bench.write(7, 1, 3);
        bench.device.set_len(&bench.file, 9000).unwrap();
        let journal = bench.device.journal();
        let mut crash = journal.file(bench.file.identity()).unwrap();
        let mut happened = Vec::new();
        while let Some(event) = crash.advance() {
            happened.push(event);
        }
        let path = bench._folder.path().join("file");
        assert!(std::fs::read(path).unwrap() == crash.live());
        assert!(crash.image(Fate::Kept).0 == crash.live());
        assert_eq!(crash.durable(), [1; 3000]);
        let extended = Happened::Done {
            begun: 0,
            failed: false,
            extended: true,
        };
        let cut = Happened::Length { from: 6500, to: 5001 };
        assert_eq!(happened[1..3], [extended, cut]);
    }
}
