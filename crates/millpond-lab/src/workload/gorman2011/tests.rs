//! The loads on real files of both targets, with little memory and little data.

use super::*;
use crate::backend::{self, Driver};
use millpond_core::units::Bytes;

fn run(target: &str, variant: &str, load: Load, memory: Bytes) -> (tempfile::TempDir, Gorman2011, Outcome) {
    let dir = crate::scratch::for_tests();
    let setup = Setup::of_files(target, variant, dir.path(), memory);
    let Driver::Files(open) = backend::find(target).unwrap().driver else {
        panic!("{target} has no files");
    };
    let opened = open(&setup).unwrap();
    let work = Gorman2011 { load, seed: 7 };
    let outcome = perform(&work, &*opened, &setup, &mut |_| Proceed::Yes).unwrap();
    (dir, work, outcome)
}

fn check(dir: &Path, work: &Gorman2011) {
    let mut content = Content::new(work.seed);
    for (n, (path, bytes)) in (0..).zip(work.files(dir)) {
        let found = fs::read(&path).unwrap();
        assert_eq!(found.len() as u64, bytes, "{}", path.display());
        for (page, found) in (0..).zip(found.chunks(PAGE)) {
            assert!(
                content.is_page(n, page, found),
                "page {page} of {}",
                path.display()
            );
        }
    }
}

const FS_MARK: Load = Load::FsMark {
    rounds: 3,
    files: 5,
    file_bytes: (1 << 20) + 4096,
    threads: 2,
};
const MICRO: Load = Load::Micro { bytes: 9 << 20 };

#[test]
fn every_byte_comes_to_the_disk_on_the_engine_with_less_memory_than_data() {
    for load in [FS_MARK, MICRO] {
        let (dir, work, outcome) = run("engine", "goal", load, Bytes::from_mib(4));
        check(dir.path(), &work);
        let of = |metric: &str| outcome.value(metric).unwrap();
        assert_eq!(of("file_pages_written_by_reclaim"), 0.0);
        assert!(of("pgsteal") >= 1024.0, "{} pages left memory", of("pgsteal"));
        assert_eq!(of("pgpgout_kib"), work.bytes() as f64 / 1024.0);
    }
}

#[test]
fn every_byte_comes_to_the_disk_on_the_kernel_through_writes_and_a_mapping() {
    for load in [FS_MARK, MICRO] {
        let (dir, work, outcome) = run("kernel", "memory-group", load.clone(), Bytes::from_mib(4));
        check(dir.path(), &work);
        let slowest = match load {
            Load::FsMark { .. } => "write_max_us",
            Load::Micro { .. } => "touch_max_us",
        };
        assert!(outcome.value(slowest).is_some_and(|us| us > 0.0));
        assert!(outcome.value("nr_vmscan_write").is_some());
    }
}

#[test]
fn each_round_is_measured_and_a_folder_is_full_after_150_files() {
    let (dir, work, outcome) = run("kernel", "direct", FS_MARK, Bytes::from_mib(4));
    for what in ["min", "mean", "stddev", "max"] {
        assert!(outcome.value(&format!("files_per_s_{what}")).is_some());
        assert!(outcome.value(&format!("overhead_us_{what}")).is_some());
    }
    let many = Gorman2011 {
        load: Load::FsMark {
            rounds: 2,
            files: 8000,
            file_bytes: 4096,
            threads: 1,
        },
        ..work
    };
    let files = many.files(dir.path());
    let folder = |n: usize| files[n].0.parent().unwrap().file_name().unwrap().to_owned();
    assert_eq!((folder(149), folder(150)), ("00".into(), "01".into()));
    assert_eq!((folder(14_999), folder(15_000)), ("99".into(), "00".into()));
}

#[test]
fn stopping_ends_it() {
    let dir = tempfile::tempdir().unwrap();
    let setup = Setup::of_files("kernel", "direct", dir.path(), Bytes::from_mib(4));
    let Driver::Files(open) = backend::find("kernel").unwrap().driver else {
        panic!()
    };
    let load = Load::FsMark {
        rounds: 1_000,
        files: 100,
        file_bytes: 64 << 10,
        threads: 1,
    };
    let work = Gorman2011 { load, seed: 1 };
    let stopped = perform(&work, &*open(&setup).unwrap(), &setup, &mut |_| Proceed::Stop);
    assert!(matches!(stopped, Err(LabError::Interrupted)));
}
