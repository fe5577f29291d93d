"""Who may have a database at a time."""

import os
import random
import threading
import time

from common import MODES, answer, ask, check, fails, is_root, load, other, ours, plain, read_only, reader_of


def each_vfs_reads_what_the_other_wrote(folder):
    load()
    for mode in MODES:
        for size in [1024, 4096, 16384]:
            path = f"{folder}/{mode}{size}.db"
            rows = 0
            for turn in range(4):
                connection = (ours if turn % 2 else plain)(path)
                connection.execute(f"pragma page_size={size}")
                assert ask(connection, f"pragma journal_mode={mode}") == mode
                connection.execute("create table if not exists t(a integer primary key, b blob)")
                assert ask(connection, "select count(*) from t") == rows
                connection.execute("begin")
                for _ in range(200):
                    connection.execute("insert into t(b) values(randomblob(300))")
                    rows += 1
                connection.execute("commit")
                connection.execute("update t set b=randomblob(400) where a%7=?", (turn,))
                check(connection)
                connection.close()
            assert sorted(os.listdir(folder)) == sorted(
                name for name in os.listdir(folder) if not name.endswith(("-wal", "-shm"))
            )


def a_database_is_one_processs_and_others_are_busy(folder):
    load()
    read = """
connection = plain(sys.argv[2], timeout=0)
print(attempt(lambda: ask(connection, "select count(*) from t")))
"""
    write = """
connection = plain(sys.argv[2], timeout=0)
print(attempt(lambda: connection.execute("insert into t values(1)").rowcount))
"""
    same = """
load()
connection = ours(sys.argv[2], timeout=0)
print(attempt(lambda: ask(connection, "select count(*) from t")))
"""
    locked = "database is locked"
    for mode in ["delete", "wal"]:
        path = f"{folder}/{mode}.db"
        connection = plain(path)
        connection.execute(f"pragma journal_mode={mode}")
        connection.execute("create table t(a)")
        connection.close()

        # Ours is open, and idle: all others wait.
        connection = ours(path)
        assert ask(connection, "select count(*) from t") == 0
        assert [answer(code, path) for code in (read, write, same)] == [locked] * 3
        beside = plain(path, timeout=0)
        fails(locked, lambda: beside.execute("select count(*) from t").fetchone())
        beside.close()
        assert [answer(code, path) for code in (read, write, same)] == [locked] * 3
        second = ours(path)
        assert ask(second, "select count(*) from t") == 0
        connection.close()
        assert answer(read, path) == locked
        second.close()
        assert [answer(code, path) for code in (read, write, same)] == ["0", "1", "1"]

        # Another has it: ours waits.
        beside = plain(path, timeout=0)
        beside.execute("begin")
        assert ask(beside, "select count(*) from t") == 1
        late = ours(path, timeout=0)
        fails(locked, lambda: late.execute("select count(*) from t").fetchone())
        beside.execute("commit")
        if mode == "delete":  # without a WAL an idle connection has no lock
            assert ask(late, "select count(*) from t") == 1
            fails(locked, lambda: beside.execute("select count(*) from t").fetchone())
        else:
            fails(locked, lambda: late.execute("select count(*) from t").fetchone())
            beside.close()
            assert ask(late, "select count(*) from t") == 1
        late.close()

        # What the other has written meanwhile is seen, and a wait ends when the other does.
        holder = other(
            """
connection = plain(sys.argv[2])
connection.execute("begin exclusive")
connection.execute("insert into t values(2)")
print("held", flush=True)
sys.stdin.readline()
connection.execute("commit")
connection.close()
""",
            path,
        )
        assert holder.stdout.readline() == "held\n"
        patient = ours(path, timeout=60)
        threading.Timer(0.3, lambda: holder.communicate("go\n")).start()
        assert ask(patient, "select count(*) from t") == 2
        check(patient)
        patient.close()


def threads_with_connections_of_their_own_see_whole_transactions(folder):
    load()
    accounts, start = 2000, 100
    for mode in ["delete", "wal"]:
        path = f"{folder}/{mode}.db"
        connection = ours(path, "&memory=4M")
        connection.execute(f"pragma journal_mode={mode}")
        connection.execute("pragma synchronous=normal")
        connection.execute("create table t(n integer primary key, amount integer, pad blob)")
        connection.execute("begin")
        for n in range(accounts):
            connection.execute("insert into t values(?, ?, randomblob(2500))", (n, start))
        connection.execute("commit")  # more than the budget
        end = time.monotonic() + float(os.environ.get("MILLPOND_SECONDS", "2.5"))
        wrong, reads, writes = [], [], []

        def transfer(seed):
            draw = random.Random(seed)
            own = ours(path, timeout=60)
            done = 0
            while (done == 0 or time.monotonic() < end) and not wrong:
                own.execute("begin immediate")
                for _ in range(draw.randrange(1, 5)):
                    amount = draw.randrange(10)
                    own.execute("update t set amount=amount-? where n=?", (amount, draw.randrange(accounts)))
                    own.execute("update t set amount=amount+? where n=?", (amount, draw.randrange(accounts)))
                own.execute("rollback" if draw.random() < 0.2 else "commit")
                done += 1
            own.close()
            writes.append(done)

        def sum_up(seed):
            own, done = ours(path, timeout=60), 0
            while (done == 0 or time.monotonic() < end) and not wrong:
                total = ask(own, "select sum(amount) from t")
                if total != accounts * start:
                    wrong.append(total)
                done += 1
            own.close()
            reads.append(done)

        def point(seed):
            draw = random.Random(seed)
            own, done = ours(path, timeout=60), 0
            while (done == 0 or time.monotonic() < end) and not wrong:
                own.execute("select pad from t where n=?", (draw.randrange(accounts),)).fetchone()
                done += 1
            own.close()
            reads.append(done)

        def guarded(work, seed):
            try:
                work(seed)
            except Exception as error:
                wrong.append(error)

        work = [transfer, transfer, sum_up, point]
        threads = [threading.Thread(target=guarded, args=(call, n)) for n, call in enumerate(work)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert not wrong, wrong
        assert min(reads + writes) > 0, (reads, writes)
        check(connection)
        assert ask(connection, "select sum(amount) from t") == accounts * start
        connection.close()
        connection = plain(path)
        check(connection)
        assert ask(connection, "select sum(amount) from t") == accounts * start
        connection.close()


def a_database_that_may_only_be_read_keeps_writers_out_while_it_is_open(folder):
    if not is_root("a database that may only be read"):
        return
    path = f"{folder}/data.db"
    reader = reader_of(
        path,
        """
print(ask(connection, "select count(*) from t"), flush=True)
sys.stdin.readline()
print(attempt(lambda: connection.execute("insert into t values(1)")), flush=True)
connection.close()
""",
    )
    assert reader.stdout.readline() == "0\n"
    beside = plain(path, timeout=0)
    assert ask(beside, "select count(*) from t") == 0
    fails("database is locked", lambda: beside.execute("insert into t values(1)"))
    said, _ = reader.communicate("go\n", timeout=60)
    assert said == "attempt to write a readonly database\n", said
    beside.execute("insert into t values(1)")


def a_wal_that_may_only_be_read_is_refused_in_every_locking_mode(folder):
    if not is_root("a database that may only be read"):
        return
    path = f"{folder}/data.db"
    connection = read_only(path, "wal")
    said = answer(
        """
load_and_give_up_writing()
for locking in ["normal", "exclusive"]:
    connection = sqlite3.connect("file::memory:", uri=True, isolation_level=None)
    connection.execute(f"pragma locking_mode={locking}")  # of what is attached from now on
    print(attempt(lambda: connection.execute("attach ? as x", (f"file:{sys.argv[2]}?vfs=millpond",))))
""",
        path,
    )
    refused = ["unable to open database", "attempt to write a readonly database"]
    lines = said.splitlines()
    assert len(lines) == 2 and all(line.startswith(text) for line, text in zip(lines, refused)), said
    connection.close()
