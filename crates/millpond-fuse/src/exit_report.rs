//! What a mount's process says last: whether everything is on the disk.
//!
//! Whoever unmounts waits for the process, which goes on writing, and can't ask it when it is gone. So it leaves its last word
//! in a pipe, which whoever unmounts has opened before:
//!
//! ```text
//!   the process   makes the pipe ──────────── writes all ── its last word ── ends
//!   umount             opens it ── unmounts ── reads ······················· to its end
//! ```
//!
//! A process that was killed has left none, and nobody then says that all is saved.

use crate::error::{MountError, Result, system};
use crate::host;
use crate::{PROCESS_ATTRIBUTE, SYNC_ATTRIBUTE};
use procfs::process::Process;
use rustix::fs::{FileType, Mode, OFlags};
use rustix::io::Errno;
use std::fs::File;
use std::io::{self, PipeReader, PipeWriter, Read, Write};
use std::os::fd::AsRawFd;
use std::path::{Path, PathBuf};
use std::thread;
use std::time::Duration;

/// How often whoever waits for a process looks whether it has ended.
const LOOK_EVERY: Duration = Duration::from_millis(10);

/// What a pipe takes at once, and whole, though nobody may ever read it (`PIPE_BUF`).
const BYTES_MAX: usize = 4096;

/// The pipe, on the side of the process that serves.
pub(crate) struct LastWord {
    /// What somebody opens once more, and keeps the other end from having nobody.
    reader: PipeReader,
    writer: PipeWriter,
    /// Tells it from every other pipe.
    inode: u64,
}

const SAVED: &str = "saved";
const LOST: &str = "lost";

impl LastWord {
    pub(crate) fn new() -> io::Result<LastWord> {
        let (reader, writer) = io::pipe()?;
        let inode = rustix::fs::fstat(&reader)?.st_ino;
        Ok(LastWord {
            reader,
            writer,
            inode,
        })
    }

    /// What whoever asks for the process is told: its number, the pipe's there, and which pipe it is.
    pub(crate) fn address(&self) -> String {
        format!(
            "{} {} {}",
            std::process::id(),
            self.reader.as_raw_fd(),
            self.inode
        )
    }

    /// All is done: this was lost, in sentences.
    pub(crate) fn say(&self, lost: &[String]) {
        let mut word = match lost {
            [] => SAVED.as_bytes().to_vec(),
            lost => format!("{LOST}\n{}", lost.join("\n")).into_bytes(),
        };
        word.truncate(BYTES_MAX);
        // If it can't be written nobody will say that all is saved.
        let _ = (&self.writer).write_all(&word);
    }
}

/// How a mount's process has ended.
#[derive(Debug, PartialEq, Eq)]
pub enum Told {
    /// Everything is on the disk.
    Saved,
    /// This is not, in sentences.
    Lost(Vec<String>),
    /// It has ended without a word: it was killed, or has crashed.
    Nothing,
    /// It can't be watched from here, for this reason.
    Unwatched(String),
}

/// The process that serves a mount, as whoever ends that sees it.
#[derive(Debug)]
pub struct Serving {
    point: PathBuf,
    process: i32,
    /// The number of its file system, which is one wherever that is mounted.
    device: Option<String>,
    /// Where it will leave its last word.
    word: std::result::Result<File, String>,
}

/// Who answers for a mount.
#[derive(Debug)]
pub enum Found {
    /// A process.
    Serving(Serving),
    /// Its process is gone, without having ended the mount.
    Gone,
}

impl Serving {
    /// The process that serves what is mounted there.
    ///
    /// # Errors
    /// [`MountError::Place`] if no mount of this program is there, [`MountError::System`] if it can't be asked.
    pub fn at(point: &Path) -> Result<Found> {
        let mut answer = [0; 128];
        let len = match rustix::fs::getxattr(point, PROCESS_ATTRIBUTE, &mut answer) {
            Ok(len) => len,
            Err(error) if !host::is_ours(point)? => return Err(no_mount(point, error)),
            // No answer of a process: see `requests`.
            Err(Errno::NOTCONN) => return Ok(Found::Gone),
            Err(error) => return Err(system("the mount's process can't be asked")(error.into())),
        };
        let answer = String::from_utf8_lossy(answer.get(..len).unwrap_or_default()).into_owned();
        let mut words = answer.split(' ');
        let process = words.next().and_then(|process| process.parse().ok());
        let process = process.ok_or_else(|| no_mount(point, Errno::NODATA))?;
        let place = words.next().zip(words.next());
        let word = match place {
            Some((pipe, inode)) => open(process, pipe, inode).map_err(|error| error.to_string()),
            None => Err("it is of an older version".into()),
        };
        Ok(Found::Serving(Serving {
            point: point.to_owned(),
            process,
            device: host::mount_at(point)?.map(|mount| mount.majmin),
            word,
        }))
    }

    /// Has it make everything durable that was written so far. This is asked for by reading an attribute, which is allowed
    /// at a mount for reading only, too, and in a directory that may not be written to.
    ///
    /// `false`: something that was stored through a map was lost before.
    ///
    /// # Errors
    /// What the disk says.
    pub fn sync(&self) -> io::Result<bool> {
        // What the kernel has of its own, stored through maps, comes first; of what is refused the process knows. Who may not
        // read the root has none of it written.
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        if let Ok(root) = rustix::fs::open(&self.point, flags, Mode::empty()) {
            let _ = rustix::fs::syncfs(root);
        }
        let mut answer = [0; 1];
        rustix::fs::getxattr(&self.point, SYNC_ATTRIBUTE, &mut answer)?;
        Ok(answer != crate::operations::xattr::LOST)
    }

    /// Where else it is mounted, here or where its process is: then it does not end.
    ///
    /// # Errors
    /// If /proc can't be read.
    pub fn elsewhere(&self) -> Result<Vec<PathBuf>> {
        let theirs = Process::new(self.process).and_then(|process| process.mountinfo());
        let mut mounts = host::mounts()?;
        mounts.extend(theirs.into_iter().flatten());
        let same = mounts
            .into_iter()
            .filter(|mount| mount.fs_type == host::TYPE && Some(&mount.majmin) == self.device.as_ref());
        let mut points: Vec<_> = same.map(|mount| host::unescaped(&mount.mount_point)).collect();
        points.sort();
        points.dedup();
        Ok(points)
    }

    /// Waits until it has ended; what it has said then.
    ///
    /// # Errors
    /// If that can't be read.
    pub fn wait(self) -> Result<Told> {
        let mut pipe = match self.word {
            Ok(pipe) => pipe,
            Err(why) => return Ok(Told::Unwatched(why)),
        };
        let mut word = Vec::new();
        pipe.read_to_end(&mut word)
            .map_err(system("can't read the last word of the mount's process"))?;
        // It gives back what it has: its lock on the source, its descriptors.
        while is_running(self.process) {
            thread::sleep(LOOK_EVERY);
        }
        let word = String::from_utf8_lossy(&word);
        let mut lines = word.lines();
        Ok(match lines.next() {
            Some(SAVED) => Told::Saved,
            Some(LOST) => Told::Lost(lines.map(str::to_owned).collect()),
            _ => Told::Nothing,
        })
    }
}

fn no_mount(point: &Path, error: Errno) -> MountError {
    let why = match error {
        Errno::NODATA | Errno::OPNOTSUPP | Errno::ACCESS => "no millpond mount is there".to_owned(),
        other => other.to_string(),
    };
    MountError::Place {
        path: point.to_owned(),
        role: "unmounted",
        why,
    }
}

/// Opens a pipe of another process by its number there, and makes sure that it is the one that is meant: numbers of
/// processes mean others in other name spaces.
fn open(process: i32, pipe: &str, inode: &str) -> io::Result<File> {
    let number: u32 = pipe.parse().map_err(io::Error::other)?;
    // Not for reading before it is known what it is: the process says what it likes, and opening has effects.
    let flags = OFlags::PATH | OFlags::CLOEXEC;
    let named = rustix::fs::open(format!("/proc/{process}/fd/{number}"), flags, Mode::empty())?;
    let stat = rustix::fs::fstat(&named)?;
    if !FileType::from_raw_mode(stat.st_mode).is_fifo() || stat.st_ino.to_string() != inode {
        return Err(io::Error::other(
            "its process has another number here, as in another PID name space",
        ));
    }
    let flags = OFlags::RDONLY | OFlags::CLOEXEC | OFlags::NONBLOCK | OFlags::NOCTTY;
    let path = format!("/proc/self/fd/{}", named.as_raw_fd());
    let pipe = rustix::fs::open(path, flags, Mode::empty())?;
    rustix::fs::fcntl_setfl(&pipe, OFlags::empty())?;
    Ok(pipe.into())
}

/// Whether a process has not ended; one that has, and that nobody has asked for how, has.
fn is_running(process: i32) -> bool {
    let state = Process::new(process).and_then(|process| process.stat());
    state.is_ok_and(|stat| !matches!(stat.state, 'Z' | 'X'))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_last_word_is_read_by_who_has_opened_it_and_by_nobody_who_meant_another() {
        let read = |lost: &[String]| {
            let said = LastWord::new().unwrap();
            let address = said.address();
            let mut words = address.split(' ');
            let process: i32 = words.next().unwrap().parse().unwrap();
            let (pipe, inode) = (words.next().unwrap(), words.next().unwrap());
            assert!(open(process, pipe, "1").is_err());
            let mut pipe = open(process, pipe, inode).unwrap();
            said.say(lost);
            drop(said);
            let mut word = String::new();
            pipe.read_to_string(&mut word).unwrap();
            word
        };
        assert_eq!(read(&[]), "saved");
        assert_eq!(read(&["one".into(), "two".into()]), "lost\none\ntwo");
        // One that nobody has opened is not waited for.
        LastWord::new().unwrap().say(&["much".repeat(100_000)]);
    }
}
