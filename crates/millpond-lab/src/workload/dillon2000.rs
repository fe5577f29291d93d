//! Dillon 2000 on real files: readers of a news server.
//!
//! ```text
//!   a reader   an article, anywhere in the spool ─► words of the history, some pages more often than others, and as many
//!              pages of its own memory ─► until the article has been sent ─► the next
//!              └── latency ──────────────────────────────────────────────┘
//! ```
//!
//! The spool is read in the ordinary way, the history is changed where it is in memory. A reader's own memory is ordinary
//! memory of the process: a memory group counts it, Millpond does not have it. Every page that is read is checked by its
//! stamp, and the last words that each reader has stored are compared with what the device has in the end.

pub(crate) mod news;

use self::news::{Seconds, news};
use super::Progress;
use super::data::{AlignedBuf, PAGE, is_stamped};
use crate::error::{LabError, Result};
use crate::measure::reclaim::{self, Scans};
use crate::outcome::Outcome;
use crate::setup::Setup;
use crate::storage::{Storage, StorageFile};
use crate::watch::Proceed;
use millpond_core::units::Nanos;
use millpond_kernels::freebsd::machine::skewed;
use millpond_sim::draw::Draw;
use rustix::fs::Advice;
use serde::{Deserialize, Serialize};
use std::fs::File;
use std::hint::black_box;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::{Condvar, Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

/// The workload. Sizes are in bytes and whole pages of 4 KiB.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Dillon2000 {
    /// Threads that read.
    pub readers: u32,
    /// An article.
    pub article_bytes: u64,
    /// How long an article is on the line, on the average; evenly between half and one and a half of it. 0: the next one is
    /// wanted at once.
    pub think_ms: u64,
    /// The file of articles.
    pub spool_bytes: u64,
    /// The file that is changed.
    pub history_bytes: u64,
    /// Words of it that are changed for each article.
    pub changes: u32,
    /// A reader's own memory.
    pub own_bytes: u64,
    /// How long it runs before the measurement, and how long it is measured.
    pub warm_up_s: u32,
    /// See `warm_up_s`.
    pub seconds: u32,
    /// The seed of everything random.
    pub seed: u64,
}

/// The numbers that files have in their stamps.
pub const SPOOL: u64 = 0;
/// See [`SPOOL`].
pub const HISTORY: u64 = 1;

/// Between two reports of progress.
const STEP: Duration = Duration::from_millis(50);
/// Behind a page's stamp: a word for each reader, as many as there is room for.
const STAMP_BYTES: u64 = 16;
const WORDS: u64 = (PAGE as u64 - STAMP_BYTES) / 8;
/// The number of last words stored by a reader that are compared at the end.
const COMPARED: usize = 16;
/// The stack of a reader, which calls nothing deep.
const STACK: usize = 256 << 10;

impl Dillon2000 {
    /// The folder of both files in a storage's directory.
    pub fn folder(&self, dir: &Path) -> PathBuf {
        dir.join(format!("news-{}", self.readers))
    }

    /// The file of articles.
    pub fn spool(&self, dir: &Path) -> PathBuf {
        self.folder(dir).join("spool")
    }

    /// The file that is changed.
    pub fn history(&self, dir: &Path) -> PathBuf {
        self.folder(dir).join("history")
    }

    /// Bytes of both files.
    pub fn bytes(&self) -> u64 {
        self.spool_bytes + self.history_bytes
    }

    /// Memory that the readers have of their own.
    pub fn own_bytes_of_all(&self) -> u64 {
        u64::from(self.readers) * self.own_bytes
    }

    fn span(&self) -> Duration {
        Duration::from_secs((self.warm_up_s + self.seconds).into())
    }
}

/// An article: when it was wanted and when it was there.
type Article = (Duration, Duration);

/// A reader's results.
#[derive(Default)]
struct Seen {
    articles: Vec<Article>,
    /// The last words that it has stored and no other reader stores: offset and word, the last one last.
    stored: Vec<(u64, u64)>,
}

/// The state shared by a run's threads.
struct Run<'a> {
    work: &'a Dillon2000,
    spool: Box<dyn StorageFile>,
    history: Box<dyn StorageFile>,
    began: Instant,
    over: Mutex<bool>,
    ends: Condvar,
}

/// Performs it on the two files, which are there with their stamps.
///
/// # Errors
/// The first error of the storage; a page that is not what was written there; [`LabError::Interrupted`].
pub fn perform(
    work: &Dillon2000,
    storage: &dyn Storage,
    setup: &Setup,
    progress: &mut dyn FnMut(Progress) -> Proceed,
) -> Result<Outcome> {
    let (spool, history) = (work.spool(&setup.dir), work.history(&setup.dir));
    let failed = |path: &Path| {
        let path = path.to_owned();
        move |e: io::Error| LabError::path("cannot open", &path, e)
    };
    let run = Run {
        work,
        spool: storage
            .open(&spool, crate::storage::Access::Random)
            .map_err(failed(&spool))?,
        history: storage.open_to_change(&history).map_err(failed(&history))?,
        began: Instant::now(),
        over: Mutex::new(false),
        ends: Condvar::new(),
    };
    let before = storage.reclaim();
    let (seen, written, is_stopped) = run.read(storage, progress)?;
    if is_stopped {
        return Err(LabError::Interrupted);
    }
    let grown = reclaim::grown(&before, &storage.reclaim());
    storage
        .sync_all()
        .map_err(|e| LabError::path("syncing", &setup.dir, e))?;
    run.history
        .sync()
        .map_err(|e| LabError::path("syncing", &history, e))?;
    drop(run);
    check(&history, &seen).map_err(|e| LabError::path("wrong data:", &history, e))?;
    let mut outcome = work.outcome(&seen, written);
    let has = |metric: &str| grown.iter().any(|m| m.metric == metric);
    if has("pgscan_direct") && has("pgscan_kswapd") {
        Scans::of(&grown).report(work.span().as_secs_f64(), &mut outcome);
    }
    for measure in grown.into_iter().chain(storage.measures()) {
        // what has already been reported
        if outcome.value(&measure.metric).is_none() {
            outcome.measures.push(measure);
        }
    }
    outcome.settings = storage.settings();
    outcome.warnings = storage.warnings();
    outcome.explanations = storage.explanations();
    Ok(outcome)
}

impl Dillon2000 {
    /// `written`: KiB that were written by the end of each second.
    fn outcome(&self, seen: &[Seen], written: Vec<f64>) -> Outcome {
        let from = Duration::from_secs(self.warm_up_s.into());
        let articles = || seen.iter().flat_map(|seen| &seen.articles);
        let measured = articles().filter(|(_, ended)| *ended >= from && *ended < self.span());
        let latencies = measured.map(|(began, ended)| Nanos((*ended - *began).as_nanos() as u64));
        let pages = written.windows(2).map(|pair| (pair[1] - pair[0]) / 4.0);
        let seconds = Seconds {
            load: load(articles(), from, self.seconds as usize),
            pageouts: pages.skip(self.warm_up_s as usize).collect(),
        };
        news(&seconds, latencies.collect(), None)
    }
}

/// The number of readers waiting for an article, averaged over each second after `from`.
fn load<'a>(articles: impl Iterator<Item = &'a Article>, from: Duration, seconds: usize) -> Vec<f64> {
    let mut load = vec![0.0; seconds];
    for &(began, ended) in articles {
        let mut at = began.max(from);
        while at < ended {
            let n = (at - from).as_secs();
            let end = (from + Duration::from_secs(n + 1)).min(ended);
            let Some(load) = load.get_mut(n as usize) else {
                break;
            };
            *load += (end - at).as_secs_f64();
            at = end;
        }
    }
    load
}

/// Checks that the device has the last stored words.
fn check(path: &Path, seen: &[Seen]) -> io::Result<()> {
    let file = File::open(path)?;
    rustix::fs::fadvise(&file, 0, None, Advice::DontNeed)?;
    let mut word = [0; 8];
    for &(offset, stored) in seen.iter().flat_map(|seen| &seen.stored) {
        file.read_exact_at(&mut word, offset)?;
        let found = u64::from_ne_bytes(word);
        if found != stored {
            return Err(io::Error::other(format!(
                "{found} at {offset}, and not the {stored} that was stored there and synced"
            )));
        }
    }
    Ok(())
}

impl Run<'_> {
    /// What readers saw, the KiB that were written by the beginning and by the end of each second, and whether the user
    /// has asked to stop.
    fn read(
        &self,
        storage: &dyn Storage,
        progress: &mut dyn FnMut(Progress) -> Proceed,
    ) -> Result<(Vec<Seen>, Vec<f64>, bool)> {
        let written = || {
            let counters = storage.reclaim();
            let kib = counters.iter().find(|m| m.metric == "pgpgout_kib");
            kib.map_or(0.0, |m| m.value)
        };
        let mut samples = vec![written()];
        let mut is_stopped = false;
        thread::scope(|scope| {
            let readers: Vec<_> = (0..self.work.readers)
                .map(|n| {
                    let own = thread::Builder::new().stack_size(STACK);
                    own.spawn_scoped(scope, move || self.reader(n))
                })
                .collect::<io::Result<_>>()
                .map_err(|e| {
                    self.end();
                    LabError::path("cannot start readers for", Path::new("spool"), e)
                })?;
            // A reader that has failed ends the run.
            while self.began.elapsed() < self.work.span() && !readers.iter().any(|r| r.is_finished()) {
                thread::park_timeout(STEP);
                let now = self.began.elapsed();
                while samples.len() as u64 <= now.as_secs() {
                    samples.push(written());
                }
                if progress(self.progress(now)) == Proceed::Stop {
                    is_stopped = true;
                    break;
                }
            }
            self.end();
            let joined = readers
                .into_iter()
                .map(|t| t.join().unwrap_or_else(|p| std::panic::resume_unwind(p)));
            let seen = joined.collect::<Result<Vec<_>>>()?;
            Ok((seen, samples, is_stopped))
        })
    }

    fn progress(&self, now: Duration) -> Progress {
        Progress {
            doing: if now < Duration::from_secs(self.work.warm_up_s.into()) {
                "warming up".into()
            } else {
                "reading".into()
            },
            share: (now.as_secs_f64() / self.work.span().as_secs_f64()).min(1.0),
            detail: format!("{} of {} s", now.as_secs(), self.work.span().as_secs()),
            beat: now.as_millis() as u64,
            live: None,
        }
    }

    fn end(&self) {
        *self.over.lock().unwrap_or_else(PoisonError::into_inner) = true;
        self.ends.notify_all();
    }

    /// Waits this long, or until the end. Returns whether the end has come.
    fn think(&self, span: Duration) -> bool {
        let over = self.over.lock().unwrap_or_else(PoisonError::into_inner);
        if span.is_zero() {
            return *over;
        }
        let waited = self.ends.wait_timeout_while(over, span, |over| !*over);
        *waited.unwrap_or_else(PoisonError::into_inner).0
    }

    fn reader(&self, n: u32) -> Result<Seen> {
        let work = self.work;
        let mut draw = Draw(work.seed.wrapping_mul(1_000_003).wrapping_add(n.into()));
        let mut article = AlignedBuf::new(work.article_bytes as usize);
        let mut own = vec![0_u8; work.own_bytes as usize];
        let mut seen = Seen::default();
        let mut count = 0;
        // Where there are more readers than words, some share one.
        let lane = u64::from(n) % WORDS;
        let is_own_lane = u64::from(n) < WORDS && u64::from(n) + WORDS >= u64::from(work.readers);
        let mean = work.think_ms * 1_000_000;
        // The first articles are not all wanted at once.
        let mut think = mean.checked_sub(1).map_or(0, |_| draw.below(mean + mean / 2));
        while !self.think(Duration::from_nanos(think)) {
            let began = self.began.elapsed();
            self.read_article(&mut draw, &mut article)?;
            for _ in 0..work.changes {
                let page = skewed(&mut draw, (work.history_bytes / PAGE as u64) as u32);
                let offset = u64::from(page) * PAGE as u64 + STAMP_BYTES + lane * 8;
                count += 1;
                let word = u64::from(n) << 32 | count;
                let stored = self.history.change_at(offset, word);
                stored.map_err(|e| LabError::path("changing", Path::new("history"), e))?;
                if is_own_lane {
                    seen.stored.retain(|&(other, _)| other != offset);
                    seen.stored.push((offset, word));
                    if seen.stored.len() > COMPARED {
                        seen.stored.remove(0);
                    }
                }
                let pages = own.len() / PAGE;
                if pages > 0 {
                    own[draw.below(pages as u64) as usize * PAGE] = word as u8;
                }
            }
            black_box(&mut own);
            seen.articles.push((began, self.began.elapsed()));
            think = mean.checked_sub(1).map_or(0, |_| mean / 2 + draw.below(mean));
        }
        Ok(seen)
    }

    fn read_article(&self, draw: &mut Draw, article: &mut AlignedBuf) -> Result<()> {
        let bytes = self.work.article_bytes;
        let offset = draw.below(self.work.spool_bytes / bytes) * bytes;
        let spool = Path::new("spool");
        self.spool
            .read_at(offset, article)
            .map_err(|e| LabError::path("reading", spool, e))?;
        let mut pages = (offset / PAGE as u64..).zip(article.chunks(PAGE));
        if let Some((page, _)) = pages.find(|(page, found)| !is_stamped(SPOOL, *page, found)) {
            let what = format!("page {page} is not what was written there");
            return Err(LabError::path("wrong data:", spool, io::Error::other(what)));
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests;
