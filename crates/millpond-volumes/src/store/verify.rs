//! Checks every reference and every checksum.
//!
//! Opening has checked those of the newest commit, its checkpoint, and all commits between. What is left are the pages
//! and the snapshots.

use super::bucket::Bucket;
use super::error::Error;
use super::options::StoreOptions;
use super::pages;
use super::reader::StoreReader;
use crate::format::Key;
use crate::layout::{At, Place, Salvaged, State};
use std::collections::BTreeMap;
use std::ops::ControlFlow;
use std::sync::Arc;

/// Pages read at a time.
const PAGES: usize = 512;

/// An unreadable page.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Damage {
    /// The snapshot; `None` for the newest state.
    pub snapshot: Option<String>,
    /// The file's name.
    pub file: String,
    /// The page.
    pub page: u64,
    /// The object that should contain it.
    pub key: Key,
    /// What is wrong.
    pub why: String,
}

/// The result of a verification.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub struct Verified {
    /// The verified commit.
    pub commit: u64,
    /// Files; those of snapshots are counted again.
    pub files: u64,
    /// Pages, once for each reference.
    pub pages: u64,
    /// Bytes read.
    pub bytes: u64,
    /// Damaged pages.
    pub damaged: Vec<Damage>,
    /// What was opened instead of the newest commit, with [`StoreOptions::salvage`]; `None` if the newest is complete.
    pub salvaged: Option<Salvaged>,
}

pub(super) fn verify(
    reader: &StoreReader,
    bucket: &Arc<Bucket>,
    options: &StoreOptions,
    mut go_on: impl FnMut(&Verified) -> ControlFlow<()>,
) -> Result<Verified, Error> {
    let mut verified = Verified {
        commit: reader.commit(),
        salvaged: reader.salvaged(),
        ..Verified::default()
    };
    if look(reader, None, &mut verified, &mut go_on).is_break() {
        return Ok(verified);
    }
    for name in reader.snapshots() {
        let options = StoreOptions {
            at: At::Snapshot(name.clone()),
            ..options.clone()
        };
        let snapshot = StoreReader::open_in(bucket.clone(), options)?;
        if look(&snapshot, Some(name), &mut verified, &mut go_on).is_break() {
            break;
        }
    }
    Ok(verified)
}

fn look(
    reader: &StoreReader,
    snapshot: Option<String>,
    verified: &mut Verified,
    go_on: &mut impl FnMut(&Verified) -> ControlFlow<()>,
) -> ControlFlow<()> {
    let driver = reader.driver();
    let state: State = driver.with(|side| side.reader.state().clone());
    verified.files += state.files.len() as u64;
    // In the order of the objects, so that neighbors are read at once.
    let mut places: Vec<(u64, u64, Place)> = Vec::new();
    for (&file, entry) in &state.files {
        places.extend(entry.pages.iter().map(|(page, &place)| (file, page, place)));
    }
    places.sort_by_key(|(_, _, place)| (place.object, place.offset));
    let names: BTreeMap<u64, &String> = state.files.iter().map(|(no, file)| (*no, &file.name)).collect();
    for some in places.chunks(PAGES) {
        let wanted: Vec<(u64, Place)> = some.iter().map(|&(_, page, place)| (page, place)).collect();
        // Of the store itself.
        let read = pages::read_stored(driver.handle(), driver.bucket(), &wanted);
        for (&(file, page, place), result) in some.iter().zip(read) {
            verified.pages += 1;
            verified.bytes += u64::from(place.bytes);
            if let Err(error) = result {
                verified.damaged.push(Damage {
                    snapshot: snapshot.clone(),
                    file: names[&file].clone(),
                    page,
                    key: error.key,
                    why: error.why,
                });
            }
        }
        go_on(verified)?;
    }
    ControlFlow::Continue(())
}
