//! A tier on a real file, without a store.

use super::*;
use crate::format::ObjectId;
use std::num::NonZeroU64;
use std::os::unix::fs::FileExt;
use std::path::Path;

const PAGE: u32 = 65_536;

/// A page of a chunk, and its place.
fn page(n: u32) -> (Place, Vec<u8>) {
    let bytes: Vec<u8> = (0..PAGE).map(|at| (at % 251) as u8 ^ n as u8).collect();
    let place = Place {
        object: ObjectId::chunk(1, n),
        offset: 0,
        bytes: PAGE,
        kept: PAGE,
        checksum: checksum(&bytes),
    };
    (place, bytes)
}

fn open(path: &Path) -> Tier {
    let bytes = NonZeroU64::new(16 << 20).unwrap();
    let file = TierFile::open(path, bytes, "memory://a").unwrap();
    Tier::new(file, PAGE, 1 << 20).unwrap()
}

fn offer(tier: &Tier, n: u32) {
    let (place, bytes) = page(n);
    wait_for(tier.offer(&place, &bytes, Room::wait));
}

fn wait_for<T>(of: impl Future<Output = T>) -> T {
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    runtime.block_on(of)
}

fn read(tier: &Tier, n: u32) -> Option<Bytes> {
    let (place, _) = page(n);
    let found = tier.find([place].into_iter()).pop().flatten()?;
    Some(tier.read(found, PAGE as usize).unwrap())
}

/// Waits for what the tier's thread does.
fn until(mut is: impl FnMut() -> bool) {
    while !is() {
        std::thread::sleep(Duration::from_millis(1));
    }
}

#[test]
fn what_is_offered_is_there_and_in_the_next_process_too() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("tier");
    let tier = open(&path);
    (0..100).for_each(|n| offer(&tier, n));
    until(|| (0..100).all(|n| read(&tier, n).is_some()));
    tier.close();
    drop(tier);
    let tier = open(&path);
    for n in 0..100 {
        assert_eq!(read(&tier, n).unwrap(), page(n).1, "{n}");
    }
    assert_eq!(read(&tier, 100), None);
    assert_eq!(tier.usage().used_bytes, 100 * u64::from(PAGE));
}

#[test]
fn a_file_of_another_version_or_with_a_damaged_header_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("tier");
    open(&path).close();
    let header = std::fs::read(&path).unwrap()[..BLOCK as usize].to_vec();
    let refused = |at: usize, is_sealed: bool| {
        let mut other = header.clone();
        other[at] ^= 2;
        let (fields, sum) = other.split_at_mut(BLOCK as usize - 8);
        if is_sealed {
            sum.copy_from_slice(&checksum(fields).to_le_bytes());
        }
        let file = std::fs::OpenOptions::new().write(true).open(&path).unwrap();
        file.write_all_at(&other, 0).unwrap();
        let bytes = NonZeroU64::new(16 << 20).unwrap();
        TierFile::open(&path, bytes, "memory://a").unwrap_err()
    };
    for (at, is_sealed, why) in [
        (4, true, "has version 3, and this program knows version 1"),
        (4, false, "not a disk tier, or is damaged"),
        (6, false, "not a disk tier, or is damaged"),
        (0, true, "not a disk tier, or is damaged"),
    ] {
        let said = refused(at, is_sealed);
        assert!(said.contains(why), "{at}: {said}");
    }
}

#[test]
fn a_disk_that_cannot_be_written_is_given_up() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("tier");
    let tier = open(&path);
    offer(&tier, 2);
    until(|| read(&tier, 2).is_some());
    tier.fails(TierFile::WRITES_FAIL);
    offer(&tier, 1);
    until(|| tier.usage().given_up.is_some());
    let why = tier.usage().given_up.unwrap();
    assert!(why.contains("can't be written") && why.contains("tier"), "{why}");
    assert_eq!((read(&tier, 1), read(&tier, 2)), (None, None));
    // And asks nothing of those that go on reading.
    (0..100).for_each(|n| offer(&tier, n));
}

#[test]
fn what_comes_faster_than_the_disk_waits_for_room_and_a_disk_that_writes_nothing_is_noticed() {
    let folder = tempfile::tempdir().unwrap();
    let tier = open(&folder.path().join("tier"));
    let take = |blocks: u64| tier.room.clone().try_acquire_many_owned(blocks as u32);
    let all = tier.queue_bytes / BLOCK;
    let blocks = memory_blocks(PAGE.into());
    // Its memory is a block more than its bytes.
    assert_eq!(blocks, 17);
    let (most, last) = (take(all - blocks + 1).unwrap(), take(blocks - 1).unwrap());
    let waits = |n| {
        let (place, bytes) = page(n);
        let mut said = None;
        wait_for(tier.offer(&place, &bytes, async |room| {
            said = Some(room.is_behind);
            None
        }));
        said
    };
    // A page that finds no room is skipped, and from then on none is worth waiting for.
    assert_eq!((waits(1), waits(1)), (Some(false), Some(true)));
    assert_eq!((tier.usage().skipped, read(&tier, 1)), (2, None));
    let second = Duration::from_secs(1);
    assert_eq!(tier.stuck_for(10 * second), Duration::ZERO);
    assert_eq!(tier.stuck_for(13 * second), 3 * second);
    drop(last);
    assert_eq!(waits(1), Some(true), "a block is missing");
    // Until half of the queue is written.
    drop(most);
    let half = take(all / 2).unwrap();
    offer(&tier, 1);
    until(|| read(&tier, 1).is_some());
    assert_eq!(tier.stuck_for(20 * second), Duration::ZERO);
    // The memory comes back after the bytes are there.
    let when_free = |blocks| {
        let mut taken = None;
        until(|| {
            taken = take(blocks).ok();
            taken.is_some()
        });
        taken
    };
    let rest = when_free(all - all / 2);
    assert_eq!(waits(2), Some(true));
    drop((half, rest));
    offer(&tier, 2);
    until(|| read(&tier, 2).is_some());
    let _all = when_free(all);
    assert_eq!(waits(3), Some(false));
}

#[test]
fn pages_that_differ_in_anything_have_other_hashes() {
    let place = page(1).0;
    let others = [
        Place {
            object: ObjectId::chunk(1, 2),
            ..place
        },
        Place { offset: 1, ..place },
        Place { bytes: 1, ..place },
        Place { checksum: 1, ..place },
    ];
    assert!(others.iter().all(|other| hash(other) != hash(&place)));
}

#[test]
fn slots_of_another_size_have_none_of_the_pages_that_were_there() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("tier");
    let tier = open(&path);
    (0..9).for_each(|n| offer(&tier, n));
    tier.close();
    drop(tier);
    for _ in 0..2 {
        let file = TierFile::open(&path, NonZeroU64::new(16 << 20).unwrap(), "memory://a").unwrap();
        let tier = Tier::new(file, 2 * PAGE, 1 << 20).unwrap();
        assert_eq!(tier.usage().used_bytes, 0);
        tier.close();
    }
}

#[test]
fn bytes_of_another_page_are_not_believed() {
    let folder = tempfile::tempdir().unwrap();
    bytes_are_compared(&open(&folder.path().join("tier")));
}

fn bytes_are_compared(tier: &Tier) {
    (1..3).for_each(|n| offer(tier, n));
    until(|| (1..3).all(|n| read(tier, n).is_some()));
    let (place, bytes) = page(1);
    let found = || tier.find([place].into_iter()).pop().flatten();
    assert!(tier.has_right(found().unwrap(), &place, &bytes));
    assert!(!tier.has_right(found().unwrap(), &place, &page(2).1));
    assert_eq!(found(), None, "it will be fetched again");
    assert_eq!((tier.usage().hits, tier.usage().damaged), (1, 1));
}

/// Each is caught by one of these.
#[cfg(feature = "mutations")]
#[test]
fn each_mistake_of_a_tier_is_caught() {
    use std::panic::{AssertUnwindSafe, catch_unwind};
    for mutation in Mutation::OF_TIER {
        let folder = tempfile::tempdir().unwrap();
        let tier = open(&folder.path().join("tier"));
        crate::mutation::make(Some(mutation));
        let caught = catch_unwind(AssertUnwindSafe(|| match mutation {
            Mutation::TierChecksumIgnored => bytes_are_compared(&tier),
            _ => slots::tests::any_calls_do_what_a_naive_model_does(),
        }));
        crate::mutation::make(None);
        assert!(caught.is_err(), "{mutation:?}");
    }
}

#[test]
fn pages_of_adjacent_slots_are_read_at_once() {
    let folder = tempfile::tempdir().unwrap();
    let tier = open(&folder.path().join("tier"));
    (0..3).for_each(|n| offer(&tier, n));
    until(|| (0..3).all(|n| read(&tier, n).is_some()));
    let found = tier.find((0..3).map(|n| page(n).0));
    let [Some(first), Some(second), Some(third)] = found[..] else {
        panic!("{found:?}")
    };
    assert!(second.is_behind(first, PAGE, &tier) && third.is_behind(second, PAGE, &tier));
    assert!(!third.is_behind(first, PAGE, &tier) && !second.is_behind(first, PAGE - 1, &tier));
    let all = tier.read(first, 3 * PAGE as usize).unwrap();
    assert_eq!(all, (0..3).flat_map(|n| page(n).1).collect::<Vec<u8>>());
}

#[test]
fn slots_are_beside_their_tables_and_within_the_file() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("tier");
    for (bytes, slot_bytes) in [
        (16 << 20, 4096),
        (16 << 20, 65_536),
        (70 << 20, 65_536),
        (40 << 20, 1 << 20),
    ] {
        let _ = std::fs::remove_file(&path);
        let bytes = NonZeroU64::new(bytes + 5000).unwrap();
        let mut file = TierFile::open(&path, bytes, "memory://a").unwrap();
        let count = file.tables(slot_bytes).unwrap().len() as u32;
        let len = std::fs::metadata(&path).unwrap().len();
        assert!(len <= bytes.get(), "{len} of {bytes}");
        assert!(
            u64::from(count) * slot_bytes > len * 9 / 10,
            "{count} of {slot_bytes}"
        );
        // The last slot ends in the file, and no slot is a table.
        let full = vec![0xff; slot_bytes as usize];
        for slot in 0..count {
            file.write(slot, &[&Aligned::of(&full)]).unwrap();
        }
        assert_eq!(std::fs::metadata(&path).unwrap().len(), len);
        assert!(file.tables(slot_bytes).unwrap().iter().all(|page| *page == 0));
        for group in 0..u64::from(count).div_ceil(GROUP_SLOTS) {
            let slots = GROUP_SLOTS.min(u64::from(count) - group * GROUP_SLOTS);
            file.write_table(group, &vec![7; slots as usize]).unwrap();
        }
        for slot in 0..count {
            assert_eq!(file.read(slot, slot_bytes as usize).unwrap(), full);
        }
        assert!(file.tables(slot_bytes).unwrap().iter().all(|page| *page == 7));
        // Other slots: none of that is believed.
        assert!(file.tables(2 * slot_bytes).unwrap().iter().all(|page| *page == 0));
    }
}
