//! The engine and the simulator drive the same machine: what the engine's machine did among threads, on real files, it
//! does again in the simulator's frames, where nothing happens but what is told, effect for effect.
//!
//! ```text
//!   engine      events, times ──► Manager ──► effects          recorded, with the answers of the engine's frames
//!                                                 ║ the same?
//!   simulator   events, times ──► Manager ──► effects ──► SimFrames
//! ```
//!
//! From the recording come the answers that only threads can give: how often a page was used, whether somebody holds it.
//! Which page is in which frame, which are loading and which dirty, the simulator's frames find out by themselves from
//! events and effects, as in a simulated world, and the recorded answers are held against that.

#![allow(
    clippy::unwrap_used,
    clippy::print_stdout,
    reason = "a test fails by panicking, and says how much it has compared"
)]

use millpond::device::{self, Fault, FaultRule, FaultTarget, Faulty};
use millpond::record::{Answer, Recorder, Step};
use millpond::{Advice, Error, File, OpenOptions, Options, PageCache, Preset};
use millpond_core::event::{Effect, Effects, Event, IoId};
use millpond_core::frame::FrameTable;
use millpond_core::manager::Manager;
use millpond_core::units::{FileId, FrameNo, Instant, PageCount, PageIndex, PageKey};
use millpond_lab::sim::frames::SimFrames;
use std::cell::RefCell;
use std::collections::{BTreeSet, HashMap};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};

const PAGE: u64 = 4096;
/// Pages of a file: twice what memory has room for.
const PAGES: u64 = 700;
const MEMORY: u64 = 2 << 20;

/// One step, kept.
#[derive(Clone, Debug)]
struct Kept {
    now: Instant,
    event: Event<'static>,
    answers: Vec<Answer>,
    effects: Effects,
}

/// The steps of a cache so far.
#[derive(Clone, Debug, Default)]
struct Tape(Arc<Mutex<Vec<Kept>>>);

impl Recorder for Tape {
    fn step(&mut self, step: Step<'_>) {
        self.0.lock().unwrap().push(Kept {
            now: step.now,
            event: kept(step.event),
            answers: step.answers.to_vec(),
            effects: step.effects.clone(),
        });
    }
}

impl Tape {
    /// How many steps are so.
    fn count(&self, is_so: impl Fn(&Kept) -> bool) -> usize {
        let steps = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        steps.iter().filter(|&step| is_so(step)).count()
    }

    fn effects(&self, is_so: impl Fn(&Effect) -> bool) -> usize {
        self.count(|step| step.effects.list.iter().any(&is_so))
    }
}

/// The same event, for as long as the test runs.
fn kept(event: &Event<'_>) -> Event<'static> {
    match *event {
        Event::Opened { file, pages } => Event::Opened { file, pages },
        Event::Resized { file, pages } => Event::Resized { file, pages },
        Event::Closed { file } => Event::Closed { file },
        Event::Advised { file, pattern } => Event::Advised { file, pattern },
        Event::Fault {
            file,
            first,
            count,
            intent,
        } => Event::Fault {
            file,
            first,
            count,
            intent,
        },
        Event::ReadAheadDue { file, at } => Event::ReadAheadDue { file, at },
        Event::ReadDone { io, result } => Event::ReadDone { io, result },
        Event::WriteDone { io, result } => Event::WriteDone { io, result },
        Event::Dirtied {
            file,
            first,
            frames,
            dirtier,
        } => Event::Dirtied {
            file,
            first,
            frames: frames.to_vec().leak(),
            dirtier,
        },
        Event::Resume { dirtier } => Event::Resume { dirtier },
        Event::Sync { file, ticket } => Event::Sync { file, ticket },
        Event::Discarded { file, pages } => Event::Discarded {
            file,
            pages: pages.to_vec().leak(),
        },
        Event::Reclaim => Event::Reclaim,
        Event::Tick => Event::Tick,
        Event::Retuned(ref options) => Event::Retuned(options.clone()),
        Event::MemoryChanged { frames } => Event::MemoryChanged { frames },
    }
}

/// What a cache began with, and all that its machine did.
#[derive(Clone)]
struct Recording {
    options: Options,
    frames: PageCount,
    steps: Vec<Kept>,
}

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

    fn take_uses(&mut self, frame: FrameNo) -> u8 {
        match self.next() {
            Answer::Uses(of, uses) if of == frame => uses,
            other => panic!("the twin asks how often {frame:?} was used, the engine got {other:?}"),
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

    fn begin_write(&mut self, frame: FrameNo) -> bool {
        let Answer::BeginWrite(of, begun) = self.next() else {
            panic!("the twin writes {frame:?}")
        };
        assert_eq!(of, frame);
        let state = self.frames.frame(frame);
        assert!(state.dirty, "{frame:?} is to be written, and is {state:?}");
        state.dirty = !begun;
        begun
    }
}

/// Does the same again, and compares.
fn replay(recording: &Recording) {
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

/// What a driver has done with its frames when it tells of this event.
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
    let mut enter = |file: FileId, first: PageIndex, frames: &[FrameNo], loading| {
        for (n, &frame) in (0..).zip(frames) {
            let key = PageKey::new(file, first.after(n));
            twin.frames.enter(key, frame, loading);
        }
    };
    for effect in &effects.list {
        match effect {
            Effect::Read {
                io,
                file,
                first,
                frames,
                ..
            } => {
                enter(*file, *first, effects.frames(frames), true);
                ios.insert(*io, effects.frames(frames).to_vec());
            }
            Effect::Grant { file, first, frames } => enter(*file, *first, effects.frames(frames), false),
            Effect::Write { io, frames, .. } => {
                ios.insert(*io, effects.frames(frames).to_vec());
            }
            _ => {}
        }
    }
}

/// Numbers from a seed.
struct Draw(u64);

impl Draw {
    fn below(&mut self, n: u64) -> u64 {
        self.0 = self
            .0
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        ((u128::from(self.0) * u128::from(n)) >> 64) as u64
    }
}

struct Scene {
    cache: PageCache,
    device: Arc<Faulty>,
    files: Vec<File>,
    tape: Tape,
}

impl Scene {
    /// Gives others their turn until it is so; what it waits for is caused by other threads and comes about.
    fn until(&self, what: &str, is_so: impl Fn(&Tape) -> bool) {
        let began = std::time::Instant::now();
        while !is_so(&self.tape) {
            assert!(began.elapsed().as_secs() < 120, "{what} does not come about");
            std::thread::yield_now();
        }
    }

    /// Whatever a program may do. Errors may be: pages behind the end of a file that another cuts.
    fn play(&self, seed: u64, folder: &Path) -> Result<(), Error> {
        let mut draw = Draw(seed);
        let mut at = 0;
        for _ in 0..600 {
            let file = &self.files[draw.below(2) as usize];
            let page = draw.below(PAGES);
            match draw.below(100) {
                0..25 => drop(file.page(page)),
                25..50 => {
                    // On and on, so that reading ahead begins, and pages are used again.
                    let mut buf = vec![0; 5 * PAGE as usize];
                    at = (at + 5) % (PAGES / 2);
                    file.read_at(&mut buf, at * PAGE)?;
                }
                50..60 => drop(file.page_mut(page).map(|mut page| page[0] += 1)),
                60..85 => file.write_at(&vec![1; 1 + draw.below(50_000) as usize], page * PAGE)?,
                85..88 => file.sync_data()?,
                88..91 => file.set_len((PAGES / 2 + draw.below(PAGES / 2)) * PAGE + draw.below(PAGE))?,
                91..93 => file.prefetch(page * PAGE, 64 * PAGE)?,
                93..95 => {
                    let all = [Advice::Normal, Advice::Random, Advice::Sequential];
                    file.advise(all[draw.below(3) as usize])?;
                }
                95..97 => self.cache.set_memory(MEMORY / 2 + draw.below(MEMORY))?,
                97..98 => self
                    .cache
                    .set_options(Preset::ALL[draw.below(3) as usize].options())?,
                _ => {
                    let name = folder.join(format!("passing-{seed}"));
                    let passing = self.cache.open(name, OpenOptions::new().create(true))?;
                    passing.write_at(&[1; 30_000], 0)?;
                }
            }
        }
        Ok(())
    }

    /// What only comes about under pressure, and here for certain.
    fn press(&self) {
        let file = &self.files[0];
        self.cache.set_options(Options::default()).unwrap();
        self.cache.set_memory(MEMORY).unwrap();
        file.set_len(2 * PAGES * PAGE).unwrap();
        file.advise(Advice::Random).unwrap();
        self.cache.sync_all().unwrap();
        std::thread::scope(|scope| {
            // A page that is to be written is in somebody's hands.
            let refused = |step: &Kept| {
                step.answers
                    .iter()
                    .any(|a| matches!(a, Answer::BeginWrite(_, false)))
            };
            let before = self.tape.count(refused);
            let guard = file.page_mut(3).unwrap();
            let syncing = scope.spawn(|| file.sync_data());
            self.until("a refused write", |tape| tape.count(refused) > before);
            drop(guard);
            syncing.join().unwrap().unwrap();
        });
        std::thread::scope(|scope| {
            // All of memory is in somebody's hands.
            let waits = |effect: &Effect| matches!(effect, Effect::Wait { .. });
            let before = self.tape.effects(waits);
            let mut guards = Vec::new();
            while self.cache.stats().occupancy.free > self.cache.stats().derived.reserve {
                guards.push(file.page(guards.len() as u64).unwrap());
            }
            let faulting = scope.spawn(|| file.page(2 * PAGES - 1).map(drop));
            self.until("a wait for memory", |tape| tape.effects(waits) > before);
            drop(guards);
            faulting.join().unwrap().unwrap();
        });
        std::thread::scope(|scope| {
            // More is dirty than may be, and the device is slow.
            let pauses = |effect: &Effect| matches!(effect, Effect::Pause { .. });
            let before = self.tape.effects(pauses);
            self.device
                .add(FaultRule::always(FaultTarget::Writes, Fault::Hold));
            let writing = scope.spawn(|| file.write_at(&vec![2; 400 * PAGE as usize], 0));
            self.until("a pause", |tape| tape.effects(pauses) > before);
            self.device.clear();
            self.device.release().unwrap();
            writing.join().unwrap().unwrap();
        });
        file.sync_data().unwrap();
        // A device that fails now and then.
        let once = |target| FaultRule {
            times: 1,
            ..FaultRule::always(target, Fault::Fail(5))
        };
        file.write_at(&[1; 4096], 0).unwrap();
        self.device.add(once(FaultTarget::Writes));
        assert!(matches!(file.sync_data(), Err(Error::Write { .. })));
        file.sync_data().unwrap();
        self.device.add(once(FaultTarget::Reads));
        let failed = (0..2 * PAGES).find_map(|page| file.page(page).err());
        assert!(matches!(failed, Some(Error::Read { .. })), "{failed:?}");
        self.cache.set_memory(MEMORY / 2).unwrap();
        self.until("frames that are given back", |tape| {
            tape.effects(|effect| matches!(effect, Effect::Withdraw { .. })) > 0
        });
    }
}

/// Some seconds of an engine's life.
fn record() -> Recording {
    let folder = tempfile::tempdir().unwrap();
    let tape = Tape::default();
    let device = Arc::new(Faulty::new(device::best(), 1));
    let builder = PageCache::builder().memory(MEMORY).device(device.clone());
    let cache = builder.recorder(tape.clone()).build().unwrap();
    let (options, frames) = (cache.options(), cache.stats().derived.frames);
    let files = (0..2).map(|n: u64| {
        let path = folder.path().join(n.to_string());
        std::fs::write(&path, vec![n as u8; (PAGES * PAGE) as usize]).unwrap();
        cache.open(&path, OpenOptions::new().write(true)).unwrap()
    });
    let files = files.collect();
    let scene = Scene {
        cache,
        device,
        files,
        tape,
    };
    std::thread::scope(|scope| {
        let (scene, folder) = (&scene, folder.path());
        let spawn = |seed| scope.spawn(move || scene.play(seed, folder));
        let players: Vec<_> = (0..4).map(spawn).collect();
        for player in players {
            player.join().unwrap().unwrap();
        }
    });
    scene.press();
    let Scene {
        cache, files, tape, ..
    } = scene;
    drop((files, cache));
    let steps = std::mem::take(&mut *tape.0.lock().unwrap());
    Recording {
        options,
        frames,
        steps,
    }
}

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
        Answer::BeginWrite(_, false) => (uses, kept, busy + 1),
        _ => (uses, kept, busy),
    });
    println!(
        "{} steps, {} answers: {uses} pages used, {kept} evictions and {busy} writes refused",
        steps.len(),
        answers().count()
    );
    // A recording in which little happens shows little.
    assert_eq!(events.len(), 16, "{events:?}");
    assert_eq!(effects.len(), 11, "{effects:?}");
    assert!(uses > 0 && kept > 0 && busy > 0);

    replay(&recording);

    // What is not the same is noticed: a time, an event, and answers of each kind that comes from threads.
    let at = |is_so: &dyn Fn(&Kept) -> bool| steps.iter().rposition(is_so).unwrap();
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
    let written = |answer: &Answer| matches!(answer, Answer::BeginWrite(_, true));
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
        *begun = false;
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
