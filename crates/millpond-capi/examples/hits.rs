//! How long a hit takes from C beside one from Rust: get a page, read eight bytes, put it; one thread and two, in turn.
//!
//! `cargo run --release -p millpond-capi --example hits [SECONDS [ROUNDS]]`, on a quiet machine with `cc`. C is linked both
//! ways. The pages, 16 MiB of them, are all in memory.

#![allow(clippy::print_stdout, reason = "it is for its table")]

use millpond::{OpenOptions, PageCache};
use std::error::Error;
use std::path::Path;
use std::process::Command;
use std::thread;
use std::time::{Duration, Instant};

type Result<T> = std::result::Result<T, Box<dyn Error>>;

const PAGES: u64 = 4096;
const BATCH: u64 = 10_000;

/// What each thread takes for a hit, in nanoseconds.
fn hits(path: &Path, threads: u64, span: Duration) -> Result<Vec<f64>> {
    let cache = PageCache::builder()
        .memory(PAGES * 4096 * 2 + (8 << 20))
        .build()?;
    let file = cache.open(path, OpenOptions::new())?;
    for page in 0..PAGES {
        drop(file.page(page)?);
    }
    let one = |seed: u64| -> millpond::Result<f64> {
        let (mut random, mut sum, mut count) = (seed * 2_654_435_761 + 1, 0_u64, 0);
        // As in C, where it is an argument: a number that the compiler knows is no division.
        let pages = std::hint::black_box(PAGES);
        let begin = Instant::now();
        while begin.elapsed() < span {
            for _ in 0..BATCH {
                random ^= random << 13;
                random ^= random >> 7;
                random ^= random << 17;
                let page = file.page(random % pages)?;
                let eight = page.first_chunk().copied().unwrap_or_default();
                sum = sum.wrapping_add(u64::from_ne_bytes(eight));
            }
            count += BATCH;
        }
        assert_ne!(std::hint::black_box(sum), 1);
        Ok(begin.elapsed().as_nanos() as f64 / count as f64)
    };
    thread::scope(|scope| {
        let running: Vec<_> = (0..threads).map(|seed| scope.spawn(move || one(seed))).collect();
        let joined = running.into_iter().map(|thread| thread.join());
        joined
            .map(|took| Ok(took.map_err(|_| "a thread has panicked")??))
            .collect()
    })
}

fn run(command: &mut Command) -> Result<String> {
    let output = command.output()?;
    match output.status.success() {
        true => Ok(String::from_utf8(output.stdout)?),
        false => Err(format!("{command:?}: {}", String::from_utf8_lossy(&output.stderr)).into()),
    }
}

fn compile(folder: &Path, is_static: bool) -> Result<std::path::PathBuf> {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    let to = folder.join(if is_static { "static" } else { "shared" });
    // Examples are in a folder within that of the libraries.
    let own = std::env::current_exe()?;
    let libraries = own.ancestors().nth(2).ok_or("no folder of libraries")?;
    let mut command = Command::new("cc");
    command.args(["-O2", "-std=c11", "-D_POSIX_C_SOURCE=200809L", "-I"]);
    command
        .arg(here.join("include"))
        .arg(here.join("examples/hits.c"));
    match is_static {
        true => command.arg(libraries.join("libmillpond_capi.a")),
        false => command
            .arg(libraries.join("libmillpond_capi.so"))
            .arg(format!("-Wl,-rpath,{}", libraries.display())),
    };
    run(command.args(["-pthread", "-ldl", "-lm", "-o"]).arg(&to))?;
    Ok(to)
}

fn median(mut of: Vec<f64>) -> f64 {
    of.sort_by(f64::total_cmp);
    of.get(of.len() / 2).copied().unwrap_or(f64::NAN)
}

fn main() -> Result<()> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    if let [mode, path, threads, seconds] = &arguments[..]
        && mode == "rust"
    {
        let took = hits(
            Path::new(path),
            threads.parse()?,
            Duration::from_secs_f64(seconds.parse()?),
        )?;
        took.iter().for_each(|took| println!("{took:.2}"));
        return Ok(());
    }
    let seconds = arguments.first().map_or("2", String::as_str);
    let rounds: usize = arguments.get(1).map_or(Ok(5), |rounds| rounds.parse())?;
    let folder = std::env::temp_dir().join(format!("millpond-hits-{}", std::process::id()));
    std::fs::create_dir(&folder)?;
    let file = folder.join("file");
    std::fs::write(&file, vec![7; (PAGES * 4096) as usize])?;
    let pages = PAGES.to_string();
    let ways = [
        ("Rust", std::env::current_exe()?, "rust", file.to_str()),
        (
            "C, shared library",
            compile(&folder, false)?,
            file.to_str().unwrap_or(""),
            Some(&*pages),
        ),
        (
            "C, static library",
            compile(&folder, true)?,
            file.to_str().unwrap_or(""),
            Some(&*pages),
        ),
    ];
    let mut took = vec![[Vec::new(), Vec::new()]; ways.len()];
    for _ in 0..rounds {
        for (n, (_, program, first, second)) in ways.iter().enumerate() {
            for threads in [1, 2] {
                let mut command = Command::new(program);
                command.arg(first).arg(second.ok_or("a path that is no text")?);
                let said = run(command.arg(threads.to_string()).arg(seconds))?;
                // What the cache does in a second with that many threads, as one thread's nanoseconds.
                let rate: f64 = said
                    .lines()
                    .filter_map(|line| line.parse::<f64>().ok())
                    .map(f64::recip)
                    .sum();
                took[n][threads - 1].push(rate.recip());
            }
        }
    }
    std::fs::remove_dir_all(&folder)?;
    let medians: Vec<_> = took.into_iter().map(|each| each.map(median)).collect();
    println!(
        "| | one thread, ns a hit | two threads, ns a hit of both | beside Rust, one thread | two beside one |"
    );
    println!("|---|---|---|---|---|");
    for ((name, ..), [one, two]) in ways.iter().zip(&medians) {
        println!(
            "| {name} | {one:.1} | {two:.1} | {:.2} | {:.2} |",
            one / medians[0][0],
            one / two
        );
    }
    Ok(())
}
