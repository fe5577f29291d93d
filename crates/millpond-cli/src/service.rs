//! `millpond completions` and `millpond man`: made from the command line's own definitions, so they can't say anything else.

use crate::{Cli, Failure};
use clap::CommandFactory;
use clap_complete::Shell;
use std::fs;
use std::io::{self, Write};
use std::path::PathBuf;
use std::process::ExitCode;

const COMPLETIONS_HELP: &str = "\
Examples:
  millpond completions bash > /etc/bash_completion.d/millpond
  millpond completions zsh > ~/.zfunc/_millpond
  millpond completions fish > ~/.config/fish/completions/millpond.fish";

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
    clap_complete::generate(args.shell, &mut Cli::command(), "millpond", &mut script);
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
