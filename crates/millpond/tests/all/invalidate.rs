//! Files that others change behind the cache's back, and what the cache forgets on request.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use crate::support::{Draw, Place, bounded, linger, until};
use millpond::{Error, File, OpenOptions, PageCache};
use std::fs;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

const PAGE: u64 = 4096;

struct Pond {
    _folder: tempfile::TempDir,
    path: PathBuf,
    /// The file as others see it.
    others: fs::File,
    cache: PageCache,
    file: File,
}

/// A file of `pages` pages, each full of its number, all in memory.
fn pond(pages: u64) -> Pond {
    pond_in(Place::Disk, pages)
}

fn pond_in(place: Place, pages: u64) -> Pond {
    let folder = place.folder();
    let path = folder.path().join("data");
    let content: Vec<u8> = (0..pages).flat_map(|n| [n as u8; PAGE as usize]).collect();
    fs::write(&path, &content).unwrap();
    let cache = PageCache::builder().memory(2 << 20).build().unwrap();
    let file = cache.open(&path, OpenOptions::new().write(true)).unwrap();
    assert!(all(&file) == content);
    let others = fs::OpenOptions::new().read(true).write(true).open(&path).unwrap();
    Pond {
        _folder: folder,
        path,
        others,
        cache,
        file,
    }
}

fn all(file: &File) -> Vec<u8> {
    let mut bytes = vec![0xee; file.len() as usize];
    assert_eq!(file.read_at(&mut bytes, 0).unwrap(), bytes.len());
    bytes
}

fn on_disk(path: &Path) -> Vec<u8> {
    fs::read(path).unwrap()
}

/// The length was asked for before what makes the file longer was written, and whether anything waits to be written after it.
#[test]
fn a_file_does_not_become_shorter_beside_writes_that_make_it_longer() {
    bounded(|| {
        let pond = pond_in(Place::Memory, 1);
        let is_over = AtomicBool::new(false);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                while !is_over.load(Ordering::SeqCst) {
                    pond.file.invalidate(..).unwrap();
                }
            });
            for n in 1..3_000 {
                let at = pond.file.append(&[7; PAGE as usize]).unwrap();
                let written = pond.file.write_out();
                let len = pond.file.len();
                if at != n * PAGE || len != (n + 1) * PAGE || written.is_err() {
                    is_over.store(true, Ordering::SeqCst);
                    panic!("page {n} is at {at}, and the file has {len} bytes");
                }
            }
            is_over.store(true, Ordering::SeqCst);
        });
    });
}

/// It was zeros, without an error.
#[test]
fn bytes_cut_off_by_others_are_an_error_until_restored_or_the_file_is_invalidated() {
    let Pond { others, file, .. } = &pond(100);
    // Nothing of it is in memory, and nothing waits to be written.
    file.invalidate(..).unwrap();
    let mut bytes = [9; 2 * PAGE as usize];
    for cut in [10 * PAGE, 10 * PAGE + 100] {
        others.set_len(cut).unwrap();
        let is_cut = |error: Error| match error {
            Error::Read { offset, source, .. } => {
                assert_eq!((offset, source.kind()), (cut, std::io::ErrorKind::UnexpectedEof))
            }
            other => panic!("{other}"),
        };
        for _ in 0..2 {
            is_cut(file.read_at(&mut bytes, 10 * PAGE).unwrap_err());
            is_cut(file.read_at(&mut bytes, 9 * PAGE).unwrap_err());
            is_cut(file.page(10).unwrap_err());
            is_cut(file.page_mut(10).unwrap_err());
        }
        assert!(matches!(file.page(50), Err(Error::Read { .. })));
        file.prefetch(0, 100 * PAGE).unwrap();
        assert!(matches!(file.page(60), Err(Error::Read { .. })));
        assert!(file.page(9).unwrap().iter().all(|&byte| byte == 9));
        // It is as long as it was.
        others.set_len(100 * PAGE).unwrap();
        assert_eq!(file.read_at(&mut bytes, 10 * PAGE).unwrap(), bytes.len());
        assert!(bytes[100..].iter().all(|&byte| byte == 0));
        file.invalidate(..).unwrap();
    }
    others.set_len(10 * PAGE + 100).unwrap();
    // A partial change is like one past the end of any file: missing bytes are zeros.
    file.write_at(&[7; 10], 20 * PAGE + 5).unwrap();
    assert_eq!(
        file.page(20).unwrap()[..15],
        [0, 0, 0, 0, 0, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7]
    );
    file.sync_data().unwrap();
    assert_eq!(file.invalidate(..).unwrap(), 0);
    assert_eq!(all(file).len() as u64, file.len());
    // Data that this cache has not written yet is not a cut by others.
    file.write_at(&[7; 10], 200 * PAGE).unwrap();
    assert_eq!(file.read_at(&mut bytes, 150 * PAGE).unwrap(), bytes.len());
    assert!(bytes.iter().all(|&byte| byte == 0));
}

#[test]
fn changes_by_others_are_seen_when_invalidated_and_not_before() {
    let Pond { others, file, .. } = &pond(10);
    others.write_all_at(&[0xaa; 5 * PAGE as usize], PAGE).unwrap();
    assert_eq!(all(file)[3 * PAGE as usize], 3, "from memory");
    // Of pages that the range touches only in part, too.
    assert_eq!(file.invalidate(2 * PAGE + 100..4 * PAGE + 1).unwrap(), 0);
    for (page, byte) in [(0, 0), (1, 1), (2, 0xaa), (3, 0xaa), (4, 0xaa), (5, 5), (6, 6)] {
        assert_eq!(file.page(page).unwrap()[..], [byte; PAGE as usize], "page {page}");
    }
    assert_eq!(file.invalidate(..).unwrap(), 0);
    assert!((0..10).all(|page| !file.is_resident(page * PAGE)));
    assert_eq!((file.page(1).unwrap()[0], file.page(5).unwrap()[0]), (0xaa, 0xaa));
}

#[test]
fn unwritten_changes_are_not_forgotten() {
    let Pond {
        path, others, file, ..
    } = &pond(10);
    file.write_at(b"ours", 2 * PAGE).unwrap();
    others.write_all_at(&[0xaa; 4 * PAGE as usize], PAGE).unwrap();
    assert_eq!(file.invalidate(..).unwrap(), 1);
    assert_eq!(file.invalidate(..2 * PAGE).unwrap(), 0, "others");
    let ours = [b"ours", &[2; PAGE as usize - 4][..]].concat();
    assert_eq!(
        (&file.page(2).unwrap()[..], file.page(1).unwrap()[0]),
        (&ours[..], 0xaa)
    );
    file.sync_data().unwrap();
    assert_eq!(on_disk(path)[2 * PAGE as usize..][..PAGE as usize], ours);
    assert_eq!(file.invalidate(..).unwrap(), 0);
}

#[test]
fn the_length_that_others_have_given_the_file_is_taken() {
    let Pond {
        path,
        others,
        cache,
        file,
        ..
    } = &pond(10);
    let reader = cache.open(path, OpenOptions::new()).unwrap();
    others.set_len(4 * PAGE + 100).unwrap();
    assert_eq!(file.len(), 10 * PAGE);
    // By any handle, whatever the range is.
    assert_eq!(reader.invalidate(0..0).unwrap(), 0);
    assert_eq!((file.len(), reader.len()), (4 * PAGE + 100, 4 * PAGE + 100));
    assert!(matches!(file.page(5), Err(Error::OutOfRange { .. })));
    // Nothing past it comes back when the file is long again, by us or by others.
    others.set_len(4 * PAGE + 200).unwrap();
    file.invalidate(..1).unwrap();
    assert_eq!(file.page(4).unwrap()[..], [[4; 100], [0; 100]].concat());
    file.set_len(8 * PAGE).unwrap();
    assert!(all(file)[4 * PAGE as usize + 100..].iter().all(|&byte| byte == 0));
    file.sync_data().unwrap();
    others.write_all_at(&[0xbb; 300], 8 * PAGE - 100).unwrap();
    file.invalidate(7 * PAGE..8 * PAGE).unwrap();
    assert_eq!(file.len(), 8 * PAGE + 200);
    file.append(b"and on").unwrap();
    file.sync_data().unwrap();
    let bytes = on_disk(path);
    assert!(bytes == all(file));
    assert!(
        bytes[8 * PAGE as usize - 100..8 * PAGE as usize + 200] == [0xbb; 300] && bytes.ends_with(b"and on")
    );
}

#[test]
fn a_file_that_others_have_cut_stays_as_long_as_what_is_not_written_yet_needs() {
    let Pond {
        path, others, file, ..
    } = &pond(10);
    file.append(b"appended").unwrap();
    assert_eq!(
        file.invalidate(..).unwrap(),
        1,
        "shorter on the device because it is not written"
    );
    assert_eq!(file.len(), 10 * PAGE + 8);
    others.set_len(5 * PAGE).unwrap();
    assert_eq!(file.invalidate(..).unwrap(), 1);
    assert_eq!(file.len(), 10 * PAGE + 8);
    file.sync_data().unwrap();
    let expected = [
        (0..5).flat_map(|n| [n; PAGE as usize]).collect::<Vec<u8>>(),
        vec![0; 5 * PAGE as usize],
        b"appended".to_vec(),
    ];
    assert!(on_disk(path) == expected.concat());
    assert!(all(file) == expected.concat());
}

#[test]
fn it_waits_for_pages_that_are_read_and_not_for_those_that_are_changed() {
    bounded(|| {
        let Pond { others, file, .. } = &pond(4);
        let reading = file.page(1).unwrap();
        let changing = file.page_mut(2).unwrap();
        others.write_all_at(&[0xaa; 4 * PAGE as usize], 0).unwrap();
        std::thread::scope(|scope| {
            let invalidating = scope.spawn(|| file.invalidate(..));
            until("the first page has left", || !file.is_resident(0));
            linger(|| invalidating.is_finished());
            assert!(!invalidating.is_finished());
            assert_eq!(
                reading[..],
                [1; PAGE as usize],
                "nobody changes a page that is held"
            );
            drop(reading);
            assert_eq!(invalidating.join().unwrap().unwrap(), 1);
        });
        assert_eq!((file.page(1).unwrap()[0], changing[0]), (0xaa, 2));
    });
}

/// Pages leave and come back while others read and change them: no change is lost, and no thread reads an
/// older one.
#[test]
fn readers_and_writers_beside_it_lose_nothing() {
    bounded(|| {
        let Pond { path, file, .. } = &pond(8);
        file.write_at(&[0; 8 * PAGE as usize], 0).unwrap();
        let (versions, over) = ([const { AtomicU64::new(0) }; 8], AtomicBool::new(false));
        std::thread::scope(|scope| {
            let (versions, over) = (&versions, &over);
            let writers: Vec<_> = (0..2)
                .map(|thread| {
                    scope.spawn(move || {
                        for round in 1..=600_u64 {
                            let page = (round * 3 % 4) * 2 + thread;
                            let mut guard = file.page_mut(page).unwrap();
                            let version = guard[0..8].try_into().map(u64::from_le_bytes).unwrap() + 1;
                            guard
                                .chunks_mut(8)
                                .for_each(|part| part.copy_from_slice(&version.to_le_bytes()));
                            drop(guard);
                            versions[page as usize].store(version, Ordering::SeqCst);
                            if round % 64 == 0 {
                                file.sync_data().unwrap();
                            }
                        }
                    })
                })
                .collect();
            for thread in 0..2 {
                scope.spawn(move || {
                    let mut draw = Draw(thread);
                    while !over.load(Ordering::SeqCst) {
                        let page = draw.below(8) as usize;
                        let before = versions[page].load(Ordering::SeqCst);
                        let guard = file.page(page as u64).unwrap();
                        let version = u64::from_le_bytes(guard[..8].try_into().unwrap());
                        assert!(version >= before, "page {page}: {version} after {before}");
                        assert!(guard.chunks(8).all(|part| part == version.to_le_bytes()));
                    }
                });
            }
            scope.spawn(move || {
                while !over.load(Ordering::SeqCst) {
                    file.invalidate(..).unwrap();
                }
            });
            let results: Vec<_> = writers.into_iter().map(|writer| writer.join()).collect();
            over.store(true, Ordering::SeqCst);
            results.into_iter().for_each(|result| result.unwrap());
        });
        file.sync_data().unwrap();
        let bytes = on_disk(path);
        for (page, version) in versions.iter().enumerate() {
            let version = version.load(Ordering::SeqCst);
            assert_eq!(version, 150);
            assert!(
                bytes[page * PAGE as usize..][..PAGE as usize]
                    .chunks(8)
                    .all(|part| part == version.to_le_bytes())
            );
        }
    });
}

/// Others have cut the file, and while the cache detects this a page past the new end is changed: the file is as they left
/// it, or as long as before with the change in it.
#[test]
fn a_change_beside_a_cut_by_others_is_kept_or_goes_with_it() {
    bounded(|| {
        // In memory, so that none of the hundreds of syncs takes long.
        let Pond {
            path, others, file, ..
        } = &pond_in(Place::Memory, 8);
        let mut draw = Draw(1);
        for round in 0..150_u64 {
            let (page, cut) = (4 + draw.below(4), draw.below(5 * PAGE));
            let late = draw.below(4_000);
            file.set_len(0).unwrap();
            file.write_at(&[1; 8 * PAGE as usize], 0).unwrap();
            file.sync_data().unwrap();
            others.set_len(cut).unwrap();
            std::thread::scope(|scope| {
                let changing = scope.spawn(|| match file.page_mut(page) {
                    Ok(mut guard) => guard.fill(2),
                    Err(error) => assert!(matches!(error, Error::OutOfRange { .. }), "{error}"),
                });
                (0..late).for_each(|_| std::hint::spin_loop());
                file.invalidate(..).unwrap();
                changing.join().unwrap();
            });
            file.sync_data().unwrap();
            let bytes = all(file);
            assert!(on_disk(path) == bytes);
            let is_ours = bytes.len() as u64 == 8 * PAGE;
            assert!(
                is_ours || bytes.len() as u64 == cut,
                "round {round}: {} bytes, cut to {cut}",
                bytes.len()
            );
            for (at, &byte) in (0..).zip(&bytes) {
                let is_changed = at / PAGE == page && (is_ours || byte == 2);
                let expected = if is_changed { 2 } else { u8::from(at < cut) };
                assert_eq!(
                    byte,
                    expected,
                    "round {round}: byte {at} of {}, cut to {cut}, page {page}",
                    bytes.len()
                );
            }
        }
    });
}
