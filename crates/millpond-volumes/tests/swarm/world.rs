//! A store, some writers and readers, and all that goes wrong between them, drawn from a seed.
//!
//! Each request takes a while to arrive, and its answer a while to come back. A request may be lost, or arrive long after
//! its sender has given up; an answer may be lost, and the request be sent again or not; it may arrive twice; for a time
//! none may arrive. Writers and readers sleep, are killed at any request, and have clocks that run at different speeds.
//! When all has gone on for a while nothing goes wrong any more: then a writer must get on, a reader catch up, and
//! garbage be gone.

use crate::actor::{ReaderActor, WriterActor};
use crate::checker::{Checker, PAGE};
use crate::draw::Draw;
use crate::faults::{Faults, Loss, Seen};
use crate::store::Store;
use bytes::Bytes;
use millpond_volumes::format::Key;
use millpond_volumes::layout::{Answer, At, Numbered, Pinning, ReaderOptions, Request, WriterOptions};
use std::collections::BTreeMap;
use std::time::Duration;

pub(crate) const GRACE: Duration = Duration::from_secs(60);

/// After so long a sender gives up.
const TIMEOUT: Duration = Duration::from_secs(10);

pub(crate) enum Actor {
    Writer(Box<WriterActor>),
    Reader(Box<ReaderActor>),
    Gone,
}

pub(crate) struct Slot {
    pub(crate) actor: Actor,
    /// Counts lives: what is on its way to an earlier one is lost.
    life: u64,
    pub(crate) is_writer: bool,
    /// Its clock runs at this many thousandths of the world's.
    rate: u32,
    /// What it sends has gone by then.
    link: Duration,
    asleep: Duration,
    tick: Option<Duration>,
}

pub(crate) enum Event {
    Arrives {
        from: Option<(usize, u64)>,
        id: u64,
        request: Request,
    },
    Answered {
        to: usize,
        life: u64,
        id: u64,
        answer: Answer,
    },
    Tick {
        who: usize,
        life: u64,
    },
    Acts {
        who: usize,
        life: u64,
    },
    Begins {
        who: usize,
    },
    Loses(Loss),
    /// A copy that is not whole has an object after all.
    Comes(Key, Bytes),
}

pub(crate) struct World {
    pub(crate) draw: Draw,
    pub(crate) now: Duration,
    pub(crate) events: BTreeMap<(Duration, u64), Event>,
    order: u64,
    pub(crate) store: Store,
    pub(crate) slots: Vec<Slot>,
    pub(crate) checker: Checker,
    pub(crate) faults: Faults,
    pub(crate) is_calm: bool,
    pub(crate) version: u64,
    pub(crate) options: WriterOptions,
    /// Its writers make a tree.
    has_tree: bool,
    pub(crate) seen: Seen,
    /// Why a writer could not open the store last.
    pub(crate) last_error: Option<String>,
}

impl World {
    pub(crate) fn new(seed: u64) -> World {
        let mut draw = Draw(seed);
        let chunk_bytes = 128 << draw.below(3);
        let faults = Faults::draw(&mut draw, chunk_bytes);
        let options = WriterOptions {
            page_bytes: Some(PAGE),
            chunk_bytes,
            inline_bytes: [0, 64, 128, 512][draw.below(4) as usize],
            in_transit: 1 + draw.below(4) as usize,
            held_bytes: 1024 + 512 * draw.below(4),
            grace: Some(GRACE),
            checkpoint_commits: 2 + draw.below(12),
            stored_percent_max: 100 + draw.below(60),
            patience: Duration::from_secs(draw.below(3) * 5),
            ..WriterOptions::default()
        };
        let mut world = World {
            draw,
            now: Duration::ZERO,
            events: BTreeMap::new(),
            order: 0,
            store: Store::default(),
            slots: Vec::new(),
            checker: Checker::default(),
            faults,
            is_calm: false,
            version: 0,
            options,
            // Over a slow link a checkpoint with a tree would take too long.
            has_tree: seed % 2 == 1 && faults.link == 0,
            seen: Seen::default(),
            last_error: None,
        };
        let writers = 1 + world.draw.below(3);
        let readers = world.draw.below(4);
        for n in 0..writers + readers {
            world.slots.push(Slot {
                actor: Actor::Gone,
                life: 0,
                is_writer: n < writers,
                rate: 950 + world.draw.below(101) as u32,
                link: Duration::ZERO,
                asleep: Duration::ZERO,
                tick: None,
            });
            let at = world.within(Duration::from_secs(60));
            world.at(at, Event::Begins { who: n as usize });
        }
        for (at, loss) in world.faults.losses.into_iter().flatten() {
            world.at(at, Event::Loses(loss));
        }
        world
    }

    pub(crate) fn within(&mut self, most: Duration) -> Duration {
        self.now + Duration::from_nanos(self.draw.below(most.as_nanos() as u64 + 1))
    }

    pub(crate) fn at(&mut self, at: Duration, event: Event) {
        self.order += 1;
        self.events.insert((at, self.order), event);
    }

    fn happens(&mut self, one_in: u64) -> bool {
        one_in > 0 && !self.is_calm && self.draw.one_in(one_in)
    }

    pub(crate) fn local(&self, who: usize) -> Duration {
        self.now * self.slots[who].rate / 1000
    }

    /// When each of some requests that are sent at once has gone, and when its sender gives it up. They share the link. A chunk
    /// has the time beside that of a request that it would need alone, and what chunks are not has any.
    fn gone(&mut self, who: usize, requests: &[Numbered]) -> Vec<(Duration, Duration)> {
        let bytes = |request: &Request| match request {
            Request::Create { body, .. } | Request::Overwrite { body, .. } => {
                body.iter().map(|piece| piece.len() as u64).sum()
            }
            _ => 0,
        };
        let needs = |bytes: u64| match self.faults.link {
            0 => Duration::ZERO,
            link => Duration::from_millis(bytes * 1000 / link),
        };
        let all = requests.iter().map(|(_, request)| bytes(request)).sum();
        let begins = self.slots[who].link.max(self.now);
        let end = begins + needs(all);
        let gone = requests.iter().map(|(_, request)| match request {
            Request::Create {
                key: Key::Chunk { .. },
                ..
            } => (end, self.now + TIMEOUT + needs(bytes(request))),
            Request::Create { .. } | Request::Overwrite { .. } => (end, end + TIMEOUT),
            _ => (self.now, self.now + TIMEOUT),
        });
        let gone: Vec<_> = gone.collect();
        let given_up = gone.iter().map(|(_, given_up)| *given_up).max();
        self.slots[who].link = end.min(given_up.unwrap_or(end));
        gone
    }

    fn sent(&mut self, who: usize, (id, request): Numbered, (gone, given_up): (Duration, Duration)) {
        let life = self.slots[who].life;
        let slow = self.happens(self.faults.slow);
        let trip = Duration::from_millis(if slow { 4_000 } else { 40 });
        if self.happens(self.faults.twice) {
            let later = self.within(GRACE * 2);
            let (from, request) = (None, request.clone());
            self.at(later, Event::Arrives { from, id, request });
        }
        let answer = Answer::Failed(String::from("no answer"));
        if gone > given_up || self.happens(self.faults.lost) {
            return self.at(
                given_up,
                Event::Answered {
                    to: who,
                    life,
                    id,
                    answer,
                },
            );
        }
        if self.happens(self.faults.late) {
            let later = self.within(GRACE * 3);
            self.at(
                later,
                Event::Arrives {
                    from: None,
                    id,
                    request,
                },
            );
            return self.at(
                given_up,
                Event::Answered {
                    to: who,
                    life,
                    id,
                    answer,
                },
            );
        }
        let arrives = gone + (self.within(trip) - self.now);
        self.at(
            arrives,
            Event::Arrives {
                from: Some((who, life)),
                id,
                request,
            },
        );
    }

    /// The same with another bit in the first `within` bytes.
    pub(crate) fn flipped(&mut self, bytes: &Bytes, within: u64) -> Bytes {
        let mut flipped = bytes.to_vec();
        flipped[self.draw.below(within) as usize] ^= 1 << self.draw.below(8);
        flipped.into()
    }

    fn arrives(&mut self, from: Option<(usize, u64)>, id: u64, request: Request) {
        let is_out = !self.is_calm && (self.faults.outage.0..self.faults.outage.1).contains(&self.now);
        let mut answer = Answer::Failed(String::from("the store is down"));
        if !is_out {
            self.store.now = self.now;
            self.checker.before(&self.store, &request);
            answer = self.store.answer(&request);
        }
        if let Answer::Bytes(bytes) = &mut answer
            && !bytes.is_empty()
            && self.happens(self.faults.flipped)
        {
            *bytes = self.flipped(bytes, bytes.len() as u64);
        }
        let Some((to, life)) = from else { return };
        let back = self.within(Duration::from_millis(40));
        if self.happens(self.faults.answer_lost) {
            match self.draw.one_in(2) {
                // The driver sends it again, and hears of the second.
                true => return self.at(back + TIMEOUT / 4, Event::Arrives { from, id, request }),
                false => answer = Answer::Failed(String::from("its answer was lost")),
            }
        }
        // A list comes in pages, each of them of what is there then.
        if let (Answer::Listed(listed), Request::List { kind, .. }) = (&mut answer, &request)
            && listed.len() > 1
            && self.draw.one_in(3)
        {
            let names = 1 + self.draw.below(listed.len() as u64 - 1);
            listed.truncate(names as usize);
            let (kind, after) = (*kind, listed.last().map(|last| last.key));
            let request = Request::List { kind, after };
            self.at(back, Event::Arrives { from, id, request });
            answer = Answer::Part(std::mem::take(listed));
        }
        self.at(back, Event::Answered { to, life, id, answer });
    }

    /// After anything has happened to an actor.
    pub(crate) fn went_on(&mut self, who: usize) {
        let local = self.local(who);
        let pick = self.draw.bits();
        let (requests, tick) = match &mut self.slots[who].actor {
            Actor::Writer(actor) => {
                actor.hear(&self.store, &mut self.checker);
                if actor.is_open && !actor.is_over && pick.is_multiple_of(16) {
                    actor.reads_itself(&self.store, &mut self.checker);
                }
                (actor.writer.requests(), actor.writer.next_tick())
            }
            Actor::Reader(actor) => {
                actor.hear(&mut self.checker);
                actor.look(&self.store, &mut self.checker, local, GRACE, pick);
                (actor.reader.requests(), actor.reader.next_tick())
            }
            Actor::Gone => return,
        };
        let gone = self.gone(who, &requests);
        for (request, gone) in requests.into_iter().zip(gone) {
            if self.happens(self.faults.killed) {
                return self.ends(who);
            }
            self.sent(who, request, gone);
        }
        if let Some(tick) = tick {
            let slot = &mut self.slots[who];
            let at = (tick * 1000 / slot.rate).max(self.now) + Duration::from_millis(1);
            if slot.tick.is_none_or(|known| at < known) {
                slot.tick = Some(at);
                let life = slot.life;
                self.at(at, Event::Tick { who, life });
            }
        }
        let is_over = match &self.slots[who].actor {
            Actor::Writer(actor) => actor.is_over,
            Actor::Reader(actor) => actor.is_over,
            Actor::Gone => false,
        };
        if is_over {
            self.ends(who);
        }
    }

    pub(crate) fn ends(&mut self, who: usize) {
        match std::mem::replace(&mut self.slots[who].actor, Actor::Gone) {
            Actor::Writer(actor) => {
                self.seen.synced += actor.synced;
                self.seen.failed += actor.failed;
                self.seen.refused += u64::from(actor.is_refused);
                self.last_error = actor.error.or(self.last_error.take());
            }
            Actor::Reader(actor) => self.seen.moved += actor.moved,
            Actor::Gone => {}
        }
        self.slots[who].life += 1;
        if !self.is_calm {
            let at = self.within(Duration::from_secs(40));
            self.at(at, Event::Begins { who });
        }
    }

    pub(crate) fn begins(&mut self, who: usize) {
        let local = self.local(who);
        self.slots[who].life += 1;
        self.slots[who].tick = None;
        if self.slots[who].is_writer {
            let options = WriterOptions {
                nonce: u128::from(self.draw.bits()) << 64 | u128::from(self.draw.bits()),
                take_over: self.is_calm || !self.draw.one_in(4),
                salvage: self.is_calm || self.draw.one_in(2),
                owner: format!("writer {who}"),
                ..self.options.clone()
            };
            self.seen.writers += 1;
            self.slots[who].actor = Actor::Writer(Box::new(WriterActor::new(local, options, self.has_tree)));
        } else {
            let at = match self.draw.one_in(3) && !self.is_calm {
                true => At::Snapshot(format!("s{}", self.draw.below(2))),
                false => At::Newest,
            };
            let poll = [Duration::from_secs(1), Duration::from_secs(5), GRACE * 3];
            let options = ReaderOptions {
                at,
                poll: poll[self.draw.below(if self.is_calm { 2 } else { 3 }) as usize],
                grace: Some(GRACE),
                pinning: if self.draw.one_in(3) {
                    Pinning::Never
                } else {
                    Pinning::Always
                },
                salvage: self.draw.one_in(2),
                id: self.draw.bits(),
                owner: format!("reader {who}"),
            };
            self.slots[who].actor = Actor::Reader(Box::new(ReaderActor::new(local, options)));
        }
        let life = self.slots[who].life;
        let at = self.within(Duration::from_secs(1));
        self.at(at, Event::Acts { who, life });
        self.went_on(who);
    }

    fn acts(&mut self, who: usize) {
        let local = self.local(who);
        if self.happens(self.faults.sleeps) {
            self.slots[who].asleep = self.within(GRACE * 4);
        }
        let mut wait = Duration::from_secs(3);
        if let Actor::Writer(actor) = &mut self.slots[who].actor {
            wait = Duration::from_millis(200);
            if actor.is_open && !actor.writer.is_open() {
                // Closed.
                return self.ends(who);
            }
            if actor.is_open {
                for _ in 0..1 + self.draw.below(6) {
                    actor.act(local, &mut self.draw, &mut self.version, &mut self.checker);
                }
                let often = if self.faults.is_short { 60 } else { 400 };
                if !self.is_calm && self.draw.one_in(often) {
                    actor.close(local);
                    wait = Duration::from_secs(60);
                }
            }
            // Now and then nothing is done for a while.
            if self.draw.one_in(200) {
                wait = GRACE * 2;
            }
        }
        let life = self.slots[who].life;
        let at = self.within(wait);
        self.at(at, Event::Acts { who, life });
        self.went_on(who);
    }

    fn step(&mut self, until: Duration) -> bool {
        let Some(entry) = self.events.first_entry().filter(|entry| entry.key().0 <= until) else {
            self.now = until;
            return false;
        };
        let ((at, _), event) = entry.remove_entry();
        self.now = self.now.max(at);
        self.seen.steps += 1;
        let (who, life) = match &event {
            Event::Answered { to, life, .. } => (*to, *life),
            Event::Tick { who, life } | Event::Acts { who, life } => (*who, *life),
            Event::Begins { who } => {
                let who = *who;
                self.begins(who);
                return true;
            }
            Event::Loses(loss) => {
                let loss = *loss;
                self.loses(loss);
                return true;
            }
            Event::Comes(key, bytes) => {
                self.comes(*key, bytes.clone());
                return true;
            }
            Event::Arrives { .. } => {
                if let Event::Arrives { from, id, request } = event {
                    self.arrives(from, id, request);
                }
                return true;
            }
        };
        if self.slots[who].life != life {
            return true;
        }
        if self.slots[who].asleep > self.now {
            let at = self.slots[who].asleep;
            self.at(at, event);
            return true;
        }
        let local = self.local(who);
        match event {
            Event::Answered { id, answer, .. } => match &mut self.slots[who].actor {
                Actor::Writer(actor) => actor.writer.answered(local, id, answer),
                Actor::Reader(actor) => actor.reader.answered(local, id, answer),
                Actor::Gone => {}
            },
            Event::Tick { .. } => {
                self.slots[who].tick = None;
                match &mut self.slots[who].actor {
                    Actor::Writer(actor) => actor.writer.tick(local),
                    Actor::Reader(actor) => actor.reader.tick(local),
                    Actor::Gone => {}
                }
            }
            _ => {
                self.acts(who);
                return true;
            }
        }
        self.went_on(who);
        true
    }

    pub(crate) fn run_until(&mut self, until: Duration) -> Result<(), String> {
        let before = self.seen.steps;
        while self.step(until) {
            if let Some(broken) = self.checker.broken.take() {
                return Err(format!("at {:?}: {broken}", self.now));
            }
            if self.seen.steps - before > 2_000_000 {
                return Err(format!("at {:?}: it goes round and round", self.now));
            }
        }
        Ok(())
    }
}
