//! The simulator's world: Millpond's manager, or that with another form of admission.

use super::gorman2011::decisions;
use crate::reasons;
use crate::world::{Figure, Note, World};
use millpond_core::admission::Form;
use millpond_core::io::Reason;
use millpond_core::units::Instant;
use millpond_sim::World as Sim;
use millpond_sim::look::Look;
use std::collections::VecDeque;

/// The numbers of a world.
type Figures<A> = Box<dyn Fn(&Sim<A>) -> Vec<Figure>>;

/// A world, and its notes.
pub struct Millpond<A: Form> {
    world: Sim<A>,
    figures: Figures<A>,
    /// The names of its processes, in order; further ones have the last name.
    names: &'static [&'static str],
    /// Writes that were held back and dirtiers that were paused: what reclaim does not know of.
    held: VecDeque<Note>,
    held_all: u64,
    counted: (u64, u64),
    /// The action at the end of each whole second, and how many have ended.
    each_second: EachSecond<A>,
    seconds: u64,
}

type EachSecond<A> = Option<Box<dyn FnMut(&Sim<A>)>>;

/// The number of notes kept.
const HELD_MAX: usize = 256;

impl<A: Form> Millpond<A> {
    /// For `world`, whose processes have these names, with the numbers of `figures`.
    pub fn new(
        mut world: Sim<A>,
        names: &'static [&'static str],
        figures: impl Fn(&Sim<A>) -> Vec<Figure> + 'static,
    ) -> Millpond<A> {
        world.keep_every_decision();
        Millpond {
            world,
            figures: Box::new(figures),
            names,
            held: VecDeque::new(),
            held_all: 0,
            counted: (0, 0),
            each_second: None,
            seconds: 0,
        }
    }

    /// Does `look` at the end of each whole second, however it is run.
    #[must_use]
    pub fn each_second(mut self, look: impl FnMut(&Sim<A>) + 'static) -> Millpond<A> {
        self.each_second = Some(Box::new(look));
        self
    }

    /// The seconds that end before a moment: what happens at their very end has happened.
    fn end_seconds(&mut self, before: Instant) {
        while (self.seconds + 1) * 1_000_000_000 < before.0 {
            self.seconds += 1;
            if let Some(look) = &mut self.each_second {
                look(&self.world);
            }
        }
    }

    fn run_to(&mut self, until: Instant) {
        self.end_seconds(Instant(until.0 + 1));
        self.world.run(until);
    }

    /// Plays the next moment, if it is not after `until`. Returns it.
    fn turn(&mut self, until: Instant) -> Option<Instant> {
        let at = self.world.next_event().filter(|&at| at <= until)?;
        self.end_seconds(at);
        self.world.run(at);
        self.note_waits();
        Some(at)
    }

    /// Notes what has begun to wait at this moment.
    fn note_waits(&mut self) {
        let stats = self.world.manager().stats();
        let waits = (stats.admission_waits.iter().sum(), stats.balance_dirty_pauses);
        let before = std::mem::replace(&mut self.counted, waits);
        if waits == before {
            return;
        }
        let now = self.world.now();
        let occupancy = self.world.manager().occupancy(now);
        if waits.0 != before.0 {
            let reason = self
                .world
                .manager()
                .waiting(now)
                .held_back
                .map(|(reason, _)| reason);
            let device = self.world.manager().busiest_device(now);
            let look = self.world.model().look();
            self.keep(reasons::held_back(
                now,
                reason.unwrap_or(Reason::Background),
                &device,
                &look,
            ));
        }
        if waits.1 != before.1 {
            let hard = self.world.manager().derived().dirty.hard.0;
            self.keep(reasons::paused(
                now,
                occupancy.dirty.0 + occupancy.writing.0,
                hard,
            ));
        }
    }

    fn keep(&mut self, note: Note) {
        if self.held.len() == HELD_MAX {
            self.held.pop_front();
        }
        self.held.push_back(note);
        self.held_all += 1;
    }
}

impl<A: Form> World for Millpond<A> {
    fn run(&mut self, until: Instant) {
        while !self.world.is_over() && self.turn(until).is_some() {}
        self.run_to(until);
    }

    fn run_to_note(&mut self, until: Instant) -> Instant {
        let before = self.notes();
        while !self.world.is_over() {
            let Some(at) = self.turn(until) else { break };
            if self.notes() != before {
                return at;
            }
        }
        self.run_to(until);
        until
    }

    fn is_over(&self) -> bool {
        self.world.is_over()
    }

    fn events(&self) -> u64 {
        self.world.turns()
    }

    fn notes(&self) -> u64 {
        decisions(self.world.manager().trace()) + self.held_all
    }

    fn look(&self, parts: usize) -> Look {
        let mut look = self.world.look(parts);
        for thread in &mut look.threads {
            let number = thread
                .name
                .strip_prefix("process ")
                .and_then(|n| n.parse::<usize>().ok());
            let name = match number {
                Some(number) => self.names.get(number),
                None if thread.name == "processes" => self.names.last(),
                None => None,
            };
            if let Some(name) = name {
                thread.name = (*name).into();
            }
        }
        look
    }

    fn figures(&self) -> Vec<Figure> {
        (self.figures)(&self.world)
    }

    fn log(&self, most: usize) -> Vec<Note> {
        // half of them of each kind, so that one that happens all the time doesn't hide the other
        let held = (most / 2).min(self.held.len());
        let trace = self.world.manager().trace();
        let mut log = reasons::of_trace(trace, most - held, reasons::millpond);
        log.extend(self.held.iter().skip(self.held.len() - held).cloned());
        log.sort_by_key(|note| note.at);
        log
    }
}
