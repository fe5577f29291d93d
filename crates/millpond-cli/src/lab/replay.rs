//! `millpond replay`: a recorded load with other sizes of memory and other policies, in virtual time.

use super::output;
use super::progress::Bar;
use crate::failure::Failure;
use crate::signals::Signals;
use millpond::internal::quantity::{number_tick, parse_size, size, size_typed};
use millpond_core::units::{Bytes, PageSize};
use millpond_lab::LabError;
use millpond_lab::disk_model::DiskModel;
use millpond_lab::replay::{self, Load, Memory, POLICIES, Pace, Point, Policy, ReplayOptions};
use millpond_lab::report::{html, json, table};
use millpond_sim::traces;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

const HELP: &str = "\
Examples:
  millpond replay load.trace                                      seven sizes of memory, to one and a half times what the load uses
  millpond replay load.trace --memory 256M,512M,1G --report load.html
  millpond replay load.trace --memory 1G --policy millpond,linux-6,lru,opt --device nvme
  millpond replay pages.u32 --memory 1000pages,4000pages --pace none --json -
  millpond replay w01.oracleGeneral.zst --policy opt,lru,arc,lirs,s3-fifo,clock2q+,millpond-rule
  millpond replay usr_0.csv --page-size 16K                      MSR Cambridge; block requests are split into pages

A trace is what `millpond record` has written, or one of the field's formats: libCacheSim's oracleGeneral, MSR
Cambridge's, blkparse's output, page numbers as text or in 32 bits (.u32); with or without zstd compression.
Time is virtual: the same trace gives the same numbers on every machine. docs/TRACES.md explains the formats.
Exit codes: 0 done, 1 the trace can't be read, 2 bad command line, 130 interrupted.";

#[derive(clap::Args)]
#[command(after_help = HELP)]
pub(crate) struct ReplayArgs {
    /// The trace.
    #[arg(value_name = "TRACE", value_hint = clap::ValueHint::FilePath)]
    trace: PathBuf,
    /// Sizes of memory, separated by commas: a budget, as 256M or 1G, or pages, as 4000pages. Default: seven, from a
    /// thirty-second of the used pages to one and a half times all of them, and the recorded size.
    #[arg(long, value_delimiter = ',', value_name = "SIZES")]
    memory: Vec<Memory>,
    /// Policies, separated by commas: millpond, linux-6, linux-5, dillon-2000; models that only count misses: opt (the
    /// optimum that knows the future), lru, clock, two-lists, arc, lirs, s3-fifo, sieve, clock2q+, w-tinylfu,
    /// millpond-rule.
    #[arg(
        long,
        value_delimiter = ',',
        default_value = "millpond,linux-6,millpond-rule,opt",
        value_name = "POLICIES",
        add = super::complete::policies()
    )]
    policy: Vec<String>,
    /// The trace's format, if its name and content don't show it: u32, pages, oracle-general, msr, blkparse.
    #[arg(long, value_name = "FORMAT", add = super::complete::formats())]
    format: Option<String>,
    /// The size of the pages that block requests are split into: 4K to 64K, a power of two.
    #[arg(long, default_value = "4K", value_name = "SIZE", value_parser = parse_size)]
    page_size: Bytes,
    /// The meaning of ids in oracle-general: object (a page each), sector (of 512 bytes) or byte. Default: object.
    #[arg(long, value_name = "KIND", value_parser = ["object", "sector", "byte"])]
    ids: Option<String>,
    /// The modelled disk: hdd, sata-ssd, nvme or ram, with its settings, such as hdd,wcache=64M.
    #[arg(long, default_value = "sata-ssd", value_name = "DEVICE", add = super::complete::disks())]
    device: String,
    /// The time between a thread's calls: as recorded, or none.
    #[arg(long, default_value = "recorded", value_name = "PACE", value_parser = ["recorded", "none"])]
    pace: String,
    /// Write every metric as a line of JSON; `-` is stdout, in place of the table.
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
    /// Write a page with plots of pages read and stalls against memory.
    #[arg(long, value_name = "FILE.html")]
    report: Option<PathBuf>,
}

pub(crate) fn replay(args: &ReplayArgs) -> Result<ExitCode, Failure> {
    let options = args.options()?;
    let json_to_stdout = args.json.as_deref() == Some(Path::new("-"));
    let json_file = args.json.as_deref().filter(|_| !json_to_stdout);
    for (option, path) in [("--json", json_file), ("--report", args.report.as_deref())] {
        path.map_or(Ok(()), |path| output::check(option, path))?;
    }
    let load = Load::read(&args.trace, &args.trace_options()?)?;
    let signals = Signals::catch()?;
    let points = replay::run(&load, &options, &mut Bar::new(&signals)).map_err(|error| {
        match (error, signals.caught()) {
            (LabError::Interrupted, Some(signal)) => Failure {
                code: 128 + signal,
                message: Some("stopped".into()),
            },
            (error, _) => error.into(),
        }
    })?;
    let report = replay::report(&load, &options, &points);
    if let Some(path) = &args.report {
        output::write(path, &|to| to.write_all(html::page(&report).as_bytes()))
            .map_err(|e| LabError::path("cannot write", path, e))?;
    }
    if let Some(path) = json_file {
        output::write(path, &|to| json::write(&report.metrics, to))
            .map_err(|e| LabError::path("cannot write", path, e))?;
    }
    let mut stdout = io::stdout().lock();
    if json_to_stdout {
        json::write(&report.metrics, &mut stdout)?;
        return Ok(ExitCode::SUCCESS);
    }
    let width = output::width();
    write!(stdout, "{}", table::answers(&report, width))?;
    for paragraph in &report.intro {
        writeln!(stdout, "{}", table::wrap(paragraph, "", width))?;
    }
    write!(stdout, "{}", table::body(&report, width))?;
    write!(stdout, "\n{}", drawn(&load, &options, &points))?;
    if let Some(path) = &args.report {
        say!("report: {}", path.display());
    }
    Ok(ExitCode::SUCCESS)
}

fn drawn(load: &Load, options: &ReplayOptions, points: &[Point]) -> String {
    let columns: Vec<_> = points.iter().map(|point| size(point.bytes)).collect();
    let of = |(n, policy): (usize, &Policy)| {
        let share = |point: &Point| 100.0 * point.runs[n].read() as f64 / load.uses as f64;
        (policy.name().to_owned(), points.iter().map(share).collect())
    };
    let lines: Vec<_> = options.policies.iter().enumerate().map(of).collect();
    let percent = |share: f64| format!("{} %", number_tick(share));
    replay::plot(
        "pages read for each 100 uses, by memory",
        &columns,
        &lines,
        percent,
    )
}

impl ReplayArgs {
    fn trace_options(&self) -> Result<traces::Options, Failure> {
        let page_size = PageSize::from_bytes(self.page_size.0).ok_or_else(|| {
            let given = size_typed(self.page_size);
            Failure::bad_usage(format!("--page-size {given}: must be 4K, 8K, 16K, 32K or 64K"))
        })?;
        Ok(traces::Options {
            format: self
                .format
                .as_deref()
                .map(str::parse)
                .transpose()
                .map_err(LabError::from)?,
            page_size,
            ids: self
                .ids
                .as_deref()
                .map(str::parse)
                .transpose()
                .map_err(LabError::from)?,
        })
    }

    fn options(&self) -> Result<ReplayOptions, Failure> {
        let policies: Result<Vec<Policy>, _> = self.policy.iter().map(|name| name.parse()).collect();
        let policies = policies?;
        if policies.is_empty() {
            return Err(Failure::bad_usage(format!("--policy: give some of {POLICIES}")));
        }
        let words = std::env::args().skip(1).collect::<Vec<_>>().join(" ");
        Ok(ReplayOptions {
            memory: self.memory.clone(),
            policies,
            device: self.device.parse::<DiskModel>()?,
            pace: match self.pace.as_str() {
                "none" => Pace::None,
                _ => Pace::Recorded,
            },
            command: format!("millpond {words}"),
        })
    }
}
