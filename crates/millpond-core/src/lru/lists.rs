//! The pages in memory: the list each one is on, and what the policy remembers about it.
//!
//! ```text
//!   insert ─► window ─► inactive ─────► isolated ─► evicted (leaves a shadow)
//!                         ▲  │             │ put back: pinned, dirty, changed
//!                  demote │  │ promote     ▼
//!                         active ◄──── any list
//! ```
//!
//! Only Millpond's rule uses `window`, which comes before `inactive`, and `no_reuse`, which ends at the cold end of
//! `inactive`. A page is on one list, or isolated (taken by [`super::Lru::isolate`] and not given back), or unknown
//! here. 8 bytes of links and 4 of memory per frame.

use crate::list::Lists;
use crate::units::{FrameNo, PageCount};
use alloc::vec::Vec;

/// A list of pages, coldest first to go.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum List {
    /// Pages in their correlated-reference window: they came in so lately that their uses say nothing yet.
    Window = 0,
    /// Pages that are not known to be used again; victims come from its cold end.
    Inactive = 1,
    /// Pages that were used again.
    Active = 2,
    /// The same of no-reuse files.
    NoReuse = 3,
}

/// Where a frame is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Place {
    Unknown,
    On(List),
    Isolated,
}

/// What the active list says of a page since it came in.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Past {
    /// Nothing.
    New,
    /// It is in its window, and bimodal insertion has drawn it: it may go on to the active list.
    Drawn,
    /// Bimodal insertion put it there, and it was neither seen in use nor demoted yet.
    Bimodal,
    /// It was demoted.
    Demoted,
}

/// What is remembered of a page while it is in memory.
#[derive(Clone, Copy, Debug)]
pub(super) struct Page {
    place: Place,
    /// Used since it was read, or since it was last looked at: Linux's referenced bit. A page that was only
    /// read ahead starts without.
    pub(super) touched: bool,
    pub(super) past: Past,
    /// Laps that it has still earned: uses beyond the first, less the laps that they were spent on (`usage_count` of
    /// PostgreSQL, GCLOCK).
    pub(super) usage_count: u8,
}

const UNKNOWN: Page = Page {
    place: Place::Unknown,
    touched: false,
    past: Past::New,
    usage_count: 0,
};

/// All pages in memory, and the lists that they are on.
#[derive(Clone, Debug)]
pub(super) struct Pages {
    lists: Lists<4>,
    pages: Vec<Page>,
    isolated: u64,
}

impl Pages {
    pub(super) fn new(frames: usize) -> Self {
        Pages {
            lists: Lists::new(frames),
            pages: alloc::vec![UNKNOWN; frames],
            isolated: 0,
        }
    }

    /// Makes room for frames below `frames`; never shrinks.
    pub(super) fn grow(&mut self, frames: usize) {
        self.lists.grow(frames);
        if frames > self.pages.len() {
            self.pages.resize(frames, UNKNOWN);
        }
    }

    #[inline]
    pub(super) fn len(&self, list: List) -> u64 {
        self.lists.len(list as usize)
    }

    #[inline]
    pub(super) fn isolated(&self) -> PageCount {
        PageCount(self.isolated)
    }

    #[inline]
    pub(super) fn page(&mut self, frame: FrameNo) -> &mut Page {
        &mut self.pages[frame.index()]
    }

    /// The list that `frame` is on.
    #[inline]
    pub(super) fn list_of(&self, frame: FrameNo) -> Option<List> {
        match self.pages[frame.index()].place {
            Place::On(list) => Some(list),
            Place::Unknown | Place::Isolated => None,
        }
    }

    /// The page at the cold end.
    #[inline]
    pub(super) fn cold(&self, list: List) -> Option<FrameNo> {
        self.lists.cold(list as usize)
    }

    /// A page that was unknown enters a list at its warm end.
    ///
    /// # Panics
    /// If the frame already holds a page.
    #[inline]
    pub(super) fn admit(&mut self, frame: FrameNo, list: List, touched: bool, usage_count: u8) {
        let page = &mut self.pages[frame.index()];
        assert!(
            page.place == Place::Unknown,
            "{frame:?} already holds a page: {page:?}"
        );
        *page = Page {
            place: Place::On(list),
            touched,
            past: Past::New,
            usage_count,
        };
        self.lists.push_warm(list as usize, frame);
    }

    /// Moves a page from one list to the warm end of another, or of the same.
    #[inline]
    pub(super) fn move_to_warm(&mut self, frame: FrameNo, from: List, to: List) {
        self.lists.remove(from as usize, frame);
        self.lists.push_warm(to as usize, frame);
        self.pages[frame.index()].place = Place::On(to);
    }

    /// Moves a page from one list to the cold end of another, or of the same.
    #[inline]
    pub(super) fn move_to_cold(&mut self, frame: FrameNo, from: List, to: List) {
        self.lists.remove(from as usize, frame);
        self.lists.push_cold(to as usize, frame);
        self.pages[frame.index()].place = Place::On(to);
    }

    /// Takes a page off its list for the caller to decide about.
    #[inline]
    pub(super) fn isolate(&mut self, frame: FrameNo, from: List) {
        self.lists.remove(from as usize, frame);
        self.pages[frame.index()].place = Place::Isolated;
        self.isolated += 1;
    }

    /// Puts an isolated page on a list.
    ///
    /// # Panics
    /// If the page is not isolated.
    pub(super) fn put_back(&mut self, frame: FrameNo, list: List, cold_end: bool) {
        self.end_isolation(frame, Place::On(list));
        if cold_end {
            self.lists.push_cold(list as usize, frame);
        } else {
            self.lists.push_warm(list as usize, frame);
        }
    }

    /// An isolated page has left memory.
    ///
    /// # Panics
    /// If the page is not isolated.
    pub(super) fn forget_isolated(&mut self, frame: FrameNo) {
        self.end_isolation(frame, Place::Unknown);
    }

    fn end_isolation(&mut self, frame: FrameNo, place: Place) {
        let page = &mut self.pages[frame.index()];
        assert!(
            page.place == Place::Isolated,
            "{frame:?} is not isolated: {page:?}"
        );
        page.place = place;
        self.isolated -= 1;
    }

    /// A page has left memory, from wherever it was.
    ///
    /// # Panics
    /// If the frame holds no page.
    pub(super) fn forget(&mut self, frame: FrameNo) {
        match self.pages[frame.index()].place {
            Place::On(list) => {
                self.lists.remove(list as usize, frame);
                self.pages[frame.index()].place = Place::Unknown;
            }
            Place::Isolated => self.forget_isolated(frame),
            Place::Unknown => panic!("{frame:?} holds no page"),
        }
    }

    pub(super) fn iter_from_cold(&self, list: List) -> impl Iterator<Item = FrameNo> + '_ {
        self.lists.iter_from_cold(list as usize)
    }

    pub(super) fn metadata_bytes(&self) -> u64 {
        self.lists.metadata_bytes() + (self.pages.capacity() * size_of::<Page>()) as u64
    }

    /// Re-derives places, lengths and the count of isolated pages.
    pub(super) fn validate(&self) {
        self.lists.validate();
        let mut listed = 0;
        for list in [List::Window, List::Inactive, List::Active, List::NoReuse] {
            for frame in self.lists.iter_from_cold(list as usize) {
                let place = self.pages[frame.index()].place;
                assert_eq!(
                    place,
                    Place::On(list),
                    "{frame:?} is on {list:?}, but its place says {place:?}"
                );
                listed += 1;
            }
        }
        let (mut placed, mut isolated) = (0, 0);
        for page in &self.pages {
            placed += u64::from(matches!(page.place, Place::On(_)));
            isolated += u64::from(page.place == Place::Isolated);
        }
        assert_eq!(placed, listed, "{placed} pages say that they are listed");
        assert_eq!(self.isolated, isolated, "isolated pages");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_page_costs_four_bytes_besides_its_links() {
        assert_eq!(size_of::<Page>(), 4);
        assert_eq!(Pages::new(1000).metadata_bytes(), 12_000);
    }

    #[test]
    fn isolated_pages_are_counted_until_they_are_back_or_gone() {
        let mut pages = Pages::new(4);
        for n in 0..3 {
            pages.admit(FrameNo(n), List::Inactive, false, 0);
        }
        pages.isolate(FrameNo(0), List::Inactive);
        pages.isolate(FrameNo(1), List::Inactive);
        assert_eq!(pages.isolated(), PageCount(2));
        pages.put_back(FrameNo(0), List::Active, false);
        pages.forget(FrameNo(1));
        pages.validate();
        assert_eq!(pages.isolated(), PageCount(0));
        assert_eq!((pages.len(List::Inactive), pages.len(List::Active)), (1, 1));
    }

    #[test]
    #[should_panic = "f1 already holds a page"]
    fn a_frame_takes_one_page_at_a_time() {
        let mut pages = Pages::new(4);
        pages.admit(FrameNo(1), List::Inactive, false, 0);
        pages.admit(FrameNo(1), List::Active, false, 0);
    }
}
