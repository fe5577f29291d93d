//! Axboe's experiment of 2016 with a reader like the post's, in virtual time: exact, the same on every machine.
//!
//! The post's reader had reads of 39 us, so it read in order: a disk's own look-ahead or the page cache had most of what it
//! asked for. It was given 1 GiB, and stopped when it had that or when the writers were done. Its reads of what is there take
//! 39 us here, too: in that time the disk reads ahead.
#![allow(clippy::unwrap_used, reason = "these are tests, helpers included")]

use millpond_core::admission::goal::GoalOptions;
use millpond_core::admission::{AdmissionOptions, Configured, Form};
use millpond_core::options::Options;
use millpond_core::readahead::ReadAheadOptions;
use millpond_core::units::{Bytes, FileId, Instant, Nanos, PageCount};
use millpond_kernels::linux::wbt::Wbt;
use millpond_kernels::linux::wbt::posted::PostedOptions;
use millpond_sim::disk::{HddParameters, Model};
use millpond_sim::scripts::axboe2016::{Shared, Writer};
use millpond_sim::{Costs, Done, Faults, Op, Script, World, WorldOptions};
use std::cell::RefCell;
use std::rc::Rc;

const FILES: u64 = 50;
const FILE_PAGES: u64 = 25_600;
const READ_PAGES: u64 = 262_144;
/// The shortest read of the post.
const HIT: Nanos = Nanos::from_micros(39);

/// Reads of 4 KiB, one after the other.
struct InOrder {
    file: FileId,
    at: u64,
    /// The last read has only been copied out so far.
    is_late: bool,
    took: Rc<RefCell<Vec<Nanos>>>,
    ended: Rc<RefCell<Instant>>,
    writers: Shared,
}

impl Script for InOrder {
    fn next(&mut self, now: Instant, done: Option<&Done>) -> Op {
        if let Some(done) = done {
            self.is_late = !self.is_late;
            if self.is_late {
                let took = done.ended.since(done.began) + HIT;
                self.took.borrow_mut().push(took);
                return Op::Sleep(HIT);
            }
            *self.ended.borrow_mut() = now;
        }
        let writers_done = self.writers.borrow().synced != Instant(0);
        if self.at == READ_PAGES || writers_done {
            return Op::Exit;
        }
        self.at += 1;
        Op::Read {
            file: self.file,
            first: self.at - 1,
            pages: 1,
        }
    }
}

struct Played {
    writers_s: f64,
    reads_per_s: f64,
    /// The shortest first.
    took: Vec<Nanos>,
}

fn play<A: Form>(form: A, readahead_max: Bytes, reader: bool) -> Played {
    let options = WorldOptions {
        options: Options {
            readahead: ReadAheadOptions {
                max: readahead_max,
                ..ReadAheadOptions::default()
            },
            ..Options::default()
        },
        alternatives: Vec::new(),
        frames: PageCount(131_072),
        model: Model::hdd(HddParameters::default()).unwrap(),
        costs: Costs::default(),
        faults: Faults::default(),
        seed: 1,
        validate_every: 0,
    };
    let mut world = World::with_admission(options, form).unwrap();
    let writers = Shared::default();
    let file = world.add_file(PageCount(READ_PAGES));
    let files = (0..FILES)
        .map(|_| world.add_file(PageCount(FILE_PAGES)))
        .collect();
    world.add_process(Box::new(Writer::new(files, FILE_PAGES, 64, writers.clone())));
    let took = Rc::new(RefCell::new(Vec::new()));
    let ended = Rc::new(RefCell::new(Instant(0)));
    if reader {
        world.add_process(Box::new(InOrder {
            file,
            at: 0,
            is_late: false,
            took: took.clone(),
            ended: ended.clone(),
            writers: writers.clone(),
        }));
    }
    world.run(Instant::NEVER);
    let mut took = took.take();
    let reads_per_s = took.len() as f64 / (ended.borrow().0 as f64 / 1e9);
    took.sort_unstable();
    let writers_s = writers.borrow().synced.0 as f64 / 1e9;
    Played {
        writers_s,
        reads_per_s,
        took,
    }
}

impl Played {
    fn per_mille(&self, per_mille: usize) -> Nanos {
        self.took[(self.took.len() * per_mille).div_ceil(1000).max(1) - 1]
    }

    fn mean_us(&self) -> f64 {
        self.took.iter().map(|took| took.0 as f64).sum::<f64>() / self.took.len() as f64 / 1e3
    }
}

#[test]
fn the_posts_rates_and_tails_come_out_within_their_bands() {
    let max = ReadAheadOptions::default().max;
    let v3 = || Wbt::posted(PostedOptions::v3(10));
    let (off, off_alone) = (
        play(Configured::Off, max, true),
        play(Configured::Off, max, false),
    );
    let (on, on_alone) = (play(v3(), max, true), play(v3(), max, false));
    // The post: 134 and 4660 reads a second, 66.3 and 89.4 s, and 66.9 without the reader.
    // Few slow reads decide: with memory from 460 to 530 MiB it is 8.7 to 12.5 times. The post's is 35.
    let gain = on.reads_per_s / off.reads_per_s;
    assert!((6.0..20.0).contains(&gain), "{gain:.1}");
    let beside = on.writers_s / on_alone.writers_s;
    assert!((1.2..1.45).contains(&beside), "{beside:.3}");
    let alone = on_alone.writers_s / off_alone.writers_s;
    assert!(alone < 1.02, "{alone:.3}");
    // Of the post's reads one in a hundred waited for the disk; here, where 2 MiB are read ahead, one in a thousand does.
    let tails = [&off, &on].map(|played| played.per_mille(999));
    assert!(tails[0].0 > 100 * tails[1].0, "{tails:?}");
    let means = [&off, &on].map(Played::mean_us);
    assert!(means[0] > means[1] * 6.0, "{means:?}");
    println!(
        "{gain:.1} times the reads, writers {beside:.3} and {alone:.3}, tails {tails:?}, means {means:.0?} us"
    );
}

/// Nearly all that such a reader waits for was read ahead. While that did not count as waiting, writes overtook it until the
/// drive itself had enough of it, 276 ms each time, and there were 131 reads a second instead of 962 (of a reader whose hits
/// took 1 us; with 39 us there are 677).
#[test]
fn a_reader_in_order_with_a_short_read_ahead_is_served_within_the_goal() {
    let goal = Configured::new(AdmissionOptions::Goal(GoalOptions {
        read_latency: Nanos::from_millis(60),
        ..GoalOptions::default()
    }));
    let played = play(goal, Bytes::from_kib(128), true);
    assert!(
        played.per_mille(999) < Nanos::from_millis(60),
        "{:?}",
        played.per_mille(999)
    );
    assert!(played.reads_per_s > 600.0, "{}", played.reads_per_s);
}
