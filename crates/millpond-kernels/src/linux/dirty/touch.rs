//! When limits are derived, and what touching a setting does: the state that Hills 2015 has met.
//!
//! ```text
//!   boot ──► processors come online ──► memory, reserves ──► dirty_ratio 20 again ──► 21 ──► 20
//!   derived     derived each time       (nothing)            (nothing: the same)      derived, derived
//!   from what there is at that moment                                                 from what there is *now*
//! ```
//!
//! In Linux the domain's own limit and the ratelimit are left as they were derived last, and are derived when the ratio or
//! the bytes become *different*, when a processor comes or goes, and when memory does. So the value of the boot (reserves
//! not yet there) may be in use until a setting is touched: what is seen then is not what was done. And the task that
//! touches it counts: a favoured caller leaves other limits behind.
//!
//! Tasks derive the two thresholds for themselves, each time they look. On the post's machine these have been 0 ever since
//! the reserves were there; what kept it going was the domain's own limit of the boot, and the touch took that away.
//!
//! [`TouchRules::LINUX_4_0`] has all of that; each part of it can be exchanged for the repaired form.

use super::limits::{
    Caller, KernelLimit, KernelLimits, KernelThresholds, KernelVersion, ratelimit, thresholds,
};
use super::zone::{DirtyableRule, Zone, dirtyable};
use millpond_core::units::PageCount;

/// Events on which limits are derived again.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Derivation {
    /// Linux: a ratio or a size that differs from the one before, processors, memory being plugged in. Not the flag
    /// `highmem_is_dirtyable`, and not memory that fills and empties.
    OnDifferentLimit,
    /// Every change of any input, the flag and memory among them.
    OnEveryChange,
}

/// Whether it matters which task asks.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum CallerFlags {
    /// Linux: a favoured caller scales the limits of all.
    Scale,
    /// It does not matter.
    Ignored,
}

/// The rules of one system.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct TouchRules {
    /// The memory that dirty pages may fill.
    pub dirtyable: DirtyableRule,
    /// When.
    pub derivation: Derivation,
    /// The caller's flags.
    pub caller: CallerFlags,
}

impl TouchRules {
    /// The post's kernel, 4.0.5.
    pub const LINUX_4_0: TouchRules = TouchRules {
        dirtyable: DirtyableRule::Bug404,
        derivation: Derivation::OnDifferentLimit,
        caller: CallerFlags::Scale,
    };
    /// Zones clamped, derived at every change, whichever task asks.
    pub const REPAIRED: TouchRules = TouchRules {
        dirtyable: DirtyableRule::ZoneClamp,
        derivation: Derivation::OnEveryChange,
        caller: CallerFlags::Ignored,
    };
    /// The same with Millpond's notion of dirtyable memory.
    pub const MILLPOND: TouchRules = TouchRules {
        dirtyable: DirtyableRule::SinglePool,
        ..TouchRules::REPAIRED
    };
}

/// The values in force.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct InForce {
    /// Dirtyable pages when it was derived.
    pub dirtyable: PageCount,
    /// The limits. The hard one is also set as the domain's own, by which tasks are stopped.
    pub thresholds: KernelThresholds,
    /// Pages between two looks.
    pub ratelimit: PageCount,
}

/// A changed setting, or another event.
#[derive(Clone, Debug)]
pub enum Touch {
    /// `vm.dirty_ratio` or `vm.dirty_bytes` is written.
    Hard(KernelLimit, Caller),
    /// `vm.dirty_background_ratio` or `vm.dirty_background_bytes` is written. It has no part in the ratelimit.
    Background(KernelLimit, Caller),
    /// `vm.highmem_is_dirtyable` is written.
    HighmemCounts(bool, Caller),
    /// This many processors are online from now on.
    Processors(u32),
    /// Memory has filled or emptied, or its reserves were derived.
    Memory(Vec<Zone>),
}

/// A machine whose settings are touched.
#[derive(Clone, Debug)]
pub struct Touched {
    rules: TouchRules,
    limits: KernelLimits,
    highmem_counts: bool,
    processors: u32,
    zones: Vec<Zone>,
    in_force: InForce,
}

impl Touched {
    /// A machine that boots with one processor and the default settings.
    pub fn boot(rules: TouchRules, zones: Vec<Zone>) -> Touched {
        let mut machine = Touched {
            rules,
            limits: KernelLimits::default(),
            highmem_counts: false,
            processors: 1,
            zones,
            in_force: InForce {
                dirtyable: PageCount(0),
                thresholds: KernelThresholds {
                    background: PageCount(0),
                    hard: PageCount(0),
                },
                ratelimit: PageCount(0),
            },
        };
        machine.derive(Caller::default());
        machine
    }

    /// The values in force.
    pub fn in_force(&self) -> InForce {
        self.in_force
    }

    /// The limits as a task that looks finds them at this moment: from memory now, whatever was derived last. What was
    /// derived last is the domain's own limit, which lies above these and follows them down slowly
    /// ([`domain_limit_next`](super::position::domain_limit_next)), and the ratelimit.
    pub fn found_by_tasks(&self) -> KernelThresholds {
        let dirtyable = dirtyable(self.rules.dirtyable, &self.zones, self.highmem_counts);
        thresholds(KernelVersion::Linux4, self.limits, dirtyable, Caller::default())
    }

    /// The settings.
    pub fn limits(&self) -> KernelLimits {
        self.limits
    }

    /// Something happens.
    pub fn touch(&mut self, touch: Touch) {
        let always = self.rules.derivation == Derivation::OnEveryChange;
        let (derives, caller) = match touch {
            Touch::Hard(limit, caller) => {
                let is_different = self.limits.hard != limit;
                self.limits.hard = limit;
                (is_different || always, caller)
            }
            Touch::Background(limit, caller) => {
                self.limits.background = limit;
                (always, caller)
            }
            Touch::HighmemCounts(counts, caller) => {
                self.highmem_counts = counts;
                (always, caller)
            }
            Touch::Processors(processors) => {
                self.processors = processors;
                (true, Caller::default())
            }
            Touch::Memory(zones) => {
                self.zones = zones;
                (always, Caller::default())
            }
        };
        if derives {
            self.derive(caller);
        }
    }

    fn derive(&mut self, caller: Caller) {
        let caller = match self.rules.caller {
            CallerFlags::Scale => caller,
            CallerFlags::Ignored => Caller::default(),
        };
        let dirtyable = dirtyable(self.rules.dirtyable, &self.zones, self.highmem_counts);
        let thresholds = thresholds(KernelVersion::Linux4, self.limits, dirtyable, caller);
        self.in_force = InForce {
            dirtyable,
            thresholds,
            ratelimit: ratelimit(thresholds.hard, self.processors),
        };
    }
}

/// The post's machine when its last processor came online: no watermarks and no reserves yet, all memory free. The post
/// does not print it; low memory less the 808 pages that may be in use at most gives the 78 that it saw.
pub fn post_zones_at_boot() -> Vec<Zone> {
    let empty = |&(kind, managed): &(_, PageCount)| Zone {
        kind,
        managed,
        free: managed,
        inactive_file: PageCount(0),
        active_file: PageCount(0),
        high: PageCount(0),
        protection: PageCount(0),
    };
    super::zone::POST_MANAGED_AT_BOOT.iter().map(empty).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::linux::dirty::zone::POST_ZONES;
    use millpond_core::units::Bytes;

    const ROOT: Caller = Caller {
        is_favoured: false,
        limit_now: PageCount(0),
    };

    /// Booted with eight processors, and used for a while.
    fn post(rules: TouchRules) -> Touched {
        let mut machine = Touched::boot(rules, post_zones_at_boot());
        (2..=8).for_each(|n| machine.touch(Touch::Processors(n)));
        machine.touch(Touch::Memory(POST_ZONES.to_vec()));
        machine
    }

    fn percent(percent: u32) -> Touch {
        Touch::Hard(KernelLimit::Percent(percent), ROOT)
    }

    #[test]
    fn the_post_step_by_step() {
        let mut machine = post(TouchRules::LINUX_4_0);
        let mut seen = vec![machine.in_force().ratelimit.0];
        for touch in [
            percent(20),
            percent(21),
            percent(20),
            Touch::Hard(KernelLimit::Bytes(Bytes(1_048_576_000)), ROOT),
            percent(20),
            Touch::HighmemCounts(true, ROOT),
            percent(21),
            percent(20),
        ] {
            machine.touch(touch);
            seen.push(machine.in_force().ratelimit.0);
        }
        //  boot, the same, 21, 20 again, in bytes, 20, the flag alone, 21 with it, 20 with it (the post: 2186)
        assert_eq!(seen, [78, 78, 16, 16, 1000, 16, 16, 2285, 2176]);
    }

    #[test]
    fn it_is_the_hard_limit_of_zero_that_is_left_behind() {
        let mut machine = post(TouchRules::LINUX_4_0);
        assert!(machine.in_force().thresholds.hard > PageCount(19_967));
        machine.touch(percent(21));
        machine.touch(percent(20));
        assert_eq!(machine.in_force().thresholds.hard, PageCount(0));
    }

    #[test]
    fn a_caller_leaves_his_limits_behind_unless_nobody_is_asked() {
        let nfsd = Caller {
            is_favoured: true,
            ..ROOT
        };
        let hard = |rules, caller| {
            let mut machine = post(rules);
            machine.touch(Touch::HighmemCounts(true, ROOT));
            machine.touch(Touch::Hard(KernelLimit::Percent(30), caller));
            machine.in_force().thresholds.hard.0
        };
        let own = hard(TouchRules::LINUX_4_0, ROOT);
        assert_eq!(hard(TouchRules::LINUX_4_0, nfsd), own + own / 4);
        assert_eq!(hard(TouchRules::REPAIRED, nfsd), hard(TouchRules::REPAIRED, ROOT));
    }

    #[test]
    fn with_the_repaired_rules_only_the_last_settings_count() {
        for rules in [TouchRules::REPAIRED, TouchRules::MILLPOND] {
            let mut machine = post(rules);
            let before = machine.in_force();
            assert!(before.thresholds.hard > PageCount(6000), "{before:?}");
            machine.touch(percent(21));
            assert_ne!(machine.in_force(), before);
            machine.touch(Touch::HighmemCounts(true, ROOT));
            machine.touch(Touch::HighmemCounts(false, ROOT));
            machine.touch(percent(20));
            assert_eq!(machine.in_force(), before);
        }
    }

    #[test]
    fn each_defect_shows_by_itself() {
        // The flag: repaired in nothing else, it is derived anew at once.
        let rules = TouchRules {
            derivation: Derivation::OnEveryChange,
            ..TouchRules::LINUX_4_0
        };
        let mut machine = post(rules);
        assert_eq!(
            machine.in_force().ratelimit,
            PageCount(16),
            "memory has come since the boot"
        );
        machine.touch(Touch::HighmemCounts(true, ROOT));
        assert_eq!(machine.in_force().ratelimit, PageCount(2176));
        // Processors: the number that is online when it is derived.
        let mut machine = Touched::boot(TouchRules::LINUX_4_0, post_zones_at_boot());
        assert_eq!(machine.in_force().ratelimit, PageCount(629));
        machine.touch(Touch::Processors(8));
        assert_eq!(machine.in_force().ratelimit, PageCount(78));
    }
}
