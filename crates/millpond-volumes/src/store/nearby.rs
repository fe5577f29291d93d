//! Small pages that are neighbors in an object, such as those of many small files that were written together: read by few
//! requests.
//!
//! ```text
//!   object   ├ a ┤├ b ┤├ c ┤├ d ┤├ e ┤├ f ┤ …
//!   reads      1    2 ─ near the one before it: with what is behind it ─► c, d, e and f are here
//! ```
//!
//! The first small read of an object gets its page alone. One that begins near the end of the one before it gets a *window*,
//! which doubles while that goes on. A window is kept until later ones need its room. So is a page of which a caller wanted only
//! a part: who changes that part needs the rest when it is written. Objects never change, and a page has its checksum, so what
//! is kept can't be old.

use crate::format::Key;
use bytes::Bytes;
use std::collections::VecDeque;
use std::ops::Range;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Reads below this are small: a page of a large file is no less.
const SMALL_BYTES: u64 = 64 << 10;
/// A read is near the one before it if it begins no farther from its end, in either direction: files are not always read in the
/// order in which they were written.
const NEAR_BYTES: u64 = 256 << 10;
/// The first window: some ten files.
const WINDOW_BYTES: u64 = 128 << 10;
/// Objects in which the last read is known: programs read several directories at a time.
const OBJECTS_MAX: usize = 8;

/// The last small read of an object.
#[derive(Debug)]
struct Seen {
    key: Key,
    end: u64,
    /// So much the next one gets, if it is near.
    window: u64,
}

#[derive(Debug)]
struct Window {
    key: Key,
    begins: u64,
    bytes: Bytes,
}

#[derive(Default, Debug)]
struct State {
    seen: VecDeque<Seen>,
    /// The newest at the end.
    windows: VecDeque<Window>,
}

/// What small reads of a store have got beside what they asked for.
#[derive(Debug)]
pub(super) struct Nearby {
    state: Mutex<State>,
    /// Of all windows.
    bytes_max: u64,
}

impl Nearby {
    pub(super) fn new(bytes_max: u64) -> Nearby {
        Nearby {
            state: Mutex::default(),
            bytes_max,
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// These bytes, if they are here; else the range to read, which begins with them.
    pub(super) fn find(&self, key: Key, range: &Range<u64>) -> Result<Bytes, Range<u64>> {
        let mut state = self.state();
        let found = state.windows.iter().find_map(|kept| kept.part(key, range));
        if range.end - range.start >= SMALL_BYTES {
            return found.ok_or_else(|| range.clone());
        }
        let before = state.seen.iter().position(|seen| seen.key == key);
        let before = before.and_then(|at| state.seen.remove(at));
        let near = before.filter(|seen| seen.end.abs_diff(range.start) <= NEAR_BYTES);
        let window = near.map_or(0, |seen| seen.window);
        let next = match (window, &found) {
            (0, _) => WINDOW_BYTES,
            (window, None) => 2 * window,
            (window, Some(_)) => window,
        };
        state.seen.push_back(Seen {
            key,
            end: range.end,
            window: next.min(self.bytes_max / 2),
        });
        if state.seen.len() > OBJECTS_MAX {
            state.seen.pop_front();
        }
        found.ok_or(range.start..range.end.max(range.start + window))
    }

    /// Keeps what was read beside what was asked for, and with it.
    pub(super) fn keep(&self, key: Key, begins: u64, bytes: &Bytes) {
        let mut state = self.state();
        state.windows.push_back(Window {
            key,
            begins,
            bytes: bytes.clone(),
        });
        let mut all: u64 = state.windows.iter().map(|kept| kept.bytes.len() as u64).sum();
        while all > self.bytes_max
            && let Some(oldest) = state.windows.pop_front()
        {
            all -= oldest.bytes.len() as u64;
        }
    }
}

impl Window {
    fn part(&self, key: Key, range: &Range<u64>) -> Option<Bytes> {
        let from = range.start.checked_sub(self.begins)? as usize;
        let to = range.end.checked_sub(self.begins)? as usize;
        (self.key == key && to <= self.bytes.len()).then(|| self.bytes.slice(from..to))
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test fails by panicking")]
mod tests {
    use crate::store::{Store, StoreOptions};

    const FILES: usize = 400;
    const BYTES: usize = 3000;

    /// Requests and bytes for the files, each read whole in this order by a process that has nothing of them.
    fn read(url: &str, order: impl Iterator<Item = usize>) -> (u64, u64) {
        let store = Store::open(url, StoreOptions::new()).unwrap();
        let before = store.usage().requests;
        for n in order {
            let mut found = vec![0; BYTES];
            store
                .open_file(&n.to_string())
                .unwrap()
                .read_at(&mut found, 0)
                .unwrap();
            assert!(found == content(n), "file {n}");
        }
        let after = store.usage().requests;
        store.close().unwrap();
        (after.gets - before.gets, after.get_bytes - before.get_bytes)
    }

    fn content(n: usize) -> Vec<u8> {
        (0..BYTES).map(|at| (n * 31 + at) as u8).collect()
    }

    fn made(url: &str) {
        let store = Store::open(url, StoreOptions::new()).unwrap();
        for n in 0..FILES {
            store
                .create(&n.to_string())
                .unwrap()
                .write_at(&content(n), 0)
                .unwrap();
        }
        store.sync().unwrap();
        store.close().unwrap();
    }

    #[test]
    fn files_that_were_written_together_are_read_by_few_requests_in_any_order_that_is_near() {
        let folder = tempfile::tempdir().unwrap();
        for url in ["memory://nearby", &format!("file://{}", folder.path().display())] {
            made(url);
            read_nearby(url);
        }
    }

    fn read_nearby(url: &str) {
        let all = (FILES * BYTES) as u64;
        let mut names: Vec<usize> = (0..FILES).collect();
        names.sort_by_key(|n| n.to_string());
        for (order, names) in [("as written", (0..FILES).collect()), ("by name", names)] {
            let (gets, bytes) = read(url, names.into_iter());
            assert!(gets <= 20, "{order}: {gets} requests for {FILES} files");
            assert!(bytes <= 2 * all, "{order}: {bytes} bytes for {all}");
        }
    }

    #[test]
    fn pages_that_are_far_from_one_another_are_read_alone() {
        let url = "memory://far";
        made(url);
        let far = (0..FILES).filter(|n| n % 100 == 0);
        let count = far.clone().count() as u64;
        assert_eq!(read(url, far), (count, count * BYTES as u64));
    }
}
