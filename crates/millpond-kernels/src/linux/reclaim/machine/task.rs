//! A task: what it does next, and what that has to wait for.
//!
//! ```text
//!   operation ─► a frame? ── above low: take it
//!                  │            above min: wake kswapd, take it
//!                  └─────────── else: reclaim for itself, priority 12 … 0 until 32 pages are free; try again
//!   pages dirtied ─► held back?
//! ```

use super::dirtier::Dirtier;
use super::memory::{DIRTY, INACTIVE_FILE, MAPPED, Mark, REFERENCED, YOUNG};
use super::scheduler::{Machine, Step, TASKS, Wait};
use super::shrink::Shrink;
use crate::linux::reclaim::effort::BATCH_PAGES;
use millpond_core::reclaim::launder::PRIORITY_DEFAULT;
use millpond_core::reclaim::trace::Caller;
use millpond_core::units::{Instant, Nanos};

/// A task's action.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum TaskOp {
    /// Creates a file of this many pages, and continues with it.
    Create {
        /// Its length.
        pages: u64,
    },
    /// Writes the next pages of its file with `write`.
    Write {
        /// Their number.
        pages: u32,
    },
    /// Touches the next pages of its file through a mapping, and changes them.
    MapWrite {
        /// Their number.
        pages: u32,
    },
    /// Uses anonymous pages.
    Touch {
        /// The first.
        first: u32,
        /// Their number.
        pages: u32,
        /// Whether they are changed.
        changes: bool,
    },
    /// Gives anonymous pages up: a program that ends. Those in transit stay.
    Release {
        /// The first.
        first: u32,
        /// Their number.
        pages: u32,
    },
    /// Computes.
    Think(Nanos),
    /// Sleeps.
    Sleep(Nanos),
    /// Ends.
    Exit,
}

/// Decides what a task does.
pub trait TaskScript {
    /// The next operation, at `now`; the one before has ended.
    fn next(&mut self, now: Instant) -> TaskOp;
}

/// Pages of a task's step.
const STEP_PAGES: u32 = 4;

#[derive(Debug)]
struct Direct {
    began: Instant,
    priority: u32,
    /// The zone whose turn is next, from the highest; `None`: the pass over them is over.
    zone: Option<usize>,
    shrink: Option<Shrink>,
    freed: u64,
    scanned: u64,
    scanned_at_priority: u64,
}

/// A task.
pub(super) struct Task {
    script: Box<dyn TaskScript>,
    op: TaskOp,
    done: u32,
    file: u32,
    at: u64,
    pub(super) dirtier: Dirtier,
    direct: Option<Direct>,
    /// A direct reclaim has just ended: its frame is taken from below the low mark.
    tries_again: bool,
    pub(super) has_ended: bool,
}

impl Task {
    pub(super) fn new(script: Box<dyn TaskScript>) -> Task {
        Task {
            script,
            op: TaskOp::Think(Nanos::ZERO),
            done: 0,
            file: 0,
            at: 0,
            dirtier: Dirtier::default(),
            direct: None,
            tries_again: false,
            has_ended: false,
        }
    }

    pub(super) fn is_reclaiming(&self) -> bool {
        self.direct.is_some()
    }
}

impl Machine {
    pub(super) fn task_step(&mut self, thread: usize) -> Step {
        let mut task = std::mem::replace(
            &mut self.tasks[thread - TASKS],
            Task::new(Box::new(super::scripts::Idle)),
        );
        let step = self.go_on(thread, &mut task);
        self.tasks[thread - TASKS] = task;
        step
    }

    fn go_on(&mut self, thread: usize, task: &mut Task) -> Step {
        if let Some(direct) = &mut task.direct {
            let step = self.direct_reclaim(thread, direct);
            if let Step::Done(cost) = step {
                task.direct = None;
                return Step::Ran(cost);
            }
            return step;
        }
        if task.dirtier.is_due(self.options.system.dirtiers()) {
            let step = self.hold_back(thread, &mut task.dirtier);
            return match step {
                Step::Done(cost) => Step::Ran(cost),
                other => other,
            };
        }
        match task.op {
            TaskOp::Write { pages } if task.done < pages => self.write(thread, task, pages, REFERENCED),
            TaskOp::MapWrite { pages } if task.done < pages => {
                self.write(thread, task, pages, YOUNG | MAPPED)
            }
            TaskOp::Touch {
                first,
                pages,
                changes,
            } if task.done < pages => self.touch_next(thread, task, first, changes),
            _ => self.next_op(thread, task),
        }
    }

    fn next_op(&mut self, thread: usize, task: &mut Task) -> Step {
        task.op = task.script.next(self.now);
        task.done = 0;
        match task.op {
            TaskOp::Create { pages } => {
                self.files.close(task.file);
                task.file = self.add_file(pages);
                task.at = 0;
                Step::Ran(self.options.costs.file)
            }
            TaskOp::Release { first, pages } => {
                (first..first + pages).for_each(|page| self.release(page));
                Step::Ran(Nanos(u64::from(pages) * 100))
            }
            TaskOp::Think(span) => Step::Ran(span),
            TaskOp::Sleep(span) => {
                self.sleep(thread, Wait::Time, self.now + span);
                Step::Waits(Nanos(1_000))
            }
            TaskOp::Exit => {
                task.has_ended = true;
                self.sleep(thread, Wait::Time, Instant::NEVER);
                Step::Waits(Nanos::ZERO)
            }
            TaskOp::Write { .. } | TaskOp::MapWrite { .. } | TaskOp::Touch { .. } => Step::Ran(Nanos(500)),
        }
    }

    /// The mark that a request for a frame respects now.
    fn mark(&mut self) -> Mark {
        let any_above_low = self.memory.zones.iter().any(|zone| zone.is_above(zone.marks.low));
        if any_above_low {
            return Mark::Low;
        }
        self.wake_kswapd();
        Mark::Min
    }

    fn write(&mut self, _: usize, task: &mut Task, pages: u32, flags: u8) -> Step {
        let mut cost = 0;
        for _ in 0..STEP_PAGES.min(pages - task.done) {
            let mark = self.mark();
            let Some(frame) = self.memory.take(mark, task.file, task.at as u32, flags | DIRTY) else {
                self.begin_direct(task);
                return Step::Ran(Nanos(cost + 500));
            };
            self.files.set_frame(task.file, task.at as u32, frame);
            self.memory.push_warm(frame, INACTIVE_FILE);
            self.files.dirtied(self.now, task.file, task.at as u32);
            self.dirty += 1;
            task.dirtier.dirtied(1);
            task.at += 1;
            task.done += 1;
            cost += match flags & MAPPED {
                0 => self.options.costs.write_page.0,
                _ => self.options.costs.fault_page.0,
            };
            if task.dirtier.is_due(self.options.system.dirtiers()) {
                break;
            }
        }
        Step::Ran(Nanos(cost))
    }

    fn touch_next(&mut self, thread: usize, task: &mut Task, first: u32, changes: bool) -> Step {
        let mark = self.mark();
        match self.touch(thread, first + task.done, changes, mark) {
            Some(Step::Done(cost)) => {
                task.done += 1;
                Step::Ran(cost)
            }
            Some(step) => step,
            None => {
                self.begin_direct(task);
                Step::Ran(Nanos(500))
            }
        }
    }

    fn begin_direct(&mut self, task: &mut Task) {
        self.counters.direct_reclaims += 1;
        task.direct = Some(Direct {
            began: self.now,
            priority: PRIORITY_DEFAULT,
            zone: Some(self.memory.zones.len() - 1),
            shrink: None,
            freed: 0,
            scanned: 0,
            scanned_at_priority: 0,
        });
        task.tries_again = true;
    }

    fn direct_reclaim(&mut self, thread: usize, direct: &mut Direct) -> Step {
        if let Some(shrink) = &mut direct.shrink {
            let step = self.shrink(shrink);
            let Step::Done(cost) = step else {
                return step;
            };
            direct.freed += shrink.freed;
            direct.scanned += shrink.scanned;
            direct.scanned_at_priority += shrink.scanned;
            direct.shrink = None;
            return Step::Ran(cost);
        }
        if let Some(zone) = direct.zone {
            direct.zone = zone.checked_sub(1);
            let skips = self.memory.zones[zone].hopeless && direct.priority != PRIORITY_DEFAULT;
            if !skips {
                let pass = self.begin_shrink((Caller::Direct, thread), zone, direct.priority, BATCH_PAGES);
                direct.shrink = Some(pass);
            }
            return Step::Ran(Nanos(200));
        }
        if direct.freed >= BATCH_PAGES || direct.priority == 0 {
            self.counters.direct_stall = self.counters.direct_stall + self.now.since(direct.began);
            return Step::Done(Nanos(200));
        }
        if direct.scanned > BATCH_PAGES * 3 / 2 {
            self.wake_flusher(direct.scanned);
        }
        let naps = direct.scanned_at_priority > 0 && direct.priority < PRIORITY_DEFAULT - 2;
        direct.priority -= 1;
        direct.scanned_at_priority = 0;
        let highest = self.memory.zones.len() - 1;
        direct.zone = Some(highest);
        match naps {
            true => self.wait_iff_congested(Caller::Direct, thread, highest, Nanos(200)),
            false => Step::Ran(Nanos(200)),
        }
    }
}
