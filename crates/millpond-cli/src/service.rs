//! `millpond completions` and `millpond man`: made from the command line's own definitions, so they can't disagree with
//! it.

use crate::Cli;
use crate::failure::Failure;
use clap::CommandFactory;
use clap_complete::CompleteEnv;
use clap_complete::env::{Bash, Elvish, EnvCompleter, Fish, Powershell, Zsh};
use std::fs;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

/// The environment variable with the shell's name, set when a shell asks.
const VARIABLE: &str = "MILLPOND_COMPLETE";

const COMPLETIONS_HELP: &str = "\
Examples:
  millpond completions bash > /etc/bash_completion.d/millpond
  millpond completions zsh > ~/.zfunc/_millpond
  millpond completions fish > ~/.config/fish/completions/millpond.fish
  source <(millpond completions bash)                    in this shell only

The script asks this program at each TAB: for commands and options, and for experiments, their variants and workloads,
settings and their values, running caches, mounts. It stays as it is when the program is updated.
zsh finds ~/.zfunc if .zshrc has `fpath=(~/.zfunc $fpath)` before `compinit`; or put `source <(millpond completions zsh)`
there, after `compinit`.
Exit codes: 0 written, 2 bad command line.";

#[derive(clap::Args)]
#[command(after_help = COMPLETIONS_HELP)]
pub(crate) struct CompletionsArgs {
    /// The shell.
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
    /// The directory for the pages, one for each command; made if missing.
    #[arg(value_name = "DIR")]
    folder: PathBuf,
}

/// The shells with a script.
#[derive(Clone, Copy, clap::ValueEnum)]
pub(crate) enum Shell {
    Bash,
    Elvish,
    Fish,
    Powershell,
    Zsh,
}

/// If a shell has started this program for completions: answers and ends. To be called before anything else is printed.
pub(crate) fn answer_completions() {
    CompleteEnv::with_factory(Cli::command).var(VARIABLE).complete();
}

/// Writes the script that makes the shell ask.
pub(crate) fn write_script(shell: Shell, to: &mut dyn Write) -> Result<(), Failure> {
    let shell: &dyn EnvCompleter = match shell {
        Shell::Bash => &Bash,
        Shell::Elvish => &Elvish,
        Shell::Fish => &Fish,
        Shell::Powershell => &Powershell,
        Shell::Zsh => &Zsh,
    };
    // As it was called: by its name on the PATH, or this very file.
    let called = std::env::args_os().next().unwrap_or_default();
    let is_path = Path::new(&called).components().count() > 1;
    let program = match is_path {
        true => std::env::current_exe()?,
        false => called.into(),
    };
    let program = program.to_string_lossy();
    Ok(shell.write_registration(VARIABLE, "millpond", "millpond", &program, to)?)
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
        // Hidden commands have none.
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
