//! Files of a database that another process writes: read only, and as of another state at each transaction.

use super::{Main, Opened};
use crate::code;
use crate::database::Database;
use crate::folder::Folder;
use crate::follower::Follower;
use crate::locks::Level;
use crate::opening::{Asked, Found};
use crate::process::{self, Process};
use crate::told::Log;
use millpond::File;
use std::ffi::c_int;
use std::path::Path;
use std::sync::Arc;

/// Of no file.
const NO_IDENTITY: (u64, u64) = (0, 0);

impl Opened {
    /// Opens the WAL of a database that another process writes, as of the state that its connection reads.
    ///
    /// # Errors
    /// As [`process::of_folder`].
    pub(crate) fn wal_of(
        folder: Arc<dyn Folder>,
        follower: Arc<Follower>,
        path: &Path,
        asked: Asked,
        log: &'static dyn Log,
    ) -> Result<Opened, String> {
        let process = process::of_folder(folder.cache(), |_| None)?;
        Ok(Opened::following(process, folder, follower, path, asked, log))
    }

    pub(super) fn following(
        process: Process,
        folder: Arc<dyn Folder>,
        follower: Arc<Follower>,
        path: &Path,
        asked: Asked,
        log: &'static dyn Log,
    ) -> Opened {
        let found = Found {
            file: follower.database(),
            is_writable: false,
            is_name_new: false,
            identity: NO_IDENTITY,
        };
        let mut opened = Opened::found(process, path, asked, found, log);
        // Each connection has a state of its own, and so an index of the WAL, with locks, of its own.
        if let Some(main) = &mut opened.main {
            main.database = Arc::new(Database::new());
        }
        opened.follower = Some(follower);
        opened.folder = Some(folder);
        opened
    }

    pub(crate) fn follower(&self) -> Option<Arc<Follower>> {
        self.follower.clone()
    }

    /// Of a WAL whose database another process writes: its content, if the state has any.
    pub(super) fn followed_wal(&self) -> Option<Option<File>> {
        let follower = self.follower.as_ref().filter(|_| self.main.is_none())?;
        Some(follower.wal())
    }

    /// Before a transaction of a connection to a database that another process writes: moves to the newest state. Whether it
    /// has moved.
    fn follow(&mut self) -> bool {
        let Some(follower) = &self.follower else {
            return false;
        };
        match follower.advance() {
            Ok(true) => {
                self.file = follower.database();
                if let Some(main) = &self.main {
                    main.database.state.lock().shm.forget();
                }
                true
            }
            Ok(false) => false,
            Err(why) => {
                let path = self.path.display();
                self.log
                    .tell(code::IOERR, &format!("{path} stays as it was: {why}"));
                false
            }
        }
    }

    /// Before a lock of the database: a transaction that begins by one moves to the newest state. SQLite's number if it can't
    /// be had.
    pub(super) fn refuses_lock(&mut self, wanted: Level) -> Option<c_int> {
        let follower = self.follower.clone().filter(|_| self.main.is_some())?;
        if wanted > Level::Shared {
            return Some(code::READONLY);
        }
        if self.level() == Level::None {
            self.follow();
        }
        if follower.is_readable() {
            return None;
        }
        let why = format!(
            "{} has a rollback journal: its writer is in a transaction, or was killed in one and has to open it again",
            self.path.display()
        );
        self.log.tell(code::BUSY, &why);
        Some(code::BUSY)
    }

    /// Before a lock by which a transaction reads a WAL: it moves to the newest state. SQLite finds another index than it has
    /// read then, and begins anew: that time the state stays, as else there would be no end beside a fast writer.
    pub(super) fn follow_for_wal(&mut self) {
        let is_between = |main: &Main| main.shm.as_ref().is_some_and(|held| !held.reads());
        if self.follower.is_some() && self.main.as_ref().is_some_and(is_between) {
            self.begins_anew = !self.begins_anew && self.follow();
        }
    }
}
