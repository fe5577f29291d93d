//! `millpond completions` and `millpond man`: made from the command line's own definitions, so they can't say anything else.

use crate::complete::{Shell, write_script};
use crate::{Cli, Failure};
use clap::CommandFactory;
use std::fs;
use std::io::{self, Write};
use std::path::PathBuf;
use std::process::ExitCode;

const COMPLETIONS_HELP: &str = "\
Examples:
  millpond completions bash > /etc/bash_completion.d/millpond
  millpond completions zsh > ~/.zfunc/_millpond
  millpond completions fish > ~/.config/fish/completions/millpond.fish
  source <(millpond completions bash)                    in this shell only

The script asks this program at each TAB: for commands and options, and for experiments, their variants and workloads,
settings and their values, running caches, mounts. It stays as it is when the program is updated.
zsh finds ~/.zfunc if .zshrc has `fpath=(~/.zfunc $fpath)` before `compinit`; or say `source <(millpond completions zsh)`
there, behind `compinit`.
Exit codes: 0 written, 2 bad command line.";

#[derive(clap::Args)]
#[command(after_help = COMPLETIONS_HELP)]
pub(crate) struct CompletionsArgs {
    /// For which shell.
    shell: Shell,
}

const MAN_HELP: &str = "\
Examples:
  millpond man /usr/local/share/man/man1
  millpond man . && man ./millpond-mount.1

Exit codes: 0 written, 1 a page can't be written.";

#[derive(clap::Args)]
#[command(after_help = MAN_HELP)]
pub(crate) struct ManArgs {
    /// Where the pages go, one for each command; made if it is not there.
    #[arg(value_name = "DIR")]
    folder: PathBuf,
}

pub(crate) fn completions(args: &CompletionsArgs) -> Result<ExitCode, Failure> {
    let mut script = Vec::new();
    write_script(args.shell, &mut script)?;
    io::stdout().lock().write_all(&script)?;
    Ok(ExitCode::SUCCESS)
}

pub(crate) fn man(args: &ManArgs) -> Result<ExitCode, Failure> {
    let written = fs::create_dir_all(&args.folder).and_then(|()| {
        let command = Cli::command().disable_help_subcommand(true);
        // What is hidden has none.
        crate::man::write_all(command, &args.folder)
    });
    written.map_err(|error| Failure {
        code: 1,
        message: Some(format!(
            "can't write pages into {}: {error}",
            args.folder.display()
        )),
    })?;
    Ok(ExitCode::SUCCESS)
}
