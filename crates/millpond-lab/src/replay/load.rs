//! A load that can be replayed: what the threads of a trace do, one thing after the other.

use super::Memory;
use crate::error::{LabError, Result};
use crate::traces;
use millpond::PageCache;
use millpond::host;
use millpond::internal::quantity::size;
use millpond::trace::{Access, Trace, What};
use millpond_core::manager::FRAMES_MIN;
use millpond_core::units::{Bytes, FileId, Nanos, PageCount, PageSize};
use millpond_sim::Op;
use millpond_sim::policy::Use;
use millpond_sim::traces::{Kind, Options, Requests};
use std::collections::HashMap;
use std::fs::File;
use std::io::{self, Read};
use std::path::Path;

/// Pages that a simulated call has at most; a longer one is several.
const CALL_PAGES_MAX: u64 = 1024;

/// More uses of pages than this are not replayed: their order alone takes 2 GiB.
const USES_MAX: u64 = 1 << 28;

/// Longer traces hold more than that: of page numbers, as other calls take three bytes or more as well.
const BYTES_MAX: u64 = USES_MAX * 4;

/// What a byte of a trace takes when it was read, as a call of three bytes is a step of a thread and a use of a page.
const BYTES_FOR_BYTE: u64 = 24;

/// Decides whether it is a trace.
const BEGINNING: u64 = 8;

/// Nor what took longer.
const SPAN_MAX: Nanos = Nanos(30 * 24 * 3600 * 1_000_000_000);

/// A thread's next step.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Step {
    /// The think time before it.
    pub think: Nanos,
    /// The action.
    pub op: Op,
}

/// The load to replay.
#[derive(Clone, Debug)]
pub struct Load {
    /// The trace's name.
    pub name: String,
    /// The size of a page.
    pub page_size: PageSize,
    /// Pages of each file.
    pub files: Vec<u64>,
    /// The steps of each thread.
    pub threads: Vec<Vec<Step>>,
    /// Pages used, each time it is.
    pub uses: u64,
    /// The order in which they are: a number for each page, and whether its content is needed.
    pub order: Vec<Use>,
    /// Different pages.
    pub distinct: u64,
    /// Pages whose content is needed at their first use: no memory helps against these.
    pub first: u64,
    /// Notes about the trace, and about the part that can't be replayed.
    pub notes: Vec<String>,
    /// The recorded cache: its budget, and the pages that it missed.
    pub recorded: Option<(u64, u64)>,
    /// Its budget, also where the trace was cut off before it said what was missed.
    pub recorded_memory: Option<Bytes>,
    /// The share of its budget's pages that it had.
    pub share: PagesShare,
}

/// The share of the pages of its budget that a cache has. A mount, for one, sets an eighth of any budget aside for transfers.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct PagesShare {
    pages: u64,
    of: u64,
}

impl PagesShare {
    const ALL: PagesShare = PagesShare { pages: 1, of: 1 };

    /// The part of these pages.
    pub(super) fn of(self, all: PageCount) -> PageCount {
        let part = u128::from(all.0) * u128::from(self.pages) / u128::from(self.of);
        PageCount(part as u64)
    }

    /// The least number of which these are the part.
    pub(super) fn whole(self, part: PageCount) -> PageCount {
        let all = (u128::from(part.0) * u128::from(self.of)).div_ceil(u128::from(self.pages));
        PageCount(u64::try_from(all).unwrap_or(u64::MAX))
    }
}

impl Load {
    /// Reads a trace: one of `millpond record`, or of another kind, read as `options` say.
    ///
    /// # Errors
    /// [`LabError::Io`] if it can't be read, [`LabError::BadValue`] if it is not a trace.
    pub fn read(path: &Path, options: &Options) -> Result<Load> {
        let failed = |e: io::Error| LabError::path("cannot read", path, e);
        let mut file = File::open(path).map_err(failed)?;
        let name = path.display().to_string();
        let bad = |why: String| LabError::BadValue {
            option: "the trace",
            value: name.clone(),
            allowed: why,
            instead: "record it again, or give a trace of another format".into(),
        };
        // First what it is: there are files without an end.
        let mut bytes = Vec::new();
        (&mut file)
            .take(BEGINNING)
            .read_to_end(&mut bytes)
            .map_err(failed)?;
        if !Trace::is_trace(&bytes) {
            return Ok(Load::of_requests(&name, &traces::read(path, options)?));
        }
        let most = host::memory_free().map_or(BYTES_MAX, |free| BYTES_MAX.min(free / BYTES_FOR_BYTE));
        file.take(most).read_to_end(&mut bytes).map_err(failed)?;
        if bytes.len() as u64 > most {
            return Err(bad(format!(
                "it is longer than {}, the most that memory here holds",
                size(Bytes(most))
            )));
        }
        let trace = Trace::parse(&bytes).map_err(|e| bad(e.to_string()))?;
        Load::of_trace(&name, &trace)
    }

    /// Requests of one thread that does not think.
    pub fn of_requests(name: &str, trace: &Requests) -> Load {
        let mut load = Load::new(name, trace.page_size);
        load.files = trace.files.clone();
        load.threads = vec![Vec::new()];
        load.notes = trace.notes.clone();
        let mut order = Order::default();
        for request in &trace.requests {
            let access = Access {
                at: Nanos::ZERO,
                took: Nanos::ZERO,
                thread: 0,
                file: request.file,
                page: request.page,
                pages: request.pages,
                what: match request.kind {
                    Kind::Read => What::Read,
                    Kind::Write {
                        keeps_first,
                        keeps_last,
                    } => What::Write {
                        keeps_first,
                        keeps_last,
                    },
                },
            };
            load.add(0, Nanos::ZERO, &access, &mut order);
        }
        load.set_order(order);
        load
    }

    /// Reads of single pages of a file, by one thread that does not think.
    pub fn of_pages(name: &str, pages: &[u32]) -> Load {
        let mut load = Load::new(name, PageSize::KIB_4);
        load.files = vec![pages.iter().max().map_or(0, |&last| u64::from(last) + 1)];
        let read = |&page: &u32| Step {
            think: Nanos::ZERO,
            op: Op::Read {
                file: FileId(0),
                first: page.into(),
                pages: 1,
            },
        };
        load.threads = vec![pages.iter().map(read).collect()];
        let mut order = Order::default();
        pages.iter().for_each(|&page| order.add(0, page.into(), true));
        load.set_order(order);
        load
    }

    /// The recorded part of a trace.
    ///
    /// # Errors
    /// [`LabError::BadValue`] if it is too much.
    pub fn of_trace(name: &str, trace: &Trace) -> Result<Load> {
        // The trace has checked it.
        let page_size = PageSize::from_bytes(trace.page_bytes).unwrap_or(PageSize::KIB_4);
        let mut load = Load::new(name, page_size);
        load.files = trace.files.iter().map(|file| file.pages).collect();
        let uses: u64 = trace.accesses.iter().map(|access| u64::from(access.pages)).sum();
        if uses > USES_MAX {
            return Err(LabError::BadValue {
                option: "the trace",
                value: name.into(),
                allowed: format!("it uses pages {uses} times, and at most {USES_MAX} can be replayed"),
                instead: "record for a shorter time".into(),
            });
        }
        let ends = trace
            .accesses
            .iter()
            .map(|access| access.at.0.saturating_add(access.took.0));
        let begins = trace.accesses.iter().map(|access| access.at.0).min();
        let span = ends.max().unwrap_or(0) - begins.unwrap_or(0);
        if span > SPAN_MAX.0 {
            return Err(LabError::BadValue {
                option: "the trace",
                value: name.into(),
                allowed: format!(
                    "it lasts {} s, and at most {} can be replayed",
                    span / 1_000_000_000,
                    SPAN_MAX.0 / 1_000_000_000
                ),
                instead: "record for a shorter time".into(),
            });
        }
        let mut numbers: HashMap<u32, usize> = HashMap::new();
        let mut free_at: Vec<Nanos> = Vec::new();
        let (mut order, mut regions) = (Order::default(), 0_u64);
        for access in &trace.accesses {
            if access.what == What::Region {
                regions += 1;
                continue;
            }
            let next = numbers.len();
            let thread = *numbers.entry(access.thread).or_insert(next);
            if thread == load.threads.len() {
                load.threads.push(Vec::new());
                free_at.push(Nanos::ZERO);
            }
            let think = Nanos(access.at.0.saturating_sub(free_at[thread].0));
            free_at[thread] = access.at + access.took;
            load.add(thread, think, access, &mut order);
        }
        load.set_order(order);
        load.note(trace, regions);
        Ok(load)
    }

    fn new(name: &str, page_size: PageSize) -> Load {
        Load {
            name: name.into(),
            page_size,
            files: Vec::new(),
            threads: Vec::new(),
            uses: 0,
            order: Vec::new(),
            distinct: 0,
            first: 0,
            notes: Vec::new(),
            recorded: None,
            recorded_memory: None,
            share: PagesShare::ALL,
        }
    }

    fn set_order(&mut self, order: Order) {
        self.uses = order.uses.len() as u64;
        self.distinct = order.numbers.len() as u64;
        self.first = order.first;
        self.order = order.uses;
    }

    fn add(&mut self, thread: usize, think: Nanos, access: &Access, order: &mut Order) {
        let file = FileId(access.file);
        let (first, end) = (access.page, access.page + u64::from(access.pages));
        let mut ops = Vec::new();
        match access.what {
            What::Read => ops.extend(calls(first, end).map(|(first, pages)| Op::Read { file, first, pages })),
            What::Prefetch => {
                ops.extend(calls(first, end).map(|(first, pages)| Op::Prefetch { file, first, pages }));
            }
            What::Write {
                keeps_first,
                keeps_last,
            } => {
                let change = |first| Op::Guard {
                    file,
                    first,
                    pages: 1,
                    change: true,
                    span: Nanos::ZERO,
                };
                let whole = first + u64::from(keeps_first)..end - u64::from(keeps_last && access.pages > 0);
                ops.extend(keeps_first.then(|| change(first)));
                ops.extend(calls(whole.start, whole.end).map(|(first, pages)| Op::Write {
                    file,
                    first,
                    pages,
                }));
                ops.extend((keeps_last && end > first).then(|| change(end - 1)));
            }
            What::Sync => ops.push(Op::Sync { file }),
            What::Cut => ops.push(Op::Truncate { file, first }),
            What::Close => ops.push(Op::Reopen { file }),
            What::Region => {}
        }
        if access.what.is_use() {
            for page in first..end {
                let is_needed = match access.what {
                    What::Write {
                        keeps_first,
                        keeps_last,
                    } => (keeps_first && page == first) || (keeps_last && page + 1 == end),
                    _ => true,
                };
                order.add(access.file, page, is_needed);
            }
        }
        let steps = ops.into_iter().enumerate().map(|(n, op)| Step {
            think: if n == 0 { think } else { Nanos::ZERO },
            op,
        });
        self.threads[thread].extend(steps);
    }

    fn note(&mut self, trace: &Trace, regions: u64) {
        let end = trace.end.as_ref();
        let missed = end.and_then(|end| end["counters"]["pgmajfault"].as_u64());
        self.recorded = missed.map(|missed| (trace.memory_bytes, missed));
        self.recorded_memory = Some(Bytes(trace.memory_bytes)).filter(|memory| *memory > Bytes(0));
        self.share = share(trace, self.page_size);
        if self.share != PagesShare::ALL {
            let PagesShare { pages, of } = self.share;
            self.notes.push(format!(
                "the recorded cache had {} for pages, {:.0} % less than its budget of {} leaves by default, as a mount's transfers \
                 or something else had the rest; each size has the same share less",
                self.bytes(pages),
                100.0 - 100.0 * pages as f64 / of as f64,
                size(Bytes(trace.memory_bytes)),
            ));
        }
        if let Some(torn) = &trace.torn {
            self.notes.push(format!("the trace is torn: {torn}"));
        }
        if trace.lost > 0 {
            let kept = trace.accesses.len();
            self.notes.push(format!(
                "{} calls were lost while it was recorded, and {kept} are there: misses are counted for these only",
                trace.lost
            ));
        }
        if regions > 0 {
            self.notes.push(format!(
                "{regions} touches of regions are left out: only those that missed were seen when it was recorded"
            ));
        }
        let resident = trace.about["resident"].as_u64().unwrap_or(0);
        if resident > 0 {
            self.notes.push(format!(
                "the recorded cache had {} in memory when the recording began; here memory is empty at first",
                self.bytes(resident)
            ));
        }
    }

    /// This number of its pages in bytes, for people.
    pub(super) fn bytes(&self, pages: u64) -> String {
        size(Bytes(pages * self.page_size.bytes()))
    }

    /// Sizes of memory to try where none are given, and the one that the trace was recorded with. In the last one all pages fit,
    /// with room for what a cache keeps free: so one size is enough.
    pub fn memories(&self) -> Vec<Memory> {
        let mut memories: Vec<_> = [1, 2, 4, 8, 16, 32, 48]
            .map(|part| Memory::Pages((self.distinct * part / 32).max(FRAMES_MIN.0)))
            .into();
        memories.dedup();
        memories.extend(self.recorded_memory.map(Memory::Budget));
        memories
    }
}

/// The share that the recorded cache had; a trace that does not say so had all.
fn share(trace: &Trace, page_size: PageSize) -> PagesShare {
    let own = trace.about["frames"].as_u64();
    let all = PageCache::pages_in(Bytes(trace.memory_bytes), page_size).ok();
    match all.zip(own) {
        Some((all, own)) if (1..all.0).contains(&own) => PagesShare {
            pages: own,
            of: all.0,
        },
        _ => PagesShare::ALL,
    }
}

/// The pages from `first` to `end` in calls.
fn calls(first: u64, end: u64) -> impl Iterator<Item = (u64, u32)> {
    (first..end)
        .step_by(CALL_PAGES_MAX as usize)
        .map(move |at| (at, (end - at).min(CALL_PAGES_MAX) as u32))
}

/// Pages by numbers without gaps, in the order in which they are used.
#[derive(Default)]
struct Order {
    numbers: HashMap<(u32, u64), u32>,
    uses: Vec<Use>,
    first: u64,
}

impl Order {
    fn add(&mut self, file: u32, page: u64, is_needed: bool) {
        let next = self.numbers.len() as u32;
        let number = *self.numbers.entry((file, page)).or_insert(next);
        self.first += u64::from(number == next && is_needed);
        self.uses.push((number, is_needed));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_write_that_keeps_some_of_its_pages_needs_these_first() {
        let mut load = Load::new("load", PageSize::KIB_4);
        load.threads = vec![Vec::new()];
        let mut order = Order::default();
        let access = Access {
            at: Nanos(0),
            took: Nanos(0),
            thread: 0,
            file: 0,
            page: 10,
            pages: 4,
            what: What::Write {
                keeps_first: true,
                keeps_last: true,
            },
        };
        load.add(0, Nanos(7), &access, &mut order);
        let change = |first| Op::Guard {
            file: FileId(0),
            first,
            pages: 1,
            change: true,
            span: Nanos::ZERO,
        };
        let whole = Op::Write {
            file: FileId(0),
            first: 11,
            pages: 2,
        };
        let ops: Vec<_> = load.threads[0].iter().map(|step| step.op).collect();
        assert_eq!(ops, [change(10), whole, change(13)]);
        let think: Vec<_> = load.threads[0].iter().map(|step| step.think.0).collect();
        assert_eq!(think, [7, 0, 0]);
        assert_eq!(order.uses, [(0, true), (1, false), (2, false), (3, true)]);
        assert_eq!(order.first, 2);
    }

    #[test]
    fn a_long_call_is_several() {
        let parts: Vec<_> = calls(5, 5 + 2500).collect();
        assert_eq!(parts, [(5, 1024), (1029, 1024), (2053, 452)]);
        assert_eq!(calls(3, 3).count(), 0);
    }
}
