//! `cat` and `cp`: bytes of a store's files, in and out.
//!
//! ```text
//!   a file, standard input, a file of a store ── a thread reads ahead ──► a file, standard output, a new file of a store
//! ```
//!
//! What is read of a store is of one commit. What is put there is a new file that has another name until all of it is there:
//! a copy that fails or is stopped leaves the store as it was, and what it replaces is there until the commit.

use crate::access::{Access, close};
use crate::failure::{Failure, shown};
use crate::place::Place;
use crate::progress::Progress;
use crate::stopping::Stopping;
use millpond::internal::quantity::parse_size;
use millpond_volumes::{Error, Store, StoreFile, StoreFileReader, StoreReader};
use std::fs::File;
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};
use std::sync::mpsc::{RecvTimeoutError, sync_channel};
use std::thread;
use std::time::Duration;

/// Of a store: eight requests of 4 MiB at a time.
const PIECE: usize = 32 << 20;
/// Of a file or a pipe.
const LOCAL_PIECE: usize = 4 << 20;
/// How soon a signal is seen while nothing comes.
const LOOK: Duration = Duration::from_millis(100);

/// Where bytes come from.
enum Source {
    Local {
        from: Box<dyn Read + Send>,
        name: String,
        bytes: Option<u64>,
    },
    Stored {
        reader: StoreReader,
        file: StoreFileReader,
        url: String,
        name: String,
        commit: u64,
        at: u64,
    },
}

impl Source {
    fn local(path: &Path) -> Result<Source, Failure> {
        let name = shown(&path.display().to_string());
        if path == Path::new("-") {
            let from = Box::new(io::stdin());
            return Ok(Source::Local {
                from,
                name: String::from("standard input"),
                bytes: None,
            });
        }
        let failed = |error: io::Error| Failure::failed(format!("{name}: {error}"));
        let file = File::open(path).map_err(failed)?;
        let about = file.metadata().map_err(failed)?;
        if about.is_dir() {
            let why = "is a directory: name the files in it, and a place for them that ends with a slash";
            return Err(Failure::bad_usage(format!("{name} {why}")));
        }
        let bytes = about.is_file().then_some(about.len());
        Ok(Source::Local {
            from: Box::new(file),
            name,
            bytes,
        })
    }

    fn stored(reader: &StoreReader, url: &str, name: &str) -> Result<Source, Failure> {
        let file = reader.open_file(name).map_err(|error| Failure::of(url, &error))?;
        let (reader, commit) = (reader.clone(), reader.commit());
        let (url, name) = (url.to_owned(), name.to_owned());
        Ok(Source::Stored {
            reader,
            file,
            url,
            name,
            commit,
            at: 0,
        })
    }

    /// `None` of a pipe.
    fn bytes(&self) -> Option<u64> {
        match self {
            Source::Local { bytes, .. } => *bytes,
            Source::Stored { file, .. } => file.len().ok(),
        }
    }

    /// The next bytes; none at the end.
    fn next(&mut self) -> Result<Vec<u8>, Failure> {
        match self {
            Source::Local { from, name, .. } => {
                let mut piece = Vec::with_capacity(LOCAL_PIECE);
                let read = from.take(LOCAL_PIECE as u64).read_to_end(&mut piece);
                read.map_err(|error| Failure::failed(format!("{name}: {error}")))?;
                Ok(piece)
            }
            Source::Stored {
                reader,
                file,
                url,
                name,
                commit,
                at,
            } => {
                let failed = |error: &Error| Failure::of(url, error);
                let left = file.len().map_err(|error| failed(&error))?.saturating_sub(*at);
                let mut piece = vec![0; left.min(PIECE as u64) as usize];
                let read = file.read_at(&mut piece, *at).map_err(|error| failed(&error))?;
                piece.truncate(read);
                *at += read as u64;
                match reader.commit() == *commit {
                    true => Ok(piece),
                    // What it read was deleted under it, and it began anew.
                    false => Err(Failure::failed(format!(
                        "{url}: commit {commit} was deleted while {} was read of it, and the rest would be of another: read \
                         it again; a snapshot, or a key that may put a pin, keeps it",
                        shown(name)
                    ))),
                }
            }
        }
    }

    /// All of it to `put`, with its position. Reads a piece ahead.
    fn pump(
        mut self,
        stopping: &Stopping,
        mut put: impl FnMut(&[u8], u64) -> Result<(), Failure>,
    ) -> Result<u64, Failure> {
        let what = match &self {
            Source::Local { name, .. } | Source::Stored { name, .. } => shown(name),
        };
        let progress = Progress::of(&what, self.bytes());
        let (send, pieces) = sync_channel(1);
        // Not joined: it may wait for a pipe to which nothing comes, when it is no longer wanted.
        thread::spawn(move || {
            loop {
                let next = self.next();
                let is_last = next.as_ref().map_or(true, Vec::is_empty);
                if send.send(next).is_err() || is_last {
                    break;
                }
            }
        });
        let mut done = 0;
        loop {
            stopping.check()?;
            match pieces.recv_timeout(LOOK) {
                Ok(piece) => {
                    let piece = piece?;
                    put(&piece, done)?;
                    done += piece.len() as u64;
                    progress.at(done);
                }
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => return Ok(done),
            }
        }
    }
}

#[derive(clap::Args)]
pub(crate) struct CatArgs {
    /// Files of stores.
    #[arg(value_name = "STORE//NAME", required = true)]
    files: Vec<String>,
    /// As of this snapshot.
    #[arg(long, value_name = "NAME")]
    snapshot: Option<String>,
    #[command(flatten)]
    access: Access,
}

pub(crate) fn cat(args: &CatArgs) -> Result<(), Failure> {
    let mut out = io::stdout().lock();
    let mut open = None;
    let mut stopping = None;
    for text in &args.files {
        let (url, name) = Place::file(text)?;
        let reader = args
            .access
            .hold_again(&mut open, &url, args.snapshot.as_deref())?;
        let stopping = match &mut stopping {
            Some(stopping) => stopping,
            none => none.insert(Stopping::catch()?),
        };
        Source::stored(&reader, &url, &name)?.pump(stopping, |bytes, _| Ok(out.write_all(bytes)?))?;
    }
    Ok(out.flush()?)
}

const CP_HELP: &str = "\
Examples:
  millpond store cp data.db s3://bucket/prefix//data.db
  millpond store cp *.log s3://bucket/prefix//logs/             several, in one commit
  pg_dump orders | millpond store cp - s3://bucket/prefix//orders.sql
  millpond store cp s3://bucket/prefix//data.db .               as of one commit, beside a writer if there is one
  millpond store cp file:///var/tmp/pond//a s3://bucket/prefix//a

What is there under the name is replaced, in the same commit or by a rename: it is the old one or the new one, whole.
A store is made where none is.
Exit codes: 0 copied, 1 failed, 2 bad command line, 4 another writer has the store.";

#[derive(clap::Args)]
#[command(after_help = CP_HELP, override_usage = "millpond store cp [OPTIONS] <FROM>... <TO>")]
pub(crate) struct CpArgs {
    /// Files, and where to: files of stores have their store before two slashes. `-` is standard input.
    #[arg(value_names = ["FROM", "TO"], required = true, num_args = 2..)]
    places: Vec<String>,
    /// Read as of this snapshot.
    #[arg(long, value_name = "NAME")]
    snapshot: Option<String>,
    /// Page size if the command creates the store: a power of two from 4K to 1M.
    #[arg(long, value_name = "SIZE", value_parser = page_size)]
    page_size: Option<u32>,
    #[command(flatten)]
    access: Access,
}

fn page_size(text: &str) -> Result<u32, String> {
    let bytes = parse_size(text)?.0;
    let is_one = bytes.is_power_of_two() && (4 << 10..=1 << 20).contains(&bytes);
    let refused = format!("{text} is no page size of a store: that is a power of two from 4K to 1M");
    u32::try_from(bytes).ok().filter(|_| is_one).ok_or(refused)
}

pub(crate) fn cp(args: &CpArgs) -> Result<(), Failure> {
    let Some((to, from)) = args.places.split_last() else {
        return Ok(());
    };
    let from: Vec<(Place, String)> = from
        .iter()
        .map(|text| Ok((Place::parse(text), last_name(text)?)))
        .collect::<Result<_, Failure>>()?;
    match Place::parse(to) {
        Place::Store {
            url,
            name: Some(name),
        } => {
            let is_folder = name.is_empty() || name.ends_with('/');
            if !is_folder && from.len() > 1 {
                let why = "is one file, and several are to be copied: end it with a slash";
                return Err(Failure::bad_usage(format!("{} {why}", shown(to))));
            }
            let named = from.into_iter().map(|(place, last)| match is_folder {
                true => (place, format!("{name}{last}")),
                false => (place, name.clone()),
            });
            into_store(args, &url, named.collect())
        }
        Place::Store { url, name: None } => Err(Failure::bad_usage(format!(
            "{url} is a whole store: put two slashes and a name behind it, as in {url}//{}, or two slashes alone for the same \
             name",
            from.first().map_or("name", |(_, last)| last)
        ))),
        Place::Local(to) => out_of_store(args, from, &to),
    }
}

/// What a copy is called in a folder.
fn last_name(text: &str) -> Result<String, Failure> {
    let name = match Place::parse(text) {
        Place::Store { .. } => Place::file(text)?.1,
        Place::Local(path) => path
            .file_name()
            .map(|name| name.to_string_lossy().into_owned())
            .unwrap_or_default(),
    };
    Ok(name.rsplit('/').next().unwrap_or_default().to_owned())
}

fn source(args: &CpArgs, open: &mut Option<(String, StoreReader)>, place: &Place) -> Result<Source, Failure> {
    match place {
        Place::Local(path) => Source::local(path),
        Place::Store { url, name } => {
            let name = name.clone().unwrap_or_default();
            let reader = args.access.hold_again(open, url, args.snapshot.as_deref())?;
            Source::stored(&reader, url, &name)
        }
    }
}

/// Each under the name beside it, in one commit.
fn into_store(args: &CpArgs, url: &str, from: Vec<(Place, String)>) -> Result<(), Failure> {
    let mut open = None;
    // Before the store is opened: what is not there changes nothing.
    let mut sources = Vec::new();
    for (place, name) in &from {
        sources.push((source(args, &mut open, place)?, name));
    }
    let store = args.access.make(url, args.page_size)?;
    let stopping = Stopping::catch()?;
    let failed = |error: &Error| Failure::of(url, error);
    let mut put = Vec::new();
    let copied = sources.into_iter().try_for_each(|(source, name)| {
        let (beside, file) = beside(&store, name).map_err(|error| failed(&error))?;
        put.push((beside, name));
        source.pump(&stopping, |bytes, at| {
            file.write_at(bytes, at).map_err(|error| failed(&error))
        })?;
        Ok(())
    });
    let named = copied.and_then(|()| {
        put.iter()
            .try_for_each(|(beside, name)| store.rename(beside, name).map_err(|error| failed(&error)))
    });
    if named.is_err() {
        for (beside, _) in &put {
            // The commit of closing has none of it.
            let _ = store.remove(beside);
        }
    }
    let closed = close(url, &store);
    named.and(closed)
}

/// A new file with a name that no other has.
fn beside(store: &Store, name: &str) -> Result<(String, StoreFile), Error> {
    let mut n = 0;
    loop {
        let beside = format!("{name}.copy-{n}");
        match store.create(&beside) {
            Err(Error::Write(millpond_volumes::layout::WriteError::Exists(_))) => n += 1,
            made => return Ok((beside, made?)),
        }
    }
}

fn out_of_store(args: &CpArgs, from: Vec<(Place, String)>, to: &Path) -> Result<(), Failure> {
    let name = shown(&to.display().to_string());
    if from.iter().any(|(place, _)| matches!(place, Place::Local(_))) {
        return Err(Failure::bad_usage(format!(
            "neither {name} nor what is to be copied there is in a store: a file in a store is s3://bucket/prefix//name"
        )));
    }
    let is_folder = to.is_dir();
    if !is_folder && (from.len() > 1 || name.ends_with('/')) {
        return Err(Failure::failed(format!("{name} is not an existing directory")));
    }
    let mut open = None;
    let mut stopping = None;
    for (place, last) in from {
        let source = source(args, &mut open, &place)?;
        let stopping = match &mut stopping {
            Some(stopping) => stopping,
            none => none.insert(Stopping::catch()?),
        };
        let path = if is_folder { to.join(&last) } else { to.to_owned() };
        to_file(source, &path, stopping)?;
    }
    Ok(())
}

/// Beside its place until all of it is on the disk.
fn to_file(source: Source, path: &PathBuf, stopping: &Stopping) -> Result<(), Failure> {
    let failed =
        |error: io::Error| Failure::failed(format!("{}: {error}", shown(&path.display().to_string())));
    // A pipe or a device is written as it is.
    if path.metadata().is_ok_and(|about| !about.is_file()) {
        let mut file = File::options().write(true).open(path).map_err(failed)?;
        return source
            .pump(stopping, |bytes, _| file.write_all(bytes).map_err(failed))
            .map(drop);
    }
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty());
    let folder = folder.unwrap_or(Path::new("."));
    let mode = path.metadata().map(|about| about.permissions());
    let made = tempfile::Builder::new()
        .prefix(".millpond-store-")
        .tempfile_in(folder);
    let mut file = made.map_err(failed)?;
    source.pump(stopping, |bytes, _| file.write_all(bytes).map_err(failed))?;
    // One that is replaced keeps its permissions; a new one has those of any new file.
    let mode = mode.unwrap_or_else(|_| new_file_mode());
    file.as_file().set_permissions(mode).map_err(failed)?;
    file.as_file().sync_all().map_err(failed)?;
    file.persist(path).map_err(|error| failed(error.error))?;
    Ok(())
}

fn new_file_mode() -> std::fs::Permissions {
    use std::os::unix::fs::PermissionsExt;
    // There is no other way to ask.
    let mask = rustix::process::umask(rustix::fs::Mode::empty());
    rustix::process::umask(mask);
    std::fs::Permissions::from_mode(0o666 & !mask.bits())
}
