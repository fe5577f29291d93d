"""What a forked child has of its parent's databases."""

import os
import sqlite3

from common import MODES, ask, check, fails, is_root, load, ours, plain, reader_of


def a_forked_child_has_a_cache_of_its_own(folder):
    load()
    connection = ours(f"{folder}/parent.db")
    connection.execute("create table t(a)")
    child = os.fork()
    if child == 0:
        own = ours(f"{folder}/child.db", timeout=0)
        own.execute("create table t(a)")
        taken = ours(f"{folder}/parent.db", timeout=0)
        try:
            taken.execute("select * from t")
        except sqlite3.OperationalError as error:
            os._exit(0 if "locked" in str(error) else 1)
        os._exit(2)
    assert os.waitpid(child, 0)[1] == 0
    connection.execute("insert into t values(1)")
    check(connection)
    connection.close()
    late = plain(f"{folder}/parent.db", timeout=0)
    assert ask(late, "select count(*) from t") == 1
    check(late)
    check(plain(f"{folder}/child.db"))


def a_forked_child_that_closes_its_parents_connections_takes_nothing_from_the_parent(folder):
    load()
    for mode in MODES:
        path = f"{folder}/{mode}.db"
        connection = ours(path)
        connection.execute(f"pragma journal_mode={mode}")
        connection.execute("pragma synchronous=full")
        connection.execute("create table t(a)")
        # A WAL that holds nothing new is what the last connection deletes.
        connection.execute("pragma wal_checkpoint")
        busy = ours(f"{folder}/busy-{mode}.db")
        busy.execute(f"pragma journal_mode={mode}")
        busy.execute("create table t(a)")
        busy.execute("begin immediate")
        busy.execute("insert into t values(1)")
        before = sorted(os.listdir(folder))
        child = os.fork()
        if child == 0:
            try:
                fails("", lambda: connection.execute("insert into t values(7)"))
                fails("", lambda: connection.execute("select * from t").fetchall())
                fails("", lambda: busy.execute("commit"))
            except AssertionError:
                os._exit(1)
            for each in (connection, busy):
                each.close()
            os._exit(0 if sorted(os.listdir(folder)) == before else 2)
        assert os.waitpid(child, 0)[1] == 0
        busy.execute("commit")
        connection.execute("insert into t values(1)")
        # What is synced is in the files that have the names.
        copies = f"{folder}/copies-{mode}"
        os.mkdir(copies)
        for name in os.listdir(folder):
            if name.startswith((f"{mode}.db", f"busy-{mode}.db")):
                open(f"{copies}/{name}", "wb").write(open(f"{folder}/{name}", "rb").read())
        for name in (f"{mode}.db", f"busy-{mode}.db"):
            copy = plain(f"{copies}/{name}")
            check(copy)
            assert ask(copy, "select count(*) from t") == 1, (mode, name)
            copy.close()
        connection.close()
        busy.close()


def a_forked_child_that_closes_a_database_for_reading_leaves_its_parents_lock(folder):
    if not is_root("a database that may only be read"):
        return
    path = f"{folder}/data.db"
    reader = reader_of(
        path,
        """
ask(connection, "select count(*) from t")
child = os.fork()
connection.close() if child == 0 else None
os._exit(0) if child == 0 else os.waitpid(child, 0)
print("closed in the child", flush=True)
sys.stdin.readline()
""",
    )
    assert reader.stdout.readline() == "closed in the child\n"
    beside = plain(path, timeout=0)
    fails("database is locked", lambda: beside.execute("insert into t values(1)"))
    reader.communicate("go\n", timeout=60)
    beside.execute("insert into t values(1)")
