//! Some seconds of an engine's life: threads do whatever a program may do, and then what only comes about under pressure.

use crate::twin::tape::{Kept, Recording, Tape};
use millpond::device;
use millpond::internal::Answer;
use millpond::{Advice, Error, File, OpenOptions, Options, PageCache, Preset};
use millpond_core::event::Effect;
use millpond_core::frame::BeginWrite;
use millpond_sim::draw::Draw;
use millpond_testing::{Fault, FaultRule, FaultTarget, Faulty};
use std::path::Path;
use std::sync::Arc;

const PAGE: u64 = 4096;

/// Pages of a file: twice what memory has room for.
const PAGES: u64 = 700;

const MEMORY: u64 = 2 << 20;

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
                    .set_options(Preset::ALL[draw.below(Preset::ALL.len() as u64) as usize].options())?,
                _ => {
                    let name = folder.join(format!("passing-{seed}"));
                    let passing = self.cache.open(name, OpenOptions::new().create(true))?;
                    passing.write_at(&[1; 30_000], 0)?;
                }
            }
        }
        Ok(())
    }

    /// States that only occur under pressure, and here for certain.
    fn press(&self) {
        let file = &self.files[0];
        self.cache.set_options(Options::default()).unwrap();
        self.cache.set_memory(MEMORY).unwrap();
        file.set_len(2 * PAGES * PAGE).unwrap();
        file.advise(Advice::Random).unwrap();
        self.cache.sync_all().unwrap();
        std::thread::scope(|scope| {
            // A page that is to be written is held by a thread.
            let refused = |step: &Kept| {
                step.answers
                    .iter()
                    .any(|a| matches!(a, Answer::BeginWrite(_, BeginWrite::Busy)))
            };
            let before = self.tape.count(refused);
            let guard = file.page_mut(3).unwrap();
            let syncing = scope.spawn(|| file.sync_data());
            self.until("a refused write", |tape| tape.count(refused) > before);
            drop(guard);
            syncing.join().unwrap().unwrap();
        });
        std::thread::scope(|scope| {
            // Threads hold all of memory.
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
pub(crate) fn record() -> Recording {
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
