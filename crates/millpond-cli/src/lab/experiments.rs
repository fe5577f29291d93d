//! `millpond lab`: list the experiments, run one.

use super::complete;
use super::output;
use super::progress::Bar;
use crate::directories::default_directory;
use crate::failure::Failure;
use crate::signals::Signals;
use clap::{Args, Subcommand};
use millpond::internal::quantity::{parse_size, parse_time};
use millpond_core::units::{Bytes, Nanos};
use millpond_lab::LabError;
use millpond_lab::backend::BACKENDS;
use millpond_lab::experiment::{self, EXPERIMENTS, Experiment, Options, axboe2016};
use millpond_lab::program::Program;
use millpond_lab::report::{Report, html, json, table};
use millpond_lab::testbed;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

#[derive(Args)]
#[command(after_help = HELP)]
pub(crate) struct LabArgs {
    #[command(subcommand)]
    command: Command,
}

const HELP: &str = "\
Examples:
  millpond lab list
  millpond lab run axboe2016 --scale 0.02 --runs 1";

#[derive(Subcommand)]
enum Command {
    /// List the experiments and the targets that they run on.
    #[command(after_help = "Example:\n  millpond lab list")]
    List {
        /// Print one JSON object a line instead of text.
        #[arg(long)]
        json: bool,
    },
    /// Run an experiment: a table, what it means in words, and a report with plots.
    #[command(after_help = RUN_HELP)]
    Run(Box<RunArgs>),
    /// One run in a process of its own: JSON in, JSON out.
    #[command(hide = true)]
    Worker,
    /// The modelled disk under one run, in a process of its own.
    #[command(hide = true)]
    Disk,
    /// Undoes what a killed run has left.
    #[command(hide = true)]
    Undo {
        /// The testbed's name.
        testbed: String,
    },
}

const RUN_HELP: &str = "\
Examples:
  millpond lab run axboe2016                               the post's sizes, as far as this disk is fast enough
  millpond lab run axboe2016 --scale 0.2 --runs 1          a first look, in a quarter of a minute
  millpond lab run axboe2016 --dir /mnt/disk --json out.jsonl
  millpond lab run axboe2016 --on sim --table post         next to the post's own tables
  millpond lab run axboe2016 --no-reader                   only the writers
  millpond lab run axboe2016 --on engine --device hdd,wcache=64M
  millpond lab run axboe2016 --on kernel,engine --device hdd --kernel-variant all    as root
  millpond lab run axboe2016 --on kernel,engine --kernel-variant tuned    the kernel tuned, as root
  millpond lab run axboe2016 --workload log-writer,scan    other loads beside the same writers
  millpond lab run hills2015 --on sim                      limits on dirty pages, low and touched; seconds
  millpond lab run hills2015 --on engine --device hdd --runs 1
  millpond lab run dillon2000                              a news server of 2000: four rules for dirty pages
  millpond lab run gorman2011 --on sim --table post        reclaim of 2011, patch by patch, and the post's tables
  millpond lab run gorman2011 --on kernel,engine --device hdd    the same loads on today's kernel and the engine, as root
  millpond lab run kim2020 --on sim --workload toy-detect,hot-cold    what comes back from swap, patch by patch
  millpond lab run kim2020 --on kernel,engine --device sata-ssd --workload hot-cold,ebizzy-2048-0.7-1    as root
  millpond lab run policies --traces folder                misses of eleven policies on recorded traces, and the gap each leaves
  millpond lab run policies --workload zipf --scale 1000 --sizes 0.3,3,60
  millpond lab run mapped                                  mmap, File::map and page() on four times the memory, as root
  millpond lab run mapped --memory 1G --scale 1 --variant random,mapping,in-thread --workload uniform-1,zipf-8

While a row of the engine runs, `millpond stat 1`, `inspect` and `set` work on its cache.
Sizes take K, M, G, T (powers of 1024) or KB, MB, GB, TB (powers of 1000); times take us, ms, s, min.
Exit codes: 0 done, 1 a run failed, 2 bad command line, 3 a target cannot run here, 130 interrupted.";

#[derive(Args)]
struct RunArgs {
    /// The experiment; `millpond lab list` shows them.
    #[arg(add = complete::experiments())]
    name: String,
    /// Where to run it, separated by commas: kernel, bare, engine, sim, paced. Default: all that this build has.
    #[arg(long, value_delimiter = ',', value_name = "BACKENDS", add = complete::targets())]
    on: Option<Vec<String>>,
    /// Variants of simulator and engine, separated by commas; goal can have settings, as in goal/60ms/55% (the
    /// target read latency, the writers' share). Default: their own choice.
    #[arg(long, value_delimiter = ',', value_name = "VARIANTS", add = complete::variants())]
    variant: Vec<String>,
    /// How the kernel is set up (root), separated by commas: `SCHEDULER[/WBT][/FILE-SYSTEM][/dirty=SIZE][/dontcache or
    /// /flush=SIZE]` such as mq-deadline, none/0, bfq//ext4, as-is/2000/dirty=32M; or all, or tuned. On a real device these are
    /// settings of the whole machine during each run, restored even if it is killed, and the kernel as it is runs
    /// for comparison. Default on a modelled disk: mq-deadline.
    #[arg(long, value_delimiter = ',', value_name = "VARIANTS")]
    kernel_variant: Vec<String>,
    /// The device under the files: real, or the service times of a modelled one: hdd, sata-ssd, nvme or ram, with its
    /// settings, such as hdd,wcache=64M.
    #[arg(long, default_value = "real", value_name = "DEVICE", add = complete::devices())]
    device: String,
    /// Where files are made, and removed again. Default: /var/tmp.
    #[arg(long, value_name = "DIR")]
    dir: Option<PathBuf>,
    /// The memory that a target may use.
    #[arg(long, default_value = "512M", value_name = "SIZE", value_parser = parse_size)]
    memory: Bytes,
    /// How many files are written.
    #[arg(long, default_value_t = 50, value_name = "N")]
    files: u32,
    /// The size of each file.
    #[arg(long, default_value = "100M", value_name = "SIZE", value_parser = parse_size)]
    file_size: Bytes,
    /// The size of the file that is read.
    #[arg(long, default_value = "4G", value_name = "SIZE", value_parser = parse_size)]
    read_file_size: Bytes,
    /// Writing threads; each writes one file after the other. The post's program has one.
    #[arg(long, default_value_t = 1, value_name = "N")]
    writers: u32,
    /// Runs of each row; the table has their median, minimum and maximum.
    #[arg(long, default_value_t = 3, value_name = "N")]
    runs: u32,
    /// Multiply all sizes, memory too. Default: 1, or less if this disk would take more than two minutes.
    #[arg(long, value_name = "X")]
    scale: Option<f64>,
    /// The seed of everything random.
    #[arg(long, default_value_t = 1, value_name = "N")]
    seed: u64,
    /// The read latency that variants with a goal aim at, such as 40ms. Default: their own.
    #[arg(long, value_name = "TIME", value_parser = parse_time)]
    read_latency_goal: Option<Nanos>,
    /// The workloads, separated by commas; `millpond lab list` shows them. Default: the post's writers and reader,
    /// together and each alone.
    #[arg(long, value_delimiter = ',', value_name = "WORKLOADS", add = complete::workloads())]
    workload: Vec<String>,
    /// Leave the reader out: as --workload writers-alone.
    #[arg(long, conflicts_with = "workload")]
    no_reader: bool,
    /// How the file system answers reclaim, in gorman2011: xfs, ext3, ext4, btrfs. Default: xfs.
    #[arg(long, default_value = "", hide_default_value = true, value_name = "FS")]
    filesystem: String,
    /// For policies: traces, or folders of traces, separated by commas; docs/TRACES.md has the formats. Default:
    /// synthetic loads.
    #[arg(long, value_delimiter = ',', value_name = "PATHS", value_hint = clap::ValueHint::AnyPath)]
    traces: Vec<PathBuf>,
    /// For policies: sizes of memory in percent of a trace's pages, separated by commas. Default: 1,10,25.
    #[arg(long, value_delimiter = ',', value_name = "PERCENT")]
    sizes: Vec<f64>,
    /// Print more, separated by commas: post (the post's own numbers next to ours, or where they are), reasons
    /// (axboe2016: why each transfer was made; gorman2011: what the slowest calls waited for), lists (kim2020: every page of
    /// the post's examples).
    #[arg(long, value_delimiter = ',', value_name = "TABLES", value_parser = ["post", "reasons", "lists"])]
    table: Vec<String>,
    /// Write every metric as a line of JSON; `-` is stdout, in place of the table.
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
    /// Where the report goes. Default: millpond-NAME.html here.
    #[arg(long, value_name = "FILE.html")]
    report: Option<PathBuf>,
}

pub(crate) fn lab(args: LabArgs) -> Result<ExitCode, Failure> {
    match args.command {
        // Its memory counts: nothing has been done before.
        Command::Worker => return Ok(millpond_lab::worker::serve()),
        Command::List { json: true } => list_json(&mut io::stdout().lock())?,
        Command::List { json: false } => list(&mut io::stdout().lock())?,
        Command::Run(args) => run_experiment(&args)?,
        Command::Disk => return Ok(millpond_lab::testbed::serve()),
        Command::Undo { testbed } => return Ok(millpond_lab::testbed::undo(&testbed)),
    }
    Ok(ExitCode::SUCCESS)
}

fn list(to: &mut dyn Write) -> io::Result<()> {
    writeln!(to, "Experiments (millpond lab run NAME):")?;
    for experiment in EXPERIMENTS {
        writeln!(to, "  {}", experiment.name)?;
        writeln!(to, "    {}", experiment.shows)?;
        writeln!(to, "    after {}", experiment.post)?;
        writeln!(to, "    variants:  {}", experiment.variants.join(", "))?;
        writeln!(to, "    workloads: {}", experiment.workloads.join(", "))?;
    }
    writeln!(to, "Targets (--on NAME,…):")?;
    for target in BACKENDS {
        writeln!(to, "  {:8} {}", target.name, target.about)?;
    }
    writeln!(
        to,
        "The kernel set up in another way (--kernel-variant …, as root):"
    )?;
    writeln!(to, "  {}", testbed::SYNTAX)?;
    Ok(())
}

fn list_json(to: &mut dyn Write) -> io::Result<()> {
    for experiment in EXPERIMENTS {
        let line = serde_json::json!({
            "kind": "experiment",
            "name": experiment.name,
            "post": experiment.post,
            "shows": experiment.shows,
            "variants": experiment.variants,
            "workloads": experiment.workloads,
        });
        writeln!(to, "{line}")?;
    }
    for target in BACKENDS {
        let line = serde_json::json!({
            "kind": "target",
            "name": target.name,
            "about": target.about,
        });
        writeln!(to, "{line}")?;
    }
    Ok(())
}

fn run_experiment(args: &RunArgs) -> Result<(), Failure> {
    let experiment = experiment::find(&args.name)?;
    let json_to_stdout = args.json.as_deref() == Some(Path::new("-"));
    if let Some(path) = args.json.as_deref().filter(|_| !json_to_stdout) {
        output::check("--json", path)?;
    }
    let report_path = report_path(args, experiment.name)?;
    args.check_tables(experiment)?;
    let signals = Signals::catch()?;
    let report = {
        let mut bar = Bar::new(&signals);
        (experiment.run)(&args.options()?, &mut bar)
    };
    let report = report.map_err(|error| match (error, signals.caught()) {
        // whatever failed during the stop failed because of it
        (_, Some(signal)) => Failure {
            code: 128 + signal,
            message: Some("stopped; the files it made are removed".into()),
        },
        (error, None) => error.into(),
    })?;
    write_results(args, experiment, &report, &report_path, json_to_stdout)
}

fn write_results(
    args: &RunArgs,
    experiment: &Experiment,
    report: &Report,
    report_path: &Path,
    json_to_stdout: bool,
) -> Result<(), Failure> {
    output::write(report_path, &|to| to.write_all(html::page(report).as_bytes()))
        .map_err(|e| LabError::path("cannot write", report_path, e))?;
    let mut stdout = io::stdout().lock();
    if json_to_stdout {
        json::write(&report.metrics, &mut stdout)?;
        say!("report: {}", report_path.display());
        return Ok(());
    }
    write!(stdout, "{}", table::text_within(report, output::width()))?;
    for name in &args.table {
        match table::appendices(report, name) {
            none if none.is_empty() && name == "post" => {
                writeln!(stdout, "\n{}", experiment.numbers_of_the_post)?;
            }
            tables => write!(stdout, "\n{tables}")?,
        }
    }
    if let Some(path) = &args.json {
        output::write(path, &|to| json::write(&report.metrics, to))
            .map_err(|e| LabError::path("cannot write", path, e))?;
        writeln!(stdout, "\nmetrics: {}", path.display())?;
    }
    let shown = report_path
        .canonicalize()
        .unwrap_or_else(|_| report_path.to_owned());
    writeln!(stdout, "\nreport: {}", shown.display())?;
    Ok(())
}

/// Where the report goes: where the user says, else here, else, if this is not writable, among temporary files.
fn report_path(args: &RunArgs, name: &str) -> Result<PathBuf, Failure> {
    if let Some(path) = &args.report {
        output::check("--report", path)?;
        return Ok(path.clone());
    }
    let here = PathBuf::from(format!("millpond-{name}.html"));
    if output::check("--report", &here).is_ok() {
        return Ok(here);
    }
    let elsewhere = std::env::temp_dir().join(&here);
    output::check("--report", &elsewhere)?;
    Ok(elsewhere)
}

impl RunArgs {
    /// Whether the experiment has the requested tables.
    fn check_tables(&self, experiment: &Experiment) -> Result<(), Failure> {
        let has = || std::iter::once("post").chain(experiment.tables.iter().copied());
        match self.table.iter().find(|table| !has().any(|name| name == *table)) {
            Some(table) => Err(LabError::UnknownName {
                what: "table",
                value: table.clone(),
                allowed: has().collect::<Vec<_>>().join(", "),
            }
            .into()),
            None => Ok(()),
        }
    }

    fn options(&self) -> Result<Options, Failure> {
        Ok(Options {
            on: self.on.clone(),
            variants: self.variant.clone(),
            kernel_variants: self.kernel_variant.clone(),
            workloads: match self.no_reader {
                true => vec![axboe2016::WRITERS_ALONE.into()],
                false => self.workload.clone(),
            },
            device: self.device.parse()?,
            dir: self.dir.clone().unwrap_or_else(default_directory),
            memory: self.memory,
            files: self.files,
            file_size: self.file_size,
            read_file_size: self.read_file_size,
            writers: self.writers,
            runs: self.runs,
            scale: self.scale,
            seed: self.seed,
            read_latency_goal: self.read_latency_goal,
            filesystem: self.filesystem.clone(),
            traces: self.traces.clone(),
            sizes: self.sizes.clone(),
            program: Program::this(&["lab", "worker"]),
            command: command_line(std::env::args().skip(1)),
            ..Options::default()
        })
    }
}

/// The command line, quoted for a shell.
pub(crate) fn command_line(args: impl Iterator<Item = String>) -> String {
    let mut line = String::from("millpond");
    for arg in args {
        let is_plain = |c: char| c.is_ascii_alphanumeric() || "-_./,=:+%@".contains(c);
        line.push(' ');
        if !arg.is_empty() && arg.chars().all(is_plain) {
            line += &arg;
        } else {
            line += &format!("'{}'", arg.replace('\'', r"'\''"));
        }
    }
    line
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_command_line_can_be_given_to_a_shell_again() {
        let args = ["lab", "run", "--dir", "/a b/it's", ""].map(String::from);
        assert_eq!(
            command_line(args.into_iter()),
            r"millpond lab run --dir '/a b/it'\''s' ''"
        );
    }
}
