//! Where a control socket is, whose it is, and what becomes of sockets that are not served any
//! more.
//!
//! A name is given away under a lock of its folder, so that two caches that find the same dead socket don't both replace
//! it. Whether a socket is alive is found by connecting: one that a dead process has left refuses.

use super::other;
use crate::error::{Error, Result};
use crate::sys::direct;
use rustix::fs::FlockOperation;
use rustix::io::Errno;
use rustix::net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType};
use std::fs::{self, DirBuilder, File, Permissions};
use std::io;
use std::os::unix::fs::{DirBuilderExt, FileTypeExt, MetadataExt, PermissionsExt};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

/// A process that holds the lock of a folder makes a socket, which takes no time; one that holds it for
/// longer is none of ours.
const LOCK_WAIT_MAX: Duration = Duration::from_secs(2);

/// A socket that is ours, at its name for as long as this lives.
#[derive(Debug)]
pub(super) struct Bound {
    path: PathBuf,
    listener: UnixListener,
    /// Device and number of its file.
    identity: (u64, u64),
}

impl Bound {
    /// Makes a socket of this name.
    ///
    /// # Errors
    /// [`Error::Control`]: a cache listens there, something else is there, the folder is missing or may not be written.
    pub(super) fn new(path: &Path) -> Result<Bound> {
        bind(path).map_err(|source| Error::Control {
            path: path.to_owned(),
            source,
        })
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    pub(super) fn listener(&self) -> &UnixListener {
        &self.listener
    }
}

impl Drop for Bound {
    fn drop(&mut self) {
        // The file may have been removed, and another process's may have its name now.
        if fs::symlink_metadata(&self.path).is_ok_and(|file| (file.dev(), file.ino()) == self.identity) {
            let _ = fs::remove_file(&self.path);
        }
    }
}

fn bind(path: &Path) -> io::Result<Bound> {
    let folder = match path.parent() {
        Some(folder) if !folder.as_os_str().is_empty() => folder,
        _ => Path::new("."),
    };
    let _lock = lock(folder)?;
    match fs::symlink_metadata(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => {}
        Err(error) => return Err(error),
        Ok(file) if !file.file_type().is_socket() => {
            return Err(other("a file of this name exists and is not a socket"));
        }
        Ok(_) if is_alive(path)? => {
            return Err(io::Error::new(
                io::ErrorKind::AddrInUse,
                "another cache listens there",
            ));
        }
        Ok(_) => fs::remove_file(path)?,
    }
    let listener = UnixListener::bind(path)?;
    let file = fs::symlink_metadata(path)?;
    let bound = Bound {
        path: std::path::absolute(path)?,
        listener,
        identity: (file.dev(), file.ino()),
    };
    fs::set_permissions(path, Permissions::from_mode(0o600))?;
    bound.listener.set_nonblocking(true)?;
    Ok(bound)
}

/// The lock of a folder, until it is dropped: a child that was forked meanwhile has the same open file.
struct FolderLock(File);

impl Drop for FolderLock {
    fn drop(&mut self) {
        direct::unlock(&self.0);
    }
}

fn lock(folder: &Path) -> io::Result<FolderLock> {
    let file = File::open(folder)?;
    let began = Instant::now();
    loop {
        match rustix::fs::flock(&file, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => return Ok(FolderLock(file)),
            Err(Errno::WOULDBLOCK) if began.elapsed() < LOCK_WAIT_MAX => {
                std::thread::sleep(Duration::from_millis(1));
            }
            Err(Errno::WOULDBLOCK) => return Err(other("another program has locked the socket's folder")),
            // File systems without locks.
            Err(Errno::NOLCK | Errno::NOTSUP | Errno::NOSYS) => return Ok(FolderLock(file)),
            Err(error) => return Err(error.into()),
        }
    }
}

/// Connects without waiting.
///
/// # Errors
/// [`io::ErrorKind::ConnectionRefused`] if no cache serves the socket, [`io::ErrorKind::WouldBlock`] if too
/// many wait.
pub(super) fn connect(path: &Path) -> io::Result<UnixStream> {
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    let socket = rustix::net::socket_with(AddressFamily::UNIX, SocketType::STREAM, flags, None)?;
    rustix::net::connect(&socket, &SocketAddrUnix::new(path)?)?;
    Ok(UnixStream::from(socket))
}

fn is_alive(path: &Path) -> io::Result<bool> {
    match connect(path) {
        Ok(_) => Ok(true),
        Err(error) => match error.kind() {
            io::ErrorKind::WouldBlock => Ok(true),
            io::ErrorKind::ConnectionRefused | io::ErrorKind::NotFound => Ok(false),
            _ => Err(error),
        },
    }
}

/// The folders in which caches of this user have their sockets, the better one first.
fn folders() -> Vec<PathBuf> {
    let own = std::env::var_os("XDG_RUNTIME_DIR").map(PathBuf::from);
    let own = own.filter(|folder| folder.is_absolute());
    let uid = rustix::process::geteuid().as_raw();
    let among_temporary = std::env::temp_dir().join(format!("millpond-{uid}"));
    let own = own.map(|folder| folder.join("millpond"));
    own.into_iter().chain([among_temporary]).collect()
}

/// Makes the folder if it is missing, and looks whether it is this user's alone.
fn make(folder: &Path) -> io::Result<()> {
    match DirBuilder::new().mode(0o700).create(folder) {
        Err(error) if error.kind() != io::ErrorKind::AlreadyExists => return Err(error),
        _ => {}
    }
    let found = fs::symlink_metadata(folder)?;
    let uid = rustix::process::geteuid().as_raw();
    if !found.is_dir() || found.uid() != uid || found.mode() & 0o077 != 0 {
        return Err(other(format!(
            "{} is not a folder that only user {uid} can use",
            folder.display()
        )));
    }
    Ok(())
}

/// A socket with a name of its own in the first of the folders that can be used.
///
/// # Errors
/// [`Error::Control`] with what is in the way in the last of them.
pub(super) fn bind_default() -> Result<Bound> {
    bind_in(&folders(), std::process::id())
}

/// The number of names tried in a folder: more caches of processes with one id share none.
const NAMES_MAX: u32 = 4096;

/// The number of a process is its own in its PID namespace only: in containers that share the folder all may be number 1.
/// So a name that another cache has is passed by.
fn bind_in(folders: &[PathBuf], pid: u32) -> Result<Bound> {
    static NUMBER: AtomicU32 = AtomicU32::new(1);
    let name = |number: u32| format!("{pid}-{number}.sock");
    let mut number = NUMBER.fetch_add(1, Ordering::Relaxed);
    let last = number.saturating_add(NAMES_MAX);
    let mut failed = None;
    for folder in folders {
        let made = make(folder).map_err(|source| Error::Control {
            path: folder.join(name(number)),
            source,
        });
        let mut bound = made.and_then(|()| Bound::new(&folder.join(name(number))));
        while number < last
            && matches!(&bound, Err(Error::Control { source, .. }) if source.kind() == io::ErrorKind::AddrInUse)
        {
            number += 1;
            bound = Bound::new(&folder.join(name(number)));
        }
        match bound {
            Ok(bound) => {
                sweep(folder);
                return Ok(bound);
            }
            Err(error) => failed = Some(error),
        }
    }
    Err(failed.unwrap_or(Error::Control {
        path: name(number).into(),
        source: other("there is no folder for it"),
    }))
}

/// Removes what killed processes have left: sockets that refuse, of processes that are not there.
fn sweep(folder: &Path) {
    // One that is just being made refuses, too, and its process may be of another PID namespace.
    let Ok(_lock) = lock(folder) else { return };
    for path in files(folder) {
        let name = path.file_name().map(|name| name.to_string_lossy().into_owned());
        let pid = name.and_then(|name| name.split_once('-')?.0.parse::<u32>().ok());
        let is_gone = pid.is_some_and(|pid| !Path::new(&format!("/proc/{pid}")).exists());
        if is_gone && is_alive(&path).is_ok_and(|alive| !alive) {
            let _ = fs::remove_file(&path);
        }
    }
}

fn files(folder: &Path) -> Vec<PathBuf> {
    let Ok(entries) = fs::read_dir(folder) else {
        return Vec::new();
    };
    let entries = entries.filter_map(|entry| entry.ok());
    let sockets = entries.filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_socket()));
    let mut paths: Vec<_> = sockets.map(|entry| entry.path()).collect();
    paths.sort();
    paths
}

/// Returns the control sockets of this user's live caches, among those at the location that [`Builder::control`]
/// chooses.
///
/// [`Builder::control`]: crate::Builder::control
pub fn sockets() -> Vec<PathBuf> {
    let all = folders().into_iter().flat_map(|folder| files(&folder));
    all.filter(|path| is_alive(path).is_ok_and(|alive| alive))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refused(path: &Path) -> String {
        Bound::new(path).unwrap_err().to_string()
    }

    #[test]
    fn a_socket_goes_with_its_owner_and_is_only_the_users() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("cache.sock");
        let bound = Bound::new(&path).unwrap();
        assert_eq!(fs::metadata(&path).unwrap().mode() & 0o777, 0o600);
        assert!(is_alive(&path).unwrap());
        drop(bound);
        assert!(!path.exists());
    }

    #[test]
    fn a_dead_socket_is_replaced_and_a_live_one_or_another_file_is_not() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("cache.sock");
        // What a killed process leaves.
        drop(UnixListener::bind(&path).unwrap());
        assert!(path.exists() && !is_alive(&path).unwrap());
        let bound = Bound::new(&path).unwrap();
        assert!(refused(&path).contains("another cache listens there; give it another path"));
        assert!(is_alive(&path).unwrap());
        drop(bound);
        fs::write(&path, "mine").unwrap();
        assert!(refused(&path).contains("is not a socket"));
        assert_eq!(fs::read(&path).unwrap(), b"mine");
    }

    /// As in two containers that share the folder, where both have process id 1.
    #[test]
    fn two_processes_of_one_number_have_sockets_of_their_own() {
        let folder = tempfile::tempdir().unwrap();
        let folders = [folder.path().join("millpond-0")];
        // The number of caches in a process is counted for both together here.
        let bound: Vec<_> = (0..3).map(|_| bind_in(&folders, 1).unwrap()).collect();
        let number = |path: &PathBuf| path.file_stem()?.to_str()?.split_once('-')?.1.parse::<u32>().ok();
        let last = files(&folders[0]).iter().filter_map(number).max().unwrap();
        let ahead = folders[0].join(format!("1-{}.sock", last + 1));
        let other = Bound::new(&ahead).unwrap();
        let own = bind_in(&folders, 1).unwrap();
        assert!(own.path() != other.path(), "{}", own.path().display());
        assert_eq!(files(&folders[0]).len(), bound.len() + 2);
        assert!(is_alive(own.path()).unwrap() && is_alive(other.path()).unwrap());
    }

    #[test]
    fn a_name_of_another_cache_is_not_removed() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("cache.sock");
        let first = Bound::new(&path).unwrap();
        fs::remove_file(&path).unwrap();
        let second = Bound::new(&path).unwrap();
        drop(first);
        assert!(is_alive(&path).unwrap());
        drop(second);
        assert!(!path.exists());
    }

    #[test]
    fn a_path_that_can_not_be_says_why() {
        let folder = tempfile::tempdir().unwrap();
        assert!(refused(&folder.path().join("not/there.sock")).contains("No such file"));
        let long = folder.path().join("x".repeat(120));
        assert!(refused(&long).contains("SUN_LEN"), "{}", refused(&long));
    }

    #[test]
    fn a_folder_that_others_may_use_is_not_used() {
        let folder = tempfile::tempdir().unwrap();
        let shared = folder.path().join("shared");
        make(&shared).unwrap();
        make(&shared).unwrap();
        fs::set_permissions(&shared, Permissions::from_mode(0o755)).unwrap();
        let error = make(&shared).unwrap_err().to_string();
        assert!(error.contains("is not a folder that only user"), "{error}");
        let link = folder.path().join("link");
        std::os::unix::fs::symlink(folder.path(), &link).unwrap();
        assert!(make(&link).is_err());
    }
}
