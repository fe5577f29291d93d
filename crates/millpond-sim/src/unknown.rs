//! The error for an unknown name.

/// What was named, how, and which names there are.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error("unknown {what} `{value}`; allowed: {allowed}")]
pub struct UnknownName {
    /// What kind of thing was named.
    pub what: &'static str,
    /// The name given.
    pub value: String,
    /// The names that exist, separated by commas.
    pub allowed: String,
}
