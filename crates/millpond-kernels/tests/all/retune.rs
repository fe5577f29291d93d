//! A kernel's limits follow from the last settings and from memory now under the repaired rules, and not under those of
//! Hills 2015's kernel.
//!
//! `MILLPOND_SEQUENCES=100000` sets the number of random sequences; 3,000 by default. A failure says which it was.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use millpond_core::units::{Bytes, PageCount};
use millpond_kernels::linux::dirty::limits::{Caller, KernelLimit};
use millpond_kernels::linux::dirty::touch::{Touch, TouchRules, Touched, post_zones_at_boot};
use millpond_kernels::linux::dirty::zone::POST_ZONES;
use millpond_sim::draw::Draw;

fn sequences() -> u64 {
    let number = std::env::var("MILLPOND_SEQUENCES")
        .ok()
        .and_then(|n| n.parse().ok());
    number.unwrap_or(3_000)
}

/// The machine of the post under the repaired rules; the post's own kernel fails this at once.
#[test]
fn the_posts_machine_keeps_to_its_last_settings_under_the_repaired_rules() {
    let ends_alike = |rules: TouchRules, seed: u64| {
        let mut draw = Draw(seed);
        let mut machine = Touched::boot(rules, post_zones_at_boot());
        let (mut hard, mut highmem, mut cpus) = (KernelLimit::Percent(20), false, 1);
        for _ in 0..draw.below(12) {
            let caller = Caller {
                is_favoured: draw.below(2) == 0,
                limit_now: PageCount(draw.below(1000)),
            };
            machine.touch(match draw.below(5) {
                0 => {
                    hard = KernelLimit::Bytes(Bytes(1 + draw.below(1 << 32)));
                    Touch::Hard(hard, caller)
                }
                1 | 2 => {
                    hard = KernelLimit::Percent(1 + draw.below(100) as u32);
                    Touch::Hard(hard, caller)
                }
                3 => {
                    highmem = !highmem;
                    Touch::HighmemCounts(highmem, caller)
                }
                _ => {
                    cpus = 1 + draw.below(64) as u32;
                    Touch::Processors(cpus)
                }
            });
        }
        machine.touch(Touch::Memory(POST_ZONES.to_vec()));
        let mut fresh = Touched::boot(rules, POST_ZONES.to_vec());
        for touch in [
            Touch::Processors(cpus),
            Touch::HighmemCounts(highmem, Caller::default()),
            Touch::Hard(hard, Caller::default()),
        ] {
            fresh.touch(touch);
        }
        machine.in_force() == fresh.in_force() && machine.in_force().dirtyable.0 > 1
    };
    for seed in 0..sequences() {
        for rules in [TouchRules::REPAIRED, TouchRules::MILLPOND] {
            assert!(ends_alike(rules, seed), "sequence {seed} of {rules:?}");
        }
    }
    let kept = (0..1000)
        .filter(|&seed| ends_alike(TouchRules::LINUX_4_0, seed))
        .count();
    assert!(
        kept < 500,
        "{kept} of 1000 sequences leave no trace in the post's kernel"
    );
}
