//! Files and regions in one budget; what is given up is free.

use super::{MIB, cache, check, fill, folder};
use crate::support::{bounded, in_a_child};
use millpond::{OpenOptions, PageCache, RegionAdvice};

/// Says to the test that it is the child, and in which folder.
const FOLDER: &str = "MILLPOND_REGION_BUDGET_FOLDER";
const MEMORY: u64 = 32 * MIB;

/// Kilobytes of anonymous memory that this process has.
fn anonymous_kib() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find(|line| line.starts_with("RssAnon:")).unwrap();
    line.split_ascii_whitespace().nth(1).unwrap().parse().unwrap()
}

/// A pass over a region left 4 KiB for each 2 MiB of it, outside the budget.
#[test]
fn page_tables_that_are_empty_go_when_there_are_many() {
    let folder = folder();
    let Some(cache) = cache(folder.path(), 2 * MIB, 128 * MIB) else {
        return;
    };
    let mut region = cache.region(128 * MIB as usize).unwrap();
    let mut most = 0;
    for (n, page) in region.as_mut_slice().chunks_mut(4096).enumerate() {
        page[0] = (n % 251) as u8 + 1;
        if n % 256 == 0 {
            most = most.max(cache.stats().region_tables.0);
        }
    }
    let is_kept = |(n, page): (usize, &[u8])| page[0] == (n % 251) as u8 + 1;
    assert!(region.as_slice().chunks(4096).enumerate().all(is_kept));
    let system = rustix::system::uname();
    let release = system.release().to_string_lossy();
    let mut numbers = release
        .split('.')
        .map(|number| number.parse::<u32>().unwrap_or(0));
    let is_new = (numbers.next(), numbers.next()) >= (Some(6), Some(14));
    if !is_new || !cfg!(target_arch = "x86_64") {
        return crate::support::skip("the kernel keeps page tables that are empty");
    }
    // Memory has room for the pages of one, but there may be pages of several.
    assert!(most <= 24 * 4096, "{most}");
    drop(region);
    assert_eq!(cache.stats().region_tables.0, 0);
}

/// A file and a region of four budgets each, used in turn; what the process has in memory meanwhile.
#[test]
fn a_file_and_a_region_together_stay_within_one_budget() {
    let Ok(folder) = std::env::var(FOLDER) else {
        // Nothing else runs in a child's process, so its memory is the cache's.
        let folder = folder();
        let name = "region::budget::a_file_and_a_region_together_stay_within_one_budget";
        return in_a_child(name, |child| {
            child.env(FOLDER, folder.path());
        });
    };
    let before = anonymous_kib();
    let folder = std::path::Path::new(&folder);
    let Some(cache) = cache(folder, MEMORY, 4 * MEMORY) else {
        return;
    };
    let path = folder.join("file");
    let file = cache.open(&path, OpenOptions::new().create(true)).unwrap();
    let mut region = cache.region(4 * MEMORY as usize).unwrap();
    let mut most = 0;
    let mut bytes = vec![0; MIB as usize];
    for n in 0..4 * MEMORY / MIB {
        fill(n as usize, &mut bytes);
        file.write_at(&bytes, n * MIB).unwrap();
        fill(
            n as usize + 1000,
            &mut region.as_mut_slice()[(n * MIB) as usize..][..MIB as usize],
        );
        most = most.max(anonymous_kib());
    }
    for n in 0..4 * MEMORY / MIB {
        file.read_at(&mut bytes, n * MIB).unwrap();
        check(n as usize, &bytes);
        check(
            n as usize + 1000,
            &region.as_slice()[(n * MIB) as usize..][..MIB as usize],
        );
        most = most.max(anonymous_kib());
    }
    // Beside it: this test's own buffer, stacks, and what the allocator keeps.
    let bound = MEMORY / 1024 + 6 * 1024;
    assert!(most - before <= bound, "{} KiB of {bound}", most - before);
    assert!(
        most - before > MEMORY / 1024 / 2,
        "{} KiB: is it measured?",
        most - before
    );
    let stats = cache.stats();
    assert!(stats.metadata.0 < MEMORY / 20, "{stats}");
    // What decides between the two is measured of both.
    assert!(
        stats.refault_costs.file.0 > 0 && stats.refault_costs.region.0 > 0,
        "{:?}",
        stats.refault_costs
    );
}

#[test]
fn the_map_of_frames_is_counted() {
    let folder = folder();
    let Some(with_regions) = cache(folder.path(), 8 * MIB, MIB) else {
        return;
    };
    let without = PageCache::builder().memory(8 * MIB).build().unwrap();
    let per_frame = |cache: &PageCache| {
        let stats = cache.stats();
        stats.metadata.0 as f64 / stats.occupancy.frames.0 as f64
    };
    let [with_regions, without] = [per_frame(&with_regions), per_frame(&without)];
    assert!(
        with_regions >= without + 8.0,
        "{with_regions} bytes a frame, and {without} without regions"
    );
}

#[test]
fn discarded_pages_read_as_zeros_and_are_free() {
    bounded(|| {
        let folder = folder();
        let Some(cache) = cache(folder.path(), 4 * MIB, 16 * MIB) else {
            return;
        };
        let all = cache.stats().occupancy.frames;
        let mut region = cache.region(16 * MIB as usize).unwrap();
        assert!(
            cache.stats().occupancy.frames < all,
            "what is known of its pages is in the budget"
        );
        for (n, page) in region.as_mut_slice().chunks_mut(4096).enumerate() {
            fill(n + 1, page);
        }
        let used = cache.stats().swap_used.0;
        assert!(used >= 3 * MIB / 4096, "{used} slots");
        // From the middle of the second page to the middle of the last but one, which stay.
        let end = region.len() - 4096 - 100;
        region.advise(4096 + 100..end, RegionAdvice::DontNeed).unwrap();
        for (n, page) in region.as_slice().chunks(4096).enumerate() {
            match n {
                0 | 1 | 4094 | 4095 => check(n + 1, page),
                _ if n % 61 == 0 => assert!(page.iter().all(|&byte| byte == 0), "page {n}"),
                _ => {}
            }
        }
        region.advise(.., RegionAdvice::DontNeed).unwrap();
        assert_eq!(cache.stats().swap_used.0, 0);
        let occupancy = cache.stats().occupancy;
        assert_eq!(occupancy.free, occupancy.frames);
        drop(region);
        let occupancy = cache.stats().occupancy;
        assert_eq!((occupancy.free, occupancy.frames), (all, all));
    });
}

#[test]
fn pages_advised_as_needed_come_before_they_are_touched() {
    bounded(|| {
        let folder = folder();
        let Some(cache) = cache(folder.path(), 4 * MIB, 16 * MIB) else {
            return;
        };
        let mut region = cache.region(16 * MIB as usize).unwrap();
        for (n, page) in region.as_mut_slice().chunks_mut(4096).enumerate() {
            fill(n, page);
        }
        // Memory that is free, for what was evicted long ago.
        region.advise(8 * MIB as usize.., RegionAdvice::DontNeed).unwrap();
        let before = cache.stats().counters;
        region.advise(..MIB as usize, RegionAdvice::WillNeed).unwrap();
        let read = cache.stats().counters.pswpin - before.pswpin;
        assert!(
            (64..=256).contains(&read),
            "{read} pages: most were not in memory"
        );
        for (n, page) in region.as_slice()[..MIB as usize].chunks(4096).enumerate() {
            check(n, page);
        }
        let waited = cache.stats().counters.pgmajfault - before.pgmajfault;
        assert_eq!(waited, 0, "nobody has waited for a read of its own");
        assert!(region.advise(..region.len() + 1, RegionAdvice::WillNeed).is_err());
    });
}

#[test]
fn the_budget_can_be_made_smaller_and_larger_beneath_a_region() {
    bounded(|| {
        let folder = folder();
        let Some(cache) = cache(folder.path(), 8 * MIB, 16 * MIB) else {
            return;
        };
        let mut region = cache.region(16 * MIB as usize).unwrap();
        for memory in [8, 2, 12, 3, 8] {
            cache.set_memory(memory * MIB).unwrap();
            for (n, page) in region.as_mut_slice().chunks_mut(4096).enumerate() {
                fill(n ^ memory as usize, page);
            }
            for (n, page) in region.as_slice().chunks(4096).enumerate() {
                check(n ^ memory as usize, page);
            }
        }
    });
}

#[test]
fn a_walk_through_a_region_waits_for_few_of_its_pages() {
    bounded(|| {
        let folder = folder();
        let Some(cache) = cache(folder.path(), 8 * MIB, 32 * MIB) else {
            return;
        };
        let mut region = cache.region(32 * MIB as usize).unwrap();
        for (n, page) in region.as_mut_slice().chunks_mut(4096).enumerate() {
            fill(n, page);
        }
        let before = cache.stats();
        for (n, page) in region.as_slice().chunks(4096).enumerate() {
            check(n, page);
        }
        let after = cache.stats();
        let of = |count: fn(&millpond::Stats) -> u64| count(&after) - count(&before);
        let (waited, ahead) = (of(|s| s.counters.pgmajfault), of(|s| s.counters.swap_ra));
        let (read, used) = (of(|s| s.counters.pswpin), of(|s| s.swap_ahead_hits));
        assert!(
            read >= 6000,
            "{read} pages read: 24 MiB at least were not in memory"
        );
        assert!(waited < read / 4, "waited for {waited} of {read} pages");
        assert!(used > ahead / 2 && used <= ahead, "{used} of {ahead} were used");
    });
}

#[test]
fn pages_that_may_be_discarded_go_without_a_write_unless_touched() {
    bounded(|| {
        let folder = folder();
        let Some(cache) = cache(folder.path(), 8 * MIB, 16 * MIB) else {
            return;
        };
        let mut region = cache.region(16 * MIB as usize).unwrap();
        let (some, all) = (4 * MIB as usize, region.len());
        for (n, page) in region.as_mut_slice()[..some].chunks_mut(4096).enumerate() {
            fill(n + 1, page);
        }
        let written = cache.stats().counters.pswpout;
        region.advise(..some, RegionAdvice::Free).unwrap();
        // These are touched, and so kept.
        for (n, page) in region.as_slice()[..some / 4].chunks(4096).enumerate() {
            check(n + 1, page);
        }
        for (n, page) in region.as_mut_slice()[some..].chunks_mut(4096).enumerate() {
            fill(n + 5000, page);
        }
        let counters = cache.stats().counters;
        assert!(counters.pglazyfreed > 256, "{} of 768", counters.pglazyfreed);
        assert!(counters.pswpout > written);
        let mut gone = 0;
        for (n, page) in region.as_slice()[..some].chunks(4096).enumerate() {
            match page.iter().all(|&byte| byte == 0) {
                true if n >= some / 4 / 4096 => gone += 1,
                _ => check(n + 1, page),
            }
        }
        // More of them went while others came back.
        let all_that_went = counters.pglazyfreed..=cache.stats().counters.pglazyfreed;
        assert!(all_that_went.contains(&gone), "{gone} of {all_that_went:?}");
        for (n, page) in region.as_slice()[some..all].chunks(4096).enumerate() {
            check(n + 5000, page);
        }
    });
}

/// Pages of the first were still in line to have their uses seen when the second had its number.
#[test]
fn a_small_region_after_a_large_one_has_none_of_its_pages() {
    bounded(|| {
        let folder = folder();
        let Some(cache) = cache(folder.path(), 16 * MIB, 64 * MIB) else {
            return;
        };
        for more in 0..8 {
            for len in [32 * MIB as usize + more * 4096, 200 * 4096] {
                let mut region = cache.region(len).unwrap();
                let pages = region.as_mut_slice().chunks_mut(4096);
                pages.enumerate().for_each(|(n, page)| fill(n, page));
                for (n, page) in region.as_slice().chunks(4096).enumerate().skip(len / 4096 - 200) {
                    check(n, page);
                }
            }
        }
    });
}
