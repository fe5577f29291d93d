//! One file of a connection: a database, its journal or its WAL.

use crate::code;
use crate::database::Database;
use crate::folder::Folder;
use crate::follower::Follower;
use crate::locks::{Busy, Connection, Level};
use crate::opening::{self, Asked, Found};
use crate::process::{self, Process};
use crate::shm::{Held, LOCKS, READ_LOCKS};
use crate::told::Log;
use millpond::internal::Maker;
use millpond::{Error, File, OwnedPageRef};
use std::ffi::{c_int, c_void};
use std::fs;
use std::ops::Range;
use std::os::fd::AsFd;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// An open file of SQLite's.
pub(crate) struct Opened {
    file: File,
    path: PathBuf,
    process: Process,
    maker: Maker,
    /// The SQLite that has it.
    log: &'static dyn Log,
    /// Whether the connection may write it.
    pub(crate) is_writable: bool,
    /// Whether the process may write it.
    is_process_writable: bool,
    /// Its name may not be durable yet.
    is_name_new: bool,
    pub(crate) persists_wal: bool,
    pub(crate) powersafe_overwrite: bool,
    pub(crate) errno: c_int,
    /// Bytes of the database that may be had by [`Opened::fetch`]: `PRAGMA mmap_size`.
    pub(crate) fetch_bytes_max: u64,
    /// The file's length is a multiple of this where SQLite sets the length; 0 is any.
    pub(crate) chunk_bytes: u64,
    /// Pages that SQLite has, with where they are. There are as many as cursors: few.
    fetched: Vec<(u64, OwnedPageRef)>,
    main: Option<Main>,
    /// The state of a database that another process writes, or of the database of this WAL.
    follower: Option<Arc<Follower>>,
    /// It has moved to another state, and SQLite does not know yet.
    begins_anew: bool,
    /// The folder that it belongs to, if it is not on a disk. Last: it may be closed with its last file.
    folder: Option<Arc<dyn Folder>>,
}

/// For a database, not for its journal.
struct Main {
    database: Arc<Database>,
    connection: Connection,
    level: Level,
    /// While the WAL's shared memory is mapped.
    shm: Option<Held>,
}

impl Opened {
    /// Opens a file. One that may not be written is opened for reading, as by SQLite's own VFS.
    ///
    /// # Errors
    /// SQLite's number.
    pub(crate) fn new(
        path: &Path,
        asked: Asked,
        setting: impl Fn(&str) -> Option<String>,
        log: &'static dyn Log,
    ) -> Result<Opened, (c_int, String)> {
        let failed = |error: Error| {
            let is_new_journal = asked.creates && !asked.is_database && !path.exists();
            (code::of_opening(&error, is_new_journal), error.told(SURFACE))
        };
        // A journal and a WAL have their database's parameters, which were heard when that was opened.
        let setting = |name: &str| asked.is_database.then(|| setting(name)).flatten();
        let process = process::with_settings(setting).map_err(|why| (code::CANTOPEN, why))?;
        let found = opening::open(&process.cache, path, asked).map_err(failed)?;
        Ok(Opened::found(process, path, asked, found, log))
    }

    /// Opens `name` of a folder, which SQLite knows as `path`.
    ///
    /// # Errors
    /// SQLite's number.
    pub(crate) fn in_folder(
        folder: Arc<dyn Folder>,
        path: &Path,
        name: &str,
        asked: Asked,
        setting: impl Fn(&str) -> Option<String>,
        log: &'static dyn Log,
    ) -> Result<Opened, (c_int, String)> {
        let cant = |why: String| (code::CANTOPEN, why);
        let setting = |name: &str| asked.is_database.then(|| setting(name)).flatten();
        let process = process::of_folder(folder.cache(), setting).map_err(cant)?;
        let missing = || cant(format!("there is no {}", path.display()));
        if folder.is_followed() {
            let follower = Follower::new(folder.clone(), name).map_err(cant)?;
            let follower = Arc::new(follower.ok_or_else(missing)?);
            return Ok(Opened::following(process, folder, follower, path, asked, log));
        }
        let file = folder
            .open(name, asked.creates && asked.writes)
            .map_err(cant)?
            .ok_or_else(missing)?;
        // It is in memory while it is open, and has its number there.
        let found = rustix::fs::fstat(file.as_fd()).map_err(|errno| cant(errno.to_string()))?;
        let found = Found {
            file,
            is_writable: true,
            is_name_new: false,
            identity: (found.st_dev, found.st_ino),
        };
        let mut opened = Opened::found(process, path, asked, found, log);
        opened.folder = Some(folder);
        Ok(opened)
    }

    fn found(process: Process, path: &Path, asked: Asked, found: Found, log: &'static dyn Log) -> Opened {
        let main = asked.is_database.then(|| {
            let database = process::database(found.identity);
            Main {
                connection: database.connection(),
                database,
                level: Level::None,
                shm: None,
            }
        });
        Opened {
            file: found.file,
            path: path.to_owned(),
            process,
            maker: Maker::this(),
            log,
            is_writable: found.is_writable && asked.writes,
            is_process_writable: found.is_writable,
            is_name_new: found.is_name_new,
            persists_wal: false,
            powersafe_overwrite: asked.is_powersafe,
            errno: 0,
            fetch_bytes_max: 0,
            chunk_bytes: 0,
            fetched: Vec::new(),
            main,
            follower: None,
            begins_anew: false,
            folder: None,
        }
    }

    /// Reports this error to SQLite, and returns its number.
    fn fail(&mut self, error: &Error, usual: c_int) -> c_int {
        self.errno = error.errno();
        let mut why = error.told(SURFACE);
        if let Some(trouble) = self.folder.as_ref().and_then(|folder| folder.trouble()) {
            why = format!("{why}; {trouble}");
        }
        self.log.tell(code::of(error, usual), &why);
        code::of(error, usual)
    }

    fn done(&mut self, result: Result<(), Error>, usual: c_int) -> c_int {
        match result {
            Ok(()) => code::OK,
            Err(error) => self.fail(&error, usual),
        }
    }

    /// Fills the buffer, with zeros past the end of the file.
    pub(crate) fn read(&mut self, buffer: &mut [u8], offset: u64) -> c_int {
        let read = match self.followed_wal() {
            None => self.file.read_at(buffer, offset),
            Some(None) => Ok(0),
            Some(Some(wal)) => wal.read_at(buffer, offset),
        };
        match read {
            Ok(len) if len == buffer.len() => code::OK,
            Ok(len) => {
                buffer[len..].fill(0);
                code::IOERR_SHORT_READ
            }
            Err(error) => self.fail(&error, code::IOERR_READ),
        }
    }

    pub(crate) fn write(&mut self, bytes: &[u8], offset: u64) -> c_int {
        if self.is_fetched(offset..offset + bytes.len() as u64) {
            return self.lent(code::IOERR_WRITE);
        }
        let written = self.file.write_at(bytes, offset);
        self.done(written, code::IOERR_WRITE)
    }

    pub(crate) fn truncate(&mut self, len: u64) -> c_int {
        if self.is_fetched(len..u64::MAX) {
            return self.lent(code::IOERR_TRUNCATE);
        }
        let cut = self.file.set_len(self.in_chunks(len));
        self.done(cut, code::IOERR_TRUNCATE)
    }

    fn in_chunks(&self, len: u64) -> u64 {
        match self.chunk_bytes {
            0 => len,
            chunk => len.checked_next_multiple_of(chunk).unwrap_or(len),
        }
    }

    /// It will be as long soon. The cache makes room on the device as it writes; only the length is to be in chunks.
    pub(crate) fn will_have(&mut self, len: u64) -> c_int {
        let len = self.in_chunks(len);
        if self.chunk_bytes == 0 || len <= self.len() {
            return code::OK;
        }
        let longer = self.file.set_len(len);
        self.done(longer, code::IOERR_WRITE)
    }

    pub(crate) fn sync(&mut self) -> c_int {
        let synced = self.file.sync_data();
        let answer = self.done(synced, code::IOERR_FSYNC);
        if answer == code::OK && self.is_name_new {
            if let Err(source) = opening::sync_name(&self.path) {
                self.errno = source.raw_os_error().unwrap_or(0);
                let said = format!("can't make the name of {} durable: {source}", self.path.display());
                self.log.tell(code::IOERR_DIR_FSYNC, &said);
                return code::IOERR_DIR_FSYNC;
            }
            self.is_name_new = false;
        }
        answer
    }

    pub(crate) fn len(&self) -> u64 {
        match self.followed_wal() {
            None => self.file.len(),
            Some(wal) => wal.map_or(0, |wal| wal.len()),
        }
    }

    /// Bytes that a write of one can't spare: the cache writes pages.
    pub(crate) fn sector_bytes(&self) -> u64 {
        self.file.page_size()
    }

    /// Lends a page of the database as it is in memory, if it is one of the cache's. `None`: SQLite reads it.
    ///
    /// No write waits for a page that is lent: SQLite changes what the file has under a lock that excludes readers, or, by a
    /// checkpoint of the WAL, pages that no reader takes from the file.
    pub(crate) fn fetch(&mut self, offset: u64, len: usize) -> Result<Option<*const c_void>, c_int> {
        let size = self.file.page_size();
        let end = offset.saturating_add(len as u64);
        if size != len as u64
            || !offset.is_multiple_of(size)
            || end > self.fetch_bytes_max
            || end > self.file.len()
        {
            return Ok(None);
        }
        match self.file.page_owned(offset / size) {
            Ok(page) if page.len() == len => {
                let start = page.as_ptr().cast();
                self.fetched.push((offset, page));
                Ok(Some(start))
            }
            Ok(_) => Ok(None),
            Err(error) => Err(self.fail(&error, code::IOERR_READ)),
        }
    }

    /// A page was lent once less.
    pub(crate) fn unfetch(&mut self, offset: u64) {
        if let Some(at) = self.fetched.iter().rposition(|&(of, _)| of == offset) {
            drop(self.fetched.swap_remove(at));
        }
    }

    /// Whether this connection has a page lent that such a change would wait for forever.
    fn is_fetched(&self, bytes: Range<u64>) -> bool {
        let of = |&(offset, ref page): &(u64, OwnedPageRef)| offset..offset + page.len() as u64;
        let mut lent = self.fetched.iter().map(of);
        lent.any(|page| page.start < bytes.end && bytes.start < page.end)
    }

    /// It would wait for itself.
    fn lent(&self, number: c_int) -> c_int {
        let why = "SQLite changes a page that it got from xFetch, which it must not do";
        self.log.tell(number, why);
        number
    }

    /// The VFS that it was opened by.
    pub(crate) fn vfs(&self) -> &'static str {
        match self.folder {
            Some(_) => "millpond-store",
            None => "millpond",
        }
    }

    pub(crate) fn level(&self) -> Level {
        self.main.as_ref().map_or(Level::None, |main| main.level)
    }

    pub(crate) fn lock(&mut self, wanted: Level) -> c_int {
        if let Some(refused) = self.refuses_lock(wanted) {
            return refused;
        }
        let Some(main) = &mut self.main else {
            return code::OK;
        };
        let mut state = main.database.state.lock();
        let (cache, is_writable) = (&self.process.cache, self.is_process_writable);
        let claimed = match self.folder {
            // That is this process's.
            Some(_) => Ok(false),
            None => state.claim(cache, &self.file, is_writable, wanted),
        };
        match claimed {
            Ok(false) => {}
            Ok(true) => process::has_become_own(&self.path),
            Err(error) => {
                drop(state);
                self.errno = error.errno();
                return match error.errno() {
                    libc::EAGAIN | libc::EBUSY => code::BUSY,
                    libc::EROFS => code::READONLY,
                    _ => self.fail(&error, code::IOERR_LOCK),
                };
            }
        }
        match state.locks.lock(main.connection, &mut main.level, wanted) {
            Ok(()) => code::OK,
            Err(Busy) => code::BUSY,
        }
    }

    pub(crate) fn unlock(&mut self, wanted: Level) {
        if let Some(main) = &mut self.main {
            let mut state = main.database.state.lock();
            state.locks.unlock(main.connection, &mut main.level, wanted);
        }
    }

    pub(crate) fn is_reserved(&self) -> bool {
        let main = self.main.as_ref();
        main.is_some_and(|main| main.database.state.lock().locks.is_reserved())
    }

    /// The address of region number `index` of the WAL's shared memory.
    ///
    /// # Errors
    /// SQLite's number: a database that this process may only read can't have one, as others may write to the WAL.
    pub(crate) fn shm_region(
        &mut self,
        index: usize,
        bytes: usize,
        make: bool,
    ) -> Result<Option<*mut c_void>, c_int> {
        let Some(main) = &mut self.main else {
            return Err(code::IOERR_SHMMAP);
        };
        let mut state = main.database.state.lock();
        if !state.is_alone() && self.folder.is_none() {
            return Err(code::CANTOPEN);
        }
        if main.shm.is_none() {
            state.shm.enter();
            main.shm = Some(Held::default());
        }
        Ok(state.shm.region(index, bytes, make))
    }

    pub(crate) fn shm_lock(&mut self, locks: Range<usize>, locks_more: bool, is_exclusive: bool) -> c_int {
        if locks_more && !is_exclusive && READ_LOCKS.contains(&locks.start) {
            self.follow_for_wal();
        }
        let Some(main) = &mut self.main else {
            return code::IOERR_LOCK;
        };
        let Some(held) = main.shm.as_mut().filter(|_| locks.end <= LOCKS) else {
            return code::IOERR_LOCK;
        };
        let shm = &mut main.database.state.lock().shm;
        let done = match (locks_more, is_exclusive) {
            (false, _) => {
                shm.unlock(held, locks);
                Ok(())
            }
            (true, true) => shm.lock_exclusive(held, locks),
            (true, false) => shm.lock_shared(held, locks),
        };
        match done {
            Ok(()) => code::OK,
            Err(Busy) => code::BUSY,
        }
    }

    pub(crate) fn shm_leave(&mut self) {
        if let Some(main) = &mut self.main
            && let Some(mut held) = main.shm.take()
        {
            main.database.state.lock().shm.leave(&mut held);
        }
    }

    /// Whether the name leads elsewhere now.
    pub(crate) fn has_moved(&self) -> bool {
        if self.folder.is_some() {
            return false;
        }
        let here = fs::metadata(&self.path).map(|found| (found.dev(), found.ino()));
        // Of no duplicate: to close one would give up the locks that the process has by `fcntl`.
        let own = rustix::fs::fstat(self.file.as_fd()).map(|own| (own.st_dev, own.st_ino));
        !matches!((here, own), (Ok(here), Ok(own)) if here == own)
    }

    /// `PRAGMA millpond`: all figures; with `NAME`, a setting; with `NAME=VALUE`, sets it.
    ///
    /// # Errors
    /// The error, for the user.
    pub(crate) fn pragma<'a>(&self, argument: Option<&'a str>) -> Result<String, String> {
        let cache = &self.process.cache;
        let told = |error: Error| error.told(SURFACE);
        // As SQLite takes blanks around the `=` of its own pragmas.
        let parts = |text: &'a str| match text.split_once('=') {
            Some((name, value)) => Ok((name.trim(), value.trim())),
            None => Err(text.trim()),
        };
        match argument.map(parts) {
            None => Ok(cache.stats().to_string()),
            Some(Err("faults")) => {
                let faults = self.process.faults.as_ref().ok_or(NO_FAULTS)?;
                faults.clear();
                Ok(String::new())
            }
            Some(Ok(("faults", rule))) => {
                let faults = self.process.faults.as_ref().ok_or(NO_FAULTS)?;
                faults.add(process::fault(rule)?);
                Ok(String::new())
            }
            Some(Err(name)) => {
                let value = cache.setting(name).map_err(told)?;
                Ok(value.unwrap_or_default())
            }
            Some(Ok(pair)) => {
                cache.set(&[pair]).map_err(told)?;
                Ok(String::new())
            }
        }
    }

    /// Whether SQLite may obey a pragma of its own.
    ///
    /// # Errors
    /// The error, for the user.
    pub(crate) fn check_pragma(&self, name: &str, argument: Option<&str>) -> Result<(), String> {
        let is_off = argument.is_some_and(crate::words::is_synchronous_off);
        let by_clock = self
            .folder
            .as_ref()
            .is_some_and(|folder| folder.commits_by_clock());
        match name.eq_ignore_ascii_case("synchronous") && is_off && by_clock {
            true => Err(String::from(
                "synchronous=off and commit_ms do not go together, as a kill could leave a damaged database: use \
                 synchronous=normal and a WAL, or leave commit_ms out of the URI",
            )),
            false => Ok(()),
        }
    }

    /// Whether it belongs to the parent: this process was forked from the one that opened it.
    pub(crate) fn is_parents(&self) -> bool {
        self.maker.is_another()
    }

    /// The answer of a call on a parent's file, which does nothing: locks are counted in memory, and the cache is not
    /// here.
    pub(crate) fn refuse(&self, number: c_int) -> c_int {
        if self.main.is_none() {
            process::record_parents(&self.path);
        }
        let path = self.path.display();
        self.log.tell(
            number,
            &format!(
                "{path} was opened before fork(), and belongs to the parent: open it again in the child"
            ),
        );
        number
    }

    /// Closes it. What could not be written is reported, in SQLite's log too.
    pub(crate) fn close(mut self) -> c_int {
        if self.is_parents() {
            self.refuse(code::OK);
            // Not even its memory: a thread that is not here may have been in the midst of a change.
            std::mem::forget(self);
            return code::OK;
        }
        self.fetched.clear();
        self.shm_leave();
        self.unlock(Level::None);
        let Opened {
            file,
            main,
            process,
            folder,
            log,
            ..
        } = self;
        let path = file.path().to_owned();
        // The file before the lock on it: what is dirty is written meanwhile.
        drop(file);
        drop(main);
        let mut answer = code::OK;
        if folder.is_some() {
            // What is lost of the cache is for the folder's owner to hear.
            return answer;
        }
        for lost in process::take_lost(&process.cache, &path) {
            answer = code::IOERR_CLOSE;
            log.tell(answer, &lost.told(SURFACE));
        }
        answer
    }
}

/// SQLite's users read messages where they read those of programs.
const SURFACE: millpond::internal::Surface = millpond::internal::Surface::CommandLine;

const NO_FAULTS: &str = "disks fail only for a process that was started with MILLPOND_SQLITE=faults=1";

mod following;
#[cfg(test)]
mod tests;
