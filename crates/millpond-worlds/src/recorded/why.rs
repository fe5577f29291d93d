//! Why a policy misses less than Millpond on a trace: which uses it has that Millpond misses, and how far apart those are.
//!
//! ```text
//!   distance of a use: different pages used since the last use of its page
//!     below memory      LRU has it too
//!     memory or more    no list in order of last use has it: a policy must keep it while others come and go
//! ```

use millpond_sim::policy::{Model, Use};
use std::fmt::Write;

/// Traces with more uses are described without distances, whose count takes n log n.
const DISTANCES_USES_MAX: usize = 4 << 20;

/// For each use, how many different pages were used since the last use of its page; `None` at the first.
fn distances(uses: &[Use]) -> Vec<Option<u32>> {
    let pages = uses.iter().map(|&(page, _)| page as usize + 1).max().unwrap_or(0);
    // Sums over ranges of times (a Fenwick tree) of a 1 at each page's last use.
    let mut sums = vec![0u32; uses.len() + 1];
    let mut last = vec![None; pages];
    let add = |sums: &mut Vec<u32>, time: usize, by: u32| {
        let mut n = time + 1;
        while n < sums.len() {
            sums[n] = sums[n].wrapping_add(by);
            n += n & n.wrapping_neg();
        }
    };
    let before = |sums: &Vec<u32>, time: usize| {
        let (mut n, mut sum) = (time, 0u32);
        while n > 0 {
            sum = sum.wrapping_add(sums[n]);
            n &= n - 1;
        }
        sum
    };
    let mut distance = |time: usize, page: usize| {
        let previous: Option<usize> = last[page].replace(time);
        let distance = previous.map(|previous| {
            let between = before(&sums, time).wrapping_sub(before(&sums, previous + 1));
            add(&mut sums, previous, 1u32.wrapping_neg());
            between
        });
        add(&mut sums, time, 1);
        distance
    };
    let uses = uses.iter().enumerate();
    uses.map(|(time, &(page, _))| distance(time, page as usize))
        .collect()
}

/// The rule by which a policy chooses, in a sentence.
fn rule(model: Model) -> &'static str {
    match model {
        Model::Opt => "The optimum knows which page is used again last.",
        Model::Lru => "LRU keeps the pages that were used last, new ones as well as old ones.",
        Model::Clock => {
            "CLOCK keeps every page that was used since its hand passed, new ones as well as old ones."
        }
        Model::TwoLists => {
            "Linux's two lists keep pages that were used twice, and those that come back soon after they left."
        }
        Model::Arc => {
            "ARC moves the border between pages used once and pages used again with every page that comes back."
        }
        Model::Lirs => {
            "LIRS keeps the pages whose last two uses were closest together; all others share one hundredth of memory."
        }
        Model::S3Fifo => {
            "S3-FIFO gives new pages a tenth of memory; what is not used again there leaves it, and is kept if it comes back."
        }
        Model::Sieve => {
            "SIEVE looks at new pages before old ones: an old page that is used now and then outlasts the newcomers."
        }
        Model::Clock2QPlus => {
            "Clock2Q+ gives new pages a tenth of memory, and lets uses right after the first not count."
        }
        Model::WTinyLfu => {
            "W-TinyLFU takes in a page only if it was used more often lately than the page that would leave for it."
        }
        Model::Millpond => "Millpond keeps what it keeps.",
    }
}

fn grouped(number: usize) -> String {
    let digits = number.to_string();
    let mut text = String::new();
    for (n, digit) in digits.chars().enumerate() {
        if n > 0 && (digits.len() - n).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// "119", or "96 to 160": without the tenth that is lowest and the tenth that is highest.
fn range(sorted: &[u32]) -> String {
    let at = |tenths: usize| sorted[(sorted.len() - 1) * tenths / 10] as usize;
    match (at(1), at(9)) {
        (low, high) if low == high => grouped(low),
        (low, high) => format!("{} to {}", grouped(low), grouped(high)),
    }
}

/// Says whether most reuse distances exceed the memory size, with the number and range of that majority.
fn told(distances: &[u32], frames: u64) -> Option<(bool, String)> {
    let mut near: Vec<u32> = distances.to_vec();
    near.sort_unstable();
    let far = near.split_off(near.partition_point(|&distance| u64::from(distance) < frames));
    let is_far = far.len() > near.len();
    let most = if is_far { far } else { near };
    if most.is_empty() {
        return None;
    }
    let text = format!(
        "{} come back after {} other pages",
        grouped(most.len()),
        range(&most)
    );
    Some((is_far, text))
}

/// Why `better` misses less than Millpond on `uses` in this many frames.
pub(super) fn why(uses: &[Use], better: Model, frames: u64) -> String {
    let theirs = better.hits(uses, frames);
    let ours = Model::Millpond.hits(uses, frames);
    let distances = (uses.len() <= DISTANCES_USES_MAX).then(|| distances(uses));
    // uses that one has in memory and the other does not; a page that needs no read is no miss
    let only = |has: &[bool], has_not: &[bool]| -> Vec<usize> {
        let is_only = |&n: &usize| uses[n].1 && has[n] && !has_not[n];
        (0..uses.len()).filter(is_only).collect()
    };
    let (gained, lost) = (only(&theirs, &ours), only(&ours, &theirs));
    let name = better.title();
    let mut text = format!(
        "{name} finds {} uses in memory that Millpond misses, and misses {} that Millpond finds. ",
        grouped(gained.len()),
        grouped(lost.len())
    );
    let apart = |uses: &[usize]| -> Vec<u32> {
        let distances = distances
            .iter()
            .flat_map(|all| uses.iter().filter_map(|&n| all[n]));
        distances.collect()
    };
    let memory = grouped(frames as usize);
    match told(&apart(&gained), frames) {
        // Writing to a string does not fail.
        Some((true, far)) => {
            let _ = write!(
                text,
                "Of the first, {far}, and memory has room for {memory}: no order of last use keeps these, only a rule that \
                 lets newer pages leave before them. "
            );
        }
        Some((false, near)) => {
            let _ = write!(
                text,
                "Of the first, {near}, less than the {memory} of memory: LRU has these too. Millpond gave them up for pages \
                 that it had seen used more often. "
            );
        }
        None => {}
    }
    if let Some((_, apart)) = told(&apart(&lost), frames) {
        let _ = write!(text, "Of the second, {apart}. ");
    }
    text + rule(better)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn uses(pages: impl IntoIterator<Item = u32>) -> Vec<Use> {
        pages.into_iter().map(|page| (page, true)).collect()
    }

    #[test]
    fn distances_are_those_of_a_list_in_order_of_last_use() {
        let mut random = 1u32;
        let pages = (0..2000).map(|n| {
            random = random.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            if n % 3 == 0 { random >> 26 } else { random >> 29 }
        });
        let uses = uses(pages);
        let mut list: Vec<u32> = Vec::new();
        for (n, (&(page, _), distance)) in uses.iter().zip(distances(&uses)).enumerate() {
            let place = list.iter().position(|&other| other == page);
            assert_eq!(distance, place.map(|place| place as u32), "use {n}");
            list.retain(|&other| other != page);
            list.insert(0, page);
        }
    }

    #[test]
    fn gained_minus_lost_hits_is_the_difference_of_the_misses() {
        // a loop of 120 pages with 100 frames, and pages that are used once
        let pages = (0..6000u32).map(|n| if n % 9 == 8 { 1000 + n } else { n % 120 });
        let uses = uses(pages);
        let misses = |model: Model| model.hits(&uses, 100).iter().filter(|hit| !**hit).count() as i64;
        for better in Model::ALL {
            let text = why(&uses, better, 100);
            let numbers: Vec<i64> = text
                .split(' ')
                .filter_map(|word| word.replace(',', "").parse().ok())
                .take(2)
                .collect();
            let difference = misses(Model::Millpond) - misses(better);
            assert_eq!(numbers[0] - numbers[1], difference, "{text}");
        }
    }

    #[test]
    fn a_loop_that_is_larger_than_memory_is_told_as_one() {
        let uses = uses((0..1200).map(|n| n % 120));
        let text = why(&uses, Model::Opt, 100);
        assert!(
            text.contains("come back after 119 other pages, and memory has room for 100"),
            "{text}"
        );
    }
}
