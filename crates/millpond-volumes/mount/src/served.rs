//! A mount's life: made, served, unmounted.

use crate::commits::{Commits, Say};
use crate::reading::Reading;
use crate::replies::request_bytes;
use crate::writing::{self, Writing};
use millpond::{MemoryRange, PageCache, SetAside};
use millpond_fuse::{Connection, MountError, OtherMount, ReportPipe, Unmounted};
use millpond_volumes::{CacheError, CacheReader, StoreOptions, StoreReader, TierUsage, Volumes};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::mpsc::{self, RecvTimeoutError};
use std::thread::{self, JoinHandle};
use std::time::Duration;

/// Pages of a reader's cache, which may be as large at most.
const READER_PAGE_BYTES: u64 = 64 << 10;

/// Pages of a writer's cache: small files take one each.
const WRITER_PAGE_BYTES: u64 = 16 << 10;

/// How soon a last commit that failed is tried again.
const AGAIN_AFTER: Duration = Duration::from_secs(1);

/// How soon it is seen that what can't be committed is given up.
const LOOK_EVERY: Duration = Duration::from_millis(100);

/// A reader whose store has not answered for this long, beside the time between two questions, has lost it.
const SILENT_AFTER: Duration = Duration::from_secs(5);

/// A store can't be mounted, or a mount not be ended.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The mount point, or this host.
    #[error(transparent)]
    Mount(#[from] MountError),
    /// The store.
    #[error(transparent)]
    Store(#[from] millpond_volumes::Error),
    /// The cache.
    #[error(transparent)]
    Cache(#[from] millpond::Error),
    /// The system has no thread or no pipe for it.
    #[error("the system refuses what a mount needs: {0}")]
    System(#[from] io::Error),
    /// It has ended, and this is in no commit.
    #[error("not in the store: {}", .0.join("; "))]
    Lost(Vec<String>),
}

impl From<CacheError> for Error {
    fn from(error: CacheError) -> Error {
        match error {
            CacheError::Store(error) => Error::Store(error),
            CacheError::Cache(error) => Error::Cache(error),
            other => Error::System(io::Error::other(other)),
        }
    }
}

/// For what a store is mounted.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Access {
    /// To be read, at the newest commit and those that follow.
    Live,
    /// To be read, as of a snapshot.
    Snapshot(String),
    /// To be changed. What was changed is committed after this time at the latest.
    Write(Duration),
}

/// How to mount a store.
#[derive(Clone, Debug)]
pub struct How {
    /// The store.
    pub url: String,
    /// For what.
    pub access: Access,
    /// How it is opened: its server, how often a newer commit is looked for.
    pub options: StoreOptions,
    /// How often that is, as in `options`.
    pub poll: Duration,
    /// Where.
    pub point: PathBuf,
    /// The cache's budget in bytes.
    pub memory: u64,
    /// Instead of `memory`: bounds between which the budget follows the host.
    pub memory_auto: Option<MemoryRange>,
    /// Whether other users than the one that mounts may use it.
    pub allow_other: bool,
    /// Whether the mount point may be a directory that is not empty.
    pub nonempty: bool,
    /// Threads that answer the kernel; at least 2.
    pub threads: usize,
}

#[derive(Debug)]
enum Served {
    Reader(Arc<CacheReader>),
    Writer {
        commits: Arc<Commits>,
        flusher: JoinHandle<()>,
    },
}

/// A store that is mounted.
#[derive(Debug)]
pub struct StoreMount {
    mount: OtherMount,
    point: PathBuf,
    served: Served,
    /// How often a reader that follows its writer looks for a newer commit.
    poll: Option<Duration>,
    notices: Vec<String>,
    /// The part of the cache's budget that requests of the kernel and answers to them take.
    _buffers: SetAside,
}

impl How {
    /// Mounts it. `say` gets what goes wrong later, in sentences.
    ///
    /// # Errors
    /// If the store can't be opened, there is no memory for the cache, or the mount point or this host do not allow it.
    pub fn mount(&self, say: impl Fn(&str) + Send + Sync + 'static) -> Result<StoreMount, Error> {
        let (point, cleared) = OtherMount::check(&self.point, self.nonempty)?;
        let mut notices: Vec<String> = cleared.into_iter().collect();
        let volumes = Volumes::new(millpond::device::best())?;
        let cache = self.cache(&volumes, &point)?;
        let memory = cache.memory();
        let budget = memory.auto.map_or(memory.bytes, |range| range.min);
        let (request_bytes, buffers) = request_bytes(budget.0, self.threads);
        let buffers = cache.set_aside(buffers)?;
        let report_pipe = Arc::new(ReportPipe::new()?);
        let connection = Connection {
            source: Path::new(&self.url),
            allow_other: self.allow_other,
            read_only: !matches!(self.access, Access::Write(_)),
            exec: true,
            suid: false,
            dev: false,
            threads: self.threads,
        };
        let (mount, served) = match &self.access {
            Access::Write(expire) => {
                let (commits, left) = self.writer(&volumes, &cache, Say(Box::new(say)))?;
                let usage = commits.files.store().usage();
                if usage.commits == usage.layout.commit {
                    notices.push(format!("made a store at {}", self.url));
                }
                notices.extend(left_out(&left));
                let (flushed, expire) = (commits.clone(), *expire);
                let flusher = thread::Builder::new().name("millpond-commits".into());
                let flusher = flusher.spawn(move || flushed.flush(expire))?;
                let writing = Writing::new(commits.clone(), report_pipe.clone(), request_bytes);
                let mount = OtherMount::new(&connection, &point, report_pipe, writing);
                let mount = mount.inspect_err(|_| {
                    commits.end();
                    // The error to report is the one that brought us here.
                    let _ = commits.files.close();
                })?;
                (mount, Served::Writer { commits, flusher })
            }
            access => {
                let options = match access {
                    Access::Snapshot(name) => self.options.clone().snapshot(name),
                    _ => self.options.clone(),
                };
                millpond_fuse::raise_descriptors();
                let files = Arc::new(volumes.reader(&cache, &self.url, options)?);
                notices.extend(about(files.reader()));
                let is_snapshot = *access != Access::Live;
                let reading = Reading::new(files.clone(), is_snapshot, report_pipe.clone(), request_bytes);
                let mount = OtherMount::new(&connection, &point, report_pipe, reading)?;
                (mount, Served::Reader(files))
            }
        };
        Ok(StoreMount {
            mount,
            point,
            served,
            poll: (self.access == Access::Live).then_some(self.poll),
            notices,
            _buffers: buffers,
        })
    }

    /// Of its cache: `millpond umount` finds it by this.
    fn name(&self, point: &Path) -> String {
        let access = match self.access {
            Access::Write(_) => "rw",
            _ => "ro",
        };
        format!("{} at {} ({access})", self.url, point.display())
    }

    fn cache(&self, volumes: &Arc<Volumes>, point: &Path) -> Result<PageCache, Error> {
        let builder = PageCache::builder()
            .memory(self.memory)
            .page_size(match self.access {
                Access::Write(_) => WRITER_PAGE_BYTES,
                _ => READER_PAGE_BYTES,
            })
            .device(volumes.clone())
            .name(self.name(point))
            .control(true)
            .on_warning(|_| {});
        let builder = match self.memory_auto {
            Some(range) => builder.memory_auto(range.min.0, range.max.0),
            None => builder,
        };
        Ok(builder.build()?)
    }

    /// Opens the store for writing, and makes its files a tree. The names of files that have no place in it.
    fn writer(
        &self,
        volumes: &Arc<Volumes>,
        cache: &PageCache,
        say: Say,
    ) -> Result<(Arc<Commits>, Vec<String>), Error> {
        let files = volumes.store(cache, &self.url, self.options.clone())?;
        let store = files.store();
        let (uid, gid) = (rustix::process::geteuid(), rustix::process::getegid());
        let left = store.adopt(uid.as_raw(), gid.as_raw(), writing::now())?;
        // What processes had open without a name when the mount before this one was killed.
        let dropped = store.tree(|tree| {
            let orphans = tree.orphans();
            orphans
                .into_iter()
                .try_for_each(|ino| tree.drop_orphan(ino).map(drop))
        });
        dropped.map_err(|errno| io::Error::from_raw_os_error(errno.raw_os_error()))?;
        store.sync()?;
        Ok((
            Arc::new(Commits::new(files, say, millpond_fuse::raise_descriptors())),
            left,
        ))
    }
}

fn left_out(names: &[String]) -> Option<String> {
    let first = names.first()?;
    Some(format!(
        "{} files are not shown, as their names are no paths, or in the way of others: {first:?} is the first; `millpond store cat` \
         reads them, and `millpond store rm` removes them",
        names.len()
    ))
}

/// What has to be known of a reader, in sentences.
fn about(reader: &StoreReader) -> Vec<String> {
    let mut said = Vec::new();
    if let Some(why) = reader.unpinned() {
        said.push(format!(
            "nothing keeps the writer from deleting what is read here ({why}): {} after it was superseded, a file that is open since \
             before can't be read any more (ESTALE); open it again",
            shown(reader.grace())
        ));
    }
    if let Some(salvaged) = reader.salvaged() {
        said.push(format!(
            "it is as of commit {}; what is behind it, up to {}, is left out: {}",
            salvaged.commit, salvaged.newest, salvaged.why
        ));
    }
    said.extend(left_out(&reader.without_path()));
    said
}

fn shown(time: Duration) -> String {
    match time.as_secs() {
        seconds if seconds >= 120 => format!("{} minutes", seconds / 60),
        seconds => format!("{seconds} seconds"),
    }
}

impl StoreMount {
    /// Where it is mounted.
    pub fn point(&self) -> &Path {
        &self.point
    }

    /// What was found when it was opened, in sentences.
    pub fn notices(&self) -> &[String] {
        &self.notices
    }

    /// The commit that is mounted.
    pub fn commit(&self) -> u64 {
        match &self.served {
            Served::Reader(files) => files.reader().commit(),
            Served::Writer { commits, .. } => commits.files.store().usage().layout.commit,
        }
    }

    /// The state of the disk tier, if it has one.
    pub fn tier(&self) -> Option<TierUsage> {
        match &self.served {
            Served::Reader(files) => files.reader().tier(),
            Served::Writer { commits, .. } => commits.files.store().tier(),
        }
    }

    /// Why the store does not answer a reader that follows it, once it has not for a while.
    pub fn outage(&self) -> Option<String> {
        let Served::Reader(files) = &self.served else {
            return None;
        };
        let poll = self.poll?;
        let reader = files.reader();
        let age = reader.age();
        let why = || reader.trouble().unwrap_or_else(|| String::from("no answer"));
        (age > poll.saturating_add(SILENT_AFTER)).then(|| {
            format!(
                "{}; files are read as of commit {}, which was known to be the newest {} ago",
                why(),
                reader.commit(),
                shown(age)
            )
        })
    }

    /// Whether it is unmounted and no program uses it any more.
    pub fn is_ended(&self) -> bool {
        self.mount.is_ended()
    }

    /// Unmounts it; lazily if it is in use.
    ///
    /// # Errors
    /// As umount(2) and `fusermount3 -u`.
    pub fn unmount(&self) -> Result<Unmounted, Error> {
        Ok(self.mount.unmount()?)
    }

    /// Waits until it is unmounted and no program uses it any more, commits what is left, and closes the store. While that is
    /// refused, `tries_again` is asked again and again, with the reason, and it is lost if that returns false. It is not asked
    /// once `umount --force` has given that up, after a commit that has failed.
    ///
    /// # Errors
    /// If the connection to the kernel broke, or [`Error::Lost`].
    pub fn wait(self, mut tries_again: impl FnMut(&str) -> bool) -> Result<(), Error> {
        let served = self.served;
        let save = || match served {
            Served::Reader(_) => Vec::new(),
            Served::Writer { commits, flusher } => {
                let (tell, told) = mpsc::channel();
                let last = commits.clone();
                // A store that does not answer keeps a commit from ending, and not this from giving up.
                let saves = thread::Builder::new()
                    .name("millpond-last".into())
                    .spawn(move || {
                        last.end();
                        // It does not panic.
                        let _ = flusher.join();
                        loop {
                            let done = last.last();
                            let is_over = done.as_ref().map_or_else(|refused| refused.is_fenced, |()| true);
                            if tell.send(done).is_err() || is_over {
                                return;
                            }
                            thread::sleep(AGAIN_AFTER);
                        }
                    });
                if let Err(error) = saves {
                    return vec![format!("the system has no thread for the last commit: {error}")];
                }
                loop {
                    let refused = match told.recv_timeout(LOOK_EVERY) {
                        Ok(Ok(())) => return Vec::new(),
                        Ok(Err(refused)) => Some(refused),
                        Err(RecvTimeoutError::Timeout) => commits.refused(),
                        Err(RecvTimeoutError::Disconnected) => {
                            return vec![String::from("the last commit has panicked")];
                        }
                    };
                    let Some(refused) = refused else { continue };
                    if refused.is_fenced || commits.is_given_up() || !tries_again(&refused.why) {
                        return vec![commits.unwritten().unwrap_or(refused.why)];
                    }
                }
            }
        };
        let (lost, ended) = self.mount.wait(save);
        match lost.is_empty() {
            true => Ok(ended?),
            false => Err(Error::Lost(lost)),
        }
    }
}
