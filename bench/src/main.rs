//! `millpond-bench hits`, `misses` and `redb`: tables of Millpond beside others.

use anyhow::{Result, ensure};
use clap::{Parser, Subcommand};
use millpond_bench::{hits, machine, misses, redb_speed, say};
use std::io::{self, Write};
use std::path::PathBuf;

/// Millpond beside other caches, and redb on Millpond.
#[derive(Parser)]
#[command(version)]
struct Arguments {
    #[command(subcommand)]
    command: What,
}

#[derive(Subcommand)]
enum What {
    /// What a hit costs: a page got, eight bytes read, let go. Takes memory of eight times the largest set.
    Hits {
        /// Where files are made, which are gone afterwards.
        #[arg(long, default_value = "/var/tmp")]
        dir: PathBuf,
        /// Sizes of the set of pages, in MiB.
        #[arg(long, value_delimiter = ',', default_values_t = [16, 1024])]
        mib: Vec<u64>,
        /// Numbers of threads.
        #[arg(long, value_delimiter = ',', default_values_t = [1, 2])]
        threads: Vec<usize>,
        /// How often each cell is measured.
        #[arg(long, default_value_t = 31)]
        rounds: usize,
        /// How long a measurement takes, in milliseconds.
        #[arg(long, default_value_t = 4)]
        slice_ms: u64,
    },
    /// Reads of a file four times as large as the memory. As root, so that the kernel's page cache can be limited.
    Misses {
        /// Where the file is made, which is gone afterwards.
        #[arg(long, default_value = "/var/tmp")]
        dir: PathBuf,
        /// What each cache has, in MiB.
        #[arg(long, default_value_t = 256)]
        memory_mib: u64,
        /// How long is read in a run, in milliseconds.
        #[arg(long, default_value_t = 6000)]
        read_ms: u64,
        /// Runs of each cache.
        #[arg(long, default_value_t = 3)]
        rounds: usize,
    },
    /// redb on Millpond and on its own file, at equal memory. As root, so that the kernel's page cache can be limited.
    Redb {
        /// Where databases are made, which are gone afterwards.
        #[arg(long, default_value = "/var/tmp")]
        dir: PathBuf,
        /// What redb's cache and the file's have together, in MiB.
        #[arg(long, default_value_t = 128)]
        memory_mib: u64,
        /// Rows that are loaded, of 158 bytes.
        #[arg(long, default_value_t = 1_000_000)]
        rows: u64,
        /// How long each kind of reading takes, in milliseconds.
        #[arg(long, default_value_t = 3000)]
        read_ms: u64,
        /// Transactions of one row.
        #[arg(long, default_value_t = 1000)]
        commits: u64,
        /// Runs of each variant.
        #[arg(long, default_value_t = 3)]
        rounds: usize,
    },
    /// One run of `misses`.
    #[command(hide = true)]
    MissesRun {
        /// What it is, as JSON.
        run: String,
    },
    /// One run of `redb`.
    #[command(hide = true)]
    RedbRun {
        /// What it is, as JSON.
        run: String,
    },
}

fn main() -> Result<()> {
    let mut progress = |line: String| say(&line);
    let text = match Arguments::parse().command {
        What::Hits {
            dir,
            mib,
            threads,
            rounds,
            slice_ms,
        } => {
            ensure!(mib.iter().all(|&mib| mib > 0), "--mib is at least 1");
            ensure!(threads.iter().all(|&n| n > 0), "--threads is at least 1");
            let sizes = mib.iter().map(|mib| mib << 20).collect();
            let plan = hits::Plan {
                sizes,
                threads,
                rounds,
                slice_ms,
            };
            machine::describe() + &hits::run(&plan, &dir, &mut progress)?
        }
        What::Redb {
            dir,
            memory_mib,
            rows,
            read_ms,
            commits,
            rounds,
        } => {
            ensure!(memory_mib >= 16, "--memory-mib is at least 16");
            let memory = memory_mib << 20;
            let plan = redb_speed::Plan {
                memory,
                rows,
                read_ms,
                commits,
                rounds,
            };
            machine::describe() + &redb_speed::measure(&plan, &dir, &mut progress)?
        }
        What::Misses {
            dir,
            memory_mib,
            read_ms,
            rounds,
        } => {
            ensure!(
                memory_mib.is_power_of_two() && memory_mib >= 16,
                "--memory-mib is 16, 32, 64, ..."
            );
            let memory = memory_mib << 20;
            let plan = misses::Plan {
                memory,
                read_ms,
                rounds,
            };
            machine::describe() + &misses::measure(&plan, &dir, &mut progress)?
        }
        What::MissesRun { run } => serde_json::to_string(&misses::run(&serde_json::from_str(&run)?)?)?,
        What::RedbRun { run } => serde_json::to_string(&redb_speed::run(&serde_json::from_str(&run)?)?)?,
    };
    Ok(io::stdout().write_all(text.as_bytes())?)
}
