//! The exit report: the last message of a mount's process, which says whether everything is on the disk.
//!
//! A program that unmounts waits for the process, which goes on writing, and can't ask it after it has exited. So the
//! process leaves its report in a pipe that the other program has opened before:
//!
//! ```text
//!   the process   makes the pipe ──────────── writes all ── its report ── ends
//!   umount             opens it ── unmounts ── reads ····················· to its end
//! ```
//!
//! A killed process leaves no report, and then no program claims that everything was saved.

use crate::error::{MountError, Result, system};
use crate::host::{self, mountinfo};
use crate::own_attributes::{
    GIVE_UP_ATTRIBUTE, PROCESS_ATTRIBUTE, STORES_LOST, SYNC_ATTRIBUTE, UNWRITTEN_ATTRIBUTE,
};
use millpond::internal::{MountEntry, mounts_in};
use procfs::process::Process;
use rustix::event::{PollFd, PollFlags, poll};
use rustix::fs::{FileType, FlockOperation, Mode, OFlags};
use rustix::io::Errno;
use std::collections::HashSet;
use std::fs::{self, DirEntry, File};
use std::io::{self, PipeReader, PipeWriter, Read, Write};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::thread;
use std::time::Duration;

/// How often it is looked whether a process has ended.
const POLL_EVERY: Duration = Duration::from_millis(10);

/// As much as is read of what is not written: three paths of files, and more.
const UNWRITTEN_BYTES_MAX: usize = 16 << 10;

/// What a pipe takes at once, and whole, without a reader (`PIPE_BUF`).
const BYTES_MAX: usize = 4096;

/// The pipe, on the side of the process that serves.
#[derive(Debug)]
pub struct ReportPipe {
    /// Opened once more by the program that unmounts; keeps the pipe from having no reader.
    reader: PipeReader,
    writer: PipeWriter,
    /// By which it is told from every other pipe.
    inode: u64,
}

const SAVED: &str = "saved";
const LOST: &str = "lost";

impl ReportPipe {
    /// # Errors
    /// The system's.
    pub fn new() -> io::Result<ReportPipe> {
        let (reader, writer) = io::pipe()?;
        let inode = rustix::fs::fstat(&reader)?.st_ino;
        Ok(ReportPipe {
            reader,
            writer,
            inode,
        })
    }

    /// The pipe of the process that served before: whoever waits for its report waits for ours.
    pub(crate) fn go_on_from(reader: OwnedFd, writer: OwnedFd) -> io::Result<ReportPipe> {
        let inode = rustix::fs::fstat(&reader)?.st_ino;
        Ok(ReportPipe {
            reader: reader.into(),
            writer: writer.into(),
            inode,
        })
    }

    /// Both ends, for the process that takes over.
    pub(crate) fn descriptors(&self) -> [BorrowedFd<'_>; 2] {
        [self.reader.as_fd(), self.writer.as_fd()]
    }

    /// The value of `PROCESS_ATTRIBUTE`: the process, the pipe's descriptor there, and the pipe's inode number. It has
    /// `MountState::progress` behind it.
    pub fn address(&self) -> String {
        format!(
            "{} {} {}",
            std::process::id(),
            self.reader.as_raw_fd(),
            self.inode
        )
    }

    /// All is done: this was lost, in sentences.
    pub fn report(&self, lost: &[String]) {
        let mut report = match lost {
            [] => SAVED.as_bytes().to_vec(),
            lost => format!("{LOST}\n{}", lost.join("\n")).into_bytes(),
        };
        report.truncate(BYTES_MAX);
        // If it can't be written no program will say that all is saved.
        let _ = (&self.writer).write_all(&report);
    }
}

/// How a mount's process has ended.
#[derive(Debug, PartialEq, Eq)]
pub enum ExitReport {
    /// Everything is on the disk.
    Saved,
    /// This is not, in sentences.
    Lost(Vec<String>),
    /// It has ended without a report: it was killed, or has crashed.
    Missing,
    /// Its report can't be read from here, for this reason.
    Unreadable(String),
}

/// The process that serves a mount, as seen by a program that unmounts.
#[derive(Debug)]
pub struct ServerProcess {
    point: PathBuf,
    process: i32,
    /// The number of its file system, the same wherever that is mounted.
    device: Option<String>,
    /// The pipe in which it will leave its report, or why that can't be opened; several if it is not known which.
    reports: std::result::Result<Vec<File>, String>,
}

/// Where else a mount is.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub struct Elsewhere {
    /// Here, or where its process is.
    pub points: Vec<PathBuf>,
    /// A process of each other mount namespace that has it, as far as these are to be seen.
    pub processes: Vec<u32>,
}

impl Elsewhere {
    /// Whether it is nowhere else.
    pub fn is_empty(&self) -> bool {
        self.points.is_empty() && self.processes.is_empty()
    }
}

/// What serves a mount.
#[derive(Debug)]
pub enum MountServer {
    /// A process.
    Running(ServerProcess),
    /// Its process is gone, without having ended the mount.
    Gone,
}

impl ServerProcess {
    /// The process that serves what is mounted there. The call may not come back, and who has made it may not end, while the
    /// source of the mount does not answer.
    ///
    /// # Errors
    /// As [`ask`](Self::ask).
    pub fn find(point: &Path) -> Result<MountServer> {
        match ServerProcess::ask(point)? {
            Some(answer) => Ok(MountServer::Running(ServerProcess::of(point, &answer)?)),
            None => Ok(MountServer::Gone),
        }
    }

    /// The first half of [`find`](Self::find), for a process that may be left behind: the mount's answer, or `None` if its process
    /// is gone.
    ///
    /// # Errors
    /// [`MountError::Directory`] if no mount of this program is there, [`MountError::System`] if it can't be asked.
    pub fn ask(point: &Path) -> Result<Option<String>> {
        let mut answer = [0; 128];
        let len = match rustix::fs::getxattr(point, PROCESS_ATTRIBUTE, &mut answer) {
            Ok(len) => len,
            Err(error) if !mountinfo::is_ours(point)? => return Err(no_mount(point, error)),
            // The kernel's answer, and never a process': see `requests::reply::errno`.
            Err(Errno::NOTCONN) => return Ok(None),
            Err(error) => return Err(system("the mount's process can't be asked")(error.into())),
        };
        let answer = String::from_utf8_lossy(answer.get(..len).unwrap_or_default());
        Ok(Some(answer.into_owned()))
    }

    /// The other half: the process that has given this answer. No call goes to the mount.
    ///
    /// # Errors
    /// [`MountError::Directory`] if it is no answer of a mount of this program.
    pub fn of(point: &Path, answer: &str) -> Result<ServerProcess> {
        let mut words = answer.split(' ');
        let process = words.next().and_then(|process| process.parse().ok());
        let process = process.ok_or_else(|| no_mount(point, Errno::NODATA))?;
        let pipe = words.next().zip(words.next());
        let reports = match pipe {
            Some((pipe, inode)) => {
                let pipe = open(process, pipe, Some(inode)).map_err(|error| error.to_string());
                pipe.map(|pipe| vec![pipe])
            }
            None => Err("it is of an older version".into()),
        };
        Ok(ServerProcess {
            point: point.to_owned(),
            process,
            device: mountinfo::mount_at(point)?.map(|mount| mount.device),
            reports,
        })
    }

    /// A process that has served a mount that is gone. Which pipe its report is in can't be asked any more.
    pub fn without_mount(point: &Path, process: i32) -> ServerProcess {
        let numbers = fs::read_dir(format!("/proc/{process}/fd"));
        let numbers = numbers.map_err(|error| error.to_string()).map(|entries| {
            // It reads from no other pipe but its log's, which ends with it, and what it was started with.
            let is_read_only = |entry: &DirEntry| {
                let mode = fs::symlink_metadata(entry.path()).map(|link| link.permissions().mode());
                mode.is_ok_and(|mode| mode & 0o200 == 0) && entry.file_name() != "0"
            };
            let entries = entries.flatten().filter(is_read_only);
            entries
                .filter_map(|entry| open(process, entry.file_name().to_str()?, None).ok())
                .collect()
        });
        ServerProcess {
            point: point.to_owned(),
            process,
            device: None,
            reports: numbers,
        }
    }

    /// Makes it sync everything that was written so far. This is done by reading an attribute, which is allowed at a mount
    /// for reading only, too, and in a directory that may not be written to.
    ///
    /// `false`: something that was stored through a map was lost before.
    ///
    /// # Errors
    /// Of the disk.
    pub fn sync(&self) -> io::Result<bool> {
        // First the kernel's own pages, stored to through maps; the process knows of those that fail. A caller that may not read
        // the root has none of them written.
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        if let Ok(root) = rustix::fs::open(&self.point, flags, Mode::empty()) {
            let _ = rustix::fs::syncfs(root);
        }
        let mut answer = [0; 1];
        rustix::fs::getxattr(&self.point, SYNC_ATTRIBUTE, &mut answer)?;
        Ok(answer != STORES_LOST)
    }

    /// What can't be written may be lost when the mount ends: its process does not try again then. One of an older version
    /// never does.
    pub fn give_up(&self) {
        ServerProcess::give_up_at(&self.point);
    }

    /// The same of what is mounted there.
    pub fn give_up_at(point: &Path) {
        let mut answer = [0; 1];
        let _ = rustix::fs::getxattr(point, GIVE_UP_ATTRIBUTE, &mut answer);
    }

    /// What it has not written, with the names of files, as text; `None` if there is nothing, or it does not say.
    pub fn unwritten(&self) -> Option<String> {
        let mut answer = vec![0; UNWRITTEN_BYTES_MAX];
        let len = rustix::fs::getxattr(&self.point, UNWRITTEN_ATTRIBUTE, &mut answer).ok()?;
        let said = String::from_utf8_lossy(answer.get(..len)?).into_owned();
        (!said.is_empty()).then_some(said)
    }

    /// How far the process is with what it has to write, as its answer says: it gets on while this changes.
    pub fn progress_in(answer: &str) -> Option<&str> {
        answer.split(' ').nth(3)
    }

    /// Where else it is mounted: then it does not end.
    ///
    /// # Errors
    /// If /proc can't be read.
    pub fn elsewhere(&self) -> Result<Elsewhere> {
        let theirs = mounts_in(Path::new(&format!("/proc/{}", self.process)));
        let mut mounts = mountinfo::mounts()?;
        mounts.extend(theirs.into_iter().flatten());
        let is_same = |mount: &MountEntry| {
            mount.fs_type == host::FS_TYPE && Some(&mount.device) == self.device.as_ref()
        };
        let mut points: Vec<_> = mounts
            .into_iter()
            .filter(&is_same)
            .map(|mount| mount.point)
            .collect();
        points.sort();
        points.dedup();
        let namespace = |process: &str| fs::read_link(format!("/proc/{process}/ns/mnt")).ok();
        let own = [namespace("self"), namespace(&self.process.to_string())];
        let mut seen: HashSet<_> = own.into_iter().flatten().collect();
        let mut processes = Vec::new();
        for entry in fs::read_dir("/proc").into_iter().flatten().flatten() {
            let name = entry.file_name().to_string_lossy().into_owned();
            let Ok(process) = name.parse::<u32>() else {
                continue;
            };
            if namespace(&name).is_some_and(|space| seen.insert(space))
                && mounts_in(&entry.path()).is_ok_and(|mounts| mounts.iter().any(&is_same))
            {
                processes.push(process);
            }
        }
        Ok(Elsewhere { points, processes })
    }

    /// Waits until it has ended. Its report.
    ///
    /// # Errors
    /// If that can't be read.
    pub fn wait(self) -> Result<ExitReport> {
        let pipes = match self.reports {
            Ok(pipes) => pipes,
            Err(why) => return Ok(ExitReport::Unreadable(why)),
        };
        let unread = system("can't read the report of the mount's process");
        for pipe in &pipes {
            // Until nobody can write to it any more, neither that process nor one that has taken over.
            while !has_ended(pipe).map_err(&unread)? {}
        }
        // By then it has given back its lock on the source, and its descriptors.
        while is_running(self.process) {
            thread::sleep(POLL_EVERY);
        }
        for pipe in &pipes {
            let report = copy_of(pipe).map_err(&unread)?;
            let report = String::from_utf8_lossy(&report);
            let mut lines = report.lines();
            match lines.next() {
                Some(SAVED) => return Ok(ExitReport::Saved),
                Some(LOST) => return Ok(ExitReport::Lost(lines.map(str::to_owned).collect())),
                _ => {}
            }
        }
        Ok(ExitReport::Missing)
    }
}

/// Waits until nobody can write to a pipe any more. What was written stays in it.
fn has_ended(pipe: &File) -> io::Result<bool> {
    let mut polled = [PollFd::new(pipe, PollFlags::empty())];
    match poll(&mut polled, None) {
        Ok(_) => Ok(polled[0].revents().contains(PollFlags::HUP)),
        Err(Errno::INTR) => Ok(false),
        Err(error) => Err(error.into()),
    }
}

/// What is in a pipe that nobody writes to any more. It is put back, for others that wait for the report: one after the other,
/// by a lock.
fn copy_of(mut pipe: &File) -> io::Result<Vec<u8>> {
    rustix::fs::flock(pipe, FlockOperation::LockExclusive)?;
    let mut copy = Vec::new();
    pipe.read_to_end(&mut copy)?;
    // Without the right to that, this one has the report, and others have none.
    let flags = OFlags::WRONLY | OFlags::CLOEXEC | OFlags::NONBLOCK | OFlags::NOCTTY;
    let path = format!("/proc/self/fd/{}", pipe.as_raw_fd());
    if let Ok(writer) = rustix::fs::open(path, flags, Mode::empty()) {
        let _ = File::from(writer).write_all(&copy);
    }
    rustix::fs::flock(pipe, FlockOperation::Unlock)?;
    Ok(copy)
}

fn no_mount(point: &Path, error: Errno) -> MountError {
    let why = match error {
        Errno::NODATA | Errno::OPNOTSUPP | Errno::ACCESS => "no millpond mount is there".to_owned(),
        other => other.to_string(),
    };
    MountError::Directory {
        path: point.to_owned(),
        role: "unmounted",
        why,
    }
}

/// Opens a pipe of another process by its descriptor there, if it has that inode number, where one is given: in another PID name space the number
/// of a process is another's.
fn open(process: i32, pipe: &str, inode: Option<&str>) -> io::Result<File> {
    let number: u32 = pipe.parse().map_err(io::Error::other)?;
    // Not for reading before it is known what it is: what a process says is not to be trusted, and opening has effects.
    let flags = OFlags::PATH | OFlags::CLOEXEC;
    let named = rustix::fs::open(format!("/proc/{process}/fd/{number}"), flags, Mode::empty())?;
    let stat = rustix::fs::fstat(&named)?;
    let is_it = inode.is_none_or(|inode| stat.st_ino.to_string() == inode);
    if !FileType::from_raw_mode(stat.st_mode).is_fifo() || !is_it {
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

/// Whether a process has not ended. A zombie has.
fn is_running(process: i32) -> bool {
    let state = Process::new(process).and_then(|process| process.stat());
    state.is_ok_and(|stat| !matches!(stat.state, 'Z' | 'X'))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_exit_report_is_read_through_its_address_and_not_if_the_pipe_is_another() {
        let read = |lost: &[String]| {
            let pipe_end = ReportPipe::new().unwrap();
            let address = pipe_end.address();
            let mut words = address.split(' ');
            let process: i32 = words.next().unwrap().parse().unwrap();
            let (pipe, inode) = (words.next().unwrap(), words.next().unwrap());
            assert!(open(process, pipe, Some("1")).is_err());
            let pipe = open(process, pipe, Some(inode)).unwrap();
            pipe_end.report(lost);
            drop(pipe_end);
            assert!(has_ended(&pipe).unwrap());
            // Whoever else waits for it finds it there.
            let report = copy_of(&pipe).unwrap();
            assert_eq!(copy_of(&pipe).unwrap(), report);
            String::from_utf8(report).unwrap()
        };
        assert_eq!(read(&[]), "saved");
        assert_eq!(read(&["one".into(), "two".into()]), "lost\none\ntwo");
        // Without a reader the report is not waited for.
        ReportPipe::new().unwrap().report(&["much".repeat(100_000)]);
    }
}
