//! Detects the format of a file by its name, else by its first bytes.

use super::Format;
use std::path::Path;

/// The number of bytes at the beginning of a file that are examined.
pub const BEGIN: usize = 4096;

/// By its name, without `.zst`. `.csv` and `.txt` belong to several formats.
pub(super) fn by_name(path: &Path) -> Option<Format> {
    let name = path.file_name()?.to_string_lossy().to_ascii_lowercase();
    let name = name.strip_suffix(".zst").unwrap_or(&name);
    let ends = |end: &str| name.ends_with(end);
    match () {
        () if ends(".u32") => Some(Format::U32),
        () if name.contains("oraclegeneral") => Some(Format::OracleGeneral),
        () if ends(".blkparse") => Some(Format::Blkparse),
        () if ends(".pages") => Some(Format::Pages),
        () => None,
    }
}

/// By its first line that is not a comment.
pub(super) fn by_content(bytes: &[u8]) -> Option<Format> {
    let begin = &bytes[..bytes.len().min(BEGIN)];
    let is_text = |byte: &u8| *byte >= b' ' || byte.is_ascii_whitespace();
    if !begin.iter().all(is_text) {
        return None;
    }
    let text = String::from_utf8_lossy(begin);
    let mut lines = text.lines().map(str::trim);
    let line = lines.find(|line| !line.is_empty() && !line.starts_with('#'))?;
    let fields: Vec<&str> = line.split(',').map(str::trim).collect();
    let is_kind = |kind: &str| ["read", "write", "type"].contains(&kind.to_ascii_lowercase().as_str());
    match () {
        () if line.parse::<u64>().is_ok() || line.starts_with("0x") => Some(Format::Pages),
        () if fields.len() == 7 && is_kind(fields[3]) => Some(Format::Msr),
        () if is_event(line) => Some(Format::Blkparse),
        () => None,
    }
}

fn is_event(line: &str) -> bool {
    let mut fields = line.split_ascii_whitespace();
    let device = fields.next().and_then(|device| device.split_once(','));
    let is_device =
        device.is_some_and(|(major, minor)| major.parse::<u32>().is_ok() && minor.parse::<u32>().is_ok());
    is_device && fields.count() >= 6
}
