//! Puts the parts together.

use super::{HTML, SCRIPTS, STYLE};

/// The page with a module in it, which is WebAssembly packed by gzip.
pub(super) fn assemble(module: &[u8]) -> String {
    let script = SCRIPTS.join("\n");
    let parts = [
        ("/* style */", STYLE.to_owned()),
        (
            "// script",
            format!("(() => {{\n\"use strict\";\n{script}\n}})();"),
        ),
        ("module in base64", base64(module)),
    ];
    parts.into_iter().fold(HTML.to_owned(), |page, (mark, part)| {
        page.replacen(mark, &part, 1)
    })
}

const DIGITS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

fn base64(bytes: &[u8]) -> String {
    let mut text = String::with_capacity(bytes.len().div_ceil(3) * 4);
    for three in bytes.chunks(3) {
        let bits = three.iter().fold(0, |bits, &byte| bits << 8 | u32::from(byte)) << (8 * (3 - three.len()));
        for n in 0..4 {
            match n <= three.len() {
                true => text.push(char::from(DIGITS[(bits >> (18 - 6 * n) & 63) as usize])),
                false => text.push('='),
            }
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn base64_is_what_browsers_read() {
        let cases = [
            ("", ""),
            ("f", "Zg=="),
            ("fo", "Zm8="),
            ("foo", "Zm9v"),
            ("foobar", "Zm9vYmFy"),
        ];
        for (text, encoded) in cases {
            assert_eq!(base64(text.as_bytes()), encoded);
        }
    }

    #[test]
    fn the_page_has_all_parts_and_asks_for_nothing_else() {
        let page = assemble(b"module");
        for mark in ["/* style */", "// script", "module in base64"] {
            assert!(HTML.contains(mark) && !page.contains(mark), "{mark}");
        }
        assert!(page.contains("bW9kdWxl") && page.contains("\"use strict\""));
        let without_namespace = page.replace("http://www.w3.org/2000/svg", "");
        for asks in [
            "http://",
            "https://",
            "src=",
            "@import",
            "fetch(",
            "XMLHttpRequest",
        ] {
            assert!(!without_namespace.contains(asks), "{asks}");
        }
    }
}
