//! A news reader: thinks, uses its own memory and the history, reads an article.

use super::disk::{For, Request, bytes};
use super::launder::Purpose;
use super::memory::{ACTIVE, CACHE, DIRTY, INACTIVE, LAP, PAGE, READING, USED, WRITING};
use super::scheduler::{Entry, Machine};
use crate::freebsd::activity;
use millpond_core::units::{Instant, Nanos};
use millpond_sim::draw::Draw;

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Wait {
    /// It thinks.
    Thinks,
    /// For memory.
    Memory,
    /// For a page that another thread reads or writes.
    Page(u32),
    /// For its own read.
    Read,
}

#[derive(Debug)]
pub(super) struct Reader {
    own: u32,
    wait: Wait,
    began: Instant,
    /// Pages to use before the article: object, page, whether it is changed.
    plan: Vec<(u32, u32, bool)>,
    at: usize,
    article: u32,
    article_at: u32,
    frames: Vec<u32>,
}

impl Reader {
    pub(super) fn new(own: u32) -> Reader {
        Reader {
            own,
            wait: Wait::Thinks,
            began: Instant(0),
            plan: Vec::new(),
            at: 0,
            article: 0,
            article_at: 0,
            frames: Vec::new(),
        }
    }
}

impl Reader {
    /// Its activity, and whether it is a wait.
    pub(super) fn does(&self) -> (&'static str, bool) {
        match self.wait {
            Wait::Thinks => ("sending an article", false),
            Wait::Memory => ("waiting for memory", true),
            Wait::Page(_) => ("waiting for a page that is read or written", true),
            Wait::Read => ("waiting for their own read", true),
        }
    }
}

/// A number below `n`, the lower ones more often: the cube of an even one.
pub fn skewed(draw: &mut Draw, n: u32) -> u32 {
    let u = u128::from(draw.bits() >> 32);
    ((u * u * u * u128::from(n)) >> 96) as u32
}

impl Machine {
    pub(super) fn think(&mut self) -> Nanos {
        let mean = self.options.news.think.0;
        Nanos(mean / 2 + self.draw.below(mean))
    }

    pub(super) fn wake_reader(&mut self, n: u32) {
        self.enqueue(Nanos::ZERO, Entry::Reader(n));
    }

    /// Readers that wait for a page that was read or written go on.
    pub(super) fn wake_page(&mut self, frame: u32) {
        while let Some(at) = self.page_waiters.iter().position(|&(page, _)| page == frame) {
            let (_, n) = self.page_waiters.remove(at);
            self.wake_reader(n);
        }
    }

    fn plan(&mut self, n: usize) {
        let news = self.options.news;
        let own = self.readers[n].own;
        let mut plan = std::mem::take(&mut self.readers[n].plan);
        plan.clear();
        plan.extend((0..news.own_hot).map(|page| (own, page, true)));
        for draw in 0..news.own_draws {
            let page = news.own_hot + skewed(&mut self.draw, news.own_pages - news.own_hot);
            plan.push((own, page, draw % 2 == 0));
        }
        for _ in 0..news.history_draws {
            plan.push((self.history, skewed(&mut self.draw, news.history_pages), true));
        }
        let spool = self.memory.objects[self.spool as usize].frames.len() as u64;
        let articles = spool.checked_div(news.article_pages.into()).unwrap_or(0);
        let reader = &mut self.readers[n];
        reader.article = self.draw.below(articles) as u32 * news.article_pages;
        (reader.plan, reader.at, reader.began) = (plan, 0, self.now);
        reader.article_at = 0;
        reader.frames.clear();
    }

    pub(super) fn reader_goes_on(&mut self, n: u32) {
        let was = self.readers[n as usize].wait;
        if was == Wait::Thinks {
            self.plan(n as usize);
        } else {
            self.noted.waiting(self.now, -1);
        }
        let wait = self.use_pages(n).or_else(|| self.read_article(n));
        let wait = wait.unwrap_or_else(|| {
            self.noted
                .read(self.now, self.now.since(self.readers[n as usize].began));
            let span = self.think();
            self.enqueue(span, Entry::Reader(n));
            Wait::Thinks
        });
        self.readers[n as usize].wait = wait;
        match wait {
            Wait::Thinks => return,
            Wait::Memory => {
                self.counters.memory_waits += 1;
                self.short.push_back(n);
                self.wake_daemon();
            }
            Wait::Page(frame) => {
                let is_written = self.memory.frames[frame as usize].flags & WRITING != 0;
                self.counters.write_waits += u64::from(is_written);
                self.page_waiters.push((frame, n));
            }
            Wait::Read => {}
        }
        self.noted.waiting(self.now, 1);
    }

    /// Uses the pages of the plan one after the other; what it has to wait for, if it has to.
    fn use_pages(&mut self, n: u32) -> Option<Wait> {
        loop {
            let reader = &mut self.readers[n as usize];
            let &(object, page, changes) = reader.plan.get(reader.at)?;
            if let Some(wait) = self.use_page(n, object, page, changes) {
                return Some(wait);
            }
            self.readers[n as usize].at += 1;
        }
    }

    fn use_page(&mut self, n: u32, object: u32, page: u32, changes: bool) -> Option<Wait> {
        if let Some(frame) = self.memory.frame_of(object, page) {
            let state = &mut self.memory.frames[frame as usize];
            if state.flags & READING != 0 || (changes && state.flags & WRITING != 0) {
                return Some(Wait::Page(frame));
            }
            state.flags |= USED;
            if changes {
                state.flags |= DIRTY;
            }
            let is_cached = state.is_on(CACHE);
            if is_cached {
                self.activate(frame, 0);
            }
            if changes {
                self.memory.drop_slot(object, page);
            }
            return None;
        }
        let place = self.memory.objects[object as usize].place;
        let slot = self.memory.slot(object, page);
        if place.is_none() && slot.is_none() {
            return match self.allocate(object, page, DIRTY | USED) {
                Ok(frame) => {
                    self.activate(frame, 0);
                    None
                }
                Err(wait) => Some(wait),
            };
        }
        Some(self.page_in(n, object, page))
    }

    /// Reads a page, and from swap the next ones that lie side by side there.
    fn page_in(&mut self, n: u32, object: u32, page: u32) -> Wait {
        let frame = match self.allocate(object, page, READING | USED) {
            Ok(frame) => frame,
            Err(wait) => return wait,
        };
        let mut frames = vec![frame];
        let place = self.memory.objects[object as usize].place;
        let offset = match (place, self.memory.slot(object, page)) {
            (None, Some(slot)) => {
                for more in 1..self.options.swap_read_pages {
                    let is_next = (page + more) < self.options.news.own_pages
                        && self.memory.slot(object, page + more) == Some(slot + more)
                        && self.memory.frame_of(object, page + more).is_none()
                        && !self.targets.wakes_daemon(self.memory.available());
                    match is_next.then(|| self.allocate(object, page + more, READING)) {
                        Some(Ok(frame)) => frames.push(frame),
                        _ => break,
                    }
                }
                self.counters.swapped_in += frames.len() as u64;
                u64::from(slot) * PAGE
            }
            _ => {
                self.counters.history_read += 1;
                place.unwrap_or(0) + u64::from(page) * PAGE
            }
        };
        let request = Request {
            whose: For::Reader(n),
            bytes: bytes(frames.len()),
            frames,
            own_frames: Vec::new(),
        };
        self.disk.submit(self.now, false, offset, request);
        Wait::Read
    }

    /// An article: frames for it, then one read.
    fn read_article(&mut self, n: u32) -> Option<Wait> {
        let pages = self.options.news.article_pages;
        let first = self.readers[n as usize].article;
        if self.readers[n as usize].article_at == pages {
            return None;
        }
        while self.readers[n as usize].article_at < pages {
            let page = first + self.readers[n as usize].article_at;
            if self.memory.frame_of(self.spool, page).is_none() {
                match self.allocate(self.spool, page, READING) {
                    Ok(frame) => self.readers[n as usize].frames.push(frame),
                    Err(wait) => return Some(wait),
                }
            }
            self.readers[n as usize].article_at += 1;
        }
        let frames = self.readers[n as usize].frames.clone();
        if frames.is_empty() {
            // another reader has just read it
            return None;
        }
        let place = self.memory.objects[self.spool as usize].place.unwrap_or(0);
        let request = Request {
            whose: For::Reader(n),
            bytes: bytes(frames.len()),
            frames,
            own_frames: Vec::new(),
        };
        self.disk
            .submit(self.now, false, place + u64::from(first) * PAGE, request);
        Some(Wait::Read)
    }

    /// The read of a reader has ended: articles become inactive, what is mapped active, what came along inactive.
    pub(super) fn read_has_ended(&mut self, n: u32, frames: &[u32]) {
        for &frame in frames {
            let state = self.memory.frames[frame as usize];
            if state.object != self.spool && state.flags & USED != 0 {
                self.activate(frame, 0);
            } else {
                self.memory.enqueue(frame, INACTIVE);
            }
        }
        self.wake_reader(n);
    }

    /// A page becomes active, with at least what a new one has.
    pub(super) fn activate(&mut self, frame: u32, count: u8) {
        self.memory.enqueue(frame, ACTIVE);
        let state = &mut self.memory.frames[frame as usize];
        state.count = state.count.max(count).max(activity::INITIAL);
        state.flags &= !LAP;
    }

    /// A frame for a page of an ordinary process.
    fn allocate(&mut self, object: u32, page: u32, flags: u8) -> Result<u32, Wait> {
        if !self.may_take(Purpose::Ordinary) {
            return Err(Wait::Memory);
        }
        let frame = self.memory.take(object, page, flags);
        if self.targets.wakes_daemon(self.memory.available()) {
            self.wake_daemon();
        }
        frame.ok_or(Wait::Memory)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn half_of_all_skewed_numbers_are_in_the_first_eighth() {
        let mut draw = Draw(7);
        let low = (0..20_000).filter(|_| skewed(&mut draw, 8000) < 1000).count();
        assert!((9_700..10_300).contains(&low), "{low}");
    }
}
