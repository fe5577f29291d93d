//! The faults of a world, and what must hold nevertheless.
//!
//! ```text
//! ```text
//!   class         what the device does                              how the driver reacts
//!   ───────────────────────────────────────────────────────────────────────────────────────────────────────────
//!   read error    returns no content                                the page leaves memory; the reader gets an error
//!   write error   stores any of the pages and reports a failure     all of them stay dirty
//!   broken file   the same, for every write of a file               the same; the file's writers get an error
//!   no room       the same, for every write, for a while            the same
//!   slow          serves one request at a time, slowly              waits
//!   stuck         answers only after a long time                    waits, up to its timeout
//!   short         transfers fewer pages than requested              requests the rest
//!   shuffled      answers requests out of order                     takes the answers as they come
//!   sync error    can't make durable what it accepted, and may      every sync of the file fails until it is
//!                 lose it                                           closed and opened again
//!   lie           reports as durable what is not                    believes it; every sync asks again, so the next
//!                                                                   true answer corrects it
//! ```
//!
//! With any of these, at any rate: no write is lost unreported, no sync succeeds whose data is not durable, the budget
//! and the reserve hold, and each waiting process makes progress or gets an error. When the faults stop, all dirty
//! pages reach the device, and all queues become empty.

use millpond_core::units::{FileId, Instant, Nanos};

/// A world's faults. Shares are in parts of 65536 of the requests.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Faults {
    /// Reads that fail.
    pub read_errors: u32,
    /// Writes that fail.
    pub write_errors: u32,
    /// Files whose writes all fail, a bit a file.
    pub broken_files: u64,
    /// From the first until the second no write finds room.
    pub no_room: Option<(Instant, Instant)>,
    /// The time for each request, one after the other. Zero: as fast as the model is.
    pub slow: Nanos,
    /// Requests that are answered late.
    pub stuck: u32,
    /// The delay.
    pub stuck_for: Nanos,
    /// Transfers of several pages that end early.
    pub short: u32,
    /// Requests that are answered a little later, so that others overtake them.
    pub shuffled: u32,
    /// Flushes of the device's cache that fail.
    pub sync_errors: u32,
    /// Flushes that end well and have not made anything durable.
    pub lies: u32,
}

impl Faults {
    pub(super) fn is_broken(&self, file: FileId) -> bool {
        self.broken_files >> (file.0 % 64) & 1 != 0
    }

    pub(super) fn has_no_room(&self, now: Instant) -> bool {
        self.no_room
            .is_some_and(|(from, until)| now >= from && now < until)
    }
}

macro_rules! seen {
    ($($(#[$doc:meta])* $name:ident = $words:literal,)*) => {
        /// The rare events of a world: faults, and their consequences.
        #[derive(Clone, Copy, PartialEq, Eq, Debug)]
        pub enum Seen {
            $($(#[$doc])* $name,)*
        }

        impl Seen {
            /// All of them.
            pub const ALL: &[Seen] = &[$(Seen::$name,)*];

            /// In words.
            pub fn name(self) -> &'static str {
                match self {
                    $(Seen::$name => $words,)*
                }
            }
        }
    };
}

seen! {
    /// A read failed.
    ReadError = "read errors",
    /// A write failed.
    WriteError = "write errors",
    /// A write of a file that can't be written failed.
    BrokenFile = "writes of broken files",
    /// A write found no room.
    NoRoom = "writes without room",
    /// A request took its turn at a slow device.
    Slow = "slow requests",
    /// A request was answered late.
    Stuck = "stuck requests",
    /// A read ended early.
    ShortRead = "short reads",
    /// A write ended early.
    ShortWrite = "short writes",
    /// A request was held back.
    Shuffled = "requests held back",
    /// A request was answered before one that had been made earlier.
    Overtaken = "requests overtaken",
    /// A flush failed.
    SyncError = "sync errors",
    /// A flush ended well and had made nothing durable.
    Lie = "flushes that were lies",
    /// The pool became smaller.
    MemoryShrunk = "memory shrunk",
    /// The pool became larger.
    MemoryGrown = "memory grown",
    /// Other options were set.
    Retuned = "options changed",
    /// An operation ended because no frame could be had, or nothing was written, for too long.
    NoFrames = "operations without frames",
    /// A dirtier got the error that a file can't be written.
    PauseError = "pauses ended by an error",
    /// A write was refused because too much of its file could not be written.
    Refused = "writes refused",
    /// A sync was refused because an earlier one had failed.
    Latched = "latched syncs",
    /// A file was closed and opened again.
    Reopened = "files reopened",
    /// A page that could not be written was given up when its file was closed.
    GivenUp = "pages given up",
    /// A page was held by a guard for a while.
    Guarded = "pages guarded",
    /// Dirty pages reached the device though no process synced.
    DrainedAlone = "worlds drained without a sync",
}

/// How often each occurred.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Coverage([u64; Seen::ALL.len()]);

impl Coverage {
    /// Met once more.
    pub fn count(&mut self, what: Seen) {
        self.0[what as usize] += 1;
    }

    /// How often.
    pub fn of(&self, what: Seen) -> u64 {
        self.0[what as usize]
    }

    /// Adds what another world has met.
    pub fn add(&mut self, other: &Coverage) {
        for (mine, theirs) in self.0.iter_mut().zip(other.0) {
            *mine += theirs;
        }
    }
}
