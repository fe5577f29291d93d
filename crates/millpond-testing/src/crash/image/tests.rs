//! Which bytes each kind of crash may leave.

use super::super::Crashing;
use super::*;
use crate::{Fault, FaultRule, FaultTarget, Faulty};
use millpond::device::{Access, Buffer, Device, DeviceFile, Op, Request, Segments, Threads};
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
            reason: None,
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
fn synced_data_is_in_every_image() {
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

/// C3: the whole live sector survives, including bytes of it that were written earlier.
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
