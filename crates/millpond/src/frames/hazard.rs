//! Pins that write nothing shared.
//!
//! A page that many threads read would have its word bounce between their cores if every pin were counted
//! there. While a page is *biased* a reader instead writes the page's address into a slot of its own
//! thread's *hazard record*, one cache line that no other thread writes, and looks again whether the page
//! is still there and biased. A thread that wants the page for itself (a writer, the evictor) takes the
//! bias away and then reads every thread's record. The idea is BRAVO's (Dice and Kogan 2019, biased
//! reader-writer locks), with hazard pointers (Michael 2004) in place of its table of readers.
//!
//! Why the two cannot miss each other (`W` is the frame's word, `S` the slot; all four are SeqCst):
//!
//! ```text
//!   reader                                   writer or evictor
//!   H1 store S := address                    H2 compare-and-swap W: exclusive or leaving
//!      load W: biased and resident?             load S: is the address there?
//! ```
//!
//! - H1. A hazard pin counts only if `W`, read after `S` was stored, was resident and biased; the key is
//!   read after that. Else the slot is cleared and nothing of the page was touched.
//! - H2. A writer or evictor goes ahead only if no slot, read after its own change of `W`, names the
//!   frame.
//! - H3. So they exclude each other. If the reader read `W` as it was before the change, then in the one
//!   order of all SeqCst operations its store of `S` comes first, its load of `W` next, the change third
//!   and the load of `S` last, which therefore sees the address. Else the reader read the change, which is
//!   not biased, or something later: biased again after the writer was done, and the pin is good; or loaded
//!   anew after the evictor was done, and the key tells.
//!   All four must be SeqCst: with release and acquire alone a store may pass a later load, on x86-64 as on
//!   aarch64, and both would read what was before. A compare-and-swap that fails proves nothing.
//! - H4. A record that a thread takes into use while a scan runs: the fence after `used` was raised and the
//!   fence before it is read by the scan are in that order too. If the scan missed the record, its fence came
//!   first, so the reader's load of `W` comes after the change. Each thread raises `used` itself, also to what
//!   it was, so that it has a fence of its own; the acquire and the release at `used` are more than this needs.
//! - H5. Clearing a slot is a release and reading it is an acquire, and an owner stores into a slot only after
//!   it has acquired the zero that another thread may have put there. So all that happened under a hazard pin
//!   happened before a scan that no longer finds it. That holds if the scan finds a later address in the slot,
//!   too: storing it is a release as well, and comes after the zero that its owner has acquired.
//! - H6. A thread gives its record back with a release and the next owner takes it with an acquire. So the next
//!   owner sees the addresses that were left in the slots, and no zero from before them.
//! - H7. What the reader reads is what made the page readable, or newer: its load of `W` is an acquire as well
//!   (S6). It is not what a later writer writes, or a later load: these come after a scan that did not find the
//!   pin, and so after all that was read under it (H5).
//!
//! A pin costs one exchange on a line of the thread's own. Cheaper still would be a plain store with
//! `membarrier(2)` on the other side; measured on two cores it gained nothing (the pin waits for the
//! page's word in any case) and made taking a bias away cost 0.4 µs alone and 11 µs while another core
//! ran.
//!
//! There is a record for each of [`sync::RECORDS_MAX`] threads at a time, in one array that lives as long
//! as the process; further threads count their pins. A thread takes a record at its first pin and returns
//! it at its end. Pins that it left with other threads stay in their slots, and the next owner uses the
//! slots beside them. A pin whose guard is leaked stays for good: its page is never evicted, and if its
//! cache is gone its address may keep a page of a later cache in memory, but no more than that.
//!
//! [`sync::RECORDS_MAX`]: crate::frames::sync::RECORDS_MAX

pub(crate) use crate::frames::sync::RECORDS_MAX;
use crate::frames::sync::{AtomicBool, AtomicUsize, Ordering, fence, global, thread_local};
use core::cell::Cell;

/// Slots of a record: what one 64-byte line holds. A thread that holds more pins than this counts the
/// others.
const SLOTS: usize = 8;

/// One thread's hazard pins. Two lines, because some processors fetch lines in pairs.
#[repr(align(128))]
struct Record {
    /// Addresses of pinned frames, 0 for none. Only the owner puts one in; any thread may take one
    /// out.
    slots: [AtomicUsize; SLOTS],
    owned: AtomicBool,
    /// Slots (bits) whose pins are left from owners before this one.
    inherited: AtomicUsize,
}

struct Records {
    records: [Record; RECORDS_MAX],
    /// Records from this one on were never owned.
    used: AtomicUsize,
}

global! {
    static RECORDS: Records = Records::new();
}

thread_local! {
    /// The number of the thread's record, or [`NO_RECORD`]. Nothing to initialise and nothing to drop, so
    /// that reading it is one instruction.
    static RECORD: Cell<usize> = const { Cell::new(NO_RECORD) };
}

const NO_RECORD: usize = usize::MAX;

thread_local! {
    /// Gives the record back when the thread ends. Touched only when a record is taken.
    static AT_EXIT: AtExit = const { AtExit(Cell::new(NO_RECORD)) };
}

struct AtExit(Cell<usize>);

impl Drop for AtExit {
    fn drop(&mut self) {
        if let Some(record) = RECORDS.records.get(self.0.get()) {
            let _ = RECORD.try_with(|number| number.set(NO_RECORD));
            record.owned.store(false, Ordering::Release); // H6
        }
    }
}

/// The number of a slot that names a frame, until [`Hazard::clear`]. A number, so that a pin fits two
/// registers.
#[must_use = "a hazard that is not cleared pins its frame for ever"]
#[derive(Clone, Copy)]
pub(crate) struct Hazard(pub(crate) u16);

impl Hazard {
    /// Writes `address`, which is not 0, into a free slot of the calling thread. `None`: no slot is free,
    /// or the thread has no record.
    #[inline]
    pub(crate) fn publish(address: usize) -> Option<Hazard> {
        let mut number = RECORD.try_with(Cell::get).ok()?;
        if number == NO_RECORD {
            number = take_record()?;
        }
        let record = RECORDS.records.get(number)?;
        // Acquire: H5. The first slot is free unless the thread holds other pins.
        let slot = match record.slots[0].load(Ordering::Acquire) {
            0 => 0,
            _ => record.free_slot()?,
        };
        record.slots[slot].store(address, Ordering::SeqCst); // H1
        Some(Hazard((number * SLOTS + slot) as u16))
    }

    /// The number of the record of the hazard with this number.
    #[inline]
    pub(crate) fn record_of(hazard: u64) -> u64 {
        hazard / SLOTS as u64
    }

    /// Takes the frame's address out of its slot. On any thread.
    #[inline]
    pub(crate) fn clear(self) {
        let slot = usize::from(self.0);
        RECORDS.records[slot / SLOTS].slots[slot % SLOTS].store(0, Ordering::Release); // H5
    }
}

impl Records {
    const fn new() -> Records {
        const { assert!(RECORDS_MAX * SLOTS <= 1 << u16::BITS) };
        Records {
            records: [const { Record::new() }; RECORDS_MAX],
            used: AtomicUsize::new(0),
        }
    }
}

impl Record {
    const fn new() -> Record {
        Record {
            slots: [const { AtomicUsize::new(0) }; SLOTS],
            owned: AtomicBool::new(false),
            inherited: AtomicUsize::new(0),
        }
    }

    #[inline(never)]
    fn free_slot(&self) -> Option<usize> {
        self.slots
            .iter()
            .position(|slot| slot.load(Ordering::Acquire) == 0)
    }
}

/// Calls `visit` with every address in every slot. Reads one line for each thread that there was at a
/// time.
pub(crate) fn scan(mut visit: impl FnMut(usize)) {
    fence(Ordering::SeqCst); // H4
    let used = RECORDS.used.load(Ordering::Acquire);
    for slot in RECORDS.records.iter().take(used).flat_map(|record| &record.slots) {
        // H2, and H5 by the acquire in it.
        match slot.load(Ordering::SeqCst) {
            0 => {}
            address => visit(address),
        }
    }
}

/// Whether a slot holds `address`.
pub(crate) fn names(address: usize) -> bool {
    let mut found = false;
    scan(|named| found |= named == address);
    found
}

#[cold]
fn take_record() -> Option<usize> {
    let take = |record: &Record| {
        record
            .owned
            .compare_exchange(false, true, Ordering::Acquire, Ordering::Relaxed) // H6
            .is_ok()
    };
    // At the end of a thread, when this is gone, a record taken now would never be returned.
    let number = AT_EXIT.try_with(|at_exit| {
        let number = RECORDS.records.iter().position(take)?;
        at_exit.0.set(number);
        Some(number)
    });
    let number = number.ok()??;
    RECORDS.used.fetch_max(number + 1, Ordering::AcqRel);
    fence(Ordering::SeqCst); // H4
    let record = &RECORDS.records[number];
    let is_left = |slot: &usize| record.slots[*slot].load(Ordering::Relaxed) != 0;
    let inherited = (0..SLOTS).filter(is_left).fold(0, |bits, slot| bits | 1 << slot);
    record.inherited.store(inherited, Ordering::Relaxed);
    RECORD.with(|own| own.set(number));
    Some(number)
}

/// The number of the calling thread's record, if it has one.
#[inline]
pub(crate) fn own_record_taken() -> Option<usize> {
    let number = RECORD.try_with(Cell::get).ok()?;
    (number != NO_RECORD).then_some(number)
}

/// The same; it takes one if it has none. `None`: there is none to be had.
#[inline]
pub(crate) fn own_record() -> Option<usize> {
    own_record_taken().or_else(take_record)
}

/// Whether the calling thread has a pin in a slot.
#[inline]
pub(crate) fn has_own() -> bool {
    own_record_taken().is_some_and(|number| {
        let slots = RECORDS.records[number].slots.iter();
        slots.fold(0, |bits, slot| bits | slot.load(Ordering::Relaxed)) != 0
    })
}

/// Calls `visit` with the slots into which the calling thread has put an address, and with that.
pub(crate) fn each_own(mut visit: impl FnMut(Hazard, usize)) {
    let Some(number) = own_record_taken() else {
        return;
    };
    let record = &RECORDS.records[number];
    for (slot, address) in record.slots.iter().enumerate() {
        let inherited = record.inherited.load(Ordering::Relaxed);
        match address.load(Ordering::Acquire) {
            // Whatever is here next is this thread's.
            0 => record
                .inherited
                .store(inherited & !(1 << slot), Ordering::Relaxed),
            address if inherited & 1 << slot == 0 => visit(Hazard((number * SLOTS + slot) as u16), address),
            _ => {}
        }
    }
}
