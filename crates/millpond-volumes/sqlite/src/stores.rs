//! Stores that have databases which are open: each is opened with the first of its files and closed with the last, so that
//! the next process need not take over. A connection with `mode=ro` opens a store for reading, unless this process writes it.

use crate::commits::Commits;
use millpond::internal::quantity;
use millpond::{File, PageCache, device};
use millpond_sqlite::folder::{self, Folder, Folders, Snapshot};
use millpond_volumes::layout::OpenError;
use millpond_volumes::{CacheError, CacheReader, CacheStore, Error, FileVersion, StoreOptions, Volumes};
use std::collections::HashMap;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, OnceLock, PoisonError, Weak};
use std::time::Duration;

/// Of a store that is made, unless its URI says otherwise: a commit puts such pages, whole, of a WAL that SQLite writes 4 KiB
/// of; and the map of the store has an entry for each. `docs/SQLITE.md` has what it costs.
const PAGE_BYTES: u32 = 16 << 10;

/// What SQLite adds to a database's name for its rollback journal.
const JOURNAL: &str = "-journal";

/// The largest page of a cache.
const CACHE_PAGE_BYTES_MAX: u32 = 64 << 10;

/// The budget of a store's cache unless the URI says otherwise; as that of files of disks.
const MEMORY_BYTES: u64 = 64 << 20;

/// A reader looks for newer commits this often, unless its URI says otherwise.
const POLL_MS: u32 = 1000;

/// The stores of the process, by name.
#[derive(Default)]
struct Stores {
    /// One that can't be had is being opened or closed.
    open: Mutex<HashMap<String, Weak<OpenStore>>>,
    changed: Condvar,
    /// Those of the program.
    served: Mutex<HashMap<String, Arc<OpenStore>>>,
}

/// A store that has files which are open.
struct OpenStore {
    files: Files,
    /// By which it was opened here, and is closed.
    own: Option<String>,
    commits: Option<Commits>,
}

enum Files {
    /// This process writes it.
    Written(Arc<CacheStore>),
    /// Another does, or nobody.
    Read(CacheReader),
}

/// All stores.
pub(crate) fn all() -> Arc<dyn Folders> {
    stores()
}

fn stores() -> Arc<Stores> {
    static STORES: OnceLock<Arc<Stores>> = OnceLock::new();
    STORES.get_or_init(Arc::default).clone()
}

/// Gives databases of a store that the program has open: `file:NAME//data.db`, by the VFS `millpond-store`. Its settings
/// and its end are the program's. A name has no slash at its end, and none twice.
pub fn serve(name: &str, store: Arc<CacheStore>) {
    let files = Files::Written(store);
    let served = Arc::new(OpenStore {
        files,
        own: None,
        commits: None,
    });
    lock(&stores().served).insert(name.to_owned(), served);
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Folders for Stores {
    fn open(
        &self,
        name: &str,
        writes: bool,
        parameter: &dyn Fn(&str) -> Option<String>,
    ) -> Result<Arc<dyn Folder>, String> {
        if let Some(served) = lock(&self.served).get(name) {
            return Ok(served.clone());
        }
        let mut open = lock(&self.open);
        while let Some(known) = open.get(name) {
            match known.upgrade() {
                Some(store) if writes && store.is_followed() => {
                    return Err(String::from(
                        "this process has it open for reading: close its connections with mode=ro first",
                    ));
                }
                Some(store) => return Ok(store),
                None => open = self.changed.wait(open).unwrap_or_else(PoisonError::into_inner),
            }
        }
        open.insert(name.to_owned(), Weak::new());
        drop(open);
        let opened = match writes {
            true => written(name, parameter),
            false => read_store(name, parameter).map(|reader| (Files::Read(reader), None)),
        };
        let mut open = lock(&self.open);
        let opened = opened.map(|(files, commits)| {
            Arc::new(OpenStore {
                files,
                own: Some(name.to_owned()),
                commits,
            })
        });
        match &opened {
            Ok(opened) => open.insert(name.to_owned(), Arc::downgrade(opened)),
            Err(_) => open.remove(name),
        };
        self.changed.notify_all();
        Ok(opened?)
    }

    fn find(&self, name: &str) -> Option<Arc<dyn Folder>> {
        if let Some(served) = lock(&self.served).get(name) {
            return Some(served.clone());
        }
        let found = lock(&self.open).get(name)?.upgrade()?;
        Some(found)
    }
}

/// The size of a page as a URI has it.
///
/// # Errors
/// What is allowed.
fn page_bytes_of(text: &str) -> Result<u32, String> {
    let bytes = quantity::parse_size(text)
        .map_err(|why| format!("page_bytes: {why}"))?
        .0;
    match u32::try_from(bytes) {
        Ok(bytes) if bytes.is_power_of_two() && (4 << 10..=1 << 20).contains(&bytes) => Ok(bytes),
        _ => Err(format!("page_bytes: {text} is no power of two from 4K to 1M")),
    }
}

/// A number as a URI has it, or this one.
fn number(parameter: &dyn Fn(&str) -> Option<String>, name: &str, default: u32) -> Result<u32, String> {
    let Some(text) = parameter(name) else {
        return Ok(default);
    };
    let number = text.parse::<u32>();
    number.map_err(|_| format!("{name}={text} is not a number from 0 to {}", u32::MAX))
}

/// A cache with pages of this size.
fn cache_for(
    volumes: &Arc<Volumes>,
    page_bytes: u32,
    parameter: &dyn Fn(&str) -> Option<String>,
) -> Result<PageCache, String> {
    let builder = match parameter("memory") {
        None => PageCache::builder().memory(MEMORY_BYTES),
        Some(memory) => folder::with_memory(PageCache::builder(), &memory)?,
    };
    let cache = builder
        .name("sqlite-store")
        .page_size(page_bytes.min(CACHE_PAGE_BYTES_MAX).into())
        .populate(false)
        .control(folder::is_on(parameter, "control")?)
        .device(volumes.clone())
        .build();
    cache.map_err(|error| error.to_string())
}

/// Opens a store for writing.
fn written(
    name: &str,
    parameter: &dyn Fn(&str) -> Option<String>,
) -> Result<(Files, Option<Commits>), String> {
    let millis = number(parameter, "commit_ms", 0)?;
    let store = Arc::new(open_store(name, parameter)?);
    let period = Duration::from_millis(millis.into());
    let commits = (millis > 0).then(|| Commits::new(name, &store, period));
    let commits = commits.transpose().inspect_err(|_| {
        // The next need not take it over. The error to report is the one that brought us here.
        let _ = store.close();
    })?;
    Ok((Files::Written(store), commits))
}

/// Opens a store for reading with a cache of its own.
fn read_store(url: &str, parameter: &dyn Fn(&str) -> Option<String>) -> Result<CacheReader, String> {
    for of_writers in ["take_over", "page_bytes", "commit_ms"] {
        if let Some(value) = parameter(of_writers) {
            return Err(format!(
                "{of_writers}={value} is for a writer, and this connection only reads: leave it out"
            ));
        }
    }
    let millis =
        |name, default| Ok::<_, String>(Duration::from_millis(number(parameter, name, default)?.into()));
    let poll = millis("poll_ms", POLL_MS)?;
    if poll.is_zero() {
        return Err(String::from("poll_ms=0 is too small: from 1"));
    }
    let mut options = StoreOptions::new()
        .salvage(folder::is_on(parameter, "salvage")?)
        .delay(millis("delay_ms", 0)?)
        .poll(poll);
    if let Some(snapshot) = parameter("snapshot") {
        options = options.snapshot(snapshot);
    }
    let volumes = Volumes::new(device::best()).map_err(|error| error.to_string())?;
    let cache = cache_for(&volumes, PAGE_BYTES, parameter)?;
    let reader = volumes.reader(&cache, url, options);
    reader.map_err(|error| in_words_of_uris(&error.to_string()))
}

/// Opens a store for writing with a cache of its own.
fn open_store(url: &str, parameter: &dyn Fn(&str) -> Option<String>) -> Result<CacheStore, String> {
    let wanted = parameter("page_bytes")
        .map(|text| page_bytes_of(&text))
        .transpose()?;
    let is_on = |name: &str| folder::is_on(parameter, name);
    let delay = number(parameter, "delay_ms", 0)?;
    for of_readers in ["poll_ms", "snapshot"] {
        if let Some(value) = parameter(of_readers) {
            return Err(format!(
                "{of_readers}={value} is for a connection that only reads: add mode=ro"
            ));
        }
    }
    let options = StoreOptions::new()
        .take_over(is_on("take_over")?)
        .salvage(is_on("salvage")?)
        .delay(Duration::from_millis(delay.into()));
    let mut page_bytes = wanted.unwrap_or(PAGE_BYTES);
    loop {
        let volumes = Volumes::new(device::best()).map_err(|error| error.to_string())?;
        let cache = cache_for(&volumes, page_bytes, parameter)?;
        match volumes.store(&cache, url, options.clone().page_bytes(page_bytes)) {
            Ok(store) => return Ok(store),
            // One that is there has the pages that it has.
            Err(CacheError::Store(Error::Open(OpenError::PageSize(bytes))))
                if wanted.is_none() && bytes != page_bytes =>
            {
                page_bytes = bytes;
            }
            Err(error) => return Err(in_words_of_uris(&error.to_string())),
        }
    }
}

/// A store's message names the options of a program.
fn in_words_of_uris(message: &str) -> String {
    ["take_over", "salvage"]
        .iter()
        .fold(message.to_owned(), |said, option| {
            said.replace(
                &format!("StoreOptions::{option}(true)"),
                &format!("{option}=1 in the URI"),
            )
        })
}

impl Folder for OpenStore {
    fn cache(&self) -> &PageCache {
        match &self.files {
            Files::Written(store) => store.cache(),
            Files::Read(reader) => reader.cache(),
        }
    }

    fn open(&self, name: &str, creates: bool) -> Result<Option<File>, String> {
        let store = match &self.files {
            Files::Written(store) => store,
            Files::Read(_) => return Err(format!("{name} is read as of a commit")),
        };
        let opened = match store.open(name) {
            Err(CacheError::Store(Error::NoFile(_))) if creates => match store.create(name) {
                // Another thread has made it.
                Err(CacheError::Store(Error::Write(_))) => store.open(name),
                created => created,
            },
            Err(CacheError::Store(Error::NoFile(_))) => return Ok(None),
            opened => opened,
        };
        opened.map(Some).map_err(|error| error.to_string())
    }

    fn len(&self, name: &str) -> Option<u64> {
        match &self.files {
            Files::Written(store) => store.store().open_file(name).ok()?.len().ok(),
            // No state that is read has one that has to be played back.
            Files::Read(_) if name.ends_with(JOURNAL) => None,
            Files::Read(reader) => {
                let (_, [version]) = reader.reader().versions([name.as_bytes()]);
                Some(version?.len())
            }
        }
    }

    fn trouble(&self) -> Option<String> {
        let Files::Written(store) = &self.files else {
            return None;
        };
        let store = store.store();
        let fence = store.fence().map(|fence| fence.to_string());
        fence.or_else(|| store.trouble())
    }

    fn commits_by_clock(&self) -> bool {
        self.commits.is_some()
    }

    fn is_followed(&self) -> bool {
        matches!(self.files, Files::Read(_))
    }

    fn newest(&self, name: &str, known: Option<u64>) -> Result<Option<Snapshot>, String> {
        let Files::Read(reader) = &self.files else {
            return Ok(None);
        };
        let names = ["", JOURNAL, "-wal"].map(|end| format!("{name}{end}"));
        let (commit, versions) = reader
            .reader()
            .versions([&names[0], &names[1], &names[2]].map(|name| name.as_bytes()));
        if known == Some(commit) {
            return Ok(None);
        }
        let open = |version: &Option<FileVersion>| {
            let content = version.as_ref().filter(|version| !version.is_empty());
            let opened = content.map(|version| reader.open_version(version, commit));
            opened.transpose().map_err(|error| error.to_string())
        };
        let [Some(database), journal, wal] = &versions else {
            return Ok(None);
        };
        let has_hot_journal = match open(journal)? {
            None => false,
            // `journal_mode=persist` leaves one whose beginning is zeros.
            Some(journal) => {
                let mut first = [0];
                let read = journal.read_at(&mut first, 0);
                read.map_err(|error| error.to_string())?;
                first != [0]
            }
        };
        Ok(Some(Snapshot {
            number: commit,
            database: reader
                .open_version(database, commit)
                .map_err(|error| error.to_string())?,
            wal: open(wal)?,
            has_hot_journal,
        }))
    }
}

impl Drop for OpenStore {
    fn drop(&mut self) {
        if let Some(commits) = self.commits.take() {
            commits.end();
        }
        let Some(name) = &self.own else { return };
        if let Files::Written(store) = &self.files
            && let Err(error) = store.close()
        {
            folder::log(&format!("{name} could not be closed: {error}"));
        }
        let stores = stores();
        lock(&stores.open).remove(name);
        stores.changed.notify_all();
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

    use super::*;

    fn nothing(_: &str) -> Option<String> {
        None
    }

    #[test]
    fn a_store_is_opened_once_and_closed_with_the_last_that_has_it() {
        let (url, stores) = ("memory://opened-once", stores());
        assert!(stores.find(url).is_none());
        let (one, same) = (
            stores.open(url, true, &nothing).ok().unwrap(),
            stores.open(url, true, &nothing).ok().unwrap(),
        );
        assert!(Arc::ptr_eq(&one, &same));
        assert_eq!(one.len("data.db"), None);
        assert!(one.open("data.db", false).unwrap().is_none());
        let file = one.open("data.db", true).unwrap().unwrap();
        file.write_at(b"pond", 0).unwrap();
        file.sync_data().unwrap();
        drop((file, one));
        assert_eq!(stores.find(url).unwrap().len("data.db"), Some(4));
        drop(same);
        assert!(stores.find(url).is_none());
        // Closed: it need not be taken over.
        let again = stores.open(url, true, &nothing).ok().unwrap();
        assert_eq!(again.len("data.db"), Some(4));
    }

    #[test]
    fn a_parameter_that_is_off_takes_nothing_over() {
        let url = "memory://held";
        let held = open_store(url, &nothing).unwrap();
        let open = |said: &str| {
            let parameter = |name: &str| (name == "take_over").then(|| said.to_owned());
            open_store(url, &parameter).map(drop)
        };
        for said in ["0", "00", "no", "FALSE"] {
            let why = open(said).unwrap_err();
            assert!(why.contains("with take_over=1 in the URI"), "{said}: {why}");
        }
        let why = open("perhaps").unwrap_err();
        assert!(
            why.starts_with("take_over=perhaps is neither on nor off"),
            "{why}"
        );
        held.close().unwrap();
    }

    #[test]
    fn a_page_has_a_size_as_all_sizes_are_typed() {
        let sized = |said: &'static str| {
            let parameter = move |name: &str| (name == "page_bytes").then(|| said.to_owned());
            open_store("memory://sized", &parameter).map(|store| store.close().unwrap())
        };
        for wrong in ["16Q", "3000", "2M", "-4096", ""] {
            let why = sized(wrong).unwrap_err();
            assert!(why.starts_with("page_bytes: "), "{why}");
        }
        sized("64K").unwrap();
        sized("65536").unwrap();
    }

    /// One that is closed while another thread opens it would be refused as another's.
    #[test]
    fn threads_that_open_and_close_a_store_wait_for_one_another() {
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    for _ in 0..20 {
                        let opened = stores().open("memory://in-turn", true, &nothing);
                        drop(opened.map_err(|why| panic!("{why}")));
                    }
                });
            }
        });
    }

    #[test]
    fn a_store_that_the_program_has_open_is_served_by_its_name_and_stays_open() {
        let volumes = Volumes::new(device::best()).unwrap();
        let builder = PageCache::builder().memory(16 << 20).page_size(65_536);
        let cache = builder.device(volumes.clone()).build().unwrap();
        let store = volumes.store(&cache, "memory://served", StoreOptions::new());
        let store = Arc::new(store.unwrap());
        let own = store.create("data.db").unwrap();
        own.write_at(b"pond", 0).unwrap();
        serve("orders", store.clone());
        let served = stores().open("orders", true, &nothing).ok().unwrap();
        let mut found = [0; 4];
        let file = served.open("data.db", false).unwrap().unwrap();
        file.read_at(&mut found, 0).unwrap();
        assert_eq!(&found, b"pond", "the program's own pages");
        drop((served, file));
        own.sync_data().unwrap();
        assert!(stores().find("orders").is_some());
    }
}
