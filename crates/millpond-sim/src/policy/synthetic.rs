//! Reproducible synthetic loads by name: the same pages on every machine. Integers only.

use super::Use;

/// The kind of each, in the order of tables.
pub const NAMES: [&str; 6] = [
    "zipf",
    "drifting",
    "loop",
    "scan-and-hot",
    "lately",
    "turning-back",
];

/// Pages of a load at scale 1, and uses of each, in the mean.
const PAGES: u32 = 10_000;
const USES_A_PAGE: u32 = 15;

/// The load `name` of about 10,000 times `scale` pages and fifteen times as many uses; `None` if there is none of that name.
///
/// - `zipf`: popularity falls as one over the rank, by octaves.
/// - `drifting`: the same, while other pages become popular.
/// - `loop`: all pages, one after the other, again and again.
/// - `scan-and-hot`: popular pages; half of the time three of four uses are of pages that are used once.
/// - `lately`: how many other pages were used since has a long tail, by octaves: order of last use is worth something.
/// - `turning-back`: to the end, back to the begin, and again. Order of last use is the best there is.
pub fn load(name: &str, scale: f64, seed: u64) -> Option<Vec<Use>> {
    let pages = ((f64::from(PAGES) * scale) as u32).clamp(16, 1 << 28);
    let uses = u64::from(pages) * u64::from(USES_A_PAGE);
    let mut random = fastrand::Rng::with_seed(seed);
    let mut scanned = pages;
    let mut stack = Stack::default();
    let mut page_at = |n: u64| -> u32 {
        match name {
            "zipf" => by_octaves(pages, &mut random),
            "drifting" => {
                let moved = n / u64::from(2 * USES_A_PAGE);
                ((u64::from(by_octaves(pages, &mut random)) + moved) % u64::from(pages)) as u32
            }
            "loop" => (n % u64::from(pages)) as u32,
            "scan-and-hot" => {
                // Eight phases; in every other one most uses are of a scan.
                if n * 8 / uses % 2 == 1 && random.u32(..4) > 0 {
                    scanned += 1;
                    scanned
                } else {
                    by_octaves(pages / 4, &mut random)
                }
            }
            "lately" => stack.page(pages, &mut random),
            _ => {
                let turn = 2 * u64::from(pages) - 2;
                let at = n % turn;
                at.min(turn - at) as u32
            }
        }
    };
    NAMES
        .contains(&name)
        .then(|| (0..uses).map(|n| (page_at(n), true)).collect())
}

/// A rank below `pages`, each octave of ranks (1, 2 to 3, 4 to 7, …) as likely as any.
fn by_octaves(pages: u32, random: &mut fastrand::Rng) -> u32 {
    let octaves = 32 - pages.max(1).leading_zeros();
    loop {
        let octave = random.u32(..octaves);
        let rank = random.u32(1 << octave..=(1 << octave) + ((1 << octave) - 1));
        if rank <= pages {
            return rank - 1;
        }
    }
}

/// Pages in the order of their last use, near enough: blocks of pages, so that one is found and moved quickly.
#[derive(Default)]
struct Stack {
    /// The newest page is the last one.
    pages: Vec<u32>,
    next: u32,
}

/// How far back a page is searched for.
const BACK_MAX: u32 = 1 << 13;

impl Stack {
    fn page(&mut self, pages: u32, random: &mut fastrand::Rng) -> u32 {
        let back = by_octaves(BACK_MAX.min(pages), random) as usize;
        let is_new = random.u32(..USES_A_PAGE) == 0;
        let page = match self.pages.len().checked_sub(back + 1) {
            Some(at) if !is_new => self.pages.remove(at),
            _ => {
                self.next += 1;
                self.next - 1
            }
        };
        // What is too far back is not used again.
        if self.pages.len() > 2 * BACK_MAX as usize {
            self.pages.drain(..BACK_MAX as usize);
        }
        self.pages.push(page);
        page
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_load_is_the_same_each_time_and_has_about_so_many_pages() {
        for name in NAMES {
            let uses = load(name, 0.1, 1).unwrap();
            assert_eq!(uses, load(name, 0.1, 1).unwrap(), "{name}");
            assert_eq!(uses.len(), 15_000);
            let distinct = uses.iter().collect::<std::collections::HashSet<_>>().len();
            assert!((600..8_000).contains(&distinct), "{name}: {distinct}");
        }
        assert_eq!(load("none", 1.0, 1), None);
    }

    #[test]
    fn the_first_octave_is_as_likely_as_the_last() {
        let mut random = fastrand::Rng::with_seed(1);
        let drawn: Vec<u32> = (0..14_000).map(|_| by_octaves(1 << 14, &mut random)).collect();
        let first = drawn.iter().filter(|&&page| page == 0).count();
        let last = drawn.iter().filter(|&&page| page >= (1 << 13) - 1).count();
        assert!((800..1200).contains(&first), "{first}");
        assert!((800..1200).contains(&last), "{last}");
    }
}
