//! Almost valid input for any parser.
//!
//! ```text
//!   an accepted sample ──► 1 to 8 edits: bits, bytes, numbers at their limits, words; parts repeated, cut, or taken
//!                          from another sample
//!                      ──► the parser, in its own process with bounded memory and processor time
//! ```
//!
//! A parser must not panic, abort, loop forever, or take memory because a number in its input says so. The caller
//! checks the parser's errors, and that accepted input is written back unchanged. Each mutant is drawn from a seed; the
//! first seeds are the samples themselves. [`check`] tries them for a second of processor time. `MILLPOND_MUTANTS=n`
//! tries that many, starting at `MILLPOND_FIRST_SEED`; `MILLPOND_SEED=n` tries one.

use fastrand::Rng;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use rustix::time::{ClockId, clock_gettime};
use std::ffi::OsStr;
use std::fs::{self, File};
use std::os::unix::fs::FileExt as _;
use std::process::Command;
use std::time::Duration;

/// A parser's memory beyond what the process had: far more than it needs for its input, and far less than a 32-bit
/// length may ask for.
const MEMORY_BYTES_MAX: u64 = 256 << 20;
/// The longest mutant.
const MUTANT_BYTES_MAX: usize = 64 << 10;
/// Seconds of processor time for one mutant, which needs microseconds.
const SECONDS_MAX: u64 = 20;
/// The least number of mutants tried, and for how long trying continues.
const MUTANTS_MIN: u64 = 500;
const BUDGET: Duration = Duration::from_secs(1);

/// In the process that tries the mutants: the file in which it stores the current seed and mutant.
const AT: &str = "MILLPOND_MUTANTS_AT";

const NUMBERS: [u64; 18] = [
    0,
    1,
    2,
    7,
    127,
    128,
    255,
    256,
    4095,
    4096,
    65535,
    65536,
    0x7fff_ffff,
    0x8000_0000,
    0xffff_ffff,
    1 << 40,
    i64::MAX as u64,
    u64::MAX,
];

const WORDS: [&str; 16] = [
    "",
    "-1",
    "-0",
    "+1",
    "1e999",
    "0x10",
    "1.5",
    ".",
    "NaN",
    "18446744073709551616",
    "99999999999999999999999999999999999999999",
    "é",
    "\u{202e}",
    "\0",
    "\r\n",
    "[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[",
];

/// The mutant for this seed. `words` are the format's own.
///
/// # Panics
/// If there is no sample.
pub fn mutant(samples: &[Vec<u8>], words: &[&str], seed: u64) -> Vec<u8> {
    assert!(!samples.is_empty(), "mutants of no sample");
    if let Some(sample) = samples.get(seed as usize) {
        return sample.clone();
    }
    let mut draw = Rng::with_seed(seed);
    let mut bytes = pick(&mut draw, samples).clone();
    let edits = 1 << draw.u64(..4);
    for _ in 0..1 + draw.u64(..edits) {
        edit(&mut bytes, samples, words, &mut draw);
        bytes.truncate(MUTANT_BYTES_MAX);
    }
    bytes
}

fn pick<'a, T>(draw: &mut Rng, from: &'a [T]) -> &'a T {
    &from[draw.u64(..from.len() as u64) as usize]
}

/// A part of `len` bytes: usually short, even if it may be long.
fn part(draw: &mut Rng, len: usize) -> std::ops::Range<usize> {
    let start = draw.u64(..len as u64 + 1) as usize;
    let most = (len - start).min(1 << draw.u64(..11));
    start..start + draw.u64(..most as u64 + 1) as usize
}

fn edit(bytes: &mut Vec<u8>, samples: &[Vec<u8>], words: &[&str], draw: &mut Rng) {
    let at = draw.u64(..bytes.len() as u64 + 1) as usize;
    match draw.u64(..10) {
        0 if at < bytes.len() => bytes[at] ^= 1 << draw.u64(..8),
        1 if at < bytes.len() => bytes[at] = draw.u64(..) as u8,
        2 => {
            // A number as programs write it.
            let number = pick(draw, &NUMBERS).wrapping_add(draw.u64(..3)).wrapping_sub(1);
            let width = 1 << draw.u64(..4);
            let little = number.to_le_bytes();
            let big = number.to_be_bytes();
            let number = if draw.bool() {
                &little[..width]
            } else {
                &big[8 - width..]
            };
            bytes
                .iter_mut()
                .skip(at)
                .zip(number)
                .for_each(|(to, from)| *to = *from);
        }
        3 => {
            // A number as people write it.
            let Some(first) = bytes[at..].iter().position(u8::is_ascii_digit) else {
                return;
            };
            let first = at + first;
            let digits = bytes[first..]
                .iter()
                .take_while(|byte| byte.is_ascii_digit())
                .count();
            let text = match draw.bool() {
                true => pick(draw, &NUMBERS).to_string(),
                false => (*pick(draw, &WORDS)).to_owned(),
            };
            bytes.splice(first..first + digits, text.into_bytes());
        }
        4 => {
            let own = !words.is_empty() && draw.u64(..3) != 0;
            let word = pick(draw, if own { words } else { &WORDS });
            bytes.splice(at..at, word.bytes());
        }
        5 => drop(bytes.drain(part(draw, bytes.len()))),
        6 => {
            let part = bytes[part(draw, bytes.len())].to_vec();
            let times = 1 << draw.u64(..6);
            bytes.splice(at..at, part.repeat(times));
        }
        7 => bytes.truncate(at),
        8 => {
            let other = pick(draw, samples);
            let from = draw.u64(..other.len() as u64 + 1) as usize;
            bytes.splice(at.., other[from..].iter().copied());
        }
        _ => {
            let random: Vec<u8> = (0..draw.u64(..9)).map(|_| draw.u64(..) as u8).collect();
            bytes.splice(at..at, random);
        }
    }
}

/// Gives mutants of `samples` to `reads` in a separate process, which runs the test `test` (its full path) again.
///
/// # Panics
/// If `reads` panics, is killed, or takes more memory or time than any input justifies. The message has the mutant and
/// how to replay it.
pub fn check(test: &str, samples: &[Vec<u8>], words: &[&str], reads: impl Fn(&[u8])) {
    if let Some(at) = std::env::var_os(AT) {
        return try_all(&at, samples, words, reads);
    }
    let at = tempfile::NamedTempFile::new().expect("a temporary file");
    let program = std::env::current_exe().expect("the path of this program");
    let mut child = Command::new(program);
    child.args(["--exact", test, "--nocapture", "--test-threads=1"]);
    child.env(AT, at.path()).env("RUST_BACKTRACE", "0");
    let output = child.output().expect("this program runs once more");
    let said = String::from_utf8_lossy(&output.stdout);
    if output.status.success() {
        assert!(said.contains("1 passed"), "there is no test {test}: {said}");
        return;
    }
    let kept = fs::read(at.path()).unwrap_or_default();
    let errors = String::from_utf8_lossy(&output.stderr);
    let Some((seed, mutant)) = kept.split_first_chunk() else {
        panic!("{test}: {}: {said}{errors}", output.status);
    };
    let (seed, mutant) = (u64::from_le_bytes(*seed), mutant.escape_ascii().to_string());
    let folder = std::env::var("CARGO_MANIFEST_DIR").unwrap_or_default();
    panic!(
        "mutant {seed} of {test}: {}\n{errors}\nreplay: MILLPOND_SEED={seed} cargo test --manifest-path {folder}/Cargo.toml {test}\nit is {}",
        output.status,
        mutant.get(..4000).unwrap_or(&mutant)
    );
}

fn try_all(at: &OsStr, samples: &[Vec<u8>], words: &[&str], reads: impl Fn(&[u8])) {
    let number = |name: &str| {
        let value = std::env::var(name).ok()?;
        let number = value.parse::<u64>();
        Some(number.unwrap_or_else(|_| panic!("{name} is {value}: a number is needed")))
    };
    let at = File::create(at).expect("a file for what is tried");
    bound(Resource::As, memory() + MEMORY_BYTES_MAX);
    let (first, most) = match number("MILLPOND_SEED") {
        Some(seed) => (seed, Some(1)),
        None => (
            number("MILLPOND_FIRST_SEED").unwrap_or(0),
            number("MILLPOND_MUTANTS"),
        ),
    };
    let began = processor_time();
    for n in 0..most.unwrap_or(u64::MAX) {
        let spent = processor_time();
        if most.is_none() && n >= MUTANTS_MIN && spent - began > BUDGET {
            break;
        }
        let seed = first.wrapping_add(n);
        let mutant = mutant(samples, words, seed);
        let kept = [&seed.to_le_bytes()[..], &mutant].concat();
        at.set_len(0).expect("a file for what is tried");
        at.write_all_at(&kept, 0).expect("a file for what is tried");
        bound(Resource::Cpu, spent.as_secs() + SECONDS_MAX);
        reads(&mutant);
    }
}

/// Sets a resource limit: beyond it the process is killed, or gets no memory.
fn bound(resource: Resource, most: u64) {
    let limit = Rlimit {
        current: Some(most),
        ..getrlimit(resource)
    };
    // Where it is not allowed the rest is still tried.
    let _ = setrlimit(resource, limit);
}

/// Bytes of address space that this process has.
fn memory() -> u64 {
    let statm = fs::read_to_string("/proc/self/statm").unwrap_or_default();
    let pages = statm
        .split(' ')
        .next()
        .and_then(|pages| pages.parse::<u64>().ok());
    pages.map_or(1 << 40, |pages| pages * rustix::param::page_size() as u64)
}

fn processor_time() -> Duration {
    let time = clock_gettime(ClockId::ProcessCPUTime);
    Duration::new(time.tv_sec as u64, time.tv_nsec as u32)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_seed_is_a_mutant_and_the_first_are_the_samples() {
        let samples = [b"one 1".to_vec(), b"two".to_vec()];
        for (seed, sample) in (0..).zip(&samples) {
            assert_eq!(&mutant(&samples, &[], seed), sample);
        }
        let mutants: Vec<_> = (0..2000).map(|seed| mutant(&samples, &["word"], seed)).collect();
        let again: Vec<_> = (0..2000).map(|seed| mutant(&samples, &["word"], seed)).collect();
        assert_eq!(mutants, again);
        let different: std::collections::BTreeSet<_> = mutants.iter().collect();
        assert!(different.len() > 1000, "{} of 2000", different.len());
        let has = |word: &str| {
            mutants
                .iter()
                .any(|m| m.windows(word.len()).any(|w| w == word.as_bytes()))
        };
        assert!(has("word") && has("18446744073709551616"), "words and numbers");
    }

    /// What each kind of mistake comes to: this test runs itself again, in which one is made.
    #[test]
    fn a_reader_that_panics_or_takes_what_a_number_says_is_found_with_its_mutant() {
        let test =
            "mutants::tests::a_reader_that_panics_or_takes_what_a_number_says_is_found_with_its_mutant";
        let samples = [7_u32.to_le_bytes().to_vec()];
        let caught = |reads: fn(&[u8])| {
            let caught = std::panic::catch_unwind(|| check(test, &samples, &[], reads));
            caught
                .err()
                .map(|why| *why.downcast::<String>().expect("a message"))
        };
        let takes: fn(&[u8]) = |bytes| {
            if let Some(len) = bytes.first_chunk() {
                let len = u32::from_le_bytes(*len) as usize;
                std::hint::black_box(Vec::<u8>::with_capacity(len));
            }
        };
        if std::env::var_os(AT).is_some() {
            return check(test, &samples, &[], takes);
        }
        let said = caught(takes).expect("it takes 4 GiB");
        assert!(said.contains("memory allocation of"), "{said}");
        assert!(said.contains("replay: MILLPOND_SEED="), "{said}");
    }
}
