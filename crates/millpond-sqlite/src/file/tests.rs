use super::*;
use crate::told::Nobody;

const DATABASE: Asked = Asked {
    writes: true,
    creates: true,
    is_new: false,
    is_database: true,
    is_powersafe: true,
    follows: false,
};

fn open(path: &Path) -> Opened {
    Opened::new(path, DATABASE, |_| None, &Nobody).ok().unwrap()
}

#[test]
fn a_page_is_lent_where_it_is_in_memory_and_its_borrower_does_not_wait_for_itself() {
    let folder = tempfile::tempdir().unwrap();
    let mut file = open(&folder.path().join("data.db"));
    assert_eq!(file.write(&[7; 8192], 0), code::OK);
    assert_eq!(file.fetch(4096, 4096), Ok(None), "before PRAGMA mmap_size");
    file.fetch_bytes_max = 1 << 40;
    assert_eq!(file.fetch(0, 1024), Ok(None), "a page of another size");
    assert_eq!(file.fetch(8192, 4096), Ok(None), "behind the end");
    let lent = file.fetch(4096, 4096).unwrap();
    assert!(lent.is_some());
    assert_eq!(file.fetch(4096, 4096), Ok(lent), "once more");
    file.unfetch(4096);
    assert_eq!(file.write(&[8; 4096], 4096), code::IOERR_WRITE);
    assert_eq!(file.truncate(4096), code::IOERR_TRUNCATE);
    assert_eq!(file.write(&[8; 4096], 0), code::OK);
    file.unfetch(4096);
    assert_eq!(file.truncate(4096), code::OK);
    let mut read = [1; 8];
    assert_eq!(file.read(&mut read, 4092), code::IOERR_SHORT_READ);
    assert_eq!(read, [8, 8, 8, 8, 0, 0, 0, 0], "zeros behind the end");
    assert_eq!(file.close(), code::OK);
}

#[test]
fn a_page_locked_against_writers_only_is_not_written_before_its_readers_are_done() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("data.db");
    let (mut reads, mut writes) = (open(&path), open(&path));
    // As of a file that this process could not write when it was opened.
    reads.is_process_writable = false;
    assert_eq!(reads.lock(Level::Shared), code::OK);
    assert_eq!(reads.lock(Level::Exclusive), code::READONLY);
    assert_eq!(writes.lock(Level::Shared), code::OK);
    assert_eq!(writes.lock(Level::Reserved), code::BUSY);
    assert!(
        writes.shm_region(0, 32768, true).is_err(),
        "others may write the WAL"
    );
    reads.unlock(Level::None);
    assert_eq!(
        writes.lock(Level::Reserved),
        code::BUSY,
        "of what it has read already"
    );
    writes.unlock(Level::None);
    assert_eq!(writes.lock(Level::Shared), code::OK);
    assert_eq!(writes.lock(Level::Reserved), code::OK);
    assert_eq!(reads.lock(Level::Shared), code::OK);
    assert!(writes.shm_region(0, 32768, true).is_ok());
    for file in [reads, writes] {
        assert_eq!(file.close(), code::OK);
    }
}

#[test]
fn a_file_that_is_to_grow_in_chunks_has_whole_ones() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("data.db");
    let mut file = open(&path);
    assert_eq!(file.write(&[7; 5000], 0), code::OK);
    assert_eq!(file.will_have(9000), code::OK);
    assert_eq!(file.len(), 5000, "no chunks were asked for");
    file.chunk_bytes = 1 << 20;
    for (wanted, is) in [
        (9000, 1 << 20),
        (1 << 20, 1 << 20),
        ((1 << 20) + 1, 2 << 20),
        (1, 2 << 20),
    ] {
        assert_eq!(file.will_have(wanted), code::OK);
        assert_eq!(file.len(), is, "{wanted}");
    }
    assert_eq!(file.truncate(5000), code::OK);
    assert_eq!(file.len(), 1 << 20);
    let mut read = [1; 8];
    assert_eq!(file.read(&mut read, 4996), code::OK);
    assert_eq!(read, [7, 7, 7, 7, 0, 0, 0, 0]);
    file.chunk_bytes = 0;
    assert_eq!(file.truncate(5000), code::OK);
    assert_eq!(file.close(), code::OK);
    assert_eq!(fs::metadata(&path).unwrap().len(), 5000);
}

#[test]
fn a_database_that_was_renamed_has_moved() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("data.db");
    let mut file = open(&path);
    assert_eq!(file.lock(Level::Shared), code::OK);
    assert!(!file.has_moved());
    fs::rename(&path, folder.path().join("other.db")).unwrap();
    assert!(file.has_moved());
    assert_eq!(file.close(), code::OK);
}
