//! A load that was recorded on a real cache, replayed in the simulator.

#![allow(
    clippy::unwrap_used,
    clippy::print_stdout,
    reason = "a test fails by panicking, and says why it was skipped"
)]

use millpond::trace::Trace;
use millpond::{OpenOptions, PageCache};
use millpond_core::options::Preset;
use millpond_core::units::{Bytes, PageCount, PageSize};
use millpond_lab::replay::{self, Load, Memory, Pace, Point, Policy, ReplayOptions};
use millpond_lab::report::{html, table};
use millpond_lab::watch::Proceed;
use millpond_lab::watch::Watch;
use millpond_sim::policy::Model;
use millpond_sim::traces::Options;
use std::fs;
use std::path::PathBuf;

const MILLPOND: Policy = Policy::Preset(Preset::Millpond);
const LRU: Policy = Policy::Count(Model::Lru);
const OPT: Policy = Policy::Count(Model::Opt);

fn options(memory: Vec<Memory>, policies: Vec<Policy>) -> ReplayOptions {
    ReplayOptions {
        memory,
        policies,
        device: "sata-ssd".parse().unwrap(),
        pace: Pace::Recorded,
        command: "millpond replay a.trace".into(),
    }
}

fn run(load: &Load, options: &ReplayOptions) -> Vec<Point> {
    replay::run(load, options, &mut ()).unwrap()
}

/// Splitmix64.
fn draw(state: &mut u64) -> u64 {
    *state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let z = (*state ^ (*state >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

#[test]
fn a_loop_of_four_pages_more_than_memory_misses_as_it_must() {
    let pages: Vec<u32> = (0..400).map(|n| n % 100).collect();
    let load = Load::of_pages("loop", &pages);
    assert_eq!((load.uses, load.distinct, load.first), (400, 100, 100));
    let memory = [96, 200].map(Memory::Pages).to_vec();
    let points = run(&load, &options(memory, vec![LRU, OPT]));
    let misses: Vec<Vec<u64>> = points
        .iter()
        .map(|point| point.runs.iter().map(|ran| ran.misses).collect())
        .collect();
    // The optimum keeps 95 of the 99 others until they are used again: of the 300 uses behind the first round it misses
    // 4 in 99.
    assert_eq!(misses[0], [400, 100 + 300 * 4 / 99], "{misses:?}");
    assert_eq!(misses[1], [100, 100]);
}

#[test]
fn the_same_trace_gives_the_same_numbers() {
    let mut state = 1;
    let pages: Vec<u32> = (0..20_000).map(|_| (draw(&mut state) % 2_000) as u32).collect();
    let load = Load::of_pages("random", &pages);
    let options = options(Vec::new(), vec![MILLPOND, Policy::Linux6]);
    let (one, two) = (run(&load, &options), run(&load, &options));
    assert_eq!(one.len(), 7);
    let all = |points: &[Point]| points.iter().flat_map(|p| p.runs.clone()).collect::<Vec<_>>();
    assert_eq!(all(&one), all(&two));
    // in the last all pages fit, and it is the first of them again
    for pair in one[..6].windows(2) {
        assert!(
            pair[0].runs[0].misses > pair[1].runs[0].misses,
            "more memory, fewer misses"
        );
        assert!(pair[0].runs[0].stalled > pair[1].runs[0].stalled);
    }
    // With memory for all of it each page is missed once, and some again: a few frames are kept free.
    let misses = one[5].runs[0].misses;
    assert!((2_000..2_200).contains(&misses), "{misses}");
    assert!(one[6].runs[0].read() <= 2_000, "{:?}", one[6].runs[0]);
    // the first answer used to be none: "the most that was tried ...; more may help still"
    let report = replay::report(&load, &options, &one);
    let is_enough = |answer: &String| answer.contains(" is enough: ");
    assert!(report.answers[..2].iter().all(is_enough), "{:?}", report.answers);
}

/// A mount sets five times as much aside for transfers as a cache alone. Its trace was replayed with the pages of a cache
/// alone, which missed a fifth less than it did.
#[test]
fn the_recorded_size_has_the_recorded_caches_pages() {
    let folder = tempfile::tempdir().unwrap();
    let memory = 8 << 20;
    let cache = PageCache::builder().memory(memory).build().unwrap();
    let set_aside = cache.set_aside(2 << 20).unwrap();
    let frames = cache.stats().occupancy.frames;
    let path = folder.path().join("data");
    fs::write(&path, vec![1; 4096]).unwrap();
    let file = cache.open(&path, OpenOptions::new()).unwrap();
    let trace = folder.path().join("trace");
    let recording = cache.record(&trace).unwrap();
    file.read_at(&mut [0; 100], 0).unwrap();
    recording.stop().unwrap();
    drop(set_aside);
    let load = Load::read(&trace, &Options::default()).unwrap();
    let pages = |mib: u64| PageCache::pages_in(Bytes(mib << 20), PageSize::KIB_4).unwrap().0;
    let memory = vec![
        Memory::Budget(Bytes(memory)),
        Memory::Budget(Bytes(32 << 20)),
        Memory::Pages(1000),
    ];
    let points = run(&load, &options(memory, vec![LRU]));
    let of = |at: usize| (points[at].bytes.0, points[at].frames.0);
    assert!(pages(8) - frames.0 > 500, "{frames:?}");
    assert_eq!(of(1), (8 << 20, frames.0));
    assert_eq!(of(2), (32 << 20, pages(32) * frames.0 / pages(8)));
    // 1000 pages take a larger budget than they do in a cache alone
    let alone = PageCache::memory_for(PageCount(1000), PageSize::KIB_4).0;
    assert!(of(0).0 > alone * 5 / 4 && of(0).1 == 1000, "{:?}", of(0));
    assert!(load.notes[0].contains("a mount's transfers"), "{:?}", load.notes);
}

/// How far apart the misses of a recorded cache and of its replay at the same memory are, as a part of the former.
fn apart() -> f64 {
    let folder = tempfile::tempdir().unwrap();
    let memory = 8 << 20;
    let cache = PageCache::builder()
        .memory(memory)
        .calibrate(false)
        .build()
        .unwrap();
    let path = folder.path().join("data");
    fs::write(&path, vec![1; 4000 * 4096]).unwrap();
    let file = cache.open(&path, OpenOptions::new().write(true)).unwrap();
    let trace = folder.path().join("trace");
    let recording = cache.record(&trace).unwrap();
    let before = cache.stats().counters;
    let (mut state, mut buffer) = (7, vec![0; 4096]);
    for n in 0..40_000_u64 {
        // A hot set of a quarter, the rest of the file at random, and a write now and then.
        let page = match draw(&mut state) % 4 {
            0 => draw(&mut state) % 4000,
            _ => draw(&mut state) % 1000,
        };
        match n % 50 {
            0 => file.write_at(&buffer, page * 4096).unwrap(),
            1 => file.write_at(&buffer[..100], page * 4096 + 50).unwrap(),
            _ => assert_eq!(file.read_at(&mut buffer, page * 4096).unwrap(), 4096),
        }
    }
    let missed = cache.stats().counters.pgmajfault - before.pgmajfault;
    recording.stop().unwrap();
    let load = Load::read(&trace, &Options::default()).unwrap();
    assert_eq!(load.uses, 40_000);
    assert_eq!(load.recorded, Some((memory, missed)));
    let options = options(vec![Memory::Budget(Bytes(memory))], vec![MILLPOND, OPT]);
    let points = run(&load, &options);
    assert_eq!(
        points[0].frames,
        PageCache::pages_in(Bytes(memory), PageSize::KIB_4).unwrap()
    );
    let replayed = points[0].runs[0].misses;
    // The order of calls is the same; when pages are written and reclaimed in between is not.
    let apart = replayed.abs_diff(missed) as f64 / missed as f64;
    println!(
        "missed {missed}, replayed {replayed}: {:.2} % apart",
        100.0 * apart
    );
    let opt = points[0].runs[1].misses;
    assert!(
        opt < missed && opt > missed / 2,
        "the optimum misses {opt}, the cache {missed}"
    );
    apart
}

/// Three recordings, of which one must be so: where the cache's own threads get no processor, pages are reclaimed at
/// other times than in the replay.
#[test]
fn a_recorded_cache_missed_about_as_many_pages_as_its_replay_at_the_same_memory() {
    let mut found = Vec::new();
    while found.last().is_none_or(|&apart| apart >= 0.03) {
        assert!(found.len() < 3, "{found:?}");
        found.push(apart());
    }
}

#[test]
fn threads_that_sync_cut_and_close_are_replayed_to_their_end() {
    let folder = tempfile::tempdir().unwrap();
    let cache = PageCache::builder()
        .memory(4 << 20)
        .calibrate(false)
        .build()
        .unwrap();
    let trace = folder.path().join("trace");
    let recording = cache.record(&trace).unwrap();
    std::thread::scope(|scope| {
        for thread in 0..3 {
            let (cache, folder) = (&cache, folder.path());
            scope.spawn(move || {
                for round in 0..5 {
                    let path = folder.join(format!("data{thread}"));
                    let file = cache.open(path, OpenOptions::new().create(true)).unwrap();
                    file.write_at(&vec![round; 300 << 10], 100).unwrap();
                    file.prefetch(0, 64 << 10).unwrap();
                    file.sync_data().unwrap();
                    file.set_len(100_000).unwrap();
                    file.page_mut(3).unwrap()[7] = round;
                    drop(file.page(20).unwrap());
                }
            });
        }
    });
    recording.stop().unwrap();
    let load = Load::read(&trace, &Options::default()).unwrap();
    assert_eq!((load.files.len(), load.threads.len()), (3, 3));
    let points = run(&load, &options(Vec::new(), vec![MILLPOND, Policy::Linux6, LRU]));
    for ran in points.iter().map(|point| point.runs[0]) {
        assert!(ran.written.0 > 5 * 3 * 200_000, "{ran:?}");
    }
}

#[test]
fn a_report_says_how_much_memory_is_enough_and_draws_it() {
    let pages: Vec<u32> = (0..30_000).map(|n| n * 7919 % 1000).collect();
    let load = Load::of_pages("a<b>.u32", &pages);
    let memory = [250, 500, 1000, 2000, 4000].map(Memory::Pages).to_vec();
    let options = options(memory, vec![MILLPOND, OPT]);
    let points = run(&load, &options);
    let report = replay::report(&load, &options, &points);
    let text = table::text(&report);
    assert!(text.lines().all(|line| line.chars().count() <= 120), "{text}");
    let enough = report.answers.iter().find(|s| s.starts_with("opt: ")).unwrap();
    let memory = millpond::internal::quantity::size(points[2].bytes);
    assert!(
        enough.starts_with(&format!(
            "opt: {memory} is enough: 3.33 % of uses miss, about as many as are the first"
        )),
        "{enough}"
    );
    assert!(
        text.starts_with("millpond: "),
        "how much is enough comes first: {text}"
    );
    let is_in_pages = points
        .iter()
        .any(|point| text.contains(&format!("{} pages", point.frames.0)));
    assert!(!is_in_pages && text.contains("3.91 MiB"), "in bytes: {text}");
    let page = html::page(&report);
    assert!(page.contains("Pages read against memory") && page.contains("a&lt;b&gt;.u32"));
    assert_eq!(
        page.matches("<path class=\"line").count(),
        2 * 3,
        "lines and their swatches"
    );
    assert_eq!(report.metrics.len(), 5 * (10 + 5));
}

/// A scan whose pages come in by read-ahead misses next to nothing, whatever the memory, and reads all of it each time.
#[test]
fn the_sufficient_size_follows_from_pages_read() {
    let pages: Vec<u32> = (0..8_000).map(|n| n % 1000).collect();
    let load = Load::of_pages("scan.u32", &pages);
    let memory = [250, 500, 1500].map(Memory::Pages).to_vec();
    let options = options(memory, vec![MILLPOND, Policy::Count(Model::Millpond), OPT]);
    let points = run(&load, &options);
    let (small, large) = (points[0].runs[0], points[2].runs[0]);
    assert!(
        small.misses * 10 < small.read() && large.read() * 3 < small.read(),
        "{small:?} {large:?}"
    );
    let report = replay::report(&load, &options, &points);
    let enough = report
        .answers
        .iter()
        .find(|s| s.starts_with("millpond: "))
        .unwrap();
    let memory = millpond::internal::quantity::size(points[2].bytes);
    assert!(
        enough.contains(&format!("{memory} is enough")) && enough.contains("are read"),
        "{enough}"
    );
    let fair = |s: &&String| s.starts_with("Without read-ahead, with ");
    let fair = report.answers.iter().find(fair).unwrap();
    assert!(fair.contains("with the optimum "), "{fair}");
}

#[test]
fn the_recorded_size_is_among_those_that_are_tried() {
    let mut load = Load::of_pages("load.u32", &(0..3_000).collect::<Vec<_>>());
    assert_eq!(load.memories().len(), 7);
    load.recorded_memory = Some(Bytes(5 << 20));
    assert!(load.memories().contains(&Memory::Budget(Bytes(5 << 20))));
    let points = run(&load, &options(Vec::new(), vec![OPT]));
    assert!(points.is_sorted_by_key(|point| point.bytes) && points.len() == 8);
}

#[test]
fn traces_that_can_not_be_replayed_say_why() {
    let folder = tempfile::tempdir().unwrap();
    let file = |name: &str, bytes: &[u8]| -> PathBuf {
        let path = folder.path().join(name);
        fs::write(&path, bytes).unwrap();
        path
    };
    let why = |path: PathBuf| Load::read(&path, &Options::default()).unwrap_err().to_string();
    assert!(why(file("a", b"hello")).contains("neither its name nor its content say which of these it is"));
    assert!(why(file("a.u32", b"hello")).contains("5 bytes are no whole number of page numbers"));
    assert!(why(file("b", b"MPTRACE\x02")).contains("version 2"));
    assert!(why(folder.path().join("none")).contains("cannot read"));
    let empty = Load::of_pages("empty", &[]);
    let error = replay::run(&empty, &options(Vec::new(), vec![MILLPOND]), &mut ()).unwrap_err();
    assert!(
        error.to_string().contains("no page of a file is read or written"),
        "{error}"
    );
    let load = Load::of_pages("one", &[1]);
    let few = options(vec![Memory::Budget(Bytes(100_000))], vec![MILLPOND]);
    let error = replay::run(&load, &few, &mut ()).unwrap_err();
    assert!(error.to_string().contains("at least 772K are needed"), "{error}");
}

#[test]
fn ctrl_c_ends_a_replay() {
    struct Impatient;
    impl Watch for Impatient {
        fn at(&mut self, share: f64, _: &str, _: &str) -> Proceed {
            if share > 0.3 { Proceed::Stop } else { Proceed::Yes }
        }
    }
    let pages: Vec<u32> = (0..50_000).collect();
    let load = Load::of_pages("long", &pages);
    let result = replay::run(&load, &options(Vec::new(), vec![MILLPOND]), &mut Impatient);
    assert!(matches!(result, Err(millpond_lab::LabError::Interrupted)));
}

/// With `MILLPOND_TRACES=folder`: page traces as the other tests read them.
#[test]
fn recorded_page_traces_miss_as_little_as_was_counted() {
    let Some(folder) = std::env::var_os("MILLPOND_TRACES") else {
        println!("skipped: MILLPOND_TRACES names no folder with traces");
        return;
    };
    // Misses of the optimum that were published with the traces.
    for (name, pages, published) in [("lirs_cpp", 122, 0.1587), ("lirs_gli", 253, 0.8216)] {
        let path = PathBuf::from(&folder).join(format!("{name}.u32"));
        if !path.exists() {
            println!("skipped: {} is not there", path.display());
            continue;
        }
        let load = Load::read(&path, &Options::default()).unwrap();
        let mut options = options(vec![Memory::Pages(pages)], vec![OPT, LRU, MILLPOND]);
        options.pace = Pace::None;
        let runs = run(&load, &options)[0].runs.clone();
        let ratio = |n: usize| runs[n].misses as f64 / load.uses as f64;
        println!(
            "{name}: opt {:.4}, lru {:.4}, millpond {:.4}",
            ratio(0),
            ratio(1),
            ratio(2)
        );
        assert!((ratio(0) - published).abs() < 0.0001, "{name}: {}", ratio(0));
    }
}

#[test]
fn any_bytes_are_a_load_or_an_error() {
    let mut state = 3;
    let folder = tempfile::tempdir().unwrap();
    for n in 0..300 {
        let len = draw(&mut state) % 200;
        let mut bytes: Vec<u8> = (0..len).map(|_| draw(&mut state) as u8).collect();
        if n % 2 == 0 {
            bytes.splice(0..0, *b"MPTRACE\x01");
        }
        let path = folder.path().join("bytes");
        fs::write(&path, &bytes).unwrap();
        let _ = Load::read(&path, &Options::default());
        let _ = Trace::parse(&bytes);
    }
}
