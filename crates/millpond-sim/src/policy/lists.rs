//! Lists of pages; a page is on at most one.
//!
//! ```text
//!   push ──► newest ◄─► … ◄─► oldest ──► pop
//! ```

/// No page.
const NONE: u32 = u32::MAX;
/// On no list.
const NOWHERE: u8 = u8::MAX;

/// `N` lists over pages that are numbered from 0. All operations take constant time.
#[derive(Debug)]
pub(super) struct Lists<const N: usize> {
    /// For each page the next older and the next newer one.
    links: Vec<[u32; 2]>,
    on: Vec<u8>,
    ends: [End; N],
}

#[derive(Clone, Copy, Debug)]
struct End {
    oldest: u32,
    newest: u32,
    len: u32,
}

const OLDER: usize = 0;
const NEWER: usize = 1;

impl<const N: usize> Lists<N> {
    /// Empty lists for this many pages.
    pub(super) fn new(pages: u32) -> Lists<N> {
        Lists {
            links: vec![[NONE; 2]; pages as usize],
            on: vec![NOWHERE; pages as usize],
            ends: [End {
                oldest: NONE,
                newest: NONE,
                len: 0,
            }; N],
        }
    }

    /// The length of a list.
    pub(super) fn len(&self, list: usize) -> u32 {
        self.ends[list].len
    }

    /// The list that a page is on.
    pub(super) fn list_of(&self, page: u32) -> Option<usize> {
        let list = self.on[page as usize];
        (list != NOWHERE).then_some(list.into())
    }

    /// Whether a page is on a list.
    pub(super) fn has(&self, list: usize, page: u32) -> bool {
        usize::from(self.on[page as usize]) == list
    }

    /// Puts a page at the newest end of a list, off the list that it is on.
    pub(super) fn push(&mut self, list: usize, page: u32) {
        self.remove(page);
        let end = &mut self.ends[list];
        let before = std::mem::replace(&mut end.newest, page);
        end.len += 1;
        match before {
            NONE => end.oldest = page,
            before => self.links[before as usize][NEWER] = page,
        }
        self.links[page as usize] = [before, NONE];
        self.on[page as usize] = list as u8;
    }

    /// Takes a page off its list; answers whether it was on one.
    pub(super) fn remove(&mut self, page: u32) -> bool {
        let Some(list) = self.list_of(page) else {
            return false;
        };
        let [older, newer] = self.links[page as usize];
        let end = &mut self.ends[list];
        end.len -= 1;
        match older {
            NONE => end.oldest = newer,
            older => self.links[older as usize][NEWER] = newer,
        }
        match newer {
            NONE => end.newest = older,
            newer => self.links[newer as usize][OLDER] = older,
        }
        self.on[page as usize] = NOWHERE;
        true
    }

    /// The oldest page of a list.
    pub(super) fn oldest(&self, list: usize) -> Option<u32> {
        let page = self.ends[list].oldest;
        (page != NONE).then_some(page)
    }

    /// Takes the oldest page off its list.
    pub(super) fn pop(&mut self, list: usize) -> Option<u32> {
        let page = self.oldest(list)?;
        self.remove(page);
        Some(page)
    }

    /// The next newer page of the list that `page` is on.
    pub(super) fn newer(&self, page: u32) -> Option<u32> {
        let newer = self.links[page as usize][NEWER];
        (newer != NONE).then_some(newer)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_page_is_on_one_list_and_leaves_it_from_the_oldest_end() {
        let mut lists = Lists::<2>::new(4);
        for page in 0..4 {
            lists.push(0, page);
        }
        lists.push(1, 1);
        lists.push(0, 0);
        assert_eq!((lists.len(0), lists.len(1)), (3, 1));
        assert_eq!((lists.list_of(1), lists.has(0, 1)), (Some(1), false));
        assert_eq!((lists.oldest(0), lists.newer(2)), (Some(2), Some(3)));
        assert!(lists.remove(3) && !lists.remove(3));
        assert_eq!([(); 3].map(|()| lists.pop(0)), [Some(2), Some(0), None]);
        assert_eq!((lists.pop(1), lists.list_of(1)), (Some(1), None));
    }
}
