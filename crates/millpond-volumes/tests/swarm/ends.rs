//! How a world ends: nothing goes wrong any more, and all must get on.

use crate::world::{Actor, Event, GRACE, World};
use std::time::Duration;

impl World {
    /// Runs it. `Err`: what was broken.
    pub(crate) fn run(&mut self, busy: Duration) -> Result<(), String> {
        self.run_until(busy)?;
        self.is_calm = true;
        // All that was delayed arrives, and all sleepers awake.
        self.run_until(busy + GRACE * 5)?;
        for who in 0..self.slots.len() {
            self.ends(who);
        }
        let who = self.slots.iter().position(|slot| slot.is_writer).unwrap_or(0);
        self.begins(who);
        // A slow link takes a while for a checkpoint.
        let while_ = if self.faults.link > 0 { 600 } else { 10 };
        self.run_until(self.now + Duration::from_secs(while_))?;
        let local = self.local(who);
        match &mut self.slots[who].actor {
            Actor::Writer(actor) => {
                actor.synced = 0;
                actor.act(local, &mut self.draw, &mut self.version, &mut self.checker);
                actor.sync(local);
            }
            _ => {
                return Err(format!(
                    "no writer gets on when nothing goes wrong any more: {:?}",
                    self.last_error
                ));
            }
        }
        self.went_on(who);
        let reader = self.slots.iter().position(|slot| !slot.is_writer);
        if let Some(reader) = reader {
            self.begins(reader);
        }
        // It writes for two minutes, and then waits until all garbage is gone.
        self.run_until(self.now + Duration::from_secs(120))?;
        let local = self.local(who);
        if let Actor::Writer(actor) = &mut self.slots[who].actor {
            actor.sync(local);
        }
        self.went_on(who);
        self.events
            .retain(|_, event| !matches!(event, Event::Acts { .. }));
        let graces = if self.faults.link > 0 { 24 } else { 8 };
        self.run_until(self.now + GRACE * graces)?;
        match &self.slots[who].actor {
            Actor::Writer(actor) if actor.synced > 0 && actor.writer.number() == self.checker.newest => {}
            _ => {
                return Err(String::from(
                    "a writer does not get on when nothing goes wrong any more",
                ));
            }
        }
        if let Some(reader) = reader {
            match &self.slots[reader].actor {
                Actor::Reader(actor) if actor.reader.number() == self.checker.newest => {}
                _ => {
                    return Err(String::from(
                        "a reader does not catch up when nothing goes wrong any more",
                    ));
                }
            }
        }
        if let Actor::Writer(actor) = &self.slots[who].actor {
            self.checker.is_clean(&self.store, &actor.writer);
            self.checker.is_bounded(&self.store, &self.options);
        }
        if self.faults.is_short {
            self.short_lives(who)?;
        }
        self.seen.salvaged = self.checker.salvaged;
        self.seen.commits = self.checker.newest;
        self.seen.bogus = self.checker.bogus;
        for who in 0..self.slots.len() {
            self.ends(who);
        }
        self.checker.broken.take().map_or(Ok(()), Err)
    }

    /// Writers that live for a sixth of a grace each, with as much between them that no two are there in one: what the first of
    /// them have made and superseded is gone all the same.
    fn short_lives(&mut self, who: usize) -> Result<(), String> {
        for life in 0..24 {
            let local = self.local(who);
            let Actor::Writer(actor) = &mut self.slots[who].actor else {
                return Err(format!("writer {life} of those that live shortly is not there"));
            };
            // The first lives write, and the others only look.
            if life < 12 {
                for _ in 0..12 {
                    actor.act(local, &mut self.draw, &mut self.version, &mut self.checker);
                }
            }
            actor.close(local);
            self.went_on(who);
            self.run_until(self.now + GRACE / 12)?;
            self.ends(who);
            self.run_until(self.now + GRACE / 3)?;
            self.begins(who);
            self.events
                .retain(|_, event| !matches!(event, Event::Acts { .. }));
            self.run_until(self.now + GRACE / 12)?;
        }
        if let Actor::Writer(actor) = &self.slots[who].actor {
            self.checker.is_clean_of_old(&self.store, &actor.writer);
        }
        Ok(())
    }
}
