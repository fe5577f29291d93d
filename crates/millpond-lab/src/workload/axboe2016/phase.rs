//! The actors of a run: the post's three, and mixed loads as they are met in practice.
//!
//! ```text
//!   the post      writers and one reader that asks again at once; each of them alone
//!   mixed         the same writers beside another load: a reader that thinks, eight readers, a reader of cached data,
//!                 a log that is synced after every record, checkpoints of scattered pages, a scan
//! ```

use serde::{Deserialize, Serialize};
use std::time::Duration;

/// The participants of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Phase {
    /// Writers and a reader: what the post is about.
    WritersAndReader,
    /// The reader alone for a few seconds: what the device can do.
    ReaderAlone,
    /// The writers alone: the post's third measurement.
    WritersAlone,
    /// Writers, and a reader that does something for [`THINK`] with each page before it wants the next.
    ThinkingReader,
    /// Writers and [`READERS`] readers.
    SeveralReaders,
    /// Writers, and a reader of data that fits into memory, but for one read in a hundred.
    CachedReader,
    /// Writers, and a log: each record of 4 or 8 KiB is synced before the next.
    LogWriter,
    /// The log alone.
    LogWriterAlone,
    /// Writers, and a database that checkpoints, over and over: a synced record of its log, [`CHECKPOINT_PAGES`] pages
    /// anywhere in its file, a sync.
    Checkpoints,
    /// Writers, and a scan of a large file from its start to its end.
    Scan,
}

/// The writers' company.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Actor {
    /// This many readers, each of which waits this long after each read.
    Readers(u32, Duration),
    /// A reader that finds 99 of 100 pages in memory.
    CachedReader,
    /// A log that is synced after each record.
    Log,
    /// Scattered pages, synced together.
    Checkpoints,
    /// A reader of a whole file.
    Scan,
}

/// What a program does with a page: longer than most reads take on an idle disk, and long enough for the disk to turn
/// to the writers meanwhile.
pub const THINK: Duration = Duration::from_millis(5);
/// The pages of a checkpoint: those after which SQLite makes one.
pub const CHECKPOINT_PAGES: u64 = 1000;
/// The size of the file that they are scattered over.
pub const CHECKPOINT_FILE_BYTES: u64 = 64 << 20;
/// Enough for a disk to choose an order among them.
pub const READERS: u32 = 8;
/// One read in this many of a cached reader is anywhere in the file.
pub const CACHED_READS: u64 = 100;
/// What is read often is this part of the memory that there is, or half of the file if that is less: it fits beside the
/// dirty pages that any of the targets allows.
pub const HOT_PART: u64 = 8;

impl Phase {
    /// All of them.
    pub const ALL: [Phase; 10] = [
        Phase::WritersAndReader,
        Phase::ReaderAlone,
        Phase::WritersAlone,
        Phase::ThinkingReader,
        Phase::SeveralReaders,
        Phase::CachedReader,
        Phase::LogWriter,
        Phase::LogWriterAlone,
        Phase::Checkpoints,
        Phase::Scan,
    ];

    /// The default: the post's.
    pub const POST: [Phase; 3] = [Phase::WritersAndReader, Phase::ReaderAlone, Phase::WritersAlone];

    /// The name as the command line and metrics have it.
    pub const fn name(self) -> &'static str {
        match self {
            Phase::WritersAndReader => "writers-and-reader",
            Phase::ReaderAlone => "reader-alone",
            Phase::WritersAlone => "writers-alone",
            Phase::ThinkingReader => "thinking-reader",
            Phase::SeveralReaders => "several-readers",
            Phase::CachedReader => "cached-reader",
            Phase::LogWriter => "log-writer",
            Phase::LogWriterAlone => "log-writer-alone",
            Phase::Checkpoints => "checkpoints",
            Phase::Scan => "scan",
        }
    }

    /// The one of that name.
    pub fn of_name(name: &str) -> Option<Phase> {
        Phase::ALL.into_iter().find(|phase| phase.name() == name)
    }

    /// The company of the writers, or a lone participant.
    pub fn actor(self) -> Option<Actor> {
        match self {
            Phase::WritersAndReader | Phase::ReaderAlone => Some(Actor::Readers(1, Duration::ZERO)),
            Phase::WritersAlone => None,
            Phase::ThinkingReader => Some(Actor::Readers(1, THINK)),
            Phase::SeveralReaders => Some(Actor::Readers(READERS, Duration::ZERO)),
            Phase::CachedReader => Some(Actor::CachedReader),
            Phase::LogWriter | Phase::LogWriterAlone => Some(Actor::Log),
            Phase::Checkpoints => Some(Actor::Checkpoints),
            Phase::Scan => Some(Actor::Scan),
        }
    }

    /// Whether there is a reader whose single reads are measured.
    pub fn reads(self) -> bool {
        matches!(self.actor(), Some(Actor::Readers(..) | Actor::CachedReader))
    }

    /// Whether there are writers.
    pub fn writes(self) -> bool {
        !matches!(self, Phase::ReaderAlone | Phase::LogWriterAlone)
    }
}

/// How many pages of a file of `file_pages` a cached reader reads often, with this many bytes of memory.
pub fn hot_pages(file_pages: u64, memory: u64) -> u64 {
    (memory / HOT_PART / super::PAGE as u64)
        .min(file_pages / 2)
        .max(1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_those_that_the_pipe_to_a_run_has_and_none_is_there_twice() {
        for phase in Phase::ALL {
            let json = serde_json::to_string(&phase).unwrap();
            assert_eq!(json, format!("\"{}\"", phase.name()));
            assert_eq!(Phase::of_name(phase.name()), Some(phase));
            assert!(phase.writes() || phase.actor().is_some());
        }
        assert_eq!(Phase::of_name("nobody"), None);
    }

    #[test]
    fn the_hot_set_fits_memory_and_the_file() {
        assert_eq!(hot_pages(1 << 20, 512 << 20), 16_384);
        assert_eq!(hot_pages(100, 512 << 20), 50);
        assert_eq!(hot_pages(1, 1), 1);
    }
}
