//! `verify`: reads all of a store.

use crate::access::Access;
use crate::failure::{Failure, shown};
use crate::place::Place;
use crate::progress::Progress;
use crate::stopping::Stopping;
use millpond::internal::quantity::size;
use millpond::units::Bytes;
use millpond_volumes::Verified;
use serde_json::json;
use std::io::{self, Write};
use std::ops::ControlFlow;

const HELP: &str = "\
Examples:
  millpond store verify s3://bucket/prefix
  millpond store verify --salvage s3://bucket/prefix   the newest commit that is whole, if the newest is not

Reads every page of every file and snapshot, beside a writer if there is one.
Exit codes: 0 all is whole, 1 something is damaged, left out or can't be read, 2 bad command line.";

#[derive(clap::Args)]
#[command(after_help = HELP)]
pub(crate) struct VerifyArgs {
    /// A store.
    #[arg(value_name = "STORE")]
    store: String,
    /// One JSON object instead of text.
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    access: Access,
}

pub(crate) fn verify(args: &VerifyArgs) -> Result<(), Failure> {
    let url = Place::store(&args.store)?;
    let reader = args.access.hold(&url, None)?;
    let stopping = Stopping::catch()?;
    let progress = Progress::of("verified", None);
    let verified = reader.verify_while(|so_far| {
        progress.at(so_far.bytes);
        match stopping.check() {
            Ok(()) => ControlFlow::Continue(()),
            Err(_) => ControlFlow::Break(()),
        }
    });
    drop(progress);
    let verified = verified.map_err(|error| Failure::of(&url, &error))?;
    stopping.check()?;
    match args.json {
        true => writeln!(io::stdout(), "{}", as_json(&url, &verified))?,
        false => tell(&verified)?,
    }
    let damaged = verified.damaged.len();
    match (damaged, &verified.salvaged) {
        (0, None) => Ok(()),
        (0, Some(salvaged)) => Err(Failure::failed(format!(
            "{url}: commits {} to {} are left out",
            salvaged.commit + 1,
            salvaged.newest
        ))),
        _ => Err(Failure::failed(format!(
            "{url}: {damaged} of {} pages are damaged; all others can be read",
            verified.pages
        ))),
    }
}

fn tell(verified: &Verified) -> io::Result<()> {
    let mut out = io::BufWriter::new(io::stdout().lock());
    for damage in &verified.damaged {
        let snapshot = damage.snapshot.as_ref();
        let of = snapshot.map_or(String::new(), |snapshot| {
            format!(" of snapshot {}", shown(snapshot))
        });
        let (page, file) = (damage.page, shown(&damage.file));
        writeln!(
            out,
            "page {page} of {file}{of}: {}: {}",
            damage.key,
            shown(&damage.why)
        )?;
    }
    let Verified {
        commit,
        files,
        pages,
        bytes,
        damaged,
        ..
    } = verified;
    let bytes = size(Bytes(*bytes));
    writeln!(
        out,
        "commit {commit}: {files} files, {pages} pages, {bytes}, {} damaged",
        damaged.len()
    )?;
    out.flush()
}

fn as_json(url: &str, verified: &Verified) -> serde_json::Value {
    let damaged = verified.damaged.iter().map(|damage| {
        json!({
            "snapshot": damage.snapshot, "file": damage.file, "page": damage.page,
            "object": damage.key.to_string(), "why": damage.why,
        })
    });
    let salvaged = verified.salvaged.as_ref();
    let salvaged = salvaged
        .map(|salvaged| json!({"commit": salvaged.commit, "newest": salvaged.newest, "why": salvaged.why}));
    json!({
        "store": url, "commit": verified.commit, "files": verified.files, "pages": verified.pages,
        "bytes": verified.bytes, "damaged": damaged.collect::<Vec<_>>(), "salvaged": salvaged,
    })
}
