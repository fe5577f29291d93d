//! The replacement rules on plain vectors.

use super::*;
use alloc::collections::BTreeMap;

#[derive(Clone, Copy, Default)]
struct Page {
    touched: bool,
    workingset: bool,
    drawn: bool,
    bimodal: bool,
    usage_count: u8,
}

pub(super) struct Shadow {
    age: u64,
    class_age: u64,
    workingset: bool,
}

pub(super) struct Model {
    pub(super) replacement: Replacement,
    pub(super) memory: u64,
    pub(super) lists: [Vec<u32>; 3],
    pub(super) isolated: Vec<u32>,
    pages: Vec<Page>,
    /// Uses in the frames' words.
    pub(super) words: Vec<u8>,
    pub(super) shadows: BTreeMap<u32, Shadow>,
    age: u64,
    class_ages: [u64; 2],
    challenged: bool,
    pub(super) target: u64,
    share: u64,
    drawn: u64,
    vain: u32,
    pub(super) after_scan: u64,
}

const WINDOW: usize = 0;
const INACTIVE: usize = 1;
const ACTIVE: usize = 2;

impl Model {
    pub(super) fn new(replacement: Replacement, memory: u64) -> Model {
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
            share: 0,
            drawn: 0,
            vain: 0,
            after_scan: u64::MAX,
        };
        model.set_replacement(replacement);
        model
    }

    fn inactive(&self) -> u64 {
        (self.lists[WINDOW].len() + self.lists[INACTIVE].len()) as u64
    }

    fn active(&self) -> u64 {
        self.lists[ACTIVE].len() as u64
    }

    fn above_target(&self) -> bool {
        self.inactive() * 256 > self.target
    }

    fn has_room(&self) -> bool {
        let left = self.after_scan.min(self.inactive() + self.active());
        left > self.active() && (left - self.active()) * 256 > self.target
    }

    fn take_words(&mut self, n: u32) -> u8 {
        core::mem::take(&mut self.words[n as usize])
    }

    fn page(&mut self, n: u32) -> &mut Page {
        &mut self.pages[n as usize]
    }

    pub(super) fn set_replacement(&mut self, replacement: Replacement) {
        if let Replacement::Linux(_) = replacement {
            let in_window = core::mem::take(&mut self.lists[WINDOW]);
            self.lists[INACTIVE].extend(in_window);
        }
        self.replacement = replacement;
        self.target = self.target_of(self.memory);
        (self.challenged, self.share, self.drawn, self.vain) = (false, 32_768, 0, 0);
        self.after_scan = u64::MAX;
    }

    /// The target at first, in 256ths of a page.
    pub(super) fn target_of(&self, memory: u64) -> u64 {
        match self.replacement {
            Replacement::Linux(_) => 0,
            Replacement::Millpond(o) => memory * 256 * u64::from(o.inactive_start_per_mille) / 1000,
        }
    }

    pub(super) fn resize(&mut self, memory: u64) {
        self.target = self.target * memory / self.memory;
        self.memory = memory;
        self.after_scan = u64::MAX;
    }

    pub(super) fn refault(&mut self, n: u32) -> Refault {
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
                // An eighth of the root of memory, or a page if that is more.
                let step = ((self.memory * 65_536).isqrt() / 8).max(256);
                if of_class <= options.ghost_window.of(self.memory) {
                    self.target = if shadow.workingset {
                        self.target.saturating_sub(step)
                    } else {
                        (self.target + step).min(self.memory * 256)
                    };
                }
                distance <= self.memory
            }
        };
        Refault {
            distance: Some(PageCount(distance)),
            recent,
            workingset: shadow.workingset,
            begins: false,
        }
    }

    pub(super) fn insert(&mut self, n: u32, refault: Refault, first_use: bool) {
        let mut drawn = false;
        let (list, uses) = match self.replacement {
            Replacement::Linux(_) => (if refault.recent { ACTIVE } else { INACTIVE }, 0),
            Replacement::Millpond(options) => {
                if refault.recent && (self.has_room() || self.probe(&options, options.probe_pages)) {
                    (ACTIVE, 1)
                } else {
                    if !refault.recent && !refault.begins {
                        let mix = super::super::workingset::mix;
                        let hash = mix(key(n).to_bits() ^ mix(self.drawn / self.memory));
                        self.drawn += 1;
                        drawn = hash % 65_536 < self.share;
                    }
                    (WINDOW, 0)
                }
            }
        };
        *self.page(n) = Page {
            touched: first_use,
            workingset: false,
            drawn,
            bimodal: false,
            usage_count: uses,
        };
        self.lists[list].push(n);
        if let Replacement::Millpond(options) = self.replacement
            && list == WINDOW
        {
            for _ in 0..2 {
                if self.lists[WINDOW].len() as u64 > options.window.of(self.memory) + 1 {
                    let page = self.lists[WINDOW][0];
                    self.page(page).touched |= self.take_words(page) > 0;
                    let is_candidate = self.page(page).drawn && self.page(page).touched;
                    let enters = is_candidate && (self.has_room() || self.probe(&options, 1));
                    self.page(page).bimodal = enters;
                    self.lists[WINDOW].remove(0);
                    self.lists[if enters { ACTIVE } else { INACTIVE }].push(page);
                }
            }
        }
    }

    fn probe(&mut self, options: &MillpondOptions, pages: u32) -> bool {
        (0..pages).any(|_| self.active() > 0 && self.spend_or_demote(options, &mut Scanned::default()))
    }

    fn spend_or_demote(&mut self, options: &MillpondOptions, scanned: &mut Scanned) -> bool {
        let n = self.lists[ACTIVE].remove(0);
        let words = self.take_words(n);
        let page = self.page(n);
        let uses = (page.usage_count + words).min(options.usage_count_max);
        page.touched |= uses > 0;
        scanned.refilled += 1;
        if core::mem::take(&mut page.bimodal) {
            // 64 steps from none to all, and one page in 32 at least.
            self.share = match uses > 0 {
                true => (self.share + 1024).min(65_536),
                false => self.share.saturating_sub(1024).max(2048),
            };
        }
        let page = self.page(n);
        if uses > 0 {
            page.usage_count = uses - 1;
            self.lists[ACTIVE].push(n);
            scanned.rotated += 1;
            return false;
        }
        page.workingset = true;
        self.lists[INACTIVE].push(n);
        scanned.deactivated += 1;
        true
    }

    pub(super) fn isolate(&mut self, priority: u32, batch: u64, victims: &mut Vec<u32>) -> Scanned {
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
                page.touched |= core::mem::take(&mut page.usage_count) + words > 0;
                page.workingset = true;
                page.bimodal = false;
                self.lists[INACTIVE].push(n);
                scanned.refilled += 1;
                scanned.deactivated += 1;
            }
        }
        for _ in 0..inactive.min(batch) {
            let n = self.lists[INACTIVE].remove(0);
            let words = self.take_words(n);
            let page = self.page(n);
            let uses = u8::from(page.touched) + core::mem::take(&mut page.usage_count) + words;
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
                WINDOW
            } else {
                INACTIVE
            };
            let n = self.lists[from].remove(0);
            let words = self.take_words(n);
            let page = self.page(n);
            let uses = core::mem::take(&mut page.usage_count) + words;
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

    pub(super) fn evicted(&mut self, n: u32) {
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

    pub(super) fn put_back(&mut self, n: u32, put_back: PutBack) {
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

    pub(super) fn remove(&mut self, n: u32) {
        let Model { lists, isolated, .. } = self;
        for list in lists.iter_mut().chain([isolated]) {
            list.retain(|&m| m != n);
        }
    }

    pub(super) fn rotate_to_cold(&mut self, n: u32) -> bool {
        for list in [WINDOW, INACTIVE, ACTIVE] {
            if self.lists[list].contains(&n) {
                self.lists[list].retain(|&m| m != n);
                self.lists[INACTIVE].insert(0, n);
                return true;
            }
        }
        false
    }

    pub(super) fn mark_accessed(&mut self, n: u32) {
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
