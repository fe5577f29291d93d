//! A database that another process writes, as one connection reads it: as of one state during a transaction, and as of the
//! newest when the next begins.
//!
//! ```text
//!   begin ──► advance ──► reads of the database and its WAL, both of one state ──► end
//! ```
//!
//! A state is what a kill of the writer would leave, so SQLite reads it by its own rules: the database with the whole
//! transactions of its WAL. A rollback journal with content can't be played back by a reader; it keeps the state that it has
//! until one comes without it.

use crate::folder::{Folder, Snapshot};
use millpond::File;
use parking_lot::Mutex;
use std::sync::Arc;

pub(crate) struct Follower {
    folder: Arc<dyn Folder>,
    name: String,
    at: Mutex<Snapshot>,
}

impl Follower {
    /// `None`: there is no such database.
    ///
    /// # Errors
    /// As [`Folder::newest`].
    pub(crate) fn new(folder: Arc<dyn Folder>, name: &str) -> Result<Option<Follower>, String> {
        let newest = folder.newest(name, None)?;
        Ok(newest.map(|newest| Follower {
            folder,
            name: name.to_owned(),
            at: Mutex::new(newest),
        }))
    }

    /// Moves to the newest state that can be read. Whether it has moved.
    ///
    /// # Errors
    /// As [`Folder::newest`]; it stays where it is.
    pub(crate) fn advance(&self) -> Result<bool, String> {
        let mut at = self.at.lock();
        let newest = self.folder.newest(&self.name, Some(at.number))?;
        // What is no better than before is not kept either: files of one state stay together.
        let newest = newest.filter(|newest| at.has_hot_journal || !newest.has_hot_journal);
        let moves = newest.is_some();
        if let Some(newest) = newest {
            *at = newest;
        }
        Ok(moves)
    }

    /// Whether the state can be read: it has no journal to be played back.
    pub(crate) fn is_readable(&self) -> bool {
        !self.at.lock().has_hot_journal
    }

    pub(crate) fn database(&self) -> File {
        self.at.lock().database.clone()
    }

    /// `None`: the state has none, or an empty one.
    pub(crate) fn wal(&self) -> Option<File> {
        self.at.lock().wal.clone()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use millpond::{OpenOptions, PageCache};

    struct Written {
        cache: PageCache,
        /// The number of the newest state, and whether it has a journal to be played back.
        newest: Mutex<(u64, bool)>,
    }

    impl Folder for Written {
        fn cache(&self) -> &PageCache {
            &self.cache
        }

        fn open(&self, _: &str, _: bool) -> Result<Option<File>, String> {
            Err(String::from("it is followed"))
        }

        fn len(&self, _: &str) -> Option<u64> {
            None
        }

        fn trouble(&self) -> Option<String> {
            None
        }

        fn newest(&self, _: &str, known: Option<u64>) -> Result<Option<Snapshot>, String> {
            let (number, has_hot_journal) = *self.newest.lock();
            if known == Some(number) {
                return Ok(None);
            }
            let file = self
                .cache
                .open_file(tempfile::tempfile().unwrap(), OpenOptions::new());
            Ok(Some(Snapshot {
                number,
                database: file.unwrap(),
                wal: None,
                has_hot_journal,
            }))
        }
    }

    #[test]
    fn a_state_that_has_to_be_played_back_is_left_out_for_one_that_can_be_read() {
        let folder = Arc::new(Written {
            cache: PageCache::builder().memory(2 << 20).build().unwrap(),
            newest: Mutex::new((1, true)),
        });
        let follower = Follower::new(folder.clone(), "data.db").unwrap().unwrap();
        assert!(!follower.is_readable());
        for (number, has_hot_journal, moves) in [
            (2, true, true),
            (3, false, true),
            (3, false, false),
            (4, true, false),
            (5, false, true),
        ] {
            *folder.newest.lock() = (number, has_hot_journal);
            assert_eq!(follower.advance(), Ok(moves), "{number}");
        }
        assert!(follower.is_readable());
    }
}
