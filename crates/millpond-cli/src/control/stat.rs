//! `millpond stat`: what a running cache does, a line at a time, as `vmstat` shows a kernel's.

use super::{Cache, Store, Which, count, reclaim, reuse, stores};
use crate::failure::Failure;
use millpond::internal::quantity::{micros, number, parse_time, size};
use millpond_core::io::Reason;
use millpond_core::units::Bytes;
use serde_json::{Map, Value, json};
use std::io::{self, Write};
use std::process::ExitCode;
use std::time::{Duration, Instant};

const HELP: &str = "\
Examples:
  millpond stat                 one line: the present state, and averages since the cache was made
  millpond stat 1               a line a second, until Ctrl-C or the cache ends
  millpond stat 500ms 20 --json
  millpond stat --reasons 5     the transfers by reason, and what waited for admission
  millpond stat --reclaim 5     what reclaim scanned at the cold end of memory, and what it did with it
  millpond stat --stores 5      what each store behind the cache does: requests, latency, commits, garbage
  millpond stat --files 5       whether memory is large enough, and for which files it is too small

Columns:
  MiB of pages now   free, active, inact(ive), dirty, wback (being written)
  reads a second     fault: a caller waits for the page; ahead: read ahead; hits: the percentage of requested pages
                     served from memory (`-`: none was requested)
  writes a second    backg: in the background; dirtr: a dirtier waits; recl: for reclaim; sync
  MiB a second       read, written
  pages a second     scan: scanned by reclaim; freed: freed by it
  adm                ms a second for which admission held back the next write; --reasons shows which writes
  dirtiers           pause: pauses a second; now: how many wait
  reads              p50 and p99 over the last 1 to 2 s of reads that a caller waited for, and the p99 that is
                     the goal: admission.read_latency, or what the device can do if that is longer
  transit            writes on their way to the device, and the limit in force (`-`: none in bytes)
Exit codes: 0, 1 the cache no longer answers, 2 bad command line.";

#[derive(clap::Args)]
#[command(after_help = HELP)]
pub(crate) struct StatArgs {
    /// Seconds between two lines, or a time such as 500ms. Default: one line, with averages since the beginning.
    #[arg(value_parser = interval)]
    interval: Option<Duration>,
    /// How many lines. Default: until the cache ends.
    #[arg(value_parser = clap::value_parser!(u64).range(1..))]
    count: Option<u64>,
    /// Print a table by reason instead of a line.
    #[arg(long)]
    reasons: bool,
    /// Print a table of what reclaim scanned at the cold end of memory and did there, with the last samples.
    #[arg(long, conflicts_with = "reasons")]
    reclaim: bool,
    /// Print a table of the files with the most evicted pages that came back: those for which memory is too small.
    #[arg(long, conflicts_with_all = ["reasons", "reclaim"])]
    files: bool,
    /// Print what each store reports, if the cache has files in stores.
    #[arg(long, conflicts_with_all = ["reasons", "reclaim", "files"])]
    stores: bool,
    #[command(flatten)]
    which: Which,
    /// Print one JSON object a line: the present state, and each counter's growth a second.
    #[arg(long)]
    json: bool,
}

impl StatArgs {
    /// A line an interval, until the cache ends.
    pub(crate) fn endless(interval: Duration, which: Which) -> StatArgs {
        StatArgs {
            interval: Some(interval),
            count: None,
            reasons: false,
            reclaim: false,
            files: false,
            stores: false,
            which,
            json: false,
        }
    }
}

pub(crate) fn interval(text: &str) -> Result<Duration, String> {
    let seconds = match text.parse::<f64>() {
        Ok(seconds) => seconds,
        Err(_) => parse_time(text)?.0 as f64 / 1e9,
    };
    // Shorter shows nothing readable, longer is a mistake: most often a process id.
    match (0.01..=3600.0).contains(&seconds) {
        true => Ok(Duration::from_secs_f64(seconds)),
        false if text.parse::<u32>().is_ok_and(|pid| pid > 3600) => Err(format!(
            "an interval is 10ms to 1h, such as 1 or 500ms; the cache of process {text} is --cache {text}"
        )),
        false => Err("an interval is 10ms to 1h, such as 1 or 500ms".into()),
    }
}

/// Lines between two headings.
const LINES: u64 = 20;

pub(crate) fn stat(args: &StatArgs) -> Result<ExitCode, Failure> {
    let mut cache = args.which.find()?;
    let mut before = match args.interval {
        None => json!({ "age_s": 0.0, "counters": {} }),
        Some(_) => ask(&mut cache, args)?,
    };
    let lines = args.count.unwrap_or(match args.interval {
        None => 1,
        Some(_) => u64::MAX,
    });
    let began = Instant::now();
    let mut stdout = io::stdout().lock();
    for line in 0..lines {
        if let Some(interval) = args.interval {
            // By the clock, so the time that the lines themselves take does not add up.
            let due = interval.saturating_mul(u32::try_from(line + 1).unwrap_or(u32::MAX));
            std::thread::sleep(due.saturating_sub(began.elapsed()));
        }
        let now = ask(&mut cache, args)?;
        let span = Span {
            before: &before,
            now: &now,
        };
        match (args.json, args.reclaim, args.reasons) {
            (false, ..) if args.stores => write!(stdout, "{}", stores::table(&span))?,
            _ if args.files => write!(stdout, "{}", reuse::shown(&span, args.json))?,
            (true, true, _) => writeln!(stdout, "{now}")?,
            (true, false, _) => writeln!(stdout, "{}", span.json())?,
            (false, true, _) => write!(stdout, "{}", reclaim::table(&span))?,
            (false, _, true) => write!(stdout, "{}", span.reasons())?,
            (false, _, false) => {
                if line % LINES == 0 {
                    write!(stdout, "{HEADING}")?;
                }
                writeln!(stdout, "{}", span.line())?;
            }
        }
        stdout.flush()?;
        before = now;
    }
    Ok(ExitCode::SUCCESS)
}

fn ask(cache: &mut Cache, args: &StatArgs) -> Result<Value, Failure> {
    let question = if args.reclaim { "reclaim" } else { "stat" };
    let mut answer = cache.ask(question)?.1;
    if args.files {
        answer["files"] = cache.ask(reuse::QUESTION)?.1;
        answer["about"] = super::with_source(cache.ask("about")?.1);
    }
    Ok(answer)
}

/// Two lines as wide as those below them.
const HEADING: &str = concat!(
    "---------- MiB of pages now --------- ---- reads/s ---- ------- writes/s ------ -- MiB/s -- - pages/s -  adm -dirtiers- ",
    "------- reads ------ ---- transit --\n",
    "   free  active   inact   dirty wback fault ahead  hits backg dirtr  recl  sync  read  writ  scan freed ms/s pause  now ",
    "   p50    p99   goal     now   limit\n"
);

/// Two successive answers to `stat`.
pub(crate) struct Span<'a> {
    pub(crate) before: &'a Value,
    pub(crate) now: &'a Value,
}

impl Span<'_> {
    pub(crate) fn seconds(&self) -> f64 {
        let age = |stat: &Value| stat["age_s"].as_f64().unwrap_or(0.0);
        (age(self.now) - age(self.before)).max(1e-6)
    }

    /// How much a counter has grown.
    fn grown(&self, name: &str) -> f64 {
        let of = |stat: &Value| count(&stat["counters"], name);
        of(self.now).saturating_sub(of(self.before)) as f64
    }

    pub(crate) fn rate(&self, name: &str) -> f64 {
        self.grown(name) / self.seconds()
    }

    /// The rate of a counter by reason, summed over the reasons that `wants` accepts.
    pub(crate) fn rates(&self, name: &str, wants: impl Fn(Reason) -> bool) -> f64 {
        let reasons = Reason::ALL.into_iter().filter(|&reason| wants(reason));
        reasons.map(|r| self.rate(&format!("{name}_{}", r.name()))).sum()
    }

    fn line(&self) -> String {
        let now = &self.now["now"];
        let page = count(self.now, "page_bytes") as f64;
        let mib = |name: &str| short(count(now, name) as f64 * page / 1048576.0);
        let requests = |reason: Reason| short(self.rate(&format!("io_requests_{}", reason.name())));
        let mib_s = |is_read: bool| short(self.rates("io_bytes", |r| r.is_read() == is_read) / 1048576.0);
        let time = |name: &str| {
            let ns = now[name].as_f64();
            ns.map_or("-".into(), |ns| micros(ns / 1e3).replace(' ', ""))
        };
        let bytes = |name: &str| {
            let bytes = now[name].as_u64();
            bytes.map_or("-".into(), |bytes| {
                size(Bytes(bytes)).replace([' ', 'i', 'B'], "")
            })
        };
        let asked = ["page_requests", "page_misses"];
        let [asked_for, missed] = asked.map(|name| self.grown(name) as u64);
        let [requests_ever, misses_ever] = asked.map(|name| count(&self.now["counters"], name));
        let hits = match reuse::hit_ratio_lately((asked_for, missed), (requests_ever, misses_ever)) {
            Some(ratio) => reuse::percent(Some(ratio)).replace('%', ""),
            None => "-".into(),
        };
        let held_back = self.rates("admission_wait_ns", |_| true) / 1e6;
        format!(
            "{:>7} {:>7} {:>7} {:>7} {:>5} {:>5} {:>5} {:>5} {:>5} {:>5} {:>5} {:>5} {:>5} {:>5} {:>5} {:>5} {:>4} {:>5} \
             {:>4} {:>6} {:>6} {:>6} {:>7} {:>7}",
            mib("free"),
            mib("active"),
            mib("inactive"),
            mib("dirty"),
            mib("writing"),
            requests(Reason::Fault),
            requests(Reason::ReadAhead),
            hits,
            requests(Reason::Background),
            requests(Reason::DirtierBlocked),
            requests(Reason::Reclaim),
            requests(Reason::Sync),
            mib_s(true),
            mib_s(false),
            short(self.rate("pgscan_kswapd") + self.rate("pgscan_direct")),
            short(self.rate("pgsteal_kswapd") + self.rate("pgsteal_direct")),
            short(held_back),
            short(self.rate("balance_dirty_pauses")),
            count(now, "dirtiers_blocked"),
            time("read_p50_ns"),
            time("read_p99_ns"),
            time("read_goal_ns"),
            bytes("in_transit_writes_bytes"),
            bytes("in_transit_limit_bytes"),
        )
    }

    /// A line for each reason with activity, below a heading.
    fn reasons(&self) -> String {
        let mut lines = format!(
            "{:16} {:>10} {:>9} {:>10} {:>12} {:>12}\n",
            "reason", "requests/s", "MiB/s", "mean", "held back/s", "for, ms/s"
        );
        for reason in Reason::ALL {
            let name = |counter: &str| format!("{counter}_{}", reason.name());
            let requests = self.grown(&name("io_requests"));
            let waits = self.grown(&name("admission_waits"));
            if requests + waits == 0.0 {
                continue;
            }
            let ms_held_back = self.rate(&name("admission_wait_ns")) / 1e6;
            let waited = |value: String| if reason.is_read() { "-".into() } else { value };
            lines += &format!(
                "{:16} {:>10} {:>9} {:>10} {:>12} {:>12}\n",
                reason.name(),
                number(requests / self.seconds()),
                number(self.rate(&name("io_bytes")) / 1048576.0),
                micros(self.grown(&name("io_ns")) / requests.max(1.0) / 1e3),
                waited(number(waits / self.seconds())),
                waited(number(ms_held_back)),
            );
        }
        lines + "\n"
    }

    fn json(&self) -> Value {
        let counters = self.now["counters"].as_object();
        // A maximum does not grow by the second.
        let growing = counters
            .into_iter()
            .flatten()
            .filter(|(name, _)| !name.contains("_max_"));
        let rates: Map<String, Value> = growing
            .map(|(name, _)| (format!("{name}_per_s"), self.rate(name).into()))
            .collect();
        json!({
            "age_s": self.now["age_s"],
            "interval_s": self.seconds(),
            "page_bytes": self.now["page_bytes"],
            "now": self.now["now"],
            "per_second": rates,
            "stores": Store::all(self),
            "counters": self.now["counters"],
        })
    }
}

/// A number in five columns, with as many digits as can be read at a glance.
pub(super) fn short(value: f64) -> String {
    match value {
        0.0 => "0".into(),
        v if v < 9.95 => format!("{v:.1}"),
        v if v < 99_999.5 => format!("{v:.0}"),
        v if v < 9_999_500.0 => format!("{:.0}k", v / 1e3),
        v => format!("{:.0}M", v / 1e6),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn stat(age_s: f64, times: u64) -> Value {
        json!({
            "age_s": age_s,
            "page_bytes": 4096,
            "now": {
                "frames": 1024, "free": 256, "active": 0, "inactive": 512, "dirty": 200, "writing": 56,
                "dirtiers_blocked": 2, "in_transit_writes_bytes": 524_288, "in_transit_limit_bytes": null,
                "read_p50_ns": 41_000, "read_p99_ns": 4_100_000, "read_goal_ns": null
            },
            "counters": {
                "io_requests_fault": 100 * times, "io_bytes_fault": (4 << 20) * times, "io_ns_fault": 200_000 * times,
                "io_requests_sync": 6 * times, "io_bytes_sync": (3 << 20) * times, "io_ns_sync": 60_000_000 * times,
                "admission_waits_sync": 2 * times, "admission_wait_ns_sync": 500_000_000 * times,
                "page_requests": 400 * times, "page_misses": 103 * times,
                "io_ns_max_sync": 7, "pgscan_kswapd": 40 * times, "pgsteal_kswapd": 30 * times,
                "balance_dirty_pauses": 4 * times
            }
        })
    }

    #[test]
    fn a_line_has_what_there_is_and_what_was_done_a_second_below_the_right_headings() {
        let (before, now) = (stat(10.0, 3), stat(12.0, 4));
        let span = Span {
            before: &before,
            now: &now,
        };
        let line = span.line();
        let words: Vec<_> = line.split_whitespace().collect();
        let heading: Vec<_> = HEADING.lines().nth(1).unwrap().split_whitespace().collect();
        assert_eq!(words.len(), heading.len());
        for (name, value) in [
            ("free", "1.0"),
            ("inact", "2.0"),
            ("wback", "0.2"),
            ("fault", "50"),
            ("hits", "74.2"),
            ("sync", "3.0"),
            ("read", "2.0"),
            ("writ", "1.5"),
            ("scan", "20"),
            ("freed", "15"),
            ("ms/s", "250"),
            ("pause", "2.0"),
            ("p50", "41.0us"),
            ("p99", "4.10ms"),
            ("goal", "-"),
            ("limit", "-"),
        ] {
            let at = heading.iter().position(|word| *word == name).unwrap();
            assert_eq!(words[at], value, "{name} in\n{HEADING}{line}");
        }
        assert!(
            HEADING.lines().all(|h| h.len() == line.len()),
            "\n{HEADING}{line}"
        );
    }

    #[test]
    fn reasons_are_those_for_which_something_was_done() {
        let (before, now) = (stat(10.0, 3), stat(12.0, 4));
        let span = Span {
            before: &before,
            now: &now,
        };
        let text = span.reasons();
        let sync = text.lines().find(|line| line.starts_with("sync")).unwrap();
        let words: Vec<_> = sync.split_whitespace().collect();
        assert_eq!(words, ["sync", "3.00", "1.50", "10.0", "ms", "1.00", "250"]);
        assert!(!text.contains("reclaim"), "{text}");
        let json = span.json();
        assert_eq!(json["per_second"]["io_requests_sync_per_s"], 3.0);
        assert!(json["per_second"]["io_ns_max_sync_per_s"].is_null());
    }

    #[test]
    fn intervals_are_seconds_or_times() {
        assert_eq!(interval("1"), Ok(Duration::from_secs(1)));
        assert_eq!(interval("0.5"), Ok(Duration::from_millis(500)));
        assert_eq!(interval("20ms"), Ok(Duration::from_millis(20)));
        for text in ["0", "-1", "nan", "inf", "5 weeks", "1e9"] {
            assert!(interval(text).is_err(), "{text}");
        }
    }
}
