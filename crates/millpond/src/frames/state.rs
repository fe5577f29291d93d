//! The state of a frame: one atomic word, and every step that it may take.
//!
//! ```text
//!            Add          Load            Loaded…             Evict           Leave
//!   Absent ───────► Free ───────► Loading ───────► Resident ─────────► Leaving ───────► Free
//!          ◄───────      ◄───────                     ▲  ◄─────────────
//!          Withdraw       Failed                      └── Pin, Unpin, Use, Claim, Own, Release, …
//!                                                              Stay
//! ```
//!
//! [`Word::after`] is the whole table of legal steps; nothing else computes a word, and nothing but
//! [`step`] and the few single-instruction forms beside it stores one. A step that may fail in a healthy
//! program is refused with the reason; a step that only a bug can ask for panics with the word.
//!
//! What a resident page's marks promise each other:
//!
//! - S1. BIASED implies HAZARDS, and EXCLUSIVE implies not BIASED.
//! - S2. While HAZARDS is clear no hazard record names the frame to good effect (`hazard.rs`, H3).
//! - S3. EXCLUSIVE is never granted, and a page never leaves, while the count of pins is not zero.
//!   Nor while MAPPED is set, but to the mapping that set it (`table/mapped.rs`).
//! - S4. DIRTY is set before its owner may change a byte, so a page that is evicted as clean is clean.
//! - S5. WAITERS and WANTED are requests: they change no thread's rights, only which threads are
//!   woken and which goes first.
//!
//! What the orders of the atomic operations are for, on a processor that keeps none of them by itself:
//!
//! - S6. Every change of a word is a read-modify-write, so all later ones continue the release sequence of
//!   each that is a release. A thread that reads the word with Acquire, at any later value, sees all that was
//!   done before any release of it; the Relaxed changes in between do not break that. Only the kernel stores
//!   one, the zero of fresh memory.
//! - S7. Rights end with a release (`unpin`, `release`, every [`step`]) and begin with an acquire (every
//!   [`step`]). So what was read under a counted pin was read before the claim or eviction that finds no pins,
//!   and what an owner wrote is there for the next pin, claim, eviction or write to the device. DIRTY is seen
//!   by then, for it was set before that release (S4).
//! - S8. A step is SeqCst because [`Step::Claim`] and [`Step::Evict`] must be (H2); for all others acquire and
//!   release would do, at the same instruction on x86-64 and on aarch64. A refusal is read with Acquire: T7.
//! - S9. Uses, WAITERS and WANTED are changed Relaxed: they give no right to bytes. A use that is counted
//!   late, or lost, changes which page is evicted, never what is read. WAITERS is set and cleared under its
//!   stripe's lock, which orders both.

use crate::frames::sync::{AtomicU64, Ordering};
use core::fmt;
use millpond_core::frame::ACCESSES_MAX;

// The path is explicit because tests compile this file from another folder.
#[path = "state/forms.rs"]
mod forms;

pub(crate) use forms::{note_use, release, test_and_clear_accessed, unpin, unwant, wake};

/// The use of a frame. `Absent` is zero, so memory fresh from the kernel reads as no frame.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum State {
    /// No memory behind it: never added, or withdrawn.
    Absent,
    /// Memory without a page.
    Free,
    /// Found under its key; its bytes belong to the thread that loads them.
    Loading,
    /// A page that can be pinned.
    Resident,
    /// Being taken out of the table by the holder of the core lock.
    Leaving,
}

const STATE: u64 = 0b111;
const USES_SHIFT: u32 = 3;
const USES: u64 = 0b11 << USES_SHIFT;
const DIRTY: u64 = 1 << 5;
const WRITEBACK: u64 = 1 << 6;
const EXCLUSIVE: u64 = 1 << 7;
const BIASED: u64 = 1 << 8;
const HAZARDS: u64 = 1 << 9;
const WAITERS: u64 = 1 << 10;
const WANTED: u64 = 1 << 11;
const HEAT_SHIFT: u32 = 12;
const HEAT: u64 = 0b11_1111 << HEAT_SHIFT;
const MAPPED: u64 = 1 << 18;
const PIN_SHIFT: u32 = 20;
const PIN: u64 = 1 << PIN_SHIFT;
const PINS: u64 = 0xff_ffff << PIN_SHIFT;

/// How many counted pins since the last change make a page biased again: 63, what six bits hold. Taking
/// the bias away costs the next writer a read of every thread's hazard record, most likely a cache miss
/// each; the pins in between save two atomic read-modify-writes of a shared line each.
const HEAT_MAX: u64 = HEAT >> HEAT_SHIFT;

/// A value of a frame's word.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) struct Word(u64);

/// A change of a frame's word.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[allow(
    dead_code,
    reason = "the table names every step; two are taken by single instructions or tests"
)]
pub(crate) enum Step {
    /// Memory is there.
    Add,
    /// Memory goes away.
    Withdraw,
    /// A page will be read (or made) here; the caller owns the bytes.
    Load,
    /// The bytes are there, for readers.
    Loaded,
    /// The same, with one counted pin for the loader.
    LoadedPinned,
    /// The same, with the loader as exclusive owner, which makes the page dirty.
    LoadedExclusive,
    /// The bytes did not come.
    Failed,
    /// One more counted pin. A polite reader lets a waiting writer go first.
    Pin { polite: bool },
    /// One counted pin less.
    Unpin,
    /// One more use, by a reader with a hazard pin.
    Use,
    /// Back to no uses.
    TakeUses,
    /// Exclusive, unless there may be hazards: then the caller looks, and takes `Unclaim` or `Own`.
    Claim,
    /// A hazard says no.
    Unclaim,
    /// No hazard names the page, and perhaps it will be changed.
    Own { change: bool },
    /// The exclusive owner is done.
    Release,
    /// A thread sleeps until the word changes; `wanted` if a writer waits for pins to go.
    Wait { wanted: bool },
    /// Sleepers have been woken.
    Wake,
    /// A writer that waited does not want this page. One that does asks again when it is woken.
    Unwant,
    /// A mapping of the file has a copy of it.
    Map,
    /// It no longer has any.
    Unmap,
    /// The mapping's is to be the only one: as `Claim`, of a page that is clean and that no thread waits for.
    Alone,
    /// The mapping's copy may be written from now on, once no hazard names the page: then `Own`, as of a claim.
    Open,
    /// The data written in the mapping is in the frame again, and nowhere else.
    Shut,
    /// The page that a mapping has alone leaves with its content.
    Vacate,
    /// No thread but the caller may pin it from now on. Dirty pages only if they are given up.
    Evict { dirty_too: bool },
    /// A hazard says no; the page stays.
    Stay,
    /// The page is out of the table.
    Leave,
    /// Its present content goes to the device.
    BeginWrite,
    /// The same, with one counted pin, so that it stays as it is. Not counted as a use: no caller
    /// wanted to read it.
    BeginWritePinned,
    /// It is there.
    EndWrite,
    /// It is not.
    FailWrite,
}

/// Why a step cannot be taken now.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Refusal {
    /// The frame holds no page that could be pinned, or is about to lose it.
    Gone,
    /// The page's bytes are not there yet.
    Loading,
    /// A thread may change the page.
    Exclusive,
    /// A thread reads the page.
    Pinned,
    /// A writer waits for readers to go.
    Wanted,
    /// A mapping has the page, and gives it back when it is asked.
    Mapped,
    /// The page has content that its file has not.
    Dirty,
    /// The device reads the page.
    Writeback,
    /// Only a mistake asks for this.
    Illegal,
}

impl Word {
    /// The word of a frame that does not exist.
    pub(crate) const ABSENT: Word = Word(0);

    #[inline]
    pub(crate) fn load(word: &AtomicU64, order: Ordering) -> Word {
        Word(word.load(order))
    }

    #[inline]
    pub(crate) fn state(self) -> State {
        match self.0 & STATE {
            0 => State::Absent,
            1 => State::Free,
            2 => State::Loading,
            3 => State::Resident,
            4 => State::Leaving,
            n => panic!("state {n} of word {:#x}", self.0),
        }
    }

    /// Whether a reader may use a hazard pin.
    #[inline]
    pub(crate) fn is_biased(self) -> bool {
        self.0 & (STATE | BIASED) == State::Resident as u64 | BIASED
    }

    /// How often the page was used since the last call, 0 to [`ACCESSES_MAX`].
    #[inline]
    pub(crate) fn uses(self) -> u8 {
        ((self.0 & USES) >> USES_SHIFT) as u8
    }

    /// The number of counted pins.
    #[inline]
    pub(crate) fn pins(self) -> u64 {
        (self.0 & PINS) >> PIN_SHIFT
    }

    /// Whether the page has content that its file lacks.
    #[inline]
    pub(crate) fn is_dirty(self) -> bool {
        self.has(DIRTY)
    }

    /// Whether the device reads the page.
    #[inline]
    pub(crate) fn is_writeback(self) -> bool {
        self.has(WRITEBACK)
    }

    /// Whether a thread may change the page.
    #[inline]
    pub(crate) fn is_exclusive(self) -> bool {
        self.0 & (EXCLUSIVE | MAPPED) == EXCLUSIVE
    }

    /// Whether a mapping has the page.
    #[inline]
    pub(crate) fn is_mapped(self) -> bool {
        self.has(MAPPED)
    }

    /// Whether a mapping has the page, and the arena does not.
    #[inline]
    pub(crate) fn is_mapped_alone(self) -> bool {
        self.0 & (EXCLUSIVE | MAPPED) == EXCLUSIVE | MAPPED
    }

    /// Whether threads may write the page in its mapping: the frame has nothing, or what was there before.
    #[inline]
    pub(crate) fn is_open(self) -> bool {
        self.0 & (EXCLUSIVE | MAPPED | DIRTY) == EXCLUSIVE | MAPPED | DIRTY
    }

    /// Whether hazard pins may exist.
    #[inline]
    pub(crate) fn has_hazards(self) -> bool {
        self.has(HAZARDS)
    }

    /// Whether a thread sleeps until this word changes.
    #[inline]
    pub(crate) fn has_waiters(self) -> bool {
        self.has(WAITERS)
    }

    /// Whether a writer waits for readers to go.
    #[inline]
    pub(crate) fn is_wanted(self) -> bool {
        self.has(WANTED)
    }

    #[inline]
    fn has(self, bits: u64) -> bool {
        self.0 & bits != 0
    }

    #[inline]
    fn with(self, bits: u64) -> Word {
        Word(self.0 | bits)
    }

    #[inline]
    fn without(self, bits: u64) -> Word {
        Word(self.0 & !bits)
    }

    #[inline]
    fn to(self, state: State) -> Word {
        Word(self.0 & !STATE | state as u64)
    }

    #[inline]
    fn used(self) -> Word {
        if self.uses() < ACCESSES_MAX {
            Word(self.0 + (1 << USES_SHIFT))
        } else {
            self
        }
    }

    /// One more pin.
    #[inline]
    fn held(self) -> Word {
        assert!(
            self.pins() < PINS >> PIN_SHIFT,
            "no room for one more pin in {self:?}"
        );
        Word(self.0 + PIN)
    }

    #[inline]
    fn pinned(self) -> Word {
        let used = self.used().held();
        match (used.0 & HEAT) >> HEAT_SHIFT {
            _ if used.has(BIASED | WANTED) => used,
            HEAT_MAX => used.without(HEAT).with(BIASED | HAZARDS),
            _ => Word(used.0 + (1 << HEAT_SHIFT)),
        }
    }

    /// The word after `step`, or why not: every legal step of every state, and nothing else.
    #[inline]
    pub(crate) fn after(self, step: Step) -> Result<Word, Refusal> {
        use State::{Absent, Free, Leaving, Loading, Resident};
        let refused = |why| Err(why);
        match (self.state(), step) {
            (Absent, Step::Add) => Ok(self.to(Free)),
            (Free, Step::Withdraw) => Ok(Word::ABSENT),
            (Free, Step::Load) => Ok(self.to(Loading)),
            (Loading, Step::Loaded) => Ok(self.to(Resident).with(BIASED | HAZARDS)),
            (Loading, Step::LoadedPinned) => Ok(self.to(Resident).with(BIASED | HAZARDS | PIN)),
            (Loading, Step::LoadedExclusive) => Ok(self.to(Resident).with(EXCLUSIVE | DIRTY)),
            (Loading, Step::Failed) => Ok(self.to(Free)),

            (Resident, Step::Pin { .. }) if self.is_mapped_alone() => refused(Refusal::Mapped),
            (Resident, Step::Pin { .. }) if self.has(EXCLUSIVE) => refused(Refusal::Exclusive),
            (Resident, Step::Pin { polite: true }) if self.has(WANTED) => refused(Refusal::Wanted),
            (Resident, Step::Pin { .. }) => Ok(self.pinned()),
            (Resident, Step::Unpin) if self.pins() > 0 => Ok(Word(self.0 - PIN)),
            (Resident, Step::Use) => Ok(self.used()),
            (Free | Loading | Resident, Step::TakeUses) => Ok(self.without(USES)),

            (Resident, Step::Claim | Step::Evict { .. }) if self.has(MAPPED) => refused(Refusal::Mapped),
            (Resident, Step::Claim) if self.has(EXCLUSIVE) => refused(Refusal::Exclusive),
            (Resident, Step::Claim) if self.pins() > 0 => refused(Refusal::Pinned),
            (Resident, Step::Claim) => Ok(self.used().with(EXCLUSIVE).without(BIASED | WANTED | HEAT)),
            (Resident, Step::Unclaim) if self.has(EXCLUSIVE) && self.has(HAZARDS) => {
                Ok(self.without(EXCLUSIVE))
            }
            (Resident, Step::Own { change }) if self.has(EXCLUSIVE) => {
                Ok(self.without(HAZARDS).with(if change { DIRTY } else { 0 }))
            }
            (Resident, Step::Release) if self.has(EXCLUSIVE) => Ok(self.without(EXCLUSIVE)),

            (Resident, Step::Map) if self.has(EXCLUSIVE) => refused(Refusal::Exclusive),
            (Resident, Step::Map) if !self.has(MAPPED) => Ok(self.with(MAPPED)),
            (Resident, Step::Unmap) if self.has(MAPPED) && !self.has(EXCLUSIVE) => Ok(self.without(MAPPED)),
            (Resident, Step::Alone) if !self.has(MAPPED) || self.has(EXCLUSIVE) => refused(Refusal::Illegal),
            (Resident, Step::Alone) if self.pins() > 0 => refused(Refusal::Pinned),
            (Resident, Step::Alone) if self.has(DIRTY | WRITEBACK) => refused(Refusal::Dirty),
            (Resident, Step::Alone) if self.has(WANTED) => refused(Refusal::Wanted),
            (Resident, Step::Alone) => Ok(self.with(EXCLUSIVE).without(BIASED | HEAT)),
            (Resident, Step::Open) if !self.has(MAPPED) => refused(Refusal::Illegal),
            (Resident, Step::Open) if self.pins() > 0 => refused(Refusal::Pinned),
            (Resident, Step::Open) => Ok(self.with(EXCLUSIVE).without(BIASED | WANTED | HEAT)),
            (Resident, Step::Shut) if self.is_open() && !self.has(WRITEBACK) => {
                Ok(self.without(EXCLUSIVE | MAPPED))
            }
            (Resident, Step::Vacate) if self.is_mapped_alone() && !self.has(WRITEBACK) => {
                Ok(self.without(EXCLUSIVE | MAPPED).to(Leaving))
            }

            (Resident, Step::Evict { .. }) if self.has(EXCLUSIVE) => refused(Refusal::Exclusive),
            (Resident, Step::Evict { .. }) if self.pins() > 0 => refused(Refusal::Pinned),
            (Resident, Step::Evict { .. }) if self.has(WRITEBACK) => refused(Refusal::Writeback),
            (Resident, Step::Evict { dirty_too: false }) if self.has(DIRTY) => refused(Refusal::Dirty),
            (Resident, Step::Evict { .. }) => Ok(self.to(Leaving)),
            (Leaving, Step::Stay) => Ok(self.to(Resident)),
            (Leaving, Step::Leave) => Ok(Word(self.0 & WAITERS).to(Free)),

            (Resident, Step::BeginWrite | Step::BeginWritePinned) if self.has(EXCLUSIVE) => {
                refused(Refusal::Exclusive)
            }
            (Resident, Step::BeginWrite) if self.has(DIRTY) && !self.has(WRITEBACK) => {
                Ok(self.without(DIRTY).with(WRITEBACK))
            }
            (Resident, Step::BeginWritePinned) if self.has(DIRTY) && !self.has(WRITEBACK) => {
                Ok(self.without(DIRTY).with(WRITEBACK).held())
            }
            (Resident, Step::EndWrite) if self.has(WRITEBACK) => Ok(self.without(WRITEBACK)),
            (Resident, Step::FailWrite) if self.has(WRITEBACK) => Ok(self.without(WRITEBACK).with(DIRTY)),

            (Resident, Step::Wait { wanted: true }) => Ok(self.with(WAITERS | WANTED)),
            (Resident | Loading, Step::Wait { wanted: false }) => Ok(self.with(WAITERS)),
            (_, Step::Wake) => Ok(self.without(WAITERS)),
            (_, Step::Unwant) => Ok(self.without(WANTED)),

            (Loading, Step::Pin { .. } | Step::Claim | Step::Evict { .. }) => refused(Refusal::Loading),
            (
                Absent | Free | Leaving,
                Step::Pin { .. } | Step::Claim | Step::Map | Step::Evict { .. } | Step::Wait { .. },
            ) => refused(Refusal::Gone),
            (Loading, Step::Wait { wanted: true }) => refused(Refusal::Loading),
            _ => refused(Refusal::Illegal),
        }
    }
}

/// A frame's word before and after a step.
#[derive(Clone, Copy)]
pub(crate) struct Stepped {
    pub(crate) old: Word,
    pub(crate) new: Word,
}

/// Takes `step` on `word`, trying again while others change it. One compare-and-swap if none does.
///
/// # Panics
/// If the step is illegal.
#[inline]
pub(crate) fn step(word: &AtomicU64, step: Step) -> Result<Stepped, Refusal> {
    let mut old = Word::load(word, Ordering::Acquire);
    loop {
        let new = match old.after(step) {
            Ok(new) => new,
            Err(Refusal::Illegal) => illegal(old, step),
            Err(why) => return Err(why),
        };
        // SeqCst: the half of the evictor's and the writer's bargain with hazard pins (H2).
        match word.compare_exchange_weak(old.0, new.0, Ordering::SeqCst, Ordering::Acquire) {
            Ok(_) => return Ok(Stepped { old, new }),
            Err(seen) => old = Word(seen),
        }
    }
}

/// Takes a step that the holder of the frame's rights can always take.
///
/// # Panics
/// If the step is refused or illegal.
#[inline]
pub(crate) fn must(word: &AtomicU64, what: Step) -> Stepped {
    match step(word, what) {
        Ok(stepped) => stepped,
        Err(_) => illegal(Word::load(word, Ordering::Relaxed), what),
    }
}

#[cold]
#[inline(never)]
fn illegal(word: Word, step: Step) -> ! {
    panic!("{step:?} is no step of {word:?}")
}

impl fmt::Debug for Word {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?} uses={} pins={}", self.state(), self.uses(), self.pins())?;
        let marks = [
            (DIRTY, "dirty"),
            (WRITEBACK, "writeback"),
            (EXCLUSIVE, "exclusive"),
            (BIASED, "biased"),
            (HAZARDS, "hazards"),
            (WAITERS, "waiters"),
            (WANTED, "wanted"),
            (MAPPED, "mapped"),
        ];
        marks
            .iter()
            .filter(|mark| self.has(mark.0))
            .try_for_each(|mark| write!(f, " {}", mark.1))
    }
}

#[cfg(test)]
#[path = "state/tests.rs"]
mod tests;
