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
use std::sync::Arc;

/// Pages that are read at a time.
const PAGES: usize = 512;

/// A page that can't be read.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Damage {
    /// The snapshot; `None`: what is newest.
    pub snapshot: Option<String>,
    /// The file's name.
    pub file: String,
    /// Which page.
    pub page: u64,
    /// The object that is to have it.
    pub key: Key,
    /// What is wrong.
    pub why: String,
}

/// What was compared.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub struct Verified {
    /// The commit.
    pub commit: u64,
    /// Files, those of snapshots counted again.
    pub files: u64,
    /// Pages, each as often as it is referred to.
    pub pages: u64,
    /// Bytes that were read.
    pub bytes: u64,
    /// What is wrong with pages.
    pub damaged: Vec<Damage>,
    /// What was opened instead of the newest commit, with [`StoreOptions::salvage`]; `None`: that is whole.
    pub salvaged: Option<Salvaged>,
}

pub(super) fn verify(
    reader: &StoreReader,
    bucket: &Arc<Bucket>,
    options: &StoreOptions,
) -> Result<Verified, Error> {
    let mut verified = Verified {
        commit: reader.commit(),
        salvaged: reader.salvaged(),
        ..Verified::default()
    };
    look(reader, None, &mut verified);
    for name in reader.snapshots() {
        let options = StoreOptions {
            at: At::Snapshot(name.clone()),
            ..options.clone()
        };
        let snapshot = StoreReader::open_in(bucket.clone(), options)?;
        look(&snapshot, Some(name), &mut verified);
    }
    Ok(verified)
}

fn look(reader: &StoreReader, snapshot: Option<String>, verified: &mut Verified) {
    let driver = reader.driver();
    let state: State = driver.with(|side| side.reader.state().clone());
    verified.files += state.files.len() as u64;
    // In the order of the objects, so that neighbours are read at once.
    let mut places: Vec<(u64, u64, Place)> = Vec::new();
    for (&file, entry) in &state.files {
        places.extend(entry.pages.iter().map(|(page, &place)| (file, page, place)));
    }
    places.sort_by_key(|(_, _, place)| (place.object, place.offset));
    let names: BTreeMap<u64, &String> = state.files.iter().map(|(no, file)| (*no, &file.name)).collect();
    for some in places.chunks(PAGES) {
        let wanted: Vec<(u64, Place)> = some.iter().map(|&(_, page, place)| (page, place)).collect();
        let read = pages::read(driver.handle(), driver.bucket(), &wanted);
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
    }
}
