//! The systems of Gorman 2011: what Linux did before the series, the series patch by patch, what became of it, and Millpond.
//!
//! ```text
//!   linux-3.0 ─► nodirectwb ─► lesskswapdwb ─► throttle ─► immediate ─► prioinode        the post's six columns
//!                                                 │             └ as posted: …-leak-v1    (see `Tag::LeakV1`)
//!                                                 └► v2 ─► linux-3.2 ─► linux-4.11 ─► linux-7.0      millpond
//! ```
//!
//! A [`System`] says what reclaim does with dirty pages, and which throttling of dirtiers, watermarks and lists the system
//! around it had. From memory of the releases, confirmed in 4.19 and 7.0 only: the steps of 3.11 and 4.6.

use super::launder::{KswapdWrites, LINUX_3_0, LinuxRules, Tag, Throttle};
use millpond_core::memory::watermark::WatermarkRule;
use millpond_core::units::Ratio;

/// A system of the past, a patch of the series upon the one before it, or Millpond.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum System {
    /// 3.0-rc6 as it was: the post's "vanilla".
    Linux3_0,
    /// Patch 1: an allocating task writes no file pages.
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
    /// The patches merged in 3.2.
    Linux3_2,
    /// 4.11: a dirty page is written when it is met the second time while the node is full of such.
    Linux4_11,
    /// 7.0: reclaim writes no file pages.
    Linux7_0,
    /// Millpond's default.
    Millpond,
}

/// How a task that dirties pages is held back.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum DirtierRule {
    /// It writes 1.5 times what it dirtied itself, and sleeps in between: Linux to 3.1.
    WritesItself,
    /// It sleeps for as long as the device takes for what it dirtied: Linux 3.2 and later.
    Pauses,
}

impl System {
    /// All, from the oldest.
    pub const ALL: [System; 13] = [
        System::Linux3_0,
        System::NoDirectWb,
        System::LessKswapdWb,
        System::Throttle,
        System::Immediate,
        System::PrioInode,
        System::ImmediateLeakV1,
        System::PrioInodeLeakV1,
        System::Version2,
        System::Linux3_2,
        System::Linux4_11,
        System::Linux7_0,
        System::Millpond,
    ];

    /// The name that users write.
    pub const fn name(self) -> &'static str {
        match self {
            System::Linux3_0 => "vanilla",
            System::NoDirectWb => "nodirectwb",
            System::LessKswapdWb => "lesskswapdwb",
            System::Throttle => "throttle",
            System::Immediate => "immediate",
            System::PrioInode => "prioinode",
            System::ImmediateLeakV1 => "immediate-leak-v1",
            System::PrioInodeLeakV1 => "prioinode-leak-v1",
            System::Version2 => "v2",
            System::Linux3_2 => "linux-3.2",
            System::Linux4_11 => "linux-4.11",
            System::Linux7_0 => "linux-7.0",
            System::Millpond => "millpond",
        }
    }

    /// The system of that name.
    pub fn from_name(name: &str) -> Option<System> {
        System::ALL.into_iter().find(|system| system.name() == name)
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
            System::Linux3_0 => LINUX_3_0,
            System::NoDirectWb => patch_1,
            System::LessKswapdWb => patch_2,
            System::Throttle => patch_3,
            System::Immediate => patch_4,
            System::PrioInode => LinuxRules {
                flag_files: true,
                ..patch_4
            },
            System::ImmediateLeakV1 => LinuxRules {
                tag: Tag::LeakV1,
                ..patch_4
            },
            System::PrioInodeLeakV1 => LinuxRules {
                tag: Tag::LeakV1,
                flag_files: true,
                ..patch_4
            },
            System::Version2 => LinuxRules {
                kswapd_writes_files: KswapdWrites::Never,
                ..patch_4
            },
            System::Linux3_2 => LinuxRules {
                throttle: Throttle::Writeback,
                ..patch_4
            },
            System::Linux4_11 => LinuxRules {
                kswapd_writes_files: KswapdWrites::MetAgain,
                ..node_flags
            },
            System::Linux7_0 => LinuxRules {
                kswapd_writes_files: KswapdWrites::Never,
                ..node_flags
            },
            System::Millpond => return None,
        })
    }

    /// How it holds dirtiers back. The second version of the series was still made for 3.0.
    pub const fn dirtiers(self) -> DirtierRule {
        match self {
            System::Linux3_2 | System::Linux4_11 | System::Linux7_0 | System::Millpond => DirtierRule::Pauses,
            _ => DirtierRule::WritesItself,
        }
    }

    /// Its watermarks.
    pub const fn watermarks(self) -> WatermarkRule {
        let scale = Ratio { num: 10, den: 10_000 };
        match self {
            System::Linux4_11 | System::Linux7_0 => WatermarkRule::Linux46 { scale },
            System::Millpond => WatermarkRule::Millpond {
                scale: Ratio::per_mille(8),
            },
            _ => WatermarkRule::Linux3,
        }
    }

    /// Whether each zone of memory has lists of its own; since 4.8 a node has one set for all of its zones.
    pub const fn lists_by_zone(self) -> bool {
        !matches!(self, System::Linux4_11 | System::Linux7_0 | System::Millpond)
    }

    /// Whether a referenced anonymous page is activated at its first meeting: to 5.8. Later it needs a second use, as a
    /// mapped file page does, and starts inactive.
    pub const fn any_use_rescues_anonymous(self) -> bool {
        !matches!(self, System::Linux7_0 | System::Millpond)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_patch_changes_one_thing_of_the_system_before_it() {
        let rules = |system: System| system.rules().unwrap();
        let fields = |a: LinuxRules, b: LinuxRules| {
            u32::from(a.direct_writes_files != b.direct_writes_files)
                + u32::from(a.kswapd_writes_files != b.kswapd_writes_files)
                + u32::from(a.throttle != b.throttle)
                + u32::from(a.tag != b.tag)
                + u32::from(a.flag_files != b.flag_files)
                + u32::from(a.unclean_activated != b.unclean_activated)
        };
        for pair in System::ALL[..6].windows(2) {
            assert_eq!(fields(rules(pair[0]), rules(pair[1])), 1, "{pair:?}");
        }
        assert_eq!(
            fields(rules(System::Immediate), rules(System::ImmediateLeakV1)),
            1
        );
        assert_eq!(fields(rules(System::Immediate), rules(System::Linux3_2)), 1);
        assert_eq!(fields(rules(System::Linux4_11), rules(System::Linux7_0)), 1);
    }

    #[test]
    fn systems_are_found_by_name() {
        for system in System::ALL {
            assert_eq!(System::from_name(system.name()), Some(system));
        }
        assert_eq!(System::from_name("linux-2.4"), None);
    }
}
