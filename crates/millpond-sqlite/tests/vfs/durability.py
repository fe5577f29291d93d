"""What is left after a kill and on a disk that fails."""

import os
import random
import sqlite3
import threading
import time

from common import ask, check, fails, load, other, ours, plain


WRITER = """
load()
vfs, path, mode, seed = sys.argv[2:6]
random.seed(int(seed))
connection = (ours if vfs == "ours" else plain)(path, timeout=60)
connection.execute(f"pragma journal_mode={mode}")
connection.execute("pragma synchronous=full")
connection.execute("pragma wal_autocheckpoint=50")
connection.execute("create table if not exists t(n integer primary key, b blob)")
n = ask(connection, "select coalesce(max(n), 0) from t")
while True:
    connection.execute("begin")
    for _ in range(random.randrange(1, 20)):
        n += 1
        connection.execute("insert into t values(?, randomblob(?))", (n, random.randrange(2000)))
    connection.execute("update t set b=randomblob(100) where n in (select n from t order by random() limit 5)")
    connection.execute("commit")
    print(n, flush=True)
"""


def committed_transactions_survive_a_kill(folder):
    load()
    for mode in ["delete", "wal"]:
        path = f"{folder}/{mode}.db"
        for kill in range(int(os.environ.get("MILLPOND_KILLS", "5"))):
            writer = other(WRITER, "ours", path, mode, kill)
            committed = int(writer.stdout.readline())
            time.sleep(random.random() / 2)
            writer.kill()
            for line in writer.stdout.read().splitlines()[:-1]:
                committed = int(line)
            writer.wait()
            connection = (plain, ours)[kill % 2](path, timeout=60)
            check(connection)
            there = ask(connection, "select count(*) from t")
            assert there >= committed and there == ask(connection, "select max(n) from t"), (there, committed)
            connection.close()


def a_disk_that_fails_is_an_error_and_what_was_committed_stays(folder):
    load()  # with MILLPOND_SQLITE=faults=1
    for mode in ["delete", "wal"]:
        path = f"{folder}/{mode}.db"
        connection = ours(path)
        connection.execute(f"pragma journal_mode={mode}")
        connection.execute("create table t(a integer primary key, b blob)")
        connection.execute("insert into t(b) values(randomblob(5000))")
        for fault, error in [
            ("writes:28", "database or disk is full"),
            ("writes:5", "disk I/O error"),
            ("syncs:5:1", "disk I/O error"),
        ]:
            before = ask(connection, "select count(*) from t")
            connection.execute(f"pragma millpond='faults={fault}'")
            fails(error, lambda: connection.execute("insert into t(b) values(randomblob(50000))"))
            connection.execute("pragma millpond=faults")  # the disk was mended
            connection.close()
            connection = ours(path)
            check(connection)
            after = ask(connection, "select count(*) from t")
            # Of a commit whose WAL could not be made durable SQLite does not know: what of it is there may count.
            unknown = mode == "wal" and fault.startswith("syncs")
            assert after in (before, before + unknown), (mode, fault, before, after)
            connection.execute("insert into t(b) values(randomblob(50000))")
        connection.close()
        beside = ours(f"{folder}/beside.db")
        beside.execute("pragma millpond='faults=reads:5'")
        fails("disk I/O error", lambda: ours(path))
        beside.execute("pragma millpond=faults")
        beside.close()
        connection = ours(path)
        check(connection)
        fails("is not a fault", lambda: connection.execute("pragma millpond='faults=cables:5'"))
        connection.close()


def threads_on_a_disk_that_fails_now_and_then_lose_nothing_that_was_committed(folder):
    load()  # with MILLPOND_SQLITE=faults=1
    for mode in ["delete", "wal"]:
        path = f"{folder}/{mode}.db"
        connection = ours(path, "&memory=4M", timeout=60)
        connection.execute(f"pragma journal_mode={mode}")
        connection.execute("pragma synchronous=full")
        connection.execute("create table t(n integer primary key, b blob)")
        committed, ends, wrong = [[], []], threading.Event(), []

        def insert(own, n):
            try:
                own.execute("insert into t values(?, randomblob(5000))", (n,))
                committed[n % 2].append(n)
            except sqlite3.OperationalError as error:
                if not any(text in str(error) for text in ["disk I/O error", "is full"]):
                    wrong.append(error)
                if own.in_transaction:
                    own.execute("rollback")

        def work(n):
            own = ours(path, timeout=60)
            while not ends.is_set():
                n += 2
                insert(own, n)
            own.close()

        connection.execute("insert into t values(0, randomblob(5000))")
        committed[0].append(0)
        threads = [threading.Thread(target=work, args=(n,)) for n in range(2)]
        for thread in threads:
            thread.start()
        for fault in ["writes:5", "reads:5", "writes:28", "syncs:5:1"]:
            time.sleep(0.1)
            connection.execute(f"pragma millpond='faults={fault}'")
            time.sleep(0.05)
            connection.execute("pragma millpond=faults")  # the disk was mended
        ends.set()
        for thread in threads:
            thread.join()
        connection.close()
        assert not wrong, wrong
        connection = plain(path, timeout=60)
        check(connection)
        there = {n for (n,) in connection.execute("select n from t")}
        lost = [n for each in committed for n in each if n not in there]
        assert not lost and there, (mode, lost)
        connection.close()
