//! The error for an unknown name.

/// The unknown name, its kind, and the known names.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error("unknown {what} `{value}`; allowed: {allowed}")]
pub struct UnknownName {
    /// The kind of the name.
    pub what: &'static str,
    /// The name given.
    pub value: String,
    /// The names that exist, separated by commas.
    pub allowed: String,
}
