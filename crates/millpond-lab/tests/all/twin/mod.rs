//! The engine and the simulator drive the same machine: what the engine's machine did among threads, on real files, it
//! does again in the simulator's frames, where nothing happens but what is told, effect for effect.
//!
//! ```text
//!   engine      events, times ──► Manager ──► effects          recorded, with the answers of the engine's frames
//!                                                 ║ the same?
//!   simulator   events, times ──► Manager ──► effects ──► SimFrames
//! ```
//!
//! From the recording come the answers that only threads can give: how often a page was used, whether a
//! thread holds it. Which page is in which frame, which are loading and which dirty, the simulator's frames
//! find out by themselves from events and effects, as in a simulated world, and the recorded answers are held
//! against that.

#![allow(
    clippy::unwrap_used,
    clippy::print_stdout,
    reason = "a test fails by panicking, and says how much it has compared"
)]

mod record;
mod replay;
mod tape;

use millpond::internal::Answer;
use millpond_core::event::{Effect, Event};
use millpond_core::frame::BeginWrite;
use record::record;
use replay::replay;
use std::collections::BTreeSet;
use std::panic::{AssertUnwindSafe, catch_unwind};
use tape::Kept;

/// The word that a value's Debug text begins with.
fn name(of: &impl std::fmt::Debug) -> String {
    let text = format!("{of:?}");
    let end = text.find(|c: char| !c.is_alphanumeric()).unwrap_or(text.len());
    text[..end].to_owned()
}

#[test]
fn the_engines_machine_does_the_same_again_in_the_simulators_frames() {
    let recording = record();
    let steps = &recording.steps;
    let names = |all: &mut dyn Iterator<Item = String>| all.collect::<BTreeSet<_>>();
    let events = names(&mut steps.iter().map(|step| name(&step.event)));
    let effects = names(&mut steps.iter().flat_map(|step| step.effects.list.iter().map(name)));
    let answers = || steps.iter().flat_map(|step| &step.answers);
    let (uses, kept, busy) = answers().fold((0, 0, 0), |(uses, kept, busy), answer| match answer {
        Answer::Uses(_, n) if *n > 0 => (uses + 1, kept, busy),
        Answer::Evict { asked, gone } if asked != gone => (uses, kept + 1, busy),
        Answer::BeginWrite(_, BeginWrite::Busy) => (uses, kept, busy + 1),
        _ => (uses, kept, busy),
    });
    println!(
        "{} steps, {} answers: {uses} pages used, {kept} evictions and {busy} writes refused",
        steps.len(),
        answers().count()
    );
    // A recording in which little happens shows little.
    assert_eq!(events.len(), 19, "{events:?}");
    assert_eq!(effects.len(), 11, "{effects:?}");
    assert!(uses > 0 && kept > 0 && busy > 0);

    replay(&recording);

    // What is not the same is noticed: a time, an event, and answers of each kind that comes from threads.
    // Of the first half: what is changed in one of the last steps may come to nothing before the end.
    let first_half = &steps[..steps.len() / 2];
    let at = |is_so: &dyn Fn(&Kept) -> bool| first_half.iter().rposition(is_so).unwrap();
    let is_noticed = |what: &str, at: usize, change: &dyn Fn(&mut Vec<Kept>)| {
        let mut changed = recording.clone();
        change(&mut changed.steps);
        let replayed = catch_unwind(AssertUnwindSafe(|| replay(&changed)));
        assert!(
            replayed.is_err(),
            "nobody notices {what} of step {at}, {:?}",
            steps[at]
        );
    };
    let tick = at(&|step| matches!(step.event, Event::Tick) && step.effects.next_tick.is_some());
    is_noticed("the time", tick, &|steps| steps[tick].now.0 += 1);
    let read = at(&|step| matches!(step.effects.list.first(), Some(Effect::Read { .. })));
    is_noticed("the loss", read, &|steps| drop(steps.remove(read)));
    let written = |answer: &Answer| matches!(answer, Answer::BeginWrite(_, BeginWrite::Begun));
    let write = at(&|step| step.answers.iter().any(written));
    is_noticed("a write", write, &|steps| {
        let answer = steps[write]
            .answers
            .iter_mut()
            .find(|answer| written(answer))
            .unwrap();
        let Answer::BeginWrite(_, begun) = answer else {
            unreachable!()
        };
        *begun = BeginWrite::Busy;
    });
    let is_evicted = |answer: &Answer| matches!(answer, Answer::Evict { gone, .. } if !gone.is_empty());
    let evict = at(&|step| step.answers.iter().any(is_evicted));
    is_noticed("an eviction", evict, &|steps| {
        let answer = steps[evict]
            .answers
            .iter_mut()
            .find(|answer| is_evicted(answer))
            .unwrap();
        let Answer::Evict { gone, .. } = answer else {
            unreachable!()
        };
        gone.pop();
    });
}
