//! Steps from word to word, and the words that no step may leave or make.

use super::*;
use crate::frames::sync;

fn free() -> Word {
    Word::ABSENT.after(Step::Add).unwrap()
}

fn after(mut word: Word, steps: &[Step]) -> Word {
    for &step in steps {
        word = word
            .after(step)
            .unwrap_or_else(|why| panic!("{step:?} of {word:?}: {why:?}"));
    }
    word
}

fn resident() -> Word {
    after(free(), &[Step::Load, Step::Loaded])
}

fn dirty() -> Word {
    after(resident(), &[Step::Claim, OWN, Step::Release])
}

const OWN: Step = Step::Own { change: true };
const PIN_POLITELY: Step = Step::Pin { polite: true };
const EVICT: Step = Step::Evict { dirty_too: false };
const FORGET: Step = Step::Evict { dirty_too: true };

const ALL: [Step; 34] = [
    Step::Add,
    Step::Withdraw,
    Step::Load,
    Step::Loaded,
    Step::LoadedPinned,
    Step::LoadedExclusive,
    Step::Failed,
    PIN_POLITELY,
    Step::Pin { polite: false },
    Step::Unpin,
    Step::Use,
    Step::TakeUses,
    Step::Claim,
    Step::Unclaim,
    OWN,
    Step::Own { change: false },
    Step::Release,
    Step::Wait { wanted: true },
    Step::Wait { wanted: false },
    Step::Wake,
    Step::Unwant,
    Step::Map,
    Step::Unmap,
    Step::Alone,
    Step::Open,
    Step::Shut,
    Step::Vacate,
    EVICT,
    FORGET,
    Step::Stay,
    Step::Leave,
    Step::BeginWrite,
    Step::BeginWritePinned,
    Step::EndWrite,
];

/// Every word that any sequence of steps can reach, with at most two pins.
fn reachable() -> Vec<Word> {
    let (mut seen, mut todo) = (vec![Word::ABSENT.0], vec![Word::ABSENT]);
    while let Some(word) = todo.pop() {
        for step in ALL.into_iter().chain([Step::FailWrite]) {
            // Heat only counts; two of its values stand for all.
            let heat = |word: Word| match (word.0 & HEAT) >> HEAT_SHIFT {
                2 => Word(word.0 | HEAT),
                _ => word,
            };
            let Ok(next) = word.after(step).map(heat) else {
                continue;
            };
            if next.pins() <= 2 && !seen.contains(&next.0) {
                seen.push(next.0);
                todo.push(next);
            }
        }
    }
    seen.into_iter().map(Word).collect()
}

#[test]
fn marks_keep_their_promises_in_every_reachable_word() {
    let words = reachable();
    assert!(words.len() > 500, "only {} words", words.len());
    for word in words {
        assert!(!word.has(BIASED) || word.has(HAZARDS), "S1: {word:?}");
        assert!(!word.has(BIASED) || !word.has(EXCLUSIVE), "S1: {word:?}");
        assert!(word.pins() == 0 || !word.has(EXCLUSIVE), "S3: {word:?}");
        assert!(
            word.pins() == 0 || word.state() == State::Resident,
            "S3: {word:?}"
        );
        if word.state() != State::Resident && word.state() != State::Leaving {
            assert_eq!(
                word.0 & !(STATE | WAITERS),
                0,
                "only residents have marks: {word:?}"
            );
        }
        assert!(!word.is_mapped_alone() || !word.has(BIASED), "M: {word:?}");
        if word.is_mapped() {
            let refused = [Step::Claim, EVICT, FORGET].map(|step| word.after(step));
            assert_eq!(refused, [Err(Refusal::Mapped); 3], "S3: {word:?}");
        }
        if let Ok(left) = word.after(EVICT) {
            assert!(!left.has(DIRTY | WRITEBACK | EXCLUSIVE), "S4: {word:?}");
        }
        if let Ok(owned) = word.after(OWN) {
            assert!(owned.has(DIRTY) && !owned.has(HAZARDS), "S4: {word:?}");
        }
    }
}

#[test]
fn steps_that_only_a_mistake_asks_for_are_illegal() {
    let unbiased = dirty();
    let exclusive = after(unbiased, &[Step::Claim]);
    let writing = after(unbiased, &[Step::BeginWrite]);
    let leaving = after(unbiased, &[FORGET]);
    let cases = [
        (Word::ABSENT, Step::Load),
        (free(), Step::Add),
        (free(), Step::Loaded),
        (free(), Step::Unpin),
        (Word::ABSENT, Step::TakeUses),
        (resident(), Step::Load),
        (resident(), Step::Loaded),
        (resident(), Step::Withdraw),
        (resident(), Step::Unpin),
        (resident(), Step::Release),
        (resident(), OWN),
        (resident(), Step::Unclaim),
        (resident(), Step::Leave),
        (resident(), Step::Stay),
        (resident(), Step::BeginWrite),
        (resident(), Step::BeginWritePinned),
        (resident(), Step::EndWrite),
        (writing, Step::BeginWrite),
        (writing, Step::BeginWritePinned),
        (
            after(writing, &[Step::Claim, OWN, Step::Release]),
            Step::BeginWrite,
        ),
        (exclusive, Step::Unclaim),
        (leaving, Step::Loaded),
        (leaving, Step::Release),
    ];
    for (word, step) in cases {
        assert_eq!(word.after(step), Err(Refusal::Illegal), "{step:?} of {word:?}");
    }
}

#[test]
fn a_page_that_a_mapping_has_is_read_until_it_has_it_alone_and_changed_when_it_gave_it_back() {
    let mapped = after(resident(), &[PIN_POLITELY, Step::Map]);
    assert_eq!(mapped.after(Step::Alone), Err(Refusal::Pinned));
    let alone = after(mapped, &[Step::Unpin, Step::Alone, Step::Own { change: false }]);
    assert!(!alone.is_exclusive(), "no thread changes it");
    assert_eq!(alone.after(PIN_POLITELY), Err(Refusal::Mapped));
    let shared = after(alone, &[Step::Release, PIN_POLITELY, Step::Unpin]);
    assert!(after(shared, &[Step::Unmap, Step::Claim]).is_exclusive());
    assert_eq!(after(alone, &[Step::Vacate, Step::Leave]), free());
    for kept in [
        after(dirty(), &[Step::Map]),
        after(dirty(), &[Step::BeginWrite, Step::Map]),
    ] {
        assert_eq!(kept.after(Step::Alone), Err(Refusal::Dirty));
    }
    let wanted = after(resident(), &[Step::Map, Step::Wait { wanted: true }]);
    assert_eq!(wanted.after(Step::Alone), Err(Refusal::Wanted));
}

#[test]
fn a_page_that_is_written_in_a_mapping_is_dirty_and_nobody_s_until_it_is_shut() {
    let mapped = after(resident(), &[Step::Map]);
    let pinned = after(mapped, &[PIN_POLITELY]);
    assert_eq!(pinned.after(Step::Open), Err(Refusal::Pinned));
    assert_eq!(resident().after(Step::Open), Err(Refusal::Illegal));
    let alone = after(mapped, &[Step::Alone]);
    for before in [mapped, alone, after(dirty(), &[Step::BeginWrite, Step::Map])] {
        let open = after(before, &[Step::Open, OWN]);
        assert!(open.is_open() && open.is_dirty() && !open.is_exclusive());
        assert_eq!(open.after(PIN_POLITELY), Err(Refusal::Mapped));
        assert_eq!(open.after(Step::BeginWrite), Err(Refusal::Exclusive));
        assert_eq!(open.after(Step::Unmap), Err(Refusal::Illegal));
        if open.is_writeback() {
            // The device still reads what was in the frame.
            let refused = [Step::Shut, Step::Vacate].map(|step| open.after(step));
            assert_eq!(refused, [Err(Refusal::Illegal); 2]);
            assert!(after(open, &[Step::EndWrite]).is_open());
            continue;
        }
        let shut = after(open, &[Step::Shut]);
        assert!(shut.is_dirty() && !shut.is_mapped());
        assert!(after(shut, &[Step::BeginWrite]).is_writeback());
    }
}

#[test]
#[should_panic(expected = "Unpin is no step of Resident uses=0 pins=0 biased hazards")]
fn illegal_step_panics_with_the_word() {
    sync::run(|| {
        must(&AtomicU64::new(resident().0), Step::Unpin);
    });
}

#[test]
fn pages_in_use_do_not_leave() {
    let pinned = after(resident(), &[PIN_POLITELY]);
    assert_eq!(pinned.after(EVICT), Err(Refusal::Pinned));
    assert_eq!(pinned.after(FORGET), Err(Refusal::Pinned));
    assert_eq!(pinned.after(Step::Claim), Err(Refusal::Pinned));
    let exclusive = after(resident(), &[Step::Claim]);
    assert_eq!(exclusive.after(FORGET), Err(Refusal::Exclusive));
    assert_eq!(exclusive.after(PIN_POLITELY), Err(Refusal::Exclusive));
    assert_eq!(dirty().after(EVICT), Err(Refusal::Dirty));
    assert!(dirty().after(FORGET).is_ok());
    let writing = after(dirty(), &[Step::BeginWrite]);
    assert_eq!(writing.after(EVICT), Err(Refusal::Writeback));
    assert_eq!(writing.after(FORGET), Err(Refusal::Writeback));
    let loading = after(free(), &[Step::Load]);
    assert_eq!(loading.after(EVICT), Err(Refusal::Loading));
}

#[test]
fn change_during_a_write_is_a_new_dirty_edge() {
    let writing = after(dirty(), &[Step::BeginWrite]);
    assert!(!writing.is_dirty());
    let changed = after(writing, &[Step::Claim, OWN, Step::Release, Step::EndWrite]);
    assert!(changed.is_dirty() && !changed.is_writeback());
    assert!(after(writing, &[Step::FailWrite]).is_dirty());
    assert!(!after(writing, &[Step::EndWrite]).is_dirty());
}

#[test]
fn page_that_is_pinned_by_its_write_does_not_change_and_was_not_used() {
    let before = dirty();
    let pinned = after(before, &[Step::BeginWritePinned]);
    assert_eq!(pinned.after(Step::Claim), Err(Refusal::Pinned));
    assert_eq!(pinned.uses(), before.uses());
    assert!(after(pinned, &[Step::Unpin, Step::Claim]).is_writeback());
    let exclusive = after(before, &[Step::Claim]);
    assert_eq!(exclusive.after(Step::BeginWritePinned), Err(Refusal::Exclusive));
}

#[test]
fn uses_saturate_and_are_taken_once() {
    sync::run(|| {
        let word = AtomicU64::new(resident().0);
        for expected in [1, 2, 3, 3] {
            note_use(&word, Word::load(&word, Ordering::Relaxed));
            assert_eq!(Word::load(&word, Ordering::Relaxed).uses(), expected);
        }
        assert_eq!(test_and_clear_accessed(&word), 3);
        assert_eq!(test_and_clear_accessed(&word), 0);
    });
}

#[test]
fn written_page_is_biased_again_after_sixty_four_pins() {
    let mut word = dirty();
    for pins in 1..=64 {
        assert!(!word.is_biased(), "after {} pins", pins - 1);
        word = after(word, &[PIN_POLITELY, Step::Unpin]);
    }
    assert!(word.is_biased());
    assert!(!after(word, &[Step::Claim]).has(BIASED));
}

#[test]
fn waiting_writer_goes_before_polite_readers_and_keeps_the_bias_off() {
    let held = after(dirty(), &[PIN_POLITELY, Step::Wait { wanted: true }]);
    assert_eq!(held.after(PIN_POLITELY), Err(Refusal::Wanted));
    let mut word = held;
    for _ in 0..100 {
        word = after(word, &[Step::Pin { polite: false }, Step::Unpin]);
    }
    assert!(!word.has(BIASED));
    let owned = after(word, &[Step::Unpin, Step::Claim]);
    assert!(!owned.is_wanted());
}
