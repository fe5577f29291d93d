//! What an argument names: a store, a file in one, or a file of this machine.
//!
//! ```text
//!   s3://bucket/prefix           a store
//!   s3://bucket/prefix//a/file   the file a/file in it; a prefix has no two slashes in a row
//!   s3://bucket/prefix//a/       what is below a/
//!   a/file                       of this machine
//! ```

use crate::failure::{Failure, shown};
use std::path::PathBuf;

/// What an argument names.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum Place {
    /// A store, or files in it: an empty name is all of them, one that ends with a slash those below it.
    Store { url: String, name: Option<String> },
    /// Of this machine.
    Local(PathBuf),
}

impl Place {
    pub(crate) fn parse(text: &str) -> Place {
        let is_scheme = |scheme: &str| {
            let letters = |c: char| c.is_ascii_alphanumeric() || "+-.".contains(c);
            !scheme.is_empty() && scheme.chars().all(letters)
        };
        let Some((scheme, rest)) = text.split_once("://").filter(|(scheme, _)| is_scheme(scheme)) else {
            return Place::Local(PathBuf::from(text));
        };
        let (path, name) = match rest.split_once("//") {
            Some((path, name)) => (path, Some(name.to_owned())),
            None => (rest, None),
        };
        Place::Store {
            url: format!("{scheme}://{path}"),
            name,
        }
    }

    /// The store, for a command that is of all of it.
    pub(crate) fn store(text: &str) -> Result<String, Failure> {
        match Place::parse(text) {
            Place::Store { url, name: None } => Ok(url),
            Place::Store {
                url,
                name: Some(name),
            } => Err(Failure::bad_usage(format!(
                "{} is a file of the store {url}, and this is for all of a store: leave //{} out",
                shown(text),
                shown(&name)
            ))),
            Place::Local(_) => Err(no_store(text)),
        }
    }

    /// A file in a store.
    pub(crate) fn file(text: &str) -> Result<(String, String), Failure> {
        match Place::parse(text) {
            Place::Store {
                url,
                name: Some(name),
            } if !name.is_empty() => Ok((url, name)),
            Place::Store { url, .. } => Err(Failure::bad_usage(format!(
                "{} names no file: put two slashes and its name behind the store, as in {url}//name; `millpond store ls {url}` \
                 lists them",
                shown(text)
            ))),
            Place::Local(_) => Err(no_store(text)),
        }
    }
}

fn no_store(text: &str) -> Failure {
    let folder = match text.starts_with('/') {
        true => format!("; the folder is file://{}", shown(text)),
        false => String::new(),
    };
    Failure::bad_usage(format!(
        "{} is no store: one is s3://bucket/prefix or file:///folder, and a file in it has two slashes before its name: \
         s3://bucket/prefix//name{folder}",
        shown(text)
    ))
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test fails by panicking")]
mod tests {
    use super::*;

    #[test]
    fn the_first_two_slashes_in_a_row_end_the_store() {
        let of = |url: &str, name: Option<&str>| Place::Store {
            url: url.to_owned(),
            name: name.map(str::to_owned),
        };
        for (text, place) in [
            ("s3://b/p", of("s3://b/p", None)),
            ("s3://b/p//a/file", of("s3://b/p", Some("a/file"))),
            ("s3://b//a", of("s3://b", Some("a"))),
            ("s3://b/p///a//b", of("s3://b/p", Some("/a//b"))),
            ("s3://b/p//", of("s3://b/p", Some(""))),
            ("file:///folder", of("file:///folder", None)),
            ("file:///folder//dir/", of("file:///folder", Some("dir/"))),
            ("a//b", Place::Local("a//b".into())),
            ("./s3://b", Place::Local("./s3://b".into())),
            ("-", Place::Local("-".into())),
        ] {
            assert_eq!(Place::parse(text), place, "{text}");
        }
        assert_eq!(
            Place::file("s3://b//x").unwrap(),
            (String::from("s3://b"), String::from("x"))
        );
        for text in ["s3://b/p", "s3://b/p//", "file"] {
            assert!(Place::file(text).is_err(), "{text}");
        }
        for text in ["s3://b/p//x", "file"] {
            assert!(Place::store(text).is_err(), "{text}");
        }
    }
}
