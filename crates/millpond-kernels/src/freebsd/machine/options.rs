//! The machine of Dillon 2000 and its figures.
//!
//! What the post says is taken as it is: 512 MB, 500 to 600 readers, 8 MB/s of new memory from the spool, disks that are 70
//! to 90 % busy with that. What it does not say is chosen, and says so.

use crate::freebsd::laundry::Unit;
use crate::freebsd::{FreeBsdRules, System};
use millpond_core::units::{Bytes, Nanos, PageCount};
use millpond_sim::disk::{HddOrder, HddParameters};

/// The readers' behaviour.
///
/// The post has their number, and 8 MB/s. That is 14.5 KB/s for each, which is what a line of the time carries (two channels
/// of ISDN); so a reader's next article comes when the last has been sent, and that takes about as long each time.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct News {
    /// Processes. The post: 500 to 600.
    pub readers: u32,
    /// Pages of an article, 96 KiB, which are read at once. Chosen: with this disk that alone makes it 55 % busy, and 70 to
    /// 90 % with what normal operation has besides.
    pub article_pages: u32,
    /// How long an article is on the line, on the average; evenly between half and one and a half of it. 550 readers then
    /// take 8 MB/s.
    pub think: Nanos,
    /// The spool; 4 GiB, chosen. Articles are anywhere in it.
    pub spool: Bytes,
    /// Pages of a reader's own data, 760 KiB. Chosen, so that memory is a little smaller than what is used: the post's machine
    /// runs "very close to the page thrashing limit".
    pub own_pages: u32,
    /// Of these: used, and changed, for each article. Chosen.
    pub own_hot: u32,
    /// Others used for each article, the lower ones more often; half of them are changed. Chosen.
    pub own_draws: u32,
    /// Pages of the history file that are in use, mapped, and written back by the daemon only (`MAP_NOSYNC`). Chosen.
    pub history_pages: u32,
    /// Pages of it changed for each article, the lower ones more often. Chosen.
    pub history_draws: u32,
}

/// A machine of Dillon 2000.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct MachineOptions {
    /// The rule for dirty pages, and the owner of the reserve.
    pub rules: FreeBsdRules,
    /// Whether the laundry thread of 2019 counts as intended.
    pub laundry_unit: Unit,
    /// All memory.
    pub memory: Bytes,
    /// Pages that the kernel keeps: itself, page tables of 550 processes, network and disk buffers. 60 MiB, chosen.
    pub kernel: PageCount,
    /// The disk, for swap, history and spool. The laboratory's, but served as FreeBSD 4 sorts: upwards, then from the lowest
    /// again (`bufqdisksort`), reads and writes alike.
    pub disk: HddParameters,
    /// The swap area, at the disk's beginning. Chosen.
    pub swap: Bytes,
    /// Clusters on their way to swap at a time: `vm.swap_async_max`, 4. The daemon waits when they are out.
    pub swap_writes_max: u32,
    /// Pages read from swap at a time, at most.
    pub swap_read_pages: u32,
    /// Frames that a write needs until it has ended: none here, for it goes out from where it is.
    pub frames_per_write: u32,
    /// The load.
    pub news: News,
    /// A page that the daemon looks at. The post's author: about 1 us.
    pub scan_page: Nanos,
    /// The seed of everything random.
    pub seed: u64,
}

impl MachineOptions {
    /// The post's machine under `system`.
    pub fn new(system: System) -> MachineOptions {
        MachineOptions {
            rules: system.rules(),
            laundry_unit: Unit::Bytes,
            memory: Bytes::from_mib(512),
            kernel: PageCount(15_360),
            disk: HddParameters {
                order: HddOrder::Circular,
                queue_depth: 1024,
                age_max: Nanos::from_secs(3600),
                ..HddParameters::default()
            },
            swap: Bytes::from_mib(1024),
            swap_writes_max: 4,
            swap_read_pages: 8,
            frames_per_write: 0,
            news: News {
                readers: 550,
                article_pages: 24,
                think: Nanos::from_millis(6750),
                spool: Bytes::from_mib(4096),
                own_pages: 190,
                own_hot: 165,
                own_draws: 12,
                history_pages: 4096,
                history_draws: 8,
            },
            scan_page: Nanos(1_000),
            seed: 1,
        }
    }
}
