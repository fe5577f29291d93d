//! The format, byte by byte: what a version writes is read by all that follow, so these bytes never change. A new version
//! adds some of its own.

#![allow(clippy::unwrap_used, missing_docs, reason = "a test fails by panicking")]

use millpond_volumes::format::{Checkpoint, Commit, FormatError, ObjectId, Op, PageEntry, Pin, VERSION};

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn bytes(hex: &str) -> Vec<u8> {
    let hex: Vec<u8> = hex.bytes().filter(u8::is_ascii_hexdigit).collect();
    let pairs = hex.chunks(2).map(|pair| std::str::from_utf8(pair).unwrap());
    pairs.map(|pair| u8::from_str_radix(pair, 16).unwrap()).collect()
}

fn ops() -> Vec<Op> {
    let name = |name: &str| String::from(name);
    let entry = |page, object| PageEntry {
        page,
        object,
        offset: 0x1000,
        bytes: 0x800,
        kept: 0x7ff,
        checksum: 0x1122_3344_5566_7788,
    };
    vec![
        Op::Create {
            file: 1,
            name: name("a/b"),
        },
        Op::Rename {
            file: 1,
            name: name("c"),
        },
        Op::Remove { file: 2 },
        Op::Length {
            file: 1,
            bytes: 0x12345,
        },
        Op::Punch {
            file: 1,
            from: 3,
            to: 5,
        },
        Op::Pages {
            file: 1,
            entries: vec![entry(0, ObjectId::chunk(7, 9)), entry(1, ObjectId::commit(6))],
        },
        Op::Snapshot {
            name: name("s"),
            number: 6,
            epoch: 7,
        },
        Op::DropSnapshot { name: name("t") },
        Op::NextFile { file: 3 },
    ]
}

fn commit() -> Commit {
    Commit {
        number: 6,
        epoch: 7,
        nonce: 0x0102_0304_0506_0708_090a_0b0c_0d0e_0f10,
        previous: 0xaabb_ccdd_eeff_0011,
        checkpoint: (4, 7),
        page_bytes: 0x10000,
        grace_ms: 900_000,
        at_unix_ms: 1_700_000_000_000,
        closed: true,
        owner: String::from("host 12"),
        ops: ops(),
    }
}

const COMMIT: &str = "\
    4d50566d010001002801000000000000060000000000000007000000100f0e0d0c0b0a0908070605040302011100ffee \
    ddccbbaa04000000000000000700000000000100a0bb0d00000000000068e5cf8b0100000700686f7374203132090000 \
    000101000000000000000300612f62020100000000000000010063030200000000000000040100000000000000452301 \
    000000000005010000000000000003000000000000000500000000000000060100000000000000020000000000000000 \
    00000009000000070000000010000000080000ff07000088776655443322110100000000000000060000000000008000 \
    10000000080000ff07000088776655443322110701007306000000000000000700000008010074090300000000000000 \
    2cec7d7ae26428a1";

const CHECKPOINT: &str = "\
    4d50566b010006000000000000000700000000000100010000000101000000000000000300612f623291c20b24798b51";

const PIN: &str = "\
    4d5056700100060000000000000002000000000000000700686f73742031324182889e6ffd721c";

fn checkpoint() -> Checkpoint {
    Checkpoint {
        number: 6,
        epoch: 7,
        page_bytes: 0x10000,
        ops: ops()[..1].to_vec(),
    }
}

fn pin() -> Pin {
    Pin {
        number: 6,
        beat: 2,
        owner: String::from("host 12"),
    }
}

#[test]
fn what_version_1_has_written_is_read_and_written_alike() {
    assert_eq!(hex(&commit().encode()), hex(&bytes(COMMIT)));
    assert_eq!(Commit::decode(&bytes(COMMIT)).unwrap().0, commit());
    assert_eq!(hex(&checkpoint().encode()), hex(&bytes(CHECKPOINT)));
    assert_eq!(Checkpoint::decode(&bytes(CHECKPOINT)).unwrap(), checkpoint());
    assert_eq!(hex(&pin().encode()), hex(&bytes(PIN)));
    assert_eq!(Pin::decode(&bytes(PIN)).unwrap(), pin());
}

/// Without its checksum.
const WITH_RECORDS: &str = "\
    4d50566b020006000000000000000700000000000100030000000101000000000000000300612f62 \
    0a010000006e0200000031320b0100000078";

#[test]
fn what_version_2_has_written_is_read_and_written_alike() {
    let record = |key: &[u8], value: Option<&[u8]>| Op::Record {
        key: key.into(),
        value: value.map(Into::into),
    };
    let mut checkpoint = checkpoint();
    checkpoint
        .ops
        .extend([record(b"n", Some(b"12")), record(b"x", None)]);
    let (fields, sum) = (
        bytes(WITH_RECORDS),
        millpond_volumes::format::checksum(&bytes(WITH_RECORDS)),
    );
    let written = [fields, sum.to_le_bytes().to_vec()].concat();
    assert_eq!(hex(&checkpoint.encode()), hex(&written));
    assert_eq!(Checkpoint::decode(&written).unwrap(), checkpoint);
    let mut commit = commit();
    commit.ops.extend(checkpoint.ops.drain(1..));
    assert_eq!(commit.encode()[4..6], [2, 0]);
    assert_eq!(Commit::decode(&commit.encode()).unwrap().0, commit);
}

#[test]
fn each_changed_bit_is_noticed() {
    let whole = commit().encode();
    for bit in 0..whole.len() * 8 {
        let mut changed = whole.clone();
        changed[bit / 8] ^= 1 << (bit % 8);
        assert!(Commit::decode(&changed).is_err(), "bit {bit}");
    }
    for len in 0..whole.len() {
        assert!(Commit::decode(&whole[..len]).is_err(), "{len} bytes");
    }
    let checkpoint = checkpoint().encode();
    for bit in 0..checkpoint.len() * 8 {
        let mut changed = checkpoint.clone();
        changed[bit / 8] ^= 1 << (bit % 8);
        assert!(Checkpoint::decode(&changed).is_err(), "bit {bit} of a checkpoint");
    }
    let behind = [&whole[..], b"pages"].concat();
    assert_eq!(
        Commit::decode(&behind).unwrap().0,
        commit(),
        "pages are behind the head"
    );
}

#[test]
fn what_a_newer_program_has_written_is_refused_and_said() {
    let mut newer = commit().encode();
    newer[4] = VERSION as u8 + 1;
    assert_eq!(Commit::decode(&newer), Err(FormatError::Version(VERSION + 1)));
    let mut newer = checkpoint().encode();
    newer[4] = VERSION as u8 + 1;
    assert_eq!(Checkpoint::decode(&newer), Err(FormatError::Version(VERSION + 1)));
}
