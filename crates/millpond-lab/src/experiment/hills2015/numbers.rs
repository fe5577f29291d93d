//! The post's machine in numbers: each figure computed again from the zone table that the post prints.

use crate::report::{Metric, RowName, Table};
use millpond_core::units::{Bytes, PageCount};
use millpond_kernels::linux::dirty::limits::{
    Caller, KernelLimit, KernelLimits, KernelVersion, ratelimit, thresholds,
};
use millpond_kernels::linux::dirty::zone::{
    DirtyableRule, POST_MANAGED_AT_BOOT, POST_ZONES, ZoneKind, dirtyable, marks, protection, reserve_of_all,
};

/// The post's statement about a figure.
enum Post {
    /// Exactly this.
    Is(u64),
    /// This value, and the range of dirtyable pages that gives it.
    Needs(u64, u64, u64),
    /// Nothing.
    Silent,
}

struct Figure {
    /// In metrics.
    name: &'static str,
    what: String,
    value: u64,
    post: Post,
}

const PROCESSORS: u32 = 8;

fn hard(limit: KernelLimit, dirtyable: PageCount) -> PageCount {
    let limits = KernelLimits {
        hard: limit,
        ..KernelLimits::default()
    };
    thresholds(KernelVersion::Linux4, limits, dirtyable, Caller::default()).hard
}

fn ratelimit_of(limit: KernelLimit, dirtyable: PageCount) -> u64 {
    ratelimit(hard(limit, dirtyable), PROCESSORS).0
}

fn figures() -> Vec<Figure> {
    let figure = |name, what: &str, value, post| Figure {
        name,
        what: what.into(),
        value,
        post,
    };
    let of = |rule, highmem| dirtyable(rule, &POST_ZONES, highmem);
    let bug = of(DirtyableRule::Bug404, false);
    let percent = KernelLimit::Percent;
    let lowmem = POST_MANAGED_AT_BOOT[0].1 + POST_MANAGED_AT_BOOT[1].1;
    let high = marks(
        ZoneKind::HighMem,
        POST_MANAGED_AT_BOOT[2].1,
        PageCount(4986),
        lowmem,
    );
    let keeps = |of, from| protection(&POST_MANAGED_AT_BOOT, of, from).0;
    vec![
        figure(
            "protection_dma_normal",
            "DMA keeps from Normal: 96678 / 256",
            keeps(0, 1),
            Post::Is(377),
        ),
        figure(
            "protection_dma_highmem",
            "DMA keeps from HighMem: (96678 + 3017668) / 256",
            keeps(0, 2),
            Post::Is(12_165),
        ),
        figure(
            "protection_normal_highmem",
            "Normal keeps from HighMem: 3017668 / 32",
            keeps(1, 2),
            Post::Is(94_302),
        ),
        figure(
            "highmem_low",
            "HighMem, low watermark",
            high.low.0,
            Post::Is(37_501),
        ),
        figure(
            "highmem_high",
            "HighMem, high watermark",
            high.high.0,
            Post::Is(74_874),
        ),
        figure(
            "reserve",
            "reserve of all zones: 3970 + 96678 + 74874",
            reserve_of_all(&POST_ZONES).0,
            Post::Is(175_522),
        ),
        figure(
            "post_sum",
            "the post's sum: 2648091 - 175522 + 156369 + 3475",
            2_648_091 - 175_522 + 156_369 + 3_475,
            Post::Is(2_632_413),
        ),
        figure(
            "dirtyable_all",
            "dirtyable of all zones: 2575428 - 175522 + 84317 + 301324",
            of(DirtyableRule::Bug404, true).0 - 1,
            Post::Silent,
        ),
        figure(
            "dirtyable_highmem",
            "of high memory: 2536526 - 74874 + 80138 + 273523",
            POST_ZONES[2].dirtyable().0,
            Post::Silent,
        ),
        figure(
            "dirtyable",
            "left when the one is taken from the other, and 1",
            bug.0,
            Post::Silent,
        ),
        figure(
            "hard_20",
            "hard limit at 20 %",
            hard(percent(20), bug).0,
            Post::Is(0),
        ),
        figure(
            "ratelimit_21",
            "ratelimit at 21 %",
            ratelimit_of(percent(21), bug),
            Post::Is(16),
        ),
        figure(
            "ratelimit_20",
            "ratelimit at 20 %",
            ratelimit_of(percent(20), bug),
            Post::Is(16),
        ),
        figure(
            "ratelimit_bytes",
            "ratelimit with dirty_bytes 1048576000",
            ratelimit_of(KernelLimit::Bytes(Bytes(1_048_576_000)), bug),
            Post::Is(1000),
        ),
        figure(
            "ratelimit_highmem",
            "ratelimit at 20 %, high memory counted",
            ratelimit_of(percent(20), of(DirtyableRule::Bug404, true)),
            Post::Needs(2186, 2_798_080, 2_799_359),
        ),
        figure(
            "ratelimit_boot",
            "ratelimit at boot, from all low memory",
            ratelimit_of(percent(20), lowmem),
            Post::Needs(78, 99_840, 101_119),
        ),
        figure(
            "dirtyable_clamped",
            "dirtyable if each zone is clamped separately",
            of(DirtyableRule::ZoneClamp, false).0,
            Post::Silent,
        ),
        figure(
            "dirtyable_pool",
            "dirtyable by Millpond's rule: all but the reserve",
            of(DirtyableRule::SinglePool, false).0,
            Post::Silent,
        ),
    ]
}

/// The table, and a metric for each figure.
pub(super) fn table() -> (Table, Vec<Metric>) {
    let figures = figures();
    let row = RowName::new("sim", "the post's machine", "bug404");
    let metrics = figures.iter().map(|figure| {
        let (name, value) = (format!("{}_pages", figure.name), figure.value as f64);
        Metric::exact(
            super::EXPERIMENT.name,
            super::NUMBERS,
            &row,
            &name,
            "pages",
            value,
        )
    });
    let metrics = metrics.collect();
    let title = "The post's machine in numbers (pages of 4 KiB)";
    let mut table = Table::new(title, ["", "computed", "the post", ""]);
    for figure in &figures {
        let (post, verdict) = match figure.post {
            Post::Silent => (String::new(), String::new()),
            Post::Is(value) if value == figure.value => (value.to_string(), "exactly".into()),
            Post::Is(value) => (value.to_string(), "NOT REPRODUCED".into()),
            Post::Needs(value, from, to) => (value.to_string(), format!("needs {from} to {to} dirtyable")),
        };
        table.push(&*figure.what, [figure.value.to_string(), post, verdict]);
    }
    (table, metrics)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_figure_that_the_post_has_is_reproduced_or_in_its_range() {
        for figure in figures() {
            match figure.post {
                Post::Silent => {}
                Post::Is(value) => assert_eq!(figure.value, value, "{}", figure.what),
                // The snapshot is not from the same moment: half a percent.
                Post::Needs(value, from, to) => {
                    assert!(figure.value.abs_diff(value) * 200 <= value, "{}", figure.what);
                    for dirtyable in [from, to] {
                        assert_eq!(
                            ratelimit_of(KernelLimit::Percent(20), PageCount(dirtyable)),
                            value
                        );
                    }
                }
            }
        }
    }
}
