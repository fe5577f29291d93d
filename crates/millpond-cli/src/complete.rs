//! What a shell offers behind TAB: commands and options, and the names that only this program knows.
//!
//! ```text
//!   millpond completions bash ──► a script for the shell ──► TAB: MILLPOND_COMPLETE=bash millpond -- the words so far
//!                                                                                        │
//!        experiments, their variants and workloads, settings, running caches, mounts ◄───┘
//! ```
//!
//! The program is asked at each TAB, so the offers match what it takes, and caches are those running now. The names are
//! in `complete.rs` next to the commands that take them.

/// The words up to the completed one, without the program's own.
pub(crate) fn words() -> Vec<String> {
    let words = std::env::args_os().skip_while(|word| word != "--").skip(2);
    let mut words: Vec<_> = words.map(|word| word.to_string_lossy().into_owned()).collect();
    // A shell that also passes the words after the cursor says which word is completed.
    let at = std::env::var("_CLAP_COMPLETE_INDEX")
        .ok()
        .and_then(|at| at.parse().ok());
    words.truncate(at.unwrap_or(usize::MAX));
    words
}

/// The values of candidates.
#[cfg(test)]
pub(crate) fn offered(candidates: Vec<clap_complete::engine::CompletionCandidate>) -> Vec<String> {
    let value = |c: clap_complete::engine::CompletionCandidate| c.get_value().to_string_lossy().into_owned();
    candidates.into_iter().map(value).collect()
}
