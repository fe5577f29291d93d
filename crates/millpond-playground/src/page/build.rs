//! Builds the module and writes the page.

use super::{FILE, assemble};
use std::env;
use std::fmt;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::process::Command;

const TARGET: &str = "wasm32-unknown-unknown";

/// Why there is no page.
#[derive(Debug)]
pub enum BuildError {
    /// The machine lacks something; with what brings it.
    Skipped(String),
    /// The module could not be built.
    Failed(String),
}

impl fmt::Display for BuildError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            BuildError::Skipped(why) => write!(f, "skipped: {why}"),
            BuildError::Failed(why) => f.write_str(why),
        }
    }
}

fn failed(what: &str, path: &Path, error: &io::Error) -> BuildError {
    BuildError::Failed(format!("cannot {what} {}: {error}", path.display()))
}

/// Whether the standard library of the target is there.
fn check_target() -> Result<(), BuildError> {
    let rustc = env::var_os("RUSTC").unwrap_or_else(|| "rustc".into());
    let said = Command::new(rustc)
        .args(["--print", "target-libdir", "--target", TARGET])
        .output();
    let folder = said.ok().filter(|said| said.status.success());
    let folder = folder.map(|said| PathBuf::from(String::from_utf8_lossy(&said.stdout).trim()));
    if folder.is_some_and(|folder| folder.is_dir()) {
        return Ok(());
    }
    Err(BuildError::Skipped(format!(
        "the target {TARGET} is not there; `rustup target add {TARGET}` brings it"
    )))
}

/// Builds the module in release mode with the sources of this crate, and writes the page to `out`. Its size in bytes.
///
/// # Errors
/// [`BuildError::Skipped`] if the target or the sources are not there.
pub fn build(out: &Path) -> Result<u64, BuildError> {
    check_target()?;
    let manifest = Path::new(env!("CARGO_MANIFEST_DIR")).join("Cargo.toml");
    if !manifest.is_file() {
        let why = format!("the sources are not where this was built: {}", manifest.display());
        return Err(BuildError::Skipped(why));
    }
    let cargo = env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let said = Command::new(cargo)
        .args([
            "rustc",
            "--release",
            "--lib",
            "--crate-type",
            "cdylib",
            "--target",
            TARGET,
        ])
        .args(["--message-format", "json-render-diagnostics", "--manifest-path"])
        .arg(&manifest)
        // the page is read by people on slow lines: no names, and one unit, which is also the fastest
        .env("CARGO_PROFILE_RELEASE_STRIP", "symbols")
        .env("CARGO_PROFILE_RELEASE_LTO", "fat")
        .env("CARGO_PROFILE_RELEASE_CODEGEN_UNITS", "1")
        .env("CARGO_PROFILE_RELEASE_PANIC", "abort")
        .stderr(std::process::Stdio::inherit())
        .output()
        .map_err(|e| BuildError::Skipped(format!("cargo can't be started: {e}")))?;
    let messages = String::from_utf8_lossy(&said.stdout).into_owned();
    let module = messages
        .lines()
        .rev()
        .find_map(module_of)
        .filter(|_| said.status.success());
    let Some(module) = module else {
        return Err(BuildError::Failed("the module could not be built".into()));
    };
    let wasm = fs::read(&module).map_err(|e| failed("read", &module, &e))?;
    let page = assemble(&wasm);
    fs::write(out, &page).map_err(|e| failed("write", out, &e))?;
    Ok(page.len() as u64)
}

/// The module, if a message of cargo is about it.
fn module_of(message: &str) -> Option<PathBuf> {
    let message: serde_json::Value = serde_json::from_str(message).ok()?;
    let files = message.get("filenames")?.as_array()?;
    let files = files.iter().filter_map(|file| file.as_str());
    files
        .map(PathBuf::from)
        .find(|file| file.extension().is_some_and(|end| end == "wasm"))
}

/// Where the page is that was built last: beside the program, or where a release build would be.
pub fn found() -> Option<PathBuf> {
    let program = env::current_exe().ok()?;
    let folder = program.parent()?;
    let beside = [folder.join(FILE), folder.join("../release").join(FILE)];
    beside.into_iter().find(|file| file.is_file())
}
