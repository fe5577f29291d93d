//! The ladder of Gorman 2011: Linux before the series, the series patch by patch, what became of it, and Millpond.
//!
//! ```text
//!   linux-3.0 ─► nodirectwb ─► lesskswapdwb ─► throttle ─► immediate ─► prioinode        the post's six columns
//!                                                 │             └ as posted: …-leak-v1    (see `Tag::LeakV1`)
//!                                                 └► v2 ─► linux-3.2 ─► linux-4.11 ─► linux-7.0      millpond
//! ```
//!
//! A rung says what reclaim does with dirty pages, and which throttling of dirtiers, watermarks and lists the system
//! around it had. From memory of the releases, confirmed in 4.19 and 7.0 only: the steps of 3.11 and 4.6.

use super::launder::{KswapdWrites, LINUX_3_0, LinuxRules, Tag, Throttle};
use millpond_core::memory::watermark::WatermarkRule;
use millpond_core::units::Ratio;

/// A system of the past, a patch of the series upon the one before it, or Millpond.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Rung {
    /// 3.0-rc6 as it was: the post's "vanilla".
    Linux3_0,
    /// Patch 1: who allocates writes no file pages.
    NoDirectWb,
    /// Patches 1 and 2: kswapd only in trouble.
    LessKswapdWb,
    /// Patches 1 to 3: reclaim waits among dirty pages.
    Throttle,
    /// Patches 1 to 4 as meant: dirty pages are tagged.
    Immediate,
    /// Patches 1 to 5 as meant: and their files are written first.
    PrioInode,
    /// Patches 1 to 4 as posted: dirty pages leave the lists.
    ImmediateLeakV1,
    /// Patches 1 to 5 as posted.
    PrioInodeLeakV1,
    /// The second version of the series, all of it: kswapd writes no file pages at all.
    Version2,
    /// What landed in 3.2.
    Linux3_2,
    /// 4.11: a dirty page is written when it is met the second time while the node is full of such.
    Linux4_11,
    /// 7.0: reclaim writes no file pages.
    Linux7_0,
    /// Millpond's default.
    Millpond,
}

/// How whoever dirties pages is held back.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum DirtierRule {
    /// It writes 1.5 times what it dirtied itself, and sleeps in between: Linux to 3.1.
    WritesItself,
    /// It sleeps for as long as the device takes for what it dirtied: Linux 3.2 and later.
    Pauses,
}

impl Rung {
    /// All, from the oldest.
    pub const ALL: [Rung; 13] = [
        Rung::Linux3_0,
        Rung::NoDirectWb,
        Rung::LessKswapdWb,
        Rung::Throttle,
        Rung::Immediate,
        Rung::PrioInode,
        Rung::ImmediateLeakV1,
        Rung::PrioInodeLeakV1,
        Rung::Version2,
        Rung::Linux3_2,
        Rung::Linux4_11,
        Rung::Linux7_0,
        Rung::Millpond,
    ];

    /// The name that users write.
    pub const fn name(self) -> &'static str {
        match self {
            Rung::Linux3_0 => "vanilla",
            Rung::NoDirectWb => "nodirectwb",
            Rung::LessKswapdWb => "lesskswapdwb",
            Rung::Throttle => "throttle",
            Rung::Immediate => "immediate",
            Rung::PrioInode => "prioinode",
            Rung::ImmediateLeakV1 => "immediate-leak-v1",
            Rung::PrioInodeLeakV1 => "prioinode-leak-v1",
            Rung::Version2 => "v2",
            Rung::Linux3_2 => "linux-3.2",
            Rung::Linux4_11 => "linux-4.11",
            Rung::Linux7_0 => "linux-7.0",
            Rung::Millpond => "millpond",
        }
    }

    /// The rung of that name.
    pub fn from_name(name: &str) -> Option<Rung> {
        Rung::ALL.into_iter().find(|rung| rung.name() == name)
    }

    /// What it does with dirty pages at the cold end; none for Millpond, which has
    /// [`launder::at_cold_end`](millpond_core::reclaim::launder::at_cold_end) instead.
    pub const fn rules(self) -> Option<LinuxRules> {
        let patch_1 = LinuxRules {
            direct_writes_files: false,
            ..LINUX_3_0
        };
        let patch_2 = LinuxRules {
            kswapd_writes_files: KswapdWrites::InTrouble,
            ..patch_1
        };
        let patch_3 = LinuxRules {
            throttle: Throttle::Dirty,
            ..patch_2
        };
        let patch_4 = LinuxRules {
            tag: Tag::OnClean,
            ..patch_3
        };
        let node_flags = LinuxRules {
            throttle: Throttle::NodeFlags,
            unclean_activated: true,
            ..patch_4
        };
        Some(match self {
            Rung::Linux3_0 => LINUX_3_0,
            Rung::NoDirectWb => patch_1,
            Rung::LessKswapdWb => patch_2,
            Rung::Throttle => patch_3,
            Rung::Immediate => patch_4,
            Rung::PrioInode => LinuxRules {
                flag_files: true,
                ..patch_4
            },
            Rung::ImmediateLeakV1 => LinuxRules {
                tag: Tag::LeakV1,
                ..patch_4
            },
            Rung::PrioInodeLeakV1 => LinuxRules {
                tag: Tag::LeakV1,
                flag_files: true,
                ..patch_4
            },
            Rung::Version2 => LinuxRules {
                kswapd_writes_files: KswapdWrites::Never,
                ..patch_4
            },
            Rung::Linux3_2 => LinuxRules {
                throttle: Throttle::Writeback,
                ..patch_4
            },
            Rung::Linux4_11 => LinuxRules {
                kswapd_writes_files: KswapdWrites::MetAgain,
                ..node_flags
            },
            Rung::Linux7_0 => LinuxRules {
                kswapd_writes_files: KswapdWrites::Never,
                ..node_flags
            },
            Rung::Millpond => return None,
        })
    }

    /// How it holds dirtiers back. The second version of the series was still made for 3.0.
    pub const fn dirtiers(self) -> DirtierRule {
        match self {
            Rung::Linux3_2 | Rung::Linux4_11 | Rung::Linux7_0 | Rung::Millpond => DirtierRule::Pauses,
            _ => DirtierRule::WritesItself,
        }
    }

    /// Its watermarks.
    pub const fn watermarks(self) -> WatermarkRule {
        let scale = Ratio { num: 10, den: 10_000 };
        match self {
            Rung::Linux4_11 | Rung::Linux7_0 => WatermarkRule::Linux46 { scale },
            Rung::Millpond => WatermarkRule::Millpond {
                scale: Ratio::per_mille(8),
            },
            _ => WatermarkRule::Linux3,
        }
    }

    /// Whether each zone of memory has lists of its own; since 4.8 a node has one set for all of its zones.
    pub const fn lists_by_zone(self) -> bool {
        !matches!(self, Rung::Linux4_11 | Rung::Linux7_0 | Rung::Millpond)
    }

    /// Whether a referenced anonymous page is activated at its first meeting: to 5.8. Later it needs a second use, as a
    /// mapped file page does, and starts inactive.
    pub const fn any_use_rescues_anonymous(self) -> bool {
        !matches!(self, Rung::Linux7_0 | Rung::Millpond)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_patch_changes_one_thing_of_the_rung_before_it() {
        let rules = |rung: Rung| rung.rules().unwrap();
        let fields = |a: LinuxRules, b: LinuxRules| {
            u32::from(a.direct_writes_files != b.direct_writes_files)
                + u32::from(a.kswapd_writes_files != b.kswapd_writes_files)
                + u32::from(a.throttle != b.throttle)
                + u32::from(a.tag != b.tag)
                + u32::from(a.flag_files != b.flag_files)
                + u32::from(a.unclean_activated != b.unclean_activated)
        };
        for pair in Rung::ALL[..6].windows(2) {
            assert_eq!(fields(rules(pair[0]), rules(pair[1])), 1, "{pair:?}");
        }
        assert_eq!(fields(rules(Rung::Immediate), rules(Rung::ImmediateLeakV1)), 1);
        assert_eq!(fields(rules(Rung::Immediate), rules(Rung::Linux3_2)), 1);
        assert_eq!(fields(rules(Rung::Linux4_11), rules(Rung::Linux7_0)), 1);
    }

    #[test]
    fn rungs_are_found_by_name() {
        for rung in Rung::ALL {
            assert_eq!(Rung::from_name(rung.name()), Some(rung));
        }
        assert_eq!(Rung::from_name("linux-2.4"), None);
    }
}
