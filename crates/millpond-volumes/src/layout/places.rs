//! Where the pages of a file are.
//!
//! Leaves of 256 pages each. A copy shares them, and a change copies the one leaf it is in if that is shared. So the
//! state as of a commit is kept for a checkpoint at the cost of one count per leaf.

use super::state::Place;
use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::Arc;

const LEAF_PAGES: u64 = 256;

/// Pages of a leaf that have a place, ascending, by their number in it.
type Leaf = Vec<(u8, Place)>;

/// Places by page. No leaf is empty.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub struct Places {
    leaves: BTreeMap<u64, Arc<Leaf>>,
    len: usize,
}

fn split(page: u64) -> (u64, u8) {
    (page / LEAF_PAGES, (page % LEAF_PAGES) as u8)
}

fn find(leaf: &Leaf, number: u8) -> Result<usize, usize> {
    leaf.binary_search_by_key(&number, |(number, _)| *number)
}

impl Places {
    /// The number of pages with a place.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether no page has a place.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// The place of a page.
    pub fn get(&self, page: u64) -> Option<&Place> {
        let (leaf, number) = split(page);
        let leaf = self.leaves.get(&leaf)?;
        find(leaf, number).ok().map(|at| &leaf[at].1)
    }

    /// The place of a page, mutable.
    pub fn get_mut(&mut self, page: u64) -> Option<&mut Place> {
        let (leaf, number) = split(page);
        let leaf = self.leaves.get_mut(&leaf)?;
        let at = find(leaf, number).ok()?;
        Some(&mut Arc::make_mut(leaf)[at].1)
    }

    /// Sets a page's place. Returns the previous one.
    pub fn insert(&mut self, page: u64, place: Place) -> Option<Place> {
        let (leaf, number) = split(page);
        let leaf = Arc::make_mut(self.leaves.entry(leaf).or_default());
        match find(leaf, number) {
            Ok(at) => Some(std::mem::replace(&mut leaf[at].1, place)),
            Err(at) => {
                leaf.insert(at, (number, place));
                self.len += 1;
                None
            }
        }
    }

    /// Removes the places of pages, and returns them.
    pub fn remove(&mut self, pages: Range<u64>) -> Vec<Place> {
        let mut removed = Vec::new();
        if pages.is_empty() {
            return removed;
        }
        let leaves = pages.start / LEAF_PAGES..=(pages.end - 1) / LEAF_PAGES;
        let leaves: Vec<u64> = self.leaves.range(leaves).map(|(leaf, _)| *leaf).collect();
        for leaf in leaves {
            let first = leaf * LEAF_PAGES;
            let goes = |(number, _): &(u8, Place)| pages.contains(&(first + u64::from(*number)));
            let Some(places) = self.leaves.get_mut(&leaf) else {
                continue;
            };
            if places.iter().any(goes) {
                let gone = Arc::make_mut(places).extract_if(.., |place| goes(place));
                removed.extend(gone.map(|(_, place)| place));
            }
            if places.is_empty() {
                self.leaves.remove(&leaf);
            }
        }
        self.len -= removed.len();
        removed
    }

    /// All pages with a place, ascending.
    pub fn iter(&self) -> impl Iterator<Item = (u64, &Place)> {
        self.leaves.iter().flat_map(|(leaf, places)| {
            let first = leaf * LEAF_PAGES;
            places
                .iter()
                .map(move |(number, place)| (first + u64::from(*number), place))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::draw::Draw;
    use crate::format::ObjectId;

    fn place(checksum: u64) -> Place {
        Place {
            object: ObjectId::chunk(1, 1),
            offset: 0,
            bytes: 1,
            kept: 1,
            checksum,
        }
    }

    #[test]
    fn places_are_those_of_a_map() {
        let (mut places, mut map) = (Places::default(), BTreeMap::new());
        let mut draw = Draw(1);
        for n in 0..20_000 {
            let page = draw.below(2_000);
            if draw.one_in(50) {
                let pages = page..page + draw.below(600);
                let gone: Vec<u64> = map.range(pages.clone()).map(|(page, _)| *page).collect();
                let gone: Vec<Place> = gone.iter().filter_map(|page| map.remove(page)).collect();
                assert_eq!(places.remove(pages), gone);
            } else {
                assert_eq!(places.insert(page, place(n)), map.insert(page, place(n)));
            }
            assert_eq!(places.get(page + 1), map.get(&(page + 1)));
            assert_eq!(places.len(), map.len());
        }
        assert!(places.iter().eq(map.iter().map(|(page, place)| (*page, place))));
        places.remove(0..u64::MAX);
        assert_eq!(places, Places::default());
    }

    #[test]
    fn a_copy_stays_as_it_was() {
        let mut places = Places::default();
        (0..1000).for_each(|page| {
            places.insert(page, place(page));
        });
        let copy = places.clone();
        places.insert(300, place(0));
        places.remove(600..1000);
        if let Some(place) = places.get_mut(0) {
            place.kept = 0;
        }
        assert!(copy.iter().all(|(page, found)| *found == place(page)));
        assert_eq!(copy.len(), 1000);
    }
}
