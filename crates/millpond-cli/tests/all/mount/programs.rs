//! Unmodified programs. `scripts/mount-programs` runs more and longer ones.

use super::{TestMount, folders, skip};
use rustix::process::Signal;
use std::path::Path;
use std::process::{Command, Output};

fn sqlite(database: &Path, sql: &str) -> Option<Output> {
    Command::new("sqlite3").arg(database).arg(sql).output().ok()
}

/// Both ways in which it keeps its log, with the database in a map.
#[test]
fn sqlite_keeps_its_databases_whole() {
    for journal in ["delete", "wal"] {
        let Some(mut mounted) = TestMount::start(&folders()[0], &["--memory", "8M"]) else {
            return;
        };
        let database = mounted.at().join("db");
        let sql = format!(
            "pragma journal_mode={journal}; pragma mmap_size=67108864; create table t(n integer primary key, s text);
             begin; with recursive c(n) as (select 1 union all select n + 1 from c where n < 20000)
             insert into t select n, hex(randomblob(100)) from c; commit;
             update t set s = n where n % 3 = 0; delete from t where n % 7 = 0; create index i on t(s);
             pragma integrity_check; select count(*), sum(n) from t;"
        );
        let Some(output) = sqlite(&database, &sql) else {
            return skip("there is no sqlite3");
        };
        let said = String::from_utf8_lossy(&output.stdout).into_owned();
        let errors = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(
            said.contains("\nok\n17143|171431429"),
            "{journal}: {said}{errors}"
        );
        let (said, code) = mounted.end(Signal::TERM);
        assert_eq!(code, Some(0), "{said}");
        let output = sqlite(
            &mounted.source().join("db"),
            "pragma integrity_check; select count(*) from t",
        )
        .unwrap();
        assert_eq!(String::from_utf8_lossy(&output.stdout), "ok\n17143\n");
    }
}
