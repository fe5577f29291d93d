//! File and region pages in one memory.

use super::*;
use crate::page::PageKind;
use crate::units::Nanos;

const A_FILE: FileId = FileId(1);

/// Pages below [`OTHER`] are of a file, the others of a region.
fn pond(memory: u64, options: MillpondOptions) -> Pond {
    let mut pond = Pond::new(Replacement::Millpond(options), memory);
    pond.lru.opened(A_FILE);
    pond
}

fn reads_take(pond: &mut Pond, file_us: u64, region_us: u64) {
    pond.lru.read_took(PageKind::File, Nanos::from_micros(file_us));
    pond.lru
        .read_took(PageKind::Anonymous, Nanos::from_micros(region_us));
}

/// Misses of the file and of the region, 1500 pages each read in no order on 2000 of memory, and with what balance it ends.
fn misses(file_us: u64, region_us: u64, scan_balance_max_per_mille: u32) -> ([u64; 2], i64) {
    let options = MillpondOptions {
        scan_balance_max_per_mille,
        ..MillpondOptions::default()
    };
    let mut pond = pond(2000, options);
    reads_take(&mut pond, file_us, region_us);
    let (mut misses, mut random) = ([0, 0], 1_u32);
    for n in 0..120_000 {
        random = random.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        let (region, page) = (random >> 31, (random >> 8) % 1000);
        // Twice the chance for the first half of the pages.
        let page = if n % 3 == 0 { page + 500 } else { page };
        let missed = pond.read(OTHER * region + page, true);
        misses[region as usize] += u64::from(missed && n >= 20_000);
    }
    pond.lru.validate();
    let balance = pond
        .lru
        .millpond()
        .cost
        .scan_balance()
        .map_or(0, |(kind, share)| match kind {
            PageKind::Anonymous => i64::from(share),
            PageKind::File => -i64::from(share),
        });
    let rotated = pond.lru.statistics().scan_balance_rotated;
    assert_eq!(
        rotated > 0,
        balance != 0,
        "{rotated} went round by a balance of {balance}"
    );
    (misses, balance)
}

#[test]
fn the_kind_whose_reads_take_longer_is_missed_less_and_all_waiting_is_shorter() {
    let waited = |[file, region]: [u64; 2], (file_us, region_us)| file * file_us + region * region_us;
    for times in [(8000, 200), (200, 8000), (500, 100)] {
        let (off, none) = misses(times.0, times.1, 0);
        let (on, balance) = misses(times.0, times.1, 875);
        assert_eq!(none, 0);
        assert_eq!(balance < 0, times.0 > times.1, "{times:?}: {balance}");
        assert!(
            waited(on, times) * 10 < waited(off, times) * 9,
            "{times:?}: {on:?} misses, {off:?} where costs do not matter"
        );
    }
}

#[test]
fn where_reads_take_about_as_long_nobody_is_favoured() {
    let off = misses(300, 300, 0);
    for (file_us, region_us) in [(300, 300), (300, 160), (160, 300)] {
        assert_eq!(misses(file_us, region_us, 875), off);
    }
}

#[test]
fn the_lean_is_not_longer_than_the_price_is_worth_and_ends_with_it() {
    let mut pond = pond(1000, MillpondOptions::default());
    reads_take(&mut pond, 100, 400);
    (0..500).for_each(|_| pond.ghost_hit(FileId(2)));
    assert_eq!(
        pond.lru.millpond().cost.scan_balance(),
        Some((PageKind::Anonymous, 750))
    );
    (0..50).for_each(|_| pond.ghost_hit(A_FILE));
    let (_, share) = pond.lru.millpond().cost.scan_balance().unwrap();
    assert!(share < 750, "returns of the other kind: {share}");
    (0..100).for_each(|_| reads_take(&mut pond, 300, 400));
    assert_eq!(pond.lru.millpond().cost.scan_balance(), None);
}

#[test]
fn nobody_is_favoured_before_both_kinds_were_read() {
    let mut pond = pond(100, MillpondOptions::default());
    pond.lru.read_took(PageKind::File, Nanos::from_micros(8000));
    for n in 0..2000 {
        pond.read(n % 104, true);
        pond.read(OTHER + n % 104, true);
    }
    assert_eq!(pond.lru.millpond().cost.scan_balance(), None);
}

#[test]
fn where_only_one_kind_would_leave_nobody_is_favoured() {
    let mut pond = pond(1000, MillpondOptions::default());
    reads_take(&mut pond, 200, 8000);
    pond.insert_all(OTHER..OTHER + 500);
    for _ in 0..500 {
        pond.ghost_hit(FileId(2));
    }
    assert_eq!(
        pond.lru.millpond().cost.scan_balance(),
        Some((PageKind::Anonymous, 875))
    );
    // 125 pages, an eighth of memory, of which seven in eight go round.
    let scanned = pond.isolate(125);
    assert_eq!((scanned.rotated, pond.take_victims().len()), (109, 16));
    let scanned = pond.isolate(64);
    assert_eq!((scanned.rotated, pond.take_victims().len()), (0, 64));
}
