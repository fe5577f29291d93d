//! Objects of a store that are nearly right: what a damaged disk, another program or a mistake of a later version may leave in
//! a bucket. Most of them have a checksum that fits, for one that does not ends the reading at once.
//!
//! `MILLPOND_MUTANTS=100000 cargo test --manifest-path crates/millpond-volumes/Cargo.toml --test mutants` tries more.

#![allow(clippy::unwrap_used, missing_docs, reason = "a test fails by panicking")]

use millpond_testing::mutants::check;
use millpond_volumes::format::commit::PREFIX_BYTES;
use millpond_volumes::format::{
    Checkpoint, Commit, FormatError, Key, ObjectId, Op, PageEntry, Pin, checksum,
};

fn ops() -> Vec<Op> {
    let entry = |page, object| PageEntry {
        page,
        object,
        offset: 4096,
        bytes: 2048,
        kept: 2047,
        checksum: 77,
    };
    vec![
        Op::Create {
            file: 1,
            name: "a/b".into(),
        },
        Op::Rename {
            file: 1,
            name: "c".into(),
        },
        Op::Remove { file: 2 },
        Op::Length { file: 1, bytes: 9 },
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
            name: "s".into(),
            number: 6,
            epoch: 7,
        },
        Op::DropSnapshot { name: "t".into() },
        Op::NextFile { file: 3 },
        Op::Record {
            key: b"e\0n".as_slice().into(),
            value: Some(b"v".as_slice().into()),
        },
        Op::Record {
            key: b"x".as_slice().into(),
            value: None,
        },
    ]
}

fn samples() -> Vec<Vec<u8>> {
    let commit = Commit {
        number: 6,
        epoch: 7,
        nonce: 1 << 100,
        previous: 5,
        checkpoint: (4, 7),
        page_bytes: 65_536,
        grace_ms: 900_000,
        at_unix_ms: 1_700_000_000_000,
        closed: true,
        owner: "host 12".into(),
        ops: ops(),
    };
    let checkpoint = Checkpoint {
        number: 6,
        epoch: 7,
        page_bytes: 65_536,
        ops: ops(),
    };
    let pin = Pin {
        number: 6,
        beat: 2,
        owner: "host 12".into(),
    };
    vec![commit.encode(), checkpoint.encode(), pin.encode()]
}

/// The same with a checksum that fits; and of a commit with the length that it has.
fn sealed(bytes: &[u8], is_commit: bool) -> Vec<u8> {
    let mut bytes = bytes.to_vec();
    let len = bytes.len() as u64;
    if let Some(said) = bytes.get_mut(8..PREFIX_BYTES).filter(|_| is_commit) {
        said.copy_from_slice(&len.to_le_bytes());
    }
    if let Some((fields, sum)) = bytes.split_last_chunk_mut::<8>() {
        *sum = checksum(fields).to_le_bytes();
    }
    bytes
}

/// What is accepted is written as it was.
fn read(bytes: &[u8]) {
    fn or_says(error: FormatError) {
        assert!(error.to_string().len() > 20, "{error}");
    }
    match Commit::decode(bytes) {
        Ok((commit, sum)) => {
            let again = commit.encode();
            assert!(bytes.starts_with(&again), "{commit:?}");
            assert_eq!(sum, checksum(&again));
            assert_eq!(Commit::head_bytes(bytes), Ok(again.len()));
        }
        Err(error) => or_says(error),
    }
    match Checkpoint::decode(bytes) {
        Ok(checkpoint) => assert_eq!(checkpoint.encode(), bytes, "{checkpoint:?}"),
        Err(error) => or_says(error),
    }
    match Pin::decode(bytes) {
        Ok(pin) => assert_eq!(pin.encode(), bytes, "{pin:?}"),
        Err(error) => or_says(error),
    }
}

#[test]
fn objects_are_read_and_written_alike_or_refused() {
    let words = ["MPVm", "MPVk", "MPVp", "\u{1}\0", "\u{6}"];
    check(
        "objects_are_read_and_written_alike_or_refused",
        &samples(),
        &words,
        |bytes| {
            read(bytes);
            read(&sealed(bytes, false));
            read(&sealed(bytes, true));
        },
    );
}

#[test]
fn names_of_objects_are_those_that_are_written() {
    let keys = [
        Key::Chunk { epoch: 7, number: 9 },
        Key::Commit(6),
        Key::Checkpoint { number: 6, epoch: 7 },
        Key::Pin(5),
    ];
    let samples = keys.map(|key| key.to_string().into_bytes());
    let words = ["c/", "m/", "k/", "p/", "-", "0", "f", "F", "../"];
    check(
        "names_of_objects_are_those_that_are_written",
        &samples,
        &words,
        |bytes| {
            let name = String::from_utf8_lossy(bytes);
            if let Some(key) = Key::parse(&name) {
                assert_eq!(key.to_string(), name);
            }
        },
    );
}
