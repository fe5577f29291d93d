//! Dirtyable memory where memory has parts: the zones of a kernel, or several pools.
//!
//! ```text
//!   zone     managed ┌──────────────────────────────────────────────┐
//!                    │ reserve │ free │ file pages │ everything else │     dirtyable: free above the reserve, file pages
//!                    └──────────────────────────────────────────────┘
//! ```
//!
//! Hills 2015: Linux to this day adds up free memory and reserves of *all* zones and subtracts one sum from the
//! other. A zone whose reserve is larger than what it has free then takes from its neighbours, and what is left is less
//! than high memory alone, which is subtracted next: nothing remains. [`DirtyableRule`] has that form and those that
//! can't: each part is clamped by itself, and only then are parts added up.
//!
//! Watermarks and reserves of zones are those of Linux 3.x to 4.5 (`__setup_per_zone_wmarks`,
//! `setup_per_zone_lowmem_reserve`, `calculate_totalreserve_pages`).

use millpond_core::dirty::limits::{Pool, pages_of};
use millpond_core::units::PageCount;

/// The purpose of a zone.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum ZoneKind {
    /// For devices that can address 16 MiB.
    Dma,
    /// For those that can address 4 GiB.
    Dma32,
    /// Memory that the kernel maps.
    Normal,
    /// Memory that a 32-bit kernel doesn't map.
    HighMem,
    /// Memory that can be removed, or moved.
    Movable,
}

impl ZoneKind {
    /// By how much a zone divides the memory above it to find what it keeps from allocations that could be served there:
    /// Linux' `sysctl_lowmem_reserve_ratio`. `None`: it keeps nothing.
    fn reserve_ratio(self) -> Option<u64> {
        match self {
            ZoneKind::Dma | ZoneKind::Dma32 => Some(256),
            ZoneKind::Normal => Some(32),
            ZoneKind::HighMem | ZoneKind::Movable => None,
        }
    }
}

/// A zone at one moment, as a table of zones (`/proc/zoneinfo`) has it, in pages.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Zone {
    /// Its purpose.
    pub kind: ZoneKind,
    /// Pages that are handed out and taken back.
    pub managed: PageCount,
    /// Of these: free ones.
    pub free: PageCount,
    /// File pages that were used once.
    pub inactive_file: PageCount,
    /// File pages that were used again.
    pub active_file: PageCount,
    /// The watermark up to which background reclaim works.
    pub high: PageCount,
    /// The most that it keeps from allocations which could be served elsewhere: the largest `protection`.
    pub protection: PageCount,
}

impl Zone {
    /// The pages that must stay free of dirty pages: never more than the zone has.
    pub fn reserve(&self) -> PageCount {
        self.managed.min(self.protection + self.high)
    }

    /// File pages.
    pub fn file(&self) -> PageCount {
        self.inactive_file + self.active_file
    }

    /// The pages that dirty pages may fill: free above the reserve, and file pages.
    pub fn dirtyable(&self) -> PageCount {
        self.free.saturating_sub(self.reserve()) + self.file()
    }
}

/// How the parts become one number.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum DirtyableRule {
    /// Linux 4.0.5 and later: totals, then differences of totals. For the laboratory: with high memory nothing may be left.
    Bug404,
    /// Each zone clamped separately, then added up. Never less than the file pages of the zones that count.
    ZoneClamp,
    /// Millpond: what matters is how much memory there is, not how much of it is free at the moment: every page but the
    /// reserve, and never less than a sixteenth of each part. What addresses a page has is no business of this.
    SinglePool,
}

fn sum(zones: &[Zone], of: impl Fn(&Zone) -> PageCount) -> PageCount {
    zones.iter().fold(PageCount(0), |sum, zone| sum + of(zone))
}

/// The pages that must stay free of dirty pages, in all zones: Linux's `totalreserve_pages`, earlier
/// `dirty_balance_reserve`.
pub fn reserve_of_all(zones: &[Zone]) -> PageCount {
    sum(zones, Zone::reserve)
}

/// Memory that dirty pages may fill, by this rule. `highmem_counts` is `vm.highmem_is_dirtyable`. At least a page.
pub fn dirtyable(rule: DirtyableRule, zones: &[Zone], highmem_counts: bool) -> PageCount {
    let is_high = |zone: &Zone| zone.kind == ZoneKind::HighMem;
    let pages = match rule {
        DirtyableRule::Bug404 => {
            let free = sum(zones, |zone| zone.free);
            let all = free.saturating_sub(reserve_of_all(zones)) + sum(zones, Zone::file);
            let high = sum(zones, |zone| match is_high(zone) {
                true => zone.dirtyable(),
                false => PageCount(0),
            });
            // Linux adds one "to ensure that we never return 0"; a share of one page is nothing all the same.
            all.saturating_sub(if highmem_counts { PageCount(0) } else { high }) + PageCount(1)
        }
        DirtyableRule::ZoneClamp => sum(zones, |zone| match is_high(zone) && !highmem_counts {
            true => PageCount(0),
            false => zone.dirtyable(),
        }),
        DirtyableRule::SinglePool => {
            let pools = zones.iter().map(|zone| Pool {
                frames: zone.managed,
                reserve: PageCount(zone.managed.0 / 256),
            });
            pages_of(pools)
        }
    };
    pages.max(PageCount(1))
}

/// Minimum, low and high watermark of a zone.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ZoneMarks {
    /// A task that allocates below it reclaims for itself.
    pub min: PageCount,
    /// Background reclaim wakes below it.
    pub low: PageCount,
    /// And works up to it.
    pub high: PageCount,
}

/// The watermarks of a zone of Linux 3.x to 4.5 when `min` pages are to be kept free in the `lowmem` pages below high
/// memory.
pub fn marks(kind: ZoneKind, managed: PageCount, min: PageCount, lowmem: PageCount) -> ZoneMarks {
    let share = (u128::from(min.0) * u128::from(managed.0) / u128::from(lowmem.0.max(1))) as u64;
    let own = match kind {
        ZoneKind::HighMem => (managed.0 / 1024).clamp(32, 128),
        _ => share,
    };
    ZoneMarks {
        min: PageCount(own),
        low: PageCount(own + share / 4),
        high: PageCount(own + share / 2),
    }
}

/// What zone `of` keeps from allocations that zone `from` could serve: Linux' `lowmem_reserve`. `managed` are the zones'
/// sizes, lowest first.
pub fn protection(managed: &[(ZoneKind, PageCount)], of: usize, from: usize) -> PageCount {
    let above = managed.get(of + 1..=from).unwrap_or_default();
    let above: u64 = above.iter().map(|(_, pages)| pages.0).sum();
    let ratio = managed.get(of).and_then(|(kind, _)| kind.reserve_ratio());
    PageCount(ratio.map_or(0, |ratio| above / ratio))
}

/// Hills 2015's machine: the zones that the post prints, in the order DMA, Normal, HighMem. Its reserves date from the
/// boot, when Normal had 96,678 pages; 95 pages of the kernel's own start came to it afterwards.
pub const POST_MANAGED_AT_BOOT: [(ZoneKind, PageCount); 3] = [
    (ZoneKind::Dma, PageCount(3970)),
    (ZoneKind::Normal, PageCount(96_678)),
    (ZoneKind::HighMem, PageCount(3_017_668)),
];

/// The post's table of zones. `managed` of Normal is that of the boot, by which its reserve was derived.
pub const POST_ZONES: [Zone; 3] = [
    Zone {
        kind: ZoneKind::Dma,
        managed: PageCount(3970),
        free: PageCount(1566),
        inactive_file: PageCount(163),
        active_file: PageCount(1129),
        high: PageCount(294),
        protection: PageCount(12_165),
    },
    Zone {
        kind: ZoneKind::Normal,
        managed: PageCount(96_678),
        free: PageCount(37_336),
        inactive_file: PageCount(4016),
        active_file: PageCount(26_672),
        high: PageCount(7183),
        protection: PageCount(94_302),
    },
    Zone {
        kind: ZoneKind::HighMem,
        managed: PageCount(3_017_668),
        free: PageCount(2_536_526),
        inactive_file: PageCount(80_138),
        active_file: PageCount(273_523),
        high: PageCount(74_874),
        protection: PageCount(0),
    },
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn protection_and_watermarks_are_those_of_the_posts_table() {
        let keeps = |of, from| protection(&POST_MANAGED_AT_BOOT, of, from).0;
        assert_eq!([keeps(0, 1), keeps(0, 2), keeps(1, 2)], [377, 12_165, 94_302]);
        assert_eq!([keeps(0, 0), keeps(1, 0), keeps(2, 2)], [0, 0, 0]);
        let now = [
            POST_MANAGED_AT_BOOT[0],
            (ZoneKind::Normal, PageCount(96_773)),
            POST_MANAGED_AT_BOOT[2],
        ];
        // So the table's 377 was derived from 96,678.
        assert_eq!(protection(&now, 0, 1), PageCount(378));
        let (min, lowmem) = (PageCount(4986), PageCount(3970 + 96_678));
        let of = |n: usize| {
            let (kind, managed) = POST_MANAGED_AT_BOOT[n];
            let m = marks(kind, managed, min, lowmem);
            (m.min.0, m.low.0, m.high.0)
        };
        assert_eq!(of(0), (196, 245, 294));
        assert_eq!(of(1), (4789, 5986, 7183));
        assert_eq!(of(2), (128, 37_501, 74_874));
        let late = marks(
            ZoneKind::HighMem,
            PageCount(3_017_668),
            min,
            PageCount(3970 + 96_773),
        );
        assert_eq!(
            (late.low.0, late.high.0),
            (37_465, 74_803),
            "not those of the table"
        );
    }

    #[test]
    fn the_reserve_of_all_zones_is_the_posts_to_the_page() {
        assert_eq!(reserve_of_all(&POST_ZONES), PageCount(175_522));
        let mut now = POST_ZONES;
        now[1].managed = PageCount(96_773);
        assert_eq!(reserve_of_all(&now), PageCount(175_617));
    }

    #[test]
    fn a_difference_of_totals_leaves_nothing_of_the_posts_machine() {
        let free = sum(&POST_ZONES, |z| z.free);
        assert_eq!(free, PageCount(2_575_428));
        assert_eq!(sum(&POST_ZONES, |z| z.inactive_file), PageCount(84_317));
        assert_eq!(sum(&POST_ZONES, |z| z.active_file), PageCount(301_324));
        assert_eq!(POST_ZONES[2].dirtyable(), PageCount(2_815_313));
        let bug = |highmem| dirtyable(DirtyableRule::Bug404, &POST_ZONES, highmem).0;
        assert_eq!((bug(false), bug(true)), (1, 2_785_548));
    }

    #[test]
    fn parts_that_are_clamped_by_themselves_add_up_to_something() {
        let zones = |highmem| dirtyable(DirtyableRule::ZoneClamp, &POST_ZONES, highmem).0;
        assert_eq!((zones(false), zones(true)), (31_980, 31_980 + 2_815_313));
        let pool = |highmem| dirtyable(DirtyableRule::SinglePool, &POST_ZONES, highmem).0;
        assert_eq!(pool(false), pool(true));
        assert_eq!(pool(false), 3970 - 15 + 96_678 - 377 + 3_017_668 - 11_787);
    }
}
