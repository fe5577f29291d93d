//! Devices whose rate depends on what is in transit, and the limit that results.

use super::knee::{Knee, Range};
use crate::units::{Bytes, Instant, Nanos};

const GOAL: Nanos = Nanos::from_millis(2);
const WRITE: Bytes = Bytes::from_kib(64);
const KIB: u64 = 1 << 10;
const MIB: u64 = 1 << 20;

/// A device with readers that keep the goal with anything, whose writers always wait unless they rest.
struct Device {
    knee: Knee,
    now: Instant,
    range: Range,
    random: u32,
    /// Parts of a hundred by which a write may take longer or shorter.
    noise: u32,
    /// After each write, in parts of a hundred of what it takes, no writer wants to write.
    rest: u64,
    /// With more than this in transit all reads miss the goal.
    over_from: u64,
}

impl Device {
    fn new(limit: u64) -> Device {
        Device {
            knee: Knee::new(),
            now: Instant(0),
            range: Range {
                limit,
                least: 64 * KIB,
                most: limit,
            },
            random: 1,
            noise: 0,
            rest: 0,
            over_from: u64::MAX,
        }
    }

    /// The device writes `rate(in transit)` bytes a second for `seconds`. Returns the limit at the end.
    fn run(&mut self, seconds: u64, rate: fn(u64) -> u64) -> u64 {
        let end = self.now + Nanos::from_secs(seconds);
        let mut judged = self.now;
        while self.now < end {
            let rate = rate(self.knee.in_transit(self.range));
            self.random = self.random.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            let percent = 100 - self.noise + (self.random >> 8) % (2 * self.noise + 1);
            let took = Nanos(WRITE.0 * 10_000_000 * u64::from(percent) / rate);
            self.knee.asked(self.now, self.rest == 0, true);
            let issued_at = self.now;
            self.knee
                .read_done(self.knee.in_transit(self.range) > self.over_from);
            self.now = self.now + took;
            let found = self.knee.write_done(self.now, WRITE, issued_at, self.range);
            self.range.limit = found.unwrap_or(self.range.limit);
            self.now = self.now + Nanos(took.0 * self.rest / 100);
            if self.now.since(judged) > Nanos::from_millis(100) {
                judged = self.now;
                self.knee.begin_trial(self.now, GOAL, self.range, rate / 1_000);
            }
        }
        self.range.limit
    }
}

/// 150 MB/s from 128 KiB on.
fn full_from_128_kib(in_transit: u64) -> u64 {
    150_000_000 * in_transit.min(128 * KIB) / (128 * KIB)
}

/// Twice as much in transit is a fifth faster.
fn a_fifth_for_each_doubling(in_transit: u64) -> u64 {
    let doublings = (in_transit / (64 * KIB)).max(1).ilog2();
    let whole = 50_000_000 * 6_u64.pow(doublings) / 5_u64.pow(doublings);
    whole + whole / 5 * (in_transit - ((64 * KIB) << doublings)) / ((64 * KIB) << doublings)
}

#[test]
fn no_more_is_in_transit_than_makes_writes_faster() {
    let mut device = Device::new(2 * MIB);
    assert_eq!(device.run(3, full_from_128_kib), 128 * KIB);
    assert_eq!(device.run(60, full_from_128_kib), 128 * KIB);
    assert_eq!(device.knee.bytes(), Some(128 * KIB));
}

#[test]
fn the_same_on_a_device_whose_writes_take_a_third_longer_or_shorter() {
    for random in 1..20 {
        let mut device = Device::new(2 * MIB);
        (device.noise, device.random) = (33, random);
        let seen = device.run(30, full_from_128_kib);
        assert!(
            (128 * KIB..=512 * KIB).contains(&seen),
            "{random}: {} KiB",
            seen / KIB
        );
    }
}

#[test]
fn the_limit_within_the_goal_stays_if_less_is_slower() {
    let mut device = Device::new(2 * MIB);
    assert_eq!(device.run(60, a_fifth_for_each_doubling), 2 * MIB);
    assert_eq!(device.knee.bytes(), None);
}

#[test]
fn more_is_given_where_it_is_faster_and_no_more_reads_miss_the_goal_for_it() {
    for (over_from, expected) in [(8 * MIB, 2 * MIB), (MIB, MIB)] {
        let mut device = Device::new(512 * KIB);
        (device.range.most, device.over_from) = (2 * MIB, over_from);
        let seen = device.run(60, a_fifth_for_each_doubling);
        assert!(
            (expected * 3 / 4..=expected).contains(&seen),
            "{} KiB instead of {}",
            seen / KIB,
            expected / KIB
        );
    }
}

#[test]
fn in_doubt_it_is_what_the_goal_leaves() {
    for random in 1..20 {
        let mut device = Device::new(2 * MIB);
        (device.noise, device.random) = (90, random);
        let seen = device.run(60, a_fifth_for_each_doubling);
        assert!(seen >= 3 * MIB / 2, "{random}: {} KiB", seen / KIB);
    }
}

#[test]
fn a_device_that_needs_more_than_before_has_it() {
    let mut device = Device::new(2 * MIB);
    device.run(3, full_from_128_kib);
    let seen = device.run(20, |in_transit| 100_000_000 * in_transit.min(MIB) / (128 * KIB));
    assert!((MIB..=2 * MIB).contains(&seen), "{} KiB", seen / KIB);
}

#[test]
fn writers_that_rest_say_nothing_about_the_device() {
    let mut device = Device::new(2 * MIB);
    device.rest = 50;
    assert_eq!(device.run(60, full_from_128_kib), 2 * MIB);
    assert_eq!(device.knee.bytes(), None);
}

#[test]
fn a_trial_s_value_ends_with_it() {
    let mut device = Device::new(2 * MIB);
    let in_transit = |device: &Device| device.knee.in_transit(device.range);
    while in_transit(&device) == 2 * MIB {
        device.now = device.now + Nanos::from_millis(1);
        device.knee.begin_trial(device.now, GOAL, device.range, 1);
        device.knee.asked(device.now, true, true);
        device
            .knee
            .write_done(device.now, WRITE, device.now, device.range);
    }
    assert_eq!(in_transit(&device), MIB);
    device.knee.forget_trial();
    assert_eq!(in_transit(&device), 2 * MIB);
}
