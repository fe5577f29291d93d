//! Makes the page: `cargo run -p millpond-playground`, and `-- FILE` for another place.

use millpond_playground::page::{self, BuildError, FILE};
use std::io::{self, Write};
use std::path::PathBuf;
use std::process::ExitCode;

fn main() -> ExitCode {
    let given = std::env::args_os().nth(1).map(PathBuf::from);
    if given
        .as_ref()
        .is_some_and(|given| given.as_os_str().as_encoded_bytes().starts_with(b"-"))
    {
        let usage = "usage: cargo run -p millpond-playground [-- FILE]: makes the page, beside `millpond` unless FILE is given";
        let _ = writeln!(io::stderr(), "{usage}");
        return ExitCode::from(2);
    }
    let out = given.unwrap_or_else(|| {
        // where `millpond playground` looks
        let target = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../target/release");
        let target = target.canonicalize().unwrap_or(target);
        target.join(FILE)
    });
    let (mut stdout, mut stderr) = (io::stdout(), io::stderr());
    // Who has closed the terminal does not read it.
    match page::build(&out) {
        Ok(bytes) => {
            let _ = writeln!(
                stdout,
                "{} ({:.1} MB): open it in a browser",
                out.display(),
                bytes as f64 / 1e6
            );
            ExitCode::SUCCESS
        }
        Err(error @ BuildError::Skipped(_)) => {
            let _ = writeln!(stderr, "{error}");
            ExitCode::from(3)
        }
        Err(error @ BuildError::Failed(_)) => {
            let _ = writeln!(stderr, "{error}");
            ExitCode::FAILURE
        }
    }
}
