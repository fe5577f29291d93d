//! What a call that waits costs a runtime on whose thread it is made, and what it costs to make it elsewhere: the tables of
//! `docs/ASYNC.md`.
//!
//! `cargo run --release -p millpond --features tokio --example async_cost -- [folder] [seconds] [rounds]`
//!
//! The folder should be on the disk that is asked about; a file of 256 MiB is made there, and removed. In the second table 16
//! tasks on a runtime of two threads read a page or write and sync one, again and again, and one more is woken every
//! millisecond by a thread outside: how late it runs is what every other task of the runtime feels.
#![allow(clippy::print_stdout, reason = "it prints its figures")]

use millpond::{AsyncFile, File, OpenOptions, PageCache, Result};
use std::hint::black_box;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};
use tokio::runtime::{Builder, Runtime};
use tokio::sync::mpsc::unbounded_channel;
use tokio::task::spawn_blocking;

const PAGES: u64 = 256 << 8;
/// The number of pages used all the time, which stay in memory.
const HOT: u64 = 16 << 8;
const TASKS: u64 = 16;

/// How a task makes a call that may wait.
#[derive(Clone, Copy)]
enum Way {
    OnItsThread,
    OnThePool,
    AsyncFile,
}

const WAYS: [(&str, Way); 3] = [
    ("in the task, `file.page(n)`", Way::OnItsThread),
    ("`spawn_blocking` for each call", Way::OnThePool),
    ("`AsyncFile`", Way::AsyncFile),
];

/// The tasks' work.
#[derive(Clone, Copy)]
enum Work {
    /// The number of pages in a thousand that are not in memory.
    Reads(u64),
    Syncs,
}

const WORKS: [(&str, Work); 4] = [
    ("pages, all in memory", Work::Reads(0)),
    ("pages, one in 20 missing", Work::Reads(50)),
    ("pages, all missing", Work::Reads(1000)),
    ("a page written and synced", Work::Syncs),
];

fn draw(state: &mut u64) -> u64 {
    *state ^= *state << 13;
    *state ^= *state >> 7;
    *state ^= *state << 17;
    *state >> 11
}

async fn call(file: &AsyncFile, (way, work): (Way, Work), random: &mut u64) -> Result<()> {
    let byte = match work {
        Work::Reads(missing) => {
            let page = match draw(random) % 1000 < missing {
                true => HOT + draw(random) % (PAGES - HOT),
                false => draw(random) % HOT,
            };
            let own = file.get_ref().clone();
            match way {
                Way::OnItsThread => file.get_ref().page(page)?[0],
                Way::OnThePool => pool(move || Ok(own.page(page)?[0])).await?,
                Way::AsyncFile => file.page(page).await?[0],
            }
        }
        Work::Syncs => {
            let page = draw(random) % HOT;
            let write = move |file: &File| {
                file.write_at(&[1; 4096], page << 12)?;
                file.sync_data()
            };
            let own = file.get_ref().clone();
            match way {
                Way::OnItsThread => write(file.get_ref())?,
                Way::OnThePool => pool(move || write(&own)).await?,
                Way::AsyncFile => {
                    file.write_at([1; 4096], page << 12).await?;
                    file.sync_data().await?;
                }
            }
            1
        }
    };
    black_box(byte);
    Ok(())
}

async fn pool<T: Send + 'static>(call: impl FnOnce() -> Result<T> + Send + 'static) -> Result<T> {
    joined(spawn_blocking(call).await)
}

/// A task's result.
fn joined<T>(done: std::result::Result<T, tokio::task::JoinError>) -> T {
    done.unwrap_or_else(|error| std::panic::resume_unwind(error.into_panic()))
}

/// Calls, and how late the task that is woken every millisecond has run.
#[derive(Default)]
struct Row {
    calls: u64,
    late: Vec<Duration>,
}

fn run(file: &AsyncFile, what: Option<(Way, Work)>, span: Duration) -> Result<Row> {
    let runtime: Runtime = Builder::new_multi_thread()
        .worker_threads(2)
        .build()
        .map_err(setup)?;
    let over = Arc::new(AtomicBool::new(false));
    let calls = Arc::new(AtomicU64::new(0));
    let tasks = what.map_or(0, |_| TASKS);
    let work = |n: u64| {
        let (file, over, calls) = (file.clone(), over.clone(), calls.clone());
        runtime.spawn(async move {
            let mut random = 88_172_645_463_325_252 + n;
            while let (false, Some(what)) = (over.load(Ordering::Relaxed), what) {
                for _ in 0..16 {
                    call(&file, what, &mut random).await?;
                    calls.fetch_add(1, Ordering::Relaxed);
                }
                // A task that waits on its thread has to let others have their turn, too.
                tokio::task::yield_now().await;
            }
            Result::Ok(())
        })
    };
    let tasks: Vec<_> = (0..tasks).map(work).collect();
    let (send, mut receive) = unbounded_channel::<Instant>();
    let woken = runtime.spawn(async move {
        let mut late = Vec::new();
        while let Some(sent) = receive.recv().await {
            late.push(sent.elapsed());
        }
        late
    });
    let began = Instant::now();
    while began.elapsed() < span {
        std::thread::sleep(Duration::from_millis(1));
        let _ = send.send(Instant::now());
    }
    drop(send);
    let calls = calls.load(Ordering::Relaxed);
    over.store(true, Ordering::Relaxed);
    for task in tasks {
        joined(runtime.block_on(task))?;
    }
    let late = joined(runtime.block_on(woken));
    Ok(Row { calls, late })
}

fn setup(source: std::io::Error) -> millpond::Error {
    let what = "a runtime";
    millpond::Error::Setup { what, source }
}

fn show(name: &str, row: &mut Row, span: Duration) {
    row.late.sort_unstable();
    let late = |part: f64| {
        let at = (row.late.len() as f64 * part) as usize;
        let last = row.late.len().saturating_sub(1);
        let late = row.late.get(at.min(last)).copied().unwrap_or_default();
        late.as_secs_f64() * 1e3
    };
    let rate = row.calls as f64 / span.as_secs_f64();
    println!(
        "| {name:31} | {rate:11.0} | {:7.3} | {:7.3} | {:7.3} |",
        late(0.5),
        late(0.99),
        late(1.0)
    );
}

/// Nanoseconds that a call takes whose page is in memory: the least of nine rounds.
fn hits(file: &AsyncFile) -> Result<()> {
    const CALLS: u64 = 100_000;
    let runtime = Builder::new_current_thread().build().map_err(setup)?;
    let sync = file.get_ref();
    let (mut random, mut buf) = (1, [0; 4096]);
    for way in 0..7 {
        let calls = if way == 6 { CALLS / 100 } else { CALLS };
        let mut round = || {
            let began = Instant::now();
            runtime.block_on(async {
                for _ in 0..calls {
                    let page = draw(&mut random) % 256;
                    let byte = match way {
                        0 => sync.page(page)?[0],
                        1 => sync.page_owned(page)?[0],
                        2 => sync.try_page_owned(page)?.map_or(0, |page| page[0]),
                        3 => file.page(page).await?[0],
                        4 => sync.read_at(&mut buf, page << 12)? as u8,
                        5 => file.read_at(&mut buf, page << 12).await? as u8,
                        _ => {
                            let own = sync.clone();
                            pool(move || Ok(own.page(page)?[0])).await?
                        }
                    };
                    black_box(byte);
                }
                Result::Ok(())
            })?;
            Result::Ok(began.elapsed().as_nanos() as f64 / calls as f64)
        };
        let mut least = f64::INFINITY;
        for _ in 0..9 {
            least = least.min(round()?);
        }
        let name = [
            "`File::page`",
            "`File::page_owned`",
            "`File::try_page_owned`",
            "`AsyncFile::page`",
            "`File::read_at` of 4 KiB",
            "`AsyncFile::read_at` of 4 KiB",
            "`spawn_blocking` with `File::page`",
        ][way];
        println!("| {name:34} | {least:8.0} |");
    }
    Ok(())
}

fn main() -> std::result::Result<(), Box<dyn std::error::Error>> {
    let mut arguments = std::env::args().skip(1);
    let folder = arguments.next().map_or_else(std::env::temp_dir, Into::into);
    let span = Duration::from_secs(arguments.next().map_or(Ok(2), |text| text.parse())?);
    let rounds = arguments.next().map_or(Ok(3), |text| text.parse::<usize>())?;
    let path = folder.join(format!("millpond-async-cost-{}", std::process::id()));
    let cache = PageCache::builder().memory(64 << 20).build()?;
    let file = cache.open(&path, OpenOptions::new().create_new(true))?;
    for chunk in 0..PAGES >> 8 {
        file.write_at(&vec![1; 1 << 20], chunk << 20)?;
    }
    file.sync_data()?;
    file.advise(millpond::Advice::Random)?;
    for page in (0..HOT).chain(0..HOT) {
        drop(file.page(page)?);
    }
    let file = AsyncFile::new(file);
    println!("| a page in memory                   | ns       |");
    println!("|---|--:|");
    hits(&file)?;
    println!("\n|                                 | calls a s   | p50, ms | p99, ms | max, ms |");
    println!("|---|--:|--:|--:|--:|");
    show("nothing but the task woken", &mut run(&file, None, span)?, span);
    for (name, work) in WORKS {
        println!("| **{name}** | | | | |");
        // In turns, so that what else the machine does is in all of them.
        let mut rows = [(); 3].map(|()| Row::default());
        for _ in 0..rounds {
            for (row, (_, way)) in rows.iter_mut().zip(WAYS) {
                let more = run(&file, Some((way, work)), span)?;
                row.calls += more.calls;
                row.late.extend(more.late);
            }
        }
        for (row, (name, _)) in rows.iter_mut().zip(WAYS) {
            show(name, row, span * rounds as u32);
        }
    }
    drop(file);
    drop(cache);
    Ok(std::fs::remove_file(path)?)
}
