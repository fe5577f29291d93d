//! Converts addresses or objects to requests for pages.

use super::Format;
use crate::policy::Use;
use millpond_core::units::{PageKey, PageSize};
use std::collections::HashMap;

/// A longer request is taken for a mistake.
const REQUEST_BYTES_MAX: u64 = 1 << 30;
/// More uses of pages than this are not replayed: their order alone takes 2 GiB.
const USES_MAX: u64 = 1 << 28;
/// Unused pages between two that are used: no more of them are kept. It is twice what is read ahead at most, so nothing is
/// sequential that was not.
const GAP_MAX: u64 = 64;

/// A request's effect on its pages.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Kind {
    /// It reads.
    Read,
    /// It writes; what it keeps of its first and last page is needed.
    Write {
        /// Some of its first page stays.
        keeps_first: bool,
        /// Some of its last page stays.
        keeps_last: bool,
    },
}

/// A request for pages that follow one another.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Request {
    /// The first page.
    pub page: u64,
    /// Their number, at least 1.
    pub pages: u32,
    /// The file or disk, numbered from 0.
    pub file: u32,
    /// Its effect.
    pub kind: Kind,
}

/// The requests of a trace.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Requests {
    /// Its format.
    pub format: Format,
    /// The size of a page.
    pub page_size: PageSize,
    /// Pages of each file: one more than the last that is used.
    pub files: Vec<u64>,
    /// In order of arrival.
    pub requests: Vec<Request>,
    /// The omitted parts of the trace, in sentences.
    pub notes: Vec<String>,
}

impl Requests {
    /// Its uses of pages, these numbered from 0 in the order of their first use.
    pub fn uses(&self) -> Vec<Use> {
        let mut numbers: HashMap<(u32, u64), u32> = HashMap::new();
        let mut uses = Vec::new();
        for request in &self.requests {
            for n in 0..request.pages {
                let next = numbers.len() as u32;
                let page = (request.file, request.page + u64::from(n));
                uses.push((*numbers.entry(page).or_insert(next), request.needs(n)));
            }
        }
        uses
    }
}

impl Request {
    /// Whether the content of its page `n` is needed.
    fn needs(&self, n: u32) -> bool {
        match self.kind {
            Kind::Read => true,
            Kind::Write {
                keeps_first,
                keeps_last,
            } => (keeps_first && n == 0) || (keeps_last && n + 1 == self.pages),
        }
    }
}

/// Takes requests while a trace is read. Its errors say what is wrong, not where.
pub(super) struct Builder {
    page_size: PageSize,
    requests: Vec<Request>,
    uses: u64,
    files: HashMap<String, u32>,
    objects: HashMap<u64, u64>,
    /// Records that ask for no page, by why.
    skipped: Vec<(&'static str, u64)>,
}

impl Builder {
    pub(super) fn new(page_size: PageSize) -> Builder {
        Builder {
            page_size,
            requests: Vec::new(),
            uses: 0,
            files: HashMap::new(),
            objects: HashMap::new(),
            skipped: Vec::new(),
        }
    }

    /// The number of the file of that name.
    pub(super) fn file(&mut self, name: &str) -> Result<u32, String> {
        if let Some(&file) = self.files.get(name) {
            return Ok(file);
        }
        let file = self.files.len() as u32;
        if file >= PageKey::FILES_MAX {
            return Err(format!("more than {} files", PageKey::FILES_MAX));
        }
        self.files.insert(name.into(), file);
        Ok(file)
    }

    /// Bytes from `offset` on.
    pub(super) fn bytes(&mut self, file: u32, offset: u64, len: u64, is_write: bool) -> Result<(), String> {
        if len == 0 {
            self.skip("of no length");
            return Ok(());
        }
        if len > REQUEST_BYTES_MAX {
            return Err(format!(
                "a request of {len} bytes: must be at most {REQUEST_BYTES_MAX}"
            ));
        }
        let end = offset
            .checked_add(len)
            .ok_or_else(|| format!("{len} bytes from {offset} on are beyond 2^64"))?;
        let page = self.page_size.bytes();
        let (first, last) = (offset / page, end.div_ceil(page));
        let kind = match is_write {
            false => Kind::Read,
            true => Kind::Write {
                keeps_first: !offset.is_multiple_of(page),
                keeps_last: !end.is_multiple_of(page),
            },
        };
        self.add(Request {
            page: first,
            pages: (last - first) as u32,
            file,
            kind,
        })
    }

    /// 512 bytes each.
    pub(super) fn sectors(&mut self, file: u32, first: u64, len: u64, is_write: bool) -> Result<(), String> {
        let offset = first
            .checked_mul(512)
            .ok_or_else(|| format!("sector {first} is beyond 2^64 bytes"))?;
        self.bytes(file, offset, len, is_write)
    }

    /// One page by its number.
    pub(super) fn page(&mut self, page: u64) -> Result<(), String> {
        self.add(Request {
            page,
            pages: 1,
            file: 0,
            kind: Kind::Read,
        })
    }

    /// One object, which is a page. Objects are numbered in the order in which they come.
    pub(super) fn object(&mut self, id: u64, is_write: bool) -> Result<(), String> {
        let next = self.objects.len() as u64;
        let page = *self.objects.entry(id).or_insert(next);
        let kind = match is_write {
            false => Kind::Read,
            true => Kind::Write {
                keeps_first: false,
                keeps_last: false,
            },
        };
        self.add(Request {
            page,
            pages: 1,
            file: 0,
            kind,
        })
    }

    /// A record that asks for no page: `requests of no length`.
    pub(super) fn skip(&mut self, why: &'static str) {
        match self.skipped.iter_mut().find(|(known, _)| *known == why) {
            Some((_, count)) => *count += 1,
            None => self.skipped.push((why, 1)),
        }
    }

    fn add(&mut self, request: Request) -> Result<(), String> {
        if request.page >= PageKey::PAGES_MAX || request.page + u64::from(request.pages) > PageKey::PAGES_MAX
        {
            return Err(format!("page {}: must be below 2^40", request.page));
        }
        self.uses += u64::from(request.pages);
        if self.uses > USES_MAX {
            return Err(format!(
                "pages are used more than {USES_MAX} times, which can't be replayed"
            ));
        }
        self.requests.push(request);
        Ok(())
    }

    pub(super) fn finish(mut self, format: Format) -> Requests {
        let files = close_gaps(&mut self.requests);
        let skipped = self.skipped.iter();
        let mut notes: Vec<String> = skipped
            .map(|(why, count)| format!("left out: {count} requests {why}"))
            .collect();
        if !self.objects.is_empty() {
            notes.push(
                "objects are pages in the order of their first use: what a run reads ahead of these says nothing, counts do"
                    .into(),
            );
        }
        Requests {
            format,
            page_size: self.page_size,
            files,
            notes,
            requests: self.requests,
        }
    }
}

/// Moves pages together where more than [`GAP_MAX`] between them are never used, as a file in the simulator takes memory for
/// each of its pages. Answers how many pages each file has then.
fn close_gaps(requests: &mut [Request]) -> Vec<u64> {
    let mut ranges: Vec<(u32, u64, u64)> = requests
        .iter()
        .map(|request| {
            (
                request.file,
                request.page,
                request.page + u64::from(request.pages),
            )
        })
        .collect();
    ranges.sort_unstable();
    // Where pages of a file from here on move, and by how much.
    let mut moves: Vec<(u32, u64, u64)> = Vec::new();
    let (mut file, mut end, mut by) = (u32::MAX, 0, 0);
    for (of, first, last) in ranges {
        if of != file {
            (file, end, by) = (of, 0, 0);
            moves.push((file, 0, 0));
        }
        if first > end + GAP_MAX {
            by += first - end - GAP_MAX;
            moves.push((file, first, by));
        }
        end = end.max(last);
    }
    let count = requests
        .iter()
        .map(|request| request.file as usize + 1)
        .max()
        .unwrap_or(0);
    let mut files = vec![0; count];
    for request in requests {
        let at = moves.partition_point(|&(file, from, _)| (file, from) <= (request.file, request.page));
        request.page -= moves[at - 1].2;
        let pages = &mut files[request.file as usize];
        *pages = (request.page + u64::from(request.pages)).max(*pages);
    }
    files
}

#[cfg(test)]
mod tests {
    use super::*;

    fn built(add: impl FnOnce(&mut Builder) -> Result<(), String>) -> Requests {
        let mut to = Builder::new(PageSize::KIB_4);
        add(&mut to).unwrap();
        to.finish(Format::Msr)
    }

    #[test]
    fn a_write_needs_the_pages_that_it_does_not_cover() {
        let all = built(|to| {
            to.bytes(0, 4096, 8192, true)?;
            to.bytes(0, 4096 + 512, 8192, true)?;
            to.bytes(0, 4096, 512, true)?;
            to.bytes(0, 4096 + 512, 512, false)
        });
        let needed: Vec<Vec<bool>> = all
            .requests
            .iter()
            .map(|request| (0..request.pages).map(|n| request.needs(n)).collect())
            .collect();
        assert_eq!(
            needed,
            [
                vec![false, false],
                vec![true, false, true],
                vec![true],
                vec![true]
            ]
        );
    }

    #[test]
    fn a_request_is_split_into_the_pages_that_it_touches() {
        let all = built(|to| {
            to.sectors(0, 7, 1024, false)?;
            to.bytes(1, 0, 0, false)?;
            to.bytes(1, 40960, 1, false)
        });
        let pages: Vec<_> = all.requests.iter().map(|r| (r.file, r.page, r.pages)).collect();
        assert_eq!(pages, [(0, 0, 2), (1, 10, 1)]);
        assert_eq!((all.uses_of(), all.files), (vec![0, 1, 2], vec![2, 11]));
        assert_eq!(all.notes, ["left out: 1 requests of no length"]);
    }

    impl Requests {
        fn uses_of(&self) -> Vec<u32> {
            self.uses().iter().map(|&(page, _)| page).collect()
        }
    }

    #[test]
    fn unused_pages_between_used_ones_are_few_and_the_order_stays() {
        let far = 1 << 39;
        let all = built(|to| {
            [far + 1, 3, far, 0, far + 5]
                .into_iter()
                .try_for_each(|page| to.page(page))
        });
        let pages: Vec<u64> = all.requests.iter().map(|request| request.page).collect();
        assert_eq!(pages, [4 + 65, 3, 4 + 64, 0, 4 + 69]);
        assert_eq!(all.files, [74]);
    }

    #[test]
    fn impossible_requests_are_refused() {
        let mut to = Builder::new(PageSize::KIB_4);
        for (result, expected) in [
            (to.bytes(0, u64::MAX, 2, false), "beyond 2^64"),
            (to.bytes(0, 0, 2 << 30, false), "a request of 2147483648 bytes"),
            (to.sectors(0, u64::MAX, 512, false), "is beyond 2^64 bytes"),
            (to.bytes(0, 1 << 60, 512, false), "must be below 2^40"),
            (to.page(1 << 40), "must be below 2^40"),
        ] {
            let error = result.unwrap_err();
            assert!(error.contains(expected), "{error}");
        }
    }
}
