//! Reads pages from where they are, neighbors together.

use super::bucket::{Bucket, NotRead};
use super::driver::wait_for;
use crate::format::{Key, checksum};
use crate::layout::Place;
use bytes::Bytes;
use futures_util::{StreamExt, stream};
use std::sync::Arc;
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

/// Neighbors in an object.
#[derive(Debug)]
struct Run {
    key: Key,
    range: std::ops::Range<u64>,
    pages: Vec<(u64, Place)>,
}

fn runs(wanted: &[(u64, Place)]) -> Vec<Run> {
    let mut runs: Vec<Run> = Vec::new();
    for &(page, place) in wanted {
        let range = u64::from(place.offset)..u64::from(place.offset) + u64::from(place.bytes);
        let key = place.object.key();
        match runs.last_mut() {
            Some(run)
                if run.key == key
                    && run.range.end == range.start
                    && range.end - run.range.start <= READ_BYTES_MAX =>
            {
                run.range.end = range.end;
                run.pages.push((page, place));
            }
            _ => runs.push(Run {
                key,
                range,
                pages: vec![(page, place)],
            }),
        }
    }
    runs
}

/// The bytes of pages, in their order, as far as they are kept; the rest of each is zeros. The caller waits.
pub(super) fn read(
    handle: &Handle,
    bucket: &Arc<Bucket>,
    wanted: &[(u64, Place)],
) -> Vec<Result<Bytes, PageError>> {
    if wanted.is_empty() {
        return Vec::new();
    }
    let (runs, bucket) = (runs(wanted), bucket.clone());
    let results = wait_for(handle, async move {
        let done = stream::iter(runs).map(|run| {
            let bucket = bucket.clone();
            async move {
                let mut pages = checked(&run, &bucket.read(run.key, run.range.clone()).await);
                // A bit may have flipped on the way.
                for _ in 1..READINGS {
                    if !pages
                        .iter()
                        .any(|page| page.as_ref().is_err_and(|error| error.is_damaged))
                    {
                        break;
                    }
                    let again = checked(&run, &bucket.read(run.key, run.range.clone()).await);
                    for (page, again) in pages.iter_mut().zip(again) {
                        if page.is_err() {
                            *page = again;
                        }
                    }
                }
                pages
            }
        });
        done.buffered(READS_MAX).collect::<Vec<_>>().await
    });
    results.unwrap_or_default().into_iter().flatten().collect()
}

fn checked(run: &Run, read: &Result<Bytes, NotRead>) -> Vec<Result<Bytes, PageError>> {
    let Run { key, range, pages } = run;
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
        Ok(bytes.slice(from..from + place.kept as usize))
    });
    pages.collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::format::ObjectId;

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
        let lengths: Vec<usize> = runs(&wanted).iter().map(|run| run.pages.len()).collect();
        assert_eq!(lengths, [4, 1, 1, 1]);
    }
}
