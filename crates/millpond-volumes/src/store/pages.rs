//! Reads pages from where they are, neighbors together: from the disk tier, if there is one and it has them, else from the
//! store.

use super::bucket::{Bucket, NotRead};
use super::clock;
use super::driver::wait_for;
use crate::format::{Key, checksum};
use crate::layout::Place;
use crate::tier::{InTier, Tier};
use bytes::Bytes;
use futures_util::{StreamExt, stream};
use std::sync::Arc;
use std::time::Duration;
use tokio::runtime::Handle;

/// The most that one request reads.
const READ_BYTES_MAX: u64 = 4 << 20;

/// Requests of one call at a time.
const READS_MAX: usize = 8;

/// What differs is damaged after so many readings.
const READINGS: u32 = 3;

/// Why a page was not read.
#[derive(Debug)]
pub(super) struct PageError {
    pub(super) page: u64,
    pub(super) key: Key,
    /// There is no such object.
    pub(super) is_absent: bool,
    /// It is there, and has other bytes.
    pub(super) is_damaged: bool,
    pub(super) why: String,
}

/// Neighbors in an object, or in the disk tier, where only the length of `range` counts.
#[derive(Debug)]
struct Run {
    key: Key,
    range: std::ops::Range<u64>,
    pages: Vec<(u64, Place)>,
    /// Where each is in the tier; none of a run of the store.
    in_tier: Vec<InTier>,
}

impl Run {
    fn of(page: u64, place: Place, in_tier: Option<InTier>) -> Run {
        let begins = u64::from(place.offset);
        Run {
            key: place.object.key(),
            range: begins..begins + u64::from(place.bytes),
            pages: vec![(page, place)],
            in_tier: in_tier.into_iter().collect(),
        }
    }

    /// Whether one read gets this page too, as the last of at most [`READ_BYTES_MAX`].
    fn goes_on(&self, place: Place, in_tier: Option<InTier>, tier: Option<&Arc<Tier>>) -> bool {
        let bytes = self.range.end - self.range.start;
        let is_next = match (self.in_tier.last(), in_tier, tier, self.pages.last()) {
            (None, None, ..) => self.key == place.object.key() && self.range.end == u64::from(place.offset),
            (Some(&last), Some(next), Some(tier), Some((_, before))) => {
                next.is_behind(last, before.bytes, tier)
            }
            _ => false,
        };
        is_next && bytes + u64::from(place.bytes) <= READ_BYTES_MAX
    }
}

fn runs(wanted: &[(u64, Place)], tier: Option<&Arc<Tier>>) -> Vec<Run> {
    let in_tier = match tier {
        Some(tier) => tier.find(wanted.iter().map(|(_, place)| *place)),
        None => vec![None; wanted.len()],
    };
    let mut runs: Vec<Run> = Vec::new();
    for (&(page, place), in_tier) in wanted.iter().zip(in_tier) {
        match runs.last_mut() {
            Some(run) if run.goes_on(place, in_tier, tier) => {
                run.range.end += u64::from(place.bytes);
                run.pages.push((page, place));
                run.in_tier.extend(in_tier);
            }
            _ => runs.push(Run::of(page, place, in_tier)),
        }
    }
    runs
}

/// The bytes of pages, in their order, as far as they are kept; the rest of each is zeros. The caller waits, for `bytes` of
/// them: a page of which it wants only a part is kept for a while.
pub(super) fn read(
    handle: &Handle,
    bucket: &Arc<Bucket>,
    wanted: &[(u64, Place)],
    bytes: u64,
) -> Vec<Result<Bytes, PageError>> {
    read_with(handle, bucket, wanted, bucket.tier().cloned(), Some(bytes))
}

/// The same from the store alone, and not from what was read beside other pages.
pub(super) fn read_stored(
    handle: &Handle,
    bucket: &Arc<Bucket>,
    wanted: &[(u64, Place)],
) -> Vec<Result<Bytes, PageError>> {
    read_with(handle, bucket, wanted, None, None)
}

fn read_with(
    handle: &Handle,
    bucket: &Arc<Bucket>,
    wanted: &[(u64, Place)],
    tier: Option<Arc<Tier>>,
    nearby: Option<u64>,
) -> Vec<Result<Bytes, PageError>> {
    if wanted.is_empty() {
        return Vec::new();
    }
    let (runs, bucket) = (runs(wanted, tier.as_ref()), bucket.clone());
    let results = wait_for(handle, async move {
        let done = stream::iter(runs).map(|run| {
            let (bucket, tier) = (bucket.clone(), tier.clone());
            async move {
                match &tier {
                    Some(tier) if !run.in_tier.is_empty() => of_tier(&bucket, tier, run, nearby).await,
                    tier => of_store(&bucket, tier.as_ref(), &run, nearby).await,
                }
            }
        });
        done.buffered(READS_MAX).collect::<Vec<_>>().await
    });
    results.unwrap_or_default().into_iter().flatten().collect()
}

/// From the store, and offered to the tier; or, for a caller that wants `nearby` bytes, from what was read for others.
async fn of_store(
    bucket: &Bucket,
    tier: Option<&Arc<Tier>>,
    run: &Run,
    nearby: Option<u64>,
) -> Vec<Result<Bytes, PageError>> {
    let began = clock::awake();
    let mut pages = match (nearby, &run.pages[..]) {
        (Some(bytes), pages) => {
            let is_part = matches!(pages, [(_, place)] if bytes < u64::from(place.kept));
            let read = bucket.read_nearby(run.key, run.range.clone(), is_part).await;
            checked(run, &read)
        }
        (None, _) => checked(run, &bucket.read(run.key, run.range.clone()).await),
    };
    // A bit may have flipped on the way.
    for _ in 1..READINGS {
        if !pages
            .iter()
            .any(|page| page.as_ref().is_err_and(|error| error.is_damaged))
        {
            break;
        }
        let again = checked(run, &bucket.read(run.key, run.range.clone()).await);
        for (page, again) in pages.iter_mut().zip(again) {
            if page.is_err() {
                *page = again;
            }
        }
    }
    if let Some(tier) = tier {
        // A disk as fast as the store gets all pages; a slower one delays the caller by a quarter at most.
        let until = clock::awake() + clock::awake().saturating_sub(began) / 4;
        for ((_, place), page) in run.pages.iter().zip(&pages) {
            let Ok(bytes) = page else { continue };
            let room = |room: crate::tier::Room| async move {
                let left = match room.is_behind {
                    true => Duration::ZERO,
                    false => until.saturating_sub(clock::awake()),
                };
                let permit = clock::within(left, room.wait()).await.flatten();
                if permit.is_none() && tier.stuck_for(clock::awake()) > bucket.tier_timeout() {
                    tier.give_up("nothing that is written to it gets there");
                }
                permit
            };
            tier.offer(place, bytes, room).await;
        }
    }
    kept(run, pages)
}

/// From the tier, and what is not there from the store.
async fn of_tier(
    bucket: &Bucket,
    tier: &Arc<Tier>,
    run: Run,
    nearby: Option<u64>,
) -> Vec<Result<Bytes, PageError>> {
    let (first, bytes) = (run.in_tier[0], (run.range.end - run.range.start) as usize);
    let reading = tier.clone();
    let read = tokio::task::spawn_blocking(move || reading.read(first, bytes));
    let limit = bucket.tier_timeout();
    let all = match clock::within(limit, read).await {
        Some(Ok(Ok(all))) => all,
        Some(Ok(Err(error))) => {
            tier.failed(&run.in_tier, &error);
            Bytes::new()
        }
        // The runtime ends.
        Some(Err(_)) => Bytes::new(),
        None => {
            tier.give_up(&format!("no answer in {limit:?}"));
            Bytes::new()
        }
    };
    let (mut done, mut missing, mut at) = (Vec::new(), Vec::new(), 0);
    for (&(page, place), &in_tier) in run.pages.iter().zip(&run.in_tier) {
        let bytes = all.get(at..at + place.bytes as usize);
        if bytes.is_some_and(|bytes| tier.has_right(in_tier, &place, bytes)) {
            done.push(Some(Ok(all.slice(at..at + place.kept as usize))));
        } else {
            missing.push((page, place));
            done.push(None);
        }
        at += place.bytes as usize;
    }
    let mut stored = Vec::new();
    for run in runs(&missing, None) {
        stored.extend(of_store(bucket, Some(tier), &run, nearby).await);
    }
    let mut stored = stored.into_iter();
    done.into_iter()
        .filter_map(|page| page.or_else(|| stored.next()))
        .collect()
}

/// As much of each as its page has.
fn kept(run: &Run, pages: Vec<Result<Bytes, PageError>>) -> Vec<Result<Bytes, PageError>> {
    let kept = run.pages.iter().map(|(_, place)| place.kept as usize);
    let pages = pages.into_iter().zip(kept);
    pages
        .map(|(page, kept)| page.map(|bytes| bytes.slice(..kept)))
        .collect()
}

fn checked(run: &Run, read: &Result<Bytes, NotRead>) -> Vec<Result<Bytes, PageError>> {
    let Run {
        key, range, pages, ..
    } = run;
    let failed = |page, why: &str| PageError {
        page,
        key: *key,
        is_absent: false,
        is_damaged: false,
        why: why.to_owned(),
    };
    let pages = pages.iter().map(|&(page, place)| {
        let bytes = match read {
            Ok(bytes) => bytes,
            Err(NotRead::Absent) => {
                return Err(PageError {
                    is_absent: true,
                    ..failed(page, "there is no such object")
                });
            }
            Err(NotRead::Failed(why)) => return Err(failed(page, why)),
        };
        let from = (u64::from(place.offset) - range.start) as usize;
        let there = from + place.bytes as usize <= bytes.len();
        if !there || checksum(&bytes[from..from + place.bytes as usize]) != place.checksum {
            return Err(PageError {
                is_damaged: true,
                ..failed(page, "its checksum differs: it is damaged")
            });
        }
        Ok(bytes.slice(from..from + place.bytes as usize))
    });
    pages.collect()
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test fails by panicking")]
mod tests {
    use super::*;
    use crate::format::ObjectId;
    use crate::store::{Store, StoreOptions};

    #[test]
    fn neighbours_are_one_request_of_a_bounded_length() {
        let place = |chunk, offset| Place {
            object: ObjectId::chunk(1, chunk),
            offset,
            bytes: 1 << 20,
            kept: 1 << 20,
            checksum: 0,
        };
        let mib = |n: u32| n << 20;
        let wanted: Vec<(u64, Place)> = [(1, 0), (1, 1), (1, 2), (1, 3), (1, 4), (2, 5), (2, 0)]
            .iter()
            .zip(0..)
            .map(|(&(chunk, at), page)| (page, place(chunk, mib(at))))
            .collect();
        let lengths: Vec<usize> = runs(&wanted, None).iter().map(|run| run.pages.len()).collect();
        assert_eq!(lengths, [4, 1, 1, 1]);
    }

    #[test]
    fn a_disk_that_does_not_answer_is_given_up_and_the_store_is_read() {
        let folder = tempfile::tempdir().unwrap();
        let bytes = std::num::NonZeroU64::new(16 << 20).unwrap();
        let options = StoreOptions::new()
            .request_timeout(std::time::Duration::from_millis(200))
            .disk_tier(folder.path().join("tier"), bytes);
        let store = Store::open("memory://hangs", options).unwrap();
        let file = store.create("a").unwrap();
        file.write_at(&[7; 200_000], 0).unwrap();
        file.sync_data().unwrap();
        let read = || {
            let mut found = vec![0; 200_000];
            file.read_at(&mut found, 0).unwrap();
            assert!(found == [7; 200_000]);
        };
        let tier = store.inner.driver.bucket().tier().unwrap();
        while store.tier().unwrap().hits == 0 {
            read();
        }
        tier.fails(crate::tier::TierFile::READS_HANG);
        let gets = store.usage().requests.gets;
        while store.usage().requests.gets == gets {
            read();
        }
        let why = store.tier().unwrap().given_up.unwrap();
        assert!(why.contains("no answer"), "{why}");
        tier.fails(0);
        read();
    }
}
