//! Which rule Millpond's own anonymous pages should have: candidates replayed on these loads, page by page; ebizzy's
//! chunk by chunk.
//!
//! ```text
//!   cargo test --release -p millpond-lab candidates_for -- --ignored --nocapture
//! ```
//!
//! A region learns of uses in one way only: the soft fault of a page that it has moved out and not yet reused. So a rule is
//! replayed with three kinds of knowledge: every use counted, one bit a page, and one bit of a page while it is on the
//! inactive list. Numbers are what is left of the way from LRU to the optimum, in percent: 0 is the optimum, 100 LRU.

use super::loads::{CHUNK, Load, script};
use super::machines::Which;
use super::optimum::{Misses, misses};
use super::options::{Options, Plan};
use super::runs::{draws, frames_in_use};
use millpond_core::frame::{BeginWrite, FrameTable};
use millpond_core::lru::{
    Detection, InactiveRatio, LinuxOptions, List, Lru, MillpondOptions, Promotion, Replacement,
};
use millpond_core::units::{FileId, FrameNo, PageCount, PageIndex, PageKey, Ratio};

/// What is known of uses.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Known {
    Counted,
    OneBit,
    /// One bit, and none of an active page.
    SoftFault,
}

struct Frames {
    keys: Vec<PageKey>,
    uses: Vec<u8>,
    table: Vec<Option<FrameNo>>,
}

fn key_of(page: u32) -> PageKey {
    PageKey::new(FileId(0), PageIndex(page.into()))
}

impl FrameTable for Frames {
    fn key(&self, frame: FrameNo) -> PageKey {
        self.keys[frame.index()]
    }

    fn lookup(&self, key: PageKey) -> Option<FrameNo> {
        self.table[key.index().0 as usize]
    }

    fn test_and_clear_accessed(&mut self, frame: FrameNo) -> u8 {
        std::mem::take(&mut self.uses[frame.index()])
    }

    fn evict(&mut self, frames: &mut Vec<FrameNo>) {
        for frame in frames {
            self.table[self.keys[frame.index()].index().0 as usize] = None;
        }
    }

    fn begin_write(&mut self, _: FrameNo) -> BeginWrite {
        BeginWrite::Busy
    }
}

/// Misses from use `from` on of pages that were there before.
fn replay(replacement: Replacement, known: Known, uses: &[u32], from: usize, frames: u64) -> u64 {
    let pages = uses.iter().max().map_or(0, |&last| last as usize + 1);
    let mut lru = Lru::new(replacement, PageCount(frames));
    let mut table = Frames {
        keys: vec![PageKey::NONE; frames as usize],
        uses: vec![0; frames as usize],
        table: vec![None; pages],
    };
    let mut free: Vec<FrameNo> = (0..frames as u32).rev().map(FrameNo).collect();
    let (mut victims, mut was_here) = (Vec::new(), vec![false; pages]);
    let mut misses = 0;
    for (n, &page) in uses.iter().enumerate() {
        let number = page as usize;
        if let Some(frame) = table.table[number] {
            let max = if known == Known::Counted { 3 } else { 1 };
            if known != Known::SoftFault || lru.list_of(frame) != Some(List::Active) {
                let uses = &mut table.uses[frame.index()];
                *uses = (*uses + 1).min(max);
            }
            continue;
        }
        misses += u64::from(n >= from && was_here[number]);
        was_here[number] = true;
        let refault = lru.refault(key_of(page));
        let frame = loop {
            if let Some(frame) = free.pop() {
                break frame;
            }
            let _ = lru.isolate(0, 32, &mut table, &mut victims);
            for &frame in &victims {
                lru.evicted(frame, table.keys[frame.index()]);
            }
            table.evict(&mut victims);
            free.append(&mut victims);
        };
        table.keys[frame.index()] = key_of(page);
        table.uses[frame.index()] = 0;
        table.table[number] = Some(frame);
        lru.insert(frame, refault, true, &mut table);
    }
    misses
}

fn linux(detection: Detection) -> Replacement {
    Replacement::Linux(LinuxOptions {
        promotion: Promotion::Lazy,
        inactive_ratio: InactiveRatio::Equal,
        detection,
        refaults_deactivate: true,
    })
}

fn candidates() -> Vec<(&'static str, Replacement)> {
    let own = MillpondOptions::default();
    let of = Replacement::Millpond;
    vec![
        ("Linux' lists without detection", linux(Detection::Off)),
        ("Linux' lists with detection", linux(Detection::Linux4_19)),
        ("the files' rule", of(own)),
        (
            "no freshness",
            of(MillpondOptions {
                window: Ratio::percent(0),
                ..own
            }),
        ),
        (
            "trial one in 8, 4 when short",
            of(MillpondOptions {
                admit_epsilon_one_in: 8,
                ..own
            }),
        ),
        (
            "trial one in 128, 32 when short",
            of(MillpondOptions {
                admit_epsilon_one_in: 128,
                admit_epsilon_one_in_when_short: 32,
                ..own
            }),
        ),
        (
            "challenge 1",
            of(MillpondOptions {
                probe_pages: 1,
                ..own
            }),
        ),
        (
            "challenge 16",
            of(MillpondOptions {
                probe_pages: 16,
                ..own
            }),
        ),
        (
            "one saved use",
            of(MillpondOptions {
                usage_count_max: 1,
                ..own
            }),
        ),
        (
            "inactive at most 20 %",
            of(MillpondOptions {
                inactive_max_per_mille: 200,
                ..own
            }),
        ),
        (
            "inactive 5 % to 30 %, steps of 1 %",
            of(MillpondOptions {
                inactive_start_per_mille: 50,
                inactive_max_per_mille: 300,
                inactive_step_per_mille: 10,
                ..own
            }),
        ),
    ]
}

struct Trace {
    name: String,
    uses: Vec<u32>,
    from: usize,
    frames: u64,
    bounds: Misses,
}

fn trace(plan: &Plan, name: &str) -> Trace {
    let load = Load::from_name(name).unwrap();
    let frames = frames_in_use(Which::Post, &load);
    let (uses, from, frames) = match load {
        Load::Ebizzy(cell) => {
            let (chunks, from) = draws(plan, cell).chunks();
            (chunks, from, frames / CHUNK - u64::from(cell.threads))
        }
        load => {
            let (uses, from) = script(load, plan.rounds()).uses();
            (uses, from, frames)
        }
    };
    Trace {
        name: name.into(),
        bounds: misses(&uses, from, frames),
        uses,
        from,
        frames,
    }
}

#[test]
#[ignore = "a study: prints a table, takes minutes"]
fn candidates_for_millponds_own_anonymous_pages() {
    let options = Options {
        scale: Some(0.5),
        seed: 1,
        ..Options::default()
    };
    let plan = options.plan(true).unwrap();
    let full = Options {
        seed: 1,
        ..Options::default()
    };
    let full = full.plan(true).unwrap();
    let names = [
        "hot-cold",
        "moving-window",
        "phase-change",
        "stationary",
        "ebizzy-1024-0.1-1",
        "ebizzy-1024-0.7-1",
        "ebizzy-1024-1.3-1",
        "ebizzy-2048-0.1-1",
        "ebizzy-2048-0.7-1",
        "ebizzy-2048-1.3-1",
    ];
    let traces: Vec<Trace> = names
        .iter()
        .map(|name| trace(if name.starts_with("ebizzy") { &plan } else { &full }, name))
        .collect();
    let head: Vec<&str> = traces.iter().map(|trace| trace.name.as_str()).collect();
    println!("| rule | known | {} | mean |", head.join(" | "));
    println!("|---|---|{}", "---|".repeat(traces.len() + 1));
    for known in [Known::SoftFault, Known::OneBit, Known::Counted] {
        for (name, replacement) in candidates() {
            let left: Vec<f64> = traces
                .iter()
                .map(|trace| {
                    let own = replay(replacement, known, &trace.uses, trace.from, trace.frames);
                    let (optimum, lru) = (trace.bounds.optimum as f64, trace.bounds.lru as f64);
                    100.0 * (own as f64 - optimum) / (lru - optimum)
                })
                .collect();
            let cells: Vec<String> = left.iter().map(|left| format!("{left:.0}")).collect();
            let mean = left.iter().sum::<f64>() / left.len() as f64;
            println!("| {name} | {known:?} | {} | {mean:.0} |", cells.join(" | "));
        }
    }
    for trace in &traces {
        println!(
            "{}: LRU {}, optimum {}",
            trace.name, trace.bounds.lru, trace.bounds.optimum
        );
    }
}
