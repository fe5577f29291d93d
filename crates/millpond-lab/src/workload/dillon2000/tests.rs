//! The readers on real files of both targets, for a second or two.

use super::*;
use crate::backend::{self, Driver};
use crate::workload::data::Content;
use millpond_core::units::Bytes;

fn work() -> Dillon2000 {
    Dillon2000 {
        readers: 8,
        article_bytes: 16 << 10,
        think_ms: 5,
        spool_bytes: 24 << 20,
        history_bytes: 3 << 20,
        changes: 4,
        own_bytes: 64 << 10,
        warm_up_s: 0,
        seconds: 2,
        seed: 3,
    }
}

/// The files as an experiment makes them.
fn make(dir: &Path, work: &Dillon2000) {
    std::fs::create_dir(work.folder(dir)).unwrap();
    for (number, path, bytes) in [
        (SPOOL, work.spool(dir), work.spool_bytes),
        (HISTORY, work.history(dir), work.history_bytes),
    ] {
        let file = File::create_new(path).unwrap();
        let mut content = Content::new(number);
        for offset in (0..bytes).step_by(1 << 20) {
            file.write_all_at(content.slice(number, offset, 1 << 20), offset)
                .unwrap();
        }
        file.sync_all().unwrap();
    }
}

fn run(target: &str, variant: &str, break_page: Option<u64>) -> Result<Outcome> {
    let dir = crate::scratch::for_tests();
    let work = work();
    make(dir.path(), &work);
    if let Some(page) = break_page {
        let spool = File::options().write(true).open(work.spool(dir.path()));
        for page in 0..page {
            spool
                .as_ref()
                .unwrap()
                .write_all_at(&[0; 16], page * PAGE as u64)
                .unwrap();
        }
    }
    let setup = Setup::of_files(target, variant, dir.path(), Bytes::from_mib(8));
    let Driver::Files(open) = backend::find(target).unwrap().driver else {
        panic!("{target} has no files");
    };
    let opened = open(&setup).unwrap();
    perform(&work, &*opened, &setup, &mut |_| Proceed::Yes)
}

#[test]
fn articles_are_read_and_each_word_comes_to_the_disk_on_both_targets() {
    for (target, variant) in [("engine", "goal"), ("kernel", "memory-group")] {
        let outcome = run(target, variant, None).unwrap();
        let of = |metric: &str| outcome.value(metric).unwrap();
        assert!(of("articles_per_s") > 0.0, "{target}");
        assert!(of("article_latency_p99_us") >= of("article_latency_p50_us"));
        assert!((0.0..=8.0).contains(&of("load_mean")), "{}", of("load_mean"));
        assert_eq!(outcome.series.len(), 2, "load and pageouts");
        // A slow disk gives fewer articles in these seconds than are needed for that.
        if target == "engine" && of("articles_per_s") > 500.0 {
            assert!(of("pgpgout_kib") > 0.0, "the history was written");
            assert!(of("pgsteal") > 0.0, "24 MiB of spool in 8 MiB");
        }
    }
}

#[test]
fn a_page_that_is_not_what_was_written_ends_the_run() {
    let error = run("engine", "goal", Some(6144)).unwrap_err().to_string();
    assert!(error.contains("is not what was written there"), "{error}");
}

#[test]
fn a_word_that_did_not_come_to_the_device_is_found() {
    let dir = crate::scratch::for_tests();
    let path = dir.path().join("history");
    std::fs::write(&path, [7_u8; 64]).unwrap();
    let seen = |word| {
        [Seen {
            stored: vec![(16, word)],
            ..Seen::default()
        }]
    };
    check(&path, &seen(u64::from_ne_bytes([7; 8]))).unwrap();
    let error = check(&path, &seen(9)).unwrap_err().to_string();
    assert!(error.contains("and not the 9 that was stored there"), "{error}");
}

#[test]
fn a_wait_counts_in_each_second_that_it_covers() {
    let ms = Duration::from_millis;
    let articles = [(ms(500), ms(1500)), (ms(2500), ms(2750)), (ms(3900), ms(9000))];
    assert_eq!(load(articles.iter(), ms(1000), 3), [0.5, 0.25, 0.1]);
}
