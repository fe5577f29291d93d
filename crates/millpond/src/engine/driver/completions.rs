//! Ends transfers: settles their pages and tells the core.

use super::coming::SwapRead;
use super::swap_in::SwapIn;
use super::transfers::{BAD, Kind, OwnRead, Transfer, io_error};
use super::{CoreGuard, Engine, Outbox, Reads};
use crate::error::again;
use crate::files::{FileInner, Shrunk};
use millpond_core::event::Event;
use millpond_core::io::IoId;
use std::io;
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// Pages that were read and still have to pass a check.
pub(crate) enum Unchecked {
    /// The file's check, for pages read ahead.
    Of(Arc<FileInner>, OwnRead),
    /// The comparison with their checksums, for pages from the swap file.
    Swap(SwapRead, io::Result<usize>),
}

impl CoreGuard<'_> {
    /// Ends a transfer that the device had been handed. Returns it if its pages must be checked, which takes too long for
    /// the core lock ([`Unchecked::check`]).
    pub(crate) fn completed(&mut self, token: u64, result: io::Result<usize>) -> Option<Unchecked> {
        let (engine, io) = (self.engine, IoId(token as u32));
        let Some(Transfer { file, first, kind }) = self.transfers.remove(&io) else {
            engine.poison(format!(
                "the device completed request {token}, which it was not given"
            ));
            return None;
        };
        match (kind, result) {
            (Kind::Read(mut loads), Ok(bytes)) => {
                if Reads::of(engine, &file)
                    .is_whole(first, loads.len(), bytes, Shrunk::Refused)
                    .is_err()
                {
                    self.fail_read(io, loads, BAD);
                    return None;
                }
                Reads::of(engine, &file).zero_rest(&mut loads, bytes);
                if file.writeback_rules.check.is_some() {
                    let read = OwnRead { io, first, loads };
                    return Some(Unchecked::Of(file, read));
                }
                for load in loads {
                    engine.table.finish_load(load);
                }
                self.step(Event::ReadDone { io, result: Ok(()) });
            }
            (Kind::SwapIn(read), result) => return Some(Unchecked::Swap(read, result)),
            (Kind::SwapOut, result) => {
                self.swapped_out(io, result.is_ok());
                let result = result.map(|_| ()).map_err(|error| io_error(&error));
                self.step(Event::WriteDone { io, result });
            }
            (Kind::Read(loads), Err(error)) => self.fail_read(io, loads, io_error(&error)),
            (Kind::Write(_pins), Ok(_)) => {
                for &frame in self.manager.frames_of(io) {
                    engine.table.end_write(frame);
                }
                self.step(Event::WriteDone { io, result: Ok(()) });
                if file.failing.load(Ordering::Relaxed) {
                    let is_failing = self.manager.failing(file.id).is_some();
                    file.failing.store(is_failing, Ordering::Relaxed);
                }
            }
            (Kind::Write(_pins), Err(error)) => {
                let pages = self.held.manager.frames_of(io);
                for &frame in pages {
                    engine.table.fail_write(frame);
                }
                // Reported once until all of them are written: a full disk refuses thousands.
                if !file.failing.load(Ordering::Relaxed) {
                    let failed = (file.clone(), first, pages.len(), again(&error));
                    self.outbox.failed.push(failed);
                }
                let result = Err(file.refused(error));
                self.step(Event::WriteDone { io, result });
                file.failing.store(true, Ordering::Relaxed);
                engine.waits.dirtiers.failing.store(true, Ordering::Relaxed);
            }
        }
        None
    }
}

impl Unchecked {
    /// Lets the file's check look at pages that were read ahead. If it refuses one, none of that read comes into memory; a
    /// thread that needs such a page reads it, and gets the error. The caller empties the outbox, because it may have other
    /// pages in hand.
    pub(crate) fn check<'a>(self, engine: &'a Engine, outbox: Outbox<'a>) -> Outbox<'a> {
        let (file, read) = match self {
            Unchecked::Of(file, read) => (file, read),
            Unchecked::Swap(read, result) => return SwapIn::of(engine).swapped_in(read, result, outbox),
        };
        let OwnRead { io, first, mut loads } = read;
        let checked = Reads::of(engine, &file).check_read(first, &mut loads);
        let mut core = CoreGuard::lock(outbox);
        match checked {
            Err(_) => core.fail_read(io, loads, BAD),
            Ok(()) => {
                for load in loads {
                    engine.table.finish_load(load);
                }
                core.step(Event::ReadDone { io, result: Ok(()) });
            }
        }
        core.unlock()
    }
}
