//! Lines and fields, with the line number in each error.

/// Longer lines are not lines of a trace.
const LINE_MAX: usize = 1 << 16;

/// Gives each line that is not empty and no comment (`#`) to `take`.
///
/// # Errors
/// Its error, after the number of the line.
pub(super) fn each_line(
    bytes: &[u8],
    mut take: impl FnMut(&str) -> Result<(), String>,
) -> Result<(), String> {
    for (n, line) in bytes.split(|&byte| byte == b'\n').enumerate() {
        let at = |why: String| format!("line {}: {why}", n + 1);
        if line.len() > LINE_MAX {
            return Err(at(format!("{} bytes are no line of a trace", line.len())));
        }
        let line = str::from_utf8(line)
            .map_err(|_| at("it is no text".into()))?
            .trim();
        if !line.is_empty() && !line.starts_with('#') {
            take(line).map_err(at)?;
        }
    }
    Ok(())
}

/// A number, decimal or hexadecimal (`0x`).
pub(super) fn number(text: &str, what: &str) -> Result<u64, String> {
    let text = text.trim();
    let parsed = match text.strip_prefix("0x") {
        Some(digits) => u64::from_str_radix(digits, 16),
        None => text.parse(),
    };
    parsed.map_err(|_| format!("{what} is `{}`, which is no number below 2^64", short(text)))
}

/// The part of a text that fits a message.
pub(super) fn short(text: &str) -> String {
    let mut shown: String = text.chars().take(40).collect();
    if shown.len() < text.len() {
        shown.push('…');
    }
    shown
}
