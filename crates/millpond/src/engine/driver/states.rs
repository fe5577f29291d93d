//! Memory for the page states of mapped files, within the budget (`memory/states.rs`).

use super::{CallBack, Engine};
use crate::memory::mapped::MappedFile;
use crate::memory::{At, States};
use std::ops::Range;
use std::sync::Arc;

/// The number of oldest blocks tried before a block is allowed beyond the limit.
const TRIES: u32 = 8;

/// The page states of a mapped file.
#[derive(Clone, Copy)]
pub(crate) struct MappedStates<'a> {
    engine: &'a Engine,
    mapped: &'a Arc<MappedFile>,
}

impl<'a> MappedStates<'a> {
    pub(crate) fn of(engine: &'a Engine, mapped: &'a Arc<MappedFile>) -> MappedStates<'a> {
        MappedStates { engine, mapped }
    }

    /// Makes room for the state of a page that is about to come into the mapping, as far as possible. May wait for the
    /// budget's lock. The caller holds no page.
    pub(super) fn room_for_states(self, page: u64) {
        let MappedStates { engine, mapped } = self;
        let (states, block) = (&mapped.states, States::of(page));
        if states.is_there(block) {
            return;
        }
        for n in 0.. {
            if states.enter(block, n == TRIES) {
                return;
            }
            let most = engine.core().manager.derived().frames.0 / 4;
            let limit = (2 * states.limit()).min(most).min(states.most());
            let has_more = limit > states.limit() && states.raise(limit, &*mapped.pays_states).is_ok();
            if !has_more
                && let Some(oldest) = states.oldest()
                && let Some(mapped) = engine.mapped_of(&mapped.file)
            {
                MappedStates::of(engine, &mapped).forget_states(oldest);
            }
        }
    }

    /// Takes the block's pages out of the mapping, and frees their states if no thread has one of them in hand.
    fn forget_states(self, block: u64) {
        let MappedStates { engine, mapped } = self;
        let (space, pages) = (&mapped.space, &mapped.space.pages);
        let Some(all) = States::pages(block, pages.len()) else {
            return;
        };
        CallBack::of(engine).call_mapped_back(mapped, all.clone(), true);
        let taken = all
            .clone()
            .take_while(|&page| pages.take(page, &[At::Absent]).is_some());
        let held: Range<u64> = all.start..all.start + taken.count() as u64;
        if held == all && pages.forget(&all, || mapped.states.left(block)) {
            // Threads that have touched one meanwhile touch it again.
            engine.spaces().exchange.wake_all(&space.memory, all);
            space.settled.notify_all();
        } else {
            held.for_each(|page| engine.spaces().settle(space, page, At::Absent));
        }
    }
}
