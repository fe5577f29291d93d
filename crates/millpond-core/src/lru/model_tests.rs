//! Random operations on [`Lru`] and on a model that keeps everything in plain vectors; lists, answers and counters
//! must be the same after each.
//!
//! The model knows the rules, not the structures: it moves numbers between vectors whose front is the cold end, and
//! remembers every evicted page for ever. Only whether a shadow was pushed out of the table it has to be told.

use super::tests::{TestFrames, key};
use super::*;
use alloc::collections::BTreeMap;

#[derive(Clone, Copy, Default)]
struct Page {
    touched: bool,
    workingset: bool,
    uses: u8,
}

struct Shadow {
    age: u64,
    class_age: u64,
    workingset: bool,
}

struct Model {
    replacement: Replacement,
    memory: u64,
    lists: [Vec<u32>; 3],
    isolated: Vec<u32>,
    pages: Vec<Page>,
    /// Uses in the frames' words.
    words: Vec<u8>,
    shadows: BTreeMap<u32, Shadow>,
    age: u64,
    class_ages: [u64; 2],
    challenged: bool,
    target: u64,
    unknown: u32,
    vain: u32,
    after_scan: u64,
}

const FRESH: usize = 0;
const INACTIVE: usize = 1;
const ACTIVE: usize = 2;

impl Model {
    fn inactive(&self) -> u64 {
        (self.lists[FRESH].len() + self.lists[INACTIVE].len()) as u64
    }

    fn active(&self) -> u64 {
        self.lists[ACTIVE].len() as u64
    }

    fn above_target(&self) -> bool {
        self.inactive() * 1000 > self.memory * self.target
    }

    fn has_room(&self) -> bool {
        let left = self.after_scan.min(self.inactive() + self.active());
        left > self.active() && (left - self.active()) * 1000 > self.memory * self.target
    }

    fn take_words(&mut self, n: u32) -> u8 {
        core::mem::take(&mut self.words[n as usize])
    }

    fn page(&mut self, n: u32) -> &mut Page {
        &mut self.pages[n as usize]
    }

    fn set_replacement(&mut self, replacement: Replacement) {
        if let Replacement::Linux(_) = replacement {
            let fresh = core::mem::take(&mut self.lists[FRESH]);
            self.lists[INACTIVE].extend(fresh);
        }
        if let Replacement::Millpond(options) = replacement {
            self.target = options.inactive_start_per_mille.into();
        }
        self.replacement = replacement;
        (self.challenged, self.unknown, self.vain) = (false, 0, 0);
        self.after_scan = u64::MAX;
    }

    fn refault(&mut self, n: u32) -> Refault {
        let Some(shadow) = self.shadows.remove(&n) else {
            return Refault::NEW;
        };
        let distance = self.age - shadow.age;
        let recent = match self.replacement {
            Replacement::Linux(options) => {
                let recent = options.detection != Detection::Off && distance <= self.active();
                self.age += u64::from(recent);
                self.challenged |= recent;
                recent
            }
            Replacement::Millpond(options) => {
                let of_class = self.class_ages[usize::from(shadow.workingset)] - shadow.class_age;
                let (low, high) = (options.inactive_min_per_mille, options.inactive_max_per_mille);
                let step = u64::from(options.inactive_step_per_mille);
                if of_class <= options.inactive_regret.of(self.memory) {
                    let target = if shadow.workingset {
                        self.target.saturating_sub(step)
                    } else {
                        self.target + step
                    };
                    self.target = target.clamp(low.into(), high.into());
                }
                distance <= self.memory
            }
        };
        Refault {
            distance: Some(PageCount(distance)),
            recent,
            workingset: shadow.workingset,
        }
    }

    fn insert(&mut self, n: u32, refault: Refault, first_use: bool) {
        let (list, uses) = match self.replacement {
            Replacement::Linux(_) => (if refault.recent { ACTIVE } else { INACTIVE }, 0),
            Replacement::Millpond(options) => {
                let active = if refault.recent {
                    self.has_room() || self.challenge(&options, options.challenge_pages)
                } else {
                    self.unknown += 1;
                    let short = self.active() * 2 < self.memory;
                    let one_in = if short {
                        options.trial_one_in_when_short
                    } else {
                        options.trial_one_in
                    };
                    self.unknown.is_multiple_of(one_in) && (self.has_room() || self.challenge(&options, 1))
                };
                if active {
                    (ACTIVE, u8::from(refault.recent))
                } else {
                    (FRESH, 0)
                }
            }
        };
        *self.page(n) = Page {
            touched: first_use,
            workingset: false,
            uses,
        };
        self.lists[list].push(n);
        if let Replacement::Millpond(options) = self.replacement
            && list == FRESH
        {
            for _ in 0..2 {
                if self.lists[FRESH].len() as u64 > options.fresh.of(self.memory) + 1 {
                    let page = self.lists[FRESH].remove(0);
                    let used = self.take_words(page) > 0;
                    self.page(page).touched |= used;
                    self.lists[INACTIVE].push(page);
                }
            }
        }
    }

    fn challenge(&mut self, options: &MillpondOptions, pages: u32) -> bool {
        (0..pages).any(|_| self.active() > 0 && self.spend_or_demote(options, &mut Scanned::default()))
    }

    fn spend_or_demote(&mut self, options: &MillpondOptions, scanned: &mut Scanned) -> bool {
        let n = self.lists[ACTIVE].remove(0);
        let words = self.take_words(n);
        let page = self.page(n);
        let uses = (page.uses + words).min(options.active_uses_max);
        page.touched |= uses > 0;
        scanned.refilled += 1;
        if uses > 0 {
            page.uses = uses - 1;
            self.lists[ACTIVE].push(n);
            scanned.rotated += 1;
            return false;
        }
        page.workingset = true;
        self.lists[INACTIVE].push(n);
        scanned.deactivated += 1;
        true
    }

    fn isolate(&mut self, priority: u32, batch: u64, victims: &mut Vec<u32>) -> Scanned {
        match self.replacement {
            Replacement::Linux(options) => self.isolate_linux(options, priority, batch, victims),
            Replacement::Millpond(options) => self.isolate_millpond(options, priority, batch, victims),
        }
    }

    fn isolate_linux(
        &mut self,
        options: LinuxOptions,
        priority: u32,
        batch: u64,
        victims: &mut Vec<u32>,
    ) -> Scanned {
        let mut scanned = Scanned::default();
        let (inactive, active) = (self.inactive() >> priority, self.active() >> priority);
        let challenged = core::mem::take(&mut self.challenged) && options.refaults_deactivate;
        // Memory is far below a GiB here, so that both ratios are 1.
        if challenged || self.inactive() < self.active() {
            for _ in 0..active.min(batch) {
                let n = self.lists[ACTIVE].remove(0);
                let words = self.take_words(n);
                let page = self.page(n);
                page.touched |= core::mem::take(&mut page.uses) + words > 0;
                page.workingset = true;
                self.lists[INACTIVE].push(n);
                scanned.refilled += 1;
                scanned.deactivated += 1;
            }
        }
        for _ in 0..inactive.min(batch) {
            let n = self.lists[INACTIVE].remove(0);
            let words = self.take_words(n);
            let page = self.page(n);
            let uses = u8::from(page.touched) + core::mem::take(&mut page.uses) + words;
            page.touched = uses > 2;
            scanned.scanned += 1;
            if uses >= 2 {
                self.lists[ACTIVE].push(n);
                self.age += 1;
                scanned.activated += 1;
            } else {
                self.isolated.push(n);
                victims.push(n);
            }
        }
        scanned
    }

    fn isolate_millpond(
        &mut self,
        options: MillpondOptions,
        priority: u32,
        batch: u64,
        victims: &mut Vec<u32>,
    ) -> Scanned {
        let mut scanned = Scanned::default();
        let most = ((self.inactive() + self.active()) >> priority).min(batch);
        while scanned.scanned < most {
            let patient = self.vain < 32 || self.inactive() == 0;
            if self.active() > 0 && !self.above_target() && patient {
                if scanned.refilled == most {
                    break;
                }
                self.spend_or_demote(&options, &mut scanned);
                self.vain += 1;
                continue;
            }
            if self.inactive() == 0 {
                break;
            }
            let from = if self.lists[INACTIVE].is_empty() {
                FRESH
            } else {
                INACTIVE
            };
            let n = self.lists[from].remove(0);
            let words = self.take_words(n);
            let page = self.page(n);
            let uses = core::mem::take(&mut page.uses) + words;
            let reused = if page.touched { uses > 0 } else { uses > 1 };
            scanned.scanned += 1;
            if reused && from == INACTIVE {
                let to = if page.touched { ACTIVE } else { INACTIVE };
                page.touched = true;
                self.lists[to].push(n);
                scanned.activated += u64::from(to == ACTIVE);
                scanned.rotated += u64::from(to == INACTIVE);
            } else {
                page.touched |= uses > 0;
                self.isolated.push(n);
                victims.push(n);
                self.vain = 0;
            }
        }
        self.after_scan = self.inactive() + self.active();
        scanned
    }

    fn evicted(&mut self, n: u32) {
        self.isolated.retain(|&m| m != n);
        let workingset = self.page(n).workingset;
        self.class_ages[usize::from(workingset)] += 1;
        let before = matches!(
            self.replacement,
            Replacement::Linux(options) if options.detection == Detection::Linux5_9
        );
        let shadow = Shadow {
            age: if before { self.age } else { self.age + 1 },
            class_age: self.class_ages[usize::from(workingset)],
            workingset,
        };
        self.age += 1;
        self.shadows.insert(n, shadow);
    }

    fn put_back(&mut self, n: u32, put_back: PutBack) {
        self.isolated.retain(|&m| m != n);
        match put_back {
            PutBack::WarmInactive => self.lists[INACTIVE].push(n),
            PutBack::ColdInactive => self.lists[INACTIVE].insert(0, n),
            PutBack::Active => {
                self.lists[ACTIVE].push(n);
                self.age += u64::from(matches!(self.replacement, Replacement::Linux(_)));
            }
        }
    }

    fn remove(&mut self, n: u32) {
        let Model { lists, isolated, .. } = self;
        for list in lists.iter_mut().chain([isolated]) {
            list.retain(|&m| m != n);
        }
    }

    fn rotate_to_cold(&mut self, n: u32) -> bool {
        for list in [FRESH, INACTIVE, ACTIVE] {
            if self.lists[list].contains(&n) {
                self.lists[list].retain(|&m| m != n);
                self.lists[INACTIVE].insert(0, n);
                return true;
            }
        }
        false
    }

    fn mark_accessed(&mut self, n: u32) {
        if !matches!(
            self.replacement,
            Replacement::Linux(options) if options.promotion == Promotion::Immediate
        ) {
            return;
        }
        if self.page(n).touched && self.lists[INACTIVE].contains(&n) {
            self.page(n).touched = false;
            self.lists[INACTIVE].retain(|&m| m != n);
            self.lists[ACTIVE].push(n);
            self.age += 1;
        } else {
            self.page(n).touched = true;
        }
    }
}

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
        let inactive_min_per_mille = 1 + self.below(200);
        let inactive_max_per_mille = inactive_min_per_mille + self.below(700);
        let spread = inactive_max_per_mille - inactive_min_per_mille;
        Replacement::Millpond(MillpondOptions {
            fresh: crate::units::Ratio::percent(self.below(11)),
            inactive_start_per_mille: inactive_min_per_mille + self.below(spread + 1),
            inactive_min_per_mille,
            inactive_max_per_mille,
            inactive_step_per_mille: self.below(101),
            inactive_regret: crate::units::Ratio::percent(self.below(101)),
            active_uses_max: 1 + self.below(3) as u8,
            challenge_pages: 1 + self.below(8),
            trial_one_in: 1 + self.below(40),
            trial_one_in_when_short: 1 + self.below(8),
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
        let mut model = Model {
            replacement,
            memory,
            lists: Default::default(),
            isolated: Vec::new(),
            pages: alloc::vec![Page::default(); PAGES as usize],
            words: alloc::vec![0; PAGES as usize],
            shadows: BTreeMap::new(),
            age: 0,
            class_ages: [0; 2],
            challenged: false,
            target: 0,
            unknown: 0,
            vain: 0,
            after_scan: u64::MAX,
        };
        model.set_replacement(replacement);
        let mut lru = Lru::new(replacement, PageCount(PAGES.into()));
        lru.resize(PageCount(memory));
        Pair {
            seed,
            lru,
            frames: TestFrames {
                uses: alloc::vec![0; PAGES as usize],
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
                self.model.memory = memory;
                self.model.after_scan = u64::MAX;
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
                    uses[n as usize] = (uses[n as usize] + 1).min(crate::frame::USES_MAX);
                }
                self.lru.mark_accessed(frame);
                self.model.mark_accessed(n);
            }
            _ => {
                if !self.lru.workingset.remembers(key(n)) {
                    self.model.shadows.remove(&n);
                }
                let refault = self.lru.refault(key(n));
                assert_eq!(refault, self.model.refault(n), "seed {seed}");
                let first_use = random.one_in(2);
                self.frames.uses[n as usize] = 0;
                self.model.words[n as usize] = 0;
                self.lru.insert(frame, refault, first_use, &mut self.frames);
                self.model.insert(n, refault, first_use);
            }
        }
    }

    fn compare(&self) {
        let (lru, model, seed) = (&self.lru, &self.model, self.seed);
        lru.validate();
        for (list, expected) in [List::Fresh, List::Inactive, List::Active]
            .into_iter()
            .zip(&model.lists)
        {
            let pages: Vec<u32> = lru.iter_from_cold(list).map(|f| f.0).collect();
            assert_eq!(&pages, expected, "{list:?}, seed {seed}");
        }
        assert_eq!(lru.isolated().0, model.isolated.len() as u64, "seed {seed}");
        if let Some(target) = lru.inactive_target() {
            assert_eq!(target.0, model.memory * model.target / 1000, "seed {seed}");
        }
        assert_eq!(self.frames.uses, model.words, "seed {seed}");
    }
}

#[test]
fn every_rule_does_what_the_model_does() {
    let (mut recent, mut on_trial) = (0, 0);
    for seed in 1..=60 {
        let mut random = Random(seed);
        let (replacement, memory) = (random.replacement(), 1 + u64::from(random.below(PAGES)));
        let mut pair = Pair::new(seed, replacement, memory);
        for _ in 0..2_000 {
            pair.step(&mut random);
            pair.compare();
        }
        recent += pair.lru.statistics().workingset_activate_file;
        on_trial += pair.lru.statistics().trial_activate_file;
    }
    assert!(
        recent > 1_000 && on_trial > 1_000,
        "{recent} came back soon, {on_trial} were on trial: too few to have tested anything"
    );
}
