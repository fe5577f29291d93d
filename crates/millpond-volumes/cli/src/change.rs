//! `rm`, `snapshot` and `take-over`: each is one commit of a writer that is closed then.

use crate::access::{Access, close};
use crate::failure::{Failure, shown};
use crate::place::Place;
use millpond_volumes::Error;
use std::io::{self, Write};

#[derive(clap::Args)]
pub(crate) struct RmArgs {
    /// Files of one store.
    #[arg(value_name = "STORE//NAME", required = true)]
    files: Vec<String>,
    #[command(flatten)]
    access: Access,
}

pub(crate) fn rm(args: &RmArgs) -> Result<(), Failure> {
    let mut files = Vec::new();
    for file in &args.files {
        files.push(Place::file(file)?);
    }
    files.sort();
    files.dedup();
    let url = files[0].0.clone();
    if let Some((other, _)) = files.iter().find(|(of, _)| *of != url) {
        return Err(Failure::bad_usage(format!(
            "{url} and {other} are two stores, and what one call removes is one commit of one: call it for each"
        )));
    }
    let store = args.access.remove_files(&url, &files)?;
    let there = store.list();
    let missing = files
        .iter()
        .find(|(_, name)| there.iter().all(|file| file.name != *name));
    let removed = match missing {
        Some((_, name)) => Err(Error::NoFile(name.clone())),
        None => files.iter().try_for_each(|(_, name)| store.remove(name)),
    };
    let closed = close(&url, &store);
    removed.map_err(|error| Failure::of(&url, &error)).and(closed)
}

const SNAPSHOT_HELP: &str = "\
Examples:
  millpond store snapshot s3://bucket/prefix                    lists them
  millpond store snapshot s3://bucket/prefix monday             keeps what the store has
  millpond store cp s3://bucket/prefix//a . --snapshot monday   reads of it
  millpond store snapshot s3://bucket/prefix monday --drop      gives it up

What a snapshot has stays stored until it is given up.";

#[derive(clap::Args)]
#[command(after_help = SNAPSHOT_HELP)]
pub(crate) struct SnapshotArgs {
    /// A store.
    #[arg(value_name = "STORE")]
    store: String,
    /// The name under which what it has is kept; without one, the names that there are.
    #[arg(value_name = "NAME")]
    name: Option<String>,
    /// Give that snapshot up.
    #[arg(long, requires = "name")]
    drop: bool,
    #[command(flatten)]
    access: Access,
}

pub(crate) fn snapshot(args: &SnapshotArgs) -> Result<(), Failure> {
    let url = Place::store(&args.store)?;
    let Some(name) = &args.name else {
        let mut out = io::stdout().lock();
        for name in args.access.look(&url, None)?.snapshots() {
            writeln!(out, "{}", shown(&name))?;
        }
        return Ok(());
    };
    let store = args.access.write(&url)?;
    let done = match args.drop {
        true => store.drop_snapshot(name),
        false => store.snapshot(name),
    };
    let closed = close(&url, &store);
    done.map_err(|error| Failure::of(&url, &error)).and(closed)
}

const TAKE_OVER_HELP: &str = "\
Example:
  millpond store take-over s3://bucket/prefix

What the other writer has committed stays. If it still runs, its next sync fails and says who has the store; what it had not
committed is not in the store. With --salvage, a store whose newest commit is damaged or lost goes on behind the newest one
that is whole, and what is left out is deleted after a grace.
Exit codes: 0 taken and closed, or nobody had it; 1 failed; 2 bad command line.";

#[derive(clap::Args)]
#[command(after_help = TAKE_OVER_HELP)]
pub(crate) struct TakeOverArgs {
    /// A store.
    #[arg(value_name = "STORE")]
    store: String,
    #[command(flatten)]
    access: Access,
}

pub(crate) fn take_over(args: &TakeOverArgs) -> Result<(), Failure> {
    let url = Place::store(&args.store)?;
    let reader = args.access.look(&url, None)?;
    let (last, is_whole) = (reader.last_writer(), reader.salvaged().is_none());
    drop(reader);
    let mut out = io::stdout().lock();
    if last.closed && is_whole {
        return Ok(writeln!(
            out,
            "{url}: nobody has it: {}, has closed it",
            shown(&last.to_string())
        )?);
    }
    let store = args.access.take_over(&url)?;
    close(&url, &store)?;
    match last.closed {
        true => writeln!(out, "{url}: goes on behind what is left out, and is closed")?,
        false => writeln!(out, "{url}: taken from {}, and closed", shown(&last.to_string()))?,
    }
    Ok(())
}
