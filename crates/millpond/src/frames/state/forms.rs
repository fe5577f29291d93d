//! Steps in one instruction each, for the ways that are taken most.

use super::{EXCLUSIVE, PIN, Step, USES, WAITERS, WANTED, Word};
use crate::frames::sync::{AtomicU64, Ordering};

/// `Step::Unpin` in one instruction. Gives the word after it. Release: S7.
#[inline]
pub(crate) fn unpin(word: &AtomicU64) -> Word {
    let old = Word(word.fetch_sub(PIN, Ordering::Release));
    debug_assert!(old.after(Step::Unpin).is_ok(), "{:?} of {old:?}", Step::Unpin);
    Word(old.0.wrapping_sub(PIN))
}

/// `Step::Release` in one instruction. Gives the word after it. Release: S7.
#[inline]
pub(crate) fn release(word: &AtomicU64) -> Word {
    let old = Word(word.fetch_and(!EXCLUSIVE, Ordering::Release));
    debug_assert!(old.after(Step::Release).is_ok(), "{:?} of {old:?}", Step::Release);
    old.without(EXCLUSIVE)
}

/// `Step::Use`, if no other thread is changing the word: a use that is lost now and then does no harm.
/// Relaxed: S9.
#[inline]
pub(crate) fn note_use(word: &AtomicU64, seen: Word) {
    debug_assert!(seen.after(Step::Use).is_ok(), "{:?} of {seen:?}", Step::Use);
    let _ = word.compare_exchange(seen.0, seen.used().0, Ordering::Relaxed, Ordering::Relaxed);
}

/// `Step::TakeUses` in one instruction, or none if there are no uses. Gives the uses. Relaxed: S9.
#[inline]
pub(crate) fn test_and_clear_accessed(word: &AtomicU64) -> u8 {
    let seen = Word::load(word, Ordering::Relaxed);
    debug_assert!(
        seen.after(Step::TakeUses).is_ok(),
        "{:?} of {seen:?}",
        Step::TakeUses
    );
    if seen.uses() == 0 {
        0
    } else {
        Word(word.fetch_and(!USES, Ordering::Relaxed)).uses()
    }
}

/// `Step::Wake` in one instruction, under the stripe's lock. Relaxed: S9.
pub(crate) fn wake(word: &AtomicU64) {
    word.fetch_and(!WAITERS, Ordering::Relaxed);
}

/// `Step::Unwant` in one instruction. Relaxed: S9.
#[cold]
pub(crate) fn unwant(word: &AtomicU64) {
    word.fetch_and(!WANTED, Ordering::Relaxed);
}
