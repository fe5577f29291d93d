"""What programs do with databases, their files and settings."""

import os
import sqlite3

from common import MODES, ask, check, fails, is_root, load, ours, plain


def the_usual_things_work(folder):
    load()
    path = f"{folder}/all.db"
    for mode in MODES:
        connection = ours(path, "&memory=8M")
        connection.execute(f"pragma journal_mode={mode}")
        connection.execute("pragma auto_vacuum=incremental")
        connection.execute("vacuum")
        connection.execute("drop table if exists t")
        connection.execute("create table t(a integer primary key, b blob, c text)")
        connection.execute("create index i on t(c)")
        connection.execute("begin")
        for n in range(3000):
            connection.execute("insert into t values(?, randomblob(1000), ?)", (n, f"text {n}"))
        connection.execute("savepoint s")
        connection.execute("delete from t where a%2=0")
        connection.execute("rollback to s")
        connection.execute("commit")
        assert ask(connection, "select count(*) from t") == 3000

        # A cursor has pages lent while the same connection, and another, change the table.
        writer = ours(path, timeout=60)
        seen = 0
        for n, a in enumerate(connection.execute("select a from t order by a")):
            seen += 1
            if n % 500 == 0 and mode == "wal":
                writer.execute("update t set b=randomblob(1000), c=c||'!' where a=?", (2999 - n,))
                writer.execute("pragma wal_checkpoint")
            elif n % 500 == 0:
                connection.execute("update t set b=randomblob(1000), c=c||'!' where a=?", (2999 - n,))
        assert seen == 3000
        writer.execute("pragma wal_checkpoint(truncate)")
        writer.close()

        # Two databases in one transaction, with a journal over both.
        connection.execute("attach ? as b", (f"file:{folder}/{mode}-b.db?vfs=millpond",))
        connection.execute("create table b.t as select * from main.t where a<100")
        connection.execute("begin")
        connection.execute("delete from main.t where a<100")
        connection.execute("update b.t set c='moved'")
        connection.execute("commit")
        assert ask(connection, "select count(*) from b.t where c='moved'") == 100
        connection.execute("detach b")

        connection.execute("delete from t where a%3=0")
        connection.execute("pragma incremental_vacuum")
        connection.execute("create temp table u as select * from t")
        connection.execute("vacuum")
        check(connection)
        copy = plain(f"{folder}/{mode}-copy.db")
        connection.backup(copy)
        check(copy)
        copy.close()
        connection.execute("pragma journal_mode=delete")
        connection.close()
    read_only = ours(path, "&mode=ro")
    assert ask(read_only, "select count(*) from t") > 0
    fails("readonly", lambda: read_only.execute("delete from t"))
    read_only.close()
    fails("unable to open", lambda: ours(f"{folder}/missing.db", "&mode=rw").execute("select 1 from t"))
    left = [name for name in os.listdir(folder) if not name.endswith(".db")]
    assert not left, left


def a_journal_is_its_databases_owners_and_no_link_is_followed(folder):
    if not is_root("owners of files"):
        return
    load()
    for mode, ending in [("delete", "-journal"), ("wal", "-wal")]:
        path = f"{folder}/{mode}.db"
        connection = ours(path)
        connection.execute(f"pragma journal_mode={mode}")
        connection.execute("create table t(a)")
        connection.close()
        os.chown(path, 65534, 65533)
        os.chmod(path, 0o664)
        before = os.umask(0o077)
        connection = ours(path)
        connection.execute("begin")
        connection.execute("insert into t values(1)")
        found = os.stat(path + ending)
        assert (found.st_uid, found.st_gid, found.st_mode & 0o777) == (65534, 65533, 0o664), found
        connection.execute("commit")
        connection.close()
        os.umask(before)

        # In a folder of another's, a link is where the journal would be.
        others = f"{folder}/others"
        os.symlink(others, path + ending)
        connection = ours(path)
        fails("unable to open", lambda: connection.execute("insert into t values(2)"))
        connection.close()
        assert not os.path.exists(others)
        os.unlink(path + ending)
        connection = ours(path)
        assert ask(connection, "select count(*) from t") == 1
        connection.close()
    # A database may be reached by one.
    os.symlink(f"{folder}/wal.db", f"{folder}/link.db")
    connection = ours(f"{folder}/link.db")
    assert ask(connection, "select count(*) from t") == 1
    connection.close()


def all_databases_of_a_process_have_one_budget_and_settings_by_name(folder):
    load()  # with MILLPOND_SQLITE=memory=24M
    first = ours(f"{folder}/first.db")
    assert ask(first, "pragma millpond=memory") == "24M"
    second = ours(f"{folder}/second.db", "&memory=12M&dirty.background=20%25")
    assert ask(first, "pragma millpond=memory") == "12M"
    assert ask(first, "pragma millpond('dirty.background')") == "20%"
    second.execute("pragma millpond='memory=16M'")
    assert ask(first, "pragma millpond=memory") == "16M"
    assert "\nnr_dirty " in ask(first, "pragma millpond")
    fails("allowed is", lambda: first.execute("pragma millpond='dirty.background=900%'"))
    fails("no.such", lambda: first.execute("pragma millpond='no.such=1'"))
    fails("unable to open", lambda: ours(f"{folder}/third.db", "&memory=1"))
    # SQLite's own cache is small, and pages are lent to it.
    assert ask(first, "pragma cache_size") == -512
    assert ask(first, "pragma mmap_size") > 0
    assert ask(first, "pragma journal_mode=wal") == "wal"
    first.execute("create table t(a)")
    first.execute("insert into t values(randomblob(3000))")
    first.execute("pragma wal_checkpoint")

    def requests():
        return int(ask(first, "pragma millpond").split("page_requests ")[1].split()[0])

    before = requests()
    for _ in range(100):
        ask(first, "select length(a) from t")
    assert requests() >= before + 100
    assert os.path.exists(f"{folder}/first.db-wal") and not os.path.exists(f"{folder}/first.db-shm")


def settings_of_a_uri_count_when_the_database_is_opened_and_no_more(folder):
    load()
    connection = ours(f"{folder}/data.db", "&memory=12M")
    connection.execute("create table t(a)")
    connection.execute("pragma millpond='memory=16M'")
    for _ in range(3):
        connection.execute("insert into t values(1)")  # opens a journal
    assert ask(connection, "pragma millpond=memory") == "16M"
    connection.close()


def it_can_be_the_vfs_of_every_database(folder):
    load()  # with MILLPOND_SQLITE=default=1
    connection = sqlite3.connect(f"{folder}/data.db")
    assert "nr_dirty " in ask(connection, "pragma millpond")
    connection.execute("create table t(a)")
    connection.commit()
    connection.close()
    memory = sqlite3.connect(":memory:")
    memory.execute("create table t(a)")
