//! Changes of settings and budget while the cache runs: one at a time, each of them whole or not at all.
//!
//! ```text
//!   set_options · set_memory · set · the control socket · calibration · a file that needs memory aside
//!        └──► under the budget's lock: what is there ──► what shall be ──► checks
//!                                                                            │ all of them passed
//!             history ◄── setter, old, new, limits before and after ◄── frames, then options, in one hold of the core
//! ```
//!
//! A thread that changes one setting reads all and writes all, so two must not do so at the same time: the
//! budget's lock is held from the reading to the writing. The lock of the calibration is taken before it,
//! never after.

use super::budget::Budget;
use super::cache::Cache;
use crate::error::{Error, Result};
use crate::host;
use crate::host::addresses::Limited;
use crate::observe::events;
use crate::observe::history::{By, Change, History, SettingChange, limit_changes};
use crate::settings::{Memory, SETTINGS, Setting, Settings};
use crate::size::apart;
use millpond_core::event::Event;
use millpond_core::options::{OptionError, Options};
use millpond_core::units::{Bytes, PageCount};
use std::sync::atomic::Ordering;
use std::time::{Duration, SystemTime};

/// What a change sets, whether the value differs or not.
#[derive(Clone, Copy, Default)]
struct Sets {
    options: bool,
    memory: bool,
    /// The goal for read latency is among them: it is no longer measured.
    goal: bool,
    /// That goal is to be measured.
    measure: bool,
}

impl Cache {
    pub(crate) fn options(&self) -> Options {
        self.engine.core().manager.options().clone()
    }

    pub(crate) fn set_options(&self, options: Options) -> Result<()> {
        self.tune(By::Program, |settings| {
            let page_size = self.engine.page_size;
            settings.options = Options { page_size, ..options };
            Ok(Sets {
                options: true,
                goal: true,
                ..Sets::default()
            })
        })
        .map(drop)
    }

    pub(crate) fn set_memory(&self, bytes: u64) -> Result<()> {
        self.tune(By::Program, |settings| {
            settings.memory = Memory::Fixed(Bytes(bytes));
            Ok(Sets {
                memory: true,
                ..Sets::default()
            })
        })
        .map(drop)
    }

    /// Takes settings by name.
    pub(crate) fn set(&self, by: By, pairs: &[(&str, &str)]) -> Result<Change> {
        self.tune(by, |settings| {
            let taken = settings.set_all(pairs)?;
            let any = |is: &dyn Fn(&Setting) -> bool| taken.iter().any(|setting| is(setting));
            let measure = asks_to_measure(pairs);
            Ok(Sets {
                memory: any(&|s| s.name == "memory"),
                options: any(&|s| s.name != "memory"),
                goal: !measure && any(&|s| s.name == "admission" || s.name == "admission.read_latency"),
                measure,
            })
        })
    }

    fn tune(&self, by: By, edit: impl FnOnce(&mut Settings) -> Result<Sets>) -> Result<Change> {
        self.engine.call_flags.check()?;
        let (change, notices) = {
            let mut calibrating = self.calibrating.lock();
            let mut budget = self.budget.lock();
            let mut new = self.settings(&budget);
            let sets = edit(&mut new)?;
            new.options.check()?;
            let mut notices = Vec::new();
            let memory = budget.with(new.memory);
            if sets.memory {
                // The existing ones need no more room.
                let more = self.frames(&memory)?.saturating_sub(self.frames(&budget)?);
                let tables = crate::engine::budget::tables(more);
                notices.extend(host::check_memory(
                    memory.memory.0,
                    tables,
                    self.memory_beyond_limit,
                )?);
                let added = memory.memory.0.saturating_sub(budget.memory.0);
                notices.extend(host::free_memory(added));
                if memory.auto.is_some() {
                    self.follower.start(self.me.clone())?;
                }
            }
            let (memory, options) = (sets.memory.then_some(memory), sets.options.then_some(new.options));
            let change = self.apply(by, &mut budget, memory, options)?;
            if sets.goal {
                calibrating.goal_set();
                self.engine.goal_set();
            }
            if sets.measure {
                calibrating.measure();
                self.remeasure.look(&self.me);
            }
            (change, notices)
        };
        events::changed(&change);
        // Without the locks: the callback may use the cache.
        for notice in notices {
            self.notices.add(notice, 0);
        }
        Ok(change)
    }

    fn settings(&self, budget: &Budget) -> Settings {
        Settings {
            options: self.options(),
            memory: budget.setting(),
        }
    }

    /// Makes the pool as large as the new budget allows, and takes the options, which are checked. What is `None` stays as it is.
    ///
    /// # Errors
    /// As [`PageCache::set_memory`](crate::PageCache::set_memory); then nothing changes.
    pub(crate) fn apply(
        &self,
        by: By,
        budget: &mut Budget,
        memory: Option<Budget>,
        options: Option<Options>,
    ) -> Result<Change> {
        let engine = &self.engine;
        let old = self.settings(budget);
        if let Some((memory, range)) = memory.and_then(|memory| Some((memory, memory.auto?))) {
            // Whatever the host does later, the budget can follow it.
            for memory in [range.min, range.max].map(|at| Budget { memory: at, ..memory }) {
                self.frames(&memory)?;
            }
        }
        let frames = memory.map(|memory| self.frames(&memory)).transpose()?;
        let watchdog = options.as_ref().map(|options| options.hung_io_timeout);
        let (before, after) = {
            let mut core = engine.core();
            if let Some(frames) = frames {
                let mut table = engine.table.locked(&mut core.token);
                let (before, after) = (table.frames(), frames.0 as u32);
                let failed = |source| Error::Setup {
                    what: "growing the pool",
                    source,
                };
                if after > before {
                    table.grow(after).map_err(failed)?;
                }
                engine.exchange_frames(after).map_err(failed)?;
            }
            let before = *core.manager.derived();
            if let Some(frames) = frames {
                core.step(Event::MemoryChanged { frames });
            }
            if let Some(options) = options {
                core.step(Event::Retuned(Box::new(options)));
            }
            (before, *core.manager.derived())
        };
        if let Some(spaces) = &engine.spaces {
            spaces.doubles.fit(after.frames);
            spaces.tables.fit(after.frames.0);
        }
        if let Some(watchdog) = watchdog {
            engine.device.set_limit(watchdog);
        }
        if let Some(memory) = memory {
            *budget = memory;
            self.memory_bytes.store(memory.memory.0, Ordering::Relaxed);
            self.follower.look();
        }
        let mut change = Change {
            number: 0,
            at: SystemTime::now(),
            age: Duration::from_nanos(engine.clock.now().0),
            by,
            settings: differences(&old, &self.settings(budget)),
            limits: limit_changes(&before, &after),
        };
        self.history.lock().add(&mut change);
        Ok(change)
    }

    /// The number of frames that fit into a budget.
    fn frames(&self, budget: &Budget) -> Result<PageCount> {
        let engine = &self.engine;
        let frames = crate::engine::budget::frames(budget.memory, engine.page_size, self.reserved(budget))?;
        let frames_max = crate::frames::table::Memory::frames_max(engine.table.memory());
        if frames.0 > u64::from(frames_max) {
            let max = PageCount(u64::from(frames_max)).to_bytes(engine.page_size).0;
            let (value, max) = (apart(budget.memory.0, max), apart(max, budget.memory.0));
            let allowed = match Limited::now() {
                None => format!("up to {max}"),
                Some(limited) => format!(
                    "up to {max}, because {limited}: make the cache with its largest future budget, or raise that limit first"
                ),
            };
            return Err(OptionError {
                option: "memory",
                value,
                allowed,
            }
            .into());
        }
        Ok(frames)
    }

    pub(crate) fn history(&self) -> History {
        self.history.lock().clone()
    }

    /// Every setting that the forms which are chosen have, and what it is.
    pub(crate) fn settings_now(&self) -> Vec<(&'static Setting, Option<String>)> {
        let settings = self.settings(&self.budget.lock());
        let value = |setting| settings.value(setting).map(|value| value.to_string());
        SETTINGS.iter().map(|setting| (setting, value(setting))).collect()
    }
}

/// Whether the settings request a measurement of the goal for reads.
pub(in crate::control) fn asks_to_measure(pairs: &[(&str, &str)]) -> bool {
    let measure = |(name, text): &(&str, &str)| *name == "admission.read_latency" && text.trim() == "measure";
    pairs.iter().any(measure)
}

/// The settings that differ.
fn differences(old: &Settings, new: &Settings) -> Vec<SettingChange> {
    let mut changes: Vec<_> = SETTINGS
        .iter()
        .map(|setting| (setting.name, old.value(setting), new.value(setting)))
        .filter(|(_, old, new)| old != new)
        .map(|(name, old, new)| SettingChange {
            name,
            old: old.map(|value| value.to_string()),
            new: new.map(|value| value.to_string()),
        })
        .collect();
    if changes.is_empty() && old != new {
        // What only a program can give.
        changes.push(SettingChange {
            name: "options",
            old: None,
            new: Some("others, which only the program can set".into()),
        });
    }
    changes
}
