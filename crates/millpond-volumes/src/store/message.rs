//! Error messages of a store, without secrets.
//!
//! ```text
//!   settings of the environment and of profiles ─┐
//!   files with tokens that these name ───────────┼─ noted ──► masked wherever they are said
//!   what a role hands out, each time it does ────┘
//!   words as long as a token or a signature; queries and users of addresses ──► left out
//! ```
//!
//! A server's answer may contain any part of a request, and a request has keys and tokens in its headers.

use object_store::Error as StoreError;
use std::collections::VecDeque;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// The longest message of a store that is handed on.
const MESSAGE_BYTES_MAX: usize = 300;

/// What is shorter is in any text.
#[cfg(feature = "s3")]
const SECRET_BYTES_MIN: usize = 4;

/// Secrets that are known at a time: three a role's renewal, so those of more than a day for a dozen stores.
#[cfg(feature = "s3")]
const SECRETS_MAX: usize = 1024;

/// Letters in a row that are no name of a bucket (63 at most) but a token, a key or a signature (64 digits).
const WORD_MIN: usize = 64;

/// The same with slashes among them, as base64 has and the path of an object.
const PATH_MIN: usize = 200;

/// Of all stores of the process: the latest last.
static SECRETS: Mutex<VecDeque<String>> = Mutex::new(VecDeque::new());

fn secrets() -> MutexGuard<'static, VecDeque<String>> {
    SECRETS.lock().unwrap_or_else(PoisonError::into_inner)
}

/// No message says this from now on.
#[cfg(feature = "s3")]
pub(super) fn note(secret: &str) {
    let secret = secret.trim();
    let mut secrets = secrets();
    if secret.len() < SECRET_BYTES_MIN || secrets.back().is_some_and(|last| last == secret) {
        return;
    }
    // What is in use stays the longest.
    match secrets.iter().position(|known| known == secret) {
        Some(at) => {
            let known = secrets.remove(at);
            secrets.extend(known);
        }
        None => {
            if secrets.len() == SECRETS_MAX {
                secrets.pop_front();
            }
            secrets.push_back(secret.to_owned());
        }
    }
}

/// What a store's error says: of an answer in XML, code and message; nothing of one in JSON; no secret.
pub(super) fn say(error: &StoreError) -> String {
    let mut said = error.to_string();
    let mut source = std::error::Error::source(error);
    while let Some(error) = source {
        let text = error.to_string();
        if !said.contains(&text) {
            said = format!("{said}: {text}");
        }
        source = error.source();
    }
    shorten(&said)
}

fn shorten(said: &str) -> String {
    let tag = |name: &str| {
        let (_, rest) = said.split_once(&format!("<{name}>"))?;
        rest.split_once('<').map(|(text, _)| text)
    };
    let mut text = match (tag("Code"), tag("Message")) {
        (Some(code), Some(message)) => format!("{code}: {message}"),
        (Some(code), None) => code.to_owned(),
        // An answer in XML that has no code says nothing to people, and one in JSON is a role's.
        _ => said.split(['<', '{']).next().unwrap_or_default().to_owned(),
    };
    for secret in secrets().iter() {
        text = text.replace(secret.as_str(), "…");
    }
    without_query(&mut text);
    without_user(&mut text);
    let text = without_runs(&text, PATH_MIN, |c| is_of_word(c) || c == '/');
    let mut text = without_runs(&text, WORD_MIN, is_of_word);
    let cut = text
        .char_indices()
        .map(|(at, _)| at)
        .find(|at| *at >= MESSAGE_BYTES_MAX);
    text.truncate(cut.unwrap_or(text.len()));
    text.trim_end_matches([' ', ':']).to_owned()
}

/// The query of an address may be signed.
fn without_query(text: &mut String) {
    let mut from = 0;
    while let Some(at) = text[from..].find('?').map(|at| from + at) {
        let end = text[at..]
            .find([' ', ')', '"', '\'', ','])
            .map_or(text.len(), |end| at + end);
        text.replace_range(at..end, "");
        from = at;
    }
}

/// An address, of a proxy for instance, may have a user and a password.
fn without_user(text: &mut String) {
    let mut from = 0;
    while let Some(at) = text[from..].find("://").map(|at| from + at + 3) {
        let end = text[at..]
            .find([' ', ')', '"', '\'', ',', '/'])
            .map_or(text.len(), |end| at + end);
        if let Some(user) = text[at..end].rfind('@') {
            text.replace_range(at..at + user, "…");
        }
        from = at;
    }
}

fn is_of_word(c: char) -> bool {
    c.is_ascii_alphanumeric() || "+=_-%~".contains(c)
}

/// The text without what has so many such letters in a row.
fn without_runs(text: &str, min: usize, is_of_run: impl Fn(char) -> bool) -> String {
    let (mut kept, mut run) = (String::new(), String::new());
    for c in text.chars().chain(['\n']) {
        if is_of_run(c) {
            run.push(c);
            continue;
        }
        match run.len() >= min {
            true => kept.push('…'),
            false => kept.push_str(&run),
        }
        run.clear();
        kept.push(c);
    }
    kept.pop();
    kept
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn of_an_answer_code_and_message_are_said_and_of_an_address_no_query_and_no_user() {
        let answer = "Generic S3 error: at http://h/b?X-Amz-Signature=sig Server returned 403: <?xml?><Error><Code>Denied</Code>\
                      <Message>The key is wrong</Message><StringToSign>secret</StringToSign></Error>";
        assert_eq!(shorten(answer), "Denied: The key is wrong");
        let plain = "error sending request for url (http://h/b/m?list-type=2&X-Amz-Signature=abc): refused";
        assert_eq!(
            shorten(plain),
            "error sending request for url (http://h/b/m): refused"
        );
        let proxy = "proxy http://name:word@p:3128/ refused, and http://h/b@c too";
        assert_eq!(
            shorten(proxy),
            "proxy http://…@p:3128/ refused, and http://h/b@c too"
        );
        let role = "no credentials: {\"AccessKeyId\":\"ASIA\",\"Token\":\"token\"}";
        assert_eq!(shorten(role), "no credentials");
    }

    #[cfg(feature = "s3")]
    #[test]
    fn what_was_noted_is_masked_and_what_is_in_use_longest() {
        note("in-use-always\n");
        for n in 0..SECRETS_MAX * 2 {
            note(&format!("rotated-{n:06}"));
            note("in-use-always");
        }
        note("abc");
        let said = format!("abc in-use-always rotated-{:06}", SECRETS_MAX * 2 - 1);
        assert_eq!(shorten(&said), "abc … …");
        assert_eq!(secrets().len(), SECRETS_MAX);
    }

    #[test]
    fn what_is_as_long_as_a_token_or_a_signature_is_not_said() {
        let token = "Qx+/9a".repeat(50);
        let signature = "0123456789abcdef".repeat(4);
        let said = format!(
            "token {token}, Signature={signature}; m/00000000000000000017 of {}",
            "b".repeat(63)
        );
        let kept = format!("token …, …; m/00000000000000000017 of {}", "b".repeat(63));
        assert_eq!(shorten(&said), kept);
    }
}
