//! The same steps once more, over the simulator's frames.

use crate::twin::tape::Recording;
use millpond::internal::Answer;
use millpond_core::event::{Effect, Effects, Event};
use millpond_core::frame::{BeginWrite, FrameTable};
use millpond_core::io::IoId;
use millpond_core::manager::Manager;
use millpond_core::units::{FrameNo, PageKey};
use millpond_sim::frames::SimFrames;
use std::cell::RefCell;
use std::collections::HashMap;

/// The simulator's frames, which take from the recording only what they can't know.
struct Twin<'a> {
    frames: SimFrames,
    answers: RefCell<std::slice::Iter<'a, Answer>>,
}

impl Twin<'_> {
    fn next(&self) -> Answer {
        let answer = self.answers.borrow_mut().next().cloned();
        answer.expect("the twin asks what was not asked")
    }

    fn remove(&mut self, key: PageKey, frame: FrameNo) {
        assert_eq!(self.frames.lookup(key), Some(frame), "{key:?} leaves {frame:?}");
        self.frames.remove(frame);
    }
}

impl FrameTable for Twin<'_> {
    fn key(&self, frame: FrameNo) -> PageKey {
        let key = self.frames.key(frame);
        assert_eq!(self.next(), Answer::Key(frame, key));
        key
    }

    fn lookup(&self, key: PageKey) -> Option<FrameNo> {
        let frame = self.frames.lookup(key);
        assert_eq!(self.next(), Answer::Lookup(key, frame));
        frame
    }

    fn test_and_clear_accessed(&mut self, frame: FrameNo) -> u8 {
        match self.next() {
            Answer::Uses(of, uses) if of == frame => uses,
            other => panic!("the twin asks how often {frame:?} was used, the engine got {other:?}"),
        }
    }

    fn tracks_accesses(&self, frame: FrameNo) -> bool {
        match self.next() {
            Answer::SeesUses(of, sees) if of == frame => sees,
            other => panic!("the twin asks whether uses of {frame:?} are seen, the engine got {other:?}"),
        }
    }

    fn evict(&mut self, frames: &mut Vec<FrameNo>) {
        let Answer::Evict { asked, gone } = self.next() else {
            panic!("the twin evicts {frames:?}")
        };
        assert_eq!(*frames, asked, "the pages that are to leave");
        for &frame in &gone {
            let state = *self.frames.frame(frame);
            assert!(
                !state.dirty && !state.loading,
                "{frame:?} has left memory, and is {state:?}"
            );
            self.remove(state.key, frame);
        }
        *frames = gone;
    }

    fn begin_write(&mut self, frame: FrameNo) -> BeginWrite {
        let Answer::BeginWrite(of, begun) = self.next() else {
            panic!("the twin writes {frame:?}")
        };
        assert_eq!(of, frame);
        let state = self.frames.frame(frame);
        assert!(state.dirty, "{frame:?} is to be written, and is {state:?}");
        state.dirty = begun != BeginWrite::Begun;
        begun
    }
}

/// Does the same again, and compares.
pub(crate) fn replay(recording: &Recording) {
    let mut manager = Manager::new(recording.options.clone(), recording.frames).unwrap();
    let mut twin = Twin {
        frames: SimFrames::default(),
        answers: RefCell::new([].iter()),
    };
    let mut ios: HashMap<IoId, Vec<FrameNo>> = HashMap::new();
    let mut effects = Effects::default();
    for (n, step) in recording.steps.iter().enumerate() {
        before_step(&mut twin, &mut ios, &step.event);
        twin.answers = RefCell::new(step.answers.iter());
        manager.step(step.now, step.event.clone(), &mut twin, &mut effects);
        let left = twin.answers.borrow_mut().next().cloned();
        assert_eq!(left, None, "step {n}, {:?}: the twin asks less", step.event);
        assert_eq!(effects.list, step.effects.list, "step {n}, {:?}", step.event);
        assert_eq!(
            (&effects.frames, effects.next_tick),
            (&step.effects.frames, step.effects.next_tick),
            "step {n}, {:?}",
            step.event
        );
        after_step(&mut twin, &mut ios, &effects);
        if n % 100 == 0 {
            manager.validate(&twin.frames);
        }
    }
}

/// What a driver has done with its frames when it reports this event.
fn before_step(twin: &mut Twin<'_>, ios: &mut HashMap<IoId, Vec<FrameNo>>, event: &Event<'_>) {
    match event {
        Event::ReadDone { io, result } => {
            for frame in ios.remove(io).unwrap() {
                match result {
                    Ok(()) => twin.frames.frame(frame).loading = false,
                    Err(_) => twin.remove(twin.frames.key(frame), frame),
                }
            }
        }
        Event::WriteDone { io, result } => {
            for frame in ios.remove(io).unwrap() {
                twin.frames.frame(frame).dirty |= result.is_err();
            }
        }
        Event::Dirtied {
            file, first, frames, ..
        } => {
            for (n, &frame) in (0..).zip(frames.iter()) {
                assert_eq!(twin.frames.key(frame), PageKey::new(*file, first.after(n)));
                twin.frames.frame(frame).dirty = true;
            }
        }
        Event::Discarded { file, pages } => {
            for &(page, frame) in *pages {
                twin.remove(PageKey::new(*file, page), frame);
            }
        }
        _ => {}
    }
}

/// What a driver does with its frames for these effects.
fn after_step(twin: &mut Twin<'_>, ios: &mut HashMap<IoId, Vec<FrameNo>>, effects: &Effects) {
    for effect in &effects.list {
        match effect {
            Effect::Read {
                io,
                file,
                first,
                frames,
                ..
            } => {
                let frames = effects.frames(frames);
                twin.frames.enter_all(*file, *first, frames, true);
                ios.insert(*io, frames.to_vec());
            }
            Effect::Grant { file, first, frames } => {
                let frames = effects.frames(frames);
                twin.frames.enter_all(*file, *first, frames, false);
            }
            Effect::Write { io, frames, .. } => {
                ios.insert(*io, effects.frames(frames).to_vec());
            }
            _ => {}
        }
    }
}
