//! The engine's driver: carries events to the core and its effects to the table, the device and the threads.
//!
//! ```text
//!   a thread's call ──┐                        ┌── table: insert, finish, evict     (under the core lock)
//!   completions ──────┼─► core lock ─► step ───┤
//!   ticks ────────────┘                        └── Deferred ── after the lock: submit, wake, wait
//! ```
//!
//! One lock is around the core and around every change of which page is where. Nothing slow happens under it:
//! transfers are handed to the device, and threads are woken, after it was let go. A holder of the core lock never
//! waits for a page; a holder of a page may take the core lock. That order is what keeps it free of deadlock.

use crate::clock::Clock;
use crate::device::{Device, Op, Request, Segments};
use crate::error::{Error, Result};
use crate::file::FileInner;
use crate::gate::Gate;
use crate::poison::{Dart, Poison};
use crate::sys::arena::Arena;
use crate::table::{Load, SharedPin, Table, Turn};
use millpond_core::event::{
    DirtierId, Effect, Effects, Event, Intent, IoError, IoId, Reason, SyncTicket, Waiters,
};
use millpond_core::frame::FrameTable;
use millpond_core::manager::Manager;
use millpond_core::units::{FileId, FrameNo, Instant, Nanos, PageIndex, PageKey, PageSize};
use parking_lot::{Mutex, MutexGuard};
use std::collections::HashMap;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

/// How long a call waits for a frame, or for pages to be written, before it gives up: far beyond what any write
/// takes. Unit tests are less patient.
const PATIENCE: Duration = Duration::from_secs(if cfg!(test) { 2 } else { 30 });

/// How long a dirtier waits while nothing is written and a file is known that can't be: one retry, which comes after
/// a second (`flusher.retry`), has failed by then.
const PATIENCE_WITH_ERRORS: Duration = Duration::from_secs(2);

/// A transfer between its start and its end.
pub(crate) struct Transfer {
    file: Arc<FileInner>,
    first: PageIndex,
    kind: Kind,
}

enum Kind {
    Read(Vec<Load>),
    Write(Vec<FrameNo>),
}

/// What the core lock protects.
pub(crate) struct Core {
    pub(crate) manager: Manager,
    pub(crate) turn: Turn,
    effects: Effects,
    transfers: HashMap<IoId, Transfer>,
    pub(crate) files: Vec<Option<Arc<FileInner>>>,
    /// Requests for durability and how they ended.
    tickets: HashMap<SyncTicket, Option<std::result::Result<(), IoError>>>,
    next_ticket: u64,
}

/// Which pages a fault may bring in.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Reach {
    /// Those of the file as it is when it is this fault's turn. Whoever cuts the file stores its new length before
    /// he takes the core lock to discard what is behind, so nothing comes back afterwards.
    Inside,
    /// Any, if the file has at least so many bytes.
    Within(u64),
    /// Any: the caller is making the file longer.
    Beyond,
}

/// A read that the thread which needs the pages does itself.
pub(crate) struct OwnRead {
    io: IoId,
    pub(crate) first: PageIndex,
    pub(crate) loads: Vec<Load>,
}

/// What is left to do when the core lock has been let go.
#[derive(Default)]
pub(crate) struct Deferred {
    requests: Vec<(Arc<FileInner>, Request)>,
    pub(crate) own: Option<OwnRead>,
    pub(crate) granted: Vec<Load>,
    /// None of the pages is within the fault's [`Reach`].
    pub(crate) outside: bool,
    /// Pages that are read in the background.
    pub(crate) ahead: u64,
    pub(crate) wait: Option<Nanos>,
    pub(crate) pause: Option<Nanos>,
    wake_memory: bool,
    wake_dirtiers: bool,
    wake_syncs: bool,
    wake_background: bool,
    pub(crate) reclaim_more: bool,
}

/// What all handles and threads of a cache share.
pub(crate) struct Shared {
    pub(crate) table: Arc<Table<Arena>>,
    pub(crate) device: Arc<dyn Device>,
    pub(crate) clock: Clock,
    pub(crate) page_size: PageSize,
    pub(crate) poison: Poison,
    core: Mutex<Core>,
    memory_gate: Gate,
    dirtier_gate: Gate,
    sync_gate: Gate,
    /// A dirtier was told to pause: the next one asks first.
    throttling: AtomicBool,
    pub(crate) reclaim_wanted: AtomicBool,
    /// When the background thread sends the next tick; `u64::MAX`: never.
    pub(crate) tick_at: AtomicU64,
    pub(crate) stopping: AtomicBool,
}

impl Shared {
    pub(crate) fn new(
        table: Arc<Table<Arena>>,
        turn: Turn,
        manager: Manager,
        device: Arc<dyn Device>,
    ) -> Shared {
        let page_size = manager.options().page_size;
        let core = Core {
            manager,
            turn,
            effects: Effects::default(),
            transfers: HashMap::new(),
            files: Vec::new(),
            tickets: HashMap::new(),
            next_ticket: 0,
        };
        Shared {
            table,
            device,
            clock: Clock::new(),
            page_size,
            poison: Poison::default(),
            core: Mutex::new(core),
            memory_gate: Gate::default(),
            dirtier_gate: Gate::default(),
            sync_gate: Gate::default(),
            throttling: AtomicBool::new(false),
            reclaim_wanted: AtomicBool::new(false),
            tick_at: AtomicU64::new(u64::MAX),
            stopping: AtomicBool::new(false),
        }
    }

    pub(crate) fn core(&self) -> MutexGuard<'_, Core> {
        self.core.lock()
    }

    /// Takes one event to the core and carries out what belongs under its lock.
    ///
    /// A panic in here is a bug of ours and leaves the core in the middle of something: it poisons the cache.
    pub(crate) fn step(&self, core: &mut Core, event: Event<'_>, deferred: &mut Deferred) {
        let _dart = self.dart("state machine");
        let Core {
            manager,
            turn,
            effects,
            ..
        } = core;
        let mut table = self.table.locked(turn);
        manager.step(self.clock.now(), event, &mut table, effects);
        let effects = std::mem::take(&mut core.effects);
        for effect in &effects.list {
            self.carry_out(core, effect, &effects, deferred);
        }
        let tick_at = effects.next_tick.map_or(u64::MAX, |at| at.0);
        let before = self.tick_at.swap(tick_at, Ordering::Relaxed);
        deferred.wake_background |= tick_at < before;
        core.effects = effects;
    }

    fn carry_out(&self, core: &mut Core, effect: &Effect, effects: &Effects, deferred: &mut Deferred) {
        match effect {
            Effect::Read {
                io,
                reason,
                file,
                first,
                frames,
            } => {
                let mut loads = self.insert(core, *file, *first, effects.frames(frames));
                if *reason == Reason::Fault {
                    deferred.own = Some(OwnRead {
                        io: *io,
                        first: *first,
                        loads,
                    });
                    return;
                }
                deferred.ahead += loads.len() as u64;
                let file = file_of(core, *file);
                let request = self.read_request(u64::from(io.0), &file, *first, &mut loads);
                deferred.requests.push((file.clone(), request));
                core.transfers.insert(
                    *io,
                    Transfer {
                        file,
                        first: *first,
                        kind: Kind::Read(loads),
                    },
                );
            }
            Effect::Grant { file, first, frames } => {
                deferred.granted = self.insert(core, *file, *first, effects.frames(frames));
            }
            Effect::Write {
                io,
                file,
                first,
                frames,
                ..
            } => {
                let file = file_of(core, *file);
                let frames = effects.frames(frames).to_vec();
                let request = self.write_request(u64::from(io.0), &file, *first, &frames);
                deferred.requests.push((file.clone(), request));
                core.transfers.insert(
                    *io,
                    Transfer {
                        file,
                        first: *first,
                        kind: Kind::Write(frames),
                    },
                );
            }
            Effect::Wait { at_most, .. } => deferred.wait = Some(*at_most),
            Effect::Pause { at_most, .. } => {
                self.throttling.store(true, Ordering::Relaxed);
                deferred.pause = Some(*at_most);
            }
            Effect::Wake(Waiters::Memory) => deferred.wake_memory = true,
            Effect::Wake(Waiters::Dirtiers) => deferred.wake_dirtiers = true,
            Effect::Synced { ticket, result } => {
                if let Some(answer) = core.tickets.get_mut(ticket) {
                    *answer = Some(*result);
                }
                deferred.wake_syncs = true;
            }
            Effect::MarkReadAhead { file, at } => {
                file_of(core, *file).readahead_mark.store(at.0, Ordering::Relaxed);
            }
            Effect::WakeReclaimer => {
                self.reclaim_wanted.store(true, Ordering::Relaxed);
                deferred.wake_background = true;
            }
            Effect::ReclaimMore => deferred.reclaim_more = true,
            Effect::Withdraw { frame } => self.table.locked(&mut core.turn).give_back(*frame),
        }
    }

    fn insert(&self, core: &mut Core, file: FileId, first: PageIndex, frames: &[FrameNo]) -> Vec<Load> {
        let mut table = self.table.locked(&mut core.turn);
        let keys = (0..).map(|n| PageKey::new(file, first.after(n)));
        keys.zip(frames)
            .map(|(key, &frame)| table.insert(key, frame))
            .collect()
    }

    fn read_request(
        &self,
        token: u64,
        file: &Arc<FileInner>,
        first: PageIndex,
        loads: &mut [Load],
    ) -> Request {
        let size = self.page_size.bytes() as usize;
        let mut segments = Segments::new(self.table.clone());
        for load in loads {
            segments.push(self.table.loading_frame(load).index() * size, size);
        }
        Request {
            token,
            op: Op::Read,
            file: file.device(),
            offset: self.offset(first),
            segments,
        }
    }

    /// The pages as far as the file goes: what lies beyond its end in the last one is not written.
    fn write_request(
        &self,
        token: u64,
        file: &Arc<FileInner>,
        first: PageIndex,
        frames: &[FrameNo],
    ) -> Request {
        let (size, offset) = (self.page_size.bytes(), self.offset(first));
        let mut left = file.len().saturating_sub(offset);
        let mut segments = Segments::new(self.table.clone());
        for &frame in frames {
            let len = left.min(size);
            segments.push(
                self.table.writing_frame(frame).index() * size as usize,
                len as usize,
            );
            left -= len;
        }
        Request {
            token,
            op: Op::Write,
            file: file.device(),
            offset,
            segments,
        }
    }

    fn offset(&self, page: PageIndex) -> u64 {
        page.0 << self.page_size.shift()
    }

    /// Does what was left for after the lock.
    pub(crate) fn finish(&self, deferred: &mut Deferred) {
        let _dart = self.dart("device");
        if !deferred.requests.is_empty() {
            let mut requests = Vec::with_capacity(deferred.requests.len());
            for (file, request) in deferred.requests.drain(..) {
                if request.op == Op::Write {
                    file.make_room(request.offset + request.segments.bytes() as u64);
                }
                requests.push(request);
            }
            if let Err(error) = self.device.submit(&mut requests) {
                self.poison(format!("the device takes no requests any more: {error}"));
            }
        }
        if std::mem::take(&mut deferred.wake_memory) {
            self.memory_gate.announce();
        }
        if std::mem::take(&mut deferred.wake_dirtiers) {
            self.dirtier_gate.announce();
        }
        if std::mem::take(&mut deferred.wake_syncs) {
            self.sync_gate.announce();
        }
        if std::mem::take(&mut deferred.wake_background) {
            self.device.wake();
        }
    }

    /// Poisons the cache if there is a panic while the answer lives: of `who`.
    pub(crate) fn dart(&self, who: &'static str) -> Dart<impl Fn(String)> {
        Dart {
            who,
            hit: |why| self.poison(why),
        }
    }

    /// Nothing of the cache can be trusted any more: says so to everybody who waits, and to every later call.
    pub(crate) fn poison(&self, why: String) {
        self.poison.set(why);
        self.table.call_off();
        for gate in [&self.memory_gate, &self.dirtier_gate, &self.sync_gate] {
            gate.announce();
        }
    }

    /// One event from a thread that wants no answer.
    pub(crate) fn tell(&self, event: Event<'_>) {
        let mut deferred = Deferred::default();
        self.step(&mut self.core(), event, &mut deferred);
        self.finish(&mut deferred);
    }

    /// Asks for frames for the pages from `first` on that are missing, at most `count`, and waits until some can be
    /// had. An answer without any: the first page is there, or on its way, or outside of `reach`.
    ///
    /// # Errors
    /// [`Error::NoFrames`], [`Error::Poisoned`].
    pub(crate) fn fault(
        &self,
        file: &FileInner,
        first: PageIndex,
        count: u32,
        (intent, reach): (Intent, Reach),
        may_wait: bool,
    ) -> Result<Deferred> {
        let began = std::time::Instant::now();
        loop {
            self.poison.check()?;
            let seen = self.memory_gate.count();
            let mut deferred = Deferred::default();
            {
                let mut core = self.core();
                let within = match reach {
                    Reach::Inside => file
                        .len()
                        .div_ceil(self.page_size.bytes())
                        .saturating_sub(first.0),
                    Reach::Within(bytes) if file.len() < bytes => 0,
                    Reach::Within(_) | Reach::Beyond => u64::MAX,
                };
                deferred.outside = within == 0;
                let missing = {
                    let table = self.table.locked(&mut core.turn);
                    let is_missing = |n: &u64| table.lookup(PageKey::new(file.id, first.after(*n))).is_none();
                    let wanted = 0..u64::from(count).min(within);
                    wanted.take_while(is_missing).count() as u32
                };
                if missing == 0 {
                    return Ok(deferred);
                }
                let event = Event::Fault {
                    file: file.id,
                    first,
                    count: missing,
                    intent,
                };
                self.step(&mut core, event, &mut deferred);
            }
            self.finish(&mut deferred);
            let Some(at_most) = deferred.wait else {
                return Ok(deferred);
            };
            if !may_wait {
                return Ok(deferred);
            }
            if began.elapsed() > PATIENCE {
                return Err(self.no_frames());
            }
            self.memory_gate.wait(seen, Duration::from_nanos(at_most.0));
        }
    }

    /// Waits for memory for as long as a fault was told.
    pub(crate) fn wait_for_memory(&self, at_most: Nanos) {
        let seen = self.memory_gate.count();
        self.memory_gate.wait(seen, Duration::from_nanos(at_most.0));
    }

    /// Does the read that a fault has left to its thread. `each` sees every page before anybody else does.
    ///
    /// # Errors
    /// The device's; the pages are not in memory then.
    pub(crate) fn read(
        &self,
        file: &Arc<FileInner>,
        own: OwnRead,
        mut each: impl FnMut(PageIndex, &[u8]),
        keep: bool,
    ) -> io::Result<Option<SharedPin<&Table<Arena>>>> {
        let OwnRead { io, first, mut loads } = own;
        let request = self.read_request(0, file, first, &mut loads);
        let dart = self.dart("device");
        let result = self.device.transfer(&request);
        drop(dart);
        drop(request);
        let mut deferred = Deferred::default();
        let answer = match result {
            Ok(bytes) => {
                self.zero_rest(&mut loads, bytes);
                for (n, load) in loads.iter_mut().enumerate() {
                    each(first.after(n as u64), self.table.load_bytes(load));
                }
                let mut pinned = None;
                let mut core = self.core();
                for (n, load) in loads.into_iter().enumerate() {
                    if keep && n == 0 {
                        pinned = Some(self.table.finish_load_pinned(load));
                    } else {
                        self.table.finish_load(load);
                    }
                }
                self.step(&mut core, Event::ReadDone { io, result: Ok(()) }, &mut deferred);
                Ok(pinned)
            }
            Err(error) => {
                self.fail_read(&mut self.core(), io, loads, io_error(&error), &mut deferred);
                Err(error)
            }
        };
        self.finish(&mut deferred);
        answer
    }

    /// What the device did not deliver lies beyond the end of the file: zeros.
    fn zero_rest(&self, loads: &mut [Load], bytes: usize) {
        let size = self.page_size.bytes() as usize;
        for (n, load) in loads.iter_mut().enumerate().skip(bytes / size) {
            let have = bytes.saturating_sub(n * size).min(size);
            self.table.load_bytes(load)[have..].fill(0);
        }
    }

    fn fail_read(
        &self,
        core: &mut Core,
        io: IoId,
        loads: Vec<Load>,
        error: IoError,
        deferred: &mut Deferred,
    ) {
        for load in loads {
            self.table.locked(&mut core.turn).fail_load(load);
        }
        self.step(
            core,
            Event::ReadDone {
                io,
                result: Err(error),
            },
            deferred,
        );
    }

    /// A transfer that the device had been handed is over.
    pub(crate) fn completed(
        &self,
        core: &mut Core,
        token: u64,
        result: io::Result<usize>,
        deferred: &mut Deferred,
    ) {
        let io = IoId(token as u32);
        let Some(Transfer { file, first, kind }) = core.transfers.remove(&io) else {
            return self.poison(format!(
                "the device completed request {token}, which it was not given"
            ));
        };
        match (kind, result) {
            (Kind::Read(mut loads), Ok(bytes)) => {
                self.zero_rest(&mut loads, bytes);
                for load in loads {
                    self.table.finish_load(load);
                }
                self.step(core, Event::ReadDone { io, result: Ok(()) }, deferred);
            }
            (Kind::Read(loads), Err(error)) => self.fail_read(core, io, loads, io_error(&error), deferred),
            (Kind::Write(frames), Ok(_)) => {
                file.written(None);
                for &frame in &frames {
                    self.table.end_write(frame);
                }
                self.step(core, Event::WriteDone { io, result: Ok(()) }, deferred);
            }
            (Kind::Write(frames), Err(error)) => {
                file.written(Some((self.offset(first), io_error(&error).0)));
                for &frame in &frames {
                    self.table.fail_write(frame);
                }
                self.step(
                    core,
                    Event::WriteDone {
                        io,
                        result: Err(io_error(&error)),
                    },
                    deferred,
                );
            }
        }
    }

    /// Reports pages that went from clean to dirty, which the caller owns. Whether it has to pause afterwards.
    pub(crate) fn dirtied(&self, file: FileId, first: PageIndex, frames: &[FrameNo]) -> Option<Nanos> {
        let mut deferred = Deferred::default();
        let event = Event::Dirtied {
            file,
            first,
            frames,
            dirtier: dirtier(),
        };
        self.step(&mut self.core(), event, &mut deferred);
        self.finish(&mut deferred);
        deferred.pause
    }

    /// Pauses a dirtier that was told to, until it may go on.
    ///
    /// # Errors
    /// [`Error::Write`] if too much is dirty because this file, or after a while another, can't be written;
    /// [`Error::NoFrames`] if nothing is written for long, because guards are held; [`Error::Poisoned`].
    pub(crate) fn pause(&self, file: &FileInner, at_most: Nanos) -> Result<()> {
        let mut at_most = at_most;
        let mut progress = (self.written_pages(), std::time::Instant::now());
        loop {
            self.poison.check()?;
            file.check_written()?;
            let seen = self.dirtier_gate.count();
            self.dirtier_gate.wait(seen, Duration::from_nanos(at_most.0));
            match self.resume() {
                None => return Ok(()),
                Some(longer) => at_most = longer,
            }
            let written = self.written_pages();
            if written != progress.0 {
                progress = (written, std::time::Instant::now());
                continue;
            }
            let stuck = progress.1.elapsed();
            if stuck > PATIENCE_WITH_ERRORS {
                let files: Vec<_> = self.core().files.iter().flatten().cloned().collect();
                files.iter().try_for_each(|file| file.check_written())?;
            }
            if stuck > PATIENCE {
                return Err(self.no_frames());
            }
        }
    }

    /// Pages that were written since the cache was made.
    fn written_pages(&self) -> u64 {
        self.core().manager.stats().nr_written
    }

    fn no_frames(&self) -> Error {
        Error::NoFrames {
            frames: self.core().manager.derived().frames.0,
            seconds: PATIENCE.as_secs(),
        }
    }

    /// Asks whether a dirtier may go on; if not, for how long at most to wait before asking again.
    fn resume(&self) -> Option<Nanos> {
        let mut deferred = Deferred::default();
        {
            let mut core = self.core();
            self.step(&mut core, Event::Resume { dirtier: dirtier() }, &mut deferred);
            if deferred.pause.is_none() {
                self.throttling.store(false, Ordering::Relaxed);
            }
        }
        self.finish(&mut deferred);
        deferred.pause
    }

    /// Before a page is dirtied by a guard: pauses if dirtiers have to.
    ///
    /// # Errors
    /// As [`Shared::pause`].
    pub(crate) fn throttle(&self, file: &FileInner) -> Result<()> {
        if self.throttling.load(Ordering::Relaxed)
            && let Some(at_most) = self.resume()
        {
            return self.pause(file, at_most);
        }
        Ok(())
    }

    /// Asks for everything that is dirty in the file to be written.
    pub(crate) fn sync_begin(&self, file: FileId) -> SyncTicket {
        let mut deferred = Deferred::default();
        let ticket = {
            let mut core = self.core();
            let ticket = SyncTicket(core.next_ticket);
            core.next_ticket += 1;
            core.tickets.insert(ticket, None);
            self.step(&mut core, Event::Sync { file, ticket }, &mut deferred);
            ticket
        };
        self.finish(&mut deferred);
        ticket
    }

    /// Waits until that has ended.
    ///
    /// # Errors
    /// The first error of a write; [`Error::Poisoned`].
    pub(crate) fn sync_end(&self, ticket: SyncTicket) -> Result<std::result::Result<(), IoError>> {
        loop {
            let seen = self.sync_gate.count();
            {
                let mut core = self.core();
                if let Some(&Some(result)) = core.tickets.get(&ticket) {
                    core.tickets.remove(&ticket);
                    return Ok(result);
                }
            }
            self.poison.check()?;
            self.sync_gate.wait(seen, Duration::from_secs(1));
        }
    }
}

fn file_of(core: &Core, file: FileId) -> Arc<FileInner> {
    core.files[file.0 as usize]
        .clone()
        .expect("the core names only files that are open")
}

/// The system's error number, or `EIO` for what has none.
fn io_error(error: &io::Error) -> IoError {
    IoError(error.raw_os_error().unwrap_or(libc::EIO))
}

/// The calling thread, as the throttle tells dirtiers apart.
fn dirtier() -> DirtierId {
    use std::cell::Cell;
    use std::sync::atomic::AtomicU32;
    static NEXT: AtomicU32 = AtomicU32::new(1);
    thread_local! {
        static OWN: Cell<u32> = const { Cell::new(0) };
    }
    OWN.with(|own| {
        if own.get() == 0 {
            own.set(NEXT.fetch_add(1, Ordering::Relaxed));
        }
        DirtierId(own.get())
    })
}

/// Turns what the background thread measures into a time-out.
pub(crate) fn until(now: Instant, tick_at: u64) -> Option<Duration> {
    (tick_at != u64::MAX).then(|| Duration::from_nanos(tick_at.saturating_sub(now.0)))
}

#[cfg(test)]
mod tests {
    use crate::{Error, OpenOptions, PageCache};

    /// Whoever holds guards of more changed pages than may be dirty waits for himself. He waited for ever.
    #[test]
    fn a_thread_that_holds_as_many_changed_pages_as_may_be_dirty_is_told_to_drop_some() {
        let folder = tempfile::tempdir().unwrap();
        let cache = PageCache::builder().memory(800 << 10).build().unwrap();
        let file = cache
            .open(folder.path().join("data"), OpenOptions::new().create(true))
            .unwrap();
        file.set_len(1 << 20).unwrap();
        let mut guards = Vec::new();
        let error = loop {
            match file.page_mut(guards.len() as u64) {
                Ok(guard) => guards.push(guard),
                Err(error) => break error,
            }
        };
        assert!(matches!(error, Error::NoFrames { .. }), "{error}");
        drop(guards);
        file.page_mut(100).unwrap()[0] = 1;
    }
}
