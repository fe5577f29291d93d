//! Whether memory is large enough, and for which file, for `top` and `stat --files`.
//!
//! Refaults in the interval are compared with requests in it, so the answer describes the present. How much more memory
//! would have kept the pages, and how old they were, comes from the last few hundred pages, as the cache reports them.

use super::{Span, count, list};
use millpond::internal::quantity::{micros, number, size};
use millpond_core::units::Bytes;
use serde::Serialize;
use serde_json::{Value, json};

/// A file's requests are counted one by one up to this number, and then by sampling one in 256.
const EXACT_MAX: u64 = 8192;

/// This many requests within an interval give a ratio good to 10 %; with fewer, the ratio is the one since the file was
/// opened.
const SAMPLED_MIN: u64 = 2560;

/// Memory counts as large enough while fewer requests than this share come back: such a file would hardly be faster.
const SHARE_MIN: f64 = 0.01;

/// How pages of a file leave and come back.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Reuse {
    /// The share of requests in the interval served from memory; `None` without requests, or for a region.
    pub(crate) hit_ratio: Option<f64>,
    /// Pages that came back in the interval, including forgotten ones.
    pub(crate) came_back: u64,
    /// The share of requests that were for such pages.
    pub(crate) came_back_share: Option<f64>,
    /// Pages evicted in the interval.
    pub(crate) evicted: u64,
    /// Whether most of them came back later than shadows reach.
    pub(crate) is_far: bool,
    pub(crate) eviction_age_ns: Option<u64>,
    pub(crate) refault_age_ns: Option<u64>,
    /// The additional bytes that would have kept nine in ten of the last that came back, at most.
    pub(crate) more_bytes: Option<u64>,
}

impl Reuse {
    /// For a file in this answer to `files`, and in an earlier one, in pages of `page` bytes.
    pub(crate) fn of(before: &Value, now: &Value, page: u64) -> Reuse {
        let nothing = Value::Null;
        let before = list(before, "files").iter().find(|b| b["path"] == now["path"]);
        let before = before.unwrap_or(&nothing);
        let grown = |name: &str| count(now, name).saturating_sub(count(before, name));
        let (refaults, forgotten) = (grown("refaults"), grown("refaults_forgotten"));
        let ever = (count(now, "requests"), count(now, "misses"));
        // A page that comes back to be overwritten whole was not missed.
        let came_back = (refaults + forgotten).min(grown("misses"));
        let ns = |name: &str| now[name].as_u64();
        Reuse {
            hit_ratio: hit_ratio_lately((grown("requests"), grown("misses")), ever),
            came_back,
            came_back_share: (grown("requests") > 0).then(|| came_back as f64 / grown("requests") as f64),
            evicted: grown("evicted"),
            is_far: now["more_than_double"] == true || forgotten > refaults,
            eviction_age_ns: ns("eviction_age_ns"),
            refault_age_ns: ns("away_ns").map(|away| away + ns("eviction_age_ns").unwrap_or(0)),
            more_bytes: now["more_pages"].as_u64().map(|pages| pages * page),
        }
    }

    /// How much more memory it needs, in a few characters; `-` if none.
    pub(crate) fn more(&self) -> String {
        match (self.is_far, self.more_bytes) {
            (true, _) => "> 2x".into(),
            (false, Some(bytes)) => format!("+{}", size(Bytes(bytes))),
            (false, None) => "-".into(),
        }
    }
}

/// The share of `requests` that memory served.
fn hit_ratio(requests: u64, misses: u64) -> Option<f64> {
    (requests > 0).then(|| requests.saturating_sub(misses) as f64 / requests as f64)
}

/// The same for an interval, or since the beginning if the interval has too few samples.
pub(super) fn hit_ratio_lately(lately: (u64, u64), ever: (u64, u64)) -> Option<f64> {
    let (requests, misses) = match lately.0 {
        1..SAMPLED_MIN if ever.0 > EXACT_MAX => ever,
        _ => lately,
    };
    hit_ratio(requests, misses)
}

/// A share in percent, `-` if there is none. Never 100 where something was missed.
pub(crate) fn percent(share: Option<f64>) -> String {
    match share {
        None => "-".into(),
        Some(share) if share >= 1.0 => "100%".into(),
        Some(share) => format!("{:.1}%", (share * 1000.0).floor() / 10.0),
    }
}

/// Whether memory is large enough.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Fit {
    /// In the interval, and since the cache was made.
    pub(crate) hit_ratio: Option<f64>,
    pub(crate) hit_ratio_ever: Option<f64>,
    /// The file for which memory is too small, if it is one: that with the most pages that came back in the interval.
    pub(crate) file: Option<String>,
    /// In words, without the file's name.
    pub(crate) verdict: String,
}

impl Fit {
    /// For the files of an interval, with their paths.
    pub(crate) fn of<'a>(span: &Span<'_>, files: impl Iterator<Item = (&'a str, &'a Reuse)>) -> Fit {
        let most = files.max_by_key(|(_, file)| file.came_back);
        let most = most.filter(|(_, file)| file.came_back > 0);
        // Of all files, including those not listed or no longer open, and of regions.
        let refaults = ["workingset_refault_file", "workingset_refault_anon"];
        let of = |stat: &Value, name: &str| count(&stat["counters"], name);
        let grown = |name: &str| of(span.now, name).saturating_sub(of(span.before, name));
        let refaults: u64 = refaults.into_iter().map(grown).sum();
        let is_many = refaults as f64 > SHARE_MIN * grown("page_requests") as f64;
        let is_few = |file: &Reuse| file.came_back_share.is_some_and(|share| share < SHARE_MIN);
        let came_back = || format!("memory is too small: {refaults} evicted pages came back");
        let (verdict, file) = match most {
            None if refaults > 0 && is_many => (came_back(), None),
            None if refaults > 0 => ("memory is about enough".into(), None),
            Some((_, file)) if is_few(file) && is_many => (came_back(), None),
            None if grown("pgsteal_kswapd") + grown("pgsteal_direct") > 0 => {
                ("memory is enough: nothing evicted is missed".into(), None)
            }
            None if grown("page_requests") == 0 => ("nothing is asked for".into(), None),
            None => ("memory is enough: nothing is evicted".into(), None),
            Some((_, file)) if is_few(file) => ("memory is about enough".into(), None),
            Some((path, file)) => {
                let more = match (file.is_far, file.more_bytes) {
                    (true, _) => "more than twice is wanted".into(),
                    (false, Some(bytes)) => format!("up to {} more", size(Bytes(bytes))),
                    (false, None) => "next to nothing more".into(),
                };
                (more, Some(path.into()))
            }
        };
        let [lately, ever] = [&grown as &dyn Fn(&str) -> u64, &|name| of(span.now, name)]
            .map(|count| (count("page_requests"), count("page_misses")));
        Fit {
            hit_ratio: hit_ratio_lately(lately, ever),
            hit_ratio_ever: hit_ratio(ever.0, ever.1),
            file,
            verdict,
        }
    }
}

/// What `stat --files` asks in addition to `stat`; kept as `files`.
pub(super) const QUESTION: &str = "files 20 by refaults";

/// The output of `stat --files` for an interval: a table, or an object in one line.
pub(super) fn shown(span: &Span<'_>, is_json: bool) -> String {
    let files = &span.now["files"];
    let page = count(files, "page_bytes");
    let told = list(files, "files").iter().map(|now| {
        let path = super::path_shown(&span.now["about"], now);
        let reuse = Reuse::of(&span.before["files"], now, page);
        (path, count(now, "resident") * page, count(now, "refaults"), reuse)
    });
    let told: Vec<_> = told.collect();
    let fit = Fit::of(span, told.iter().map(|(path, .., reuse)| (&**path, reuse)));
    if is_json {
        let one = |(path, resident, refaults, reuse): &(String, u64, u64, Reuse)| json!({ "path": path, "resident": resident, "refaults": refaults, "reuse": reuse });
        let files: Vec<_> = told.iter().map(one).collect();
        let all =
            json!({ "age_s": span.now["age_s"], "interval_s": span.seconds(), "fit": fit, "files": files });
        return format!("{all}\n");
    }
    let ratios = [fit.hit_ratio, fit.hit_ratio_ever].map(percent);
    let verdict = match &fit.file {
        Some(file) => format!("memory is too small for {file}: {}", fit.verdict),
        None => fit.verdict,
    };
    let mut lines = format!(
        "hits {} ({} since the start); {verdict}\n{:>10} {:>6} {:>10} {:>9} {:>9} {:>9} {:>9}  file\n",
        ratios[0], ratios[1], "in memory", "hits", "refaults/s", "refaults", "evicted", "back", "wants"
    );
    for (path, resident, refaults, reuse) in told {
        let age = |ns: Option<u64>| ns.map_or("-".into(), |ns| micros(ns as f64 / 1e3));
        lines += &format!(
            "{:>10} {:>6} {:>10} {:>9} {:>9} {:>9} {:>9}  {path}\n",
            size(Bytes(resident)),
            percent(reuse.hit_ratio),
            number(reuse.came_back as f64 / span.seconds()),
            refaults,
            age(reuse.eviction_age_ns),
            age(reuse.refault_age_ns),
            reuse.more(),
        );
    }
    lines + "\n"
}

#[cfg(test)]
mod tests {
    use super::*;

    fn file(path: &str, requests: u64, misses: u64, refaults: u64, forgotten: u64) -> Value {
        json!({ "path": path, "requests": requests, "misses": misses, "refaults": refaults,
            "refaults_forgotten": forgotten, "more_pages": if refaults > 0 { json!(256) } else { Value::Null },
            "eviction_age_ns": 2_000_000_000_u64, "away_ns": 500_000_000_u64 })
    }

    /// The verdict for files known before and now.
    fn fit(before: &[Value], now: &[Value]) -> (Fit, Vec<Reuse>) {
        let stat = |age_s: f64, files: &[Value]| {
            let sum = |name: &str| files.iter().map(|file| count(file, name)).sum::<u64>();
            json!({ "age_s": age_s, "counters": { "page_requests": sum("requests"),
                "page_misses": sum("misses"), "pgsteal_kswapd": sum("misses") } })
        };
        let span = Span {
            before: &stat(1.0, before),
            now: &stat(2.0, now),
        };
        let before = json!({ "files": before });
        let files: Vec<_> = now.iter().map(|file| Reuse::of(&before, file, 4096)).collect();
        let paths = now.iter().filter_map(|file| file["path"].as_str());
        (Fit::of(&span, paths.zip(&files)), files)
    }

    #[test]
    fn the_file_of_which_most_comes_back_is_the_one_for_which_memory_is_too_small() {
        let before = [file("/looped", 1000, 900, 800, 0), file("/hot", 1000, 10, 0, 0)];
        let now = [file("/looped", 2000, 1300, 1200, 0), file("/hot", 3000, 20, 5, 0)];
        let (fit, files) = fit(&before, &now);
        assert_eq!(fit.file.as_deref(), Some("/looped"));
        assert_eq!(fit.verdict, "up to 1 MiB more");
        let ratios = [fit.hit_ratio, fit.hit_ratio_ever].map(percent);
        assert_eq!(ratios, ["86.3%", "73.6%"]);
        assert_eq!(percent(files[0].hit_ratio), "60.0%");
        assert_eq!(files[0].more(), "+1 MiB");
        assert_eq!(files[0].refault_age_ns, Some(2_500_000_000));
        assert_eq!(percent(files[1].hit_ratio), "99.5%");
    }

    #[test]
    fn memory_is_enough_when_nothing_comes_back_in_the_interval() {
        let before = [file("/once", 1000, 900, 7, 0)];
        let verdict = |now: Value| {
            let fit = fit(&before, &[now]).0;
            assert_eq!(fit.file, None);
            fit.verdict
        };
        let evicts = verdict(file("/once", 2000, 1900, 7, 0));
        assert_eq!(evicts, "memory is enough: nothing evicted is missed");
        let fits = verdict(file("/once", 2000, 900, 7, 0));
        assert_eq!(fits, "memory is enough: nothing is evicted");
        let idle = verdict(file("/once", 1000, 900, 7, 0));
        assert_eq!(idle, "nothing is asked for");
        let few = verdict(file("/once", 2000, 1000, 12, 0));
        assert_eq!(few, "memory is about enough");
    }

    /// For files that are not listed, for one closed since, or for a region.
    #[test]
    fn memory_is_never_enough_beside_many_refaults() {
        let stat = |refaults: u64, kind: &str| {
            let counters = json!({ "page_requests": refaults * 20, "page_misses": refaults,
                "pgsteal_kswapd": refaults, kind: refaults });
            json!({ "age_s": 1.0 + refaults as f64, "counters": counters })
        };
        for kind in ["workingset_refault_file", "workingset_refault_anon"] {
            let (before, now) = (stat(0, kind), stat(500, kind));
            let span = Span {
                before: &before,
                now: &now,
            };
            let fit = Fit::of(&span, std::iter::empty());
            assert_eq!(fit.verdict, "memory is too small: 500 evicted pages came back");
        }
    }

    #[test]
    fn refaults_later_than_shadows_reach_are_not_taken_for_new_pages() {
        let (fit, files) = fit(&[], &[file("/large", 9000, 9000, 10, 5000)]);
        assert_eq!(fit.verdict, "more than twice is wanted");
        assert_eq!(files[0].more(), "> 2x");
    }

    #[test]
    fn a_share_is_never_rounded_up_to_the_whole() {
        assert_eq!(percent(Some(0.9999)), "99.9%");
        assert_eq!(percent(Some(1.0)), "100%");
        assert_eq!(percent(None), "-");
    }

    #[test]
    fn of_few_samples_in_an_interval_the_ratio_is_the_one_since_it_was_opened() {
        let (before, now) = (
            file("/a", 100_000, 50_000, 0, 0),
            file("/a", 100_256, 50_001, 0, 0),
        );
        let told = json!({ "files": [before] });
        assert_eq!(percent(Reuse::of(&told, &now, 4096).hit_ratio), "50.1%");
    }
}
