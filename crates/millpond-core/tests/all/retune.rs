//! Limits follow from the last settings and from memory now, and from nothing else (Hills 2015).
//!
//! `MILLPOND_SEQUENCES=100000` sets the number of random sequences; 3,000 by default. A failure says which it was.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use millpond_core::admission::AdmissionOptions;
use millpond_core::admission::bytes::BytesOptions;
use millpond_core::dirty::DirtierId;
use millpond_core::dirty::limits::DirtyLimit;
use millpond_core::event::{Effects, Event};
use millpond_core::frame::{BeginWrite, FrameTable};
use millpond_core::manager::{Derived, FRAMES_MIN, Manager};
use millpond_core::memory::watermark::WatermarkRule;
use millpond_core::options::{Options, Preset};
use millpond_core::units::{Bytes, FrameNo, Instant, Nanos, PageCount, PageKey, PageSize, Ratio};

/// Nothing is in memory.
struct Nothing;

impl FrameTable for Nothing {
    fn key(&self, _: FrameNo) -> PageKey {
        PageKey::NONE
    }
    fn lookup(&self, _: PageKey) -> Option<FrameNo> {
        None
    }
    fn test_and_clear_accessed(&mut self, _: FrameNo) -> u8 {
        0
    }
    fn evict(&mut self, _: &mut Vec<FrameNo>) {}
    fn begin_write(&mut self, _: FrameNo) -> BeginWrite {
        BeginWrite::Busy
    }
}

/// SplitMix64.
struct Draw(u64);

impl Draw {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let z = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    fn below(&mut self, n: u64) -> u64 {
        self.next() % n
    }

    fn limit(&mut self) -> DirtyLimit {
        match self.below(3) {
            0 => DirtyLimit::Size(Bytes(1 + self.below(1 << 34))),
            1 => DirtyLimit::Size(Bytes(1 + self.below(1 << 22))),
            _ => DirtyLimit::Share(Ratio::percent(self.below(101) as u32)),
        }
    }

    fn frames(&mut self) -> PageCount {
        PageCount(FRAMES_MIN.0 + self.below(20_000))
    }

    /// One more setting.
    fn touch(&mut self, options: &mut Options) {
        match self.below(10) {
            0..=2 => options.dirty.hard = self.limit(),
            3..=5 => options.dirty.background = self.limit(),
            6 => options.dirty.failed = Ratio::percent(self.below(101) as u32),
            7 => options.reserve = Ratio::percent(self.below(26) as u32),
            8 => {
                options.watermarks = WatermarkRule::Millpond {
                    scale: Ratio::per_mille(self.below(300) as u32),
                }
            }
            _ => *options = Preset::ALL[self.below(Preset::ALL.len() as u64) as usize].options(),
        }
    }
}

fn sequences() -> u64 {
    let number = std::env::var("MILLPOND_SEQUENCES")
        .ok()
        .and_then(|n| n.parse().ok());
    number.unwrap_or(3_000)
}

fn step(manager: &mut Manager, event: Event<'_>) {
    manager.step(Instant(1), event, &mut Nothing, &mut Effects::default());
}

#[test]
fn after_any_sequence_of_settings_the_limits_are_those_of_the_last() {
    for seed in 0..sequences() {
        let mut draw = Draw(seed);
        let mut options = Options::default();
        let mut frames = draw.frames();
        let mut manager = Manager::new(options.clone(), frames).unwrap();
        for _ in 0..1 + draw.below(12) {
            match draw.below(6) {
                0 => {
                    frames = draw.frames();
                    step(&mut manager, Event::MemoryChanged { frames });
                }
                // Whichever caller asks, and whatever else happens.
                1 => step(
                    &mut manager,
                    Event::Resume {
                        dirtier: DirtierId(draw.below(9) as u32),
                    },
                ),
                2 => step(&mut manager, Event::Tick),
                _ => {
                    draw.touch(&mut options);
                    step(&mut manager, Event::Retuned(Box::new(options.clone())));
                }
            }
        }
        let fresh = Manager::new(options.clone(), frames).unwrap();
        assert_eq!(manager.derived(), fresh.derived(), "sequence {seed}: {options:?}");
        assert_eq!(manager.options(), &options, "sequence {seed}");
        let d = manager.derived().dirty;
        assert!(
            1 <= d.background.0 && d.background < d.hard && d.hard.0 >= frames.0.min(64) / 4 && d.burst.0 > 0,
            "sequence {seed}: {d:?} of {frames:?}"
        );
    }
}

#[test]
fn every_option_set_to_b_and_back_to_a_gives_a() {
    let changes: [fn(&mut Options); 12] = [
        |o| o.dirty.hard = DirtyLimit::Share(Ratio::percent(21)),
        |o| o.dirty.hard = DirtyLimit::Size(Bytes(1)),
        |o| o.dirty.background = DirtyLimit::Share(Ratio::percent(30)),
        |o| o.dirty.background = DirtyLimit::Size(Bytes(1 << 20)),
        |o| o.dirty.failed = Ratio::percent(0),
        |o| o.reserve = Ratio::percent(25),
        |o| o.watermarks = Preset::Linux5.options().watermarks,
        |o| o.replacement = Preset::Linux5.options().replacement,
        |o| o.admission = AdmissionOptions::Bytes(BytesOptions::default()),
        |o| o.flusher.write_max = Bytes::from_kib(64),
        |o| o.scan_batch = 1,
        |o| (o.alloc_timeout, o.hung_io_timeout) = (Nanos::from_millis(1), Nanos::from_millis(1)),
    ];
    for (n, change) in changes.iter().enumerate() {
        for preset in Preset::ALL {
            let a = preset.options();
            let mut b = a.clone();
            change(&mut b);
            let mut manager = Manager::new(a.clone(), PageCount(10_000)).unwrap();
            let before = *manager.derived();
            step(&mut manager, Event::Retuned(Box::new(b.clone())));
            assert_eq!(
                manager.derived(),
                &Derived::of(&b, PageCount(10_000)),
                "change {n}"
            );
            step(
                &mut manager,
                Event::MemoryChanged {
                    frames: PageCount(999),
                },
            );
            step(
                &mut manager,
                Event::MemoryChanged {
                    frames: PageCount(10_000),
                },
            );
            step(&mut manager, Event::Retuned(Box::new(a.clone())));
            assert_eq!(
                (manager.derived(), manager.options()),
                (&before, &a),
                "change {n} of {preset:?}"
            );
        }
    }
}

#[test]
fn limits_grow_with_memory_and_with_the_setting() {
    for seed in 0..sequences() {
        let mut draw = Draw(seed);
        let mut options = Options::default();
        for _ in 0..draw.below(6) {
            draw.touch(&mut options);
        }
        let frames = draw.frames();
        let of = |options: &Options, frames| Derived::of(options, frames).dirty;
        let (less, more) = (
            of(&options, frames),
            of(&options, frames + PageCount(1 + draw.below(5_000))),
        );
        assert!(
            less.hard <= more.hard && less.background <= more.background && less.ceiling <= more.ceiling,
            "sequence {seed}: {less:?} {more:?}"
        );
        let grown = |limit: DirtyLimit, draw: &mut Draw| match limit {
            DirtyLimit::Share(share) => {
                DirtyLimit::Share(Ratio::percent((share.num + draw.below(30) as u32).min(100)))
            }
            DirtyLimit::Size(bytes) => DirtyLimit::Size(Bytes(bytes.0 + draw.below(1 << 24))),
        };
        let mut larger = options.clone();
        larger.dirty.hard = grown(options.dirty.hard, &mut draw);
        let more = of(&larger, frames);
        assert!(
            less.hard <= more.hard && less.background <= more.background,
            "sequence {seed}: {less:?} {more:?}"
        );
        let mut larger = options.clone();
        larger.dirty.background = grown(options.dirty.background, &mut draw);
        let more = of(&larger, frames);
        assert!(
            less.background <= more.background && less.hard == more.hard,
            "sequence {seed}: {less:?} {more:?}"
        );
    }
}

#[test]
fn a_page_is_no_larger_part_of_the_limits_for_being_larger() {
    let hard = |page_size| {
        let options = Options {
            page_size,
            ..Options::default()
        };
        let frames = Bytes::from_mib(1024).to_pages(page_size);
        Derived::of(&options, frames).dirty.hard.to_bytes(page_size).0
    };
    let (small, large) = (hard(PageSize::KIB_4), hard(PageSize::KIB_64));
    assert!(small.abs_diff(large) < small / 50, "{small} {large}");
}
