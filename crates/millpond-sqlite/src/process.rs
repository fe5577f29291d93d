//! The cache of the process, and its databases.
//!
//! There is one budget for all databases: a cache is made when the first is opened, and stays until the process ends. The
//! environment variable `MILLPOND_SQLITE` says how, and the parameters of a database's URI change it. A forked child begins
//! anew: the cache is its parent's.

use crate::database::Database;
use crate::words;
use millpond::internal::OfProcess;
use millpond::settings::SETTINGS;
use millpond::{Error, PageCache, device};
use millpond_testing::{Fault, FaultRule, FaultTarget, Faulty};
use std::collections::{HashMap, HashSet};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Weak};

/// Settings by name, and three of this crate's own: `NAME=VALUE`, separated by spaces or commas.
pub(crate) const VARIABLE: &str = "MILLPOND_SQLITE";

/// Whether the VFS is to be the default: `default=1` in the variable.
pub(crate) const DEFAULT: &str = "default";

/// Whether disks can be made to fail: `faults=1` in the variable, for tests of programs.
const FAULTS: &str = "faults";

/// Whether `millpond stat`, `top` and `set` find the cache: `control=1` in the variable. It costs a thread and a socket.
const CONTROL: &str = "control";

/// By device and inode.
type Identity = (u64, u64);

#[derive(Clone)]
pub(crate) struct Process {
    pub(crate) cache: PageCache,
    /// Makes disks fail, if that was requested.
    pub(crate) faults: Option<Arc<Faulty>>,
}

#[derive(Default)]
struct Own {
    /// Once a database was opened.
    process: Option<Process>,
    databases: HashMap<Identity, Weak<Database>>,
    /// What files could not write when they were closed, until their own connections have heard of it.
    lost: Vec<Error>,
    /// In a forked child: journals and WALs that its parent has open, as far as a connection of the parent has been
    /// used here.
    parents: HashSet<PathBuf>,
}

static OWN: OfProcess<Own> = OfProcess::new();

/// The variable's values, pair by pair.
pub(crate) fn variable() -> Vec<(String, String)> {
    let text = std::env::var(VARIABLE).unwrap_or_default();
    let words = text.split([' ', ',']).filter(|word| !word.is_empty());
    let pair = |word: &str| {
        let (name, value) = word.split_once('=').unwrap_or((word, ""));
        (name.to_owned(), value.to_owned())
    };
    words.map(pair).collect()
}

/// Whether one of this crate's own is on there; its name alone means so too.
///
/// # Errors
/// The allowed values.
pub(crate) fn is_on(pairs: &[(String, String)], name: &str) -> Result<bool, String> {
    match pairs.iter().find(|(of, _)| of == name) {
        None => Ok(false),
        Some((_, value)) if value.is_empty() => Ok(true),
        Some((_, value)) => words::named(name, value).map_err(|why| format!("{VARIABLE}: {why}")),
    }
}

/// `memory`: what the URI of the first database says.
fn make(memory: Option<&str>) -> Result<Process, String> {
    let mut pairs = variable();
    let faults = is_on(&pairs, FAULTS)?.then(|| Arc::new(Faulty::new(device::best(), 1)));
    let mut builder = PageCache::builder()
        .name("sqlite")
        .populate(false)
        .control(is_on(&pairs, CONTROL)?);
    pairs.retain(|(name, _)| ![FAULTS, DEFAULT, CONTROL].contains(&&**name));
    if memory.is_some() {
        pairs.retain(|(name, _)| name != "memory");
    }
    let of_variable = pairs.iter().find(|(name, _)| name == "memory");
    if let Some(memory) = memory.or(of_variable.map(|(_, memory)| memory.as_str())) {
        builder = words::with_memory(builder, memory)?;
    }
    if let Some(faults) = &faults {
        builder = builder.device(faults.clone());
    }
    let cache = builder.build().map_err(told)?;
    set(&cache, &pairs)?;
    Ok(Process { cache, faults })
}

/// SQLite's users read messages where they read those of programs.
fn told(error: Error) -> String {
    error.told(millpond::internal::Surface::CommandLine)
}

fn set(cache: &PageCache, pairs: &[(String, String)]) -> Result<(), String> {
    let pairs: Vec<_> = pairs.iter().map(|(name, value)| (&**name, &**value)).collect();
    match pairs.is_empty() {
        true => Ok(()),
        false => cache.set(&pairs).map(drop).map_err(told),
    }
}

/// The process's cache, which is made if there is none, with what a URI says of each setting.
///
/// # Errors
/// Why the cache can't be made, or a setting can't be set, which standard error has got too.
pub(crate) fn with_settings(of_uri: impl Fn(&str) -> Option<String>) -> Result<Process, String> {
    with(process(of_uri("memory").as_deref()), of_uri)
}

/// A cache that is another's: no disk of it can be made to fail here.
///
/// # Errors
/// Why a setting can't be set, which standard error has got too.
pub(crate) fn of_folder(
    cache: &PageCache,
    of_uri: impl Fn(&str) -> Option<String>,
) -> Result<Process, String> {
    let cache = cache.clone();
    with(Ok(Process { cache, faults: None }), of_uri)
}

fn with(
    process: Result<Process, String>,
    of_uri: impl Fn(&str) -> Option<String>,
) -> Result<Process, String> {
    let asked = SETTINGS
        .iter()
        .filter_map(|setting| Some((setting.name.to_owned(), of_uri(setting.name)?)));
    let asked: Vec<_> = asked.collect();
    let process = process.and_then(|process| {
        set(&process.cache, &asked)?;
        Ok(process)
    });
    // SQLite has only one number for it, and its log is rarely read.
    process.inspect_err(|why| {
        let _ = writeln!(
            std::io::stderr(),
            "millpond: the cache for SQLite can't be made as requested: {why}"
        );
    })
}

fn process(memory: Option<&str>) -> Result<Process, String> {
    let mut own = OWN.lock();
    match &own.process {
        Some(process) => Ok(process.clone()),
        None => Ok(own.process.insert(make(memory)?).clone()),
    }
}

/// The state shared by the process's connections to this file.
pub(crate) fn database(identity: Identity) -> Arc<Database> {
    let databases = &mut OWN.lock().databases;
    databases.retain(|_, database| database.strong_count() > 0);
    let known = databases.get(&identity).and_then(Weak::upgrade);
    known.unwrap_or_else(|| {
        let database = Arc::new(Database::new());
        databases.insert(identity, Arc::downgrade(&database));
        database
    })
}

/// What could not be written when the file was closed. Losses of other files are left for those that close them.
pub(crate) fn take_lost(cache: &PageCache, path: &Path) -> Vec<Error> {
    let lost = &mut OWN.lock().lost;
    lost.extend(cache.take_lost());
    let is_anothers = |error: &Error| path_of(error).is_some_and(|of| of != path);
    let (anothers, own) = std::mem::take(lost).into_iter().partition(is_anothers);
    *lost = anothers;
    own
}

fn path_of(error: &Error) -> Option<&Path> {
    match error {
        Error::Write { path, .. }
        | Error::Lost { path, .. }
        | Error::Log { path, .. }
        | Error::Sync { path, .. }
        | Error::OwnGuard { path, .. } => Some(path),
        _ => None,
    }
}

/// Records that a connection inherited from the parent has this file open; this process must not use it.
pub(crate) fn record_parents(path: &Path) {
    OWN.lock().parents.insert(path.to_owned());
}

/// Whether it must not be deleted here.
pub(crate) fn may_be_in_use(path: &Path) -> bool {
    OWN.lock().parents.contains(path)
}

/// The database is this process's now, with its journal and WAL, whatever the parent had open.
pub(crate) fn has_become_own(database: &Path) {
    let is_of = |path: &PathBuf| {
        let (path, database) = (
            path.as_os_str().as_encoded_bytes(),
            database.as_os_str().as_encoded_bytes(),
        );
        path.strip_prefix(database)
            .is_some_and(|rest| rest.starts_with(b"-"))
    };
    OWN.lock().parents.retain(|path| !is_of(path));
}

/// The faults: `writes:5`, or `syncs:28:3` for three times, with numbers of errno.
///
/// # Errors
/// The allowed values.
pub(crate) fn fault(text: &str) -> Result<FaultRule, String> {
    let mut parts = text.split(':');
    let target = match parts.next() {
        Some("reads") => Some(FaultTarget::Reads),
        Some("writes") => Some(FaultTarget::Writes),
        Some("syncs") => Some(FaultTarget::Syncs),
        Some("lengths") => Some(FaultTarget::Lengths),
        _ => None,
    };
    let errno = parts.next().and_then(|errno| errno.parse().ok());
    let times = parts.next().map_or(Some(u64::MAX), |times| times.parse().ok());
    let (Some(target), Some(errno), Some(times), None) = (target, errno, times, parts.next()) else {
        return Err(format!(
            "`{text}` is not a fault: give reads, writes, syncs or lengths, a number of errno, and how often, such as writes:5:3"
        ));
    };
    let mut rule = FaultRule::always(target, Fault::Fail(errno));
    rule.times = times;
    Ok(rule)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn losses_of_a_file_are_reported_when_it_is_closed() {
        let cache = process(None).ok().unwrap().cache;
        let lost = |path: &str| Error::Write {
            path: path.into(),
            source: std::io::Error::from_raw_os_error(libc::EIO),
            is_kept: false,
        };
        OWN.lock()
            .lost
            .extend([lost("/a.db"), lost("/b.db"), lost("/a.db")]);
        assert!(take_lost(&cache, Path::new("/c.db")).is_empty());
        assert_eq!(take_lost(&cache, Path::new("/a.db")).len(), 2);
        assert_eq!(take_lost(&cache, Path::new("/b.db")).len(), 1);
        assert!(take_lost(&cache, Path::new("/a.db")).is_empty());
    }

    #[test]
    fn a_parent_s_open_files_are_in_use_until_the_database_is_this_process_s() {
        let wal = Path::new("/parents.db-wal");
        assert!(!may_be_in_use(wal));
        record_parents(wal);
        assert!(may_be_in_use(wal));
        has_become_own(Path::new("/parents"));
        assert!(may_be_in_use(wal));
        has_become_own(Path::new("/parents.db"));
        assert!(!may_be_in_use(wal));
    }
}
