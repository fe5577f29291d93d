//! Code as text: without comments, strings and tests; and the paths in it.

use super::Module;

/// The length of the character literal at the start of `code`; a lifetime is none.
fn character(code: &str) -> Option<usize> {
    let quoted = code.strip_prefix('\'')?;
    let first = quoted.chars().next()?;
    let behind = match first {
        '\\' => 2 + quoted[2..].find('\'')?,
        _ => first.len_utf8(),
    };
    quoted[behind..].starts_with('\'').then_some(behind + 2)
}

/// The text with spaces for comments and for what is in quotes; lines stay where they are.
pub(crate) fn without_comments_and_strings(text: &str) -> String {
    let bytes = text.as_bytes();
    let mut out = String::with_capacity(text.len());
    let mut at = 0;
    let skip = |from: usize, to: usize, out: &mut String| {
        out.extend(text[from..to].chars().map(|c| if c == '\n' { c } else { ' ' }));
        to
    };
    while at < bytes.len() {
        let rest = &text[at..];
        let hashes = rest
            .strip_prefix('r')
            .map(|raw| raw.len() - raw.trim_start_matches('#').len());
        let in_word = at > 0 && (bytes[at - 1].is_ascii_alphanumeric() || bytes[at - 1] == b'_');
        if rest.starts_with("//") {
            at = skip(at, at + rest.find('\n').unwrap_or(rest.len()), &mut out);
        } else if let Some(n) = hashes.filter(|n| !in_word && rest[1 + n..].starts_with('"')) {
            let end = format!("\"{}", "#".repeat(n));
            let body = at + n + 2;
            let len = text[body..].find(&end).expect("a raw string ends");
            at = skip(at, body + len + end.len(), &mut out);
        } else if rest.starts_with('"') {
            let mut end = 1;
            while rest.as_bytes()[end] != b'"' {
                end += 1 + usize::from(rest.as_bytes()[end] == b'\\');
            }
            at = skip(at, at + end + 1, &mut out);
        } else if let Some(len) = character(rest) {
            at = skip(at, at + len, &mut out);
        } else {
            let c = rest.chars().next().unwrap();
            out.push(c);
            at += c.len_utf8();
        }
    }
    out
}

/// The modules in files of their own that are there for tests only.
pub(crate) fn tests_of(module: &Module, code: &str) -> Vec<Module> {
    let items = code.split("#[cfg(test)]").skip(1);
    let names = items.filter_map(|behind| {
        let (item, _) = behind.split_once([';', '{'])?;
        let declared = item
            .rsplit_once("mod ")
            .filter(|_| behind[item.len()..].starts_with(';'));
        Some(declared?.1.trim().to_owned())
    });
    let within = |name| module.iter().cloned().chain([name]).collect();
    names.map(within).collect()
}

/// The code without what is there for tests only.
pub(crate) fn without_tests(code: &str) -> String {
    let mut out = String::new();
    let mut rest = code;
    while let Some((before, behind)) = rest.split_once("#[cfg(test)]") {
        out.push_str(before);
        let item = behind.find(['{', ';']).unwrap();
        let mut end = item + 1;
        if behind[item..].starts_with('{') {
            let mut depth = 1;
            for c in behind[end..].chars() {
                depth += i32::from(c == '{') - i32::from(c == '}');
                end += c.len_utf8();
                if depth == 0 {
                    break;
                }
            }
        }
        out.extend(behind[..end].chars().filter(|&c| c == '\n'));
        rest = &behind[end..];
    }
    out + rest
}

/// The single paths of `a::{b, c::{d, e as f}}`, each with the name that it gets.
pub(crate) fn single(tree: &str) -> Vec<(String, String)> {
    let tree = tree.trim();
    let Some((prefix, list)) = tree.split_once('{') else {
        let (path, name) = tree.split_once(" as ").unwrap_or((tree, tree));
        let last = name.rsplit("::").next().unwrap().trim();
        return vec![(path.trim().to_owned(), last.to_owned())];
    };
    let list = list.strip_suffix('}').expect("a list ends").trim_end();
    let (mut depth, mut begin, mut items) = (0, 0, Vec::new());
    for (at, c) in list.char_indices().chain([(list.len(), ',')]) {
        depth += i32::from(c == '{') - i32::from(c == '}');
        if c == ',' && depth == 0 {
            items.push(list[begin..at].trim());
            begin = at + 1;
        }
    }
    let items = items.into_iter().filter(|item| !item.is_empty());
    let paths = items.flat_map(single);
    paths
        .map(|(path, name)| (format!("{}{path}", prefix.trim()), name))
        .collect()
}

/// `use` items: the line, whether it hands on, and the tree.
pub(crate) fn uses(code: &str) -> Vec<(usize, bool, &str)> {
    let mut found = Vec::new();
    for (at, _) in code.match_indices("use ") {
        // `pub struct Reuse {` is none.
        if code[..at].ends_with(|c: char| c.is_alphanumeric() || c == '_') {
            continue;
        }
        let before = code[..at].rsplit(['\n', ';', '{', '}']).next().unwrap().trim();
        if !before.is_empty() && !before.starts_with("pub") && !before.ends_with(']') {
            continue;
        }
        let end = code[at..].find(';').expect("a use ends");
        let line = code[..at].matches('\n').count() + 1;
        found.push((line, before.contains("pub"), &code[at + 4..at + end]));
    }
    found
}

/// `crate::a::b`, `super::a` and `self::a` in code.
pub(crate) fn paths(code: &str) -> Vec<(usize, String)> {
    let is_part = |c: char| c.is_alphanumeric() || c == '_';
    let mut found = Vec::new();
    for root in ["crate::", "super::", "self::"] {
        for (at, _) in code.match_indices(root) {
            let before = code[..at].chars().next_back();
            if before.is_some_and(|c| is_part(c) || c == ':' || c == '$') {
                continue;
            }
            let end = code[at..]
                .find(|c| !is_part(c) && c != ':')
                .unwrap_or(code.len() - at);
            let path = code[at..at + end].trim_end_matches(':');
            found.push((code[..at].matches('\n').count() + 1, path.to_owned()));
        }
    }
    found
}

#[test]
fn paths_are_read_as_the_compiler_does() {
    let code = "use crate::a::{self, b::{C, D as E}};\n// use crate::no;\nlet x = \"crate::no\"; 'l: crate::f::g(super::h);\n\
                #[cfg(test)]\nmod tests { use crate::no; }\n";
    let code = without_tests(&without_comments_and_strings(code));
    let trees: Vec<_> = uses(&code).iter().flat_map(|(_, _, tree)| single(tree)).collect();
    let named = |path: &str, name: &str| (path.to_owned(), name.to_owned());
    assert_eq!(
        trees,
        [
            named("crate::a::self", "self"),
            named("crate::a::b::C", "C"),
            named("crate::a::b::D", "E")
        ]
    );
    let found: Vec<_> = paths(&code).into_iter().filter(|(line, _)| *line == 3).collect();
    assert_eq!(found, [(3, "crate::f::g".to_owned()), (3, "super::h".to_owned())]);
}
