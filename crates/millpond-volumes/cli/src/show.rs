//! `ls`, `stat` and `usage`: looks at a store that put nothing there.

use crate::access::Access;
use crate::failure::{Failure, shown};
use crate::place::Place;
use millpond::internal::quantity::size;
use millpond::units::Bytes;
use millpond_volumes::{Entry, Error, LastWriter, Objects, StoreReader};
use serde_json::{Value, json};
use std::io::{self, Write};

#[derive(clap::Args)]
pub(crate) struct LsArgs {
    /// A store, a file in it, or what is below a name: s3://bucket/prefix//dir/.
    #[arg(value_name = "STORE[//NAME]")]
    place: String,
    /// With the lengths in bytes.
    #[arg(short, long)]
    long: bool,
    /// As of this snapshot.
    #[arg(long, value_name = "NAME")]
    snapshot: Option<String>,
    /// One JSON object a line instead of text.
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    access: Access,
}

pub(crate) fn ls(args: &LsArgs) -> Result<(), Failure> {
    let (url, name) = match Place::parse(&args.place) {
        Place::Store { url, name } => (url, name.unwrap_or_default()),
        Place::Local(_) => (Place::store(&args.place)?, String::new()),
    };
    let reader = args.access.look(&url, args.snapshot.as_deref())?;
    let mut files = reader.list();
    files.retain(|file| file.name == name || is_below(&file.name, &name));
    if files.is_empty() && !name.is_empty() {
        return Err(Failure::of(&url, &Error::NoFile(name)));
    }
    let width = files
        .iter()
        .map(|file| file.bytes)
        .max()
        .unwrap_or(0)
        .to_string()
        .len();
    let mut out = io::BufWriter::new(io::stdout().lock());
    for Entry { name, bytes } in &files {
        match (args.json, args.long) {
            (true, _) => writeln!(out, "{}", json!({"name": name, "bytes": bytes}))?,
            (false, true) => writeln!(out, "{bytes:>width$}  {}", shown(name))?,
            (false, false) => writeln!(out, "{}", shown(name))?,
        }
    }
    Ok(out.flush()?)
}

/// As a folder has what is below it: `a/` has `a/b`, and so has `a`.
fn is_below(file: &str, name: &str) -> bool {
    let rest = file.strip_prefix(name);
    rest.is_some_and(|rest| name.is_empty() || name.ends_with('/') || rest.starts_with('/'))
}

#[derive(clap::Args)]
pub(crate) struct StatArgs {
    /// A store, or a file in it.
    #[arg(value_name = "STORE[//NAME]")]
    place: String,
    /// As of this snapshot.
    #[arg(long, value_name = "NAME")]
    snapshot: Option<String>,
    /// One JSON object instead of text.
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    access: Access,
}

pub(crate) fn stat(args: &StatArgs) -> Result<(), Failure> {
    let (url, name) = match Place::parse(&args.place) {
        Place::Store { url, name } => (url, name.filter(|name| !name.is_empty())),
        Place::Local(_) => (Place::store(&args.place)?, None),
    };
    let reader = args.access.look(&url, args.snapshot.as_deref())?;
    let said = match name {
        Some(name) => of_file(&url, &reader, &name)?,
        None => of_store(&url, &reader),
    };
    tell(&said, args.json)
}

/// What is said, and what a program reads of it.
type Said = Vec<(&'static str, String, Value)>;

fn tell(said: &Said, as_json: bool) -> Result<(), Failure> {
    let mut out = io::stdout().lock();
    if as_json {
        let object: serde_json::Map<_, _> = said
            .iter()
            .map(|(name, _, value)| ((*name).to_owned(), value.clone()))
            .collect();
        return Ok(writeln!(out, "{}", Value::Object(object))?);
    }
    for (name, text, _) in said {
        writeln!(out, "{:<10} {}", name.replace('_', " "), shown(text))?;
    }
    Ok(())
}

fn of_file(url: &str, reader: &StoreReader, name: &str) -> Result<Said, Failure> {
    let file = reader.open_file(name).and_then(|file| file.len());
    let bytes = file.map_err(|error| Failure::of(url, &error))?;
    Ok(vec![
        ("store", url.to_owned(), json!(url)),
        ("name", name.to_owned(), json!(name)),
        ("bytes", format!("{bytes}"), json!(bytes)),
        ("commit", reader.commit().to_string(), json!(reader.commit())),
    ])
}

fn of_store(url: &str, reader: &StoreReader) -> Said {
    let last = reader.last_writer();
    let files = reader.list();
    let bytes: u64 = files.iter().map(|file| file.bytes).sum();
    let snapshots = reader.snapshots();
    let LastWriter {
        owner,
        epoch,
        at_unix_ms,
        closed,
    } = &last;
    let state = match closed {
        true => "has closed it",
        false => "has not closed it: it is being written, or was left so",
    };
    let names = match snapshots.is_empty() {
        true => String::from("none"),
        false => snapshots.join(", "),
    };
    let page_bytes = u64::from(reader.page_bytes());
    let of_writer = json!({"owner": owner, "epoch": epoch, "at_unix_ms": at_unix_ms, "closed": closed});
    vec![
        ("store", url.to_owned(), json!(url)),
        ("commit", reader.commit().to_string(), json!(reader.commit())),
        ("writer", format!("{last}, {state}"), of_writer),
        ("files", format!("{}", files.len()), json!(files.len())),
        ("bytes", format!("{bytes} ({})", size(Bytes(bytes))), json!(bytes)),
        ("page_bytes", format!("{page_bytes}"), json!(page_bytes)),
        (
            "grace_s",
            format!("{}", reader.grace().as_secs_f64()),
            json!(reader.grace().as_secs_f64()),
        ),
        ("snapshots", names, json!(snapshots)),
    ]
}

#[derive(clap::Args)]
pub(crate) struct UsageArgs {
    /// A store.
    #[arg(value_name = "STORE")]
    store: String,
    /// One JSON object instead of text.
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    access: Access,
}

pub(crate) fn usage(args: &UsageArgs) -> Result<(), Failure> {
    let url = Place::store(&args.store)?;
    let reader = args.access.look(&url, None)?;
    let stored = reader.stored().map_err(|error| Failure::of(&url, &error))?;
    let live = Objects {
        count: stored.live_pages,
        bytes: stored.live_bytes,
    };
    let rows = [
        ("chunks", stored.chunks, "objects"),
        ("commits", stored.commits, "objects"),
        ("checkpoints", stored.checkpoints, "objects"),
        ("pins", stored.pins, "objects"),
        ("all", stored.all(), "objects"),
        ("live", live, "pages of files"),
    ];
    let mut out = io::stdout().lock();
    if args.json {
        let of = |(name, objects, _): &(&str, Objects, &str)| {
            (
                (*name).to_owned(),
                json!({"count": objects.count, "bytes": objects.bytes}),
            )
        };
        let object: serde_json::Map<_, _> = rows.iter().map(of).collect();
        return Ok(writeln!(out, "{}", Value::Object(object))?);
    }
    for (name, Objects { count, bytes }, of) in rows {
        writeln!(out, "{name:<12} {:>10} in {count} {of}", size(Bytes(bytes)))?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_has_what_is_below_it_and_not_what_begins_alike() {
        assert!(is_below("a/b", "a") && is_below("a/b", "a/") && is_below("a", ""));
        assert!(!is_below("ab", "a") && !is_below("a", "a/"));
    }
}
