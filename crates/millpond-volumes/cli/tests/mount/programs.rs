//! Programs that people have, in a mount of a store.

use super::*;

fn has(program: &str) -> bool {
    let found = Command::new("which").arg(program).output();
    let has = found.is_ok_and(|output| output.status.success());
    if !has {
        println!("skipped: {program}: it is not installed");
    }
    has
}

/// Objects of the store, by the first letter of their names: chunks, commits.
fn objects(folder: &Path) -> (usize, usize) {
    let count = |kind: &str| fs::read_dir(folder.join("store").join(kind)).map_or(0, Iterator::count);
    (count("c"), count("m"))
}

#[test]
fn git_clones_into_a_mount_and_finds_its_objects_whole_after_a_kill() {
    if !can_mount() || !has("git") {
        return;
    }
    let temp = tempfile::tempdir().unwrap();
    let url = format!("file://{}/store", temp.path().display());
    let (from, point) = (temp.path().join("from"), temp.path().join("mnt"));
    let git = |args: &[&str]| {
        run(
            "git",
            &[&["-c", "user.name=a", "-c", "user.email=a@b"], args].concat(),
        )
    };
    git(&["init", "-q", from.to_str().unwrap()]);
    for n in 0..200 {
        let directory = from.join(format!("d{}", n % 9));
        fs::create_dir_all(&directory).unwrap();
        fs::write(directory.join(format!("f{n}")), bytes(n * 97 + 10)).unwrap();
    }
    let at = from.to_str().unwrap();
    git(&["-C", at, "add", "-A"]);
    git(&["-C", at, "commit", "-q", "-m", "first"]);
    let mounted = Mounted::new(&url, &point, &[]);
    let clone = point.join("clone");
    let cloned = clone.to_str().unwrap();
    git(&["clone", "-q", "--no-local", at, cloned]);
    fs::write(clone.join("more"), "more").unwrap();
    git(&["-C", cloned, "add", "-A"]);
    git(&[
        "-C",
        cloned,
        "-c",
        "core.fsync=all",
        "commit",
        "-q",
        "-m",
        "second",
    ]);
    std::fs::File::open(&point).unwrap().sync_all().unwrap();
    mounted.kill();
    println!("git: chunks and commits: {:?}", objects(temp.path()));
    let mounted = Mounted::new(&url, &point, &["--take-over"]);
    git(&["-C", cloned, "fsck", "--full", "--strict"]);
    assert_eq!(git(&["-C", cloned, "status", "--porcelain"]), "");
    assert_eq!(git(&["-C", cloned, "log", "--format=%s"]), "second\nfirst\n");
    mounted.end();
}

#[test]
fn an_archive_of_some_thousand_files_takes_few_commits() {
    if !can_mount() || !has("tar") {
        return;
    }
    let temp = tempfile::tempdir().unwrap();
    let url = format!("file://{}/store", temp.path().display());
    let (from, point) = (temp.path().join("from"), temp.path().join("mnt"));
    for n in 0..3000 {
        let directory = from.join(format!("d{}", n / 100));
        fs::create_dir_all(&directory).unwrap();
        fs::write(directory.join(format!("f{n}")), bytes(n * 3 % 4000)).unwrap();
    }
    let archive = temp.path().join("archive.tar");
    let (archive, at) = (archive.to_str().unwrap(), point.to_str().unwrap());
    run("tar", &["-C", from.to_str().unwrap(), "-cf", archive, "."]);
    // No commit by age, so that the count does not depend on how fast this machine is.
    let mounted = Mounted::new(&url, &point, &["--expire", "1h"]);
    run("tar", &["-C", at, "-xf", archive]);
    run("diff", &["-r", from.to_str().unwrap(), at]);
    mounted.end();
    let (chunks, commits) = objects(temp.path());
    println!("tar: chunks and commits: {chunks}, {commits}");
    assert!(
        chunks + commits < 20,
        "{chunks} chunks, {commits} commits for 3000 files"
    );
    let mounted = Mounted::new(&url, &point, &[]);
    run("diff", &["-r", from.to_str().unwrap(), at]);
    run("rm", &["-rf", point.join("d1").to_str().unwrap()]);
    assert!(!point.join("d1").exists());
    mounted.end();
}

#[test]
fn a_database_of_sqlite_in_a_mount_has_what_it_has_committed_after_a_kill() {
    if !can_mount() || !has("python3") {
        return;
    }
    let temp = tempfile::tempdir().unwrap();
    let url = format!("file://{}/store", temp.path().display());
    let point = temp.path().join("mnt");
    let mounted = Mounted::new(&url, &point, &[]);
    let database = point.join("pond.db");
    let database = database.to_str().unwrap();
    let write = "import sqlite3, sys\n\
         db = sqlite3.connect(sys.argv[1], isolation_level=None)\n\
         db.execute('pragma synchronous = extra')\n\
         db.execute('create table t (n integer primary key, text)')\n\
         for n in range(100):\n    db.execute('insert into t values (?, ?)', (n, 'x' * n))\n";
    run("python3", &["-c", write, database]);
    mounted.kill();
    let mounted = Mounted::new(&url, &point, &["--take-over"]);
    let read = "import sqlite3, sys\n\
         db = sqlite3.connect(sys.argv[1])\n\
         print(db.execute('pragma integrity_check').fetchone()[0], db.execute('select count(*) from t').fetchone()[0])\n";
    assert_eq!(run("python3", &["-c", read, database]), "ok 100\n");
    mounted.end();
}
