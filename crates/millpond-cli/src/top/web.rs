//! `millpond top --web`: the figures of the screen for a browser, with plots of the last minutes.
//!
//! ```text
//!   GET /KEY/          the page: one file, nothing from elsewhere
//!   GET /KEY/caches    which caches there are
//!   GET /KEY/figures   ?cache=SOCKET&sort=ORDER&since=SECONDS: figures now, and points of plots that are newer
//! ```
//!
//! The key in the path is drawn anew each time: other users of this machine can reach the port, and must not see paths
//! of files. A cache is asked when a page asks, at most once an interval: without a page it costs nothing. The history
//! for plots is kept here, so a reloaded page has it: 600 points a cache.

use super::figures::{Figures, ORDERS, Sample};
use super::{TopArgs, sockets};
use crate::control::{Cache, running};
use crate::failure::Failure;
use crate::signals::Signals;
use millpond::internal::http::{Answer, Asked, Server};
use serde_json::{Value, json};
use std::collections::{HashMap, VecDeque};
use std::fmt::Write as _;
use std::io::{self, Read, Write};
use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::{Duration, Instant};

const PAGE: &str = include_str!("page.html");

/// Ten minutes with a point each second.
const POINTS: usize = 600;

/// How long a signal may stay unnoticed.
const LOOK_EVERY: Duration = Duration::from_millis(50);

pub(super) fn serve(args: &TopArgs, address: SocketAddr) -> Result<ExitCode, Failure> {
    // A missing cache is better reported now.
    let first = sockets(&args.which)?.remove(0);
    let signals = Signals::catch()?;
    let key = key()?;
    let mut pages = Pages {
        base: format!("/{key}/"),
        interval: args.interval,
        sort: args.sort.clone(),
        only: args.which.is_given().then_some(first),
        watched: HashMap::new(),
    };
    let server = Server::start(address, "millpond-web", move |asked| pages.answer(asked));
    let server = server.map_err(|error| {
        Failure::bad_usage(format!("--web {address}: {error}; --web 0 picks a free port"))
    })?;
    let mut stdout = io::stdout().lock();
    writeln!(stdout, "http://{}/{key}/", server.address())?;
    stdout.flush()?;
    say!("millpond top: open this in a browser; whoever has the address can read it; Ctrl-C ends it");
    loop {
        if let Some(signal) = signals.caught() {
            return Ok(ExitCode::from(128 + signal));
        }
        std::thread::sleep(LOOK_EVERY);
    }
}

/// 128 random bits.
fn key() -> io::Result<String> {
    let mut bytes = [0; 16];
    std::fs::File::open("/dev/urandom")?.read_exact(&mut bytes)?;
    let mut key = String::new();
    for byte in bytes {
        // Writing to a string does not fail.
        let _ = write!(key, "{byte:02x}");
    }
    Ok(key)
}

/// The state of a cache that a page shows.
struct Watched {
    cache: Cache,
    before: Sample,
    now: Sample,
    asked: Instant,
    /// Files in the orders that other pages have requested, and the time of the request.
    files: HashMap<String, (Instant, Value)>,
    points: VecDeque<Value>,
}

struct Pages {
    base: String,
    interval: Duration,
    sort: String,
    /// The one requested cache.
    only: Option<PathBuf>,
    watched: HashMap<PathBuf, Watched>,
}

impl Pages {
    fn answer(&mut self, asked: &Asked<'_>) -> Answer {
        let Some(rest) = asked.path.strip_prefix(&self.base) else {
            return Answer::refused(
                404,
                "the address contains a key: use the address that `millpond top --web` has printed",
            );
        };
        let json = |value: Value| Answer::ok("application/json", value.to_string());
        match rest {
            "" => Answer::ok("text/html; charset=utf-8", PAGE),
            "caches" => json(self.caches()),
            "figures" => match self.figures(asked.query) {
                Ok(figures) => json(figures),
                Err(failure) => json(json!({ "error": failure.message })),
            },
            _ => Answer::refused(404, "there is no such page"),
        }
    }

    fn caches(&self) -> Value {
        let found = match &self.only {
            Some(only) => Cache::connect(only)
                .and_then(|mut cache| Ok(vec![(only.clone(), cache.ask("about")?.1)]))
                .unwrap_or_default(),
            None => running(),
        };
        let one = |(socket, about): (PathBuf, Value)| {
            json!({
                "socket": socket.display().to_string(),
                "name": about["name"],
                "program": about["program"],
                "pid": about["pid"],
                "memory_bytes": about["memory_bytes"],
            })
        };
        json!({
            "interval_s": self.interval.as_secs_f64(),
            "sort": self.sort,
            "sorts": ORDERS,
            "caches": found.into_iter().map(one).collect::<Vec<_>>(),
        })
    }

    fn figures(&mut self, query: &str) -> Result<Value, Failure> {
        let query: HashMap<_, _> = query.split('&').filter_map(|pair| pair.split_once('=')).collect();
        let value = |name: &str| query.get(name).map(|text| decoded(text)).unwrap_or_default();
        let sort = ORDERS.iter().find(|(name, _)| *name == value("sort"));
        let sort = sort.map_or(ORDERS[0].0, |order| order.0);
        // Only sockets of caches: a page must not make us connect anywhere else.
        let socket = PathBuf::from(value("cache"));
        let is_known = self.watched.contains_key(&socket) || self.only.as_ref() == Some(&socket);
        if !is_known && (self.only.is_some() || !running().iter().any(|(found, _)| *found == socket)) {
            self.watched.remove(&socket);
            return Err(Failure::bad_usage("this cache has ended, or there was none"));
        }
        let since: f64 = value("since").parse().unwrap_or(0.0);
        match self.watch(&socket, sort, since) {
            Ok(answer) => Ok(answer),
            Err(failure) => {
                self.watched.remove(&socket);
                Err(failure)
            }
        }
    }

    fn watch(&mut self, socket: &PathBuf, sort: &str, since: f64) -> Result<Value, Failure> {
        if !self.watched.contains_key(socket) {
            let mut cache = Cache::connect(socket)?;
            let now = Sample::ask(&mut cache, sort)?;
            let watched = Watched {
                cache,
                before: now.beginning(),
                now,
                asked: Instant::now(),
                files: HashMap::new(),
                points: VecDeque::new(),
            };
            self.watched.insert(socket.clone(), watched);
        }
        let Some(watched) = self.watched.get_mut(socket) else {
            return Err(Failure::bad_usage("there is no such cache"));
        };
        // A little less, so a page that asks each interval gets something new each time. Pages share the answers.
        let fresh = self.interval.mul_f64(0.9);
        if watched.asked.elapsed() >= fresh {
            // In the order of the first page that asks; the others request files only.
            let now = Sample::ask(&mut watched.cache, sort)?;
            watched.asked = Instant::now();
            watched.before = std::mem::replace(&mut watched.now, now);
            let point = point(&Figures::of(&watched.before, &watched.now));
            watched.points.push_back(point);
            if watched.points.len() > POINTS {
                watched.points.pop_front();
            }
        }
        let mut shown = watched.now.clone();
        if shown.files["order"] != sort {
            let known = watched
                .files
                .get(sort)
                .filter(|(asked, _)| asked.elapsed() < fresh);
            shown.files = match known {
                Some((_, files)) => files.clone(),
                None => {
                    let files = Sample::files(&mut watched.cache, sort)?;
                    let asked = (Instant::now(), files.clone());
                    watched.files.insert(sort.into(), asked);
                    files
                }
            };
        }
        let figures = Figures::of(&watched.before, &shown);
        let is_new = |point: &&Value| point["t"].as_f64().is_some_and(|t| t > since);
        let points: Vec<_> = watched.points.iter().filter(is_new).collect();
        let figures = serde_json::to_value(&figures).map_err(io::Error::other)?;
        Ok(json!({ "figures": figures, "points": points }))
    }
}

/// The values that plots need of one moment.
fn point(figures: &Figures) -> Value {
    let (m, r, rates) = (&figures.memory, &figures.reads, &figures.rates);
    json!({
        "t": figures.age_s,
        "active": m.clean_active, "inactive": m.clean_inactive + m.loading, "dirty": m.dirty, "writing": m.writing,
        "anonymous": m.anonymous, "free": m.free, "frames": m.frames, "second_chance": m.second_chance, "lent": m.lent,
        "background": m.dirty_background, "hard": m.dirty_hard,
        "p50": r.p50_ns, "p99": r.p99_ns, "goal": r.goal_ns,
        "transit": r.in_transit_bytes, "in_transit_limit": r.in_transit_limit_bytes,
        "read": rates.read_bytes, "write": rates.write_bytes,
        "faults": rates.faults, "refaults": rates.refaults, "scanned": rates.scanned, "freed": rates.freed,
        "held": figures.waits.iter().filter(|w| w.who == "writes").filter_map(|w| w.ms).sum::<f64>(),
        "waited": figures.waits.iter().filter(|w| w.who == "callers").filter_map(|w| w.ms).sum::<f64>(),
    })
}

/// Decodes a word of a query: `%2F` is `/`.
fn decoded(text: &str) -> String {
    let mut bytes = Vec::new();
    let mut rest = text.as_bytes();
    while let Some((&first, after)) = rest.split_first() {
        let hex = after
            .get(..2)
            .filter(|_| first == b'%')
            .and_then(|hex| std::str::from_utf8(hex).ok())
            .and_then(|hex| u8::from_str_radix(hex, 16).ok());
        match hex {
            Some(byte) => {
                bytes.push(byte);
                rest = &after[2..];
            }
            None => {
                bytes.push(if first == b'+' { b' ' } else { first });
                rest = after;
            }
        }
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_query_is_read_as_it_was_meant() {
        assert_eq!(decoded("%2Frun%2fa+b%"), "/run/a b%");
        assert_eq!(decoded("%zz%4"), "%zz%4");
    }

    #[test]
    fn without_the_key_there_is_nothing_and_no_socket_of_others_is_connected_to() {
        let key = key().unwrap();
        assert!(key.len() == 32 && key != super::key().unwrap());
        let mut pages = Pages {
            base: format!("/{key}/"),
            interval: Duration::from_secs(1),
            sort: "resident".into(),
            only: Some("/not/there.sock".into()),
            watched: HashMap::new(),
        };
        let mut ask = |path: &str, query: &str| pages.answer(&Asked { path, query });
        for path in ["/", "/figures", "/caches", &format!("/{key}")] {
            assert_eq!(ask(path, "").status, 404, "{path}");
        }
        assert_eq!(ask(&format!("/{key}/"), "").status, 200);
        let answer = ask(&format!("/{key}/figures"), "cache=/run/other.sock");
        let answer: Value = serde_json::from_slice(&answer.body).unwrap();
        assert_eq!(answer["error"], "this cache has ended, or there was none");
        let answer = ask(&format!("/{key}/caches"), "");
        let answer: Value = serde_json::from_slice(&answer.body).unwrap();
        assert_eq!(answer["caches"], json!([]));
    }

    /// One file, nothing from elsewhere: the page only requests paths below its own address.
    #[test]
    fn the_page_needs_no_network() {
        let without_namespace = PAGE.replace("http://www.w3.org/2000/svg", "");
        assert!(!without_namespace.contains("http://") && !without_namespace.contains("https://"));
        assert!(!PAGE.contains("src=") && !PAGE.contains("@import"));
    }
}
