//! `millpond store`: starts `millpond-store`, a program of its own. A client of object stores is as much code again as all the
//! rest, and compiles C; this program has none of it.

use crate::failure::{EXIT_UNAVAILABLE, Failure};
use std::ffi::OsString;
use std::io::{self, Write as _};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};

const PROGRAM: &str = "millpond-store";

const HELP: &str = "\
Examples:
  millpond store cp data.db file:///var/tmp/pond//data.db   makes a store in a folder, and puts a file there
  millpond store ls --long s3://bucket/prefix               the files of a store, with their lengths
  millpond store cp s3://bucket/prefix//a/file .            a file of it, as of one commit
  millpond store mount s3://bucket/prefix /mnt              as a directory, for any program
  millpond store verify s3://bucket/prefix                  reads all of it, and says what is damaged
  millpond store --help                                     all commands

It is a program of its own, millpond-store, which `scripts/install store` builds. docs/VOLUMES.md has the rest.
Exit codes: 0 done, 1 failed, or something is damaged, 2 bad command line, 3 millpond-store is not installed, 4 another
writer has the store.";

#[derive(clap::Args)]
#[command(disable_help_flag = true, after_help = HELP)]
pub(crate) struct StoreArgs {
    /// A command of `millpond store`, and what it takes.
    #[arg(trailing_var_arg = true, allow_hyphen_values = true, value_name = "ARGS")]
    rest: Vec<OsString>,
}

pub(crate) fn store(args: &StoreArgs) -> Result<ExitCode, Failure> {
    let beside = std::env::current_exe().ok();
    let path = std::env::var_os("PATH").unwrap_or_default();
    let Some(program) = find(beside.as_deref(), &path) else {
        let asks_for_help = |word: &OsString| word == "--help" || word == "-h";
        if args.rest.first().is_some_and(asks_for_help) {
            let mut stdout = io::stdout().lock();
            writeln!(stdout, "Usage: millpond store <COMMAND>\n\n{HELP}")?;
            return Ok(ExitCode::SUCCESS);
        }
        return Err(Failure {
            code: EXIT_UNAVAILABLE,
            message: Some(format!(
                "`millpond store` is a program of its own, {PROGRAM}, and that is neither beside this one nor on the PATH: \
                 `scripts/install store` builds and installs it from a checkout, or `cargo build --release --manifest-path \
                 crates/millpond-volumes/Cargo.toml -p {PROGRAM}`"
            )),
        });
    };
    let error: io::Error = Command::new(&program).args(&args.rest).exec();
    Err(Failure::failed(format!(
        "{} can't be started: {error}",
        program.display()
    )))
}

/// Beside this program, which is of the same version then; else on the PATH.
fn find(this: Option<&Path>, path: &OsString) -> Option<PathBuf> {
    let beside = this.and_then(Path::parent).map(Path::to_owned);
    let mut folders = beside.into_iter().chain(std::env::split_paths(path));
    folders.find_map(|folder| Some(folder.join(PROGRAM)).filter(|program| program.is_file()))
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test fails by panicking")]
mod tests {
    use super::*;
    use std::fs;

    #[test]
    fn the_program_beside_this_one_is_taken_before_those_on_the_path() {
        let temp = tempfile::tempdir().unwrap();
        let (beside, on_path) = (temp.path().join("a"), temp.path().join("b"));
        for folder in [&beside, &on_path] {
            fs::create_dir(folder).unwrap();
        }
        let (this, path) = (beside.join("millpond"), on_path.clone().into_os_string());
        assert_eq!(find(Some(&this), &path), None);
        fs::write(on_path.join(PROGRAM), "").unwrap();
        assert_eq!(find(Some(&this), &path), Some(on_path.join(PROGRAM)));
        fs::write(beside.join(PROGRAM), "").unwrap();
        assert_eq!(find(Some(&this), &path), Some(beside.join(PROGRAM)));
    }
}
