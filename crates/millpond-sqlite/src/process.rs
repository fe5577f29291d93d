//! The cache of the process, and its databases.
//!
//! There is one budget for all databases: a cache is made when the first is opened, and stays until the process ends. The
//! environment variable `MILLPOND_SQLITE` says how, and the parameters of a database's URI change it. A forked child begins
//! anew: the cache is its parent's.

use crate::database::Database;
use millpond::settings::SETTINGS;
use millpond::{Error, PageCache, device};
use millpond_testing::{Fault, FaultRule, FaultTarget, Faulty};
use parking_lot::Mutex;
use std::collections::HashMap;
use std::io::Write;
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
    /// What makes disks fail, if that was asked for.
    pub(crate) faults: Option<Arc<Faulty>>,
}

struct Own {
    /// Whose it is.
    id: u32,
    process: Process,
    databases: HashMap<Identity, Weak<Database>>,
}

static OWN: Mutex<Option<Own>> = Mutex::new(None);

/// What the variable says, pair by pair.
pub(crate) fn variable() -> Vec<(String, String)> {
    let text = std::env::var(VARIABLE).unwrap_or_default();
    let words = text.split([' ', ',']).filter(|word| !word.is_empty());
    let pair = |word: &str| {
        let (name, value) = word.split_once('=').unwrap_or((word, ""));
        (name.to_owned(), value.to_owned())
    };
    words.map(pair).collect()
}

pub(crate) fn is_on(pairs: &[(String, String)], name: &str) -> bool {
    pairs.iter().any(|(of, value)| of == name && value != "0")
}

fn make() -> Result<Process, Error> {
    let mut pairs = variable();
    let faults = is_on(&pairs, FAULTS).then(|| Arc::new(Faulty::new(device::best(), 1)));
    let mut builder = PageCache::builder()
        .name("sqlite")
        .populate(false)
        .control(is_on(&pairs, CONTROL));
    pairs.retain(|(name, _)| ![FAULTS, DEFAULT, CONTROL].contains(&&**name));
    // Only so that no budget is taken which a smaller one was asked for instead of.
    let memory = pairs.iter().find(|(name, _)| name == "memory");
    if let Some(bytes) = memory.and_then(|(_, text)| millpond::internal::quantity::parse_size(text).ok()) {
        builder = builder.memory(bytes.0);
    }
    if let Some(faults) = &faults {
        builder = builder.device(faults.clone());
    }
    let cache = builder.build()?;
    set(&cache, &pairs)?;
    Ok(Process { cache, faults })
}

fn set(cache: &PageCache, pairs: &[(String, String)]) -> Result<(), Error> {
    let pairs: Vec<_> = pairs.iter().map(|(name, value)| (&**name, &**value)).collect();
    match pairs.is_empty() {
        true => Ok(()),
        false => cache.set(&pairs).map(drop),
    }
}

/// The process's cache, which is made if there is none, with what a URI says of each setting.
///
/// # Errors
/// As of a cache that can't be made, or a setting that can't be set.
pub(crate) fn with_settings(of_uri: impl Fn(&str) -> Option<String>) -> Result<Process, Error> {
    let asked = SETTINGS
        .iter()
        .filter_map(|setting| Some((setting.name.to_owned(), of_uri(setting.name)?)));
    let asked: Vec<_> = asked.collect();
    let process = own(|own| own.process.clone()).and_then(|process| {
        set(&process.cache, &asked)?;
        Ok(process)
    });
    // SQLite has but one number for it, and its log is rarely looked at.
    process.inspect_err(|error| {
        let said = error.told(millpond::internal::Surface::CommandLine);
        let _ = writeln!(
            std::io::stderr(),
            "millpond: no cache for SQLite as it was asked for: {said}"
        );
    })
}

fn own<T>(call: impl FnOnce(&mut Own) -> T) -> Result<T, Error> {
    let mut own = OWN.lock();
    let id = std::process::id();
    if let Some(others) = own.take_if(|own| own.id != id) {
        // The parent's, which ends there.
        std::mem::forget(others);
    }
    let here = match &mut *own {
        Some(here) => here,
        none => none.insert(Own {
            id,
            process: make()?,
            databases: HashMap::new(),
        }),
    };
    Ok(call(here))
}

/// What connections of the process to this file share.
///
/// # Errors
/// As [`with_settings`].
pub(crate) fn database(identity: Identity) -> Result<Arc<Database>, Error> {
    own(|own| {
        own.databases.retain(|_, database| database.strong_count() > 0);
        let known = own.databases.get(&identity).and_then(Weak::upgrade);
        known.unwrap_or_else(|| {
            let database = Arc::new(Database::new());
            own.databases.insert(identity, Arc::downgrade(&database));
            database
        })
    })
}

/// What is to fail: `writes:5`, or `syncs:28:3` for three times, with numbers of errno.
///
/// # Errors
/// What is allowed.
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
            "`{text}` is no fault: give reads, writes, syncs or lengths, a number of errno, and how often, such as writes:5:3"
        ));
    };
    let mut rule = FaultRule::always(target, Fault::Fail(errno));
    rule.times = times;
    Ok(rule)
}
