//! Hills 2015: `dd`, and a hand that touches `dirty_ratio`.

use crate::world::{Figure, Note, World};
use millpond_core::units::{Instant, Nanos};
use millpond_kernels::linux::dirty::device::DeviceRatios;
use millpond_kernels::linux::dirty::dirtiers::{Dirtiers, DirtiersOptions, Pause};
use millpond_kernels::linux::dirty::limits::{Caller, KernelLimit, KernelVersion};
use millpond_kernels::linux::dirty::touch::{Touch, TouchRules, Touched, post_zones_at_boot};
use millpond_kernels::linux::dirty::zone::POST_ZONES;
use millpond_sim::look::Look;

/// The rate of the post's disk.
pub const DEVICE_BYTES_PER_S: u64 = 150_000_000;
/// Ticks a second of the machine that is shown: with a page a tick, the one that comes nearest to the post's rate.
pub const HZ: u64 = 1000;
/// How long `dd` has been writing before: the dirty limit is reached at the speed of memory. The laboratory's.
pub const LEAD_S: u64 = 10;
/// The length of each part.
pub const PART_S: u64 = 5;
/// All of it.
pub const LENGTH: Nanos = Nanos::from_secs(LEAD_S + 4 * PART_S);
/// The ratio of the boot.
pub const RATIO: u32 = 20;

/// The setting at the start of each part after the first, if the slider is at `ratio`.
pub const fn touched(ratio: u32) -> [u32; 3] {
    [RATIO, ratio, RATIO]
}

/// The post's machine, booted and used for a while, with `dd` about to begin.
pub fn booted(rules: TouchRules, hz: u64, ratio: u32) -> Dirtiers {
    let mut machine = Touched::boot(rules, post_zones_at_boot());
    (2..=8).for_each(|n| machine.touch(Touch::Processors(n)));
    machine.touch(Touch::Memory(POST_ZONES.to_vec()));
    let touches = touched(ratio).into_iter().zip(1..).map(|(percent, part)| {
        let touch = Touch::Hard(KernelLimit::Percent(percent), Caller::default());
        (LEAD_S + PART_S * part, touch)
    });
    let touches: Vec<_> = touches.collect();
    let options = DirtiersOptions {
        hz,
        tasks: 1,
        device_bytes_per_s: DEVICE_BYTES_PER_S,
        version: KernelVersion::Linux4,
        ratios: DeviceRatios::default(),
        seconds: LEAD_S + PART_S * (touches.len() as u64 + 1),
        touches,
    };
    Dirtiers::new(machine, &options)
}

/// The machine, and what the hand does.
pub struct Hills {
    dirtiers: Dirtiers,
    ratio: u32,
    /// The derived limits before and after each touch so far.
    touches: Vec<Note>,
}

impl Hills {
    /// At its beginning.
    pub fn new(rules: TouchRules, ratio: u32) -> Hills {
        Hills {
            dirtiers: booted(rules, HZ, ratio),
            ratio,
            touches: Vec::new(),
        }
    }

    fn run_noting_touches(&mut self, until: u64) {
        for (n, percent) in touched(self.ratio).into_iter().enumerate() {
            let at = (LEAD_S + PART_S * (n as u64 + 1)) * 1_000_000_000;
            if at > until || self.touches.len() > n {
                continue;
            }
            self.dirtiers.run(at - 1);
            let before = self.dirtiers.machine().in_force();
            self.dirtiers.run(at);
            let after = self.dirtiers.machine().in_force();
            let why = match (before == after, after.thresholds.hard.0) {
                (true, _) if percent == RATIO && self.ratio != RATIO && n == 0 => {
                    "The value is the same as before, so nothing is derived anew.".into()
                }
                (true, _) => "What is derived is what was in force.".into(),
                (false, 0) => format!(
                    "The value differs, so limits are derived from memory now. The reserve of all zones is taken from free \
                     memory, most of which is high memory, and then high memory itself: {} page is left as dirtyable, and \
                     {percent} % of it is 0. Setting {RATIO} again derives 0 again.",
                    after.dirtyable.0
                ),
                (false, hard) => format!(
                    "Limits are derived from memory now: {percent} % of {} dirtyable pages is {hard}.",
                    after.dirtyable.0
                ),
            };
            self.touches.push(Note {
                at,
                page: format!("dirty_ratio = {percent}"),
                what: if before == after {
                    "set: nothing changes"
                } else {
                    "set: limits derived anew"
                },
                class: "activated",
                why,
            });
        }
        self.dirtiers.run(until);
    }

    fn note(pause: &Pause) -> Note {
        let span = (pause.until - pause.at) as f64 / 1e6;
        let room = match pause.hard {
            0 => "The limit is 0: any dirty page is one too many, and each costs a tick".to_owned(),
            hard => format!(
                "{} pages are dirty or being written, and {hard} may be",
                pause.dirty
            ),
        };
        Note {
            at: pause.at,
            page: "dd".into(),
            what: "paused",
            class: "waits",
            why: format!(
                "After {} pages dd looked at the limits, and sleeps for {span:.1} ms. {room}.",
                pause.dirtied
            ),
        }
    }

    /// MB/s of a second, or of the part of it that has passed.
    fn rate(&self, second: u64) -> f64 {
        let bytes = self
            .dirtiers
            .seen()
            .bytes
            .get(second as usize)
            .copied()
            .unwrap_or(0);
        let passed = self
            .dirtiers
            .now()
            .saturating_sub(second * 1_000_000_000)
            .min(1_000_000_000);
        if passed == 0 {
            0.0
        } else {
            bytes as f64 * 1e3 / passed as f64
        }
    }

    /// MB/s of a part, up to now; none before it has begun.
    fn part(&self, name: &'static str, n: u64) -> Option<Figure> {
        let from = LEAD_S + PART_S * n;
        let bytes: u64 = (from..from + PART_S)
            .map(|second| {
                self.dirtiers
                    .seen()
                    .bytes
                    .get(second as usize)
                    .copied()
                    .unwrap_or(0)
            })
            .sum();
        let ns = self
            .dirtiers
            .now()
            .saturating_sub(from * 1_000_000_000)
            .min(PART_S * 1_000_000_000);
        let rate = match ns {
            0 => return None,
            ns if ns == PART_S * 1_000_000_000 => bytes as f64 / 1e6 / PART_S as f64,
            ns => bytes as f64 * 1e3 / ns as f64,
        };
        Some(Figure::of(name, "MB/s", rate))
    }
}

impl World for Hills {
    fn run(&mut self, until: Instant) {
        if until.0 > self.dirtiers.now() || until.0 == 0 {
            self.run_noting_touches(until.0);
        }
    }

    fn run_to_note(&mut self, until: Instant) -> Instant {
        let before = self.notes();
        while let Some(at) = self.dirtiers.next_event().filter(|&at| at <= until.0) {
            self.run_noting_touches(at);
            if self.notes() != before {
                return Instant(at);
            }
        }
        self.run(until);
        until
    }

    fn is_over(&self) -> bool {
        self.dirtiers.now() >= LENGTH.0 - 1
    }

    fn events(&self) -> u64 {
        self.dirtiers.turns()
    }

    fn notes(&self) -> u64 {
        self.dirtiers.pauses().1 + self.touches.len() as u64
    }

    fn look(&self, parts: usize) -> Look {
        self.dirtiers.look(parts)
    }

    fn figures(&self) -> Vec<Figure> {
        let in_force = self.dirtiers.machine().in_force();
        let written: u64 = self.dirtiers.seen().bytes.iter().sum();
        // of the second before while this one has hardly begun
        let second = (self.dirtiers.now().saturating_sub(200_000_000)) / 1_000_000_000;
        let mut figures = vec![Figure::of("now_mb_per_s", "MB/s", self.rate(second))];
        let parts = [
            "boot_mb_per_s",
            "20_again_mb_per_s",
            "touched_mb_per_s",
            "20_once_more_mb_per_s",
        ];
        figures.extend((0..).zip(parts).filter_map(|(n, name)| self.part(name, n)));
        figures.extend([
            Figure::of("written_mb", "MB", written as f64 / 1e6),
            Figure::count("hard_limit_pages", in_force.thresholds.hard.0),
            Figure::count("dirtyable_pages", in_force.dirtyable.0),
            Figure::count("ratelimit_pages", in_force.ratelimit.0),
            Figure::count("pauses", self.dirtiers.pauses().1),
            Figure::of("pause_max_ms", "ms", self.dirtiers.seen().pause_max as f64 / 1e6),
        ]);
        figures
    }

    fn log(&self, most: usize) -> Vec<Note> {
        let (pauses, _) = self.dirtiers.pauses();
        let mut log: Vec<Note> = pauses.iter().map(Hills::note).collect();
        log.sort_by_key(|note| note.at);
        let mut log = log.split_off(log.len().saturating_sub(most.saturating_sub(self.touches.len())));
        // what was touched stays in sight
        log.extend(self.touches.iter().cloned());
        log.sort_by_key(|note| note.at);
        log
    }
}
