//! `millpond doctor`: what this host allows, found by trying, what was chosen because of it, and whether the main job
//! (`millpond lab run axboe2016`) can run. A build without the laboratory has no such job, and skips the checks that
//! only it needs.
//!
//! ```text
//!   host.rs       kernel, memory, groups, userfaultfd: what can be asked for
//!   fuse.rs       a mount, made and read
//!   directory.rs  the directory: file system, disk, O_DIRECT, RWF_DONTCACHE, free space
//!   trial.rs      the engine does a small job there, and reports what it did without
//!   kernel/       with --kernel, instead of all that: the kernel's own limits on dirty pages
//! ```

mod directory;
mod fuse;
mod host;
#[cfg(feature = "lab")]
mod kernel;
mod trial;

use crate::directories::default_directory;
use crate::failure::EXIT_UNAVAILABLE;
use crate::failure::Failure;
use millpond::internal::quantity::parse_size;
use millpond_core::units::Bytes;
use serde::Serialize;
use std::io::{self, Write};
use std::path::PathBuf;
use std::process::ExitCode;

#[cfg(feature = "lab")]
const HELP: &str = "\
Examples:
  millpond doctor
  millpond doctor --dir /srv/data --memory 4G --json
  millpond doctor --kernel                            the kernel's limits on dirty pages, and what is wrong with them
  millpond doctor --kernel --zoneinfo saved.txt       the same for another machine

Exit codes: 0 `millpond lab run axboe2016` can run there, 2 bad command line, 3 it can't: the lines marked MISSING say why.
With --kernel: 0; lines marked `no` need attention.";

#[cfg(not(feature = "lab"))]
const HELP: &str = "\
Examples:
  millpond doctor
  millpond doctor --dir /srv/data --memory 4G --json

Exit codes: 0 the engine works there, 2 bad command line, 3 it does not: the lines marked MISSING say why.";

#[derive(clap::Args)]
#[command(after_help = HELP)]
pub(crate) struct Args {
    /// The directory for files. Default: that of `lab run`, /var/tmp.
    #[arg(long, value_name = "DIR")]
    dir: Option<PathBuf>,
    /// The budget to check: by default that of `lab run`.
    #[arg(long, default_value = "512M", value_name = "SIZE", value_parser = parse_size)]
    memory: Bytes,
    /// Check only the kernel's settings for dirty pages: the limits they give, and what is wrong with them.
    #[cfg_attr(feature = "lab", arg(long))]
    #[cfg_attr(not(feature = "lab"), arg(long, hide = true))]
    kernel: bool,
    #[cfg(feature = "lab")]
    #[command(flatten)]
    files: kernel::Files,
    /// Print one JSON object a line instead of text.
    #[arg(long)]
    json: bool,
}

/// The main job.
const MAIN_JOB: &str = if cfg!(feature = "lab") {
    "`millpond lab run axboe2016`"
} else {
    "the engine"
};

/// One check.
#[derive(Serialize)]
struct Check {
    name: &'static str,
    /// Whether it succeeded.
    ok: bool,
    /// Whether the main job can't run without it.
    needed: bool,
    /// What was found, and what was chosen because of it.
    found: String,
    /// If it failed: what happens instead.
    effect: Option<String>,
    /// If it failed: the remedy.
    mend: Option<String>,
}

impl Check {
    fn ok(name: &'static str, found: impl Into<String>) -> Check {
        Check {
            name,
            ok: true,
            needed: false,
            found: found.into(),
            effect: None,
            mend: None,
        }
    }

    /// A failed check that the main job can do without.
    fn without(
        name: &'static str,
        found: impl Into<String>,
        effect: impl Into<String>,
        mend: impl Into<String>,
    ) -> Check {
        Check {
            ok: false,
            effect: Some(effect.into()),
            mend: Some(mend.into()),
            ..Check::ok(name, found)
        }
    }

    /// A failed check without which the main job can't run.
    fn missing(name: &'static str, found: impl Into<String>, mend: impl Into<String>) -> Check {
        Check {
            needed: true,
            ..Check::without(name, found, format!("{MAIN_JOB} can't run"), mend)
        }
    }

    fn line(&self) -> String {
        let mark = match (self.ok, self.needed) {
            (true, _) => "ok",
            (false, false) => "no",
            (false, true) => "MISSING",
        };
        let mut line = format!("{mark:8} {:14} {}", self.name, self.found);
        if let Some(effect) = &self.effect {
            line += &format!(": {effect}");
        }
        if let Some(mend) = &self.mend {
            line += &format!("; {mend}");
        }
        line
    }
}

pub(crate) fn run(args: &Args) -> Result<ExitCode, Failure> {
    if args.kernel {
        return kernel_limits(args);
    }
    let dir = args.dir.clone().unwrap_or_else(default_directory);
    if !dir.is_dir() {
        return Err(Failure::bad_usage(format!(
            "--dir {}: not a directory; give one in which files can be made",
            dir.display()
        )));
    }
    let mut checks = vec![host::linux(), host::memory(args.memory), host::locked_memory()];
    checks.extend(directory::checks(&dir));
    #[cfg(feature = "lab")]
    checks.push(host::memory_group());
    checks.push(host::userfaultfd());
    let missing: Vec<_> = checks.iter().filter(|check| !check.ok && check.needed).collect();
    print(&checks, args.json)?;
    if missing.is_empty() {
        return Ok(ExitCode::SUCCESS);
    }
    let names: Vec<_> = missing.iter().map(|check| check.name).collect();
    say!("millpond: {MAIN_JOB} can't run here: see {}", names.join(", "));
    Ok(ExitCode::from(EXIT_UNAVAILABLE))
}

#[cfg(feature = "lab")]
fn kernel_limits(args: &Args) -> Result<ExitCode, Failure> {
    print(&kernel::checks(&args.files)?, args.json)?;
    Ok(ExitCode::SUCCESS)
}

#[cfg(not(feature = "lab"))]
fn kernel_limits(_: &Args) -> Result<ExitCode, Failure> {
    Err(crate::lab::needs_lab("doctor --kernel"))
}

fn print(checks: &[Check], as_json: bool) -> io::Result<()> {
    let mut stdout = io::stdout().lock();
    for check in checks {
        if as_json {
            serde_json::to_writer(&mut stdout, check).map_err(io::Error::from)?;
            writeln!(stdout)?;
        } else {
            writeln!(stdout, "{}", check.line())?;
        }
    }
    Ok(())
}
