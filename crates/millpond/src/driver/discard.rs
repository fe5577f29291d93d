//! Pages of a file that is closed, or cut, leave memory.

use super::{Deferred, Shared};
use crate::error::Result;
use crate::file::FileInner;
use millpond_core::event::Event;
use millpond_core::frame::FrameTable;
use millpond_core::units::{FrameNo, PageIndex, PageKey};
use std::ops::Range;

/// Pages, or frames, that a discard looks at before it lets others have the core lock: about 0.2 ms.
const DISCARD_BATCH: u64 = 1024;

impl Shared {
    /// Takes the pages `pages` of the file out of memory, whether they are dirty or not, after waiting for those who use
    /// them. None comes into memory meanwhile: the file is closed, or shorter by now ([`Reach`](super::Reach)).
    ///
    /// Looks at each of the pages or at each frame, whichever are fewer, and lets go of the core lock in between.
    pub(crate) fn discard(&self, file: &FileInner, pages: Range<u64>) -> Result<()> {
        let page_count = pages.end.saturating_sub(pages.start);
        let by_page = page_count <= u64::from(self.table.locked(&mut self.core().turn).frames());
        let mut at = 0;
        loop {
            self.poison.check()?;
            let mut busy = None;
            let mut deferred = Deferred::default();
            {
                let mut core = self.core();
                let mut table = self.table.locked(&mut core.turn);
                let end = if by_page {
                    page_count
                } else {
                    table.frames().into()
                };
                if at >= end {
                    return Ok(());
                }
                let found = |n: u64| {
                    if by_page {
                        let key = PageKey::new(file.id, PageIndex(pages.start + n));
                        return table.lookup(key).map(|frame| (key, frame));
                    }
                    let (frame, key) = (FrameNo(n as u32), table.key(FrameNo(n as u32)));
                    let is_ours =
                        key != PageKey::NONE && key.file() == file.id && pages.contains(&key.index().0);
                    (is_ours && table.lookup(key) == Some(frame)).then_some((key, frame))
                };
                let all: Vec<_> = (at..end.min(at + DISCARD_BATCH)).filter_map(found).collect();
                let mut gone: Vec<FrameNo> = all.iter().map(|&(_, frame)| frame).collect();
                table.forget(&mut gone);
                let mut forgotten = gone.iter().copied().peekable();
                let mut discarded = Vec::with_capacity(gone.len());
                for &(key, frame) in &all {
                    if forgotten.next_if_eq(&frame).is_some() {
                        file.keeping.forget(key.index());
                        discarded.push((key.index(), frame));
                    } else {
                        busy = Some((key, frame));
                    }
                }
                if !discarded.is_empty() {
                    self.step(
                        &mut core,
                        Event::Discarded {
                            file: file.id,
                            pages: &discarded,
                        },
                        &mut deferred,
                    );
                }
            }
            self.finish(&mut deferred);
            match busy {
                None => at += DISCARD_BATCH,
                Some((key, frame)) => self.table.wait_unused(frame, key),
            }
        }
    }
}
