//! `millpond playground`: the posts in a browser, served on loopback.

use crate::address::local_address;
use crate::failure::{EXIT_UNAVAILABLE, Failure};
use crate::signals::Signals;
use millpond::internal::http::{Answer, Server};
use millpond_playground::link::Link;
use millpond_playground::page::{FILE, found};
use std::io::{self, Write};
use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

const HELP: &str = "\
Examples:
  millpond playground                      the five posts as scenes; open what it prints; until Ctrl-C
  millpond playground 'scene=hills2015'    one of them; a whole link has settings, seed and moment as well
  millpond playground --at 0               at a port that is free

The page is one file, which a browser opens from disk as well. `cargo run -p millpond-playground` makes it from the sources;
that needs `rustup target add wasm32-unknown-unknown`. docs/PLAYGROUND.md says what there is to see.
Exit codes: 0, 2 bad command line, 3 there is no page here, 130 after Ctrl-C.";

/// How long a signal may wait to be seen.
const LOOK_EVERY: Duration = Duration::from_millis(50);

#[derive(clap::Args)]
#[command(after_help = HELP)]
pub(crate) struct PlaygroundArgs {
    /// What is to be shown: what stands behind the # of the page's address, as `lab run` prints it.
    #[arg(value_parser = link)]
    link: Option<Link>,
    /// Where to serve. A port alone is one of 127.0.0.1; 0 takes one that is free.
    #[arg(long, value_name = "[ADDRESS:]PORT", default_value = "9466", value_parser = local_address)]
    at: SocketAddr,
    /// The page, if it is elsewhere than beside this program.
    #[arg(long, value_name = "FILE")]
    page: Option<PathBuf>,
}

fn link(text: &str) -> Result<Link, String> {
    Link::parse(text)
}

pub(crate) fn playground(args: &PlaygroundArgs) -> Result<ExitCode, Failure> {
    let file = args.page.clone().or_else(found).ok_or_else(|| Failure {
        code: EXIT_UNAVAILABLE,
        message: Some(format!(
            "there is no {FILE} beside this program: `cargo run -p millpond-playground` makes it, which needs `rustup target add \
             wasm32-unknown-unknown`; or name one with --page"
        )),
    })?;
    let page = std::fs::read(&file)
        .map_err(|error| Failure::bad_usage(format!("--page {}: {error}", file.display())))?;
    let signals = Signals::catch()?;
    let server = Server::start(args.at, "millpond-playground", move |asked| match asked.path {
        "/" => Answer::ok("text/html; charset=utf-8", page.clone()),
        _ => Answer::refused(404, "there is one page here, at /"),
    });
    let server = server.map_err(|error| {
        Failure::bad_usage(format!(
            "--at {}: {error}; another port may be free: --at 0 takes one that is",
            args.at
        ))
    })?;
    let behind = args
        .link
        .as_ref()
        .map(|link| format!("#{link}"))
        .unwrap_or_default();
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
