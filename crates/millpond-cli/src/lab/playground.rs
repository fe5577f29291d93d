//! `millpond playground`: the posts in a browser, served on loopback.

use crate::address::local_address;
use crate::failure::Failure;
use crate::signals::Signals;
use millpond::internal::http::{Answer, Server};
use millpond_playground::page::page;
use millpond_worlds::link::{Link, own};
use std::io::{self, Write};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

const HELP: &str = "\
Examples:
  millpond playground                      the five posts as scenes; open the printed address; until Ctrl-C
  millpond playground 'scene=hills2015'    one of them; a whole link has settings, seed and moment as well
  millpond playground 'scene=own&frames=3&pages=1.2.3.4.1.2.3.4'    a trace of your own: which policy misses least
  millpond playground --at 0               on a free port
  millpond playground --save page.html     writes the page: one file, which a browser opens from disk

It needs no network: the page is in this program. docs/PLAYGROUND.md explains the scenes.
Exit codes: 0, 1 the page can't be written, 2 bad command line, 130 after Ctrl-C.";

/// How long a signal may wait to be seen.
const LOOK_EVERY: Duration = Duration::from_millis(50);

#[derive(clap::Args)]
#[command(after_help = HELP)]
pub(crate) struct PlaygroundArgs {
    /// What to show: the part after the # of the page's address, as `lab run` prints it.
    #[arg(value_parser = link)]
    link: Option<String>,
    /// Where to serve. A port alone is on 127.0.0.1; 0 picks a free one.
    #[arg(long, value_name = "[ADDRESS:]PORT", default_value = "9466", value_parser = local_address)]
    at: SocketAddr,
    /// Write the page to a file instead of serving it.
    #[arg(long, value_name = "FILE", conflicts_with = "at")]
    save: Option<PathBuf>,
}

fn link(text: &str) -> Result<String, String> {
    own(text).unwrap_or_else(|| Link::parse(text).map(|link| link.to_string()))
}

/// Writes the page, and prints its address.
fn save(file: &Path, page: &[u8], behind: &str) -> Result<ExitCode, Failure> {
    let failed = |error: io::Error| Failure {
        code: 1,
        message: Some(format!("--save {}: {error}", file.display())),
    };
    std::fs::write(file, page).map_err(failed)?;
    let file = file.canonicalize().map_err(failed)?;
    writeln!(io::stdout(), "{}{behind}", file.display())?;
    Ok(ExitCode::SUCCESS)
}

pub(crate) fn playground(args: &PlaygroundArgs) -> Result<ExitCode, Failure> {
    let behind = (args.link.as_ref())
        .map(|link| format!("#{link}"))
        .unwrap_or_default();
    let page = page().into_bytes();
    if let Some(file) = &args.save {
        return save(file, &page, &behind);
    }
    let signals = Signals::catch()?;
    let server = Server::start(args.at, "millpond-playground", move |asked| match asked.path {
        "/" => Answer::ok("text/html; charset=utf-8", page.clone()),
        _ => Answer::refused(404, "there is one page here, at /"),
    });
    let server = server.map_err(|error| {
        Failure::bad_usage(format!("--at {}: {error}; --at 0 picks a free port", args.at))
    })?;
    let mut stdout = io::stdout().lock();
    writeln!(stdout, "http://{}/{behind}", server.address())?;
    stdout.flush()?;
    say!("millpond playground: open this in a browser; Ctrl-C ends it");
    loop {
        if let Some(signal) = signals.caught() {
            return Ok(ExitCode::from(128 + signal));
        }
        std::thread::sleep(LOOK_EVERY);
    }
}
