//! Columns of text, as libCacheSim reads them, and page numbers as text.

use super::binary::scsi_is_write;
use super::requests::Builder;
use super::text::{each_line, number, short};
use super::{Ids, Options};
use std::str::FromStr;

/// The meaning of columns, counted from 1.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Columns {
    /// The object, page or address.
    pub id: usize,
    /// Its size in bytes.
    pub size: Option<usize>,
    /// Whether it is read or written.
    pub op: Option<usize>,
}

impl FromStr for Columns {
    type Err = String;

    /// `id=5,size=4,op=3`; the last two may be left out.
    fn from_str(text: &str) -> Result<Columns, String> {
        let (mut id, mut size, mut op) = (None, None, None);
        for part in text.split(',') {
            let (name, column) = part.split_once('=').unwrap_or((part, ""));
            let column = column.trim().parse().ok().filter(|&column: &usize| column > 0);
            let to = match name.trim() {
                "id" => &mut id,
                "size" => &mut size,
                "op" => &mut op,
                _ => {
                    return Err(format!(
                        "`{text}`: give columns counted from 1, as id=5,size=4,op=3"
                    ));
                }
            };
            if column.is_none() {
                return Err(format!("`{part}`: give a column counted from 1, as id=5"));
            }
            *to = column;
        }
        let id = id.ok_or_else(|| format!("`{text}`: the column of ids is missing, as in id=5"))?;
        Ok(Columns { id, size, op })
    }
}

/// A page number.
pub(super) fn page(line: &str, to: &mut Builder) -> Result<(), String> {
    to.page(number(line, "the page")?)
}

/// The column separators: the first of these that the line has.
const SEPARATORS: [char; 4] = [',', '\t', '|', ' '];

/// Names of columns, in small letters, with what an id of that name is.
const IDS: [(&str, Ids); 12] = [
    ("obj_id", Ids::Object),
    ("object", Ids::Object),
    ("obj", Ids::Object),
    ("id", Ids::Object),
    ("key", Ids::Object),
    ("page", Ids::Object),
    ("block", Ids::Object),
    ("offset", Ids::Byte),
    ("lbn", Ids::Sector),
    ("lba", Ids::Sector),
    ("sector", Ids::Sector),
    ("address", Ids::Byte),
];
const SIZES: [&str; 4] = ["size", "obj_size", "len", "length"];
const OPS: [&str; 4] = ["op", "type", "cmd", "rw"];

fn fields(line: &str, separator: char) -> Vec<&str> {
    line.split(separator).map(str::trim).collect()
}

fn separator(line: &str) -> char {
    let found = SEPARATORS.into_iter().find(|&separator| line.contains(separator));
    found.unwrap_or(',')
}

/// The columns that a head names, and what its ids are.
fn head(line: &str) -> Option<(Columns, Ids)> {
    let names: Vec<String> = fields(line, separator(line))
        .iter()
        .map(|name| name.to_ascii_lowercase().replace('-', "_"))
        .collect();
    let find = |known: &[&str]| {
        let found = names.iter().position(|name| known.contains(&name.as_str()));
        found.map(|at| at + 1)
    };
    let (id, ids) = IDS.iter().find_map(|&(name, ids)| Some((find(&[name])?, ids)))?;
    let columns = Columns {
        id,
        size: find(&SIZES),
        op: find(&OPS),
    };
    Some((columns, ids))
}

/// Whether a line could be the header of a csv.
pub(super) fn is_head(line: &str) -> bool {
    head(line).is_some()
}

pub(super) fn csv(bytes: &[u8], options: &Options, to: &mut Builder) -> Result<(), String> {
    let mut form = None;
    each_line(bytes, |line| {
        let Some((columns, ids, separator)) = form else {
            let separator = separator(line);
            let (columns, ids) = match (options.columns, head(line)) {
                (Some(columns), named) => (columns, named.map_or(Ids::Object, |(_, ids)| ids)),
                (None, Some(named)) => named,
                (None, None) => {
                    return Err(format!("`{}` names no column of ids", short(line)));
                }
            };
            let known = (columns, options.ids.unwrap_or(ids), separator);
            form = Some(known);
            return match head(line) {
                Some(_) => Ok(()),
                None => row(line, known, to),
            };
        };
        row(line, (columns, ids, separator), to)
    })
}

fn row(line: &str, (columns, ids, separator): (Columns, Ids, char), to: &mut Builder) -> Result<(), String> {
    let fields = fields(line, separator);
    let field = |column: usize, what: &str| {
        let field = fields.get(column - 1).copied();
        field.ok_or_else(|| format!("{} columns, and {what} is in the {column}th", fields.len()))
    };
    let is_write = match columns.op {
        None => false,
        Some(column) => is_write(field(column, "the operation")?)?,
    };
    let id = field(columns.id, "the id")?;
    let size = match columns.size {
        None => 1,
        Some(column) => number(field(column, "the size")?, "the size")?,
    };
    match ids {
        Ids::Object => {
            // Names are objects as well: numbers from the far end on.
            let id = number(id, "the id").unwrap_or_else(|_| u64::MAX - to.named(id));
            to.object(id, is_write)
        }
        Ids::Sector => to.sectors(0, number(id, "the sector")?, size, is_write),
        Ids::Byte => to.bytes(0, number(id, "the offset")?, size, is_write),
    }
}

fn is_write(text: &str) -> Result<bool, String> {
    if let Some(is_write) = scsi_is_write(text) {
        return Ok(is_write);
    }
    match text.to_ascii_lowercase().as_str() {
        "r" | "read" | "get" => Ok(false),
        "w" | "write" | "set" | "put" => Ok(true),
        _ => Err(format!(
            "the operation is `{}`, allowed are r, read, get, w, write, set, put and SCSI's numbers",
            short(text)
        )),
    }
}
