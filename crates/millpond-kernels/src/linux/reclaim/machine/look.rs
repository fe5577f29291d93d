//! The machine's state, for drawing. Nothing here decides anything.

use super::memory::{ACTIVE_FILE, DIRTY, INACTIVE_FILE, LOADING, REFERENCED, TAGGED, WRITING, YOUNG};
use super::scheduler::{FLUSHER, KSWAPD, Machine, TASKS, Wait};
use millpond_sim::look::{Look, Shade, Strip, ThreadLook};

/// The lists of files. Anonymous pages have lists, too, but they are few on this machine.
const LISTS: [(usize, &str); 2] = [(ACTIVE_FILE, "active, files"), (INACTIVE_FILE, "inactive, files")];

fn shade(flags: u8) -> Shade {
    match flags {
        _ if flags & LOADING != 0 => Shade::Loading,
        _ if flags & WRITING != 0 => Shade::Writing,
        _ if flags & (DIRTY | TAGGED) == DIRTY | TAGGED => Shade::Tagged,
        _ if flags & DIRTY != 0 => Shade::Dirty,
        _ if flags & (YOUNG | REFERENCED) != 0 => Shade::Used,
        _ => Shade::Clean,
    }
}

impl Machine {
    /// Its present state: the lists of the largest zone, and the one of the small zone that matters, in `parts` parts
    /// each. Time: some 20 ns a frame.
    pub fn look(&self, parts: usize) -> Look {
        let zone = self.memory.zones.len() - 1;
        let strip = |zone, list, name| {
            let flags = self.memory.flags_from_cold(zone, list);
            Strip::of(name, self.memory.len(zone, list), parts, flags.map(shade))
        };
        let mut strips: Vec<Strip> = LISTS.map(|(list, name)| strip(zone, list, name)).into();
        if zone > 0 {
            // small, so it turns over faster than the disk writes: there dirty pages meet reclaim
            strips.push(strip(0, INACTIVE_FILE, "inactive, files, first 16 MiB"));
        }
        let marks = self.memory.zones[zone].marks;
        Look {
            strips,
            free: self.memory.zones.iter().map(|zone| zone.free().0).sum(),
            frames: self.memory.zones.iter().map(|zone| zone.managed.0).sum(),
            dirty: self.dirty,
            writing: self.writing,
            in_transit: Some((self.writing * 4096, None)),
            disk: self.block.look(),
            threads: self.threads_look(),
            limits: vec![
                ("free, min", marks.min.0),
                ("free, low", marks.low.0),
                ("free, high", marks.high.0),
            ],
        }
    }

    /// Each thread; the programs beside the load by what they do.
    fn threads_look(&self) -> Vec<ThreadLook> {
        let mut threads: Vec<ThreadLook> = Vec::new();
        for n in 0..self.threads.len() {
            let look = self.thread_look(n);
            let alike = threads
                .iter_mut()
                .find(|other| n > TASKS && other.name == look.name && other.does == look.does);
            match alike {
                Some(other) => other.count += 1,
                None => threads.push(look),
            }
        }
        threads
    }

    fn thread_look(&self, n: usize) -> ThreadLook {
        let (wait, since) = self.threads[n].waits();
        let reclaims = n >= TASKS && self.tasks[n - TASKS].is_reclaiming();
        let (does, is_held_up) = match wait {
            Wait::Nothing if n == KSWAPD => ("scanning", false),
            Wait::Nothing if n == FLUSHER => ("writing files back", false),
            Wait::Nothing if reclaims => ("looking for a frame itself (direct reclaim)", true),
            Wait::Nothing => ("running", false),
            Wait::Request => ("waiting for a place in the disk's queue", true),
            Wait::Congestion(_) | Wait::Conditional(_) => ("asleep until the disk's queue is shorter", true),
            Wait::Page(_) => ("waiting for a page from swap", true),
            Wait::Log => ("waiting for the file system's log, to write a page", true),
            Wait::WritesEnd(_) => ("waiting for tagged pages to be written", true),
            Wait::Time if n == KSWAPD || n == FLUSHER => ("asleep", false),
            Wait::Time if self.tasks[n - TASKS].has_ended => ("ended", false),
            Wait::Time
                if self.tasks[n - TASKS]
                    .dirtier
                    .is_due(self.options.system.dirtiers()) =>
            {
                ("paused: too much is dirty", true)
            }
            Wait::Time => ("asleep", false),
        };
        let name = match n {
            KSWAPD => "kswapd".into(),
            FLUSHER => "flusher".into(),
            TASKS => "the load".into(),
            _ => "other programs".into(),
        };
        ThreadLook {
            name,
            count: 1,
            does,
            is_held_up,
            since: (wait != Wait::Nothing).then_some(since),
        }
    }

    /// From now on every decision of reclaim is kept, not a sample of them.
    pub fn keep_every_decision(&mut self) {
        self.trace.keep_all();
    }
}
