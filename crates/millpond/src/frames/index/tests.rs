//! Chains and guesses, by the one holder of the lock.

use super::*;
use crate::frames::state::{self, Step};
use crate::frames::sync;
use millpond_core::units::{FileId, PageIndex};

fn index(frames: u32) -> (Index, WriteToken) {
    let (index, mut token) = Index::new(1 << 12).unwrap();
    grow(&index, &mut token, frames);
    (index, token)
}

fn grow(index: &Index, token: &mut WriteToken, frames: u32) {
    for frame in token.frames..frames {
        state::must(index.word(FrameNo(frame)), Step::Add);
    }
    index.set_frames(token, frames);
}

fn insert(index: &Index, token: &mut WriteToken, frame: u32, key: PageKey) {
    index.insert(token, FrameNo(frame), key);
    state::must(index.word(FrameNo(frame)), Step::Load);
}

fn remove(index: &Index, token: &mut WriteToken, frame: u32) {
    index.remove(token, FrameNo(frame));
    state::must(index.word(FrameNo(frame)), Step::Failed);
}

fn key(file: u32, page: u64) -> PageKey {
    PageKey::new(FileId(file), PageIndex(page))
}

/// A frame that had no page yet was read as page 0 of file 0, whose key is zero.
#[test]
fn a_guess_never_finds_a_frame_that_has_had_no_page() {
    sync::run(|| {
        let (index, mut token) = index(256);
        insert(&index, &mut token, 100, key(0, 5));
        assert_eq!(index.find(key(0, 0)), None);
        assert_eq!(index.find(key(0, 5)), Some(FrameNo(100)));
        remove(&index, &mut token, 100);
        assert_eq!(index.find(key(0, 5)), None);
    });
}

#[test]
fn a_wrong_guess_costs_a_look_and_no_more() {
    sync::run(|| {
        let (index, mut token) = index(256);
        let frame = |page: u64| (page as u32 * 37) % 256;
        for page in 0..64 {
            insert(&index, &mut token, frame(page), key(3, page));
        }
        for page in 0..64 {
            assert_eq!(index.find(key(3, page)), Some(FrameNo(frame(page))));
        }
    });
}

#[test]
fn page_is_found_from_insert_to_remove() {
    sync::run(|| {
        let (index, mut token) = index(8);
        assert_eq!(index.find(key(0, 0)), None);
        insert(&index, &mut token, 5, key(0, 0));
        assert_eq!(index.find(key(0, 0)), Some(FrameNo(5)));
        remove(&index, &mut token, 5);
        assert_eq!(index.find(key(0, 0)), None);
        assert_eq!(index.key(FrameNo(5)), PageKey::NONE);
        index.validate(&token);
    });
}

#[test]
fn pages_stay_found_while_frames_are_added_and_withdrawn() {
    sync::run(|| {
        let (index, mut token) = index(1);
        insert(&index, &mut token, 0, key(9, 1 << 30));
        for frames in 2..500 {
            grow(&index, &mut token, frames);
            insert(&index, &mut token, frames - 1, key(1, u64::from(frames)));
            if frames % 32 == 0 {
                index.validate(&token);
            }
        }
        for frames in 2..500 {
            assert_eq!(index.find(key(1, u64::from(frames))), Some(FrameNo(frames - 1)));
        }
        for frame in (1..499).rev() {
            remove(&index, &mut token, frame);
            index.set_frames(&mut token, frame);
            if frame % 32 == 0 {
                index.validate(&token);
            }
        }
        assert_eq!(index.find(key(9, 1 << 30)), Some(FrameNo(0)));
        index.validate(&token);
    });
}

/// The mean number of frames a hit looks at, and the longest chain.
fn looks(keys: impl Iterator<Item = PageKey>) -> (f64, usize) {
    let (index, mut token) = index(3_000);
    for (frame, key) in keys.take(3_000).enumerate() {
        insert(&index, &mut token, frame as u32, key);
    }
    let lengths = (0..heads_for(3_000) as usize).map(|head| index.walk(head).count());
    let (sum, max) = lengths.fold((0, 0), |(sum, max), n| (sum + n * (n + 1) / 2, max.max(n)));
    (sum as f64 / 3_000.0, max)
}

#[test]
fn chains_are_short_for_the_patterns_that_files_have() {
    sync::run(|| {
        let patterns: [(&str, &dyn Fn(u64) -> PageKey); 7] = [
            ("one file from its start", &|n| key(0, n)),
            ("page 0 of many files", &|n| key(n as u32, 0)),
            ("16 pages of many files", &|n| key((n >> 4) as u32, n & 15)),
            ("every 512th page", &|n| key(7, n << 9)),
            ("every 4096th page of 16 files", &|n| {
                key((n & 15) as u32, n >> 4 << 12)
            }),
            ("every 2^20th page", &|n| key(7, n << 20)),
            ("downwards from the end", &|n| key(3, PageKey::PAGES_MAX - 1 - n)),
        ];
        for (name, pattern) in patterns {
            let (mean, longest) = looks((0..).map(pattern));
            // Chance gives 1 + 3000 / 4500 / 2 = 1.33 and a longest chain of 7 or 8.
            assert!(
                mean < 1.5 && longest <= 12,
                "{name}: {mean} looks a hit, longest chain {longest}"
            );
        }
    });
}

#[test]
#[should_panic(expected = "the core lock of another cache")]
fn lock_of_another_cache_is_no_proof() {
    sync::run(|| {
        let (one, _) = index(1);
        let (_, mut other) = index(1);
        one.insert(&mut other, FrameNo(0), key(0, 0));
    });
}
