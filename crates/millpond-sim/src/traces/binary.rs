//! Binary formats: page numbers, libCacheSim's oracleGeneral, VMware's vscsi.

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

/// A record of a SCSI trace: where its fields are.
pub(super) struct Vscsi {
    len: usize,
    version: u64,
    command_at: usize,
    version_at: usize,
    bytes_at: usize,
    block_at: usize,
}

const VSCSI: [Vscsi; 2] = [
    Vscsi {
        len: 40,
        version: 2,
        command_at: 0,
        version_at: 2,
        bytes_at: 8,
        block_at: 16,
    },
    Vscsi {
        len: 32,
        version: 1,
        command_at: 12,
        version_at: 14,
        bytes_at: 4,
        block_at: 16,
    },
];

/// The version of a SCSI trace, by its first two records or its only one.
pub(super) fn vscsi_version(bytes: &[u8]) -> Option<&'static Vscsi> {
    VSCSI.iter().find(|version| {
        let mut records = bytes.chunks_exact(version.len).take(2).peekable();
        let is_it = |record: &[u8]| {
            let at = version.version_at;
            le(&record[at..at + 2]) >> 8 == version.version
        };
        records.peek().is_some() && records.all(is_it)
    })
}

/// SCSI commands: READ and WRITE of 6, 10, 12 and 16 bytes.
fn is_write(command: u64) -> Option<bool> {
    match command {
        0x08 | 0x28 | 0x88 | 0xa8 => Some(false),
        0x0a | 0x2a | 0x8a | 0xaa => Some(true),
        _ => None,
    }
}

/// A SCSI command by its number, as a column of libCacheSim's csv has it.
pub(super) fn scsi_is_write(text: &str) -> Option<bool> {
    is_write(text.parse().ok()?)
}

pub(super) fn vscsi(bytes: &[u8], to: &mut Builder) -> Result<(), String> {
    let version = vscsi_version(bytes).ok_or("its records have neither version 1 nor 2")?;
    for (n, record) in records(bytes, version.len, "records")? {
        let field = |at: usize, len: usize| le(&record[at..at + len]);
        match is_write(field(version.command_at, 2)) {
            Some(is_write) => to
                .sectors(
                    0,
                    field(version.block_at, 8),
                    field(version.bytes_at, 4),
                    is_write,
                )
                .map_err(|why| format!("record {n}: {why}"))?,
            None => to.skip("that neither read nor write"),
        }
    }
    Ok(())
}
