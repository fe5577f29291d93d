//! A program's operations on mapped files.

use super::Op::{self, *};
use super::World;
use super::bytes::{content, same};
use millpond::{Error, MapAdvice, MapOptions, Mapping};
use std::sync::atomic::Ordering;

/// Stores bytes word by word.
fn store(mapping: &Mapping, at: usize, bytes: &[u8]) {
    for (at, &byte) in (at..).zip(bytes) {
        let word = &mapping.words()[at / 8];
        let mut all = word.load(Ordering::Relaxed).to_ne_bytes();
        all[at % 8] = byte;
        word.store(u64::from_ne_bytes(all), Ordering::Relaxed);
    }
}

impl World {
    pub(super) fn apply_mapped(&mut self, op: Op) {
        match op {
            Map { handle, write } => {
                let Some(n) = self.handle(handle) else { return };
                let (file, may_write, handle) = &self.handles[n];
                // A file may have become longer while pages were larger.
                let end = self.len_max().max(self.len(*file)) + 20_000;
                let options = MapOptions::new().writable(write && *may_write);
                match handle.map(..end, &options) {
                    Ok(mapping) if self.mappings.len() < 4 => self.mappings.push((*file, mapping)),
                    Ok(mapping) => drop(mapping),
                    Err(Error::Setup { .. }) => {}
                    Err(error) => panic!("{error}"),
                }
            }
            Unmap { mapping } => {
                let count = self.mappings.len();
                if count > 0 {
                    self.mappings.swap_remove(usize::from(mapping) % count);
                }
            }
            ReadMapped { mapping, at, len } => {
                let Some(n) = usize::from(mapping).checked_rem(self.mappings.len()) else {
                    return;
                };
                let (file, mapping) = &self.mappings[n];
                let at = self.place(*file, at) as usize;
                let end = at + (len as usize).clamp(1, 40_000).min(mapping.len() - at);
                let bytes = &self.files[*file].bytes;
                match mapping.try_read(at..end, <[u8]>::to_vec) {
                    Ok(seen) => same(&bytes[at..end], &seen, "the mapped file"),
                    Err(Error::OutOfRange { .. }) => assert!(end > bytes.len()),
                    Err(error) => panic!("{error}"),
                }
            }
            Store {
                mapping,
                at,
                len,
                seed,
            } => {
                let Some(n) = usize::from(mapping).checked_rem(self.mappings.len()) else {
                    return;
                };
                let (file, mapping) = &self.mappings[n];
                let (at, bytes) = (self.place(*file, at) as usize, &mut self.files[*file].bytes);
                let inside = bytes.len().saturating_sub(at).min(len as usize);
                if !mapping.is_writable() || inside == 0 {
                    return;
                }
                let content = content(inside, seed);
                store(mapping, at, &content);
                bytes[at..at + inside].copy_from_slice(&content);
                // It is not part of the file, and never will be.
                let (end, page) = (bytes.len(), self.page_size as usize);
                store(
                    mapping,
                    end,
                    &vec![seed; (end.next_multiple_of(page) - end).min(9)],
                );
            }
            SyncMapped { mapping } => {
                if let Some(n) = usize::from(mapping).checked_rem(self.mappings.len()) {
                    self.mappings[n].1.sync(..).unwrap();
                    self.check_on_disk(self.mappings[n].0);
                }
            }
            DontNeed { mapping, at, len } => {
                let Some(n) = usize::from(mapping).checked_rem(self.mappings.len()) else {
                    return;
                };
                let (file, mapping) = &self.mappings[n];
                let at = self.place(*file, at) as usize;
                let end = mapping.len().min(at + len as usize);
                mapping.advise(at..end, MapAdvice::DontNeed).unwrap();
            }
            _ => unreachable!("{op:?} is of no mapping"),
        }
    }
}
