//! Random operations on [`Lru`] and on a model that keeps everything in plain vectors; lists, answers and counters
//! must be the same after each.
//!
//! The model knows the rules, not the structures: it moves numbers between vectors whose front is the cold end, and
//! remembers every evicted page forever. Only whether a shadow was pushed out of the table it has to be told.

mod model;

use super::tests::{TestFrames, key};
use super::*;
use model::Model;

struct Random(u64);

impl Random {
    fn below(&mut self, n: u32) -> u32 {
        self.0 = self
            .0
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        (((self.0 >> 32) * u64::from(n)) >> 32) as u32
    }

    fn one_in(&mut self, n: u32) -> bool {
        self.below(n) == 0
    }

    fn replacement(&mut self) -> Replacement {
        if self.one_in(2) {
            return Replacement::Linux(LinuxOptions {
                promotion: [Promotion::Lazy, Promotion::Immediate][self.below(2) as usize],
                inactive_ratio: [InactiveRatio::Equal, LinuxOptions::default().inactive_ratio]
                    [self.below(2) as usize],
                detection: [Detection::Off, Detection::Linux4_19, Detection::Linux5_9]
                    [self.below(3) as usize],
                refaults_deactivate: self.one_in(2),
            });
        }
        Replacement::Millpond(MillpondOptions {
            window: crate::units::Ratio::percent(self.below(11)),
            inactive_start_per_mille: self.below(1001),
            ghost_window: crate::units::Ratio::percent(self.below(101)),
            usage_count_max: 1 + self.below(3) as u8,
            region_usage_count_max: 1 + self.below(15) as u8,
            accessed_bit_weight: 1 + self.below(15) as u8,
            skip_scan_threshold: 1 + self.below(16) as u8,
            probe_pages: 1 + self.below(8),
            scan_balance_max_per_mille: self.below(951),
        })
    }
}

const PAGES: u32 = 96;

/// Both, and what they must agree on.
struct Pair {
    seed: u64,
    lru: Lru,
    frames: TestFrames,
    model: Model,
}

impl Pair {
    fn new(seed: u64, replacement: Replacement, memory: u64) -> Pair {
        let mut model = Model::new(replacement, memory);
        let mut lru = Lru::new(replacement, PageCount(PAGES.into()));
        lru.resize(PageCount(memory));
        model.target = model.target_of(PAGES.into()) * memory / u64::from(PAGES);
        Pair {
            seed,
            lru,
            frames: TestFrames {
                uses: alloc::vec![0; PAGES as usize],
                unseen: Vec::new(),
            },
            model,
        }
    }

    fn step(&mut self, random: &mut Random) {
        let n = random.below(PAGES);
        let (frame, seed) = (FrameNo(n), self.seed);
        let isolated = self.model.isolated.contains(&n);
        let listed = self.model.lists.iter().any(|list| list.contains(&n));
        match random.below(100) {
            0 => {
                let memory = 1 + u64::from(random.below(PAGES));
                self.lru.resize(PageCount(memory));
                self.model.resize(memory);
            }
            1 if random.one_in(4) => {
                let replacement = random.replacement();
                self.lru.set_replacement(replacement);
                if replacement != self.model.replacement {
                    self.model.set_replacement(replacement);
                }
            }
            2..10 => {
                let (priority, batch) = (random.below(5), 1 + random.below(40) as usize);
                let (mut victims, mut expected) = (Vec::new(), Vec::new());
                let scanned = self.lru.isolate(priority, batch, &mut self.frames, &mut victims);
                let model = self.model.isolate(priority, batch as u64, &mut expected);
                assert_eq!(scanned, model, "seed {seed}");
                let victims: Vec<u32> = victims.into_iter().map(|f| f.0).collect();
                assert_eq!(victims, expected, "seed {seed}");
            }
            10..13 if listed || isolated => {
                self.lru.remove(frame);
                self.model.remove(n);
            }
            13..16 if listed || isolated => {
                assert_eq!(
                    self.lru.rotate_to_cold(frame),
                    self.model.rotate_to_cold(n),
                    "seed {seed}"
                );
            }
            _ if isolated => {
                let put_back = match random.below(8) {
                    0 => PutBack::WarmInactive,
                    1 => PutBack::ColdInactive,
                    2 => PutBack::Active,
                    _ => {
                        self.lru.evicted(frame, key(n));
                        self.model.evicted(n);
                        return;
                    }
                };
                self.lru.put_back(frame, put_back);
                self.model.put_back(n, put_back);
            }
            _ if listed => {
                for uses in [&mut self.frames.uses, &mut self.model.words] {
                    uses[n as usize] = (uses[n as usize] + 1).min(crate::frame::ACCESSES_MAX);
                }
                self.lru.mark_accessed(frame);
                self.model.mark_accessed(n);
            }
            _ => {
                if !self.lru.lruvec.workingset.remembers(key(n)) {
                    self.model.shadows.remove(&n);
                }
                let refault = self.lru.refault(key(n));
                assert_eq!(refault, self.model.refault(n), "seed {seed}");
                let first_use = random.one_in(2);
                let refault = if random.one_in(8) {
                    refault.of_new_memory()
                } else {
                    refault
                };
                self.frames.uses[n as usize] = 0;
                self.model.words[n as usize] = 0;
                self.lru
                    .insert(frame, key(n), refault, first_use, &mut self.frames);
                self.model.insert(n, refault, first_use);
            }
        }
    }

    fn compare(&self) {
        let (lru, model, seed) = (&self.lru, &self.model, self.seed);
        lru.validate();
        for (list, expected) in [List::Window, List::Inactive, List::Active]
            .into_iter()
            .zip(&model.lists)
        {
            let pages: Vec<u32> = lru.iter_from_cold(list).map(|f| f.0).collect();
            assert_eq!(&pages, expected, "{list:?}, seed {seed}");
        }
        assert_eq!(lru.isolated().0, model.isolated.len() as u64, "seed {seed}");
        if let Some(target) = lru.inactive_target() {
            assert_eq!(target.0, model.target / 256, "seed {seed}");
        }
        assert_eq!(self.frames.uses, model.words, "seed {seed}");
    }
}

#[test]
fn every_rule_does_what_the_model_does() {
    let (mut recent, mut bimodal) = (0, 0);
    for seed in 1..=60 {
        let mut random = Random(seed);
        let (replacement, memory) = (random.replacement(), 1 + u64::from(random.below(PAGES)));
        let mut pair = Pair::new(seed, replacement, memory);
        for _ in 0..2_000 {
            pair.step(&mut random);
            pair.compare();
        }
        recent += pair.lru.statistics().workingset_activate_file;
        bimodal += pair.lru.statistics().bimodal_activate_file;
    }
    assert!(
        recent > 500 && bimodal > 500,
        "{recent} recent refaults, {bimodal} by bimodal insertion: too few to have tested anything"
    );
}
