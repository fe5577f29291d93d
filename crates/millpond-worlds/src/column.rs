//! One system of a scene: made from a link, run, and told as JSON.

use crate::link::Link;
use crate::world::{Figure, Note, World};
use crate::worlds::{axboe2016, dillon2000, gorman2011, hills2015, kim2020, millpond, swarm};
use millpond_core::units::Instant;
use millpond_kernels::freebsd;
use millpond_kernels::freebsd::machine::MachineOptions as NewsOptions;
use millpond_kernels::linux::anon;
use millpond_kernels::linux::dirty::touch::TouchRules;
use millpond_kernels::linux::reclaim::System;
use millpond_kernels::linux::reclaim::machine::{Load, MICRO_PAGES, MachineOptions};
use millpond_sim::look::Shade;
use serde::Serialize;

/// A system of a scene.
pub struct Column {
    world: Box<dyn World>,
    at: Instant,
}

/// A list as JSON has it.
#[derive(Serialize)]
struct StripState {
    name: &'static str,
    pages: u64,
    parts: Vec<[u32; Shade::COUNT]>,
}

/// A thread as JSON has it.
#[derive(Serialize)]
struct ThreadState {
    name: String,
    count: u64,
    does: &'static str,
    held: bool,
    /// For how long, in nanoseconds.
    ns: Option<u64>,
}

/// A disk as JSON has it.
#[derive(Serialize)]
struct DiskState {
    head: Option<f64>,
    write: Option<bool>,
    reads: u64,
    writes: u64,
    channels: (u32, u32),
    queued: (u64, u64),
}

/// What a page draws.
#[derive(Serialize)]
struct State {
    at: u64,
    over: bool,
    events: u64,
    notes: u64,
    free: u64,
    frames: u64,
    dirty: u64,
    writing: u64,
    transit: Option<(u64, Option<u64>)>,
    strips: Vec<StripState>,
    disk: DiskState,
    threads: Vec<ThreadState>,
    limits: Vec<(&'static str, u64)>,
    figures: Vec<Figure>,
    log: Vec<Note>,
}

fn boxed<W: World + 'static>(world: Result<W, String>) -> Result<Box<dyn World>, String> {
    Ok(Box::new(world?))
}

fn gorman(link: &Link, column: usize) -> Result<Box<dyn World>, String> {
    // as the laboratory has it
    let scale = link.scale as f64 / 1000.0;
    let rounds = ((25.0 * scale).round() as u32).max(2);
    let load = match link.step("load") {
        "micro" => Load::Micro {
            pages: (MICRO_PAGES as f64 * scale) as u64,
        },
        _ => Load::FsMark { rounds },
    };
    let options = |system| MachineOptions {
        seed: link.seed,
        ..MachineOptions::new(system)
    };
    match column {
        0 => {
            let system = System::from_name(link.step("rule")).unwrap_or(System::Linux3_0);
            boxed(gorman2011::Linux::new(options(system), load))
        }
        1 => boxed(gorman2011::Linux::new(options(System::Linux7_0), load)),
        _ => {
            let (world, _, ended) = gorman2011::millpond(&options(System::Millpond), load)?;
            let figures = move |world: &_| gorman2011::figures(world, &ended);
            boxed(Ok(millpond::Millpond::new(world, &["the load"], figures)))
        }
    }
}

fn kim(link: &Link, column: usize) -> Box<dyn World> {
    let example = match link.step("example") {
        "protection" => kim2020::Example::Protection,
        _ => kim2020::Example::Detection,
    };
    let linux = |system| Box::new(kim2020::Toys::new(kim2020::Linux::new(system), example));
    match column {
        0 => linux(anon::System::from_name(link.step("patches")).unwrap_or(anon::System::Linux5_5)),
        1 => linux(anon::System::Linux7_0),
        _ => Box::new(kim2020::Toys::new(kim2020::OwnRule::new(), example)),
    }
}

fn dillon(link: &Link, column: usize) -> Result<Box<dyn World>, String> {
    let options = |system| NewsOptions {
        seed: link.seed,
        ..NewsOptions::new(system)
    };
    let patches = freebsd::System::FreeBsdPatches;
    match column {
        0 => {
            let system = freebsd::System::from_name(link.step("rule")).unwrap_or(patches);
            boxed(dillon2000::FreeBsd::new(options(system)))
        }
        1 => boxed(dillon2000::FreeBsd::new(options(patches))),
        _ => boxed(dillon2000::millpond_world(&options(patches))),
    }
}

fn world(link: &Link, column: usize) -> Result<Box<dyn World>, String> {
    match link.scene.name {
        "gorman2011" => gorman(link, column),
        "axboe2016" => {
            let sizes = axboe2016::Sizes::scaled(link.scale, link.seed);
            match column {
                0 => boxed(axboe2016::off(&sizes)),
                1 => boxed(axboe2016::posted(
                    link.step("wb_percent").parse().unwrap_or(10),
                    &sizes,
                )),
                _ => boxed(axboe2016::goal(&sizes)),
            }
        }
        "kim2020" => Ok(kim(link, column)),
        "dillon2000" => dillon(link, column),
        "hills2015" => {
            let ratio = link.step("ratio").parse().unwrap_or(hills2015::RATIO);
            let rules = [TouchRules::LINUX_4_0, TouchRules::REPAIRED, TouchRules::MILLPOND];
            Ok(Box::new(hills2015::Hills::new(rules[column.min(2)], ratio)))
        }
        _ => boxed(Ok(swarm::world(link.seed))),
    }
}

impl Column {
    /// The system of this number in the scene of `link`, at its beginning.
    ///
    /// # Errors
    /// If there is no such system, or the machine is impossible.
    pub fn begin(link: &Link, column: usize) -> Result<Column, String> {
        let count = link.scene.columns.len();
        if column >= count {
            return Err(format!(
                "{} has {count} systems, not {}",
                link.scene.name,
                column + 1
            ));
        }
        Ok(Column {
            world: world(link, column)?,
            at: Instant(0),
        })
    }

    /// Goes on through `until`, in at most about `events` events. Whether it is there.
    pub fn run(&mut self, until: Instant, events: u64) -> bool {
        let most = self.world.events().saturating_add(events);
        // in slices of time that grow while a slice has few events
        let mut slice = 1_000_000;
        while self.at < until && !self.world.is_over() && self.world.events() < most {
            let before = self.world.events();
            self.at = Instant((self.at.0 + slice).min(until.0));
            self.world.run(self.at);
            if self.world.events() - before < SLICE_EVENTS {
                slice *= 2;
            }
        }
        if self.world.is_over() {
            self.at = self.at.max(until);
        }
        self.at >= until
    }

    /// Goes on to the next note, at most until `until`; returns the moment.
    pub fn run_to_note(&mut self, until: Instant) -> Instant {
        self.at = self.at.max(self.world.run_to_note(until));
        self.at
    }

    /// The present moment.
    pub fn at(&self) -> Instant {
        self.at
    }

    /// Events so far.
    pub fn events(&self) -> u64 {
        self.world.events()
    }

    /// A number by its name; `None` if it has no such.
    pub fn figure(&self, name: &str) -> Option<f64> {
        let figures = self.world.figures();
        figures
            .iter()
            .find(|figure| figure.name == name)
            .map(|figure| figure.value)
    }

    /// All that a page draws, as JSON: lists in `parts` parts, the last `notes` notes.
    ///
    /// # Errors
    /// Of the serializer; none is known.
    pub fn state(&self, parts: usize, notes: usize) -> Result<String, String> {
        let look = self.world.look(parts);
        let disk = look.disk;
        let state = State {
            at: self.at.0,
            over: self.world.is_over(),
            events: self.world.events(),
            notes: self.world.notes(),
            free: look.free,
            frames: look.frames,
            dirty: look.dirty,
            writing: look.writing,
            transit: look.in_transit,
            strips: (look.strips.into_iter())
                .map(|strip| StripState {
                    name: strip.name,
                    pages: strip.pages,
                    parts: strip.parts,
                })
                .collect(),
            disk: DiskState {
                head: disk.head.map(|byte| byte as f64 / disk.capacity.max(1) as f64),
                write: disk.works_on_write,
                reads: disk.reads,
                writes: disk.writes,
                channels: disk.channels,
                queued: (disk.queued_reads, disk.queued_writes),
            },
            threads: (look.threads.into_iter())
                .map(|thread| ThreadState {
                    name: thread.name,
                    count: thread.count,
                    does: thread.does,
                    held: thread.is_held_up,
                    ns: thread.since.map(|since| self.at.0.saturating_sub(since.0)),
                })
                .collect(),
            limits: look.limits,
            figures: self.world.figures(),
            log: self.world.log(notes),
        };
        serde_json::to_string(&state).map_err(|e| e.to_string())
    }
}

/// Events of a slice of time, about: a page wants to draw now and then.
const SLICE_EVENTS: u64 = 2_000;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scene::SCENES;

    fn state(text: &str, column: usize, steps: &[u64]) -> String {
        let link = Link::parse(text).unwrap_or_else(|e| panic!("{e}"));
        let mut column = Column::begin(&link, column).unwrap_or_else(|e| panic!("{e}"));
        for &ms in steps {
            column.run(Instant(ms * 1_000_000), u64::MAX);
        }
        column.state(64, 32).unwrap_or_else(|e| panic!("{e}"))
    }

    #[test]
    fn a_moment_is_one_state_however_it_is_reached() {
        for scene in SCENES {
            let text = format!("scene={}&scale=50", scene.name);
            for column in 0..scene.columns.len() {
                let once = state(&text, column, &[600]);
                let slices: Vec<u64> = (1..=60).map(|n| n * 10).collect();
                assert_eq!(once, state(&text, column, &slices), "{} {column}", scene.name);
            }
        }
    }

    #[test]
    fn a_step_ends_where_a_link_to_its_moment_begins() {
        for scene in SCENES {
            let link =
                Link::parse(&format!("scene={}&scale=50", scene.name)).unwrap_or_else(|e| panic!("{e}"));
            for n in 0..scene.columns.len() {
                let begin = || Column::begin(&link, n).unwrap_or_else(|e| panic!("{e}"));
                let mut stepped = begin();
                for _ in 0..20 {
                    stepped.run_to_note(Instant(3_000_000_000));
                }
                let mut again = begin();
                again.run(stepped.at(), u64::MAX);
                let states = [&stepped, &again].map(|column| column.state(64, 32));
                assert_eq!(states[0], states[1], "{} {n} at {:?}", scene.name, stepped.at());
            }
        }
    }
}
