//! The cost of a region's fault here, compared with the kernel's swap with the same memory and the same disk.
//!
//! `cargo run --release -p millpond --example region_faults -- [MiB] [budget MiB] [seconds] [rounds] [folder] [cases]
//! [systems]`
//!
//! Each round runs each case on each system, in a process of its own, one after the other: `region` (faults served by the
//! cache's threads), `in-thread` (by the thread that touches), `kernel` (a plain anonymous mapping in a memory group of the
//! budget's size, with a swap file; needs root, `mkswap` and `swapon`), and `kernel-0`, the same with vm.page-cluster=0.
//! All four, unless some are named, as in `in-thread,kernel`. The settings are put back afterwards.
//!
//! Cases: `floor`, and one of these with a number of threads, as in `floor,read1,write8`: `read` and `write` touch pages at
//! random, `scan` one after the other, `record` goes through records of 64 pages at random, and `rewrite` writes every
//! second one of them.
//!
//! Random cases touch pages of memory that was filled before, and run twice as long as they are measured, so that what is
//! read is clean. A touch that took at least 20 us is a swap-in: no device is faster, and no other fault that slow. The
//! processor's time is that of all threads of the process.

use millpond::{Faults, PageCache, RegionOptions, SwapFile};
use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Mutex;
use std::time::{Duration, Instant};

const PAGE: usize = 4096;
/// Bytes of a record.
const RECORD: usize = 64 * PAGE;
const SWAP_IN_NS: u64 = 20_000;
const GROUPS: [(&str, &str); 2] = [
    ("/sys/fs/cgroup/memory", "memory.limit_in_bytes"),
    ("/sys/fs/cgroup", "memory.max"),
];
const PAGE_CLUSTER: &str = "/proc/sys/vm/page-cluster";

type Result<T> = std::result::Result<T, Box<dyn std::error::Error>>;

/// Nanoseconds of processor time of all threads so far.
fn processor_ns() -> u64 {
    let Ok(tasks) = fs::read_dir("/proc/self/task") else {
        return 0;
    };
    let of = |task: fs::DirEntry| {
        let text = fs::read_to_string(task.path().join("schedstat")).ok()?;
        text.split_ascii_whitespace().next()?.parse::<u64>().ok()
    };
    tasks.flatten().filter_map(of).sum()
}

fn random(state: &mut u64) -> u64 {
    *state = state
        .wrapping_mul(6_364_136_223_846_793_005)
        .wrapping_add(1_442_695_040_888_963_407);
    *state >> 33
}

/// The time of one case.
struct Took {
    name: String,
    ns: Vec<u64>,
    cpu_ns: u64,
    seconds: f64,
}

impl Took {
    /// One line of words for the parent.
    fn print(mut self) {
        self.ns.sort_unstable();
        let (touches, all) = (self.ns.len(), &self.ns[..]);
        let at = |of: &[u64], share: usize| match of.len() {
            0 => 0.0,
            len => of[(len - 1) * share / 1000] as f64 / 1000.0,
        };
        let swap_ins = &all[all.partition_point(|&ns| ns < SWAP_IN_NS)..];
        let cpu = self.cpu_ns as f64 / 1000.0 / touches as f64;
        let _ = writeln!(
            std::io::stdout(),
            "row {} {} {} {} {} {} {}",
            self.name,
            at(all, 500),
            at(swap_ins, 500),
            at(swap_ins, 990),
            cpu,
            touches as f64 / self.seconds,
            swap_ins.len() as f64 / self.seconds,
        );
    }
}

fn touch(page: &mut u8, writes: bool) -> u64 {
    let at = Instant::now();
    if writes {
        *page = page.wrapping_add(1);
    } else {
        std::hint::black_box(*page);
    }
    at.elapsed().as_nanos() as u64
}

/// Pages one by one, each once, in random order.
fn each(name: &str, memory: &mut [u8]) -> Took {
    let (mut order, mut state): (Vec<usize>, u64) = ((0..memory.len() / PAGE).collect(), 1);
    for n in (1..order.len()).rev() {
        order.swap(n, random(&mut state) as usize % (n + 1));
    }
    let (cpu, began) = (processor_ns(), Instant::now());
    let ns = order.iter().map(|&page| touch(&mut memory[page * PAGE], true));
    let ns = ns.collect();
    Took {
        name: name.into(),
        ns,
        cpu_ns: processor_ns() - cpu,
        seconds: began.elapsed().as_secs_f64(),
    }
}

/// Random pages of all the memory, or records of several; or, of a scan, the pages of each thread's part one after the other.
///
/// Any thread may touch any page, which takes a lock for each, or for each record: with parts of their own a thread whose part is in memory
/// would be all that is seen, as it touches a thousand pages while another waits for one.
fn together(name: &str, memory: &mut [u8], threads: usize, seconds: u64) -> Took {
    let (scans, rewrites) = (name.starts_with("scan"), name.starts_with("rewrite"));
    let (writes, is_record) = (name.starts_with("write"), rewrites || name.starts_with("record"));
    let records: Vec<Mutex<&mut [u8]>> = memory
        .chunks_mut(if is_record { RECORD } else { PAGE })
        .map(Mutex::new)
        .collect();
    let records = &records[..];
    let (warm, all) = (Duration::from_secs(seconds), Duration::from_secs(2 * seconds));
    let began = Instant::now();
    let (mut cpu, mut ns) = (0, Vec::new());
    std::thread::scope(|scope| {
        let work = move |n: usize| {
            let (mut state, mut next) = (n as u64 + 1, n * records.len() / threads);
            let mut took = Vec::with_capacity(1 << 18);
            loop {
                let record = match scans {
                    true => next % records.len(),
                    false => random(&mut state) as usize % records.len(),
                };
                next += 1;
                let writes = writes || rewrites && random(&mut state).is_multiple_of(2);
                let Ok(mut record) = records[record].lock() else {
                    return took;
                };
                for page in record.chunks_mut(PAGE) {
                    let ns = touch(&mut page[0], writes);
                    match began.elapsed() {
                        now if now >= all => return took,
                        now if now >= warm => took.push(ns),
                        _ => {}
                    }
                }
            }
        };
        let threads: Vec<_> = (0..threads).map(|n| scope.spawn(move || work(n))).collect();
        std::thread::sleep(warm.saturating_sub(began.elapsed()));
        let before = processor_ns();
        std::thread::sleep(all.saturating_sub(began.elapsed() + Duration::from_millis(20)));
        cpu = processor_ns() - before;
        for thread in threads {
            ns.extend(thread.join().unwrap_or_default());
        }
    });
    Took {
        name: name.into(),
        ns,
        cpu_ns: cpu,
        seconds: seconds as f64,
    }
}

fn fill(memory: &mut [u8]) {
    for (n, page) in memory.chunks_mut(PAGE).enumerate() {
        // Not what the page before holds: nothing may be shared or left out.
        page[..8].copy_from_slice(&n.to_ne_bytes());
    }
}

fn run_case(case: &str, memory: &mut [u8], budget: usize, seconds: u64, is_region: bool) -> Result<()> {
    if case == "floor" {
        let small = &mut memory[..budget / 4];
        each("first-touch", small).print();
        if is_region {
            // They have been moved out since, to see whether they are used: each touch brings one back.
            each("soft-fault", small).print();
        }
        each("page-that-is-there", &mut small[..64 * PAGE]).print();
        return Ok(());
    }
    let threads = case.trim_start_matches(|c: char| c.is_alphabetic()).parse()?;
    fill(memory);
    together(case, memory, threads, seconds).print();
    Ok(())
}

const SYSTEMS: [&str; 4] = ["region", "in-thread", "kernel", "kernel-0"];
const CASES: [&str; 5] = ["read", "write", "scan", "record", "rewrite"];

fn is_case(case: &str) -> bool {
    let kind = case.trim_end_matches(|c: char| c.is_ascii_digit());
    let threads = case[kind.len()..].parse::<usize>();
    case == "floor" || CASES.contains(&kind) && threads.is_ok_and(|threads| threads > 0)
}

/// The parameters of a child.
struct Setting {
    len: usize,
    budget: usize,
    seconds: u64,
    folder: PathBuf,
}

fn child(system: &str, case: &str, setting: &Setting) -> Result<()> {
    let Setting {
        len,
        budget,
        seconds,
        ref folder,
    } = *setting;
    if system.starts_with("kernel") {
        if let Ok(procs) = std::env::var("REGION_FAULTS_GROUP") {
            fs::write(procs, std::process::id().to_string())?;
        }
        // Zeroed by the kernel when it is touched; beyond 32 MiB it is a mapping of its own.
        let mut memory = vec![0_u8; len];
        return run_case(case, &mut memory, budget, seconds, false);
    }
    let swap = SwapFile::new(folder.join("millpond-faults.swap"), 2 * len as u64).unlinked(true);
    let cache = PageCache::builder().memory(budget as u64).swap(swap).build()?;
    let faults = match system {
        "in-thread" => Faults::InThread,
        _ => Faults::Handlers,
    };
    let mut region = cache.region_with(len, &RegionOptions::new().faults(faults))?;
    run_case(case, region.as_mut_slice(), budget, seconds, true)?;
    if std::env::var_os("REGION_FAULTS_STATS").is_some() {
        eprint!("{}", cache.stats());
    }
    Ok(())
}

/// A memory group and a swap file, gone when dropped.
struct Kernel {
    group: PathBuf,
    swap: PathBuf,
    page_cluster: String,
}

fn call(program: &str, args: &[&str]) -> Result<()> {
    let said = Command::new(program).args(args).output()?;
    match said.status.success() {
        true => Ok(()),
        false => Err(format!("{program}: {}", String::from_utf8_lossy(&said.stderr)).into()),
    }
}

impl Kernel {
    fn new(setting: &Setting) -> Result<Kernel> {
        let (base, limit) = GROUPS
            .iter()
            .find(|(base, limit)| *limit == "memory.max" || Path::new(base).join(limit).exists())
            .ok_or("no memory groups")?;
        let kernel = Kernel {
            group: Path::new(base).join(format!("region-faults-{}", std::process::id())),
            swap: setting
                .folder
                .join(format!("region-faults-{}.swap", std::process::id())),
            page_cluster: fs::read_to_string(PAGE_CLUSTER)?,
        };
        fs::create_dir(&kernel.group)?;
        fs::write(kernel.group.join(limit), setting.budget.to_string())?;
        let path = kernel.swap.to_str().ok_or("the folder's name")?;
        call("fallocate", &["-l", &(2 * setting.len).to_string(), path])?;
        call("chmod", &["600", path])?;
        call("mkswap", &[path])?;
        call("swapon", &["-p", "32000", path])?;
        Ok(kernel)
    }
}

impl Drop for Kernel {
    fn drop(&mut self) {
        let _ = call("swapoff", &[self.swap.to_str().unwrap_or_default()]);
        let _ = fs::remove_file(&self.swap);
        let _ = fs::remove_dir(&self.group);
        let _ = fs::write(PAGE_CLUSTER, &self.page_cluster);
    }
}

/// Numbers of the same row of several rounds.
struct Row {
    name: String,
    system: String,
    rounds: Vec<Vec<f64>>,
}

fn print_table(rows: &[Row]) {
    eprintln!(
        "{:20} {:10} {:>20} {:>20} {:>20} {:>16} {:>22} {:>22}",
        "", "", "p50, us", "swap-in p50, us", "swap-in p99, us", "cpu, us", "touches/s", "swap-ins/s"
    );
    for row in rows {
        eprint!("{:20} {:10}", row.name, row.system);
        for (n, width) in [20, 20, 20, 16, 22, 22].into_iter().enumerate() {
            let mut values: Vec<f64> = row.rounds.iter().map(|round| round[n]).collect();
            values.sort_unstable_by(f64::total_cmp);
            let show = |value: f64| match value >= 1000.0 {
                true => format!("{value:.0}"),
                false => format!("{value:.1}"),
            };
            let text = match (values.first(), values.get(values.len() / 2), values.last()) {
                (_, Some(&0.0), _) => "-".into(),
                (Some(&low), Some(&middle), Some(&high)) if values.len() > 1 => {
                    format!("{} [{}..{}]", show(middle), show(low), show(high))
                }
                (_, Some(&middle), _) => show(middle),
                _ => String::new(),
            };
            eprint!(" {text:>width$}");
        }
        eprintln!();
    }
}

fn main() -> Result<()> {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let number = |n: usize, otherwise: u64| args.get(n).map_or(Ok(otherwise), |a| a.parse::<u64>());
    let text = |n: usize, otherwise: &'static str| args.get(n).map_or(otherwise, String::as_str).to_owned();
    let setting = Setting {
        len: (number(0, 512)? << 20) as usize,
        budget: (number(1, 128)? << 20) as usize,
        seconds: number(2, 3)?,
        folder: PathBuf::from(text(4, "/var/tmp")),
    };
    let (rounds, cases) = (number(3, 3)?, text(5, "floor,read1,write1,read8,write8,scan1"));
    let systems = args.get(6).cloned().unwrap_or_else(|| SYSTEMS.join(","));
    if let Some(system) = systems.split(',').find(|system| !SYSTEMS.contains(system)) {
        return Err(format!("no system {system:?}: there are {SYSTEMS:?}").into());
    }
    if let Some(case) = cases.split(',').find(|case| !is_case(case)) {
        return Err(
            format!("no case {case:?}: there are floor, and {CASES:?} with a number of threads").into(),
        );
    }
    if let (Ok(system), Ok(case)) = (
        std::env::var("REGION_FAULTS_SYSTEM"),
        std::env::var("REGION_FAULTS_CASE"),
    ) {
        return child(&system, &case, &setting);
    }
    let kernel = systems.contains("kernel").then(|| Kernel::new(&setting));
    let kernel = kernel.and_then(|kernel| {
        let said = |error: &_| eprintln!("without the kernel's swap: {error}");
        kernel.inspect_err(said).ok()
    });
    let mut rows: Vec<Row> = Vec::new();
    for (n, case) in (0..rounds).flat_map(|n| cases.split(',').map(move |case| (n, case))) {
        for system in systems.split(',') {
            let mut command = Command::new(std::env::current_exe()?);
            if let Some(kernel) = kernel.as_ref().filter(|_| system.starts_with("kernel")) {
                command.env("REGION_FAULTS_GROUP", kernel.group.join("cgroup.procs"));
                let cluster = if system == "kernel-0" {
                    "0"
                } else {
                    &kernel.page_cluster
                };
                fs::write(PAGE_CLUSTER, cluster)?;
            } else if system.starts_with("kernel") {
                continue;
            }
            command
                .args(&args)
                .env("REGION_FAULTS_SYSTEM", system)
                .env("REGION_FAULTS_CASE", case);
            let said = command.stderr(std::process::Stdio::inherit()).output()?;
            if !said.status.success() {
                eprintln!("round {n}, {case} on {system}: {}", said.status);
            }
            for line in String::from_utf8_lossy(&said.stdout).lines() {
                let Some((name, values)) = line.strip_prefix("row ").and_then(|line| line.split_once(' '))
                else {
                    continue;
                };
                let values = values
                    .split(' ')
                    .map(str::parse)
                    .collect::<std::result::Result<Vec<f64>, _>>()?;
                let is_row = |row: &&mut Row| row.name == name && row.system == system;
                match rows.iter_mut().find(is_row) {
                    Some(row) => row.rounds.push(values),
                    None => rows.push(Row {
                        name: name.into(),
                        system: system.into(),
                        rounds: vec![values],
                    }),
                }
            }
        }
    }
    rows.sort_by_key(|row| row.name.clone());
    print_table(&rows);
    Ok(())
}
