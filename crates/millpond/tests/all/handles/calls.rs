//! The calls that `std`'s files have as well.

use super::{PAGE, open};
use crate::support::{Call, Hooked, Kind, Place, What, bounded};
use millpond::device::Op;
use millpond::{Error, OpenOptions, PageCache};
use millpond_testing::{Fault, FaultRule, FaultTarget, Faulty};
use std::io::{IoSlice, IoSliceMut};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::fs::{FileExt, PermissionsExt};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

/// A cache whose device counts writes.
fn counted() -> (Arc<AtomicU64>, PageCache) {
    let counts = Arc::new(AtomicU64::new(0));
    let count = counts.clone();
    let device = Hooked::new(Kind::Pool.device().unwrap(), move |call: Call| {
        if matches!(call.what, What::Submit(Op::Write)) {
            count.fetch_add(1, Ordering::SeqCst);
        }
    });
    let builder = PageCache::builder().memory(8 << 20).device(device);
    (counts, builder.build().unwrap())
}

#[test]
fn close_gives_the_last_handle_back_with_what_could_not_be_written() {
    let folder = Place::Disk.folder();
    let path = folder.path().join("data");
    let device = Arc::new(Faulty::new(Kind::Pool.device().unwrap(), 1));
    let builder = PageCache::builder().memory(2 << 20).device(device.clone());
    let cache = builder.build().unwrap();
    let file = open(&cache, &path);
    file.write_at(b"kept", 0).unwrap();
    device.add(FaultRule::always(FaultTarget::Writes, Fault::Fail(libc::ENOSPC)));
    let failed = file.close().unwrap_err();
    assert_eq!(failed.error.errno(), libc::ENOSPC);
    let failed = failed.file.close().unwrap_err();
    assert_eq!(&failed.file.page(0).unwrap()[..], b"kept");
    device.clear();
    failed.file.close().unwrap();
    assert!(cache.take_lost().is_empty());
    assert_eq!(std::fs::read(&path).unwrap(), b"kept");
}

#[test]
fn a_clone_is_the_same_handle_and_the_file_is_open_until_the_last_of_them_is_dropped() {
    let folder = Place::Disk.folder();
    let path = folder.path().join("data");
    let (counts, cache) = counted();
    let file = open(&cache, &path);
    let clone = file.clone();
    file.write_at(b"by the first", 0).unwrap();
    drop(file);
    assert_eq!(
        counts.swap(0, Ordering::SeqCst),
        0,
        "not the last: nothing is done"
    );
    assert_eq!(&clone.page(0).unwrap()[..], b"by the first");
    let reader = cache.open(&path, OpenOptions::new()).unwrap().clone();
    assert!(matches!(reader.write_at(b"x", 0), Err(Error::ReadOnly { .. })));
    drop((clone, reader));
    assert_eq!(counts.swap(0, Ordering::SeqCst), 1);
    assert_eq!(std::fs::read(&path).unwrap(), b"by the first");
}

#[test]
fn a_file_is_made_anew_with_its_mode_and_cut_only_for_who_writes() {
    let folder = Place::Disk.folder();
    let path = folder.path().join("data");
    let cache = PageCache::builder().memory(2 << 20).build().unwrap();
    let new = || OpenOptions::new().create_new(true).mode(0o640);
    let file = cache.open(&path, new()).unwrap();
    let mode = std::fs::metadata(&path).unwrap().permissions().mode();
    assert_eq!(mode & 0o777 & !0o640, 0, "{mode:o}");
    // Also while it is open here.
    let error = std::io::Error::from(cache.open(&path, new()).unwrap_err());
    assert_eq!(error.kind(), std::io::ErrorKind::AlreadyExists);
    file.write_at(&[7; 10_000], 0).unwrap();
    let error = cache.open(&path, OpenOptions::new().truncate(true)).unwrap_err();
    assert!(error.to_string().contains("write(true)"), "{error}");
    assert_eq!(file.len(), 10_000);
    let cut = cache
        .open(&path, OpenOptions::new().write(true).truncate(true))
        .unwrap();
    assert!(file.is_empty() && std::fs::metadata(&path).unwrap().len() == 0);
    cut.write_at(b"anew", 0).unwrap();
    assert_eq!(&file.page(0).unwrap()[..], b"anew");
    drop((file, cut));
    let cut = cache
        .open(&path, OpenOptions::new().create(true).truncate(true))
        .unwrap();
    assert!(cut.is_empty());
}

#[test]
fn all_of_a_buffer_is_read_or_it_is_an_error_that_says_where_the_file_ends() {
    let folder = Place::Disk.folder();
    let cache = PageCache::builder().memory(2 << 20).build().unwrap();
    let file = open(&cache, &folder.path().join("data"));
    file.write_all_at(&[7; 5000], 0).unwrap();
    let mut bytes = [0; 904];
    file.read_exact_at(&mut bytes, 4096).unwrap();
    assert_eq!(bytes, [7; 904]);
    let error = file.read_exact_at(&mut bytes, 4097).unwrap_err();
    assert!(error.to_string().contains("ends at byte 5000"), "{error}");
    // The same by the trait, as errors of `std`.
    let error = FileExt::read_exact_at(&file, &mut bytes, 4097).unwrap_err();
    assert_eq!(error.kind(), std::io::ErrorKind::UnexpectedEof);
    FileExt::write_all_at(&file, b"end", 5000).unwrap();
    assert_eq!(FileExt::read_at(&file, &mut bytes, 5000).unwrap(), 3);
    file.read_exact_at(&mut [], u64::MAX).unwrap();
}

/// One piece ends and the next begins inside of each page. A reader in one piece must not see the half of it.
#[test]
fn a_page_with_several_pieces_of_a_write_is_seen_before_or_after_it() {
    bounded(|| {
        let folder = Place::Disk.folder();
        let cache = PageCache::builder().memory(2 << 20).build().unwrap();
        let file = open(&cache, &folder.path().join("data"));
        file.write_at(&[0; 3 * PAGE as usize], 0).unwrap();
        let done = AtomicBool::new(false);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                let mut numbers = (0..=255).cycle();
                while !done.load(Ordering::SeqCst) {
                    let bytes = [numbers.next().unwrap(); 3 * PAGE as usize];
                    let pieces = bytes.chunks(1000).map(IoSlice::new).collect::<Vec<_>>();
                    file.write_vectored_at(&pieces, 0).unwrap();
                }
            });
            let mut bytes = vec![0; 3 * PAGE as usize];
            for _ in 0..5000 {
                let mut pieces = bytes.chunks_mut(700).map(IoSliceMut::new).collect::<Vec<_>>();
                let read = file.read_vectored_at(&mut pieces, 0).unwrap();
                assert_eq!(read, 3 * PAGE as usize);
                let mut pages = bytes.chunks(PAGE as usize);
                let is_whole = pages.all(|page| page.iter().all(|&byte| byte == page[0]));
                done.store(!is_whole, Ordering::SeqCst);
                assert!(is_whole);
            }
            done.store(true, Ordering::SeqCst);
        });
        // Past the end, and with nothing.
        assert_eq!(file.read_vectored_at(&mut [], 0).unwrap(), 0);
        file.write_vectored_at(&[IoSlice::new(&[]), IoSlice::new(b"end")], 3 * PAGE)
            .unwrap();
        let (mut a, mut b) = ([0; 2], [0; 100]);
        let mut pieces = [IoSliceMut::new(&mut a), IoSliceMut::new(&mut b)];
        assert_eq!(file.read_vectored_at(&mut pieces, 3 * PAGE).unwrap(), 3);
        assert_eq!((&a, b[0]), (b"en", b'd'));
    });
}

#[test]
fn the_descriptor_below_is_valid_as_long_as_its_handle_whatever_opens_the_file_for_writing() {
    let folder = Place::Disk.folder();
    let path = folder.path().join("data");
    std::fs::write(&path, [7; 10_000]).unwrap();
    let cache = PageCache::builder().memory(2 << 20).build().unwrap();
    let reader = cache.open(&path, OpenOptions::new()).unwrap();
    let lent = reader.as_fd();
    // From here on the cache has the file by another descriptor.
    let writer = open(&cache, &path);
    let below = |fd: BorrowedFd<'_>| std::fs::File::from(fd.try_clone_to_owned().unwrap());
    assert_eq!(below(lent).metadata().unwrap().len(), 10_000);
    assert!(below(lent).write_at(b"x", 0).is_err(), "opened for reading only");
    writer.write_at(b"x", 0).unwrap();
    let mut byte = [0];
    below(writer.as_fd()).read_exact_at(&mut byte, 0).unwrap();
    assert_eq!(byte, [7], "not on the device yet");
    writer.write_out().unwrap();
    below(lent).read_exact_at(&mut byte, 0).unwrap();
    assert_eq!(byte, *b"x");
}
