//! The cases: a family of calls each in its file.

mod data;
mod links;
mod metadata;
mod names;
mod space;

use rustix::io::Errno;
use std::fmt::Debug;
use std::path::Path;

/// A name, and what is done in an empty directory; what was seen.
pub(super) type Case = (&'static str, fn(&Path) -> String);

/// All of them.
pub(super) static ALL: &[Case] = &{
    const LISTS: [&[Case]; 5] = [
        names::CASES,
        links::CASES,
        data::CASES,
        metadata::CASES,
        space::CASES,
    ];
    const COUNT: usize = {
        let (mut count, mut n) = (0, 0);
        while n < LISTS.len() {
            count += LISTS[n].len();
            n += 1;
        }
        count
    };
    const FIRST: Case = LISTS[0][0];
    const fn join() -> [Case; COUNT] {
        let mut all = [FIRST; COUNT];
        let (mut at, mut list) = (0, 0);
        while list < LISTS.len() {
            let mut n = 0;
            while n < LISTS[list].len() {
                all[at] = LISTS[list][n];
                at += 1;
                n += 1;
            }
            list += 1;
        }
        all
    }
    join()
};

/// The result of a call.
fn said<T>(result: Result<T, Errno>) -> String {
    match result {
        Ok(_) => "ok".into(),
        Err(error) => format!("{error:?}"),
    }
}

/// The same for a call of the standard library.
fn told<T>(result: std::io::Result<T>) -> String {
    said(result.map_err(|e| Errno::from_io_error(&e).unwrap_or(Errno::IO)))
}

fn with<T: Debug>(result: Result<T, Errno>) -> String {
    match result {
        Ok(value) => format!("{value:?}"),
        Err(error) => format!("{error:?}"),
    }
}

/// Several answers in a line.
fn all<const N: usize>(answers: [String; N]) -> String {
    answers.join(", ")
}
