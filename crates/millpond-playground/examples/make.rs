//! Makes the module that the page and the program carry: this crate as WebAssembly, packed by gzip.
//!
//! ```sh
//! rustup target add wasm32-unknown-unknown
//! cargo run -p millpond-playground --example make              # writes src/page/module.wasm.gz
//! cargo run -p millpond-playground --example make -- --check   # is that file what these sources make?
//! ```
//!
//! The same sources, lock file and compiler make the same bytes, on any machine and in any folder: one unit of code, no
//! symbols, and folders under names that all machines have. Another compiler makes other bytes; which one made the file
//! stands in its gzip header.

use flate2::read::MultiGzDecoder;
use flate2::{Compression, GzBuilder};
use serde_json::Value;
use std::collections::BTreeSet;
use std::env;
use std::fs;
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, Stdio};

const TARGET: &str = "wasm32-unknown-unknown";
const FILE: &str = "src/page/module.wasm.gz";
const USAGE: &str = "usage: cargo run -p millpond-playground --example make [-- --check]";
/// The code is read by people on slow lines: for size it is a third smaller than for speed, and a scene is as fluent.
const OPT_LEVEL: &str = "s";

/// The output of a program.
fn output(program: &str, arguments: &[&str]) -> Result<String, String> {
    let said = Command::new(env::var_os(program.to_uppercase()).unwrap_or_else(|| program.into()))
        .args(arguments)
        .stderr(Stdio::inherit())
        .output()
        .map_err(|error| format!("{program} can't be started: {error}"))?;
    match said.status.success() {
        true => Ok(String::from_utf8_lossy(&said.stdout).trim().to_owned()),
        false => Err(format!(
            "{program} {} failed: {}",
            arguments.join(" "),
            said.status
        )),
    }
}

/// The compiler, as it names itself; and the folder of its standard library's sources.
struct Compiler {
    name: String,
    commit: String,
    sources: PathBuf,
}

impl Compiler {
    fn here() -> Result<Compiler, String> {
        let folder = output("rustc", &["--print", "target-libdir", "--target", TARGET])?;
        if !Path::new(&folder).is_dir() {
            return Err(format!(
                "the target {TARGET} is not there; `rustup target add {TARGET}` brings it"
            ));
        }
        let about = output("rustc", &["-vV"])?;
        let named = |name| about.lines().find_map(|line| line.strip_prefix(name));
        let sources = Path::new(&output("rustc", &["--print", "sysroot"])?).join("lib/rustlib/src/rust");
        Ok(Compiler {
            name: about.lines().next().unwrap_or_default().to_owned(),
            commit: named("commit-hash: ").unwrap_or("unknown").to_owned(),
            sources,
        })
    }
}

/// Folders of this machine, which must not be in the module, and the names that they have there.
fn folders(manifest: &str, compiler: &Compiler) -> Result<Vec<(PathBuf, String)>, String> {
    let metadata = [
        "metadata",
        "--format-version=1",
        "--locked",
        "--filter-platform",
        TARGET,
        "--manifest-path",
        manifest,
    ];
    let metadata: Value = serde_json::from_str(&output("cargo", &metadata)?).map_err(|e| e.to_string())?;
    let path = |value: &Value| value.as_str().map(PathBuf::from);
    let packages = metadata["packages"].as_array().into_iter().flatten();
    let registries: BTreeSet<PathBuf> = packages
        .filter(|package| !package["source"].is_null())
        .filter_map(|package| Some(path(&package["manifest_path"])?.parent()?.parent()?.to_owned()))
        .collect();
    let mut folders: Vec<(PathBuf, String)> = registries
        .into_iter()
        .map(|folder| (folder, "registry".into()))
        .collect();
    folders.extend(path(&metadata["workspace_root"]).map(|folder| (folder, "millpond".into())));
    folders.extend(path(&metadata["target_directory"]).map(|folder| (folder, "target".into())));
    folders.push((compiler.sources.clone(), format!("/rustc/{}", compiler.commit)));
    Ok(folders)
}

/// The module, from the sources of this crate.
fn module(compiler: &Compiler) -> Result<Vec<u8>, String> {
    let manifest = concat!(env!("CARGO_MANIFEST_DIR"), "/Cargo.toml");
    // of two that fit the last counts, so the target folder, which may be within another, comes behind it
    let flags: Vec<String> = folders(manifest, compiler)?
        .into_iter()
        .map(|(folder, name)| format!("--remap-path-prefix={}={name}", folder.display()))
        .collect();
    let said = Command::new(env::var_os("CARGO").unwrap_or_else(|| "cargo".into()))
        .args([
            "rustc",
            "--locked",
            "--release",
            "--lib",
            "--crate-type",
            "cdylib",
        ])
        .args(["--target", TARGET, "--manifest-path", manifest])
        .args(["--message-format", "json-render-diagnostics"])
        .env("CARGO_ENCODED_RUSTFLAGS", flags.join("\x1f"))
        .env("CARGO_PROFILE_RELEASE_OPT_LEVEL", OPT_LEVEL)
        .env("CARGO_PROFILE_RELEASE_STRIP", "symbols")
        .env("CARGO_PROFILE_RELEASE_DEBUG", "none")
        .env("CARGO_PROFILE_RELEASE_LTO", "fat")
        .env("CARGO_PROFILE_RELEASE_CODEGEN_UNITS", "1")
        .env("CARGO_PROFILE_RELEASE_PANIC", "abort")
        .stderr(Stdio::inherit())
        .output()
        .map_err(|error| format!("cargo can't be started: {error}"))?;
    let messages = String::from_utf8_lossy(&said.stdout).into_owned();
    let module = messages.lines().rev().find_map(module_of);
    let module = module
        .filter(|_| said.status.success())
        .ok_or("the module could not be built")?;
    fs::read(&module).map_err(|error| format!("{}: {error}", module.display()))
}

/// The module, if a message of cargo is about it.
fn module_of(message: &str) -> Option<PathBuf> {
    let message: Value = serde_json::from_str(message).ok()?;
    let files = message.get("filenames")?.as_array()?;
    let files = files.iter().filter_map(|file| file.as_str());
    files
        .map(PathBuf::from)
        .find(|file| file.extension().is_some_and(|end| end == "wasm"))
}

/// The module and the compiler that made it.
fn unpacked(packed: &[u8]) -> Result<(Vec<u8>, String), String> {
    let mut decoder = MultiGzDecoder::new(packed);
    let mut module = Vec::new();
    decoder
        .read_to_end(&mut module)
        .map_err(|error| error.to_string())?;
    let header = decoder.header().and_then(|header| header.comment());
    let compiler = String::from_utf8_lossy(header.unwrap_or_default()).into_owned();
    Ok((module, compiler))
}

fn packed(module: &[u8], compiler: &Compiler) -> io::Result<Vec<u8>> {
    let mut packer = GzBuilder::new()
        .comment(compiler.name.as_str())
        .write(Vec::new(), Compression::best());
    packer.write_all(module)?;
    packer.finish()
}

/// Whether the file is what the sources make, in words; or how it is not.
fn checked(file: &Path, made: &[u8], compiler: &Compiler) -> Result<String, String> {
    let kept = fs::read(file).map_err(|error| format!("{}: {error}", file.display()))?;
    let (kept, by) = unpacked(&kept).map_err(|error| format!("{}: {error}", file.display()))?;
    match kept == made {
        true => Ok(format!("{FILE} is what these sources make with {by}")),
        false if by != compiler.name => Err(format!(
            "{FILE} was made by {by}; this is {}, which makes other bytes: `rustup run VERSION cargo run …` compares them",
            compiler.name
        )),
        false => Err(format!(
            "{FILE} is of other sources: `cargo run -p millpond-playground --example make` makes it anew"
        )),
    }
}

fn run(arguments: &[String]) -> Result<String, String> {
    let is_check = match arguments {
        [] => false,
        [only] if only == "--check" => true,
        _ => return Err(USAGE.into()),
    };
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join(FILE);
    let compiler = Compiler::here()?;
    let made = module(&compiler)?;
    if is_check {
        return checked(&file, &made, &compiler);
    }
    let packed = packed(&made, &compiler).map_err(|error| error.to_string())?;
    fs::write(&file, &packed).map_err(|error| format!("{}: {error}", file.display()))?;
    Ok(format!(
        "{FILE}: {} KiB, {} unpacked",
        packed.len() >> 10,
        made.len() >> 10
    ))
}

fn main() -> ExitCode {
    let arguments: Vec<String> = env::args().skip(1).collect();
    match run(&arguments) {
        Ok(said) => {
            // A user who has closed the terminal doesn't read it.
            let _ = writeln!(io::stdout(), "{said}");
            ExitCode::SUCCESS
        }
        Err(why) => {
            let _ = writeln!(io::stderr(), "{why}");
            ExitCode::FAILURE
        }
    }
}
