//! Which thread holds which page by a guard: a call that would wait for a guard of its own thread is an error,
//! instead of a wait for ever.
//!
//! ```text
//!   guard, pinned by a hazard ──► the thread's slot says it already                    costs a hit nothing
//!   any other guard ────────────► a note in the thread's list, until it is dropped     an own lock, not contended
//! ```
//!
//! A guard is its maker's, until another thread looks at its bytes: from then on it is no thread's, and is waited for. An
//! owned guard may be elsewhere unseen (in a channel, in `Bytes`), so a call waits a while for one before it is refused.

use super::hazard::{self, Hazard};
use super::table::{SharedPin, Table};
use crate::sys::forks::OfProcess;
use millpond_core::units::{FileId, PageIndex, PageKey};
use std::cell::Cell;
use std::collections::BTreeSet;
use std::ops::Range;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

/// What a call would wait for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Waits {
    /// Threads that change a page.
    ForWriters,
    /// Threads that read it as well.
    ForAll,
}

/// The kind of guard that holds a page.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Kind {
    pub(crate) changes: bool,
    /// It may be in the hands of another thread that has not used it.
    pub(crate) is_owned: bool,
}

/// A page of which the calling thread has a guard.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Held {
    pub(crate) page: PageIndex,
    pub(crate) kind: Kind,
}

/// A list for each thread that can have a hazard record. Guards of further threads are not noted.
static NOTES: [Notes; hazard::RECORDS_MAX] = [const { Notes::new() }; hazard::RECORDS_MAX];

/// Hazards whose guards other threads have used.
static FOREIGN: OfProcess<BTreeSet<u16>> = OfProcess::new();

/// A line of its own, as its thread writes it often.
#[repr(align(64))]
struct Notes {
    list: OfProcess<List>,
    /// Their number: a thread sees its own at once.
    count: AtomicUsize,
}

impl Notes {
    const fn new() -> Notes {
        Notes {
            list: OfProcess::new(),
            count: AtomicUsize::new(0),
        }
    }
}

#[derive(Default)]
struct List {
    notes: Vec<Option<Note>>,
    free: Vec<u32>,
    serial: u64,
}

struct Note {
    by: u64,
    thread: u64,
    /// The table's address: guards of different caches are kept apart.
    table: usize,
    key: PageKey,
    kind: Kind,
}

const NO_THREAD: u64 = 0;

thread_local! {
    static THREAD: Cell<u64> = const { Cell::new(NO_THREAD) };
}

/// The number of a note: its list's and one more, then what tells it from others that were there, then where it is.
const LIST_SHIFT: u32 = 51;
const SERIAL_SHIFT: u32 = 24;
const FIRST_NOTE: u64 = 1 << LIST_SHIFT;
/// A hazard that is in [`FOREIGN`], with its number in the bits below.
const FOREIGN_HAZARD: u64 = 1 << 50;
/// No guard and no hazard.
const NO_NOTE: u64 = u64::MAX;

fn number_of(list: usize, serial: u64, at: usize) -> u64 {
    let serial = serial & ((1 << (LIST_SHIFT - SERIAL_SHIFT)) - 1);
    (list as u64 + 1) << LIST_SHIFT | serial << SERIAL_SHIFT | at as u64
}

/// A guard is there, until this is dropped: before the pin is.
///
/// One word, because a hit returns it: the number of the hazard, of the note, or one of the two above.
#[derive(Debug)]
pub(crate) struct OwnGuard(AtomicU64);

impl OwnGuard {
    /// A guard for reading, pinned by `hazard` if that is there.
    #[inline]
    pub(crate) fn of_pin<M>(table: &Table<M>, hazard: Option<Hazard>, key: PageKey) -> OwnGuard {
        let Some(hazard) = hazard else {
            let (changes, is_owned) = (false, false);
            return OwnGuard::new(table, key, Kind { changes, is_owned });
        };
        OwnGuard(AtomicU64::new(u64::from(hazard.0)))
    }

    /// While the pin is lent to what the thread calls.
    pub(crate) fn lent<M>(pin: &SharedPin<&Table<M>>) -> OwnGuard {
        OwnGuard::of_pin(pin.table(), pin.hazard(), pin.key())
    }

    /// Any other.
    pub(crate) fn new<M>(table: &Table<M>, key: PageKey, kind: Kind) -> OwnGuard {
        OwnGuard(AtomicU64::new(noted(table, key, kind).unwrap_or(NO_NOTE)))
    }

    /// The calling thread looks at the page.
    #[inline]
    pub(crate) fn is_used(&self) {
        // A thread that has its record from the guard's maker finds the slot among those it inherited, and the note to be
        // another thread's: whose guard it is does not matter any more.
        let by = self.0.load(Ordering::Relaxed);
        let record = match by < FIRST_NOTE {
            true => Hazard::record_of(by),
            false => (by >> LIST_SHIFT) - 1,
        };
        if hazard::own_record_taken().is_none_or(|own| own as u64 != record) {
            self.hand_on();
        }
    }

    /// It belongs to no thread from now on.
    #[inline]
    pub(crate) fn hand_on(&self) {
        // Threads that look at it for the first time at once do the same twice, which is once.
        let by = self.0.load(Ordering::Relaxed);
        self.0.store(handed_on(by), Ordering::Relaxed);
    }
}

impl Drop for OwnGuard {
    #[inline]
    fn drop(&mut self) {
        let by = *self.0.get_mut();
        if by >= FOREIGN_HAZARD {
            ended(by);
        }
    }
}

// By value, as the two above are: a guard whose address is taken is kept in memory, and a hit takes twice as long.

#[cold]
#[inline(never)]
fn handed_on(by: u64) -> u64 {
    match by {
        0..FOREIGN_HAZARD => {
            FOREIGN.lock().insert(by as u16);
            by | FOREIGN_HAZARD
        }
        FIRST_NOTE..NO_NOTE => {
            strike_out(by);
            NO_NOTE
        }
        FOREIGN_HAZARD..FIRST_NOTE | NO_NOTE => by,
    }
}

#[cold]
#[inline(never)]
fn ended(by: u64) {
    match by {
        NO_NOTE => {}
        FIRST_NOTE.. => strike_out(by),
        _ => {
            FOREIGN.lock().remove(&(by as u16));
        }
    }
}

/// The number of the new note. `None` if there is no room for one.
fn noted<M>(table: &Table<M>, key: PageKey, kind: Kind) -> Option<u64> {
    let number = hazard::own_record()?;
    let notes = &NOTES[number];
    let mut list = notes.list.lock();
    let at = match list.free.pop() {
        Some(at) => at as usize,
        None if list.notes.len() < 1 << SERIAL_SHIFT => {
            list.notes.push(None);
            list.notes.len() - 1
        }
        None => return None,
    };
    list.serial += 1;
    let by = number_of(number, list.serial, at);
    list.notes[at] = Some(Note {
        by,
        thread: this_thread(),
        table: std::ptr::from_ref(table).addr(),
        key,
        kind,
    });
    notes.count.fetch_add(1, Ordering::Relaxed);
    Some(by)
}

fn strike_out(by: u64) {
    let notes = &NOTES[(by >> LIST_SHIFT) as usize - 1];
    let mut list = notes.list.lock();
    let at = (by & ((1 << SERIAL_SHIFT) - 1)) as usize;
    // In a forked child it is not there.
    if list
        .notes
        .get(at)
        .is_some_and(|note| note.as_ref().is_some_and(|note| note.by == by))
    {
        list.notes[at] = None;
        list.free.push(at as u32);
        notes.count.fetch_sub(1, Ordering::Relaxed);
    }
}

/// A page among these whose guard the calling thread holds and would wait for. One that the thread can't have handed on comes
/// before others.
#[inline]
pub(crate) fn held<M>(table: &Table<M>, file: FileId, pages: Range<u64>, waits: Waits) -> Option<Held> {
    let number = hazard::own_record_taken()?;
    let has_notes = NOTES[number].count.load(Ordering::Relaxed) > 0;
    if !has_notes && (waits == Waits::ForWriters || !hazard::has_own()) {
        return None;
    }
    let mut first = None::<Held>;
    each_held(number, table, waits, |key, kind| {
        let page = key.index();
        let rank = (kind.is_owned, page);
        if key.file() == file
            && pages.contains(&page.0)
            && first.is_none_or(|held| rank < (held.kind.is_owned, held.page))
        {
            first = Some(Held { page, kind });
        }
    });
    first
}

/// The first page among these that the calling thread holds by whatever guard.
pub(crate) fn first_held<M>(table: &Table<M>, file: FileId, pages: Range<u64>) -> Option<PageIndex> {
    let mut first = None;
    each_held(hazard::own_record_taken()?, table, Waits::ForAll, |key, _| {
        let page = key.index();
        if key.file() == file && pages.contains(&page.0) && first.is_none_or(|first| page < first) {
            first = Some(page);
        }
    });
    first
}

#[cold]
fn each_held<M>(number: usize, table: &Table<M>, waits: Waits, mut found: impl FnMut(PageKey, Kind)) {
    if waits == Waits::ForAll {
        hazard::each_own(|hazard, address| {
            let (changes, is_owned) = (false, false);
            if let Some(key) = table.key_at(address)
                && !FOREIGN.lock().contains(&hazard.0)
            {
                found(key, Kind { changes, is_owned });
            }
        });
    }
    let (thread, table) = (this_thread(), std::ptr::from_ref(table).addr());
    let list = NOTES[number].list.lock();
    let is_meant = |note: &&Note| {
        (note.thread, note.table) == (thread, table) && (note.kind.changes || waits == Waits::ForAll)
    };
    let noted = list.notes.iter().flatten();
    noted.filter(is_meant).for_each(|note| found(note.key, note.kind));
}

/// Unlike its record's, a thread's number is no other thread's after it.
fn this_thread() -> u64 {
    static NEXT: AtomicU64 = AtomicU64::new(NO_THREAD + 1);
    THREAD
        .try_with(|own| {
            if own.get() == NO_THREAD {
                own.set(NEXT.fetch_add(1, Ordering::Relaxed));
            }
            own.get()
        })
        .unwrap_or(NO_THREAD)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{File, OpenOptions, PageCache};

    fn is_held(file: &File) -> Option<u64> {
        let engine = file.engine();
        held(&engine.table, file.inner.id, 0..u64::MAX, Waits::ForAll).map(|held| held.page.0)
    }

    /// Its record is another thread's by then.
    #[test]
    fn a_guard_of_a_thread_that_has_ended_is_no_other_threads() {
        let folder = tempfile::tempdir().unwrap();
        let cache = PageCache::builder().memory(2 << 20).build().unwrap();
        let file = cache.open(folder.path().join("data"), OpenOptions::new().create(true));
        let file = &file.unwrap();
        file.write_at(&[1; 9 * 4096], 0).unwrap();
        drop(file.page(3).unwrap());
        let elsewhere =
            |page| std::thread::scope(|s| s.spawn(move || file.page(page).unwrap()).join().unwrap());
        let owned = || std::thread::scope(|s| s.spawn(|| file.page_owned(5).unwrap()).join().unwrap());
        // By a hazard, by a count.
        let guards = (elsewhere(3), owned());
        std::thread::scope(|scope| {
            let threads: Vec<_> = (0..8).map(|_| scope.spawn(|| is_held(file))).collect();
            let found: Vec<_> = threads.into_iter().map(|thread| thread.join().unwrap()).collect();
            assert_eq!(found, [None; 8]);
            // Its own there is found all the same, in the slot beside.
            let own = || (file.page(4).unwrap(), is_held(file)).1;
            assert_eq!(scope.spawn(own).join().unwrap(), Some(4));
        });
        drop(guards);
    }

    /// A thread's list keeps no place for what is gone, in whatever order guards are dropped.
    #[test]
    fn notes_are_struck_out_by_whichever_thread_drops_the_guard() {
        let folder = tempfile::tempdir().unwrap();
        let cache = PageCache::builder().memory(2 << 20).build().unwrap();
        let file = cache.open(folder.path().join("data"), OpenOptions::new().create(true));
        let file = &file.unwrap();
        file.write_at(&[1; 40 * 4096], 0).unwrap();
        std::thread::scope(|scope| {
            scope.spawn(|| {
                let mut guards: Vec<_> = (0..40).map(|page| file.page_owned(page).unwrap()).collect();
                let number = hazard::own_record_taken().unwrap();
                let places = || NOTES[number].list.lock().notes.len();
                let most = places();
                for n in 0..200 {
                    let at = n * 7 % guards.len();
                    let page = at as u64;
                    match n % 2 {
                        0 => drop(guards.swap_remove(at)),
                        _ => drop(std::thread::scope(|s| {
                            s.spawn(|| guards.swap_remove(at)).join().unwrap()
                        })),
                    }
                    guards.push(file.page_owned(page).unwrap());
                }
                assert_eq!(places(), most);
                assert!(is_held(file).is_some());
                drop(guards);
                let list = NOTES[number].list.lock();
                let mut left = list.notes.iter().flatten();
                assert!(left.all(|note| note.thread != this_thread()));
            });
        });
    }
}
