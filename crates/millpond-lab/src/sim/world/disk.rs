//! The world's disk: transfers on their way to the model and back.

use super::{Transfer, World};
use crate::sim::process::State;
use millpond::device::model::{COMMAND_BYTES_MAX, ModelRequest};
use millpond_core::event::{Event, IoError, IoId};
use millpond_core::units::{FrameNo, PageCount, PageKey};

impl World {
    /// Hands a transfer to the disk, in commands that it takes.
    pub(super) fn transfer(&mut self, io: IoId, write: bool, key: PageKey, frames: Vec<FrameNo>) {
        let page_size = self.manager.options().page_size;
        let versions = frames.iter().map(|&f| self.frames.frame(f).version).collect();
        let bytes = PageCount(frames.len() as u64).to_bytes(page_size).0;
        let offset = self.files[key.file().0 as usize].start + key.index().0 * page_size.bytes();
        let id = self.next_request;
        self.next_request += 1;
        let commands = bytes.div_ceil(COMMAND_BYTES_MAX.0);
        self.transfers.insert(
            id,
            Transfer {
                io,
                write,
                key,
                frames,
                versions,
                left: commands as u32,
            },
        );
        for n in 0..commands {
            let at = n * COMMAND_BYTES_MAX.0;
            let len = (bytes - at).min(COMMAND_BYTES_MAX.0) as u32;
            self.model.submit(
                self.now,
                ModelRequest {
                    id,
                    write,
                    offset: offset + at,
                    len,
                },
            );
        }
    }

    pub(super) fn disk_has_news(&mut self) {
        let mut done = std::mem::take(&mut self.done);
        self.model.advance(self.now, &mut done);
        for completion in done.drain(..) {
            let Some(transfer) = self.transfers.get_mut(&completion.id) else {
                self.wake(|s| s == State::Flush(completion.id));
                continue;
            };
            transfer.left -= 1;
            if transfer.left == 0
                && let Some(transfer) = self.transfers.remove(&completion.id)
            {
                self.transfer_done(&transfer);
            }
        }
        self.done = done;
    }

    pub(super) fn transfer_done(&mut self, transfer: &Transfer) {
        let share = if transfer.write {
            self.faults.write_errors
        } else {
            self.faults.read_errors
        };
        let failed = share > 0 && (self.draw() & 0xffff) < u64::from(share);
        let result = if failed { Err(IoError(5)) } else { Ok(()) };
        let (io, first) = (transfer.io, transfer.key);
        for (n, &frame) in transfer.frames.iter().enumerate() {
            let key = PageKey::new(first.file(), first.index().after(n as u64));
            match (transfer.write, failed) {
                (true, false) => self.checker.stored(key, transfer.versions[n]),
                (true, true) => self.frames.frame(frame).dirty = true,
                (false, false) => {
                    let version = self.checker.loaded(key);
                    let state = self.frames.frame(frame);
                    (state.loading, state.version) = (false, version);
                }
                (false, true) => self.frames.remove(frame),
            }
        }
        if transfer.write {
            self.step(Event::WriteDone { io, result });
            self.wake(|s| s == State::Writeback);
        } else {
            self.step(Event::ReadDone { io, result });
            for pid in 0..self.processes.len() {
                if let State::Page(frame) = self.processes[pid].state
                    && transfer.frames.contains(&frame)
                {
                    // A failed read goes to those who waited for it; the page is not in memory.
                    if self.processes[pid].result.is_ok() {
                        self.processes[pid].result = result;
                    }
                    self.wake_one(pid);
                }
            }
        }
    }

    pub(super) fn draw(&mut self) -> u64 {
        self.random = self.random.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let z = (self.random ^ (self.random >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z ^ (z >> 31)
    }
}
