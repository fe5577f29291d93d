//! Binary formats: page numbers and libCacheSim's oracleGeneral.

use super::Ids;
use super::requests::Builder;

/// An unsigned number of up to 8 bytes, little endian.
fn le(bytes: &[u8]) -> u64 {
    bytes.iter().rev().fold(0, |n, &byte| n << 8 | u64::from(byte))
}

fn records<'a>(
    bytes: &'a [u8],
    len: usize,
    what: &str,
) -> Result<impl Iterator<Item = (usize, &'a [u8])> + use<'a>, String> {
    match bytes.len() % len {
        0 => Ok(bytes.chunks_exact(len).enumerate()),
        _ => Err(format!("{} bytes are no whole number of {what}", bytes.len())),
    }
}

/// Page numbers.
pub(super) fn u32(bytes: &[u8], to: &mut Builder) -> Result<(), String> {
    for (n, record) in records(bytes, 4, "page numbers of 4 bytes")? {
        to.page(le(record)).map_err(|why| format!("record {n}: {why}"))?;
    }
    Ok(())
}

/// Time (4 bytes), object (8), size in bytes (4), the next access to the object (8). It does not say what writes.
pub(super) fn oracle_general(bytes: &[u8], ids: Option<Ids>, to: &mut Builder) -> Result<(), String> {
    for (n, record) in records(bytes, 24, "records of 24 bytes")? {
        let (id, size) = (le(&record[4..12]), le(&record[12..16]));
        match ids.unwrap_or(Ids::Object) {
            Ids::Object => to.object(id, false),
            Ids::Sector => to.sectors(0, id, size, false),
            Ids::Byte => to.bytes(0, id, size, false),
        }
        .map_err(|why| format!("record {n}: {why}"))?;
    }
    Ok(())
}
