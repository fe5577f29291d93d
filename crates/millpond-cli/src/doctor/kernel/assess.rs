//! The limits that a machine's settings give, and which of its figures are known to cause trouble.

use super::super::Check;
use super::read::{Device, Machine};
use millpond::internal::quantity::size;
use millpond_core::units::{Bytes, PageCount, PageSize};
use millpond_kernels::linux::dirty::limits::{
    Caller, KernelLimit, KernelThresholds, RATELIMIT_MIN, ratelimit, thresholds,
};
use millpond_kernels::linux::dirty::zone::{DirtyableRule, ZoneKind, dirtyable, reserve_of_all};

/// Below this a rotating disk loses much of its rate: of 116 MB/s a kernel of 2026 kept 45 % with 1 MB and 71 % with 4 MB,
/// and all with 16 MB.
pub(super) const HARD_LEAST: Bytes = Bytes(16_000_000);
/// The target of writeback throttling on rotating and on other disks (Linux: `wbt_default_latency_nsec`).
const WBT_ROTATING_US: u64 = 75_000;

fn pages(count: PageCount) -> String {
    format!("{} pages ({})", count.0, size(count.to_bytes(PageSize::KIB_4)))
}

fn limit(limit: KernelLimit) -> String {
    match limit {
        KernelLimit::Percent(percent) => format!("{percent} %"),
        KernelLimit::Bytes(bytes) => format!("{} bytes", bytes.0),
    }
}

/// The hard limit, and the memory that it is a part of.
pub(super) fn hard_limit(machine: &Machine) -> (Bytes, Bytes) {
    let all = dirtyable(DirtyableRule::Bug404, &machine.zones, machine.highmem_counts);
    let hard = thresholds(machine.version, machine.limits, all, Caller::default()).hard;
    (hard.to_bytes(PageSize::KIB_4), all.to_bytes(PageSize::KIB_4))
}

/// All checks, a line each.
pub(super) fn checks(machine: &Machine) -> Vec<Check> {
    let all = dirtyable(DirtyableRule::Bug404, &machine.zones, machine.highmem_counts);
    let t = thresholds(machine.version, machine.limits, all, Caller::default());
    let mut checks = vec![
        of_memory(machine, all),
        hard(machine, t),
        background(machine, t),
        ratelimit_of(machine, t),
    ];
    checks.extend(beside_the_kernels_own(machine, t));
    checks.extend(now(machine, t));
    checks.extend(machine.devices.iter().flat_map(|device| of_device(device, t)));
    checks
}

/// A dirty limit in bytes that suits any of these machines, so it depends on nothing else.
fn mend_in_bytes(machine: &Machine) -> String {
    let managed: u64 = machine.zones.iter().map(|zone| zone.managed.0).sum();
    let bytes = PageCount(managed / 20)
        .to_bytes(PageSize::KIB_4)
        .0
        .clamp(64 << 20, 1 << 30)
        >> 20
        << 20;
    format!(
        "sysctl -w vm.dirty_bytes={bytes} vm.dirty_background_bytes={}",
        bytes / 2
    )
}

fn of_memory(machine: &Machine, all: PageCount) -> Check {
    const NAME: &str = "dirtyable";
    let sum = |of: fn(&millpond_kernels::linux::dirty::zone::Zone) -> PageCount| {
        machine.zones.iter().map(|zone| of(zone).0).sum::<u64>()
    };
    let high: u64 = machine
        .zones
        .iter()
        .filter(|zone| zone.kind == ZoneKind::HighMem)
        .map(|zone| zone.dirtyable().0)
        .sum();
    let mut found = format!(
        "{}: free {} - reserves of all zones {} + file pages {}",
        pages(all),
        sum(|zone| zone.free),
        reserve_of_all(&machine.zones).0,
        sum(|zone| zone.file())
    );
    if high > 0 && !machine.highmem_counts {
        found += &format!(" - high memory {high}, never below 0, + 1");
    }
    let managed = sum(|zone| zone.managed);
    if all.0 * 100 >= managed {
        return Check::ok(NAME, found);
    }
    let (effect, mend) = match high > 0 && !machine.highmem_counts {
        true => (
            "high memory is more than the reserves of the other zones leave of all memory, so no memory counts as dirtyable, and any limit in percent is zero (the 5 MB/s of Hills 2015); a limit computed earlier may hold until a setting is touched",
            format!(
                "{} (limits in bytes do not depend on it); or `sysctl -w vm.highmem_is_dirtyable=1`, and then set vm.dirty_ratio to another value and back: the flag alone recomputes nothing",
                mend_in_bytes(machine)
            ),
        ),
        false => (
            "less than 1 % of memory: limits in percent are next to nothing",
            format!("{}; or lower vm.min_free_kbytes", mend_in_bytes(machine)),
        ),
    };
    Check::without(NAME, found, effect, mend)
}

fn hard(machine: &Machine, t: KernelThresholds) -> Check {
    const NAME: &str = "hard limit";
    let set = match machine.is_default {
        true => format!("{}, by default", limit(machine.limits.hard)),
        false => limit(machine.limits.hard),
    };
    let found = format!("{} of {set}: dirtiers wait above", pages(t.hard));
    if t.hard == PageCount(0) {
        return Check::without(
            NAME,
            found,
            "each page that is dirtied costs a tick: 4 MB/s at 1000 Hz, 1 MB/s at 250, on any disk",
            mend_in_bytes(machine),
        );
    }
    if t.hard.to_bytes(PageSize::KIB_4) < HARD_LEAST {
        return Check::without(
            NAME,
            found,
            "less than 16 MB: a writer on a rotating disk keeps 45 % of its rate with 1 MB and 71 % with 4 MB",
            mend_in_bytes(machine),
        );
    }
    Check::ok(NAME, found)
}

fn background(machine: &Machine, t: KernelThresholds) -> Check {
    const NAME: &str = "background";
    let set = limit(machine.limits.background);
    let found = format!(
        "{} of {set}: writing begins above, and no dirtier waits below {}",
        pages(t.background),
        pages(t.free_run())
    );
    // A limit at half of the hard one is halved only if it was not below it.
    let asked = thresholds(
        machine.version,
        millpond_kernels::linux::dirty::limits::KernelLimits {
            background: machine.limits.hard,
            hard: machine.limits.background,
        },
        dirtyable(DirtyableRule::Bug404, &machine.zones, machine.highmem_counts),
        Caller::default(),
    );
    if t.hard > PageCount(0) && asked.hard >= t.hard {
        return Check::without(
            NAME,
            found,
            "not below the hard limit, so half of the hard limit applies, whatever is set",
            match machine.limits.hard {
                KernelLimit::Percent(percent) => {
                    format!("sysctl -w vm.dirty_background_ratio={}", (percent / 2).max(1))
                }
                KernelLimit::Bytes(bytes) => format!("sysctl -w vm.dirty_background_bytes={}", bytes.0 / 2),
            },
        );
    }
    Check::ok(NAME, found)
}

fn ratelimit_of(machine: &Machine, t: KernelThresholds) -> Check {
    const NAME: &str = "ratelimit";
    let pages = ratelimit(t.hard, machine.processors);
    let found = format!(
        "{} pages: the hard limit over 32 times {} processors, {RATELIMIT_MIN} at least; as it would be computed now",
        pages.0, machine.processors
    );
    match pages.0 > RATELIMIT_MIN {
        true => Check::ok(NAME, found),
        false => Check::without(
            NAME,
            found,
            "at its floor: the hard limit is less than 512 pages for each processor",
            mend_in_bytes(machine),
        ),
    }
}

/// Whether the kernel reports the same limits.
fn beside_the_kernels_own(machine: &Machine, t: KernelThresholds) -> Option<Check> {
    const NAME: &str = "as the kernel";
    let (background, hard) = machine.own?;
    let found = format!("it says {} and {} itself", background.0, hard.0);
    // Memory has changed between the two readings.
    let near = |own: PageCount, here: PageCount| own.0.abs_diff(here.0) <= own.0 / 20 + 256;
    Some(match near(hard, t.hard) && near(background, t.background) {
        true => Check::ok(NAME, found),
        false => Check::without(
            NAME,
            found,
            "its settings give other values by the rules known here: it has another rule, or the caller has flags",
            "look at nr_dirty_threshold in /proc/vmstat, and set the limit once more as an ordinary user of the system would",
        ),
    })
}

fn now(machine: &Machine, t: KernelThresholds) -> Option<Check> {
    const NAME: &str = "dirty now";
    let unclean = machine.unclean?;
    let found = format!("{} dirty or being written", pages(unclean));
    Some(match unclean <= t.free_run() || t.hard == PageCount(0) {
        true => Check::ok(NAME, found),
        false => Check::without(
            NAME,
            found,
            "above the middle of both limits: dirtiers are being slowed down at this moment",
            "wait for the disk, or see which program writes (`pidstat -d 1`)",
        ),
    })
}

fn of_device(device: &Device, t: KernelThresholds) -> Vec<Check> {
    const NAME: &str = "device";
    let own = PageCount(t.hard.0 * u64::from(device.max_ratio) / 100);
    let kind = match device.rotates {
        Some(true) => ", rotates",
        Some(false) => ", does not rotate",
        None => "",
    };
    let wbt = match device.wbt_us {
        Some(0) => ", writeback is not throttled".into(),
        Some(us) => format!(", writeback throttled for reads of {us} us"),
        None => String::new(),
    };
    let found = format!(
        "{}: {} of the hard limit at most{kind}{wbt}",
        device.name,
        pages(own)
    );
    let mut checks = Vec::new();
    if device.is_strict || device.max_ratio < 100 {
        let (effect, mend) = match device.is_strict {
            true => (
                "strict: its share is a limit of its own, even while the other devices have nothing dirty",
                format!("echo 0 > /sys/class/bdi/{}/strict_limit", device.bdi),
            ),
            false => (
                "it gets only a part of the limits",
                format!("echo 100 > /sys/class/bdi/{}/max_ratio", device.bdi),
            ),
        };
        checks.push(Check::without(NAME, found.clone(), effect, mend));
    }
    if device.rotates == Some(false) && device.wbt_us == Some(WBT_ROTATING_US) {
        checks.push(Check::without(
            NAME,
            found.clone(),
            "writeback is throttled as for a disk that rotates (75 ms): reads may wait that long before it gives way",
            format!("echo 2000 > /sys/block/{}/queue/wbt_lat_usec", device.name),
        ));
    }
    if checks.is_empty() {
        checks.push(Check::ok(NAME, found));
    }
    checks
}

#[cfg(test)]
mod tests {
    use super::*;
    use millpond_kernels::linux::dirty::limits::{KernelLimits, KernelVersion};
    use millpond_kernels::linux::dirty::zone::POST_ZONES;

    fn post() -> Machine {
        Machine {
            zones: POST_ZONES.to_vec(),
            limits: KernelLimits::default(),
            highmem_counts: false,
            version: KernelVersion::Linux4,
            processors: 8,
            unclean: None,
            own: None,
            devices: Vec::new(),
            is_default: true,
        }
    }

    /// The names of the failed checks.
    fn wrong(machine: &Machine) -> Vec<&'static str> {
        let wrong = checks(machine).into_iter().filter(|check| !check.ok);
        wrong
            .inspect(|check| assert!(check.mend.is_some() && check.effect.is_some()))
            .map(|check| check.name)
            .collect()
    }

    #[test]
    fn the_posts_machine_has_no_limits_unless_high_memory_counts_or_they_are_in_bytes() {
        assert_eq!(wrong(&post()), ["dirtyable", "hard limit", "ratelimit"]);
        let counts = Machine {
            highmem_counts: true,
            ..post()
        };
        assert_eq!(wrong(&counts), [""; 0]);
        let mut bytes = post();
        bytes.limits.hard = KernelLimit::Bytes(Bytes(1_048_576_000));
        bytes.limits.background = KernelLimit::Bytes(Bytes(500_000_000));
        assert_eq!(wrong(&bytes), ["dirtyable"]);
    }

    #[test]
    fn limits_that_are_too_low_or_the_wrong_way_round_are_found() {
        let with = |hard, background| {
            let mut machine = Machine {
                highmem_counts: true,
                ..post()
            };
            machine.limits = KernelLimits { background, hard };
            wrong(&machine)
        };
        let (bytes, percent) = (|n| KernelLimit::Bytes(Bytes(n)), KernelLimit::Percent);
        assert_eq!(
            with(bytes(1_000_000), bytes(500_000)),
            ["hard limit", "ratelimit"]
        );
        assert_eq!(with(percent(10), percent(10)), ["background"]);
        assert_eq!(with(percent(10), percent(5)), [""; 0]);
        assert_eq!(with(percent(10), bytes(1 << 40)), ["background"]);
    }

    #[test]
    fn devices_with_limits_of_their_own_or_the_throttling_of_another_kind_are_found() {
        let disk = Device {
            name: "sda".into(),
            bdi: "8:0".into(),
            max_ratio: 100,
            is_strict: false,
            rotates: Some(false),
            wbt_us: Some(2000),
        };
        let t = KernelThresholds {
            background: PageCount(100_000),
            hard: PageCount(200_000),
        };
        assert!(of_device(&disk, t).iter().all(|check| check.ok));
        let wrong = Device {
            is_strict: true,
            wbt_us: Some(75_000),
            ..disk
        };
        let mends: Vec<_> = of_device(&wrong, t)
            .into_iter()
            .filter_map(|check| check.mend)
            .collect();
        assert_eq!(
            mends,
            [
                "echo 0 > /sys/class/bdi/8:0/strict_limit",
                "echo 2000 > /sys/block/sda/queue/wbt_lat_usec"
            ]
        );
    }
}
