//! Why a page was moved, a write held back or a writer paused: the text shown when a movement is clicked.

use crate::world::Note;
use millpond_core::io::Reason;
use millpond_core::manager::DeviceLook;
use millpond_core::page::PageKind;
use millpond_core::reclaim::trace::{Caller, Outcome, Record, Trace};
use millpond_core::units::{Instant, Nanos};
use millpond_sim::look::{DiskLook, next_write};

/// An action, as a page draws it, and its reason.
type Words = (&'static str, String);

/// The last and the rare decisions of a trace as notes, the oldest first, in the words of a system.
pub(crate) fn of_trace(trace: &Trace, most: usize, words: fn(&Record) -> Words) -> Vec<Note> {
    let all: Vec<&Record> = trace.records().collect();
    // half of them others than frees, if there are enough: frees come by the hundred, and hide what is rare
    let numbers = || (0..all.len()).rev();
    let mut last: Vec<usize> = numbers()
        .filter(|&n| all[n].outcome != Outcome::Freed)
        .take(most / 2)
        .collect();
    let others: Vec<usize> = numbers()
        .filter(|n| !last.contains(n))
        .take(most - last.len())
        .collect();
    last.extend(others);
    last.sort_unstable();
    let note = |&n: &usize| {
        let record = all[n];
        let (class, why) = words(record);
        Note {
            at: record.at.0,
            page: page(record),
            what: record.outcome.name(),
            class,
            why,
        }
    };
    last.iter().map(note).collect()
}

fn page(record: &Record) -> String {
    let (file, page) = (record.key.file().0, record.key.index().0);
    match record.kind {
        PageKind::File => format!("page {page} of file {file}"),
        PageKind::Anonymous => format!("anonymous page {page}"),
    }
}

/// How a page draws an outcome.
fn class(outcome: Outcome) -> &'static str {
    match outcome {
        Outcome::Freed => "freed",
        Outcome::Activated => "activated",
        Outcome::WriteStarted | Outcome::WriteRefused => "written",
        Outcome::MarkedLap | Outcome::Tagged | Outcome::Leaked | Outcome::Skipped => "sent-round",
        Outcome::KeptInUse
        | Outcome::KeptUsedOnce
        | Outcome::KeptWriting
        | Outcome::KeptWritingAgain
        | Outcome::KeptCongested
        | Outcome::KeptNoWrites => "kept",
    }
}

/// In Linux's words.
pub(crate) fn linux(record: &Record) -> Words {
    let scans = match record.caller {
        Caller::Kswapd => "kswapd",
        Caller::Direct => "a task that needed a frame (direct reclaim)",
    };
    let page = match record.kind {
        PageKind::File => "a page of a file",
        PageKind::Anonymous => "an anonymous page",
    };
    let then = match record.outcome {
        Outcome::Freed => "It was clean and not in use, so its frame is free.",
        Outcome::Activated => {
            "It was in use, or dirty under rules that put such pages out of the way, so it went to the active list."
        }
        Outcome::KeptInUse => "It was in use, so it goes round the inactive list once more.",
        Outcome::KeptUsedOnce => "It had been used and was dirty, so it goes round once more.",
        Outcome::KeptWriting => "It is on its way to the disk already, so it goes round once more.",
        Outcome::KeptWritingAgain => {
            "It is still on its way to the disk and was met again: the scan is ahead of the disk."
        }
        Outcome::MarkedLap => {
            "It was dirty and met for the first time: it was sent round for its second lap."
        }
        Outcome::Skipped => {
            "It was dirty and this rule lets this caller write no file page at this priority: it goes round again, and the scan finds nothing to free."
        }
        Outcome::Tagged => {
            "It was dirty: it was tagged, and is the next victim as soon as its write has ended."
        }
        Outcome::Leaked => {
            "It was dirty: as posted, it left the lists until its write ends (a mistake of the first version)."
        }
        Outcome::KeptCongested => "It was dirty and the disk's queue was full, so it goes round once more.",
        Outcome::KeptNoWrites => {
            "It was dirty and could not be written now (swap is full, or no writes are allowed)."
        }
        Outcome::WriteStarted => {
            "It was dirty and this rule writes it from here: one page, where the arm has to go for it, while the scan waits."
        }
        Outcome::WriteRefused => {
            "It was dirty and handed to its file system, which refused to write it on this caller's stack."
        }
    };
    let why = format!(
        "{scans} met {page} at the cold end, at priority {}. {then}",
        record.priority
    );
    (class(record.outcome), why)
}

/// In Millpond's words.
pub(crate) fn millpond(record: &Record) -> Words {
    let scans = match record.caller {
        Caller::Kswapd => "Background reclaim",
        Caller::Direct => "A caller that needed a frame",
    };
    let then = match record.outcome {
        Outcome::Freed => "It was clean and not in use, so its frame is free.",
        Outcome::Activated => "It had been used since the scan looked last, so it went to the active list.",
        Outcome::KeptInUse => "It was pinned, being read, or used, so it goes round once more.",
        Outcome::MarkedLap => {
            "It was dirty and met for the first time: it was sent round for its second lap."
        }
        Outcome::Tagged => {
            "It was dirty on its second lap: it was tagged and put out of the way, and it is free when its write has ended."
        }
        Outcome::KeptWriting => "It is on its way to the disk, so it goes round once more.",
        Outcome::KeptWritingAgain => {
            "It is still on its way to the disk: the scan is ahead of the disk, and waits for it."
        }
        _ => "Reclaim has no way to write a page of a file: it stays until the flusher has written it.",
    };
    (
        class(record.outcome),
        format!("{scans} met the page at the cold end. {then}"),
    )
}

/// In FreeBSD's words: the priority is the daemon's pass, and tagged pages went to the laundry queue.
pub(crate) fn freebsd(record: &Record) -> Words {
    let then = match record.outcome {
        Outcome::Freed => "It was clean and not in use: to the cache queue, which counts as free.",
        Outcome::Activated => {
            "It was in use: back to the active queue, without a write. A dirty page on its second lap that is saved here has cost the disk nothing."
        }
        Outcome::KeptWriting => "It is being read or written: passed over.",
        Outcome::Skipped => {
            "It was dirty and this rule writes nothing in this look, or its budget is spent: passed over."
        }
        Outcome::MarkedLap => {
            "It was dirty and met for the first time: sent round for its second lap, because a clean page costs a microsecond and a dirty one five milliseconds of disk."
        }
        Outcome::WriteStarted => "It was dirty and this rule writes it now, with its neighbours.",
        Outcome::Tagged => "It was dirty: to the laundry queue, which a thread of its own cleans.",
        _ => "It goes round once more.",
    };
    let why = format!(
        "The pageout daemon met the page at the cold end, in pass {}. {then}",
        record.priority
    );
    (class(record.outcome), why)
}

fn kib(bytes: u64) -> String {
    match bytes >> 20 {
        0..4 => format!("{} KiB", bytes >> 10),
        mib => format!("{mib} MiB"),
    }
}

fn ms(span: Nanos) -> String {
    format!("{:.1} ms", span.0 as f64 / 1e6)
}

/// A write was held back in front of a device.
pub(crate) fn held_back(now: Instant, reason: Reason, device: &DeviceLook, disk: &DiskLook) -> Note {
    let now_there = kib(device.in_transit.0);
    let limit = match device.in_transit_limit {
        // A limit that has fallen does not call back what is on its way.
        Some(limit) if device.in_transit > limit => format!(
            "{now_there} are in transit, and since reads became slow only {} may be: no write follows until fewer are",
            kib(limit.0)
        ),
        Some(limit) => format!(
            "{now_there} are in transit, of {} that may be, and it does not fit",
            kib(limit.0)
        ),
        None => format!("{now_there} in transit is as many requests as this rule allows beside reads"),
    };
    let reads = match (disk.reads, device.read_p99, device.goal) {
        (_, Some(p99), Some(goal)) => {
            format!(
                "; reads take {} (p99), the goal is {}",
                ms(p99),
                ms(goal.in_force)
            )
        }
        (0, ..) => "; a read is expected soon".into(),
        (reads, ..) => format!("; reads waiting at the disk: {reads}"),
    };
    Note {
        at: now.0,
        page: next_write(reason),
        what: "held back beside reads",
        class: "waits",
        why: format!(
            "The write stays in front of the disk: {limit}{reads}. What stands in the disk's queue already can't be overtaken."
        ),
    }
}

/// A writer was paused.
pub(crate) fn paused(now: Instant, unclean: u64, hard: u64) -> Note {
    Note {
        at: now.0,
        page: "a writer".into(),
        what: "paused: too much is dirty",
        class: "waits",
        why: format!(
            "{unclean} pages are dirty or being written, and {hard} may be: the writer goes on as the disk takes them."
        ),
    }
}
