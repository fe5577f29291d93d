//! Files that are opened while they are closed, synced while they are closed, closed with errors, or longer than a cache can
//! name.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use crate::support::{Call, Draw, Hooked, Kind, Place, What, bounded, skip, until};
use millpond::internal::{Recorder, Step};
use millpond::{Error, LogOrder, OpenOptions, PageCache};
use millpond_core::admission::AdmissionOptions;
use millpond_core::event::Event;
use millpond_testing::{Fault, FaultRule, FaultTarget, Faulty};
use std::os::unix::fs::MetadataExt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};

const PAGE: u64 = 4096;

/// The length was asked for, the device's latency measured, and then looked whether the file was open. Meanwhile its last
/// handle had been dropped and had written what made it longer: that was cut off for the new handle.
#[test]
fn a_file_that_is_opened_while_it_is_closed_is_as_long_as_that_leaves_it() {
    bounded(|| {
        let folder = Place::Disk.folder();
        let path = folder.path().join("data");
        let (measuring, go) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicBool::new(false)));
        let (seen, may_go) = (measuring.clone(), go.clone());
        let device = Hooked::new(Kind::Pool.device().unwrap(), move |call: Call| {
            if call.what == What::OwnRead {
                seen.store(true, Ordering::SeqCst);
                until("the file is closed", || may_go.load(Ordering::SeqCst));
            }
        });
        let builder = PageCache::builder().memory(4 << 20);
        let cache = builder.device(device).build().unwrap();
        let file = cache.open(&path, OpenOptions::new().create(true)).unwrap();
        // Long enough for the next cache that opens it to measure.
        file.write_at(&[7; 1 << 20], 0).unwrap();
        file.sync_data().unwrap();
        file.write_at(&[8; 100], 1 << 20).unwrap();
        std::thread::scope(|scope| {
            let opener = scope.spawn(|| cache.open(&path, OpenOptions::new()).unwrap());
            until("the measurement", || measuring.load(Ordering::SeqCst));
            drop(file);
            go.store(true, Ordering::SeqCst);
            let again = opener.join().unwrap();
            assert_eq!(again.len(), (1 << 20) + 100);
            assert_eq!(again.page(256).unwrap()[..], [8; 100]);
        });
    });
}

/// Files came and went while others synced everything: a file could be gone, or its number another's, between the list
/// and the sync.
#[test]
fn syncing_everything_goes_beside_files_that_come_and_go() {
    bounded(|| {
        let folder = Place::Memory.folder();
        let cache = PageCache::builder().memory(2 << 20).build().unwrap();
        let over = AtomicBool::new(false);
        std::thread::scope(|scope| {
            let comers: Vec<_> = (0..2_u64)
                .map(|thread| {
                    let (cache, folder) = (&cache, folder.path());
                    scope.spawn(move || {
                        let mut draw = Draw(thread);
                        for round in 0..1_500_u64 {
                            let name = folder.join(draw.below(4).to_string());
                            let file = cache.open(name, OpenOptions::new().create(true)).unwrap();
                            file.write_at(&round.to_le_bytes(), draw.below(8) * PAGE).unwrap();
                        }
                    })
                })
                .collect();
            let syncing = scope.spawn(|| {
                let mut rounds = 0;
                while !over.load(Ordering::SeqCst) {
                    cache.sync_all().unwrap();
                    rounds += 1;
                }
                rounds
            });
            comers.into_iter().for_each(|comer| comer.join().unwrap());
            over.store(true, Ordering::SeqCst);
            assert!(syncing.join().unwrap() > 0);
        });
        assert!(cache.take_lost().is_empty());
    });
}

#[test]
fn a_file_with_more_pages_than_a_cache_can_name_is_refused() {
    let folder = Place::Memory.folder();
    let path = folder.path().join("data");
    let longest = 1_u64 << 52;
    let sparse = std::fs::File::create(&path).unwrap();
    if sparse.set_len(longest).is_err() {
        return; // No file system for it.
    }
    let cache = PageCache::builder().memory(2 << 20).build().unwrap();
    let file = cache.open(&path, OpenOptions::new().write(true)).unwrap();
    let last = longest / PAGE - 1;
    file.write_at(&[1], longest - 1).unwrap();
    assert_eq!(file.page(last).unwrap()[PAGE as usize - 1], 1);
    assert_eq!(file.read_at(&mut [0; 10], longest - 5).unwrap(), 5);
    file.prefetch(longest - 10 * PAGE, u64::MAX).unwrap();
    assert!(matches!(
        file.write_at(&[1; 2], longest - 1),
        Err(Error::OutOfRange { .. })
    ));
    drop(file);
    sparse.set_len(longest + 1).unwrap();
    let error = cache.open(&path, OpenOptions::new()).unwrap_err();
    assert!(matches!(error, Error::Open { .. }), "{error}");
    assert_eq!(error.errno(), libc::EFBIG);
    assert!(error.to_string().contains("4503599627370496"), "{error}");
}

/// The largest number that a file had.
#[derive(Clone, Default, Debug)]
struct Numbers(Arc<AtomicU32>);

impl Recorder for Numbers {
    fn step(&mut self, step: Step<'_>) {
        if let Event::Opened { file, .. } = step.event {
            self.0.fetch_max(file.0, Ordering::SeqCst);
        }
    }
}

/// A file that could not be written when its last handle went kept its number for ever; and of the two reasons that there
/// can be only one was told.
#[test]
fn a_file_closed_with_errors_gives_its_number_back_and_reports_all_of_them() {
    bounded(|| {
        let folder = Place::Memory.folder();
        let (numbers, device) = (
            Numbers::default(),
            Arc::new(Faulty::new(Kind::Pool.device().unwrap(), 1)),
        );
        let builder = PageCache::builder().memory(4 << 20).recorder(numbers.clone());
        let cache = builder.device(device.clone()).build().unwrap();
        device.add(FaultRule::always(FaultTarget::Writes, Fault::Fail(libc::EIO)));
        for _ in 0..3 {
            let log = LogOrder::with_flush(|_| Err(std::io::Error::other("full"))).unwrap();
            let options = OpenOptions::new().create(true).log(&log);
            let file = cache.open(folder.path().join("pages"), options).unwrap();
            file.set_len(2 * PAGE).unwrap();
            file.page_mut(0).unwrap().set_order(7).unwrap();
            file.page_mut(1).unwrap()[0] = 1;
            drop(file);
            let lost = cache.take_lost();
            assert!(
                matches!(lost[..], [Error::Log { .. }, Error::Write { .. }]),
                "{lost:?}"
            );
        }
        assert_eq!(numbers.0.load(Ordering::SeqCst), 0);
    });
}

#[test]
fn a_file_that_is_open_already_needs_no_name_and_shares_its_pages_with_those_opened_by_name() {
    let folder = Place::Disk.folder();
    let path = folder.path().join("data");
    let cache = PageCache::builder().memory(4 << 20).build().unwrap();
    let open = |write: bool| {
        let mut options = std::fs::OpenOptions::new();
        options.read(true).write(write).create(write).truncate(false);
        options.open(&path).unwrap()
    };
    let (writer, reader, third) = (open(true), open(false), open(false));
    let refused = cache.open_file(open(false), OpenOptions::new().write(true));
    let said = refused.unwrap_err().to_string();
    assert!(said.ends_with("it is open for reading only"), "{said}");
    // A process that may open the file again could take it, and others failed at the first miss.
    let only_writes = || std::fs::OpenOptions::new().write(true).open(&path).unwrap();
    for options in [OpenOptions::new(), OpenOptions::new().write(true)] {
        let said = cache.open_file(only_writes(), options).unwrap_err().to_string();
        assert!(said.contains("it is open for writing only"), "{said}");
    }
    let named = cache.open(&path, OpenOptions::new().write(true)).unwrap();
    std::fs::remove_file(&path).unwrap();

    let by_descriptor = cache.open_file(writer, OpenOptions::new().write(true)).unwrap();
    by_descriptor.write_at(&[7; 5000], 0).unwrap();
    assert_eq!(named.page(1).unwrap()[..], [7; 904]);
    let read_only = cache.open_file(reader, OpenOptions::new()).unwrap();
    assert_eq!(read_only.len(), 5000);
    assert!(matches!(read_only.write_at(&[1], 0), Err(Error::ReadOnly { .. })));
    drop((named, by_descriptor, read_only));
    // What the last handle has left is on the device.
    let shown = OpenOptions::new().shown_as("the third");
    let again = cache.open_file(third, shown).unwrap();
    assert_eq!(again.path().to_str(), Some("the third"));
    let said = again.write_at(&[1], 0).unwrap_err().to_string();
    assert!(said.starts_with("the third is open"), "{said}");
    assert_eq!(again.page(1).unwrap()[..], [7; 904]);
}

/// The second device had the goal of the first: a flash disk beside a hard disk that of the hard disk.
#[test]
fn each_device_has_a_goal_of_its_own_until_one_is_set() {
    let folders = [Place::Disk.folder(), Place::Memory.folder()];
    let [disk, memory] = folders
        .each_ref()
        .map(|folder| std::fs::metadata(folder).unwrap().dev());
    if disk == memory {
        return skip("the folder for temporary files is in memory, and there is no other device");
    }
    let cache = PageCache::builder().memory(8 << 20).build().unwrap();
    let files = folders.each_ref().map(|folder| {
        let path = folder.path().join("file");
        std::fs::write(&path, vec![1; 1 << 20]).unwrap();
        let file = cache.open(&path, OpenOptions::new()).unwrap();
        file.read_at(&mut [0; 4096], 0).unwrap();
        file
    });
    let goals = || {
        let figures = cache.devices();
        let goals = figures.iter().map(|figures| figures.read_goal.unwrap().0);
        goals.collect::<Vec<_>>()
    };
    assert_eq!(goals().len(), 2, "{:?}", cache.devices());
    let classes = cache.devices();
    assert!(
        classes.iter().all(|figures| figures.class.is_some()),
        "{classes:?}"
    );
    let mut options = cache.options();
    if let AdmissionOptions::Goal(goal) = &mut options.admission {
        goal.read_latency = millpond_core::units::Nanos(76_543_210);
    }
    cache.set_options(options).unwrap();
    assert_eq!(goals(), [76_543_210; 2]);
    drop(files);
    assert_eq!(goals(), [76_543_210; 2], "they are known still");
}

/// The error of a missing file did not name the option that makes it.
#[test]
fn a_file_that_is_not_there_is_an_error_that_says_how_to_make_it_where_that_would_help() {
    let folder = Place::Disk.folder();
    let cache = PageCache::builder().memory(2 << 20).build().unwrap();
    let said = |path: &str, options| {
        let error = cache.open(folder.path().join(path), options).unwrap_err();
        assert_eq!(error.errno(), libc::ENOENT);
        error.to_string()
    };
    let write = || OpenOptions::new().write(true);
    assert!(said("none", write()).ends_with("(os error 2); OpenOptions::create(true) would make it"));
    for told in [
        said("none", OpenOptions::new()),
        said("none/data", write()),
        said("none/data", OpenOptions::new().create(true)),
    ] {
        assert!(told.ends_with("No such file or directory (os error 2)"), "{told}");
    }
    let empty = cache.open("", write()).unwrap_err();
    assert!(empty.to_string().ends_with("the path is empty"), "{empty}");
}
